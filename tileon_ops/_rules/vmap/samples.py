"""What the rules of vmap share: samples as rows of one operand, with their scales, and one call for each sample.

Packed scales hold blocks of 128 rows. Where a sample's rows are a multiple of that, the samples' scales one after the
other are packed scales themselves; otherwise they are unpacked, and packed again if need be.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from tileon_ops._rules.fake.checks import Size
from tileon_ops._rules.fake.scales import BLOCK_ROWS

_ops = torch.ops.tileon

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


def pack(scale: Tensor) -> Tensor:
    """(V, rows, columns) to (V, ceil(rows / 128), ceil(columns / 4), 32, 4, 4)."""
    padded = F.pad(scale.view(torch.uint8), (0, 0, 0, -scale.shape[1] % BLOCK_ROWS)).view(scale.dtype)
    return unfold(_ops.pack_scales(padded.flatten(0, 1)), scale.shape[0])


def unpack(packed: Tensor, rows: Size, cols: Size) -> Tensor:
    """(V, R, C, 32, 4, 4) to (V, rows, columns)."""
    mapped, blocks = packed.shape[:2]
    unpacked = _ops.unpack_scales(packed.flatten(0, 1), mapped * blocks * BLOCK_ROWS, cols)
    return unfold(unpacked, mapped)[:, :rows]


def fold_packed_scale(scale: Tensor, dim: Dim, mapped: int, rows: Size, cols: Size) -> Tensor:
    """Scales of V * rows rows, from those of `rows` for each sample, 2-D or packed."""
    scale = in_front(scale, dim, mapped)
    if scale.dim() == 6 and rows % BLOCK_ROWS != 0:
        scale = unpack(scale, rows, cols)
    return scale.flatten(0, 1)


def pad_dims(in_dims: tuple[Dim, ...], count: int) -> tuple[Dim, ...]:
    """The dispatcher leaves defaults out."""
    return (*in_dims, *(None,) * (count - len(in_dims)))
