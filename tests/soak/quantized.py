"""The soak test's calls of quantize, dequantize, pack_scales and unpack_scales, all of whose bits must be right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from soak.case import Argument, Call, Case
from soak.draw import Draw
from soak.operand import Operand, draw_layout, filled
from soak.scales import (
    BYTE,
    E4M3,
    E8M0,
    draw_codes,
    draw_global_scale,
    draw_scales,
    draw_spreads,
    scale_bytes,
)
from soak.small_floats import (
    E2M1,
    NAN_SCALES,
    SCALES,
    as_pairs,
    elements,
    nearest_code,
    packed,
    packed_shape,
    power_of_two,
    unpacked,
    with_scales,
)
from soak.small_floats import E4M3 as E4M3_VALUES
from soak.wanted import Bits, Wanted

NO_INVERSE = "nvfp4: elements under a global scale that has no normal inverse"

_NUMBERS = (torch.float32, torch.float16, torch.bfloat16)
_MODES = ("grad", "no_grad", "inference_mode")


@dataclass(frozen=True)
class Format:
    element: str
    scale: str
    vec: int
    largest: float
    largest_exponent: int  # floor(log2(largest))

    @property
    def table(self) -> Tensor:
        return E4M3_VALUES if self.element == "e4m3" else E2M1


FORMATS = {
    "mxfp8": Format("e4m3", "e8m0", 32, 448.0, 8),
    "mxfp4": Format("e2m1", "e8m0", 32, 6.0, 2),
    "nvfp4": Format("e2m1", "e4m3", 16, 6.0, 2),
}


def _matrix_sizes(draw: Draw, vec: int) -> tuple[int, int]:
    rows = draw.between(258, 700) if draw.chance(0.04) else draw.size()
    k = draw.between(300, 3000) if draw.chance(0.04) else draw.size()
    k = -(-k // vec) * vec
    return (rows, k) if rows * k <= 2**17 else (rows % 50, k)


# quantize.


def draw_quantize(draw: Draw) -> Case:
    name = draw.pick(tuple(FORMATS))
    form = FORMATS[name]
    dtype = draw.pick(_NUMBERS)
    x = _draw_x(draw, _matrix_sizes(draw, form.vec), dtype, form.vec)
    global_scale = _draw_own_global_scale(draw, name, x.layout.shape[0])
    rounding = draw.pick(("floor", "rceil")) if form.scale == "e8m0" else "floor"
    options: dict[str, object] = {} if rounding == "floor" and draw.chance(0.5) else {"scale_rounding": rounding}
    arguments: dict[str, Argument] = {"x": x, "format": name, "global_scale": global_scale}
    call = Call("quantize", arguments, options, through=draw.pick(("op", "python")), mode=draw.pick(_MODES))

    def wanted(device: torch.device) -> Mapping[str, Wanted]:
        factor = _factors(global_scale)
        codes, scales = quantized(x.view().float(), form, rounding, factor)
        data = as_pairs(codes) if form.element == "e2m1" else codes.view(E4M3)
        invertible = factor is None or bool(((factor.abs() > 2.0**-110) & (factor.abs() < 2.0**110)).all())
        rule = None if invertible else NO_INVERSE
        whole = packed(scales, padding=0).view(E8M0 if form.scale == "e8m0" else E4M3)
        return {"result 0": Bits(data, rule), "result 1": Bits(whole, rule)}

    return Case(call, name, wanted)


def _draw_x(draw: Draw, shape: tuple[int, int], dtype: torch.dtype, run: int) -> Operand:
    """Numbers whose runs differ by many binades, with zeros, ends of the dtype, infinities and NaN among them."""
    reach = draw.pick((0, 3, 12, 12) if dtype == torch.float16 else (0, 3, 30, 120))
    special = draw.chance(0.3)

    def values(count: int) -> Tensor:
        exponents = draw.integers(count // run + 1, -reach, reach).repeat_interleave(run)[:count]
        drawn = draw.normal(count) * power_of_two(exponents)
        zeros = draw.integers(count // run + 1, 0, 9).repeat_interleave(run)[:count] == 0
        drawn = drawn.masked_fill(zeros, 0.0).clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)
        if special:
            ends = (math.inf, -math.inf, math.nan, torch.finfo(dtype).max, -0.0)
            for _ in range(draw.between(1, 4)):
                drawn[draw.below(count)] = draw.pick(ends)
        return drawn.to(dtype)

    note = f"runs of 2^-{reach} to 2^{reach}" + (", special" if special else "")
    return filled(draw_layout(draw, shape), dtype, values, note)


def _draw_own_global_scale(draw: Draw, name: str, rows: int) -> Operand | None:
    """nvfp4's: one, or one a row."""
    if name != "nvfp4" or draw.chance(0.7):
        return draw_global_scale(draw, share=0.6 if name == "nvfp4" else 0.0)

    def values(count: int) -> Tensor:
        return ((draw.normal(count).abs() + 0.1).double() * power_of_two(draw.integers(count, -20, 12))).float()

    return filled(draw_layout(draw, (rows, 1)), torch.float32, values, "one a row")


def _factors(global_scale: Operand | None) -> Tensor | None:
    """(1, 1), or (rows, 1)."""
    return None if global_scale is None else global_scale.view().reshape(-1, 1)


