"""Scales and elements at the ends of their formats: NaN, 2^-127, overflow, signs, subnormal products."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from block_scaled_operands import (
    FORMATS,
    MIXED,
    MIXED_REVERSED,
    MXFP4,
    MXFP8,
    NVFP4,
    SCALE_FORMS,
    Format,
    Operand,
    constant,
    each_format,
    multiply,
    random_codes,
    small_integers,
)
from block_scaled_reference import assert_exact_product, assert_product, documented_bound, expected, product
from torch import Tensor

E8M0_FORMATS = tuple(fmt for fmt in FORMATS if fmt.scale == "e8m0")
each_e8m0_format = pytest.mark.parametrize("fmt", E8M0_FORMATS, ids=str)
each_form = pytest.mark.parametrize("form", SCALE_FORMS)
F32 = torch.float32


def with_scales(operand: Operand, scales: Tensor) -> Operand:
    return replace(operand, scales=scales.to(torch.uint8).expand(operand.scales.shape).contiguous())


def float32_product(a: Operand, b: Operand, device: torch.device, form: str = "2d") -> Tensor:
    return multiply(a.to(device), b.to(device), forms=(form, form), out_dtype=F32)


class TestNaN:
    @each_form
    @each_format
    def test_a_nan_scale_makes_its_row_or_column_nan(self, device: torch.device, fmt: Format, form: str) -> None:
        """Even where the block's elements are all zero; no other row or column sees it."""
        rows, blocks = 133, 5
        k = blocks * fmt.vec
        for nan in (0x7F, 0xFF) if fmt.scale == "e4m3" else (0xFF,):
            for zeros in (False, True):
                a, b = small_integers(fmt, "a", rows, k), small_integers(fmt, "b", rows, k, seed=1)
                for operand, row, block in ((a, 3, 0), (a, 128, 4), (b, 0, 3), (b, 132, 4)):
                    operand.scales[row, block] = nan
                    if zeros:
                        operand.codes[row] = 0
                actual = float32_product(a, b, device, form)
                wanted = torch.zeros(rows, rows, dtype=torch.bool, device=device)
                wanted[[3, 128]] = True
                wanted[:, [0, 132]] = True
                assert torch.equal(actual.isnan(), wanted), f"scale {nan:#x}, zeros {zeros}"
                assert_exact_product(actual, a.to(device), b.to(device))

    @pytest.mark.parametrize("fmt", [MXFP8, MIXED, MIXED_REVERSED], ids=str)
    def test_a_nan_element_makes_its_row_or_column_nan(self, device: torch.device, fmt: Format) -> None:
        for nan in (0x7F, 0xFF):
            a, b = small_integers(fmt, "a", 67, 160), small_integers(fmt, "b", 69, 160, seed=1)
            wanted = torch.zeros(67, 69, dtype=torch.bool, device=device)
            if fmt.a == "e4m3":
                a.codes[66, 159] = nan
                wanted[66] = True
            if fmt.b == "e4m3":
                b.codes[5, 0] = nan
                wanted[:, 5] = True
            actual = float32_product(a, b, device)
            assert torch.equal(actual.isnan(), wanted)
            assert_exact_product(actual, a.to(device), b.to(device))

    @each_format
    def test_nan_survives_every_epilogue_and_output(self, device: torch.device, fmt: Format) -> None:
        a, b = constant(fmt, "a", 3, 64), constant(fmt, "b", 4, 64)
        a.scales[1, 0] = 0xFF
        for out_dtype in (torch.float16, torch.bfloat16, F32, torch.float8_e4m3fn):
            for activation in ("none", "relu", "leaky_relu", "gelu", "gelu_tanh", "silu"):
                actual = multiply(a.to(device), b.to(device), activation=activation, out_dtype=out_dtype)
                assert actual.isnan().any(1).tolist() == [False, True, False], f"{out_dtype} {activation}"
                assert bool(actual[1].isnan().all())


