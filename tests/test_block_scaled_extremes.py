"""Scales at the ends of e8m0 against ordinary partners, and NaNs: the same bits by any count of rows, on any device.

Each element times its scale counts as float32 holds it, so a route that multiplies scales later must notice where that
differs. Data are such that every sum is exact in float32, so only the right bits will do.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from block_scaled_operands import (
    MIXED,
    MIXED_REVERSED,
    MXFP8,
    NVFP4,
    Format,
    Operand,
    generator,
    multiply,
    random_codes,
)
from block_scaled_reference import assert_exact_product, assert_product, dequantize, documented_bound, expected, product
from test_block_scaled_scales import F32, each_e8m0_format, with_scales
from torch import Tensor

each_row_count = pytest.mark.parametrize("m", [1, 8, 64, 128, 129])
PARTNERS = (110, 119, 127, 136)  # e5m2 holds a's codes under scales from 110 to 136
SMALL, LARGE = (0, 1, 2, 6, 7, 31), (252, 253, 254)
N, K = 130, 96

# What e2m1 has, as e4m3 has it.
MAGNITUDES = torch.tensor([0x00, 0x30, 0x38, 0x3C, 0x40, 0x44, 0x48, 0x4C], dtype=torch.uint8)


def operand(fmt: Format, side: str, rows: int, scales: Tensor, *, signs: bool = True, zeros: bool = True) -> Operand:
    """Random numbers that e2m1 has, in either element type; `scales` one for each block of k, or for all."""
    source = generator("extremes", side, rows, signs, zeros)
    magnitudes = torch.randint(0 if zeros else 1, 8, (rows, K), generator=source)
    negative = torch.randint(0, 2, (rows, K), generator=source) * int(signs)
    element = fmt.a if side == "a" else fmt.b
    codes = magnitudes + 8 * negative if element == "e2m1" else MAGNITUDES[magnitudes] + 0x80 * negative
    made = Operand(codes.to(torch.uint8), torch.empty(rows, K // fmt.vec, dtype=torch.uint8), element, fmt.scale)
    return with_scales(made, scales)


def check_pair(a: Operand, b: Operand, device: torch.device, what: str, form: str = "2d") -> None:
    """The right numbers, and on a GPU the CPU's bits."""
    actual = multiply(a.to(device), b.to(device), forms=(form, form), out_dtype=F32)
    assert_exact_product(actual, a.to(device), b.to(device), what)
    if device.type != "cpu":
        here, on_cpu = actual.cpu(), multiply(a, b, out_dtype=F32)
        is_same = (here.view(torch.int32) == on_cpu.view(torch.int32)) | (here.isnan() & on_cpu.isnan())
        assert bool(is_same.all()), what


