"""Linear layers in training: activation(x @ weight^T + bias) with one node in the graph; x is (..., k), weight (n, k).

Around the op's own node those of views of x, weight and output would stand, and its backward pass would call the op
twice: most of the time of a small layer. Here every 100 ns count. What this does not take goes by `tileon_ops.matmul`,
and a backward pass that is itself recorded by its ops.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch import Tensor, is_grad_enabled
from torch.compiler import is_compiling

from tileon_ops._rules import torch_private
from tileon_ops._rules.autograd.gradients import Call, Layout, needs_z
from tileon_ops._rules.autograd.kernel import has_tangents, is_one_call
from tileon_ops._rules.autograd.shortcut import nothing_intervenes
from tileon_ops._rules.errors import raise_typed
from tileon_ops._rules.torch_private import BelowAutograd, count_dispatch_modes, without_overhead

_linear = without_overhead(torch.ops.tileon._linear.default)
_linear_backward = without_overhead(torch.ops.tileon._linear_backward.default)

_PLAIN_TENSORS = (Tensor, torch.nn.Parameter)
_DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
_MOST_DIMS = 5  # kMaxDims of csrc/core/memory_text.h
_OF_TORCH = (torch.float32, torch.float64)  # on the CPU of_torch.py has them


class _Linear(torch_private.SingleLevelFunction):  # type: ignore[misc]
    """As kernel.py's node, of a layer. It keeps x where the weight wants a gradient, the weight where x does, and of an
    activation the output."""

    @staticmethod
    def _compiled_autograd_key(ctx: Any) -> tuple[Any, ...]:
        """As of torch.autograd.Function, without which torch's compiled autograd fails."""
        return (ctx._autograd_function_id,)

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, options: dict[str, Any]) -> Tensor:
        with BelowAutograd():
            y: Tensor = _linear(x, weight, bias, **options)
        kept = y if "activation" in options else None
        wants_x, wants_weight = ctx.needs_input_grad[:2]
        if wants_x and wants_weight:
            ctx.layouts = ()
            ctx.save_for_backward(x, weight, kept)
        else:
            ctx.layouts = (Layout(_rows(x)), Layout(weight.t()))
            ctx.save_for_backward(x if wants_weight else None, weight if wants_x else None, kept)
        ctx.options = options
        ctx.bias_dtype = None if bias is None else bias.dtype
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, kept = ctx.saved_tensors
        wanted = ctx.needs_input_grad[:3]
        wants_x, wants_weight, wants_bias = wanted
        is_plain = wants_x and is_one_call(grad, *((x, weight) if wants_weight else (weight,)))
        if is_plain and wants_weight and not wants_bias and not ctx.options:
            with BelowAutograd():
                return *_linear_backward(grad.contiguous(), x, weight), None, None
        call = Call(ctx.options, False, grad.dtype, ctx.bias_dtype if wants_bias else None, *ctx.layouts)
        if is_plain:
            with BelowAutograd():
                grad_z, grad_bias = call.through_epilogue(_rows(grad.contiguous()), _rows(kept), wants_bias, False)
                if wants_weight:
                    return *_linear_backward(grad_z, x, weight, **call.precision), grad_bias, None
                grad_x = _linear(grad_z, weight.t(), **call.precision)
                return grad_x.view(*grad.shape[:-1], grad_x.shape[-1]), None, grad_bias, None
        is_differentiated = is_grad_enabled() or has_tangents()
        of_rows = (_rows(grad.contiguous()), _rows(x), None if weight is None else weight.t(), _rows(kept))
        grad_a, grad_b, grad_bias = call.gradients(*of_rows, wanted, is_differentiated)
        grad_x = None if grad_a is None else grad_a.view(*grad.shape[:-1], grad_a.shape[-1])
        return grad_x, None if grad_b is None else grad_b.t(), grad_bias, None


_apply: Callable[..., Tensor] = _Linear.apply


def _rows(x: Any) -> Any:
    """Of a contiguous tensor. Not by `flatten`, for which torch's older batches of gradients have no rule."""
    return x if x is None or x.dim() == 2 else x.view(prod(x.shape[:-1]), x.shape[-1])


def _takes(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether a node of a layer's own may stand for the call: of plain tensors, where nothing comes before autograd and
    nobody looks on."""
    dtype = x.dtype
    return (
        not (x.is_cpu and dtype in _OF_TORCH)
        and (weight.requires_grad or x.requires_grad)
        and type(x) in _PLAIN_TENSORS
        and type(weight) in _PLAIN_TENSORS
        and (bias is None or type(bias) in _PLAIN_TENSORS)
        and weight.dtype is dtype
        and dtype in _DTYPES
        and 2 <= x.dim() <= _MOST_DIMS
        and x.is_contiguous()
        and x.shape[-1] == weight.shape[1]
        and nothing_intervenes()
        and not count_dispatch_modes()
    )


def record(x: Tensor, weight: Tensor, bias: Tensor | None, options: dict[str, Any]) -> Tensor | None:
    """The output with its node in the graph, or None where the op has to record it itself. Grad mode is on."""
    if is_compiling() or not _takes(x, weight, bias) or ("activation" in options and needs_z(options)):
        return None
    try:
        return _apply(x, weight, bias, options)
    except RuntimeError as error:
        raise_typed(error)
        raise
