"""The rules of `out` (csrc/checks/overlap.h) where it has more dimensions than the op takes and does not merge into those."""

from __future__ import annotations

from torch import Tensor

from tileon_ops._strides import overlaps_itself


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
