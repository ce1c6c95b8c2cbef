"""No gradient flows through quantized operands: while gradients are recorded, one that requires grad is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_library = torch.library.Library("tileon", "IMPL")

_OPS = (
    "block_scaled_matmul",
    "block_scaled_matmul.out",
    "_prepare_block_scaled",
    "_block_scaled_matmul_prepared",
    "quantize",
    "dequantize",
    "pack_scales",
    "unpack_scales",
)


def _refuse(op: str, arguments: dict[str, Any]) -> None:
    for name, argument in arguments.items():
        if isinstance(argument, Tensor) and argument.requires_grad:
            raise RuntimeError(f"{op}: `{name}` requires grad, and no gradient flows through quantized operands")


def _kernel(op: str, overload: Any) -> Callable[..., Any]:
    names = [argument.name for argument in overload._schema.arguments]

    def kernel(keyset: Any, *arguments: Any, **options: Any) -> Any:
        if torch._C.is_grad_enabled() and torch._C._any_requires_grad(*arguments, *options.values()):
            _refuse(op, {**dict(zip(names, arguments, strict=False)), **options})  # the dispatcher leaves defaults out
        with torch._C._AutoDispatchBelowAutograd():
            return overload.redispatch(keyset & torch._C._after_autograd_keyset, *arguments, **options)

    return kernel


def register() -> None:
    for name in _OPS:
        op, _, overload = name.partition(".")
        packet = getattr(torch.ops.tileon, op)
        _library.impl(name, _kernel(op, getattr(packet, overload or "default")), "Autograd", with_keyset=True)
