"""Ops that are not differentiable: where a gradient is asked for, in either direction, they refuse.

While gradients are recorded, an argument that requires grad is refused, and so is one with a tangent of forward-mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

_library = torch.library.Library("tileon", "IMPL")

_QUANTIZED = "no gradient flows through quantized operands"
_RECORDED = "a backward pass that is recorded is made of torch's own ops"

_WHY = {
    "block_scaled_matmul": _QUANTIZED,
    "block_scaled_matmul.out": _QUANTIZED,
    "_prepare_block_scaled": _QUANTIZED,
    "_block_scaled_matmul_prepared": _QUANTIZED,
    "quantize": _QUANTIZED,
    "dequantize": _QUANTIZED,
    "pack_scales": _QUANTIZED,
    "unpack_scales": _QUANTIZED,
    "_epilogue_backward": _RECORDED,
}


def asked_gradients(arguments: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The tensors among the arguments that ask for a gradient: their names, and how they ask, as an error says it."""
    for name, argument in arguments.items():
        if isinstance(argument, Tensor):
            if torch.is_grad_enabled() and argument.requires_grad:
                yield name, "requires grad"
            if forward_ad._current_level >= 0 and forward_ad.unpack_dual(argument).tangent is not None:
                yield name, "has a tangent of forward-mode differentiation"


def _kernel(op: str, overload: Any) -> Callable[..., Any]:
    names = [argument.name for argument in overload._schema.arguments]

    def kernel(keyset: Any, *arguments: Any, **options: Any) -> Any:
        if forward_ad._current_level >= 0 or (
            torch._C.is_grad_enabled() and torch._C._any_requires_grad(*arguments, *options.values())
        ):
            given = {**dict(zip(names, arguments, strict=False)), **options}  # the dispatcher leaves defaults out
            for name, asks in asked_gradients(given):
                raise RuntimeError(f"{op.partition('.')[0]}: `{name}` {asks}, and {_WHY[op]}")
        with torch._C._AutoDispatchBelowAutograd():
            return overload.redispatch(keyset & torch._C._after_autograd_keyset, *arguments, **options)

    return kernel


def register() -> None:
    for name in _WHY:
        op, _, overload = name.partition(".")
        packet = getattr(torch.ops.tileon, op)
        _library.impl(name, _kernel(name, getattr(packet, overload or "default")), "Autograd", with_keyset=True)
