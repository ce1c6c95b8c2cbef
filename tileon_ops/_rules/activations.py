"""The activations by torch's own functions: for what is not computed in a kernel of ours, and to hold one against."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def activate(x: Tensor, activation: str, slope: float) -> Tensor:
    """`activation`, one of those that the ops take, of every element; `slope` is leaky_relu's."""
    if activation == "none":
        return x
    if activation == "relu":
        return F.relu(x)
    if activation == "leaky_relu":
        return F.leaky_relu(x, slope)
    if activation == "silu":
        return F.silu(x)
    return F.gelu(x, approximate="tanh" if activation == "gelu_tanh" else "none")