class TestPowersOfTwo:
    @each_form
    @each_e8m0_format
    def test_every_pair_of_bytes(self, device: torch.device, fmt: Format, form: str) -> None:
        """32 x 2^(i - 127) x 2^(j - 127) for all i and j: byte 0 is 2^-127, and overflow is infinity."""
        steps = torch.arange(255)[:, None]
        a = with_scales(constant(fmt, "a", 255, 32), steps).to(device)
        b = with_scales(constant(fmt, "b", 255, 32), steps).to(device)
        actual = float32_product(a, b, device, form)
        exponents = torch.arange(255, device=device)[:, None] + torch.arange(255, device=device) - 254 + 5
        exact = (exponents >= -140) & (exponents < 128)
        powers = torch.exp2(exponents.double()).float()
        assert torch.equal(actual[exact], powers[exact])
        assert bool((actual[exponents >= 128] == float("inf")).all())
        assert_product(actual, expected(product(a, b), out_dtype=F32, bound=documented_bound(32)))

    @each_form
    @each_e8m0_format
    def test_every_byte_beside_every_other_along_k(self, device: torch.device, fmt: Format, form: str) -> None:
        """Block s has 2^(s - 127) in one operand and 2^(127 - s) in the other: each product is of the size of 1."""
        blocks = 255
        a, b = (fractions_below_two(fmt, side, 9, blocks * 32) for side in ("a", "b"))
        order = torch.arange(blocks)
        for bytes_a in (order, order.flip(0)):
            left, right = with_scales(a, bytes_a), with_scales(b, 254 - bytes_a)
            actual = float32_product(left, right, device, form)
            assert_exact_product(actual, left.to(device), right.to(device))

    @each_e8m0_format
    def test_byte_zero_is_not_zero(self, device: torch.device, fmt: Format) -> None:
        for low, high in ((0, 254), (254, 0)):
            a = with_scales(constant(fmt, "a", 5, 64), torch.tensor(low)).to(device)
            b = with_scales(constant(fmt, "b", 6, 64), torch.tensor(high)).to(device)
            assert bool((float32_product(a, b, device) == 64).all())

    @each_form
    @each_e8m0_format
    def test_zero_blocks_with_byte_zero_among_normal_ones(self, device: torch.device, fmt: Format, form: str) -> None:
        """What quantize makes of zeros: they neither disturb the rest nor turn into NaN."""
        a, b = small_integers(fmt, "a", 130, 224), small_integers(fmt, "b", 131, 224, seed=1)
        for operand, rows, block in ((a, slice(0, 130, 3), 0), (a, slice(129, 130), 6), (b, slice(1, 131, 2), 3)):
            operand.codes[rows, block * 32 : block * 32 + 32] = 0
            operand.scales[rows, block] = 0
        a.codes[64], a.scales[64] = 0, 0
        actual = float32_product(a, b, device, form)
        assert_exact_product(actual, a.to(device), b.to(device))
        assert not actual[64].any()

    @pytest.mark.parametrize("fmt", [MXFP8, MIXED, MIXED_REVERSED], ids=str)
    def test_subnormal_products_with_a_scale_keep_their_bits(self, device: torch.device, fmt: Format) -> None:
        """e4m3's subnormal numbers times 2^-127 need float32's; the partner brings them back into range."""
        for side, other in (("a", "b"), ("b", "a")):
            if (fmt.a if side == "a" else fmt.b) != "e4m3":
                continue
            tiny = constant(fmt, side, 8, 64)
            tiny = replace(tiny, codes=(torch.arange(8)[:, None] + torch.arange(64)).to(torch.uint8) % 8)
            for low in (0, 1, 2):
                pair = {
                    side: with_scales(tiny, torch.tensor(low)),
                    other: with_scales(constant(fmt, other, 3, 64), torch.tensor(254 - low)),
                }
                actual = float32_product(pair["a"], pair["b"], device)
                assert_exact_product(actual, pair["a"].to(device), pair["b"].to(device), f"{side}, byte {low}")
                assert float(actual.abs().min()) > 0

    @pytest.mark.parametrize("low", [0, 1, 2])
    @pytest.mark.parametrize("high", [252, 253, 254])
    def test_mxfp8_at_both_ends(self, device: torch.device, high: int, low: int) -> None:
        """All finite elements under the smallest scales, those below 2 under the largest: no step overflows."""
        small, large = random_codes(MXFP8, "a", 66, 96), random_codes(MXFP8, "b", 65, 96)
        large = replace(large, codes=large.codes & 0xBF)  # without the top bit of the exponent: below 2
        for a, b in ((small, large), (large, small)):
            left, right = (with_scales(x, torch.tensor(low if x is small else high)).to(device) for x in (a, b))
            actual = float32_product(left, right, device)
            wanted = expected(product(left, right), out_dtype=F32, bound=documented_bound(96))
            assert bool(actual.isfinite().all())
            assert_product(actual, wanted)


def fractions_below_two(fmt: Format, side: str, rows: int, k: int) -> Operand:
    """0, 0.5, 1 and 1.5 with signs: times 2^127 they are finite still."""
    made = constant(fmt, side, rows, k)
    source = torch.Generator().manual_seed(7 if side == "a" else 8)
    quarters = torch.randint(0, 4, (rows, k), generator=source)
    signs = torch.randint(0, 2, (rows, k), generator=source)
    element = fmt.a if side == "a" else fmt.b
    codes = quarters + 8 * signs
    if element == "e4m3":
        codes = torch.tensor([0x00, 0x30, 0x38, 0x3C])[quarters] + 0x80 * signs
    return replace(made, codes=codes.to(torch.uint8))


