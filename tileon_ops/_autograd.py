"""Gradients of tileon::matmul. They are made of the op itself and of torch's own, so they can be differentiated again.

With z = a @ b + bias and y = activation(z): grad_z = grad_y * activation'(z), grad_a = grad_z @ b^T,
grad_b = a^T @ grad_z, grad_bias = the sum of grad_z over the rows. An operand that a batch shares gets the sum over the
batch, which is one longer product. Each gradient has its operand's dtype; where the operands have 16 bits and y has 32,
grad_z is rounded to the operands' dtype before the products, so that they run on the forward product's kernels.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten


def _setup_context(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: Tensor) -> None:
    a, b, bias = inputs
    activation, slope = keyword_only_inputs["activation"], keyword_only_inputs["slope"]
    # relu and leaky_relu keep the sign of what they take, so the output says enough; the others compute z again.
    ctx.from_output = activation == "relu" or (activation == "leaky_relu" and slope >= 0)
    ctx.save_for_backward(a, b, bias, output if ctx.from_output else None)
    ctx.activation, ctx.slope, ctx.out_dtype = activation, slope, output.dtype
    ctx.precision = {"allow_tf32": keyword_only_inputs["allow_tf32"], "fast_accum": keyword_only_inputs["fast_accum"]}


def _through_activation(ctx: Any, grad: Tensor, a: Tensor, b: Tensor, bias: Tensor | None, y: Tensor | None) -> Tensor:
    """grad * activation'(z), in the output's dtype. At z = 0 it is torch's: 0 for relu, slope for leaky_relu."""
    if ctx.activation == "none":
        return grad
    if ctx.from_output:
        if ctx.activation == "relu":
            return _aten.threshold_backward(grad, y, 0)
        return _aten.leaky_relu_backward(grad, y, ctx.slope, True)
    z = torch.ops.tileon.matmul(a, b, bias, out_dtype=ctx.out_dtype, **ctx.precision)
    if ctx.activation == "leaky_relu":  # a negative slope: y does not tell the sign of z
        return _aten.leaky_relu_backward(grad, z, ctx.slope, False)
    if ctx.activation == "silu":
        if not torch.is_grad_enabled():
            return _aten.silu_backward(grad, z)
        sigmoid = z.sigmoid()  # torch's kernel has no gradient of its own
        return grad * (sigmoid * (1 + z * (1 - sigmoid)))
    return _aten.gelu_backward(grad, z, approximate="tanh" if ctx.activation == "gelu_tanh" else "none")


def _is_shared(operand: Tensor) -> bool:
    return operand.dim() == 2 or operand.shape[0] == 1


def _grad_a(ctx: Any, grad: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """grad @ b^T, in the shape of a."""
    if grad.dim() == 2 or not _is_shared(a):
        return torch.ops.tileon.matmul(grad, b.mT, **ctx.precision)
    batch, m, n = grad.shape  # sum over i of grad[i] @ b[i]^T: one product whose inner dimension is (batch, n)
    k = a.shape[-1]
    rows = grad.transpose(0, 1).reshape(m, batch * n)
    columns = b.mT.expand(batch, n, k).reshape(batch * n, k)
    return torch.ops.tileon.matmul(rows, columns, **ctx.precision).view(a.shape)


def _grad_b(ctx: Any, grad: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a^T @ grad, in the shape of b."""
    if grad.dim() == 2 or not _is_shared(b):
        return torch.ops.tileon.matmul(a.mT, grad, **ctx.precision)
    batch, m, n = grad.shape  # sum over i of a[i]^T @ grad[i]: one product whose inner dimension is (batch, m)
    k = a.shape[-1]
    rows = a.expand(batch, m, k).reshape(batch * m, k)
    return torch.ops.tileon.matmul(rows.mT, grad.reshape(batch * m, n), **ctx.precision).view(b.shape)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    a, b, bias, y = ctx.saved_tensors
    grad_z = _through_activation(ctx, grad, a, b, bias, y)
    grad_a = grad_b = grad_bias = None
    needs_a, needs_b = ctx.needs_input_grad[:2]
    if needs_a or needs_b:
        grad_product = grad_z.to(a.dtype)
        grad_a = _grad_a(ctx, grad_product, a, b) if needs_a else None
        grad_b = _grad_b(ctx, grad_product, a, b) if needs_b else None
    if bias is not None and ctx.needs_input_grad[2]:
        grad_bias = grad_z.sum(tuple(range(grad_z.dim() - 1)), dtype=bias.dtype)
    return grad_a, grad_b, grad_bias


def register() -> None:
    torch.library.register_autograd("tileon::matmul", _backward, setup_context=_setup_context)
