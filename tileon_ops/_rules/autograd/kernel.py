"""Gradients of tileon::matmul, backward and forward, as often as wanted, under torch.func's transforms too.

The kernels on the op's Autograd key, which each eager call passes: here every 100 ns count. They take names that torch
does not promise; public.py does without. The formulas are in gradients.py.

What is saved: a where b wants a gradient, b where a does, and for the activation the output for relu and for leaky_relu
with slope >= 0 (its sign is all that is needed), z in place of the output for the others, nothing for none. The kernel
writes z along with y.

Most recorded products of float32 and float64 on the CPU have torch's own nodes instead (of_torch.py).

No gradient flows through fp8 operands: one that requires grad is refused before anything is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, is_grad_enabled
from torch.autograd import forward_ad

from tileon_ops._rules import torch_private
from tileon_ops._rules.autograd.below import call_below
from tileon_ops._rules.autograd.gradients import Call, Layout, needs_z, refuse_of_fp8
from tileon_ops._rules.required import check_tensors
from tileon_ops._rules.torch_private import (
    BelowAutograd,
    any_requires_grad,
    count_dispatch_modes,
    count_function_modes,
    peek_interpreter_stack,
)

_library = torch.library.Library("tileon", "IMPL")

_matmul = torch.ops.tileon.matmul.default
_matmul_with_preactivation = torch.ops.tileon._matmul_with_preactivation.default

_matmul_backward = torch.ops.tileon._matmul_backward.default

_redispatch = torch_private.redispatch_boxed(_matmul)
_redispatch_with_preactivation = torch_private.redispatch_boxed(_matmul_with_preactivation)


def _forward(
    a: Tensor, b: Tensor, bias: Tensor | None, keyset: Any, options: dict[str, Any], keeps_z: bool
) -> Tensor | tuple[Tensor, Tensor]:
    """The output, or where z is kept the output and z. `keyset` is None where no dispatcher has been asked yet."""
    with_z = keeps_z and a.dtype.itemsize > 1
    if keyset is not None:
        redispatch = _redispatch_with_preactivation if with_z else _redispatch
        result = call_below(redispatch, keyset, (a, b, bias), options)
    else:
        with BelowAutograd():
            result = (_matmul_with_preactivation if with_z else _matmul)(a, b, bias, **options)
    if keeps_z and not with_z:  # of fp8 operands, where a gradient flows to the bias alone
        with BelowAutograd():
            return result, _matmul(a, b, bias, **{**options, "activation": "none"})
    return result


_are_plain = frozenset((Tensor, torch.nn.Parameter)).issuperset


def is_one_call(*tensors: Tensor) -> bool:
    """Whether a backward pass of these, which nobody differentiates, may be one call: where nobody looks on who shall
    see each of its products."""
    return (
        torch_private.shortcut.is_whole
        and _are_plain(map(type, tensors))
        and forward_ad._current_level < 0
        and not is_grad_enabled()
        and peek_interpreter_stack() is None
        and not count_function_modes()
        and not count_dispatch_modes()
    )


def has_tangents() -> bool:
    """Whether a call may have them. What a compiler traced enters a level of jvp that forward_ad knows nothing of."""
    transform = peek_interpreter_stack()
    return forward_ad._current_level >= 0 or (transform is not None and transform.key() == torch_private.Jvp)


class _Matmul(torch_private.SingleLevelFunction):  # type: ignore[misc]
    """The product, and what its gradients need of it. `keyset` and `options` are as _autograd has them.

    Where z is kept it is an output too, so that a gradient of the backward pass finds its way through it. The base
    class is the one that torch.func runs its autograd.Functions by, each at one level of the transforms: a kernel on
    the Autograd key is called at one level. Its `apply` is also the shortest.
    """

    @staticmethod
    def _compiled_autograd_key(ctx: Any) -> tuple[Any, ...]:
        """As of torch.autograd.Function, without which torch's compiled autograd fails."""
        return (ctx._autograd_function_id,)

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        bias: Tensor | None,
        keyset: Any,
        options: dict[str, Any],
        keeps_z: bool,
        is_transformed: bool,
    ) -> Any:
        result: Any
        if is_transformed:  # what the levels below this one record is theirs
            with torch.enable_grad(), torch_private.set_forward_grad_enabled(True):
                result = _forward(a, b, bias, keyset, options, keeps_z)
        else:
            result = _forward(a, b, bias, keyset, options, keeps_z)
        y = kept = result
        if keeps_z:
            y, kept = result
            ctx.set_materialize_grads(False)
        elif "activation" not in options:
            kept = None
        wants_a, wants_b, wants_bias = ctx.needs_input_grad[:3]
        bias_dtype = bias.dtype if wants_bias and bias is not None else None
        if wants_a and wants_b:
            ctx.call = (options, keeps_z, a.dtype, bias_dtype)  # a Call, but for the time that making one takes
            ctx.save_for_backward(a, b, kept)
        else:
            ctx.call = (options, keeps_z, a.dtype, bias_dtype, Layout(a), Layout(b))
            ctx.save_for_backward(a if wants_b else None, b if wants_a else None, kept)
        if (forward_ad._current_level >= 0 or is_transformed) and has_tangents():
            ctx.save_for_forward(a, b, kept)
            ctx.out_dtype, ctx.out_shape = y.dtype, y.shape
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_of_z: Tensor | None = None) -> tuple[Tensor | None, ...]:
        a, b, kept = ctx.saved_tensors
        call = Call(*ctx.call)
        wants_both = call.a is None  # else layouts are kept
        is_plain = wants_both and grad_of_z is None and a.dim() == b.dim() == 2
        if is_plain and grad is not None and is_one_call(grad, a, b):
            with BelowAutograd():
                grad_z, grad_bias = call.through_epilogue(grad, kept, ctx.needs_input_grad[2], False)
                return *_matmul_backward(grad_z, a, b, **call.precision), grad_bias, None, None, None, None
        if grad_of_z is not None:  # the backward pass was recorded, and depends on z
            grad = grad_of_z if grad is None else call.through_activation(grad, kept) + grad_of_z
            call, kept = call.without_activation(), None
        if grad is None:
            return (None,) * 7
        is_differentiated = is_grad_enabled() or has_tangents()
        gradients = call.gradients(grad, a, b, kept, ctx.needs_input_grad[:3], is_differentiated)
        return *gradients, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent_a: Tensor | None, tangent_b: Tensor | None, tangent_bias: Tensor | None, *_: Any) -> Any:
        """Of y, (tangent_a @ b + a @ tangent_b + tangent_bias) * activation'(z), and of z where that is an output."""
        call = Call(*ctx.call)
        # Forward mode is off here, at the levels below this one too, whose tangents would be lost without a word. With
        # it on, what is multiplied must have no tangent of this level.
        with torch_private.set_forward_grad_enabled(True):
            a, b, kept = (None if x is None else torch_private.primal_of(x, 0) for x in ctx.saved_tensors)
            terms = []
            if tangent_a is not None:
                terms.append(_matmul(tangent_a, b, out_dtype=ctx.out_dtype, **call.precision))
            if tangent_b is not None:
                terms.append(_matmul(a, tangent_b, out_dtype=ctx.out_dtype, **call.precision))
            if tangent_bias is not None:
                terms.append(tangent_bias.to(ctx.out_dtype).expand(ctx.out_shape))
            tangent = terms[0]
            for term in terms[1:]:
                tangent = tangent + term
            through = call.through_activation(tangent, kept)
            return (through, tangent) if call.keeps_z else through


