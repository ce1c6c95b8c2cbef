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


class Float32Product(torch.autograd.Function):
    """rows @ weight^T, or rows @ weight where `transposed`, of a weight (n, k) that is decoded for the call alone.

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
        product = Float32Product.apply(grad, *ctx.saved_tensors, ctx.format, not ctx.transposed)
        return product, None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        return Float32Product.apply(tangent, *ctx.saved_tensors, ctx.format, ctx.transposed)
