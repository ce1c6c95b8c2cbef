"""Codes, block scales and global scales for the soak test: any byte may occur, any partner, any layout."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from soak.draw import Draw
from soak.operand import Layout, Operand, draw_layout, filled, placed
from soak.small_floats import NAN_SCALES, packed, unpacked

E4M3, E8M0, FP4, BYTE = torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2, torch.uint8
ELEMENT_DTYPES = {"e4m3": (E4M3,), "e2m1": (BYTE, FP4)}
SCALE_DTYPES = {"e8m0": (E8M0, BYTE), "e4m3": (E4M3,)}

_NAN_SHARE = 0.08  # of the operands that have NaN in a few codes or scales


def _without_nan(values: Tensor) -> Tensor:
    return torch.where((values & 0x7F) == 0x7F, values & 0x80, values)


def draw_codes(draw: Draw, element: str, rows: int, k: int, *, dtype: torch.dtype | None = None) -> Operand:
    """(rows, k) of e4m3, or (rows, k / 2) bytes of e2m1."""
    kind = draw.weighted({"any code": 70, "subnormal or zero": 8, "with zeros": 14, "one code": 8})
    may_be_nan = draw.chance(_NAN_SHARE)

    def values(count: int) -> Tensor:
        codes = draw.bytes(count)
        if kind == "subnormal or zero":
            codes &= 0x87 if element == "e4m3" else 0x99
        elif kind == "with zeros":
            codes *= draw.bytes(count, 0, 3) == 0
        elif kind == "one code":
            codes = codes[:1].expand(count)
        return codes if element == "e2m1" or (may_be_nan and kind == "any code") else _without_nan(codes)

    shape = (rows, k if element == "e4m3" else k // 2)
    return filled(draw_layout(draw, shape), dtype or draw.pick(ELEMENT_DTYPES[element]), values, kind)


@dataclass(frozen=True)
class Spread:
    """Where the scales of one operand lie: e8m0 bytes around a center, or bytes of e4m3."""

    scale: str
    center: int
    width: int
    has_nan: bool

    def note(self) -> str:
        words = f"bytes {self.center} +- {self.width}" if self.scale == "e8m0" else f"any byte & {self.width:#04x}"
        return words + (", some NaN" if self.has_nan else "")

    def bytes(self, draw: Draw, count: int) -> Tensor:
        if self.scale == "e8m0":
            first, last = max(0, self.center - self.width), min(254, self.center + self.width)
            values = draw.bytes(count, first, last)
        else:
            values = _without_nan((draw.bytes(count) & self.width) + self.center)
        if self.has_nan and count:
            for _ in range(draw.between(1, 2)):
                values[draw.below(count)] = NAN_SCALES[self.scale]
        return values


def draw_spreads(draw: Draw, scale: str) -> tuple[Spread, Spread]:
    """Of two operands: scales of any size, of which those of the one may make up for the other's."""

    def nan() -> bool:
        return draw.chance(_NAN_SHARE)

    if scale == "e4m3":  # any byte; positive; of few binades around 1; two signs of 1
        masks = {(0xFF, 0): 40, (0x7F, 0): 20, (0x0F, 0x30): 25, (0x80, 0x38): 15}
        first, second = draw.weighted(masks), draw.weighted(masks)
        return Spread(scale, first[1], first[0], nan()), Spread(scale, second[1], second[0], nan())
    center = 127 if draw.chance(0.4) else draw.between(0, 254)
    partner = draw.pick((127, 254 - center, 254 - center, draw.between(0, 254)))
    widths = {0: 20, 1: 15, 3: 30, 10: 15, 40: 10, 255: 10}
    return (
        Spread(scale, center, draw.weighted(widths), nan()),
        Spread(scale, partner, draw.weighted(widths), nan()),
    )


def draw_scales(draw: Draw, spread: Spread, rows: int, columns: int, *, dtype: torch.dtype | None = None) -> Operand:
    """2-D, or packed with poison in the padding."""
    dtype = dtype or draw.pick(SCALE_DTYPES[spread.scale])
    if draw.chance(0.5):
        layout = draw_layout(draw, (rows, columns))
        return filled(layout, dtype, lambda count: spread.bytes(draw, count), spread.note())
    values = packed(spread.bytes(draw, rows * columns).view(rows, columns), padding=draw.pick((0xFF, 0xFF, 0x7F, 0x38)))
    layout = draw_layout(draw, tuple(values.shape), may_overlap=False)
    return placed(values.view(dtype), layout, f"{spread.note()}, packed")


def scale_bytes(scales: Operand, rows: int, columns: int) -> Tensor:
    """(rows, columns) bytes of 2-D or packed scales."""
    values = scales.bits()
    return values if values.dim() == 2 else unpacked(values, rows, columns)


def draw_global_scale(draw: Draw, share: float) -> Operand | None:
    """A float32 of one element, mostly of a size that leaves results finite."""
    if not draw.chance(share):
        return None
    sign = draw.pick((1.0, 1.0, -1.0))
    kind = draw.weighted({"1": 10, "power": 25, "any": 45, "far": 15, "end": 5})
    value = 1.0 if kind == "1" else sign * 2.0 ** draw.between(-20, 12)
    if kind in ("any", "far"):
        value = (
            sign
            * (1 + draw.below(2**23) * 2.0**-23)
            * 2.0 ** draw.between(*((-24, 12) if kind == "any" else (-120, 120)))
        )
    if kind == "end":
        value = draw.pick((0.0, math.inf, -math.inf, math.nan, 2.0**-149, 2.0**127))
    shape = draw.pick(((), (1,)))
    layout = Layout(shape, tuple(draw.pick((1, 1, 0, 9)) for _ in shape), draw.pick((0, 1, 3)))
    return filled(layout, torch.float32, lambda count: torch.full((count,), value), f"{value!r}")


def global_factor(global_scale: Operand | None) -> float | None:
    return None if global_scale is None else float(global_scale.view().reshape(()))
