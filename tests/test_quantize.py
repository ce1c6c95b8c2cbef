"""`quantize`: every code, every halfway point, every kind of block, against the oracle bit for bit."""

from __future__ import annotations

import pytest
import torch
from small_float_operands import X_DTYPES, dtype_name, global_scales, random_bytes, wide_values
from small_float_reference import (
    BYTE,
    E4M3_VALUES,
    FORMAT_ROUNDINGS,
    FORMATS,
    MXFP4,
    MXFP8,
    NVFP4,
    Format,
    assert_quantized,
    assert_same_bits,
    expected_quantize,
    middles,
    unpaired,
)
from torch import Tensor

quantize = torch.ops.tileon.quantize

SMALLEST_FLOAT32 = 2.0**-149
LARGEST_FLOAT32 = torch.finfo(torch.float32).max

each_format = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
each_rounding = pytest.mark.parametrize(
    ("form", "rounding"), FORMAT_ROUNDINGS, ids=[f"{form.name}-{rounding}" for form, rounding in FORMAT_ROUNDINGS]
)


def check(x: Tensor, form: Format, rounding: str = "floor", global_scale: Tensor | None = None, what: str = "") -> None:
    """The op's bytes are the oracle's."""
    actual = quantize(x, form.name, global_scale, scale_rounding=rounding)
    assert_quantized(actual, expected_quantize(x, form, global_scale, rounding), f"{form.name} {rounding} {what}")


def blocks_led_by(leader: float, values: Tensor, form: Format) -> Tensor:
    """`values` in blocks of one row each, every block with `leader` as its first element."""
    values = torch.cat((values, values.new_zeros(-len(values) % (form.vec - 1))))
    return torch.nn.functional.pad(values.reshape(-1, form.vec - 1), (1, 0), value=leader).contiguous()


def neighbours(values: Tensor) -> Tensor:
    """Each float32 value, the next one up and the next one down, and all of them negated."""
    up, down = (values.nextafter(torch.tensor(end)) for end in (torch.inf, -torch.inf))
    values = torch.cat((values, up, down))
    return torch.cat((values, -values))


def one_block(form: Format, *values: float) -> Tensor:
    x = torch.zeros(1, form.vec)
    x[0, : len(values)] = torch.tensor(values, dtype=torch.float32)
    return x


def codes_of(data: Tensor, form: Format) -> Tensor:
    """One code a byte, on the CPU."""
    data = data.view(BYTE).cpu()
    return unpaired(data) if form.is_fp4 else data


