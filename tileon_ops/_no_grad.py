"""The ops on quantized operands have no gradient: an argument that requires grad is an error, not a silent zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_library = torch.library.Library("tileon", "IMPL")


def _kernel(op: str, names: tuple[str, ...]) -> Callable[..., Any]:
    overload = getattr(torch.ops.tileon, op).default
    positions = [(name, [argument.name for argument in overload._schema.arguments].index(name)) for name in names]

    def autograd(keyset: Any, *arguments: Any, **options: Any) -> Any:
        if torch._C.is_grad_enabled():
            for name, position in positions:
                tensor = arguments[position] if position < len(arguments) else None  # trailing defaults are left out
                if isinstance(tensor, Tensor) and tensor.requires_grad:
                    raise RuntimeError(
                        f"{op}: `{name}` requires grad, and no gradient flows through quantized operands"
                    )
        with torch._C._AutoDispatchBelowAutograd():
            return overload.redispatch(keyset & torch._C._after_autograd_keyset, *arguments, **options)

    return autograd


def refuse_gradients(op: str, *names: str) -> None:
    """Makes `op`, which returns fresh tensors, refuse positional tensor arguments `names` that require grad."""
    _library.impl(op, _kernel(op, names), "Autograd", with_keyset=True)


def register() -> None:
    refuse_gradients("quantize", "x", "global_scale")
    refuse_gradients("dequantize", "data", "scale", "global_scale")
    refuse_gradients("pack_scales", "scale")
    refuse_gradients("unpack_scales", "packed")