def quantized(x: Tensor, form: Format, rounding: str, global_scale: Tensor | None) -> tuple[Tensor, Tensor]:
    """Codes (rows, k), one in a byte, and scale bytes (rows, k / vec) of float32 `x`, as quantize's docstring says."""
    blocks = x.unflatten(1, (x.shape[1] // form.vec, form.vec))
    finite = blocks.isfinite().all(-1)
    blocks = blocks.masked_fill(~finite.unsqueeze(-1), 0.0)
    amax = blocks.abs().amax(-1)
    if form.scale == "e4m3":
        scale, scaled = _nvfp4(blocks, amax, torch.ones(1, 1) if global_scale is None else global_scale)
    else:
        scale = _floor(amax, form) if rounding == "floor" else _rceil(amax, form)
        scaled = blocks.double() / SCALES["e8m0"][scale.long()].unsqueeze(-1)
    codes = nearest_code(scaled.nan_to_num(0.0), form.table).masked_fill(~finite.unsqueeze(-1), 0)
    return codes.flatten(1), scale.masked_fill(~finite, NAN_SCALES[form.scale])


def _floor(amax: Tensor, form: Format) -> Tensor:
    """2^(floor(log2(amax)) - floor(log2(largest)))."""
    _, exponent = torch.frexp(amax.double())  # of a fraction in [1/2, 1)
    byte = (exponent.long() - 1 - form.largest_exponent + 127).clamp(0, 254)
    return byte.masked_fill(amax == 0, 0).to(BYTE)


def _rceil(amax: Tensor, form: Format) -> Tensor:
    """amax / largest in float32, up to the next power of two."""
    quotient = (amax / torch.tensor(form.largest)).double()
    return torch.searchsorted(SCALES["e8m0"][:255], quotient.contiguous()).clamp(max=254).to(BYTE)


def _nvfp4(blocks: Tensor, amax: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
    """Scale bytes, and the elements times (1 / whole) / scale, all in float32; `whole` is the global scale."""
    relative = (amax / torch.tensor(6.0) / whole).clamp(2.0**-6, 448.0)
    is_nan = relative.isnan()
    byte = nearest_code(relative.masked_fill(is_nan, 1.0).double(), E4M3_VALUES)
    factor = (torch.tensor(1.0) / whole) / E4M3_VALUES.float()[byte.long()]
    return byte.masked_fill(is_nan, NAN_SCALES["e4m3"]), (blocks * factor.unsqueeze(-1)).double()


# dequantize.


def draw_dequantize(draw: Draw) -> Case:
    name = draw.pick(tuple(FORMATS))
    form = FORMATS[name]
    rows, k = _matrix_sizes(draw, form.vec)
    data = draw_codes(draw, form.element, rows, k)
    scales = draw_scales(draw, draw_spreads(draw, form.scale)[0], rows, k // form.vec)
    global_scale = _draw_own_global_scale(draw, name, rows)
    out_dtype = draw.pick(_NUMBERS)
    options: dict[str, object] = {} if out_dtype == torch.float32 and draw.chance(0.5) else {"out_dtype": out_dtype}
    arguments: dict[str, Argument] = {"data": data, "scale": scales, "format": name, "global_scale": global_scale}
    call = Call("dequantize", arguments, options, through=draw.pick(("op", "python")), mode=draw.pick(_MODES))

    def wanted(device: torch.device) -> Mapping[str, Wanted]:
        by_row = scale_bytes(scales, rows, k // form.vec)
        values = with_scales(elements(data.bits(), form.element), by_row, form.scale, form.vec).float()
        factor = _factors(global_scale)
        values = values if factor is None else values * factor
        return {"result": Bits(values.to(out_dtype))}

    return Case(call, name, wanted)


# pack_scales and unpack_scales.


def _draw_scale_matrix(draw: Draw) -> tuple[int, int]:
    rows = draw.between(258, 900) if draw.chance(0.1) else draw.size()
    return rows, draw.size(40)


def _any_scales(draw: Draw, shape: tuple[int, ...]) -> Operand:
    dtype = draw.pick((E8M0, E4M3, BYTE))
    return filled(draw_layout(draw, shape), dtype, draw.bytes, "any byte")


def draw_pack_scales(draw: Draw) -> Case:
    scales = _any_scales(draw, _draw_scale_matrix(draw))
    call = Call("pack_scales", {"scale": scales}, through=draw.pick(("op", "python")), mode=draw.pick(_MODES))

    def wanted(device: torch.device) -> Mapping[str, Wanted]:
        return {"result": Bits(packed(scales.bits(), padding=0).view(scales.dtype))}

    return Case(call, str(scales.dtype).removeprefix("torch."), wanted)


def draw_unpack_scales(draw: Draw) -> Case:
    """Down to fewer rows and columns than the blocks hold, too."""
    rows, columns = _draw_scale_matrix(draw)
    blocks = packed_shape(rows, columns)
    scales = _any_scales(draw, blocks)
    if draw.chance(0.4):
        rows, columns = draw.between(0, blocks[0] * 128), draw.between(0, blocks[1] * 4)
    arguments: dict[str, Argument] = {"packed": scales, "rows": rows, "cols": columns}
    call = Call("unpack_scales", arguments, through=draw.pick(("op", "python")), mode=draw.pick(_MODES))

    def wanted(device: torch.device) -> Mapping[str, Wanted]:
        return {"result": Bits(unpacked(scales.bits(), rows, columns).view(scales.dtype))}

    return Case(call, str(scales.dtype).removeprefix("torch."), wanted)
