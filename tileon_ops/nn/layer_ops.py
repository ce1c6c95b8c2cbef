"""The ops that a `BlockScaledLinear` calls: as anybody does, or past autograd and autocast where these have no say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tileon_ops._rules import torch_private


class LayerOps(NamedTuple):
    quantize: Callable[..., Any]
    quantize_rows: Callable[..., Any]  # of nvfp4, with a global scale for each
    multiply: Callable[..., Any]
    linear: Callable[..., Any]  # the work of both, where the result has the rows' dtype


# Registered when tileon_ops is imported. The overloads by name: a packet has to search for the right one at every call.
OPS = LayerOps(
    torch.ops.tileon.quantize.default,
    torch.ops.tileon._quantize_nvfp4_rows.default,
    torch.ops.tileon.block_scaled_matmul.default,
    torch.ops.tileon._quantized_linear.default,
)

# A function of the ops, rows of numbers, and the dtype of the result.
Product = Callable[[LayerOps, Tensor, torch.dtype], Tensor]


def is_below(*tensors: Tensor | None) -> bool:
    """Whether `call_below` does for these tensors what a call with OPS does."""
    return False


def is_watched() -> bool:
    """Whether a dispatch mode looks at each op: then `linear` does not stand for the others."""
    return True


def call_below(product: Product, rows: Tensor, dtype: torch.dtype) -> Tensor:
    """`product` by the ops' kernels below autograd."""
    return product(OPS, rows, dtype)


if torch_private.shortcut.is_whole:
    from tileon_ops._rules.autograd import shortcut
    from tileon_ops._rules.autograd.shortcut import is_below as is_below

    def is_watched() -> bool:
        watching: int = torch_private.count_dispatch_modes()
        return watching > 0

    _below = LayerOps(*map(torch_private.without_overhead, OPS))

    def call_below(product: Product, rows: Tensor, dtype: torch.dtype) -> Tensor:
        result: Tensor = shortcut.call_below(product, _below, rows, dtype)
        return result
