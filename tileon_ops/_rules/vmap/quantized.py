"""vmap of quantizing and of packing scales: the samples' rows become the rows of one call.

`quantize` with a global scale for each sample is one call for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tileon_ops._rules.fake import quantize
<<<<<<< HEAD
from tileon_ops._rules.fake.checks import Size
from tileon_ops._rules.fake.scales import BLOCK_ROWS, FORMATS, Format

_ops = torch.ops.tileon

# The same elements with blocks of one row.
_BY_ROW = {"fp8_tensor": "fp8_row", "int8_tensor": "int8_row", "fp8_128x128": "fp8_1x128"}

Dim = int | None  # which dimension of a tensor is mapped


class Info(Protocol):
    """What torch.library.register_vmap tells a rule."""

    @property
    def batch_size(self) -> int: ...


def sample(tensor: Tensor, dim: Dim) -> Tensor:
    """A tensor like one of the mapped ones, for checks alone; it has memory for one element."""
    if dim is None:
        return tensor
    return tensor.new_empty(()).expand(tensor.shape[:dim] + tensor.shape[dim + 1 :])


def in_front(tensor: Tensor, dim: Dim, mapped: int) -> Tensor:
    """(V, ...): mapped, or the same for all."""
    return tensor.expand(mapped, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def fold(tensor: Tensor, dim: Dim, mapped: int) -> Tensor:
    """(V * rows, ...)"""
    return in_front(tensor, dim, mapped).flatten(0, 1)


def unfold(tensor: Tensor, mapped: int) -> Tensor:
    """(V * rows, ...) as (V, rows, ...)"""
    return tensor.unflatten(0, (mapped, tensor.shape[0] // max(mapped, 1)))


def one_by_one(op: Any, info: Info, in_dims: tuple[Dim, ...], arguments: Any, options: Any) -> Any:
    """One call for each sample."""
    if info.batch_size == 0:
        name = op.name().removeprefix("tileon::")
        raise RuntimeError(f"{name}: vmap of these arguments makes one call for each sample, and there are none")
    results = [
        op(*(x if d is None else x.select(d, i) for x, d in zip(arguments, in_dims, strict=True)), **options)
        for i in range(info.batch_size)
    ]
    if isinstance(results[0], Tensor):
        return torch.stack(results), 0
    return tuple(map(torch.stack, zip(*results, strict=True))), (0,) * len(results[0])


def _pack(scale: Tensor) -> Tensor:
    """(V, rows, columns) to (V, ceil(rows / 128), ceil(columns / 4), 32, 4, 4)."""
    padded = F.pad(scale.view(torch.uint8), (0, 0, 0, -scale.shape[1] % BLOCK_ROWS)).view(scale.dtype)
    return unfold(_ops.pack_scales(padded.flatten(0, 1)), scale.shape[0])


def _unpack(packed: Tensor, rows: Size, cols: Size) -> Tensor:
    """(V, R, C, 32, 4, 4) to (V, rows, columns)."""
    mapped, blocks = packed.shape[:2]
    unpacked = _ops.unpack_scales(packed.flatten(0, 1), mapped * blocks * BLOCK_ROWS, cols)
    return unfold(unpacked, mapped)[:, :rows]


def fold_packed_scale(scale: Tensor, dim: Dim, mapped: int, rows: Size, cols: Size) -> Tensor:
    """Scales of V * rows rows, from those of `rows` for each sample, 2-D or packed."""
    scale = in_front(scale, dim, mapped)
    if scale.dim() == 6 and rows % BLOCK_ROWS != 0:
        scale = _unpack(scale, rows, cols)
    return scale.flatten(0, 1)


def pad_dims(in_dims: tuple[Dim, ...], count: int) -> tuple[Dim, ...]:
    """The dispatcher leaves defaults out."""
    return (*in_dims, *(None,) * (count - len(in_dims)))

=======
from tileon_ops._rules.fake.scales import BLOCK_ROWS, FORMATS
from tileon_ops._rules.vmap.samples import Dim, Info, in_front, pad_dims, sample
from tileon_ops._rules.vmap.samples import fold as _fold
from tileon_ops._rules.vmap.samples import fold_packed_scale as _fold_scale
from tileon_ops._rules.vmap.samples import one_by_one as _one_by_one
from tileon_ops._rules.vmap.samples import pack as _pack
from tileon_ops._rules.vmap.samples import unfold as _unfold
from tileon_ops._rules.vmap.samples import unpack as _unpack

_ops = torch.ops.tileon

>>>>>>> 01b57d0871a3e0c7c707fab1bcf6c3d54be9f6da

def _fold_global_scale(global_scale: Tensor | None, dim: Dim, mapped: int, rows: Size) -> Tensor | None:
    """One for all, or (V * rows, 1)."""
    if global_scale is None or (dim is None and global_scale.dim() <= 1):
        return global_scale
    a_sample = in_front(global_scale, dim, mapped)
    return a_sample.reshape(mapped, -1, 1).expand(mapped, rows, 1).flatten(0, 1)


def _quantize(
    info: Info, in_dims: tuple[Dim, ...], x: Tensor, format: str, global_scale: Tensor | None = None, **options: Any
) -> Any:
    x_dim, _, global_dim = pad_dims(in_dims, 3)
    mapped = info.batch_size
    like_global = None if global_scale is None else sample(global_scale, global_dim)
<<<<<<< HEAD
    like = sample(x, x_dim)
    quantize.IMPLEMENTATIONS["quantize"](like, format, like_global, **options)
    known, rows = FORMATS[format], like.shape[0]
    if not known.has_packed_scales:
        return _quantize_float32(in_front(x, x_dim, mapped), known, options), (0, 0)
    global_scale = _fold_global_scale(global_scale, global_dim, mapped, rows)
    data, scale = _ops.quantize(fold(x, x_dim, mapped), format, global_scale, **options)
    if rows % BLOCK_ROWS == 0:
        scale = unfold(scale, mapped)
    else:
        scale = _pack(unfold(_ops.unpack_scales(scale, data.shape[0], like.shape[1] // known.vec), mapped))
    return (unfold(data, mapped), scale), (0, 0)


def _quantize_float32(x: Tensor, known: Format, options: Any) -> tuple[Tensor, Tensor]:
    """(V, rows, k) in a format with float32 scales: a tensor's scale is that of a row that holds all of it, and zeros
    fill up blocks of rows without being noticed."""
    mapped, rows, k = x.shape
    if known.rows == 0:
        data, scale = _ops.quantize(x.reshape(mapped, rows * k), _BY_ROW[known.name], **options)
        return data.reshape(x.shape), scale.unsqueeze(2)
    padded = F.pad(x, (0, 0, 0, -rows % known.rows))
    data, scale = _ops.quantize(padded.flatten(0, 1), known.name, **options)
    return unfold(data, mapped)[:, :rows], unfold(scale, mapped)
=======
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
>>>>>>> 01b57d0871a3e0c7c707fab1bcf6c3d54be9f6da


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
<<<<<<< HEAD
    data, known = fold(data, data_dim, mapped), FORMATS[format]
    if known.has_packed_scales:
        scale = fold_packed_scale(scale, scale_dim, mapped, rows, k // known.vec)
    else:
        format, scale = _fold_float32_scale(in_front(scale, scale_dim, mapped), known, rows)
    global_scale = _fold_global_scale(global_scale, global_dim, mapped, rows)
    return unfold(_ops.dequantize(data, scale, format, global_scale, out_dtype=out_dtype), mapped), 0


def _fold_float32_scale(scale: Tensor, known: Format, rows: Size) -> tuple[str, Tensor]:
    """A format of one row a block, and its scales of V * rows rows."""
    if known.rows == 0:
        scale = scale.reshape(-1, 1, 1).expand(-1, rows, 1)
    elif known.rows > 1:
        scale = scale.repeat_interleave(known.rows, 1)[:, :rows]
    return _BY_ROW.get(known.name, known.name), scale.flatten(0, 1)
=======
    data = _fold(data, data_dim, mapped)
    scale = _fold_scale(scale, scale_dim, mapped, rows, k // FORMATS[format].vec)
    if global_scale is None or global_dim is None:
        return _unfold(_ops.dequantize(data, scale, format, global_scale, out_dtype=out_dtype), mapped), 0
    values = _unfold(_ops.dequantize(data, scale, format), mapped)  # float32, as the op multiplies them
    return (values * global_scale.movedim(global_dim, 0).reshape(mapped, 1, 1)).to(like.dtype), 0
>>>>>>> 01b57d0871a3e0c7c707fab1bcf6c3d54be9f6da


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
