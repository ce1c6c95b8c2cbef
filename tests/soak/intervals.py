"""The soak test's oracle of products: a float64 interval for every element, by the bounds that are documented.

An interval is the exact value before the one rounding to the output's dtype, plus and minus what the bound of the sum
and the roundings of global scale, bias and activation may add. Rounding is monotone, so a right element lies between
the interval's ends, each rounded. Where neither sum nor epilogue can round, the interval is a point: there an element
must be right to the last bit. It shares no code with csrc or tests.

Elements of which nothing is specified are left open, by a rule that has a name and is counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from soak.small_floats import power_of_two

SMALLEST_FLOAT32 = 2.0**-149
INFINITE_FLOAT32 = 2.0**128 - 2.0**103  # what is at least so large rounds to infinity in float32

PARTIAL_SUMS = "float32: partial sums may overflow, by the order of summation"
NEAR_OVERFLOW = "float32: the bound leaves open whether the value is finite"
ZERO_TIMES_INFINITY = "the bound leaves open whether infinity is multiplied by zero"

_CURVED = ("gelu", "gelu_tanh", "silu")
_STEEPEST = 1.13  # of gelu, gelu_tanh and silu
_CURVED_ROUNDINGS = 8.0  # of the activation's own arithmetic, in units of its argument


@dataclass(frozen=True)
class Precision:
    """How a product is summed. `bound`: in units of sum |a||b|; `exact`: sums of up to so many units do not round.

    Tensor cores align products by the exponents of their elements: one below `least` counts as that in both.
    """

    bound: float
    exact: float
    unit: float = 2.0**-24  # of the accumulator's roundings
    underflow: float = SMALLEST_FLOAT32  # what a product may lose to subnormal numbers
    narrow: bool = False  # operands are rounded to TF32's 11 bits
    least: float = 0.0  # the least normal number of the dtype that is multiplied

    @property
    def is_float32(self) -> bool:
        return self.unit == 2.0**-24


@dataclass(frozen=True)
class Interval:
    """`value` plus and minus `error`, float64; `open` has masks of elements that are not specified, by rule."""

    value: Tensor
    error: Tensor
    open: dict[str, Tensor] = field(default_factory=dict)

    def left_open(self, rule: str, mask: Tensor) -> Interval:
        if not bool(mask.any()):
            return self
        return replace(self, open={**self.open, rule: self.open.get(rule, False) | mask})

    def reshaped(self, shape: tuple[int, ...]) -> Interval:
        masks = {rule: mask.reshape(shape) for rule, mask in self.open.items()}
        return Interval(self.value.reshape(shape), self.error.reshape(shape), masks)

    def is_open(self) -> Tensor:
        mask = torch.zeros(self.value.shape, dtype=torch.bool)
        for rule_mask in self.open.values():
            mask = mask | rule_mask
        return mask


def _settled(interval: Interval, is_float32: bool) -> Interval:
    """What is beyond float32 is infinite; no error where a value is infinite or NaN."""
    value, error = interval.value, interval.error
    if is_float32:
        beyond = value.abs() - error >= INFINITE_FLOAT32
        maybe = value.isfinite() & (value.abs() + error >= INFINITE_FLOAT32) & ~beyond
        value = torch.where(beyond, value.sign() * math.inf, value)
        interval = interval.left_open(NEAR_OVERFLOW, maybe)
    return replace(interval, value=value, error=torch.where(value.isfinite(), error, 0.0))


def rounding(value: Tensor, error: Tensor, unit: float, tiny: float = SMALLEST_FLOAT32) -> Tensor:
    """What one rounding may add to `error`: nothing to a point that float32 holds."""
    exact = (error == 0) & (value.float().double() == value)
    return torch.where(exact, 0.0, unit * (value.abs() + error) + tiny / 2)


# The sum.


def _finest(values: Tensor, dim: int, narrow: bool) -> Tensor:
    """Along `dim`: the largest power of two of which all values are multiples; infinite of zeros."""
    fraction, exponent = torch.frexp(values)
    whole = (fraction * 2.0**53).long()
    units = (whole & -whole).double() * power_of_two(exponent - 53)
    finest = units.masked_fill(whole == 0, math.inf).amin(dim, keepdim=True)
    if narrow:  # TF32 holds them all where none takes more than its bits
        finest = torch.where(values.abs().amax(dim, keepdim=True) <= 2.0**10 * finest, finest, 0.0)
    return finest


def _are_of_one_sign(a: Tensor, b: Tensor) -> Tensor:
    """Of each element: whether no two of its products differ in sign."""
    signs_a, signs_b = a.sign(), b.sign()
    return (signs_a @ signs_b).abs() == signs_a.abs() @ signs_b.abs()


def _aligned(values: Tensor, precision: Precision) -> Tensor:
    """Magnitudes as products are aligned by them."""
    return torch.where(values == 0, 0.0, values.abs().clamp(min=precision.least))


def product(a: Tensor, b: Tensor, precision: Precision, aligned: tuple[Tensor, Tensor] | None = None) -> Interval:
    """a @ b of float64 matrices or batches of them, as float32 (or float64) sums may come out.

    `aligned`: the magnitudes that products are aligned by, where they are not those of the finite elements.
    """
    k = a.shape[-1]
    value = a @ b
    if k == 0:
        return Interval(value, torch.zeros_like(value))
    finite_a, finite_b = (x.masked_fill(~x.isfinite(), 0.0) for x in (a, b))
    size_a, size_b = aligned or (_aligned(finite_a, precision), _aligned(finite_b, precision))
    size = size_a @ size_b
    units = _finest(finite_a, -1, precision.narrow) * _finest(finite_b, -2, precision.narrow)
    is_exact = (size <= precision.exact * units) & ((units >= SMALLEST_FLOAT32) | (not precision.is_float32))
    error = torch.where(is_exact, 0.0, precision.bound * size + k * precision.underflow)
    interval = Interval(value, torch.where(value.isfinite(), error, 0.0))
    if precision.is_float32:
        risky = size * (1 + precision.bound) >= INFINITE_FLOAT32
        if bool(risky.any()):
            sums_grow = value.isfinite() & _are_of_one_sign(finite_a, finite_b)
            interval = interval.left_open(PARTIAL_SUMS, risky & ~sums_grow)
    return _settled(interval, precision.is_float32)


# The epilogue.


def scaled(interval: Interval, factor: float) -> Interval:
    """Times a global scale, in float32."""
    value = interval.value * factor
    if math.isinf(factor):
        unsure = (interval.value.abs() <= interval.error) & (interval.error > 0)
        interval = interval.left_open(ZERO_TIMES_INFINITY, unsure)
    error = interval.error * abs(factor)
    error = torch.where(value.isfinite(), error, 0.0)
    error = error + rounding(value, error, 2.0**-24) if factor != 1.0 else error
    return _settled(replace(interval, value=value, error=error), True)


def scaled_by_row(interval: Interval, factors: Tensor) -> Interval:
    """Times a finite global scale for each row, (rows, 1), in float32."""
    value, error = interval.value * factors, interval.error * factors.abs()
    error = torch.where(value.isfinite(), error, 0.0)
    return _settled(replace(interval, value=value, error=error + rounding(value, error, 2.0**-24)), True)


def biased(interval: Interval, bias: Tensor, unit: float) -> Interval:
    value = interval.value + bias
    error = interval.error + rounding(value, interval.error, unit)
    return _settled(replace(interval, value=value, error=error), unit == 2.0**-24)


def activate(x: Tensor, activation: str, slope: float) -> Tensor:
    """torch's own activation of a float64 tensor. F.leaky_relu takes any slope."""
    if activation == "relu":
        return F.relu(x)
    if activation == "leaky_relu":
        return F.leaky_relu(x, slope)
    if activation == "silu":
        return F.silu(x)
    return x if activation == "none" else F.gelu(x, approximate="tanh" if activation == "gelu_tanh" else "none")


def activated(interval: Interval, activation: str, slope: float, unit: float) -> Interval:
    """Of the argument's interval; an activation may enlarge an error by its largest slope, and rounds by itself."""
    if activation == "none":
        return interval
    x, error = interval.value, interval.error
    value = activate(x, activation, slope)
    if activation in _CURVED:
        # Far below zero what is left of x comes of an exponential that has vanished, and errs by no more than there.
        own = _CURVED_ROUNDINGS * unit * x.clamp(min=-16.0).abs() + SMALLEST_FLOAT32
        error = _STEEPEST * error + own
    elif activation == "leaky_relu":
        error = max(1.0, abs(slope)) * error
        if float(torch.tensor(slope, dtype=torch.float32)) == slope:
            error = error + torch.where(x < 0, rounding(value, error, unit), 0.0)
        else:
            error = error + torch.where(x - error < 0, 2 * unit * (value.abs() + error) + SMALLEST_FLOAT32, 0.0)
    error = torch.where(value.isfinite(), error, 0.0)
    return replace(interval, value=value, error=error)
