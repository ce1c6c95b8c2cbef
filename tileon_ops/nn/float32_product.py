"""float32 activations times a weight in a block format, for layers whose activations are not quantized.

`block_scaled_matmul` takes an `a` of 16 bits alone. Rounding float32 activations to 16 bits would lose what their owner
keeps on purpose, so the weight becomes float32 instead, and `matmul` multiplies as it does any float32 operands.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tileon_ops.ops.dense import matmul
from tileon_ops.ops.quantization import dequantize


def float32_product(
    rows: Tensor, data: Tensor, scale: Tensor, global_scale: Tensor | None, format: str, *, transposed: bool = False
) -> Tensor:
    """rows @ weight^T, or rows @ weight where `transposed`, of a weight (n, k); differentiable in `rows`."""
    function = _Product if torch.compiler.is_compiling() else _ProductWithTangents
    product: Tensor = function.apply(rows, data, scale, global_scale, format, transposed)
    return product


class _Product(torch.autograd.Function):
    """The weight is decoded for the call alone.

    A graph that held the decoded weight until its backward pass would take 4 bytes an element, and the layer is there
    to take one or half of one. So the backward pass decodes it again. Each of the two products is the other's gradient.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        rows: Tensor, data: Tensor, scale: Tensor, global_scale: Tensor | None, format: str, transposed: bool
    ) -> Tensor:
        weight = dequantize(data, scale, format, global_scale)
        return matmul(rows, weight if transposed else weight.t())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, data, scale, global_scale, ctx.format, ctx.transposed = inputs
        ctx.save_for_backward(data, scale, global_scale)
        ctx.save_for_forward(data, scale, global_scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        data, scale, global_scale = ctx.saved_tensors
        product = float32_product(grad, data, scale, global_scale, ctx.format, transposed=not ctx.transposed)
        return product, None, None, None, None, None


class _ProductWithTangents(_Product):
    """With forward mode, which torch's compiler does not take in a function of one's own."""

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        data, scale, global_scale = ctx.saved_tensors
        return float32_product(tangent, data, scale, global_scale, ctx.format, transposed=ctx.transposed)
