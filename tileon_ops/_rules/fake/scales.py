"""What the fake implementations of the ops on block-scaled operands share.

The rules are those of csrc/checks/scales.h, in its words.
`like` is the op's first argument, whose name is `like_name`; the other tensors must be on its device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tileon_ops._rules.fake.checks import Size, check, check_same_device, dtype_name, same

E4M3, E8M0, FP4, BYTE = torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2, torch.uint8
FLOAT32, INT8 = torch.float32, torch.int8

FLOAT32_SCALES = (FLOAT32,)
FLOAT32_BLOCK = 128  # rows, and elements along k, of a block with a float32 scale of its own

BLOCK_ROWS, BLOCK_COLS = 128, 4  # of a packed block: (32, 4, 4) in memory
BLOCK = (32, 4, 4)


@dataclass(frozen=True)
class Format:
    """A row of csrc/core/formats.h. Of the dtypes, the first is what quantize makes."""

    name: str
    elements: tuple[torch.dtype, ...]
    scales: tuple[torch.dtype, ...]
    vec: int  # elements along k that share a scale; 0: all of them
    rows: int = 1  # rows that share a scale; 0: all of them

    @property
    def per_byte(self) -> int:
        return 2 if FP4 in self.elements else 1

    @property
    def has_packed_scales(self) -> bool:
        """Scales of one byte; others are float32, (rows of blocks, columns of blocks)."""
        return self.scales != (FLOAT32,)

    def scale_shape(self, rows: Size, k: Size) -> tuple[Size, Size]:
        """Of scales that are not packed."""
        return _blocks_in(rows, self.rows), _blocks_in(k, self.vec)


def _blocks_in(size: Size, block: int) -> Size:
    return 1 if block == 0 else size if block == 1 else (size + block - 1) // block


FORMATS = {
    format.name: format
    for format in (
        Format("mxfp8", (E4M3,), (E8M0, BYTE), 32),
        Format("mxfp4", (BYTE, FP4), (E8M0, BYTE), 32),
        Format("nvfp4", (BYTE, FP4), (E4M3,), 16),
        Format("fp8_tensor", (E4M3,), (FLOAT32,), 0, 0),
        Format("fp8_row", (E4M3,), (FLOAT32,), 0),
        Format("fp8_1x128", (E4M3,), (FLOAT32,), 128),
        Format("fp8_128x128", (E4M3,), (FLOAT32,), 128, 128),
        Format("int8_row", (INT8,), (FLOAT32,), 0),
        Format("int8_tensor", (INT8,), (FLOAT32,), 0, 0),
    )
}


def packed_scale_shape(rows: Size, cols: Size) -> tuple[Size, ...]:
    return (rows + BLOCK_ROWS - 1) // BLOCK_ROWS, (cols + BLOCK_COLS - 1) // BLOCK_COLS, *BLOCK


def check_scale_dims(op: str, name: str, scale: Tensor) -> None:
    check(scale.dim() in (2, 5), f"{op}: `{name}` must be 2-D (rows, k / vec) or packed 5-D, got {scale.dim()}-D")


def check_scale_shape(op: str, name: str, scale: Tensor, rows: Size, cols: Size) -> None:
    """`scale` has 2 or 5 dimensions."""
    flat = (rows, cols)
    packed = packed_scale_shape(rows, cols)
    message = f"{op}: `{name}` must have the shape {flat}, or {packed} packed, got {tuple(scale.shape)}"
    for size, wanted in zip(scale.shape, flat if scale.dim() == 2 else packed, strict=True):
        check(size == wanted, message)


def granularity(shape: Sequence[Size], rows: Size, k: Size) -> str:
    """What has a float32 scale of its own, by the shape of the scales of an operand of (rows, k): "tensor", "row",
    "1x128" or "128x128". A shape that fits several means the same as each of them."""
    if len(shape) < 2 or (same(shape[0], 1) and same(shape[1], 1)):
        return "tensor"
    if same(shape[0], rows):
        return "row" if same(shape[1], 1) else "1x128"
    return "128x128"


def check_float32_scale(op: str, name: str, scale: Tensor, element: torch.dtype, rows: Size, k: Size) -> None:
    """Of one scale for an operand of (rows, k), one a row, one for 1 x 128 elements, or one for 128 x 128.

    Which of these it is, is found out first: all four in one condition are more than torch's compiler can simplify.
    """
    k_blocks = (k + FLOAT32_BLOCK - 1) // FLOAT32_BLOCK
    shapes: dict[str, tuple[Size, Size]] = {"tensor": (1, 1), "row": (rows, 1)}
    words = f"(), (1,) or (1, 1) for the whole operand, {'or ' if element == torch.int8 else ''}{shapes['row']} "
    words += "for each row"
    if element != torch.int8:
        row_blocks = (rows + FLOAT32_BLOCK - 1) // FLOAT32_BLOCK
        shapes.update({"1x128": (rows, k_blocks), "128x128": (row_blocks, k_blocks)})
        words += f", {shapes['1x128']} for 1 x 128 elements, or {shapes['128x128']} for 128 x 128"
    message = f"{op}: `{name}` must have the shape {words}, got {tuple(scale.shape)}"
    if scale.dim() == 2:
        wanted = shapes.get(granularity(scale.shape, rows, k))
        check(wanted is not None, message)
        for size, wanted_size in zip(scale.shape, wanted or (), strict=True):
            check(size == wanted_size, message)
    elif scale.dim() == 1:
        check(scale.shape[0] == 1, message)
    else:
        check(scale.dim() == 0, message)


def check_global_scale(op: str, global_scale: Tensor, like: Tensor, like_name: str, rows: Size) -> None:
    """One element, or one for each of the `rows` rows."""
    check_same_device(op, "global_scale", global_scale, like, like_name)
    check(
        global_scale.dtype == torch.float32,
        f"{op}: `global_scale` must be float32, got {dtype_name(global_scale.dtype)}",
    )
    message = (
        f"{op}: `global_scale` must be one element, 0-D or (1,), or one for each row, {(rows, 1)}, got the shape "
        f"{tuple(global_scale.shape)}"
    )
    if global_scale.dim() == 2:
        check(global_scale.shape[0] == rows, message)
        check(global_scale.shape[1] == 1, message)
        return
    check(global_scale.dim() <= 1, message)
    for size in global_scale.shape:
        check(size == 1, message)
