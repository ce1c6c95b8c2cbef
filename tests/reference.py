"""A float64 oracle for `matmul`, with the error that docs/dtypes.md allows. It shares nothing with csrc.

The oracle gives an interval for every element: the exact value before the output's rounding, plus and minus what the
documented bound, the bias's rounding and the activation's arithmetic may add. Rounding is monotone, so a right result
lies between the interval's two ends, each rounded to the output's dtype: no tolerance for the output's rounding is
needed, and infinities and subnormal numbers need no special case.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Activation:
    """One by torch in float64."""

    apply: Callable[[Tensor, float], Tensor]  # (x, slope); F.leaky_relu takes any slope
    gain: float = 1.0  # how much it may enlarge an error of its argument: its largest slope
    is_curved: bool = False  # it rounds a few times at the size of x


_ACTIVATIONS = {
    "none": Activation(lambda x, slope: x),
    "relu": Activation(lambda x, slope: F.relu(x)),
    "leaky_relu": Activation(F.leaky_relu),
    "gelu": Activation(lambda x, slope: F.gelu(x), 1.13, is_curved=True),  # the largest slope is 1.129
    "gelu_tanh": Activation(lambda x, slope: F.gelu(x, approximate="tanh"), 1.13, is_curved=True),  # 1.129
    "silu": Activation(lambda x, slope: F.silu(x), 1.13, is_curved=True),  # 1.100
}
ACTIVATIONS = tuple(_ACTIVATIONS)
CURVED = tuple(name for name, row in _ACTIVATIONS.items() if row.is_curved)

MATMUL_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
OUT_DTYPES = {
    torch.float16: (torch.float16, torch.float32, torch.bfloat16),
    torch.bfloat16: (torch.bfloat16, torch.float32, torch.float16),
    torch.float32: (torch.float32, torch.float16, torch.bfloat16),
    torch.float64: (torch.float64,),
    torch.float8_e4m3fn: (torch.float16, torch.bfloat16, torch.float32),
    torch.float8_e5m2: (torch.float16, torch.bfloat16, torch.float32),
}
DTYPE_PAIRS = tuple((dtype, out_dtype) for dtype in MATMUL_DTYPES for out_dtype in OUT_DTYPES[dtype])

SMALLEST_FLOAT32 = 2.0**-149
# TF32 keeps 10 bits of the fraction: dropping the others errs by up to 2^-10 of an operand, and there are two operands.
TF32_OPERANDS = 2.0**-9
# What fp8 instructions lose of random data over a long k. Of other data it may be much more: docs/fp8_error.md.
FLOAT8_PRODUCTS = 2.0**-15


@dataclass(frozen=True)
class Expected:
    """`value` +- `error`, both float64, before the one rounding to `dtype`."""

    value: Tensor
    error: Tensor
    dtype: torch.dtype


def activate(x: Tensor, activation: str, slope: float) -> Tensor:
    """torch's own activation of a float64 tensor."""
    return _ACTIVATIONS[activation].apply(x, slope)


def activation_gain(activation: str, slope: float) -> float:
    """How much an activation may enlarge an error of its argument."""
    return max(1.0, abs(slope)) if activation == "leaky_relu" else _ACTIVATIONS[activation].gain


def sum_bound(k: int, dtype: torch.dtype, tf32: bool) -> float:
    """The error of a sum of k products in units of sum |a||b|, as docs/dtypes.md has it."""
    if dtype == torch.float64:  # the oracle computes in float64 itself, so its own error of the same size comes on top
        return 2.0 * (4.0 + 2.0 * math.sqrt(k)) * 2.0**-52
    bound = (4.0 + 2.0 * math.sqrt(k)) * 2.0**-23
    if dtype.itemsize == 1:
        return bound + FLOAT8_PRODUCTS
    return bound + TF32_OPERANDS if tf32 else bound


def expected_matmul(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    tf32: bool = False,
    more: float = 0.0,
) -> Expected:
    """activation(a @ b + bias) in float64 on the operands' device; a, b 2-D or 3-D, as the op takes them.

    `more` error is allowed, in units of sum |a||b|.
    """
    k = a.shape[-1]
    wide_a, wide_b = a.double(), b.double()
    total = wide_a @ wide_b
    error = (sum_bound(k, a.dtype, tf32) + more) * (wide_a.abs() @ wide_b.abs())
    unit = 2.0**-53 if a.dtype == torch.float64 else 2.0**-24  # the accumulator's rounding unit
    if a.dtype != torch.float64:
        error = error + k * SMALLEST_FLOAT32  # products that underflow
    if bias is not None:
        total = total + bias.double()
        error = error + unit * total.abs()
    value = activate(total, activation, slope)
    if activation != "none":
        # leaky_relu rounds the slope and the product; the curved ones round a few times at the size of x.
        own = 8.0 * unit * total.abs() if activation in CURVED else 2.0 * unit * value.abs()
        error = activation_gain(activation, slope) * error + own + SMALLEST_FLOAT32 * (a.dtype != torch.float64)
    return Expected(value, error, out_dtype or OUT_DTYPES[a.dtype][0])


def assert_matches(actual: Tensor, expected: Expected, what: str = "") -> None:
    """Every element lies in its interval; NaN stands exactly where the oracle has NaN."""
    assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.value.shape, (
        f"{what}: shape {tuple(actual.shape)}, expected {tuple(expected.value.shape)}"
    )
    if actual.numel() == 0:
        return
    value, error = expected.value, expected.error
    finite = value.isfinite()
    error = torch.where(finite, error, torch.zeros_like(error))
    low = (value - error).to(expected.dtype).double()
    high = (value + error).to(expected.dtype).double()
    got = actual.double()
    good = torch.where(value.isnan(), got.isnan(), (got >= low) & (got <= high))
    if bool(good.all()):
        return
    bad = (~good).nonzero()
    first = tuple(bad[0].tolist())
    raise AssertionError(
        f"{what}: {len(bad)} of {good.numel()} elements are wrong, first at {first}: got {got[first].item()!r}, "
        f"expected {value[first].item()!r} in [{low[first].item()!r}, {high[first].item()!r}]; "
        f"last at {tuple(bad[-1].tolist())}"
    )


def assert_exact(actual: Tensor, value: Tensor, dtype: torch.dtype, what: str = "") -> None:
    """`actual` is the float64 `value` rounded once: for small integers every order of summation gives the same bits."""
    assert_matches(actual, Expected(value, torch.zeros_like(value), dtype), what)


def check_matmul(
    actual: Tensor, a: Tensor, b: Tensor, bias: Tensor | None = None, *, what: str = "", **epilogue: object
) -> None:
    """`actual` against the oracle for these operands; `epilogue` as `expected_matmul` takes it."""
    assert_matches(actual, expected_matmul(a, b, bias, **epilogue), what)  # type: ignore[arg-type]
