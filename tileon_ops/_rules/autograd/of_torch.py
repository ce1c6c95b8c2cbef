"""A recorded product of float32 or float64 on the CPU by torch's own ops, whose nodes are in C++.

A node in Python takes some 25 us forward and backward, several times what a small product takes; a large one is ATen's
product either way, but where this library's tiles are faster by more than the node takes (csrc/cpu/choice.h). torch's
ops compute what the op promises: sums, bias and activation in the operands' dtype, gradients as often differentiated as
wanted. These lie as torch's do: as their operands where those have no gaps, else in rows. A small product that is not
recorded goes by tiles, which add its terms in another order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from tileon_ops._rules.torch_private import (
    count_dispatch_modes,
    count_function_modes,
    fp32_precision,
    peek_interpreter_stack,
    without_overhead,
)

_begin = without_overhead(torch.ops.tileon._begin_product_of_torch.default)
_is_of_aten = without_overhead(torch.ops.tileon._is_product_of_aten.default)
_linear = torch.nn.functional.linear
_leaky_relu = torch.nn.functional.leaky_relu

_PLAIN_TENSORS = (Tensor, torch.nn.Parameter)
_DTYPES = (torch.float32, torch.float64)
_WORTH_A_NODE = 4e6  # multiplications: by tiles they may take 20 us less, and so may those of each gradient
_ACTIVATIONS = ("none", "relu", "leaky_relu")  # those that torch's nodes differentiate by what the op keeps


def _is_ieee(dtype: torch.dtype) -> bool:
    """Whether torch's products must not round their operands."""
    return dtype is torch.float64 or (
        torch.get_float32_matmul_precision() == "highest" and fp32_precision("mkldnn", "matmul") in ("none", "ieee")
    )


def _is_plain(x: Tensor, dtype: torch.dtype) -> bool:
    return x.dtype is dtype and type(x) in _PLAIN_TENSORS and x.is_cpu


def _takes(a: Tensor, b: Tensor, bias: Tensor | None, options: dict[str, Any]) -> bool:
    dtype = a.dtype
    return (
        dtype in _DTYPES
        and _is_plain(a, dtype)
        and _is_plain(b, dtype)
        and b.dim() == 2
        and a.dim() in (2, 3)
        and a.shape[-1] == b.shape[0]
        and (bias is None or (_is_plain(bias, dtype) and bias.shape == b.shape[1:]))
        and "out_dtype" not in options
        and options.get("activation", "none") in _ACTIVATIONS
        and 0.0 <= options.get("slope", 0.01) <= 1.0
        and _is_ieee(dtype)
        # nobody looks on who shall see the op
        and forward_ad._current_level < 0
        and peek_interpreter_stack() is None
        and not count_function_modes()
        and not count_dispatch_modes()
        and (a.numel() * b.shape[1] < _WORTH_A_NODE or _is_of_aten(a, b))
        and _begin()
    )


def record(a: Tensor, b: Tensor, bias: Tensor | None, options: dict[str, Any]) -> Tensor | None:
    """The op's result with torch's nodes in the graph, or None where the op has to record it itself."""
    if not _takes(a, b, bias, options):
        return None
    result = torch.mm(a, b) if a.dim() == 2 else _linear(a, b.t())
    if bias is not None:  # added once: torch.addmm may begin its sums with it, and round it k times
        result.add_(bias)
    activation = options.get("activation", "none")
    if activation == "none":
        return result
    return torch.relu(result) if activation == "relu" else _leaky_relu(result, options.get("slope", 0.01))
