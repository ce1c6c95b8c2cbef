"""Operands for tests: small integers and random values, of any strides, inside a storage that is NaN everywhere else.

A kernel that reads outside its operand then gives NaN, and one that writes outside its output leaves a trace in the
margin.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import torch
from torch import Tensor

LAYOUTS = ("NN", "NT", "TN", "TT")  # first letter: a, second: b; T is the transposed view of a contiguous tensor
MARGIN = 64  # elements of NaN on either side: a multiple of 16 bytes, so that a margin alone misaligns nothing

Device = torch.device | str


def _generator(shape: tuple[int, ...], device: Device, seed: int) -> torch.Generator:
    generator = torch.Generator(device=device)
    generator.manual_seed(zlib.crc32(repr((shape, seed)).encode()))
    return generator


def integers(*shape: int, dtype: torch.dtype, device: Device, seed: int = 0, high: int = 2) -> Tensor:
    """Integers in [-high, high]: products and sums of them are exact in every accumulator up to 2^24."""
    generator = _generator(shape, device, seed)
    return torch.randint(-high, high + 1, shape, generator=generator, device=device).to(dtype)


def normal(*shape: int, dtype: torch.dtype, device: Device, seed: int = 0) -> Tensor:
    generator = _generator(shape, device, seed)
    return torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(dtype)


def full_precision(*shape: int, dtype: torch.dtype, device: Device, seed: int = 0) -> Tensor:
    """Normal values that use every bit of `dtype`'s fraction (float64 included)."""
    generator = _generator(shape, device, seed)
    return torch.randn(shape, generator=generator, device=device, dtype=torch.float64).to(dtype)


@dataclass
class Placed:
    """A view and the storage around it; `margin_is_intact()` says whether only the view was written."""

    view: Tensor
    storage: Tensor

    def margin_is_intact(self) -> bool:
        outside = torch.ones(self.storage.shape, dtype=torch.bool, device=self.storage.device)
        if self.view.numel():
            outside.as_strided(self.view.shape, self.view.stride(), self.view.storage_offset()).fill_(False)
        return bool(self.storage[outside].isnan().all())


def place(
    values: Tensor, *, transposed: bool = False, pad: int = 0, step: int = 1, offset: int = 0, batch_last: bool = False
) -> Placed:
    """Copies (rows, cols) or (batch, rows, cols) into a NaN-filled storage of other strides.

    `pad`: elements between two lines; `step`: stride between neighbours; `offset`: elements before the first, past the
    margin; `batch_last`: the batch is the fastest dimension.
    """
    *batch, rows, cols = values.shape
    inner, outer = (rows, cols) if transposed else (cols, rows)
    batches = batch[0] if batch else 1
    stride_inner = step * (max(batches, 1) if batch_last else 1)
    stride_outer = inner * stride_inner + pad
    stride_batch = step if batch_last else outer * stride_outer
    span = outer * stride_outer * (1 if batch_last else max(batches, 1))
    storage = torch.full((2 * MARGIN + offset + span,), float("nan"), dtype=values.dtype, device=values.device)
    strides = (stride_inner, stride_outer) if transposed else (stride_outer, stride_inner)
    view = storage.as_strided(values.shape, (stride_batch, *strides) if batch else strides, MARGIN + offset)
    view.copy_(values)
    return Placed(view, storage)


def in_layout(a: Tensor, b: Tensor, layout: str, *, pad: int = 0, offset: int = 0) -> tuple[Tensor, Tensor]:
    """The two operands as `layout` has them, each inside NaN margins."""
    return (
        place(a, transposed=layout[0] == "T", pad=pad, offset=offset).view,
        place(b, transposed=layout[1] == "T", pad=pad, offset=offset).view,
    )


def aligned_pad(inner: int, element_bytes: int) -> int:
    """The padding that makes a line of `inner` elements a multiple of 16 bytes."""
    return -inner % (16 // element_bytes)


def aligned(values: Tensor, letter: str) -> Tensor:
    """One operand, transposed where `letter` is T, every line at a multiple of 16 bytes, inside NaN margins."""
    inner = values.shape[-2] if letter == "T" else values.shape[-1]
    return place(values, transposed=letter == "T", pad=aligned_pad(inner, values.element_size())).view


def in_aligned_layout(a: Tensor, b: Tensor, layout: str) -> tuple[Tensor, Tensor]:
    """As `in_layout`, every line starting at a multiple of 16 bytes, whatever the sizes."""
    return aligned(a, layout[0]), aligned(b, layout[1])
