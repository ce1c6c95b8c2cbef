"""What the documents promise of sums, as the soak test checks it: on the CPU, and on a GPU's tensor cores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from soak.intervals import SMALLEST_FLOAT32, Precision
from soak.operand import Operand
from soak.values import E4M3, UNEVEN

# What fp8 sums lose on Hopper, proven and typical: docs/fp8_error.md.
_FP8_UNIT, _FP8_PRODUCTS, _FP8_PROMOTED = 2.0**-13, 32, 128
_FP8_TYPICAL = 2.0**-10  # of normal data "seldom up to 2^-11", and a factor of two in hand
_MXFP4_AS_E5M2 = 96 * 2.0**-13

# Sums of up to so many units are exact. Tensor cores align terms by exponents that are not normalized, which takes up
# to two of their bits; those of fp8 keep 14, and subnormal numbers take up to six of them.
_EXACT_CPU, _EXACT_GPU = 2.0**24, 2.0**22
_EXACT_FP8, _EXACT_FP8_SUBNORMAL = 2.0**12, 2.0**6


@dataclass(frozen=True)
class Data:
    """What is known of two operands' numbers."""

    is_normal: bool = False  # and none repeats in memory
    is_integers: bool = False
    is_uneven: bool = False  # one product may be far above the others, or all of one sign

    @classmethod
    def of(cls, *operands: Operand) -> Data:
        kinds = {operand.kind for operand in operands}
        repeated = any(operand.layout.overlaps_itself() for operand in operands)
        uneven = repeated or kinds == {"one sign"} or not kinds.isdisjoint(UNEVEN)
        return cls(kinds == {"normal"} and not repeated, kinds == {"integers"}, uneven)


UNKNOWN = Data(is_uneven=True)


def promised(k: int) -> float:
    """Of a sum of k products in float32, in units of sum |a||b|."""
    return (4.0 + 2.0 * math.sqrt(k)) * 2.0**-23


# The least normal number of what tensor cores multiply: of nvfp4 it is float16, of elements times 2^-7.
_LEAST_NORMAL = {torch.float16: 2.0**-14, torch.bfloat16: 2.0**-126}
_LEAST_NORMAL_NVFP4 = 2.0**-14 * 2.0**7


def _cut(k: int, data: Data) -> float:
    """What tensor cores of 16 bits, which cut instead of rounding, may add where data are uneven."""
    return k / 4 * 2.0**-23 if data.is_uneven else 0.0


def _one_way(k: int, data: Data) -> float:
    """What rounding may add where products are all alike: in one direction at every step."""
    return k * 2.0**-24 if data.is_uneven else 0.0


def _cpu(k: int, data: Data) -> Precision:
    return Precision(promised(k) + _one_way(k, data), exact=_EXACT_CPU)


def _fp8(k: int, dtypes: tuple[torch.dtype, torch.dtype], device: torch.device, data: Data, fast: bool) -> Precision:
    if data.is_normal and k >= _FP8_PRODUCTS:
        return Precision(promised(k) + _FP8_TYPICAL, exact=_EXACT_FP8_SUBNORMAL)
    promoted = not fast and torch.cuda.get_device_capability(device) == (9, 0)
    inside = max(min(k, _FP8_PROMOTED) if promoted else k, 1) - 1
    subnormal = _FP8_PRODUCTS * (2 ** (3 if E4M3 in dtypes else 2) - 1)
    exact = _EXACT_FP8 if data.is_integers else _EXACT_FP8_SUBNORMAL
    return Precision(promised(k) + min(1.0, (inside + subnormal) * _FP8_UNIT), exact=exact)


def dense(
    k: int,
    dtypes: tuple[torch.dtype, torch.dtype],
    device: torch.device,
    data: Data,
    *,
    tf32: bool = False,
    fast_accum: bool = False,
) -> Precision:
    """Of matmul."""
    if dtypes[0] == torch.float64:  # the oracle, in float64 too, rounds as well
        bound = 2 * (promised(k) + _one_way(k, data))
        return Precision(bound * 2.0**-29, exact=2.0**50, unit=2.0**-53, underflow=0.0)
    if device.type == "cpu":
        return _cpu(k, data)
    if dtypes[0].itemsize == 1:
        return _fp8(k, dtypes, device, data, fast_accum)
    if dtypes[0] == torch.float32 and tf32:  # 11 bits of each operand; what is subnormal may vanish
        return Precision(promised(k) + 2.0**-9, exact=_EXACT_GPU, underflow=2.0**-126, narrow=True)
    if dtypes[0] == torch.float32:  # six products of bfloat16 may stand for one
        return Precision(promised(k), exact=_EXACT_GPU, underflow=8 * SMALLEST_FLOAT32)
    return Precision(promised(k) + _cut(k, data), exact=_EXACT_GPU, least=_LEAST_NORMAL[dtypes[0]])


def block_scaled(
    k: int, device: torch.device, *, as_e5m2: bool = False, is_nvfp4: bool = False, as_fp8: bool = False
) -> Precision:
    """Of block_scaled_matmul; `as_e5m2`: fast_accum of mxfp4; `as_fp8`: folded."""
    if device.type == "cpu":
        return _cpu(k, UNKNOWN)
    if as_fp8:
        return _fp8(k, (E4M3, E4M3), device, UNKNOWN, False)
    allowed = _MXFP4_AS_E5M2 if as_e5m2 else 0.0
    exact = _EXACT_FP8_SUBNORMAL if as_e5m2 else _EXACT_GPU
    least = _LEAST_NORMAL_NVFP4 if is_nvfp4 else _LEAST_NORMAL[torch.bfloat16]
    return Precision(promised(k) + _cut(k, UNKNOWN) + allowed, exact=exact, least=least)


def with_float32_scales(
    k: int, dtypes: tuple[torch.dtype, torch.dtype], device: torch.device, fast_accum: bool
) -> Precision:
    """Of block_scaled_matmul, both operands of 8 bits. Sums of int8 are exact before they are rounded to float32."""
    if device.type == "cpu" or dtypes[0] == torch.int8:
        return _cpu(k, UNKNOWN)
    return _fp8(k, dtypes, device, UNKNOWN, fast_accum)


def weight_only(k: int, device: torch.device, dtype: torch.dtype) -> Precision:
    """Of block_scaled_matmul, `a` of 16 bits. A weight's elements may be multiplied as that dtype or as bfloat16, those
    of nvfp4 with float16 times 2^-7."""
    if device.type == "cpu":
        return _cpu(k, UNKNOWN)
    least = _LEAST_NORMAL_NVFP4 if dtype == torch.float16 else _LEAST_NORMAL[torch.bfloat16]
    return Precision(promised(k) + _cut(k, UNKNOWN), exact=_EXACT_GPU, least=least)
