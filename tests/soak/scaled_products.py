"""The soak test's products of operands that are not two block-scaled ones: fp8 and int8 with float32 scales of every
granularity, and weights alone scaled. What must come of them is docs/operands.md's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from soak.block_scaled import FORMATS
from soak.case import Argument, Call, Case
from soak.draw import Draw
from soak.epilogue import Epilogue, draw_epilogue
from soak.intervals import INFINITE_FLOAT32, Interval, Precision, product, rounding, scaled, scaled_by_row
from soak.operand import Operand, draw_layout, draw_out, filled
from soak.precision import weight_only, with_float32_scales
from soak.scales import draw_codes, draw_global_scale, draw_scales, draw_spreads, global_factor, scale_bytes
from soak.small_floats import elements, power_of_two, with_scales
from soak.values import E4M3, E5M2, Source
from soak.wanted import Numbers, Wanted

SUMS_BEFORE_SCALES = "float32: sums that scales multiply may overflow before"

_UNITS = 2.0**16  # of a weight's sums on Hopper (csrc/cuda/sm90/mainloop/unit_of_sums.cuh), beside the first one

INT8 = torch.int8
_BLOCK = 128
_PAIRS = {"fp8": 40, "int8": 18, "weight of a byte's scale": 24, "weight of float32 scales": 18}
_GRANULARITIES = ("tensor", "row", "1x128", "128x128")
_OUT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, E4M3)


@dataclass(frozen=True)
class Rows:
    """One operand: what the call gets, its elements (rows, k) in float64, and what each is multiplied by."""

    data: Operand
    scale: Operand | None
    elements: Tensor
    factors: Tensor  # float64, of a shape that broadcasts

    def values(self) -> Tensor:
        return self.elements * self.factors

    def changes_along_k(self) -> bool:
        return self.scale is not None and self.factors.dim() == 2 and self.factors.shape[1] > 1

    def aligned(self, least: float) -> Tensor:
        """Magnitudes as tensor cores align products by them: no element but 0 counts as less than `least`."""
        sizes = torch.where(self.elements == 0, 0.0, self.elements.abs().clamp(min=least))
        return (sizes * self.factors.abs()).nan_to_num(0.0, 0.0, 0.0)


def _codes(draw: Draw, dtype: torch.dtype, rows: int, k: int) -> Operand:
    """Any code, or small integers; NaN and infinity, which fp8 has, in few operands."""
    integers, has_special = draw.chance(0.35), draw.chance(0.08)

    def values(count: int) -> Tensor:
        if integers:
            return draw.integers(count, -3, 3).to(dtype)
        drawn = draw.bytes(count).view(dtype)
        if dtype == INT8 or has_special:
            return drawn
        return torch.where(drawn.float().isfinite(), drawn.view(torch.uint8), 0).view(dtype)

    return filled(draw_layout(draw, (rows, k)), dtype, values, "integers up to 3" if integers else "any code")


def _scale_shape(granularity: str, rows: int, k: int) -> tuple[int, int]:
    blocks = -(-k // _BLOCK)
    shapes = {"tensor": (1, 1), "row": (rows, 1), "1x128": (rows, blocks), "128x128": (-(-rows // _BLOCK), blocks)}
    return shapes[granularity]


def _spread(scale: Tensor, granularity: str, rows: int, k: int) -> Tensor:
    if granularity in ("1x128", "128x128"):
        scale = scale.repeat_interleave(_BLOCK, 1)[:, :k]
    return scale.repeat_interleave(_BLOCK, 0)[:rows] if granularity == "128x128" else scale


def _of_float32_scales(draw: Draw, dtype: torch.dtype, rows: int, k: int, center: int) -> Rows:
    """Scales within some binades of 2^center, of either sign; one in ten operands has a zero or a NaN among them."""
    granularity = draw.pick(_GRANULARITIES[:2] if dtype == INT8 else _GRANULARITIES)
    data = _codes(draw, dtype, rows, k)
    whole = _scale_shape(granularity, rows, k)
    shape = draw.pick(((), (1,), (1, 1))) if granularity == "tensor" else whole
    reach, are_powers, has_special = draw.pick((0, 2, 10)), draw.chance(0.4), draw.chance(0.1)

    def values(count: int) -> Tensor:
        fractions = torch.ones(count, dtype=torch.float64) if are_powers else 1 + draw.normal(count).abs().clamp(max=1)
        drawn = fractions * power_of_two(draw.integers(count, center - reach, center + reach))
        drawn = drawn * (2 * draw.integers(count, 0, 1) - 1)
        if has_special and count:
            drawn[draw.below(count)] = draw.pick((0.0, math.nan))
        return drawn.float()

    note = f"{granularity}, within 2^{reach} of 2^{center}"
    scale = filled(draw_layout(draw, shape), torch.float32, values, note)
    factors = _spread(scale.view().double().reshape(whole), granularity, rows, k)
    return Rows(data, scale, data.view().double(), factors)


def _of_byte_scales(draw: Draw, name: str, rows: int, k: int) -> Rows:
    form = FORMATS[name]
    data = draw_codes(draw, form.b, rows, k)
    scale = draw_scales(draw, draw_spreads(draw, form.scale)[0], rows, k // form.vec)
    by_row = scale_bytes(scale, rows, k // form.vec)
    values = with_scales(elements(data.bits(), form.b), by_row, form.scale, form.vec)
    return Rows(data, scale, values, torch.ones(1, 1, dtype=torch.float64))


def _numbers(source: Source, dtype: torch.dtype, rows: int, k: int) -> Rows:
    data = source.operand((rows, k), dtype)
    return Rows(data, None, data.view().detach().double(), torch.ones(1, 1, dtype=torch.float64))


def _draw_pair(draw: Draw, kind: str) -> tuple[str, Rows, Rows]:
    byte_scaled = draw.pick(("mxfp8", "mxfp4", "nvfp4"))
    m, n, k = draw.product_sizes(step=FORMATS[byte_scaled].vec if kind == "weight of a byte's scale" else 1)
    center, partner = (draw.between(-60, 60), draw.between(-15, 15)) if draw.chance(0.3) else (0, 0)
    if kind == "fp8":
        dtypes = draw.pick(((E4M3, E4M3), (E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2)))
        a = _of_float32_scales(draw, dtypes[0], m, k, center)
        return "fp8 x fp8", a, _of_float32_scales(draw, dtypes[1], n, k, partner - center)
    if kind == "int8":
        a = _of_float32_scales(draw, INT8, m, k, center)
        return "int8 x int8", a, _of_float32_scales(draw, INT8, n, k, partner - center)
    dtype = draw.pick((torch.bfloat16, torch.bfloat16, torch.float16))
    a = _numbers(Source(draw, integers=draw.chance(0.35), high=20), dtype, m, k)
    if kind == "weight of a byte's scale":
        return f"16 bits x {byte_scaled}", a, _of_byte_scales(draw, byte_scaled, n, k)
    weight = draw.pick((E4M3, E5M2, INT8))
    return "16 bits x float32 scales", a, _of_float32_scales(draw, weight, n, k, partner)


def _draw_global_scale(draw: Draw, rows: int) -> Operand | None:
    """None, one element, or one for each row of a."""
    if draw.chance(0.8):
        return draw_global_scale(draw, share=0.25)

    def values(count: int) -> Tensor:
        return (draw.normal(count) * power_of_two(draw.integers(count, -9, 9))).float()

    return filled(draw_layout(draw, (rows, 1)), torch.float32, values, "one a row")


def draw_scaled_product(draw: Draw, *, with_out: bool) -> Case:
    name, a, b = _draw_pair(draw, draw.weighted(_PAIRS))
    rows, columns = a.elements.shape[0], b.elements.shape[0]
    global_scale = _draw_global_scale(draw, rows)
    epilogue = draw_epilogue(Source(draw, integers=draw.chance(0.5), high=20), columns, draw.pick(_OUT_DTYPES))
    options = epilogue.options(draw, a.data.dtype if a.scale is None else torch.float16)
    if draw.chance(0.25):
        options["fast_accum"] = True
    arguments: dict[str, Argument] = {
        "a": a.data,
        "b": b.data,
        "scale_a": a.scale,
        "scale_b": b.scale,
        "bias": epilogue.bias,
        "global_scale": global_scale,
    }
    call = Call(
        "block_scaled_matmul",
        arguments,
        options,
        out=draw_out(draw, (rows, columns), epilogue.out_dtype) if with_out else None,
        through=draw.pick(("op", "python")),
        mode=draw.pick(("grad", "no_grad", "inference_mode")),
    )
    return Case(call, name, _Oracle(call, a, b, epilogue, global_scale).wanted)


def _may_overflow(a: Tensor, b: Tensor, units: float) -> Tensor:
    """Of each sum, whether partial sums of its elements without scales, or up to so many times them, may leave float32.

    Beside such sums an infinite element may meet infinity of the other sign.
    """
    finite_a, finite_b = (each.masked_fill(~each.isfinite(), 0.0).abs() for each in (a, b))
    return (finite_a @ finite_b.t() >= INFINITE_FLOAT32 / 2 / units) & ~(a @ b.t()).isnan()


@dataclass(frozen=True)
class _Oracle:
    call: Call
    a: Rows
    b: Rows
    epilogue: Epilogue
    global_scale: Operand | None

    def wanted(self, device: torch.device) -> Mapping[str, Wanted]:
        precision = self._precision(device)
        a, b = self.a, self.b
        aligned = a.aligned(precision.least), b.aligned(precision.least).t()
        sums = self._in_float32(product(a.values(), b.values().t(), precision, aligned))
        if device.type != "cpu" and a.scale is None:
            units = _UNITS if b.changes_along_k() else 1.0
            sums = sums.left_open(SUMS_BEFORE_SCALES, _may_overflow(a.elements, b.elements, units))
        if self.global_scale is not None and self.global_scale.layout.shape == (a.elements.shape[0], 1):
            sums = scaled_by_row(sums, self.global_scale.view().double())
        elif (factor := global_factor(self.global_scale)) is not None:
            sums = scaled(sums, factor)
        interval = self.epilogue.result(self.epilogue.argument(sums, precision.unit), precision.unit)
        return {"result" if self.call.out is None else "out": Numbers(interval, self.epilogue.out_dtype)}

    def _precision(self, device: torch.device) -> Precision:
        k, dtypes = self.a.elements.shape[1], (self.a.data.dtype, self.b.data.dtype)
        if self.a.scale is None:
            precision = weight_only(k, device, dtypes[0])
            return self._by_quotients(precision) if device.type != "cpu" and self.b.changes_along_k() else precision
        return with_float32_scales(k, dtypes, device, bool(self.call.options.get("fast_accum")))

    def _by_quotients(self, precision: Precision) -> Precision:
        """Of sums that are multiplied by quotients of scales: exact where these are powers of two."""
        sizes = self.b.factors.abs().nan_to_num(0.0, 0.0)
        largest = max(1.0, float(sizes.max())) if sizes.numel() > 0 else 1.0
        mantissas = torch.frexp(sizes).mantissa
        are_powers = bool(((mantissas == 0.5) | (mantissas == 0.0)).all())
        return replace(
            precision,
            exact=precision.exact if are_powers else 0.0,
            underflow=precision.underflow * largest * _UNITS,
        )

    def _in_float32(self, sums: Interval) -> Interval:
        """A sum is rounded once more by each float32 scale."""
        scales = sum(each.factors.numel() > 1 or bool((each.factors != 1).any()) for each in (self.a, self.b))
        error = sums.error
        for _ in range(scales):
            error = error + rounding(sums.value, error, 2.0**-24)
        return Interval(sums.value, torch.where(sums.value.isfinite(), error, 0.0), sums.open)
