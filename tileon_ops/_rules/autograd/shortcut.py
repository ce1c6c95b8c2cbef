"""Ops for the package's own Python: `matmul`, and those of a layer, past what has no say in the call.

Where it may, this finds out for less what the ops' kernels on the Autograd key would find out. It takes names that
torch does not promise; without them a call of an op does as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, is_grad_enabled, is_inference_mode_enabled
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from tileon_ops._rules.autograd.kernel import record
from tileon_ops._rules.errors import raise_typed
from tileon_ops._rules.torch_private import (
    BelowAutograd,
    any_requires_grad,
    count_function_modes,
    is_any_autocast_enabled,
    peek_interpreter_stack,
    without_overhead,
)

_op = torch.ops.tileon.matmul.default
_call_op = without_overhead(_op)

_PLAIN_TENSORS = (Tensor, torch.nn.Parameter, type(None))
_ALL_PLAIN = frozenset(_PLAIN_TENSORS).issuperset


def _is_plain(a: Tensor, b: Tensor, bias: Tensor | None) -> bool:
    """Whether nothing stands between this call and the op's kernel on the Autograd key: no transformation, no
    autocast, no mode and no subclass of Tensor that wants to see the call first."""
    return (
        type(a) in _PLAIN_TENSORS
        and type(b) in _PLAIN_TENSORS
        and type(bias) in _PLAIN_TENSORS
        and nothing_intervenes()
    )


def nothing_intervenes() -> bool:
    return (
        forward_ad._current_level < 0
        and peek_interpreter_stack() is None
        and not is_any_autocast_enabled()
        and not count_function_modes()
    )


def call(a: Tensor, b: Tensor, bias: Tensor | None, options: dict[str, Any]) -> Tensor:
    """The op."""
    if is_compiling():
        return _op(a, b, bias, **options)
    if is_inference_mode_enabled():  # calls no kernel of autograd's
        return _call_op(a, b, bias, **options)
    if _is_plain(a, b, bias):
        if is_grad_enabled() and any_requires_grad(a, b, bias):
            return record(a, b, bias, options)
        with BelowAutograd():
            return _call_op(a, b, bias, **options)
    return _call_op(a, b, bias, **options)


def is_below(*tensors: Tensor | None) -> bool:
    """Whether an op's kernel on the Autograd key would do nothing with these but call the one below."""
    return (
        not is_compiling()
        and _ALL_PLAIN(map(type, tensors))
        and nothing_intervenes()
        and not (is_grad_enabled() and any_requires_grad(*tensors))
    )


def call_below(function: Callable[..., Any], *arguments: Any) -> Any:
    """A function that calls ops, all of them on such tensors."""
    try:
        with BelowAutograd():
            return function(*arguments)
    except RuntimeError as error:
        raise_typed(error)
        raise
