"""Gradients of tileon::matmul by torch's public interfaces, for a torch that lacks a name which kernel.py takes.

Backward passes, as often as wanted, are torch.library.register_autograd's. That knows neither torch.func's gradients
nor forward mode; there the product is torch.matmul, in float32 (float64 of float64), which is differentiable in all of
them and rounds once as the op does. It goes by torch's own setting for TF32.

What is saved is what kernel.py saves, but for z: register_autograd records what the op returns. Where the derivative
needs z, the backward pass computes it once more.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from tileon_ops._rules.activations import activate
from tileon_ops._rules.autograd import torch_library
from tileon_ops._rules.autograd.gradients import Call, Layout, needs_z, refuse_of_fp8
from tileon_ops._rules.fake.matmul import check_matmul
from tileon_ops._rules.required import check_tensors

_matmul = torch.ops.tileon.matmul.default


def has_tangent(*tensors: Tensor | None) -> bool:
    return any(tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors)


def is_transformed(*tensors: Tensor | None) -> bool:
    """Whether torch.func wraps one of them: at a level of its gradients or tangents it wraps all."""
    return any(tensor is not None and torch.func.debug_unwrap(tensor) is not tensor for tensor in tensors)


def _by_torch(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    **precision: Any,
) -> Tensor:
    """The op, of torch's own ones."""
    _, dtype = check_matmul(a, b, bias, activation, out_dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    z = torch.matmul(a.to(wide), b.to(wide))
    if bias is not None:
        z = z + bias.to(wide)
    return activate(z, activation, slope).to(dtype)


def _around(torchs: torch_library.Kernel) -> torch_library.Kernel:
    def kernel(keyset: Any, a: Tensor, b: Tensor, bias: Tensor | None = None, **options: Any) -> Any:
        check_tensors("matmul", {"a": a, "b": b})
        refuse_of_fp8(a, b)
        if is_transformed(a, b, bias) or has_tangent(a, b, bias):
            return _by_torch(a, b, bias, **options)
        return torchs(keyset, a, b, bias, **options)

    return kernel


def _setup_context(ctx: Any, inputs: Any, keyword_only_inputs: dict[str, Any], output: Tensor) -> None:
    a, b, bias = inputs
    options = keyword_only_inputs
    wants_a, wants_b, wants_bias = ctx.needs_input_grad[:3]
    keeps_operands = needs_z(options)
    kept = None if keeps_operands or options["activation"] == "none" else output
    bias_dtype = bias.dtype if wants_bias else None
    ctx.call = Call(options, keeps_operands, a.dtype, bias_dtype, Layout(a), Layout(b))
    ctx.save_for_backward(
        a if wants_b or keeps_operands else None,
        b if wants_a or keeps_operands else None,
        bias if keeps_operands else None,
        kept,
    )


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    a, b, bias, kept = ctx.saved_tensors
    call: Call = ctx.call
    if call.keeps_z:
        kept = _matmul(a, b, bias, **call.without_activation().options)
    is_differentiated = torch.is_grad_enabled() or has_tangent(grad, a, b, kept)
    return call.gradients(grad, a, b, kept, ctx.needs_input_grad[:3], is_differentiated)


def register() -> None:
    torch_library.register("matmul", _around, _backward, _setup_context)
