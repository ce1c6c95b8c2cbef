"""Operands of the soak test: a view of any strides into bytes that are poison everywhere else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from soak.draw import Draw

MARGIN = 64  # bytes on either side: a multiple of 16, so that it alone misaligns nothing
POISON = 0xFF  # NaN in every float type and both scale types, -6 in e2m1

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # bits of an element, whatever its dtype


@dataclass(frozen=True)
class Layout:
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements, never negative
    offset: int = 0  # elements before the first, behind the margin

    @property
    def span(self) -> int:
        """Elements from the first that is reached to the last, both included."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))

    def reached(self) -> Tensor:
        """Which elements of the span the view reaches."""
        mask = torch.zeros(self.span, dtype=torch.bool)
        if self.span:
            once = [1 if stride == 0 else size for size, stride in zip(self.shape, self.strides, strict=True)]
            mask.as_strided(once, self.strides).fill_(True)
        return mask

    def overlaps_itself(self) -> bool:
        return int(self.reached().sum()) < math.prod(self.shape)


def contiguous(shape: tuple[int, ...], offset: int = 0) -> Layout:
    strides = itertools.accumulate(reversed(shape[1:]), lambda stride, size: stride * max(size, 1), initial=1)
    return Layout(shape, tuple(reversed(list(strides)))[: len(shape)], offset)


def draw_layout(draw: Draw, shape: tuple[int, ...], *, may_overlap: bool = True) -> Layout:
    """Contiguous, permuted, padded, with steps, at an odd offset; where it `may_overlap`, of stride 0 or as windows."""
    offset = draw.weighted({0: 55, 1: 12, 2: 5, 3: 8, 4: 5, 7: 5, 8: 10})
    kind = draw.weighted({"contiguous": 30, "strided": 52, "repeated": 10, "windows": 8})
    if kind == "contiguous" or not shape:
        return contiguous(shape, offset)
    layout = _nested(draw, shape, offset)
    if kind == "repeated" and may_overlap:
        zeros = [draw.chance(0.5) for _ in shape]
        strides = tuple(0 if zero else stride for zero, stride in zip(zeros, layout.strides, strict=True))
        return Layout(shape, strides, offset)
    if kind == "windows":
        return _crossing(draw, layout, may_overlap)
    return layout


def _nested(draw: Draw, shape: tuple[int, ...], offset: int) -> Layout:
    """Each stride steps over what the smaller ones reach."""
    order = draw.shuffled(range(len(shape))) if draw.chance(0.6) else list(range(len(shape)))
    strides, stride = [0] * len(shape), draw.pick((1, 1, 1, 2, 3))
    for dim in reversed(order):
        strides[dim] = stride
        stride = stride * max(shape[dim], 1) + draw.pick((0, 0, 0, 1, 3, 8))
        if shape[dim] <= 1 and draw.chance(0.3):
            strides[dim] = draw.pick((0, 1, 7, 1_000_003))  # which means nothing, and must do no harm
    return Layout(shape, tuple(strides), offset)


def _crossing(draw: Draw, layout: Layout, may_overlap: bool) -> Layout:
    """Small strides of which none need step over the others' reach; `layout` where those would overlap and may not."""
    if layout.span > 4096:
        return layout
    most = max(2, 2 * min(layout.shape))
    for _ in range(4):
        crossing = Layout(layout.shape, tuple(draw.between(1, most) for _ in layout.shape), layout.offset)
        if may_overlap or not crossing.overlaps_itself():
            return crossing
    return layout


@dataclass(frozen=True, eq=False)
class Operand:
    """A view as a call gets it, and all bytes of its storage as they are before the call."""

    storage: Tensor  # uint8, on the CPU
    dtype: torch.dtype
    layout: Layout
    note: str  # what its values are, in words
    kind: str = ""  # and in one
    requires_grad: bool = False

    def view(self, storage: Tensor | None = None) -> Tensor:
        """The view into these bytes, or into a copy of them elsewhere."""
        place = self.storage if storage is None else storage
        layout, itemsize = self.layout, self.dtype.itemsize
        words = place.view(_WORDS[itemsize])
        view = words.as_strided(layout.shape, layout.strides, MARGIN // itemsize + layout.offset).view(self.dtype)
        return view.detach().requires_grad_() if self.requires_grad else view

    def bits(self) -> Tensor:
        """The view as integers of the elements' size."""
        return self.view().detach().view(_WORDS[self.dtype.itemsize])

    def reached_bytes(self) -> Tensor:
        """Which bytes of the storage are the view's."""
        mask = torch.zeros(self.storage.numel(), dtype=torch.bool)
        itemsize, first = self.dtype.itemsize, MARGIN + self.layout.offset * self.dtype.itemsize
        mask[first : first + self.layout.span * itemsize] = self.layout.reached().repeat_interleave(itemsize)
        return mask

    def described(self) -> str:
        layout = self.layout
        words = f"{layout.shape} {str(self.dtype).removeprefix('torch.')}, strides {layout.strides}"
        words += f", offset {layout.offset}" if layout.offset else ""
        words += ", requires grad" if self.requires_grad else ""
        return f"{words}, {self.note}"


def storage_of(layout: Layout, dtype: torch.dtype) -> Tensor:
    """Poison of a whole number of 16 bytes."""
    count = 2 * MARGIN + -(-(layout.offset + layout.span) * dtype.itemsize // 16) * 16
    return torch.full((count,), POISON, dtype=torch.uint8)


def filled(
    layout: Layout,
    dtype: torch.dtype,
    values: Callable[[int], Tensor],
    note: str,
    *,
    kind: str = "",
    requires_grad: bool = False,
) -> Operand:
    """`values(count)`, of this dtype, in the order of memory: a view that overlaps itself reads some of them again."""
    operand = Operand(storage_of(layout, dtype), dtype, layout, note, kind, requires_grad)
    if layout.span:
        words = _WORDS[dtype.itemsize]
        first = MARGIN // dtype.itemsize + layout.offset
        place = operand.storage.view(words)[first : first + layout.span]
        place.copy_(torch.where(layout.reached(), values(layout.span).view(words), place))
    return operand


def placed(values: Tensor, layout: Layout, note: str) -> Operand:
    """A copy of `values`; the layout does not overlap itself."""
    operand = Operand(storage_of(layout, values.dtype), values.dtype, layout, note)
    operand.bits().copy_(values.view(_WORDS[values.dtype.itemsize]))
    return operand


def draw_out(draw: Draw, shape: tuple[int, ...], dtype: torch.dtype) -> Operand:
    """Where to write a result: its elements are NaN, so that none is right unless written, random bytes around them."""
    layout = draw_layout(draw, shape, may_overlap=False)
    operand = Operand(storage_of(layout, dtype), dtype, layout, "to be written")
    guards = draw.bytes(operand.storage.numel())
    operand.storage.copy_(torch.where(operand.reached_bytes(), operand.storage, guards))
    return operand
