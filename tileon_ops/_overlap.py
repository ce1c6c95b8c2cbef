"""The rules of `out` (csrc/overlap.h) where it has more dimensions than the op takes and does not merge into those."""

from __future__ import annotations

import torch
from torch import Tensor


def merged(out: Tensor, shape: tuple[int, ...]) -> Tensor | None:
    """`out` in another shape, on the same memory; None where its strides do not allow it."""
    try:
        return out.view(shape)
    except RuntimeError:
        return None


def _overlaps_itself(tensor: Tensor) -> bool:
    reach = 0
    nested = True  # nearly always each stride steps over everything that the smaller ones reach
    dims = sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1)
    for stride, size in dims:
        nested = nested and stride > reach
        reach += (size - 1) * stride
    if nested:
        return False
    offsets = torch.zeros(1, dtype=torch.int64)
    for stride, size in dims:
        offsets = (offsets[:, None] + stride * torch.arange(size)).flatten()
    return offsets.unique().numel() != offsets.numel()


def _bytes(tensor: Tensor) -> tuple[int, int]:
    """The addresses [first, last) that a tensor with elements may touch."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def check_apart(out: Tensor, inputs: dict[str, Tensor | None]) -> None:
    """RuntimeError in the op's words where `out` overlaps itself or an input."""
    if out.numel() == 0:
        return
    if _overlaps_itself(out):
        raise RuntimeError(
            f"matmul: `out` must not overlap itself, got strides {tuple(out.stride())} for the shape {tuple(out.shape)}"
        )
    first, last = _bytes(out)
    for name, tensor in inputs.items():
        if tensor is not None and tensor.numel() > 0:
            its_first, its_last = _bytes(tensor)
            if first < its_last and its_first < last:
                raise RuntimeError(f"matmul: `out` must not overlap `{name}` in memory")
