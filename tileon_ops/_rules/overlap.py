"""Elements that share an address: csrc/checks/overlap.h for strides without data, whose sizes may be symbols, and for
an `out` that has more dimensions than the op takes and does not merge into those."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import torch
from torch import Tensor

Size = int | torch.SymInt


def overlaps_itself(sizes: Sequence[Size], strides: Sequence[Size]) -> bool:
    """Exact for integers, for any number of dimensions. Where symbols leave it open it is False: nothing is guarded on,
    and whoever has the numbers has to look again."""
    if any(isinstance(number, torch.SymInt) for number in (*sizes, *strides)):
        return _certainly_overlaps(sizes, strides)
    if 0 in sizes:
        return False
    dims = sorted((int(stride), int(size)) for stride, size in zip(strides, sizes, strict=True) if size != 1)
    return any(stride == 0 for stride, _ in dims) or _can_return(dims, 0, False)


def _can_return(dims: list[tuple[int, int]], position: int, has_moved: bool) -> bool:
    """Whether fewer than `size` steps, forward or back, along each of these dimensions lead from `position` to 0, where
    two elements meet then; not to move at all does not count. `dims` are (stride, size) by ascending stride."""
    if not dims:
        return position == 0 and has_moved
    *smaller, (stride, size) = dims
    reach = sum((size - 1) * stride for stride, size in smaller)  # mostly less than one step of the largest stride
    first = max(1 - size, -((reach + position) // stride))
    last = min(size - 1, (reach - position) // stride)
    return any(
        _can_return(smaller, position + steps * stride, has_moved or steps != 0) for steps in range(first, last + 1)
    )


def _certainly_overlaps(sizes: Sequence[Size], strides: Sequence[Size]) -> bool:
    """Whether that follows whatever the symbols stand for: a dimension is repeated, or a step along one is as long as
    some steps along another."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true as known

    if not all(known(size > 0) for size in sizes):
        return False
    dims = [(stride, size) for stride, size in zip(strides, sizes, strict=True) if known(size > 1)]
    if any(known(stride == 0) for stride, _ in dims):
        return True
    return any(
        known(stride % other == 0) and known(stride < other * other_size)
        for (stride, _), (other, other_size) in permutations(dims, 2)
    )


def merged(out: Tensor, shape: tuple[int, ...]) -> Tensor | None:
    """`out` in another shape, on the same memory; None where its strides do not allow it."""
    try:
        return out.view(shape)
    except RuntimeError:
        return None


def _bytes(tensor: Tensor) -> tuple[int, int]:
    """The addresses [first, last) that a tensor with elements may touch."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def check_apart(out: Tensor, inputs: dict[str, Tensor | None], op: str = "matmul") -> None:
    """RuntimeError in the op's words where `out` overlaps itself or an input."""
    if out.numel() == 0:
        return
    if overlaps_itself(out.shape, out.stride()):
        raise RuntimeError(
            f"{op}: `out` must not overlap itself, got strides {tuple(out.stride())} for the shape {tuple(out.shape)}"
        )
    first, last = _bytes(out)
    for name, tensor in inputs.items():
        if tensor is not None and tensor.numel() > 0:
            its_first, its_last = _bytes(tensor)
            if first < its_last and its_first < last:
                raise RuntimeError(f"{op}: `out` must not overlap `{name}` in memory")
