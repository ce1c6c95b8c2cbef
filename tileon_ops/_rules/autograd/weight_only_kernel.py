"""Gradients of tileon::block_scaled_matmul where `a` has no scale, and of the op that its backward pass calls.

The kernels on their Autograd keys, backward and forward, as often as wanted, under torch.func's transforms too. As
kernel.py they take names that torch does not promise; weight_only_public.py does without. The formulas, and what is
saved, are in weight_only.py.

The product and its backward op are linear in their first argument, and each is the other's transpose; so they are each
other's gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, is_grad_enabled
from torch.autograd import forward_ad

from tileon_ops._rules import torch_private
from tileon_ops._rules.autograd import no_grad
from tileon_ops._rules.autograd.below import call_below
from tileon_ops._rules.autograd.gradients import Call, needs_z
from tileon_ops._rules.autograd.kernel import has_tangents
from tileon_ops._rules.autograd.weight_only import (
    BACKWARD,
    OP,
    block_scaled_backward,
    block_scaled_matmul,
    gradients,
    product,
    refuse_of_constants,
    wide,
    without_activation,
)
from tileon_ops._rules.torch_private import any_requires_grad, peek_interpreter_stack

_library = torch.library.Library("tileon", "IMPL")


class _Linear(torch_private.SingleLevelFunction):  # type: ignore[misc]
    """What both functions share. Their tensors come first, then the keyset, options, and whether a transform runs."""

    @staticmethod
    def _compiled_autograd_key(ctx: Any) -> tuple[Any, ...]:
        """As of torch.autograd.Function, without which torch's compiled autograd fails."""
        return (ctx._autograd_function_id,)


_redispatch = torch_private.redispatch_boxed(block_scaled_matmul)
_redispatch_backward = torch_private.redispatch_boxed(block_scaled_backward)


def _below(
    redispatch: Callable[..., Any], keyset: Any, is_transformed: bool, *arguments: Any, **options: Any
) -> Tensor:
    """The op below autograd; where a transform runs, what the levels below this one record is theirs."""
    result: Tensor
    if not is_transformed:
        result = call_below(redispatch, keyset, arguments, options)
        return result
    with torch.enable_grad(), torch_private.set_forward_grad_enabled(True):
        result = call_below(redispatch, keyset, arguments, options)
        return result


def _primals(ctx: Any) -> list[Any]:
    """What was saved, without tangents of this level."""
    return [None if x is None else torch_private.primal_of(x, 0) for x in ctx.saved_tensors]


class _Product(_Linear):
    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        bias: Tensor | None,
        b: Tensor,
        scale_b: Tensor,
        global_scale: Tensor | None,
        keyset: Any,
        options: dict[str, Any],
        is_transformed: bool,
    ) -> Tensor:
        y = _below(_redispatch, keyset, is_transformed, a, b, None, scale_b, bias, global_scale, **options)
        wants_a, wants_bias = ctx.needs_input_grad[:2]
        computes_z = needs_z(options)
        saved = (
            a if computes_z else None,
            bias if computes_z else None,
            *((b, scale_b, global_scale) if computes_z or wants_a else (None, None, None)),
            y if "activation" in options and not computes_z else None,
        )
        ctx.call = (options, computes_z, a.dtype, bias.dtype if wants_bias and bias is not None else None)
        ctx.save_for_backward(*saved)
        ctx.out_dtype, ctx.out_shape = y.dtype, y.shape
        if (forward_ad._current_level >= 0 or is_transformed) and has_tangents():
            ctx.save_for_forward(*saved[:2], b, scale_b, global_scale, saved[-1])
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        a, bias, *constants, kept = ctx.saved_tensors
        call = Call(*ctx.call)
        if call.keeps_z:
            b, scale_b, global_scale = constants
            kept = product(a, b, scale_b, bias, global_scale, without_activation(call.options, ctx.out_dtype))
        is_differentiated = is_grad_enabled() or has_tangents()
        both = gradients(call, grad, kept, tuple(constants), ctx.needs_input_grad[:2], is_differentiated)
        return *both, None, None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent_a: Tensor | None, tangent_bias: Tensor | None, *_: Any) -> Tensor:
        """(global_scale * tangent_a @ decode(b)^T + tangent_bias) * activation'(z)."""
        call = Call(*ctx.call)
        options = without_activation(call.options, ctx.out_dtype)
        # Forward mode is off here, at the levels below this one too: see kernel.py.
        with torch_private.set_forward_grad_enabled(True):
            a, bias, b, scale_b, global_scale, kept = _primals(ctx)
            if call.keeps_z:
                kept = product(a, b, scale_b, bias, global_scale, options)
            terms = []
            if tangent_a is not None:
                terms.append(product(tangent_a, b, scale_b, None, global_scale, options))
            if tangent_bias is not None:
                terms.append(tangent_bias.to(options["out_dtype"]).expand(ctx.out_shape))
            tangent = terms[0] if len(terms) == 1 else terms[0] + terms[1]
            return call.through_activation(tangent, wide(kept)).to(ctx.out_dtype)


class _Backward(_Linear):
    @staticmethod
    def forward(
        ctx: Any,
        grad: Tensor,
        b: Tensor,
        scale_b: Tensor,
        global_scale: Tensor | None,
        keyset: Any,
        is_transformed: bool,
    ) -> Tensor:
        result = _below(_redispatch_backward, keyset, is_transformed, grad, b, scale_b, global_scale)
        ctx.save_for_backward(b, scale_b, global_scale)
        if (forward_ad._current_level >= 0 or is_transformed) and has_tangents():
            ctx.save_for_forward(b, scale_b, global_scale)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        b, scale_b, global_scale = ctx.saved_tensors
        return product(grad, b, scale_b, None, global_scale, {}), None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: Any) -> Tensor:
        with torch_private.set_forward_grad_enabled(True):
            return block_scaled_backward(tangent, *_primals(ctx))


def _apply(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """A node of the graph; the last argument of the function is whether a transform of torch.func runs."""
    if peek_interpreter_stack() is None:
        return function(*arguments, False)
    with torch_private.allow_single_level():
        return function(*arguments, True)


def _is_recorded(arguments: tuple[Any, ...]) -> bool:
    return (is_grad_enabled() and any_requires_grad(*arguments)) or has_tangents()


def _autograd_of_product() -> Callable[..., Tensor]:
    of_quantized = no_grad.kernel_of(OP)

    def kernel(keyset: Any, *arguments: Any, **options: Any) -> Tensor:
        if arguments[2] is not None:
            return of_quantized(keyset, *arguments, **options)
        if not _is_recorded(arguments):
            return call_below(_redispatch, keyset, arguments, options)
        a, b, _, scale_b, bias, global_scale = (*arguments, None, None)[:6]  # the dispatcher leaves defaults out
        refuse_of_constants(OP, b, scale_b, global_scale)
        return _apply(_Product.apply, a, bias, b, scale_b, global_scale, keyset, options)

    return kernel


def _autograd_of_backward(keyset: Any, *arguments: Any) -> Tensor:
    if not _is_recorded(arguments):
        return call_below(_redispatch_backward, keyset, arguments, {})
    grad, b, scale_b, global_scale = (*arguments, None)[:4]
    refuse_of_constants(BACKWARD, b, scale_b, global_scale)
    return _apply(_Backward.apply, grad, b, scale_b, global_scale, keyset)


def register() -> None:
    _library.impl(OP, _autograd_of_product(), "Autograd", with_keyset=True)
    _library.impl(BACKWARD, _autograd_of_backward, "Autograd", with_keyset=True)
