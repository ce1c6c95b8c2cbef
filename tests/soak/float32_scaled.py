"""The soak test's calls of quantize and dequantize in the formats with float32 scales: every bit must be right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from soak.case import Argument, Call, Case
from soak.draw import Draw
from soak.operand import Operand, draw_layout, filled
from soak.small_floats import E4M3, elements, nearest_code, power_of_two
from soak.wanted import Bits, Wanted

INT8, FP8 = torch.int8, torch.float8_e4m3fn
_NUMBERS = (torch.float32, torch.float16, torch.bfloat16)
_MODES = ("grad", "no_grad", "inference_mode")
_SMALLEST = 2.0**-126  # whose inverse is finite
_LARGEST = math.nextafter(torch.finfo(torch.float32).max / 127, 0.0)  # of which 127 are finite


@dataclass(frozen=True)
class Format:
    dtype: torch.dtype
    rows: int  # of a block; 0: all
    columns: int

    @property
    def largest(self) -> float:
        return 127.0 if self.dtype == INT8 else 448.0

    def blocks(self, rows: int, k: int) -> tuple[Tensor, Tensor, tuple[int, int]]:
        """The block's row of each row, and its column of each column; how many there are."""
        row_of = torch.arange(rows) // (self.rows or max(rows, 1))
        column_of = torch.arange(k) // (self.columns or max(k, 1))
        shape = (
            -(-rows // self.rows) if self.rows else 1,
            -(-k // self.columns) if self.columns else 1,
        )
        return row_of, column_of, shape


FLOAT32_FORMATS = {
    "fp8_tensor": Format(FP8, 0, 0),
    "fp8_row": Format(FP8, 1, 0),
    "fp8_1x128": Format(FP8, 1, 128),
    "fp8_128x128": Format(FP8, 128, 128),
    "int8_row": Format(INT8, 1, 0),
    "int8_tensor": Format(INT8, 0, 0),
}


def _matrix_sizes(draw: Draw) -> tuple[int, int]:
    rows = draw.between(258, 700) if draw.chance(0.05) else draw.size()
    k = draw.between(300, 9000) if draw.chance(0.08) else draw.size()
    return (rows, k) if rows * k <= 2**17 else (rows % 10, k)


def quantized(x: Tensor, form: Format) -> tuple[Tensor, Tensor]:
    """Codes as bytes, and scales of float32 `x`, as quantize's docstring says."""
    row_of, column_of, shape = form.blocks(*x.shape)
    block = row_of.unsqueeze(1) * shape[1] + column_of
    amax = torch.zeros(shape[0] * shape[1])
    amax.scatter_reduce_(0, block.flatten(), x.abs().nan_to_num(math.inf, math.inf).flatten(), "amax")
    exact = (amax.double() / form.largest).float().double()  # one division of float32, as a double has twice its digits
    scale = exact.clamp(_SMALLEST, _rounded_down(_LARGEST)).float()
    scale = torch.where(amax == 0, 1.0, scale).masked_fill(amax.isinf(), math.nan)
    inverse = torch.tensor(1.0) / scale
    product = (x * inverse[block]).double()
    usable = ~inverse[block].isnan()
    product = torch.where(usable, product, 0.0)
    codes = product.round().to(INT8).view(torch.uint8) if form.dtype == INT8 else nearest_code(product, E4M3)
    return codes.masked_fill(~usable, 0), scale.view(shape)


def _rounded_down(value: float) -> float:
    rounded = torch.tensor(value, dtype=torch.float32)
    below = rounded.nextafter(torch.tensor(0.0))
    return float(below if float(rounded) > value else rounded)


def draw_float32_quantize(draw: Draw) -> Case:
    name = draw.pick(tuple(FLOAT32_FORMATS))
    form, dtype = FLOAT32_FORMATS[name], draw.pick(_NUMBERS)
    x = _draw_x(draw, _matrix_sizes(draw), dtype)
    arguments: dict[str, Argument] = {"x": x, "format": name, "global_scale": None}
    options: dict[str, object] = {} if draw.chance(0.5) else {"scale_rounding": "floor"}
    call = Call("quantize", arguments, options, through=draw.pick(("op", "python")), mode=draw.pick(_MODES))

    def wanted(device: torch.device) -> Mapping[str, Wanted]:
        codes, scale = quantized(x.view().float(), form)
        return {"result 0": Bits(codes.view(form.dtype)), "result 1": Bits(scale)}

    return Case(call, name, wanted)


def _draw_x(draw: Draw, shape: tuple[int, int], dtype: torch.dtype) -> Operand:
    """Numbers of any size; seldom one that is not finite, as it makes a whole block NaN."""
    reach = draw.pick((0, 3, 12) if dtype == torch.float16 else (0, 3, 30, 120))
    center = 0 if reach > 30 else draw.pick((0, 0, -14, 10) if dtype == torch.float16 else (0, 0, -140, -120, 90))
    special = draw.chance(0.15)

    def values(count: int) -> Tensor:
        drawn = draw.normal(count).double() * power_of_two(draw.integers(count, center - reach, center + reach))
        drawn = drawn.masked_fill(draw.integers(count, 0, 9) == 0, 0.0) * (0 if draw.chance(0.03) else 1)
        drawn = drawn.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)
        if special and count:
            drawn[draw.below(count)] = draw.pick((math.inf, -math.inf, math.nan, torch.finfo(dtype).max))
        return drawn.to(dtype)

    note = f"around 2^{center}, within 2^{reach} of it" + (", special" if special else "")
    return filled(draw_layout(draw, shape), dtype, values, note)


def draw_float32_dequantize(draw: Draw) -> Case:
    name = draw.pick(tuple(FLOAT32_FORMATS))
    form = FLOAT32_FORMATS[name]
    rows, k = _matrix_sizes(draw)
    data = filled(draw_layout(draw, (rows, k)), form.dtype, draw.bytes, "any code")
    row_of, column_of, shape = form.blocks(rows, k)
    scale_shape = draw.pick(((), (1,), (1, 1))) if shape == (1, 1) and form.rows == 0 else shape
    reach = draw.pick((0, 3, 30, 120))

    def scales(count: int) -> Tensor:
        drawn = draw.normal(count).double() * power_of_two(draw.integers(count, -reach, reach))
        if count and draw.chance(0.1):
            drawn[draw.below(count)] = draw.pick((math.nan, math.inf, 0.0))
        return drawn.float()

    scale = filled(draw_layout(draw, scale_shape), torch.float32, scales, f"2^-{reach} to 2^{reach}")
    out_dtype = draw.pick(_NUMBERS)
    options: dict[str, object] = {} if out_dtype == torch.float32 and draw.chance(0.5) else {"out_dtype": out_dtype}
    arguments: dict[str, Argument] = {"data": data, "scale": scale, "format": name, "global_scale": None}
    call = Call("dequantize", arguments, options, through=draw.pick(("op", "python")), mode=draw.pick(_MODES))

    def wanted(device: torch.device) -> Mapping[str, Wanted]:
        codes = data.bits()
        values = codes.view(INT8).double() if form.dtype == INT8 else elements(codes, "e4m3")
        factors = scale.view().reshape(shape)[row_of][:, column_of]
        return {"result": Bits((values.float() * factors).to(out_dtype))}

    return Case(call, name, wanted)
