"""Numbers of the soak test's dense operands: small integers, normal ones, of one sign, over many binades, any code."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from soak.draw import Draw
from soak.operand import Layout, Operand, draw_layout, filled
from soak.small_floats import power_of_two

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2

# Exponents of `spread` lie within minus and plus one of these.
_REACH: dict[torch.dtype, tuple[int, ...]] = {
    torch.float16: (4, 8),
    torch.bfloat16: (8, 20, 20, 64),
    torch.float32: (8, 20, 20, 64),
    torch.float64: (20, 200),
    E4M3: (4, 6),
    E5M2: (6, 12),
}
_KINDS = {"integers": 30, "normal": 38, "one sign": 8, "spread": 24}
_CODES = 6  # weight of any finite code, of fp8 alone
_SPECIAL = 0.07  # share of the operands that hold infinity, NaN, or a number at an end of their dtype's range
SPECIAL = "special"
UNEVEN = ("spread", "codes", SPECIAL)  # kinds of which one number may be far above the others


def largest(dtype: torch.dtype) -> float:
    return 2.0**200 if dtype == torch.float64 else torch.finfo(dtype).max  # squares of it stay finite


def to_dtype(values: Tensor, dtype: torch.dtype) -> Tensor:
    """float64 values rounded; what lies beyond the dtype becomes its largest number."""
    return values.clamp(-largest(dtype), largest(dtype)).to(dtype)


def exact_high(k: int, dtypes: tuple[torch.dtype, torch.dtype]) -> int:
    """The largest magnitude of integers of which k products make sums that every accumulator holds exactly.

    Sums of fp8 products stay below 2^12: Hopper's tensor cores keep 14 bits of them (docs/fp8_error.md).
    """
    is_fp8 = dtypes[0].itemsize == 1
    room = 2.0 ** (12 if is_fp8 else 22) / max(k, 1)
    most = 4 if is_fp8 else 200  # e5m2 holds all integers up to 8, bfloat16 up to 256
    return max(1, min(most, int(math.sqrt(room))))


@dataclass(frozen=True)
class Source:
    """Where the operands of one case get their numbers.

    `integers`: all are small ones, up to `high`. `plain`: nothing special and of few binades, for gradients.
    """

    draw: Draw
    integers: bool
    high: int
    plain: bool = False

    def operand(
        self,
        shape: tuple[int, ...],
        dtype: torch.dtype,
        *,
        layout: Layout | None = None,
        high: int | None = None,
        requires_grad: bool = False,
    ) -> Operand:
        layout = layout or draw_layout(self.draw, shape)
        kind = self._kind(dtype)
        special = kind != "integers" and not self.plain and self.draw.chance(_SPECIAL)
        high = min(high or self.high, self.high)
        reach = self.draw.pick(_REACH[dtype])
        words = {"integers": f"integers up to {high}", "spread": f"spread over 2^-{reach} to 2^{reach}"}
        note = words.get(kind, kind) + (f", {SPECIAL}" if special else "")

        def values(count: int) -> Tensor:
            drawn = self._drawn(kind, count, dtype, high, reach)
            return self._with_specials(drawn) if special else drawn

        told = SPECIAL if special else kind
        return filled(layout, dtype, values, note, kind=told, requires_grad=requires_grad)

    def _kind(self, dtype: torch.dtype) -> str:
        if self.integers:
            return "integers"
        if self.plain:
            return "normal"
        return self.draw.weighted({**_KINDS, "codes": _CODES} if dtype.itemsize == 1 else _KINDS)

    def _drawn(self, kind: str, count: int, dtype: torch.dtype, high: int, reach: int) -> Tensor:
        draw = self.draw
        if kind == "codes":
            values = draw.bytes(count).view(dtype).double()
            return values.masked_fill(~values.isfinite(), 1.0).to(dtype)
        if kind == "integers":
            return draw.integers(count, -high, high).to(dtype)
        if kind == "spread":
            return to_dtype(draw.normal(count) * power_of_two(draw.integers(count, -reach, reach)), dtype)
        power = 2.0 ** (draw.between(-1, 2) if dtype.itemsize == 1 else draw.between(-3, 3))
        if kind == "one sign":
            return to_dtype(draw.normal(count).abs() * draw.pick((-power, power)), dtype)
        return to_dtype(draw.normal(count) * power, dtype)

    def _with_specials(self, values: Tensor) -> Tensor:
        """A few elements replaced. e4m3 has no infinity: it becomes NaN there."""
        dtype = values.dtype
        tiny = 2.0**-200 if dtype == torch.float64 else torch.finfo(dtype).smallest_normal / 2
        ends = (math.nan, math.inf, -math.inf, -0.0, largest(dtype), -largest(dtype), tiny)
        for _ in range(self.draw.between(1, 3)):
            end = torch.tensor(self.draw.pick(ends), dtype=torch.float64).to(dtype)
            values[self.draw.below(len(values))] = end
        return values
