"""What weight_only_kernel.py does, by torch's public interfaces, for a torch that lacks a name which that one takes.

As public.py: backward passes are torch.library.register_autograd's; under torch.func's gradients and in forward mode
the products are torch.matmul's, in float32, of an operand decoded as a whole, which the graph then holds.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tileon_ops._rules.activations import activate
from tileon_ops._rules.autograd import no_grad, torch_library
from tileon_ops._rules.autograd.decoding import decoded
from tileon_ops._rules.autograd.gradients import Call, needs_z
from tileon_ops._rules.autograd.public import has_tangent, is_transformed
from tileon_ops._rules.autograd.weight_only import (
    BACKWARD,
    OP,
    gradients,
    product,
    refuse_of_constants,
    without_activation,
)
from tileon_ops._rules.fake.block_scaled import check_block_scaled


def _scaled(sums: Tensor, global_scale: Tensor | None) -> Tensor:
    return sums if global_scale is None else sums * global_scale


def _product_by_torch(
    a: Tensor,
    b: Tensor,
    scale_b: Tensor,
    bias: Tensor | None,
    global_scale: Tensor | None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    **options: Any,
) -> Tensor:
    """The op, of torch's own ones."""
    _, dtype = check_block_scaled(a, b, None, scale_b, bias, global_scale, activation, out_dtype)
    z = _scaled(torch.matmul(a.float(), decoded(b, scale_b, 0, b.shape[0]).mT), global_scale)
    y = activate(z if bias is None else z + bias.float(), activation, slope)
    if dtype.itemsize == 1:  # which saturates, as the op does
        y = y.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)
    return y.to(dtype)


def _around_product(torchs: torch_library.Kernel) -> torch_library.Kernel:
    names = no_grad.names_of(OP)

    def kernel(keyset: Any, *arguments: Any, **options: Any) -> Any:
        if arguments[2] is not None:
            no_grad.refuse(OP, {**dict(zip(names, arguments, strict=False)), **options})
            return torchs(keyset, *arguments, **options)
        a, b, _, scale_b, bias, global_scale = (*arguments, None, None)[:6]
        refuse_of_constants(OP, b, scale_b, global_scale)
        if is_transformed(a, bias) or has_tangent(a, bias):
            return _product_by_torch(a, b, scale_b, bias, global_scale, **options)
        return torchs(keyset, *arguments, **options)

    return kernel


def _set_up_product(ctx: Any, inputs: Any, keyword_only_inputs: dict[str, Any], output: Tensor) -> None:
    a, b, _, scale_b, bias, global_scale = inputs
    wants_a, wants_bias = ctx.wanted = ctx.needs_input_grad[0], bias is not None and ctx.needs_input_grad[4]
    computes_z = needs_z(keyword_only_inputs)
    ctx.call = Call(keyword_only_inputs, computes_z, a.dtype, bias.dtype if wants_bias else None)
    ctx.out_dtype = output.dtype
    ctx.save_for_backward(
        a if computes_z else None,
        bias if computes_z else None,
        *((b, scale_b, global_scale) if computes_z or wants_a else (None, None, None)),
        None if computes_z or keyword_only_inputs["activation"] == "none" else output,
    )


def _backward_of_product(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    a, bias, *constants, kept = ctx.saved_tensors
    call: Call = ctx.call
    if call.keeps_z:
        b, scale_b, global_scale = constants
        kept = product(a, b, scale_b, bias, global_scale, without_activation(call.options, ctx.out_dtype))
    is_differentiated = torch.is_grad_enabled() or has_tangent(grad, a, bias, kept)
    grad_a, grad_bias = gradients(call, grad, kept, tuple(constants), ctx.wanted, is_differentiated)
    return grad_a, None, None, None, grad_bias, None


def _around_backward(torchs: torch_library.Kernel) -> torch_library.Kernel:
    def kernel(keyset: Any, *arguments: Any) -> Any:
        grad, b, scale_b, global_scale = (*arguments, None)[:4]
        refuse_of_constants(BACKWARD, b, scale_b, global_scale)
        if is_transformed(grad) or has_tangent(grad):
            values = decoded(b, scale_b, 0, b.shape[0])
            return _scaled(torch.matmul(grad.float(), values), global_scale).to(grad.dtype)
        return torchs(keyset, *arguments)

    return kernel


def _set_up_backward(ctx: Any, inputs: Any, output: Tensor) -> None:
    _, b, scale_b, global_scale = inputs
    ctx.save_for_backward(b, scale_b, global_scale)


def _backward_of_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    b, scale_b, global_scale = ctx.saved_tensors
    return product(grad, b, scale_b, None, global_scale, {}), None, None, None


def register() -> None:
    torch_library.register(OP, _around_product, _backward_of_product, _set_up_product)
    torch_library.register(BACKWARD, _around_backward, _backward_of_backward, _set_up_backward)
