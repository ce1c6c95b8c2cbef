"""How Hopper adds fp8 products, what a sum loses at most, and operands that lose it: docs/fp8_error.md."""

from __future__ import annotations

import math

import torch
from torch import Tensor

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
FRACTION_BITS = {E4M3: 3, E5M2: 2}
LEAST_EXPONENT = {E4M3: -6, E5M2: -14}  # of numbers that are not subnormal
LARGEST_CODE = {E4M3: 0x7E, E5M2: 0x7B}  # finite; codes rise with the magnitude

PRODUCTS = 32  # of one instruction
PROMOTED_K = 128
UNIT = 2.0**-13  # what is kept of a sum whose largest term has the exponent 0
FLOAT32_UNIT = 2.0**-24


# The model.


def exponents(values: Tensor, least: int) -> Tensor:
    """Of the numbers as they are written: subnormal ones have the least exponent."""
    return (torch.frexp(values).exponent - 1).clamp(min=least).double()


def add_products(sums: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """One instruction: `sums` (m, n) in float64, `a` (m, 32), `b` (32, n)."""
    wide_a, wide_b = a.double()[:, None, :], b.double().t()[None]
    terms = torch.cat([wide_a * wide_b, sums[..., None]], dim=-1)
    of_products = exponents(wide_a, LEAST_EXPONENT[a.dtype]) + exponents(wide_b, LEAST_EXPONENT[b.dtype])
    of_terms = torch.cat([of_products, exponents(sums, -126)[..., None]], dim=-1)
    of_terms[terms == 0] = -math.inf
    unit = UNIT * torch.exp2(of_terms.amax(dim=-1).clamp(min=-126))
    total = torch.trunc(terms / unit[..., None]).sum(dim=-1) * unit
    fraction, exponent = torch.frexp(total)  # of a fraction in [0.5, 1) 14 bits are kept
    return torch.ldexp(torch.trunc(fraction * 2.0**14), exponent - 14)


def tensor_core_sum(a: Tensor, b: Tensor) -> Tensor:
    """a @ b without leaving the tensor core, in float64."""
    sums = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float64)
    for k in range(0, a.shape[1], PRODUCTS):
        sums = add_products(sums, a[:, k : k + PRODUCTS], b[k : k + PRODUCTS])
    return sums


def modelled(a: Tensor, b: Tensor, *, promoted: bool) -> Tensor:
    """a @ b in float32 as the kernels compute it, promoted every 128 k or, with fast_accum, never. CPU tensors."""
    step = PROMOTED_K if promoted else max(a.shape[1], 1)
    total = torch.zeros(a.shape[0], b.shape[1])
    for k in range(0, a.shape[1], step):
        total = total + tensor_core_sum(a[:, k : k + step], b[k : k + step]).float()
    return total


# The bound.


def worst_case(k: int, dtypes: tuple[torch.dtype, torch.dtype], *, promoted: bool, subnormal: bool = True) -> float:
    """The most that a sum of k products may err, in units of sum |a||b|. `subnormal`: there are such elements."""
    bits = max(FRACTION_BITS[dtype] for dtype in dtypes) if subnormal else 0
    inside = max(min(k, PROMOTED_K) if promoted else k, 1) - 1
    outside = math.ceil(k / PROMOTED_K) * FLOAT32_UNIT if promoted else 0.0
    return min(1.0, (inside + PRODUCTS * (2**bits - 1)) * UNIT) + outside


def mxfp4_worst_case(k: int) -> float:
    """The worst case of block-scaled mxfp4 that is multiplied as e5m2, promoted. Its blocks are instructions."""
    return (PROMOTED_K - PRODUCTS) * UNIT + math.ceil(k / PROMOTED_K) * FLOAT32_UNIT


def has_subnormal(*operands: Tensor) -> bool:
    return any(
        bool(((values != 0) & (values.abs() < 2.0 ** LEAST_EXPONENT[operand.dtype])).any())
        for operand in operands
        for values in [operand.double()]
    )


def lost(actual: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """|actual - a @ b| of each element in units of sum |a||b|; 0 where both are 0."""
    wide_a, wide_b = a.double(), b.double()
    error = (actual.double() - wide_a @ wide_b).abs()
    return torch.where(error == 0, 0.0, error / (wide_a.abs() @ wide_b.abs()))


# Operands.


def dominated(
    k: int, dtypes: tuple[torch.dtype, torch.dtype], *, promoted: bool, subnormal: bool
) -> tuple[Tensor, Tensor]:
    """A row of `a` and a column of `b`: one product, and all others of its sign and as large as can be lost beside it.

    The product is the first of all or, for sums that are promoted, of each 128. `subnormal`: a's factor in it is.
    """
    bits, least = FRACTION_BITS[dtypes[0]], LEAST_EXPONENT[dtypes[0]]
    longest = 2.0 - 2.0**-bits
    a, b = torch.empty(k), torch.empty(k)
    step = PROMOTED_K if promoted else max(k, 1)
    for at in range(0, k, step):
        row, column = a[at : at + step], b[at : at + step]
        if subnormal:
            row[:], row[0] = longest * 2.0**least, 2.0 ** (least - bits)
            column[:PRODUCTS], column[PRODUCTS:] = 2.0**-6, 2.0 ** (-6 - bits)  # a sum so far is not subnormal
            column[0] = 2.0**8
        else:
            row[:], row[0] = longest * 2.0**-6, 2.0**8
            column[:] = 1.0
    return a.to(dtypes[0]), b.to(dtypes[1])


def dominated_blocks(k: int) -> tuple[Tensor, Tensor]:
    """The same as mxfp4, its scales 1 and 2^-5: one product in the first block of four, the others' beside it."""
    a, b = torch.full((k,), 1.5 * 2.0**-5), torch.full((k,), 2.0**-5)
    for values in (a, b):
        for at in range(0, k, PROMOTED_K):
            values[at : at + PRODUCTS], values[at] = 0.0, 4.0
    return a, b


def uneven(
    rows: int, columns: int, dtype: torch.dtype, *, seed: int, least: int = 0, most: int = 255, few: float = 0.0
) -> Tensor:
    """Random codes, so magnitudes over all powers of two: most of them from `least` to `most`, a share `few` larger.

    One row in three has numbers of one sign.
    """
    generator = torch.Generator().manual_seed(seed)
    largest = LARGEST_CODE[dtype]
    least, most = min(least, largest), min(most, largest)
    codes = torch.randint(least, most + 1, (rows, columns), generator=generator)
    large = torch.randint(most, largest + 1, (rows, columns), generator=generator)
    codes = torch.where(torch.rand(rows, columns, generator=generator) < few, large, codes)
    signs = torch.randint(0, 2, (rows, columns), generator=generator) * 0x80
    signs[::3] = 0
    return (codes + signs).to(torch.uint8).view(dtype)
