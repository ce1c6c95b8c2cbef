"""An oracle for the small floats, the scale rules, the packed layout and both directions. It shares nothing with csrc.

The values of all codes are tables in float64, made from the formats' definitions. Encoding searches a table; a scale
rule is computed in float64, or in float32 where the rule itself says so; the packed layout is index arithmetic.
Everything here is on the CPU, and bytes are uint8: a test moves what an op returned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BYTE = torch.uint8
E4M3, E8M0 = torch.float8_e4m3fn, torch.float8_e8m0fnu
FP4 = torch.float4_e2m1fn_x2


def _e2m1_value(code: int) -> float:
    """1 sign, 2 exponent (bias 1) and 1 fraction bit; no NaN, no infinity."""
    exponent, fraction = code >> 1 & 3, code & 1
    magnitude = fraction * 0.5 if exponent == 0 else (1 + fraction / 2) * 2.0 ** (exponent - 1)
    return math.copysign(magnitude, -1.0 if code & 8 else 1.0)


def _e4m3_value(code: int) -> float:
    """1 sign, 4 exponent (bias 7) and 3 fraction bits; 0x7F and 0xFF are NaN, and there is no infinity."""
    exponent, fraction = code >> 3 & 15, code & 7
    if code & 0x7F == 0x7F:
        return math.nan
    magnitude = fraction * 2.0**-9 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7)
    return math.copysign(magnitude, -1.0 if code & 0x80 else 1.0)


def _e8m0_value(code: int) -> float:
    return math.nan if code == 0xFF else 2.0 ** (code - 127)


E2M1_VALUES = torch.tensor([_e2m1_value(code) for code in range(16)], dtype=torch.float64)
E4M3_VALUES = torch.tensor([_e4m3_value(code) for code in range(256)], dtype=torch.float64)
E8M0_VALUES = torch.tensor([_e8m0_value(code) for code in range(256)], dtype=torch.float64)


@dataclass(frozen=True)
class Format:
    name: str
    vec: int  # elements that share a scale
    elements: Tensor  # the value of every code
    scales: Tensor
    scale_dtype: torch.dtype
    largest: float
    largest_exponent: int  # floor(log2(largest))
    nan_scale: int
    roundings: tuple[str, ...]

    @property
    def is_fp4(self) -> bool:
        return len(self.elements) == 16

    @property
    def data_dtype(self) -> torch.dtype:
        """What quantize returns."""
        return BYTE if self.is_fp4 else E4M3

    @property
    def data_dtypes(self) -> tuple[torch.dtype, ...]:
        """What dequantize takes."""
        return (BYTE, FP4) if self.is_fp4 else (E4M3,)

    @property
    def scale_dtypes(self) -> tuple[torch.dtype, ...]:
        return (E4M3,) if self.scale_dtype == E4M3 else (E8M0, BYTE)

    @property
    def per_byte(self) -> int:
        return 2 if self.is_fp4 else 1


MXFP8 = Format("mxfp8", 32, E4M3_VALUES, E8M0_VALUES, E8M0, 448.0, 8, 0xFF, ("floor", "rceil"))
MXFP4 = Format("mxfp4", 32, E2M1_VALUES, E8M0_VALUES, E8M0, 6.0, 2, 0xFF, ("floor", "rceil"))
NVFP4 = Format("nvfp4", 16, E2M1_VALUES, E4M3_VALUES, E4M3, 6.0, 2, 0x7F, ("floor",))
FORMATS = (MXFP8, MXFP4, NVFP4)
FORMAT_ROUNDINGS = tuple((form, rounding) for form in FORMATS for rounding in form.roundings)


# ---- encoding ----


def non_negative(table: Tensor) -> Tensor:
    """The values of a signed table from 0 up; a value's place is its code."""
    half = table[: len(table) // 2]
    return half[~half.isnan()]


def middles(table: Tensor) -> Tensor:
    """Halfway between neighbouring non-negative values: exact in float64."""
    values = non_negative(table)
    return (values[1:] + values[:-1]) / 2


def nearest_code(values: Tensor, table: Tensor) -> Tensor:
    """The code of the nearest value of a signed table: ties to the even code, saturating, the sign of zero kept."""
    assert values.dtype == torch.float64
    assert not bool(values.isnan().any())
    between, magnitude = middles(table), values.abs().contiguous()
    code = torch.searchsorted(between, magnitude)  # how many of the halfway points lie below
    tie = between[code.clamp(max=len(between) - 1)] == magnitude
    code = code + (tie & (code % 2 == 1))
    return (code + values.signbit() * (len(table) // 2)).to(BYTE)


# ---- scale rules: one byte for each block, from its largest magnitude in float32 ----


def floor_scale(amax: Tensor, form: Format) -> Tensor:
    """floor(log2 amax) - floor(log2 largest), as an e8m0 byte."""
    _, exponent = torch.frexp(amax.double())  # amax = f * 2^exponent with f in [1/2, 1)
    byte = exponent.long() - 1 - form.largest_exponent + 127
    return torch.where(amax == 0, 0, byte.clamp(0, 254)).to(BYTE)


def rceil_scale(amax: Tensor, form: Format) -> Tensor:
    """amax / largest in float32, up to the next power of two."""
    quotient = amax / torch.tensor(form.largest, dtype=torch.float32)
    return torch.searchsorted(form.scales[:255], quotient.double()).clamp(max=254).to(BYTE)


def nvfp4_scale(amax: Tensor, global_scale: Tensor) -> Tensor:
    """e4m3(amax / 6 / global_scale), clamped to [2^-6, 448]; both divisions in float32."""
    quotient = amax / torch.tensor(6.0) / global_scale
    is_nan = quotient.isnan()
    code = nearest_code(quotient.masked_fill(is_nan, 1.0).double().clamp(2.0**-6, 448.0), E4M3_VALUES)
    return code.masked_fill(is_nan, NVFP4.nan_scale)


# ---- the packed layout ----


def ceil_div(count: int, size: int) -> int:
    return -(-count // size)


def packed_shape(rows: int, cols: int) -> tuple[int, int, int, int, int]:
    return ceil_div(rows, 128), ceil_div(cols, 4), 32, 4, 4


def packed_offsets(rows: int, cols: int) -> Tensor:
    """Where element (m, s) of a (rows, cols) matrix of scales stands in the packed bytes."""
    m, s = torch.arange(rows).unsqueeze(1), torch.arange(cols).unsqueeze(0)
    block = (m // 128) * ceil_div(cols, 4) + s // 4
    return block * 512 + (m % 32) * 16 + ((m % 128) // 32) * 4 + s % 4


def pack(scale: Tensor, fill: int = 0) -> Tensor:
    """(rows, cols) bytes to the packed 5-D, with `fill` in the padding."""
    packed = torch.full(packed_shape(*scale.shape), fill, dtype=BYTE)
    packed.view(-1)[packed_offsets(*scale.shape).reshape(-1)] = scale.reshape(-1)
    return packed


# ---- both directions ----


@dataclass(frozen=True)
class Quantized:
    codes: Tensor  # (rows, K): one a byte, also where the format holds two
    scale: Tensor  # (rows, K / vec) bytes
    form: Format

    @property
    def data(self) -> Tensor:
        """The bytes of the op's data: even k in the low nibble."""
        return pairs(self.codes) if self.form.is_fp4 else self.codes


def pairs(codes: Tensor) -> Tensor:
    return codes[:, 0::2] | codes[:, 1::2] << 4


def unpaired(data: Tensor) -> Tensor:
    return torch.stack((data & 15, data >> 4), -1).flatten(1)


def expected_quantize(
    x: Tensor, form: Format, global_scale: Tensor | None = None, scale_rounding: str = "floor"
) -> Quantized:
    """The codes and scales of a 2-D `x`; a product that is NaN in a block whose scale is not has no defined code."""
    rows, k = x.shape
    blocks = x.cpu().float().reshape(rows, k // form.vec, form.vec)
    usable = blocks.isfinite().all(-1)
    amax = blocks.abs().amax(-1).masked_fill(~usable, 1.0)
    if form is NVFP4:
        unit = torch.tensor(1.0)
        whole = unit if global_scale is None else global_scale.cpu().reshape(())
        scale = nvfp4_scale(amax, whole)
        factor = (unit / whole) / form.scales.float()[scale.long()]
        factor = factor * 0.125 * 8  # a multiple of 2^-146, as block_quantize.h says
        scaled = (blocks * factor.unsqueeze(-1)).double()
        usable &= scale != form.nan_scale
    else:
        scale = floor_scale(amax, form) if scale_rounding == "floor" else rceil_scale(amax, form)
        scaled = blocks.double() / form.scales[scale.long()].unsqueeze(-1)
    codes = nearest_code(scaled.masked_fill(~usable.unsqueeze(-1), 0.0), form.elements)
    return Quantized(codes.reshape(rows, k), scale.masked_fill(~usable, form.nan_scale), form)


def expected_dequantize(
    data: Tensor,
    scale: Tensor,
    form: Format,
    global_scale: Tensor | None = None,
    out_dtype: torch.dtype = torch.float32,
) -> Tensor:
    """`data` as bytes of the op's layout, `scale` as (rows, K / vec) bytes."""
    codes = unpaired(data) if form.is_fp4 else data
    scales = form.scales[scale.long()].repeat_interleave(form.vec, 1)
    value = (form.elements[codes.long()] * scales).float()
    if global_scale is not None:
        value = value * global_scale.cpu().reshape(())
    return value.to(out_dtype)


# ---- comparing bits ----

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


def same_bytes(actual: Tensor, expected: Tensor) -> bool:
    return torch.equal(actual.view(BYTE).cpu(), expected)


def assert_same_bits(actual: Tensor, expected: Tensor, what: str = "") -> None:
    """Of one dtype and shape; NaN where there is NaN, else the same bits, the sign of zero included."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), what
    actual = actual.cpu()
    nan = expected.isnan()
    bits = BITS[expected.element_size()]
    good = torch.where(nan, actual.isnan(), actual.view(bits) == expected.view(bits))
    if not bool(good.all()):
        bad = (~good).nonzero()
        first = tuple(bad[0].tolist())
        raise AssertionError(
            f"{what}: {len(bad)} of {good.numel()} differ, first at {first}: got {actual[first].item()!r}, "
            f"expected {expected[first].item()!r}"
        )


def assert_quantized(actual: tuple[Tensor, Tensor], expected: Quantized, what: str = "") -> None:
    """Shapes, dtypes and every byte of what `quantize` returned, the padding of the scales included."""
    data, scale = actual
    form = expected.form
    assert (data.dtype, scale.dtype) == (form.data_dtype, form.scale_dtype), what
    assert data.is_contiguous(), what
    assert scale.is_contiguous(), what
    packed = pack(expected.scale)
    for name, got, wanted in (("scale", scale, packed), ("data", data, expected.data)):
        assert got.shape == wanted.shape, f"{what}: {name} has the shape {tuple(got.shape)}"
        got = got.view(BYTE).cpu()
        if not torch.equal(got, wanted):
            bad = (got != wanted).nonzero()
            first = tuple(bad[0].tolist())
            raise AssertionError(
                f"{what}: {len(bad)} of {wanted.numel()} bytes of {name} differ, first at {first}: "
                f"got {got[first].item():#04x}, expected {wanted[first].item():#04x}"
            )