class TestOverflow:
    @each_e8m0_format
    def test_an_element_times_its_scale_overflows_to_infinity(self, device: torch.device, fmt: Format) -> None:
        """Whatever the partner's scale: float32 holds the one as infinity before they meet."""
        for side, other in (("a", "b"), ("b", "a")):
            large = with_scales(constant(fmt, side, 2, 32, value=2), torch.tensor(254))
            large.codes[1] ^= 8 if large.element == "e2m1" else 0x80
            pair = {side: large, other: with_scales(constant(fmt, other, 2, 32), torch.tensor(100))}
            actual = float32_product(pair["a"], pair["b"], device)
            wanted = torch.tensor([[float("inf")] * 2, [-float("inf")] * 2], device=device)
            assert torch.equal(actual, wanted if side == "a" else wanted.t()), side

    @each_e8m0_format
    def test_infinity_times_zero_is_nan(self, device: torch.device, fmt: Format) -> None:
        a = with_scales(constant(fmt, "a", 2, 32, value=2), torch.tensor([[254], [127]]))
        b = replace(constant(fmt, "b", 3, 32), codes=torch.zeros(3, 32, dtype=torch.uint8))
        actual = float32_product(a, b, device)
        assert bool(actual[0].isnan().all())
        assert not actual[1].any()

    @each_e8m0_format
    def test_sums_overflow_to_infinity_in_their_row_alone(self, device: torch.device, fmt: Format) -> None:
        a = with_scales(constant(fmt, "a", 3, 64), torch.tensor([[127], [227], [127]]))
        b = with_scales(constant(fmt, "b", 4, 64), torch.tensor([[227], [127], [227], [227]]))
        actual = float32_product(a, b, device)
        assert_exact_product(actual, a.to(device), b.to(device))
        assert actual[1].isinf().tolist() == [True, False, True, True]

    @each_format
    def test_float16_overflows_and_e4m3_saturates(self, device: torch.device, fmt: Format) -> None:
        """6 x 6 x 2048 = 73728."""
        k = 2048
        a, b = (constant(fmt, side, 2, k, value=6).to(device) for side in ("a", "b"))
        assert bool((multiply(a, b) == float("inf")).all())
        assert bool((multiply(a, b, out_dtype=torch.bfloat16) == 73728).all())
        narrow = multiply(a, b, out_dtype=torch.float8_e4m3fn).float()
        assert bool((narrow == 448).all())


class TestSignedScales:
    @each_form
    def test_every_pair_of_e4m3_scales(self, device: torch.device, form: str) -> None:
        """16 x scale x scale for all 256 x 256 bytes: signs, subnormal numbers, zero and NaN."""
        steps = torch.arange(256)[:, None]
        a = with_scales(constant(NVFP4, "a", 256, 16), steps).to(device)
        b = with_scales(constant(NVFP4, "b", 256, 16), steps).to(device)
        actual = float32_product(a, b, device, form)
        assert int(actual.isnan().sum()) == 2 * 2 * 256 - 4
        assert_exact_product(actual, a, b)

    def test_a_negative_scale_turns_the_sign_of_its_block(self, device: torch.device) -> None:
        a = constant(NVFP4, "a", 3, 48).to(device)
        a.scales[1, 1] = 0xB8  # -1
        a.scales[2] = 0xC0  # -2
        actual = float32_product(a, constant(NVFP4, "b", 2, 48).to(device), device)
        assert actual.tolist() == [[48.0, 48.0], [16.0, 16.0], [-96.0, -96.0]]


@pytest.mark.parametrize("fmt", [MXFP4, NVFP4, MIXED], ids=str)
def test_every_pair_of_codes(device: torch.device, fmt: Format) -> None:
    """One element of each row is a code, all others zero: every product of two codes, at every k of a block."""
    count_a, count_b = (256 if element == "e4m3" else 16 for element in (fmt.a, fmt.b))
    for at in (0, 1, fmt.vec - 1, 2 * fmt.vec - 2):
        a, b = constant(fmt, "a", count_a, 64), constant(fmt, "b", count_b, 64)
        a.codes.zero_()
        b.codes.zero_()
        a.codes[:, at], b.codes[:, at] = torch.arange(count_a).to(torch.uint8), torch.arange(count_b).to(torch.uint8)
        actual = float32_product(a, b, device)
        assert_exact_product(actual, a.to(device), b.to(device), f"k {at}")
