"""vmap of quantizing and of packing scales: the samples' rows become the rows of one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tileon_ops._rules.fake import quantize
from tileon_ops._rules.fake.checks import Size
from tileon_ops._rules.fake.scales import BLOCK_ROWS, FORMATS, Format
from tileon_ops._rules.vmap.samples import Dim, Info, in_front, pad_dims, sample
from tileon_ops._rules.vmap.samples import fold as _fold
from tileon_ops._rules.vmap.samples import fold_packed_scale as _fold_scale
from tileon_ops._rules.vmap.samples import pack as _pack
from tileon_ops._rules.vmap.samples import unfold as _unfold
from tileon_ops._rules.vmap.samples import unpack as _unpack

_ops = torch.ops.tileon

# The same elements with blocks of one row.
_BY_ROW = {"fp8_tensor": "fp8_row", "int8_tensor": "int8_row", "fp8_128x128": "fp8_1x128"}


def _fold_global_scale(global_scale: Tensor | None, dim: Dim, mapped: int, rows: Size) -> Tensor | None:
    """One for all, or (V * rows, 1)."""
    if global_scale is None or (dim is None and global_scale.dim() <= 1):
        return global_scale
    scale = in_front(global_scale, dim, mapped)
    while scale.dim() < 3:
        scale = scale.unsqueeze(-1)
    return scale.expand(mapped, rows, 1).flatten(0, 1)


def _quantize(
    info: Info, in_dims: tuple[Dim, ...], x: Tensor, format: str, global_scale: Tensor | None = None, **options: Any
) -> Any:
    x_dim, _, global_dim = pad_dims(in_dims, 3)
    mapped = info.batch_size
    like_global = None if global_scale is None else sample(global_scale, global_dim)
    like = sample(x, x_dim)
    quantize.IMPLEMENTATIONS["quantize"](like, format, like_global, **options)
    known, rows = FORMATS[format], like.shape[0]
    if not known.has_packed_scales:
        return _quantize_float32(in_front(x, x_dim, mapped), known, options), (0, 0)
    global_scale = _fold_global_scale(global_scale, global_dim, mapped, rows)
    data, scale = _ops.quantize(_fold(x, x_dim, mapped), format, global_scale, **options)
    return (_unfold(data, mapped), _unfold_scale(scale, mapped, rows, like.shape[1] // known.vec)), (0, 0)


def _unfold_scale(scale: Tensor, mapped: int, rows: Size, cols: Size) -> Tensor:
    """Packed scales of V * rows rows as (V, ceil(rows / 128), ...)."""
    if rows % BLOCK_ROWS == 0:
        return _unfold(scale, mapped)
    return _pack(_unfold(_ops.unpack_scales(scale, mapped * rows, cols), mapped))


def _quantize_nvfp4_rows(
    info: Info, in_dims: tuple[Dim, ...], x: Tensor, global_scale: Tensor | None = None
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    x_dim, global_dim = pad_dims(in_dims, 2)
    mapped = info.batch_size
    like = sample(x, x_dim)
    like_global = None if global_scale is None else sample(global_scale, global_dim)
    quantize.IMPLEMENTATIONS["_quantize_nvfp4_rows"](like, like_global)
    rows, k = like.shape
    global_scale = _fold_global_scale(global_scale, global_dim, mapped, rows)
    data, scale, row_scales = _ops._quantize_nvfp4_rows(_fold(x, x_dim, mapped), global_scale)
    scale = _unfold_scale(scale, mapped, rows, k // FORMATS["nvfp4"].vec)
    return (_unfold(data, mapped), scale, _unfold(row_scales, mapped)), (0, 0, 0)


def _quantize_float32(x: Tensor, known: Format, options: Any) -> tuple[Tensor, Tensor]:
    """(V, rows, k) in a format with float32 scales: a tensor's scale is that of a row that holds all of it, and zeros
    fill up blocks of rows without being noticed."""
    mapped, rows, k = x.shape
    if known.rows == 0:
        data, scale = _ops.quantize(x.reshape(mapped, rows * k), _BY_ROW[known.name], **options)
        return data.reshape(x.shape), scale.unsqueeze(2)
    padded = F.pad(x, (0, 0, 0, -rows % known.rows))
    data, scale = _ops.quantize(padded.flatten(0, 1), known.name, **options)
    return _unfold(data, mapped)[:, :rows], _unfold(scale, mapped)


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
    data, known = _fold(data, data_dim, mapped), FORMATS[format]
    if known.has_packed_scales:
        scale = _fold_scale(scale, scale_dim, mapped, rows, k // known.vec)
    else:
        format, scale = _fold_float32_scale(in_front(scale, scale_dim, mapped), known, rows)
    global_scale = _fold_global_scale(global_scale, global_dim, mapped, rows)
    return _unfold(_ops.dequantize(data, scale, format, global_scale, out_dtype=out_dtype), mapped), 0


def _fold_float32_scale(scale: Tensor, known: Format, rows: Size) -> tuple[str, Tensor]:
    """A format of one row a block, and its scales of V * rows rows."""
    if known.rows == 0:
        scale = scale.reshape(-1, 1, 1).expand(-1, rows, 1)
    elif known.rows > 1:
        scale = scale.repeat_interleave(known.rows, 1)[:, :rows]
    return _BY_ROW.get(known.name, known.name), scale.flatten(0, 1)


def _pack_scales(info: Info, in_dims: tuple[Dim, ...], scale: Tensor) -> tuple[Tensor, int]:
    quantize.IMPLEMENTATIONS["pack_scales"](sample(scale, in_dims[0]))
    return _pack(in_front(scale, in_dims[0], info.batch_size)), 0


def _unpack_scales(info: Info, in_dims: tuple[Dim, ...], packed: Tensor, rows: int, cols: int) -> tuple[Tensor, int]:
    quantize.IMPLEMENTATIONS["unpack_scales"](sample(packed, in_dims[0]), rows, cols)
    return _unpack(in_front(packed, in_dims[0], info.batch_size), rows, cols), 0


RULES: dict[str, Callable[..., Any]] = {
    "quantize": _quantize,
    "_quantize_nvfp4_rows": _quantize_nvfp4_rows,
    "dequantize": _dequantize,
    "pack_scales": _pack_scales,
    "unpack_scales": _unpack_scales,
}
