"""Ops that are not differentiable: where a gradient is asked for, in either direction, they refuse.

While gradients are recorded, an argument that requires grad is refused, and so is one with a tangent of forward-mode.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, is_grad_enabled
from torch.autograd import forward_ad

from tileon_ops._rules import torch_private
from tileon_ops._rules.autograd import torch_library
from tileon_ops._rules.errors import raise_typed
from tileon_ops._rules.fake import IMPLEMENTATIONS
from tileon_ops._rules.torch_private import BelowAutograd, after_autograd_keyset, any_requires_grad

_library = torch.library.Library("tileon", "IMPL")

_QUANTIZED = "no gradient flows through quantized operands"
_RECORDED = "a backward pass that is recorded is made of torch's own ops"

_WHY = {
    "block_scaled_matmul": _QUANTIZED,
    "_prepare_block_scaled": _QUANTIZED,
    "_block_scaled_matmul_prepared": _QUANTIZED,
    "quantize": _QUANTIZED,
    "_quantize_nvfp4_rows": _QUANTIZED,
    "_round_to_format": _QUANTIZED,
    "_quantized_linear": _QUANTIZED,
    "dequantize": _QUANTIZED,
    "pack_scales": _QUANTIZED,
    "unpack_scales": _QUANTIZED,
    "_epilogue_backward": _RECORDED,
}

# Refused only where `a` has a scale: autograd/weight_only.py.
_ELSEWHERE = {"block_scaled_matmul"}


def asked_gradients(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The tensors among the arguments that ask for a gradient: their names, and how they ask, as an error says it."""
    for name, argument in arguments.items():
        if isinstance(argument, Tensor):
            if is_grad_enabled() and argument.requires_grad:
                yield name, "requires grad"
            if forward_ad.unpack_dual(argument).tangent is not None:
                yield name, "has a tangent of forward-mode differentiation"


def refuse(op: str, arguments: Mapping[str, Any]) -> None:
    """RuntimeError for the first argument of the op that asks for a gradient."""
    for name, asks in asked_gradients(arguments):
        raise RuntimeError(f"{op}: `{name}` {asks}, and {_WHY[op]}")


def names_of(op: str) -> list[str]:
    """The arguments of an op in their order."""
    return list(inspect.signature(IMPLEMENTATIONS[op]).parameters)


def _call_below(redispatch: Any, keyset: Any, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """As below.call_below, by fewer private names."""
    try:
        with BelowAutograd():
            return redispatch(keyset & after_autograd_keyset, *arguments, **options)
    except RuntimeError as error:
        raise_typed(error)
        raise


def _way_below(overload: Any) -> tuple[Callable[..., Any], Any]:
    """What calls the op's kernel below autograd, and its first argument."""
    if not torch_private.autograd.is_whole:
        return _call_below, overload.redispatch
    from tileon_ops._rules.autograd.below import call_below

    return call_below, torch_private.redispatch_boxed(overload)


def kernel_of(op: str) -> Callable[..., Any]:
    """The kernel on the Autograd key of an op that has no gradient."""
    return _kernel(op, getattr(torch.ops.tileon, op).default, names_of(op))


def _kernel(op: str, overload: Any, names: list[str]) -> Callable[..., Any]:
    call_below, redispatch = _way_below(overload)

    def kernel(keyset: Any, *arguments: Any, **options: Any) -> Any:
        if forward_ad._current_level >= 0 or (is_grad_enabled() and any_requires_grad(*arguments, *options.values())):
            refuse(op, {**dict(zip(names, arguments, strict=False)), **options})  # the dispatcher leaves defaults out
        return call_below(redispatch, keyset, arguments, options)

    return kernel


def _around(op: str, names: list[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The same around torch's own kernel."""

    def around(torchs: Callable[..., Any]) -> Callable[..., Any]:
        def kernel(keyset: Any, *arguments: Any, **options: Any) -> Any:
            refuse(op, {**dict(zip(names, arguments, strict=False)), **options})
            return torchs(keyset, *arguments, **options)

        return kernel

    return around


def _backward(*_: Any) -> None:
    raise AssertionError("no call is recorded")


def register() -> None:
    for op in _WHY.keys() - _ELSEWHERE:
        if torch_private.below.is_whole:
            _library.impl(op, kernel_of(op), "Autograd", with_keyset=True)
        else:
            torch_library.register(op, _around(op, names_of(op)), _backward)