_apply: Callable[..., Any] = _Matmul.apply

_by_torch: Callable[..., Tensor | None] | None = None
if torch_private.shortcut.is_whole:
    from tileon_ops._rules.autograd.of_torch import record as _by_torch


def _record(keyset: Any, a: Tensor, b: Tensor, bias: Tensor | None, options: dict[str, Any], returns_z: bool) -> Any:
    """The output, or where z is kept the output and z, with a node in the graph."""
    if not returns_z and a.is_cpu and _by_torch is not None and (result := _by_torch(a, b, bias, options)) is not None:
        return result
    keeps_z = returns_z or ("activation" in options and needs_z(options))
    if a.dtype.itemsize == 1:
        refuse_of_fp8(a, b)
    elif keeps_z and "fast_accum" in options:  # of fp8 operands alone
        options = {name: value for name, value in options.items() if name != "fast_accum"}
    if peek_interpreter_stack() is None:
        return _apply(a, b, bias, keyset, options, keeps_z, False)
    with torch_private.allow_single_level():
        return _apply(a, b, bias, keyset, options, keeps_z, True)


def _autograd(keyset: Any, a: Tensor, b: Tensor, bias: Tensor | None = None, **options: Any) -> Any:
    """The kernel on the Autograd key; `keyset` is what the dispatcher calls it with. It leaves defaults out."""
    try:
        if not (
            is_grad_enabled() and (a.requires_grad or b.requires_grad or (bias is not None and bias.requires_grad))
        ) and (
            (forward_ad._current_level < 0 and peek_interpreter_stack() is None)  # nearly always, and found out at once
            or not has_tangents()
        ):
            return call_below(_redispatch, keyset, (a, b, bias), options)
        result = _record(keyset, a, b, bias, options, False)
        return result[0] if type(result) is tuple else result
    except AttributeError:  # an operand is None, and has no requires_grad
        check_tensors("matmul", {"a": a, "b": b})
        raise


def record(a: Tensor, b: Tensor, bias: Tensor | None, options: dict[str, Any]) -> Tensor:
    """The op with a node in the graph, as a call of the op gives it, without a turn through the dispatcher: for the
    wrapper, which has seen that a node is needed and that nothing comes before autograd."""
    result = _record(None, a, b, bias, options, False)
    output: Tensor = result[0] if type(result) is tuple else result
    return output


def _autograd_with_preactivation(
    keyset: Any, a: Tensor, b: Tensor, bias: Tensor | None = None, **options: Any
) -> tuple[Tensor, Tensor]:
    """As `_autograd`, of the op that one level of torch.func's transforms calls of the next."""
    pair: tuple[Tensor, Tensor]
    if not ((is_grad_enabled() and any_requires_grad(a, b, bias)) or has_tangents()):
        pair = call_below(_redispatch_with_preactivation, keyset, (a, b, bias), options)
    else:
        pair = _record(keyset, a, b, bias, options, True)
    return pair


def register() -> None:
    _library.impl("matmul", _autograd, "Autograd", with_keyset=True)
    _library.impl("_matmul_with_preactivation", _autograd_with_preactivation, "Autograd", with_keyset=True)
