"""vmap of quantizing and of packing scales: the samples' rows become the rows of one call.

`quantize` with a global scale for each sample is one call for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tileon_ops._rules.fake import quantize
from tileon_ops._rules.fake.scales import BLOCK_ROWS, FORMATS
from tileon_ops._rules.vmap.samples import Dim, Info, in_front, pad_dims, sample
from tileon_ops._rules.vmap.samples import fold as _fold
from tileon_ops._rules.vmap.samples import fold_packed_scale as _fold_scale
from tileon_ops._rules.vmap.samples import one_by_one as _one_by_one
from tileon_ops._rules.vmap.samples import pack as _pack
from tileon_ops._rules.vmap.samples import unfold as _unfold
from tileon_ops._rules.vmap.samples import unpack as _unpack

_ops = torch.ops.tileon


def _quantize(
    info: Info, in_dims: tuple[Dim, ...], x: Tensor, format: str, global_scale: Tensor | None = None, **options: Any
) -> Any:
    x_dim, _, global_dim = pad_dims(in_dims, 3)
    like_global = None if global_scale is None else sample(global_scale, global_dim)
    like_data, _ = quantize.IMPLEMENTATIONS["quantize"](sample(x, x_dim), format, like_global, **options)
    if global_dim is not None:
        return _one_by_one(_ops.quantize.default, info, (x_dim, None, global_dim), (x, format, global_scale), options)
    rows = like_data.shape[0]
    data, scale = _ops.quantize(_fold(x, x_dim, info.batch_size), format, global_scale, **options)
    if rows % BLOCK_ROWS == 0:
        scale = _unfold(scale, info.batch_size)
    else:
        cols = like_data.shape[1] * FORMATS[format].per_byte // FORMATS[format].vec
        scale = _pack(_unfold(_ops.unpack_scales(scale, data.shape[0], cols), info.batch_size))
    return (_unfold(data, info.batch_size), scale), (0, 0)


def _dequantize(
    info: Info,
    in_dims: tuple[Dim, ...],
    data: Tensor,
    scale: Tensor,
    format: str,
    global_scale: Tensor | None = None,
    *,
    out_dtype: torch.dtype | None = None,
) -> tuple[Tensor, int]:
    data_dim, scale_dim, _, global_dim = pad_dims(in_dims, 4)
    mapped = info.batch_size
    like = quantize.IMPLEMENTATIONS["dequantize"](
        sample(data, data_dim),
        sample(scale, scale_dim),
        format,
        None if global_scale is None else sample(global_scale, global_dim),
        out_dtype=out_dtype,
    )
    rows, k = like.shape
    data = _fold(data, data_dim, mapped)
    scale = _fold_scale(scale, scale_dim, mapped, rows, k // FORMATS[format].vec)
    if global_scale is None or global_dim is None:
        return _unfold(_ops.dequantize(data, scale, format, global_scale, out_dtype=out_dtype), mapped), 0
    values = _unfold(_ops.dequantize(data, scale, format), mapped)  # float32, as the op multiplies them
    return (values * global_scale.movedim(global_dim, 0).reshape(mapped, 1, 1)).to(like.dtype), 0


def _pack_scales(info: Info, in_dims: tuple[Dim, ...], scale: Tensor) -> tuple[Tensor, int]:
    quantize.IMPLEMENTATIONS["pack_scales"](sample(scale, in_dims[0]))
    return _pack(in_front(scale, in_dims[0], info.batch_size)), 0


def _unpack_scales(info: Info, in_dims: tuple[Dim, ...], packed: Tensor, rows: int, cols: int) -> tuple[Tensor, int]:
    quantize.IMPLEMENTATIONS["unpack_scales"](sample(packed, in_dims[0]), rows, cols)
    return _unpack(in_front(packed, in_dims[0], info.batch_size), rows, cols), 0


RULES: dict[str, Callable[..., Any]] = {
    "quantize": _quantize,
    "dequantize": _dequantize,
    "pack_scales": _pack_scales,
    "unpack_scales": _unpack_scales,
}