@each_row_count
@each_e8m0_format
class TestExtremeScales:
    @pytest.mark.parametrize("side", ["a", "b"])
    def test_small_scales_lose_no_bit(self, device: torch.device, fmt: Format, m: int, side: str) -> None:
        for partner in PARTNERS:
            for small in SMALL:
                bytes_a, bytes_b = (small, partner) if side == "a" else (partner, small)
                a, b = operand(fmt, "a", m, torch.tensor(bytes_a)), operand(fmt, "b", N, torch.tensor(bytes_b))
                check_pair(a, b, device, f"scales {bytes_a} and {bytes_b}", "packed" if small % 2 else "2d")

    @pytest.mark.parametrize("side", ["a", "b"])
    def test_an_element_that_overflows_is_infinite_before_it_meets_its_partner(
        self, device: torch.device, fmt: Format, m: int, side: str
    ) -> None:
        """Of one sign, for sums of both may overflow in their parts; with zeros, whose sum is NaN, and without."""
        for partner in PARTNERS:
            for large in LARGE:
                for zeros in (False, True):
                    scales = {side: torch.tensor(large), "ab".replace(side, ""): torch.tensor(partner)}
                    a = operand(fmt, "a", m, scales["a"], signs=False, zeros=zeros)
                    b = operand(fmt, "b", N, scales["b"], signs=False, zeros=zeros)
                    check_pair(a, b, device, f"scales {scales}, zeros {zeros}", "packed" if zeros else "2d")

    def test_zeros_of_a_times_infinity_are_nan(self, device: torch.device, fmt: Format, m: int) -> None:
        a = operand(fmt, "a", m, torch.tensor(127))
        a = replace(a, codes=torch.zeros_like(a.codes))
        for large in LARGE:
            b = operand(fmt, "b", N, torch.tensor(large))
            check_pair(a, b, device, f"byte {large}")

    def test_one_extreme_block_of_one_row(self, device: torch.device, fmt: Format, m: int) -> None:
        """Its row's and no other's results change, whatever the block's codes are."""
        for extreme in (0, 2, 253, 254, 255):
            for side in ("a", "b"):
                pair = {
                    "a": operand(fmt, "a", m, torch.tensor(127), signs=False),
                    "b": operand(fmt, "b", N, torch.tensor(127), signs=False),
                }
                row = m - 1 if side == "a" else N - 1
                pair[side].codes[row, : K // 2] = 0
                pair[side].codes[row, K - fmt.vec - 1 :] = 0
                pair[side].scales[row, 0] = extreme  # over zeros
                check_pair(pair["a"], pair["b"], device, f"{side}: {extreme} over zeros")
                pair[side].codes[row, :] = 0
                pair[side].codes[row, fmt.vec] = 4 if pair[side].element == "e2m1" else 0x40  # 2
                pair[side].scales[row, 1] = extreme
                check_pair(pair["a"], pair["b"], device, f"{side}: {extreme} over one 2")


def two_sizes_of_blocks(fmt: Format, side: str, rows: int, tiny: int) -> Operand:
    """Rows of ordinary blocks, of which every third has in its middle one under `tiny`; other rows have zeros there."""
    made = operand(fmt, side, rows, torch.tensor(127))
    middle = slice(fmt.vec, 2 * fmt.vec)
    made.codes[torch.arange(rows) % 3 != 0, middle] = 0
    made.scales[::3, 1] = tiny
    return made


@each_row_count
@pytest.mark.parametrize("fmt", [MXFP8, MIXED, MIXED_REVERSED], ids=str)
class TestWhatBFloat16Loses:
    @pytest.mark.parametrize("tiny", [0, 1, 2, 3])
    @pytest.mark.parametrize("side", ["a", "b"])
    def test_blocks_under_tiny_scales_count(
        self, device: torch.device, fmt: Format, m: int, side: str, tiny: int
    ) -> None:
        """Subnormal numbers of e4m3, brought back into range by the partner's scale."""
        other = "b" if side == "a" else "a"
        rows = {"a": m, "b": N}
        lost = two_sizes_of_blocks(fmt, side, rows[side], tiny)
        if lost.element == "e4m3":  # 2^-9 to 7 x 2^-9
            lost.codes[::3, fmt.vec : 2 * fmt.vec] = torch.arange(fmt.vec, dtype=torch.uint8) % 8
        partner = operand(fmt, other, rows[other], torch.tensor([127, 254 - tiny - 2, 127]))
        small = torch.tensor([0, 1, 2, 3] * 2) if partner.element == "e2m1" else MAGNITUDES[:4].repeat(2)
        source = generator("small", m, side)
        picked = small.to(torch.uint8)[torch.randint(0, 8, (rows[other], fmt.vec), generator=source)]
        partner.codes[:, fmt.vec : 2 * fmt.vec] = picked  # at most 1.5, times 2^125
        check_pair(*((lost, partner) if side == "a" else (partner, lost)), device, f"{side}: {tiny}")

    def test_tiny_blocks_on_both_sides_count_once(self, device: torch.device, fmt: Format, m: int) -> None:
        """Where they meet, the product is below what float32 holds; where they do not, it counts."""
        a, b = two_sizes_of_blocks(fmt, "a", m, 2), two_sizes_of_blocks(fmt, "b", N, 1)
        for made in (a, b):
            made.codes[:, : fmt.vec], made.codes[:, 2 * fmt.vec :] = 0, 0
            made.codes[1::3, fmt.vec : 2 * fmt.vec] = 2 if made.element == "e2m1" else 0x38  # 1
            made.scales[1::3, 1] = 200
        check_pair(a, b, device, "both")

    @pytest.mark.parametrize("side", ["a", "b"])
    def test_tiny_times_infinity_is_infinity(self, device: torch.device, fmt: Format, m: int, side: str) -> None:
        other = "b" if side == "a" else "a"
        rows = {"a": m, "b": N}
        lost = operand(fmt, side, rows[side], torch.tensor(1), signs=False, zeros=False)
        partner = operand(fmt, other, rows[other], torch.tensor(254), signs=False, zeros=False)
        check_pair(*((lost, partner) if side == "a" else (partner, lost)), device, side)

    def test_nan_in_a_row_with_tiny_blocks(self, device: torch.device, fmt: Format, m: int) -> None:
        a, b = two_sizes_of_blocks(fmt, "a", m, 2), two_sizes_of_blocks(fmt, "b", N, 0)
        for made in (a, b):
            made.codes[:, fmt.vec : 2 * fmt.vec] *= (torch.arange(len(made.codes)) % 3 == 0)[:, None].byte()
            made.scales[0, 2] = 0xFF
            if made.element == "e4m3":
                made.codes[-1, 0] = 0x7F
        check_other_rows_are_finite(a, b, device)


def check_other_rows_are_finite(a: Operand, b: Operand, device: torch.device) -> None:
    actual = multiply(a.to(device), b.to(device), out_dtype=F32).cpu()
    rows = torch.zeros(len(a.codes), dtype=torch.bool)
    columns = torch.zeros(len(b.codes), dtype=torch.bool)
    rows[0] = columns[0] = True
    rows[-1] |= a.element == "e4m3"
    columns[-1] |= b.element == "e4m3"
    assert torch.equal(actual.isnan(), rows[:, None] | columns)
    on_cpu = multiply(a, b, out_dtype=F32)
    torch.testing.assert_close(actual, on_cpu, rtol=2e-6, atol=0, equal_nan=True)


@each_row_count
class TestSmallScalesOfNvfp4:
    """Elements far below 1, whose float16 would be subnormal: tensor cores cut products by the elements' exponents."""

    LEAST = 2.0**-7  # counts as such in the bound: docs/block_scaled_on_hopper.md

    @pytest.mark.parametrize("sides", ["a", "b", "ab"])
    def test_sums_keep_the_documented_bound(self, device: torch.device, m: int, sides: str) -> None:
        k = 512
        pair = {side: random_codes(NVFP4, side, rows, k) for side, rows in (("a", m), ("b", N))}
        for side, made in pair.items():
            shape, source = made.scales.shape, generator("nvfp4", side)
            low, high = (1, 12) if side in sides else (0x30, 0x7F)  # 2^-9 to 2^-6, and from 1/2 on
            made.scales.copy_(torch.randint(low, high, shape, generator=source).to(torch.uint8))
        a, b = (made.to(device) for made in pair.values())
        held_a, held_b = (dequantize(x).abs().clamp(min=self.LEAST) * (dequantize(x) != 0) for x in (a, b))
        total = replace(product(a, b), magnitude=held_a @ held_b.t())
        bound = documented_bound(k) + k / 4 * 2.0**-23 * (device.type == "cuda")
        assert_product(multiply(a, b, out_dtype=F32), expected(total, out_dtype=F32, bound=bound), sides)
