"""Autocast: the operands take autocast's dtype, as those of torch.matmul do.

float64 and fp8 operands are left alone, and so is the bias of fp8 ones. A float32 bias stays float32, since the kernels
add it in float32 anyway; one of 16 bits follows the output's dtype.

Of block_scaled_matmul only an `a` without a scale is cast, and the bias with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from tileon_ops._rules import torch_private
from tileon_ops._rules.required import check_tensors

_library = torch.library.Library("tileon", "IMPL")

_KEYS = {"cuda": "AutocastCUDA", "cpu": "AutocastCPU"}

_CAST = (torch.float16, torch.bfloat16, torch.float32)


def _cast(tensor: Tensor, dtype: torch.dtype, device_type: str) -> Tensor:
    return tensor.to(dtype) if tensor.dtype in _CAST and tensor.device.type == device_type else tensor


def _cast_bias(bias: Tensor | None, a: Tensor, dtype: torch.dtype, device_type: str) -> Tensor | None:
    if bias is None or bias.dtype == torch.float32 or a.dtype not in _CAST:
        return bias
    return _cast(bias, dtype, device_type)


def cast(
    a: Tensor, b: Tensor, bias: Tensor | None, out_dtype: torch.dtype | None, device_type: str
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Operands and bias in the dtypes that autocast, which is on for `device_type`, gives them."""
    dtype = torch.get_autocast_dtype(device_type)
    bias = _cast_bias(bias, a, out_dtype or dtype, device_type)
    return _cast(a, dtype, device_type), _cast(b, dtype, device_type), bias


def cast_weight_only(
    a: Tensor, bias: Tensor | None, out_dtype: torch.dtype | None, device_type: str
) -> tuple[Tensor, Tensor | None]:
    """The same of an `a` without a scale, whose `b` is codes; the bias of an fp8 output is float32."""
    dtype = torch.get_autocast_dtype(device_type)
    output = out_dtype or dtype
    bias = _cast_bias(bias, a, output if output.itemsize > 1 else torch.float32, device_type)
    return _cast(a, dtype, device_type), bias


def is_on(device_type: str) -> bool:
    return device_type in _KEYS and torch.is_autocast_enabled(device_type)


def _without(device_type: str) -> Callable[[], AbstractContextManager[Any]]:
    """Makes contexts without autocast; a guard of autocast's key is entered sooner than torch.autocast."""
    if not torch_private.autocast.is_whole:
        return functools.partial(torch.autocast, device_type, enabled=False)
    return functools.partial(
        torch_private.ExcludeKeys, torch_private.DispatchKeySet(torch_private.AUTOCAST_KEYS[device_type])
    )


def _matmul(device_type: str) -> Callable[..., Tensor]:
    without_autocast = _without(device_type)

    def matmul(a: Tensor, b: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
        try:
            a, b, bias = cast(a, b, bias, options.get("out_dtype"), device_type)
        except AttributeError:  # an operand is None, and has no dtype
            check_tensors("matmul", {"a": a, "b": b})
            raise
        with without_autocast():
            return torch.ops.tileon.matmul(a, b, bias, **options)

    return matmul


def _block_scaled_matmul(device_type: str) -> Callable[..., Tensor]:
    without_autocast = _without(device_type)

    def block_scaled_matmul(
        a: Tensor,
        b: Tensor,
        scale_a: Tensor | None,
        scale_b: Tensor,
        bias: Tensor | None = None,
        global_scale: Tensor | None = None,
        **options: Any,
    ) -> Tensor:
        if scale_a is None:
            check_tensors("block_scaled_matmul", {"a": a})
            a, bias = cast_weight_only(a, bias, options.get("out_dtype"), device_type)
        with without_autocast():
            return torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b, bias, global_scale, **options)

    return block_scaled_matmul


def register() -> None:
    for device_type, key in _KEYS.items():
        _library.impl("matmul", _matmul(device_type), key)
        _library.impl("block_scaled_matmul", _block_scaled_matmul(device_type), key)
