"""vmap of the ops on block-scaled operands: the samples' rows become the rows of one call.

Packed scales hold blocks of 128 rows. Where a sample's rows are a multiple of that, the samples' scales one after the
other are packed scales themselves; otherwise they are unpacked, and packed again if need be.

block_scaled_matmul has no batch. Where only `a` and its scales are mapped, samples become rows; where only `b`, its
scales and the bias are, columns. All else is one call for each sample: both operands, a global scale, the bias alone;
for `quantize` a global scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from tileon_ops._rules.fake import quantize
from tileon_ops._rules.fake.block_scaled import check_block_scaled, elements_in_a_row
from tileon_ops._rules.fake.checks import Size
from tileon_ops._rules.fake.scales import BLOCK_ROWS, FORMATS, Format

_ops = torch.ops.tileon

MXFP4, NVFP4 = FORMATS["mxfp4"], FORMATS["nvfp4"]

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


def _fold(tensor: Tensor, dim: Dim, mapped: int) -> Tensor:
    """(V * rows, ...)"""
    return in_front(tensor, dim, mapped).flatten(0, 1)


def _unfold(tensor: Tensor, mapped: int) -> Tensor:
    """(V * rows, ...) as (V, rows, ...)"""
    return tensor.unflatten(0, (mapped, tensor.shape[0] // max(mapped, 1)))


def _one_by_one(op: Any, info: Info, in_dims: tuple[Dim, ...], arguments: Any, options: Any) -> Any:
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
    return _unfold(_ops.pack_scales(padded.flatten(0, 1)), scale.shape[0])


def _unpack(packed: Tensor, rows: Size, cols: Size) -> Tensor:
    """(V, R, C, 32, 4, 4) to (V, rows, columns)."""
    mapped, blocks = packed.shape[:2]
    unpacked = _ops.unpack_scales(packed.flatten(0, 1), mapped * blocks * BLOCK_ROWS, cols)
    return _unfold(unpacked, mapped)[:, :rows]


def _fold_scale(scale: Tensor, dim: Dim, mapped: int, rows: Size, cols: Size) -> Tensor:
    """Scales of V * rows rows, from those of `rows` for each sample, 2-D or packed."""
    scale = in_front(scale, dim, mapped)
    if scale.dim() == 6 and rows % BLOCK_ROWS != 0:
        scale = _unpack(scale, rows, cols)
    return scale.flatten(0, 1)


def pad_dims(in_dims: tuple[Dim, ...], count: int) -> tuple[Dim, ...]:
    """The dispatcher leaves defaults out."""
    return (*in_dims, *(None,) * (count - len(in_dims)))


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
    if rows % BLOCK_ROWS == 0:
        scale = _unfold(scale, mapped)
    else:
        scale = _pack(_unfold(_ops.unpack_scales(scale, data.shape[0], like.shape[1] // known.vec), mapped))
    return (_unfold(data, mapped), scale), (0, 0)


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


def _block_scaled_rule(op: Any, own_tensors: int) -> Callable[..., Any]:
    """The rule of an op that takes a, b, scale_a, scale_b, `own_tensors` others, bias and global_scale."""
    count = 6 + own_tensors

    def rule(info: Info, in_dims: tuple[Dim, ...], *arguments: Any, **options: Any) -> Any:
        arguments = (*arguments, *(None,) * (count - len(arguments)))
        in_dims = pad_dims(in_dims, count)
        likes: list[Any] = [x if x is None else sample(x, dim) for x, dim in zip(arguments, in_dims, strict=True)]
        activation, out_dtype = options.get("activation", "none"), options.get("out_dtype")
        check_block_scaled(likes[0], likes[1], likes[2], likes[3], likes[-2], likes[-1], activation, out_dtype)
        a, b, scale_a, scale_b, *others, bias, global_scale = arguments
        a_dim, b_dim, scale_a_dim, scale_b_dim, *other_dims, bias_dim, global_dim = in_dims
        mapped, rows, columns = info.batch_size, likes[0].shape[0], likes[1].shape[0]
        groups = elements_in_a_row(likes[0]) // (NVFP4.vec if scale_a.dtype in NVFP4.scales else MXFP4.vec)

        a_is_mapped = a_dim is not None or scale_a_dim is not None
        b_is_mapped = b_dim is not None or scale_b_dim is not None
        others_are_mapped = global_dim is not None or any(dim is not None for dim in other_dims)
        if others_are_mapped or a_is_mapped == b_is_mapped:
            return _one_by_one(op, info, in_dims, arguments, options)
        if a_is_mapped:
            if bias_dim is not None:
                return _one_by_one(op, info, in_dims, arguments, options)
            a = _fold(a, a_dim, mapped)
            scale_a = _fold_scale(scale_a, scale_a_dim, mapped, rows, groups)
            return _unfold(op(a, b, scale_a, scale_b, *others, bias, global_scale, **options), mapped), 0
        if others:  # made from one `b`
            return _one_by_one(op, info, in_dims, arguments, options)
        b = _fold(b, b_dim, mapped)
        scale_b = _fold_scale(scale_b, scale_b_dim, mapped, columns, groups)
        bias = None if bias is None else _fold(bias, bias_dim, mapped)
        result = op(a, b, scale_a, scale_b, bias, global_scale, **options)
        return result.unflatten(1, (mapped, columns)), 1

    return rule


RULES: dict[str, Callable[..., Any]] = {
    "quantize": _quantize,
    "dequantize": _dequantize,
    "pack_scales": _pack_scales,
    "unpack_scales": _unpack_scales,
    "block_scaled_matmul": _block_scaled_rule(_ops.block_scaled_matmul.default, 0),
    "_block_scaled_matmul_prepared": _block_scaled_rule(_ops._block_scaled_matmul_prepared.default, 1),
}
