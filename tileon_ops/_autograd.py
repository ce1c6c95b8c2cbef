"""Gradients of tileon::matmul. They are made of the op itself and of torch's own, so they can be differentiated again.

With z = a @ b + bias and y = activation(z): grad_z = grad_y * activation'(z), grad_a = grad_z @ b^T,
grad_b = a^T @ grad_z, grad_bias = the sum of grad_z over the rows. An operand that a batch shares gets the sum over the
batch, which is one longer product. Each gradient has its operand's dtype; where the operands have 16 bits and y has 32,
grad_z is rounded to the operands' dtype before the products, so that they run on the forward product's kernels.
No gradient flows through fp8 operands: one that requires grad is refused before anything is computed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_aten = torch.ops.aten
_library = torch.library.Library("tileon", "IMPL")

_FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


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


class _Matmul(torch.autograd.Function):
    """The product, and what its gradients need of it. `keyset` and `options` are as _autograd has them."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, bias: Tensor | None, keyset: Any, options: dict[str, Any]) -> Tensor:
        output = _below_autograd(keyset, a, b, bias, options)
        activation, slope = options.get("activation", "none"), options.get("slope", 0.01)
        # relu and leaky_relu keep the sign of what they take, so the output says enough; the others compute z again.
        ctx.from_output = activation == "relu" or (activation == "leaky_relu" and slope >= 0)
        ctx.save_for_backward(a, b, bias, output if ctx.from_output else None)
        ctx.activation, ctx.slope, ctx.out_dtype = activation, slope, output.dtype
        ctx.precision = {name: options.get(name, False) for name in ("allow_tf32", "fast_accum")}
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, b, bias, y = ctx.saved_tensors
        grad_z = _through_activation(ctx, grad, a, b, bias, y)
        grad_a = grad_b = grad_bias = None
        needs_a, needs_b, needs_bias = ctx.needs_input_grad[:3]
        if needs_a or needs_b:
            grad_product = grad_z.to(a.dtype)
            grad_a = _grad_a(ctx, grad_product, a, b) if needs_a else None
            grad_b = _grad_b(ctx, grad_product, a, b) if needs_b else None
        if bias is not None and needs_bias:
            grad_bias = grad_z.sum(tuple(range(grad_z.dim() - 1)), dtype=bias.dtype)
        return grad_a, grad_b, grad_bias, None, None


def _below_autograd(keyset: Any, a: Tensor, b: Tensor, bias: Tensor | None, options: dict[str, Any]) -> Tensor:
    with torch._C._AutoDispatchBelowAutograd():
        keys = keyset & torch._C._after_autograd_keyset
        result: Tensor = torch.ops.tileon.matmul.default.redispatch(keys, a, b, bias, **options)
    return result


def _autograd(keyset: Any, a: Tensor, b: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
    """The kernel on the Autograd key; `keyset` is what the dispatcher calls it with. It leaves defaults out."""
    if not torch._C.is_grad_enabled() or not torch._C._any_requires_grad(a, b, bias):
        return _below_autograd(keyset, a, b, bias, options)
    for name, operand in (("a", a), ("b", b)):
        if operand.requires_grad and operand.dtype in _FLOAT8:
            raise RuntimeError(f"matmul: `{name}` requires grad, and no gradient flows through fp8 operands")
    result: Tensor = _Matmul.apply(a, b, bias, keyset, options)
    return result


def register() -> None:
    _library.impl("matmul", _autograd, "Autograd", with_keyset=True)