class TestElements:
    @each_rounding
    def test_values_on_the_grid_keep_their_codes_under_every_scale(
        self, device: torch.device, form: Format, rounding: str
    ) -> None:
        """The largest value in each block makes the rules choose that very scale."""
        codes = torch.arange(len(form.elements))[~form.elements.isnan()]
        scale_codes = torch.arange(255 - form.largest_exponent)  # largest * 2^(b - 127) is finite
        if form is NVFP4:
            scale_codes = torch.arange(0x08, 0x7F)  # 2^-6 to 448
        grid = blocks_led_by(form.largest, form.elements[codes].float(), form)
        x = (grid.double() * form.scales[scale_codes].reshape(-1, 1, 1)).float().flatten(0, 1)
        data, scale = quantize(x.to(device), form.name, scale_rounding=rounding)
        expected = expected_quantize(grid.repeat(len(scale_codes), 1), form).data
        assert torch.equal(data.view(BYTE).cpu(), expected)
        rows = torch.ops.tileon.unpack_scales(scale, len(x), 1).view(BYTE).cpu().long()
        assert torch.equal(rows, scale_codes.repeat_interleave(len(grid)).unsqueeze(1))

    @each_rounding
    def test_halfway_goes_to_the_even_code_and_the_next_float_to_the_nearest(
        self, device: torch.device, form: Format, rounding: str
    ) -> None:
        between = middles(form.elements)
        if form is NVFP4:
            scales = torch.tensor([2.0**-6, 0.5, 1.0, 256.0], dtype=torch.float64)  # their reciprocals are exact
        else:
            scales = form.scales[[0, 1, 2, 9, 100, 127, 128, 240, 246]]
        for scale in scales:
            values = neighbours((between * scale).float())
            check(blocks_led_by(float(form.largest * scale), values, form).to(device), form, rounding, what=f"{scale}")
        exact = blocks_led_by(form.largest, between.float(), form).to(device)
        data, _ = quantize(exact, form.name, scale_rounding=rounding)
        assert not bool((codes_of(data, form)[:, 1:] % 2 == 1).any())

    @each_rounding
    def test_the_sign_of_zero_is_kept(self, device: torch.device, form: Format, rounding: str) -> None:
        """Of a zero, and of a value that rounds to zero; in a block of zeros too."""
        small = form.largest * 2.0**-30
        x = torch.cat((one_block(form, form.largest, -0.0, 0.0, -small, small), one_block(form, -0.0, 0.0, -0.0)))
        data, _ = quantize(x.to(device), form.name, scale_rounding=rounding)
        sign = 8 if form.is_fp4 else 0x80
        codes = codes_of(data, form)
        assert codes[0, 1:5].tolist() == [sign, 0, sign, 0]
        assert codes[1, :4].tolist() == [sign, 0, sign, 0]

    @pytest.mark.parametrize("form", [MXFP8, MXFP4], ids=lambda form: form.name)
    def test_floor_saturates_what_stands_above_the_largest_code(self, device: torch.device, form: Format) -> None:
        """A block of [448, 512) has the scale 1 of 256, of [6, 8) that of 4."""
        above = torch.linspace(form.largest, 2.0 ** (form.largest_exponent + 1), 64)[:-1]
        x = torch.zeros(len(above), form.vec)
        x[:, 0], x[:, 1] = above, -above
        data, scale = quantize(x.to(device), form.name)
        restored = torch.ops.tileon.dequantize(data, scale, form.name).cpu()
        assert bool((restored[:, 0] == form.largest).all())
        assert bool((restored[:, 1] == -form.largest).all())
        check(x.to(device), form)

    def test_every_value_of_the_16_bit_types(self, device: torch.device) -> None:
        """In blocks of random neighbours; NaN and infinity in rows of their own as well."""
        generator = torch.Generator()
        generator.manual_seed(0)
        for dtype in (torch.float16, torch.bfloat16):
            values = torch.arange(65536).to(torch.int32).to(torch.int16).view(dtype)
            finite = values[values.isfinite()]
            shuffled = finite[torch.randperm(len(finite), generator=generator)]
            for ordered in (values, shuffled[: len(shuffled) // 64 * 64]):
                for form, rounding in FORMAT_ROUNDINGS:
                    check(ordered.reshape(-1, 64).to(device), form, rounding, what=f"{dtype}")


class TestScales:
    @each_rounding
    def test_amax_at_every_power_of_two_and_beside_it(self, device: torch.device, form: Format, rounding: str) -> None:
        powers = torch.exp2(torch.arange(-149, 128, dtype=torch.float64)).float()
        x = torch.zeros(6 * len(powers), form.vec)
        x[:, -1] = neighbours(powers)
        x[:, 3] = x[:, -1] / 3
        check(x.to(device), form, rounding)

    @each_rounding
    def test_amax_at_largest_times_every_power_of_two_and_beside_it(
        self, device: torch.device, form: Format, rounding: str
    ) -> None:
        """Where rceil steps up."""
        powers = torch.exp2(torch.arange(-149, 119, dtype=torch.float64)) * form.largest
        x = torch.zeros(6 * len(powers), form.vec)
        x[:, 0] = neighbours(powers.float())
        x[:, 1] = x[:, 0] * 0.7
        check(x.to(device), form, rounding)

    def test_rceil_by_hand(self, device: torch.device) -> None:
        for amax, byte in ((448, 127), (449, 128), (896, 128), (1, 119), (LARGEST_FLOAT32, 247), (0, 0)):
            _, scale = quantize(one_block(MXFP8, amax).to(device), "mxfp8", scale_rounding="rceil")
            assert scale.view(BYTE).flatten()[0].item() == byte, amax

    def test_floor_by_hand(self, device: torch.device) -> None:
        for form, cases in (
            (MXFP8, ((448, 127), (511, 127), (512, 128), (1, 119), (LARGEST_FLOAT32, 246), (0, 0))),
            (MXFP4, ((6, 127), (7.9, 127), (8, 128), (1, 125), (LARGEST_FLOAT32, 252), (0, 0))),
        ):
            for amax, byte in cases:
                _, scale = quantize(one_block(form, amax).to(device), form.name)
                assert scale.view(BYTE).flatten()[0].item() == byte, amax

    @each_rounding
    def test_subnormal_blocks(self, device: torch.device, form: Format, rounding: str) -> None:
        """A value flushed to zero on the way would lose its code: with the scale 2^-127 many are not zero."""
        steps = torch.tensor([1, 2, 3, 7, 100, 2**10, 2**13 + 1, 2**20 + 5, 2**22, 2**23 - 1], dtype=torch.float64)
        leaders = (steps * SMALLEST_FLOAT32).float()
        fractions = torch.linspace(-1, 1, form.vec)
        check((leaders.unsqueeze(1).double() * fractions).float().to(device), form, rounding)
        if form is not NVFP4:
            data, scale = quantize(one_block(form, 2.0**-127).to(device), form.name, scale_rounding=rounding)
            assert data.view(BYTE).flatten()[0].item() == (0x38 if form is MXFP8 else 2)  # 1
            assert not bool(scale.view(BYTE).any())

    @each_rounding
    def test_the_largest_floats(self, device: torch.device, form: Format, rounding: str) -> None:
        check(one_block(form, LARGEST_FLOAT32, -LARGEST_FLOAT32, LARGEST_FLOAT32 / 2).to(device), form, rounding)

    @each_rounding
    def test_a_block_of_zeros_has_the_smallest_scale(self, device: torch.device, form: Format, rounding: str) -> None:
        data, scale = quantize(torch.zeros(128, 4 * form.vec, device=device), form.name, scale_rounding=rounding)
        assert not bool(data.view(BYTE).any())
        assert bool((scale.view(BYTE) == (0x08 if form is NVFP4 else 0)).all())

    @each_rounding
    @pytest.mark.parametrize("bad", [torch.nan, -torch.nan, torch.inf, -torch.inf])
    def test_nan_and_infinity_make_their_own_block_nan(
        self, device: torch.device, form: Format, rounding: str, bad: float
    ) -> None:
        """At every place of a block; the blocks beside it do not notice."""
        x = torch.full((form.vec, 3 * form.vec), -2.0)
        x[torch.arange(form.vec), form.vec + torch.arange(form.vec)] = bad
        data, scale = quantize(x.to(device), form.name, scale_rounding=rounding)
        scales = torch.ops.tileon.unpack_scales(scale, form.vec, 3).view(BYTE)
        assert bool((scales[:, 1] == form.nan_scale).all())
        assert bool((scales[:, 0::2] == scales[0, 0]).all())
        assert scales[0, 0].item() != form.nan_scale
        middle = data.view(BYTE).unflatten(1, (3, form.vec // form.per_byte))[:, 1]
        assert not bool(middle.any())
        check(x.to(device), form, rounding)


class TestGlobalScale:
    def test_against_the_oracle(self, device: torch.device) -> None:
        x = wide_values(130, 112)
        for global_scale in global_scales(NVFP4, device):
            check(x.to(device), NVFP4, global_scale=global_scale, what=f"{global_scale}")

    def test_the_scale_is_two_divisions_each_rounded(self, device: torch.device) -> None:
        """amax / 6 / global, where it lies between two e4m3 values: any other order rounds some the other way."""
        between = middles(E4M3_VALUES)
        between = between[between > 2.0**-6]
        generator = torch.Generator()
        generator.manual_seed(2)
        for _ in range(8):
            global_scale = torch.rand((), generator=generator) + 0.01
            leaders = (between * 6 * global_scale.double()).float()
            steps = torch.arange(-4, 5, dtype=torch.int32).unsqueeze(1)
            x = torch.zeros(9 * len(leaders), 16)
            x[:, 5] = (leaders.view(torch.int32) + steps).view(torch.float32).flatten()
            check(x.to(device), NVFP4, global_scale=global_scale.to(device))

    def test_its_reciprocal_is_rounded_before_the_blocks_scale_divides(self, device: torch.device) -> None:
        """x * ((1 / global) / scale): any other order gives other codes for values near the middles."""
        generator = torch.Generator()
        generator.manual_seed(1)
        for _ in range(8):
            global_scale = torch.rand((), generator=generator) + 0.01
            scale = NVFP4.scales[random_bytes(1, seed=int(global_scale * 1e6), below=0x30).long() + 0x20]
            grid = neighbours((middles(NVFP4.elements) * scale).float() * global_scale)
            leader = float(6 * scale.float() * global_scale)
            check(blocks_led_by(leader, grid, NVFP4).to(device), NVFP4, global_scale=global_scale.to(device))

    def test_of_each_row_is_the_rows_own(self, device: torch.device) -> None:
        """Any strides; the rows of the padding read none."""
        x = wide_values(133, 112).to(device)
        generator = torch.Generator()
        generator.manual_seed(3)
        values = torch.rand(133, 1, generator=generator) * torch.exp2(torch.arange(-66.0, 67.0).unsqueeze(1))
        values[5], values[6], values[7] = 1.0, torch.nan, 0.0
        rows = values.to(device)
        for scale in (rows, rows.repeat(1, 3)[:, 1:2], rows[:1].expand(133, 1)):
            data, packed = quantize(x, "nvfp4", scale)
            plain = torch.ops.tileon.unpack_scales(packed, 133, 7)
            restored = torch.ops.tileon.dequantize(data, packed, "nvfp4", scale)
            for row in range(133):
                alone = quantize(x[row : row + 1], "nvfp4", scale[row])
                assert torch.equal(data[row : row + 1], alone[0])
                same = torch.ops.tileon.unpack_scales(alone[1], 1, 7)
                assert torch.equal(plain[row : row + 1].view(BYTE), same.view(BYTE))
                expected = torch.ops.tileon.dequantize(*alone, "nvfp4", scale[row])
                assert_same_bits(restored[row : row + 1], expected.cpu())
            assert not bool(packed.view(BYTE)[1, :, 5:].any())

    def test_of_one_changes_nothing(self, device: torch.device) -> None:
        x = wide_values(33, 64, device=device, seed=3)
        plain = quantize(x, "nvfp4")
        for shape in ((), (1,)):
            scaled = quantize(x, "nvfp4", torch.ones(shape, device=device))
            assert all(torch.equal(a.view(BYTE), b.view(BYTE)) for a, b in zip(plain, scaled, strict=True))

    def test_nan_makes_every_scale_nan(self, device: torch.device) -> None:
        _, scale = quantize(torch.ones(128, 64, device=device), "nvfp4", torch.tensor(torch.nan, device=device))
        assert bool((scale.view(BYTE) == 0x7F).all())

    def test_infinity_and_zero_end_at_the_clamp(self, device: torch.device) -> None:
        x = torch.ones(128, 64, device=device)
        _, scale = quantize(x, "nvfp4", torch.tensor(torch.inf, device=device))
        assert bool((scale.view(BYTE) == 0x08).all())
        _, scale = quantize(x, "nvfp4", torch.tensor(0.0, device=device))
        assert bool((scale.view(BYTE) == 0x7E).all())


@each_rounding
@pytest.mark.parametrize("dtype", X_DTYPES, ids=dtype_name)
def test_blocks_of_very_different_sizes(device: torch.device, form: Format, rounding: str, dtype: torch.dtype) -> None:
    for seed in range(4):
        check(wide_values(257, 224, dtype, device, seed=seed), form, rounding, what=f"seed {seed}")
