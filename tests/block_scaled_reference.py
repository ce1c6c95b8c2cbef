"""A float64 oracle for `block_scaled_matmul`: what each byte stands for, and the product. It shares nothing with csrc.

An element times its scale is rounded to float32, as docs/block_scaled.md says; products, sums and the rest of the
epilogue are float64, with the error that a float32 sum may have. The result is an interval per element, as in
reference.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from block_scaled_operands import Operand
from reference import CURVED, SMALLEST_FLOAT32, Expected, activate, activation_gain, assert_matches
from torch import Tensor

LARGEST_FLOAT32 = (2.0 - 2.0**-23) * 2.0**127
NAN = float("nan")


def _e2m1(code: int) -> float:
    """Sign, 2 bits of exponent (bias 1), 1 bit of fraction; no NaN, no infinity."""
    sign = -1.0 if code & 8 else 1.0
    exponent, fraction = code >> 1 & 3, code & 1
    return sign * (fraction / 2 if exponent == 0 else (1 + fraction / 2) * 2.0 ** (exponent - 1))


def _e4m3(code: int) -> float:
    """Sign, 4 bits of exponent (bias 7), 3 bits of fraction; NaN where all of the seven are set, no infinity."""
    sign = -1.0 if code & 0x80 else 1.0
    exponent, fraction = code >> 3 & 15, code & 7
    if code & 0x7F == 0x7F:
        return NAN
    return sign * (fraction / 8 * 2.0**-6 if exponent == 0 else (1 + fraction / 8) * 2.0 ** (exponent - 7))


def _e8m0(code: int) -> float:
    return NAN if code == 255 else 2.0 ** (code - 127)


# What each of the 256 bytes stands for; of an fp4 code the four low bits count.
VALUES = {
    "e2m1": torch.tensor([_e2m1(code & 15) for code in range(256)], dtype=torch.float64),
    "e4m3": torch.tensor([_e4m3(code) for code in range(256)], dtype=torch.float64),
    "e8m0": torch.tensor([_e8m0(code) for code in range(256)], dtype=torch.float64),
}


def decode(codes: Tensor, name: str) -> Tensor:
    return VALUES[name].to(codes.device)[codes.long()]


def dequantize(operand: Operand) -> Tensor:
    """(rows, K): each element times its scale as float32 holds it, in float64."""
    scales = decode(operand.scales, operand.scale).repeat_interleave(operand.vec, dim=1)
    return (decode(operand.codes, operand.element) * scales).float().double()


@dataclass(frozen=True)
class Sum:
    """The sum of products, and what a float32 sum of it may err by."""

    value: Tensor
    magnitude: Tensor  # sum |a||b|
    k: int


def product(a: Operand, b: Operand) -> Sum:
    wide_a, wide_b = dequantize(a), dequantize(b)
    return Sum(wide_a @ wide_b.t(), wide_a.abs() @ wide_b.abs().t(), wide_a.shape[1])


def documented_bound(k: int) -> float:
    """Of sums in float32, in units of sum |a||b|, as docs/dtypes.md has it for matmul."""
    return (4.0 + 2.0 * math.sqrt(k)) * 2.0**-23


def expected(
    total: Sum,
    bias: Tensor | None = None,
    global_scale: Tensor | None = None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    bound: float = 0.0,
) -> Expected:
    """activation(global_scale * sum + bias) +- `bound` * sum |a||b|; with a bound of 0 the sum itself is exact."""
    out_dtype = torch.float16 if out_dtype is None else out_dtype
    value = total.value
    error = torch.where(value.isfinite(), bound * total.magnitude, 0.0)
    if bound > 0:
        error = error + total.k * SMALLEST_FLOAT32  # products that underflow
    value = torch.where(value.abs() > LARGEST_FLOAT32, value.sign() * float("inf"), value)  # float32 holds the sum
    if global_scale is not None:
        factor = global_scale.double().reshape(())
        value, error = value * factor, error * factor.abs()
        error = error + 2.0**-24 * value.abs() + SMALLEST_FLOAT32
    if bias is not None:
        value = value + bias.double()
        error = error + 2.0**-24 * value.abs()
    before = value
    value = activate(value, activation, slope)
    if activation != "none":
        own = 8.0 * 2.0**-24 * before.abs() if activation in CURVED else 2.0**-23 * value.abs()
        error = activation_gain(activation, slope) * error + own + SMALLEST_FLOAT32
    return Expected(value, error, out_dtype)


def round_to_e4m3(values: Tensor) -> Tensor:
    """The nearest value that e4m3 has, of two the one with the even code; beyond 448 it is 448. NaN stays."""
    steps = VALUES["e4m3"][:0x7F].to(values.device)
    middles = (steps[1:] + steps[:-1]) / 2
    magnitude = values.abs()
    code = torch.bucketize(magnitude, middles)  # on a middle: the lower of its two neighbours
    code = code + ((code % 2 == 1) & (magnitude == middles[code.clamp(max=len(middles) - 1)])).long()
    return torch.where(values.isnan(), NAN, steps[code].copysign(values))


def assert_product(actual: Tensor, wanted: Expected, what: str = "") -> None:
    """As `assert_matches`; an output of e4m3 saturates, infinity too."""
    if wanted.dtype != torch.float8_e4m3fn:
        assert_matches(actual, wanted, what)
        return
    assert actual.dtype == wanted.dtype, f"{what}: dtype {actual.dtype}, expected {wanted.dtype}"
    low, high = round_to_e4m3(wanted.value - wanted.error), round_to_e4m3(wanted.value + wanted.error)
    assert_matches(actual.float(), Expected((low + high) / 2, (high - low) / 2, torch.float32), what)


def assert_exact_product(actual: Tensor, a: Operand, b: Operand, what: str = "") -> None:
    """The plain product, whose sum is exact in float32 in any order, rounded once to the output's dtype."""
    assert_product(actual, expected(product(a, b), out_dtype=actual.dtype), what)


def signal_to_noise(actual: Tensor, exact: Tensor) -> float:
    """In dB, over all elements together."""
    noise = (actual.double() - exact).square().sum()
    return math.inf if float(noise) == 0 else 10 * math.log10(float(exact.square().sum() / noise))
