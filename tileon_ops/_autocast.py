"""Autocast: the operands take autocast's dtype, as those of torch.matmul do.

float64 and fp8 operands are left alone, and so is the bias of fp8 ones. A float32 bias stays float32, since the kernels
add it in float32 anyway; one of 16 bits follows the output's dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_library = torch.library.Library("tileon", "IMPL")

_CAST = (torch.float16, torch.bfloat16, torch.float32)


def _cast(tensor: Tensor, dtype: torch.dtype, device_type: str) -> Tensor:
    return tensor.to(dtype) if tensor.dtype in _CAST and tensor.device.type == device_type else tensor


def _kernel(device_type: str, key: torch.DispatchKey) -> Callable[..., Tensor]:
    excluded = torch._C.DispatchKeySet(key)

    def matmul(a: Tensor, b: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
        dtype = torch.get_autocast_dtype(device_type)
        if bias is not None and bias.dtype != torch.float32 and a.dtype in _CAST:
            bias = _cast(bias, options.get("out_dtype") or dtype, device_type)
        with torch._C._ExcludeDispatchKeyGuard(excluded):
            return torch.ops.tileon.matmul(_cast(a, dtype, device_type), _cast(b, dtype, device_type), bias, **options)

    return matmul


def register() -> None:
    for device_type, key in (("cuda", torch._C.DispatchKey.AutocastCUDA), ("cpu", torch._C.DispatchKey.AutocastCPU)):
        _library.impl("matmul", _kernel(device_type, key), key.name)
