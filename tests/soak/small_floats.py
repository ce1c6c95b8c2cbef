"""The soak test's oracle of bytes: what the codes of e2m1, e4m3 and e8m0 stand for, and the nearest code of a number.

Tables in float64, made from the formats' definitions: OCP Microscaling Formats 1.0, OCP 8-bit floating point. It shares
no code with csrc or tests.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

NAN_SCALES = {"e8m0": 0xFF, "e4m3": 0x7F}  # as quantize writes them


def power_of_two(exponents: Tensor) -> Tensor:
    """2^exponent in float64, exactly, of integers from -1022 to 1023."""
    return ((exponents.long() + 1023) << 52).view(torch.float64)


def _e2m1(code: int) -> float:
    """A sign, two bits of exponent (bias 1), one of fraction."""
    exponent, fraction = code >> 1 & 3, (code & 1) / 2
    return math.copysign(fraction if exponent == 0 else (1 + fraction) * 2.0 ** (exponent - 1), 0.5 - (code >> 3))


def _e4m3(code: int) -> float:
    """A sign, four bits of exponent (bias 7), three of fraction; NaN where the seven are ones."""
    exponent, fraction = code >> 3 & 15, (code & 7) / 8
    if code & 0x7F == 0x7F:
        return math.nan
    magnitude = fraction * 2.0**-6 if exponent == 0 else (1 + fraction) * 2.0 ** (exponent - 7)
    return math.copysign(magnitude, 0.5 - (code >> 7))


def _table(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


E2M1 = _table([_e2m1(code) for code in range(16)])
E4M3 = _table([_e4m3(code) for code in range(256)])
E8M0 = _table([2.0 ** (byte - 127) for byte in range(255)] + [math.nan])
_E2M1_PAIRS = torch.stack([E2M1.repeat(16), E2M1.repeat_interleave(16)], dim=1)  # [byte][even k, odd k]
SCALES = {"e8m0": E8M0, "e4m3": E4M3}


def elements(data: Tensor, element: str) -> Tensor:
    """(rows, k) in float64 of uint8 codes, of which e2m1 has two in a byte, the even k in the low half."""
    if element == "e4m3":
        return E4M3[data.long()]
    return _E2M1_PAIRS[data.long()].flatten(1)


def with_scales(values: Tensor, scale_bytes: Tensor, scale: str, vec: int) -> Tensor:
    """Each element times its scale as float32 holds it; `scale_bytes` is (rows, k / vec)."""
    scales = SCALES[scale][scale_bytes.long()]
    return (values.unflatten(1, (scales.shape[1], vec)) * scales.unsqueeze(2)).flatten(1).float().double()


def folded(values: Tensor, scale_bytes: Tensor, scale: str, vec: int) -> Tensor:
    """As with_scales, of rows that fast_accum folds: rounded to e4m3 under a power of two, which puts the row's largest
    element below 480 and at 240 or above. No element is infinite: the power multiplies the sum."""
    scales = SCALES[scale][scale_bytes.long()]
    values = (values.unflatten(1, (scales.shape[1], vec)) * scales.unsqueeze(2)).flatten(1)
    largest = (
        values.nan_to_num(0.0).abs().amax(1, keepdim=True) if values.shape[1] else values.new_zeros(len(values), 1)
    )
    mantissa, exponent = torch.frexp(largest)  # largest = 2 mantissa 2^(exponent - 1)
    power = torch.exp2((exponent - 1 - torch.where(2 * mantissa == 1.875, 7, 8)).double())
    power = torch.where(largest == 0, 1.0, power)
    return rounded_to_e4m3(values / power) * power


# Encoding.


def nearest_code(values: Tensor, table: Tensor) -> Tensor:
    """The code of the nearest value: ties to the even one, saturating, the sign of zero kept; no value is NaN."""
    ascending = table[: len(table) // 2]
    ascending = ascending[~ascending.isnan()]
    middles = (ascending[1:] + ascending[:-1]) / 2
    magnitudes = values.abs().contiguous()
    code = torch.searchsorted(middles, magnitudes)  # of the middles so many are below
    on_middle = middles[code.clamp(max=len(middles) - 1)] == magnitudes
    code = code + (on_middle & (code % 2 == 1))
    return (code + values.signbit() * (len(table) // 2)).to(torch.uint8)


def rounded_to_e4m3(values: Tensor) -> Tensor:
    """The nearest value of e4m3 in float64: 448 beyond it, NaN stays."""
    rounded = E4M3[nearest_code(values.nan_to_num(0.0, math.inf, -math.inf), E4M3).long()]
    return torch.where(values.isnan(), math.nan, rounded)


def as_pairs(codes: Tensor) -> Tensor:
    """Two codes of e2m1 in a byte."""
    return codes[:, 0::2] | codes[:, 1::2] << 4


# Packed scales.


def packed_shape(rows: int, columns: int) -> tuple[int, int, int, int, int]:
    return -(-rows // 128), -(-columns // 4), 32, 4, 4


def packed(scales: Tensor, padding: int) -> Tensor:
    """(rows, columns) bytes; row 128 i + 32 q + r and column 4 j + c stand at [i, j, r, q, c]."""
    rows, columns = scales.shape
    blocks = packed_shape(rows, columns)
    whole = torch.full((blocks[0] * 128, blocks[1] * 4), padding, dtype=torch.uint8)
    whole[:rows, :columns] = scales
    return whole.view(blocks[0], 4, 32, blocks[1], 4).permute(0, 3, 2, 1, 4).contiguous()


def unpacked(blocks: Tensor, rows: int, columns: int) -> Tensor:
    whole = blocks.permute(0, 3, 2, 1, 4).reshape(blocks.shape[0] * 128, blocks.shape[1] * 4)
    return whole[:rows, :columns].contiguous()
