"""The oracle of the small floats against torch's own dtypes, an exhaustive search, and cases worked by hand."""

from __future__ import annotations

import math

import pytest
import torch
from small_float_reference import (
    BYTE,
    E2M1_VALUES,
    E4M3,
    E4M3_VALUES,
    E8M0,
    E8M0_VALUES,
    FORMATS,
    MXFP4,
    MXFP8,
    NVFP4,
    Format,
    assert_same_bits,
    expected_dequantize,
    expected_quantize,
    floor_scale,
    middles,
    nearest_code,
    non_negative,
    nvfp4_scale,
    pack,
    packed_offsets,
    packed_shape,
    pairs,
    rceil_scale,
    unpaired,
)
from torch import Tensor

ALL_BYTES = torch.arange(256, dtype=torch.int64).to(BYTE)


def f32(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)


def test_e4m3_and_e8m0_values_are_those_of_torchs_dtypes() -> None:
    assert_same_bits(ALL_BYTES.view(E4M3).float(), E4M3_VALUES.float())
    assert_same_bits(ALL_BYTES.view(E8M0).float(), E8M0_VALUES.float())


def test_e2m1_values() -> None:
    assert E2M1_VALUES.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]
    assert E2M1_VALUES.signbit().tolist() == [False] * 8 + [True] * 8


def test_largest_values() -> None:
    for form in FORMATS:
        assert non_negative(form.elements).max() == form.largest
        assert math.frexp(form.largest)[1] - 1 == form.largest_exponent
    assert MXFP8.scales[MXFP8.nan_scale].isnan()
    assert NVFP4.scales[NVFP4.nan_scale].isnan()


def test_encoding_e4m3_is_torchs_cast() -> None:
    """Up to 448; beyond it torch's cast does not saturate."""
    generator = torch.Generator()
    generator.manual_seed(0)
    exponents = torch.randint(-14, 9, (100_000,), generator=generator)
    values = (torch.randn(100_000, generator=generator) * torch.exp2(exponents)).clamp(-448, 448)
    exact = torch.cat((middles(E4M3_VALUES), non_negative(E4M3_VALUES), f32(0.0).double())).float()
    around = [exact, exact.nextafter(f32(torch.inf)), exact.nextafter(f32(-torch.inf))]
    values = torch.cat((values, *around, *(-part for part in around))).clamp(-448, 448)
    assert torch.equal(nearest_code(values.double(), E4M3_VALUES), values.to(E4M3).view(BYTE))


@pytest.mark.parametrize("table", [E2M1_VALUES, E4M3_VALUES], ids=["e2m1", "e4m3"])
def test_encoding_is_the_exhaustive_search(table: Tensor) -> None:
    exact = torch.cat((middles(table), non_negative(table), torch.tensor([1e9, 2.0**-30]).double()))
    values = torch.cat((exact, exact * (1 + 2.0**-40), exact * (1 - 2.0**-40)))
    distance = (values.unsqueeze(1) - non_negative(table)).abs()
    nearest = distance == distance.amin(1, keepdim=True)
    for value, row in zip(values, nearest, strict=True):
        codes = row.nonzero().flatten().tolist()
        best = codes[0] if len(codes) == 1 else next(code for code in codes if code % 2 == 0)
        assert nearest_code(value.reshape(1), table).item() == best
        assert nearest_code(-value.reshape(1), table).item() == best + len(table) // 2


def test_scale_rules_by_hand() -> None:
    smallest, below_one = 2.0**-149, 1 - 2.0**-24
    amax = f32(0, smallest, 2.0**-127, 2.0**-118, 448, 512, 1, below_one, 3.4e38)
    assert floor_scale(amax, MXFP8).tolist() == [0, 0, 0, 1, 127, 128, 119, 118, 246]
    amax = f32(0, 6, 8, 1, below_one, 2.0**-124, 3.4e38)
    assert floor_scale(amax, MXFP4).tolist() == [0, 127, 128, 125, 124, 1, 252]
    amax = f32(0, 448, 448 * (1 + 2.0**-22), 449, 896, 1, 448 * 2.0**-127, 450 * 2.0**-127, 3.4e38)
    assert rceil_scale(amax, MXFP8).tolist() == [0, 127, 128, 128, 128, 119, 0, 1, 247]
    amax = f32(0, 6, 6.0000005, 12, 3, 3.4e38)
    assert rceil_scale(amax, MXFP4).tolist() == [0, 127, 128, 128, 126, 253]
    one = torch.tensor(1.0)
    codes = nvfp4_scale(f32(0, 6 * 2.0**-7, 6 * 448, 6e9, 6, 6 * 1.0625, 6 * 1.1875), one)
    assert E4M3_VALUES[codes.long()].tolist() == [2.0**-6, 2.0**-6, 448, 448, 1, 1, 1.25]
    assert codes[0] == 0x08
    assert nvfp4_scale(f32(0, 1), torch.tensor(torch.nan)).tolist() == [0x7F, 0x7F]


def test_blocks_by_hand() -> None:
    x = torch.zeros(1, 96)
    x[0, :4] = f32(448, -1, 0.0, -0.0)
    x[0, 32] = torch.inf
    got = expected_quantize(x, MXFP8)
    assert got.scale.tolist() == [[127, 0xFF, 0]]
    assert got.codes[0, :4].tolist() == [0x7E, 0xB8, 0, 0x80]
    assert not bool(got.codes[0, 32:].any())
    x = torch.zeros(1, 32)
    x[0, :5] = f32(6, 2.5, -0.25, 5, 0.75)
    got = expected_quantize(x, MXFP4)
    assert got.data[0, :3].tolist() == [0x47, 0x68, 0x02]
    assert expected_dequantize(got.data, got.scale, MXFP4)[0, :5].tolist() == [6, 2, -0.0, 4, 1]


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (128, 4), (129, 5), (300, 9), (0, 3), (3, 0)])
def test_packed_offsets_are_those_of_the_five_dimensions(rows: int, cols: int) -> None:
    """t[mb, kb, r, q, c] is row mb * 128 + q * 32 + r, column kb * 4 + c."""
    row_blocks, col_blocks, *_ = packed_shape(rows, cols)
    whole = torch.arange(row_blocks * 128 * col_blocks * 4).reshape(row_blocks * 128, col_blocks * 4)
    packed = whole.reshape(row_blocks, 4, 32, col_blocks, 4).permute(0, 3, 2, 1, 4).contiguous()
    assert torch.equal(packed.view(-1)[packed_offsets(rows, cols)], whole[:rows, :cols])


def test_the_padding_is_all_that_pack_leaves() -> None:
    scale = torch.full((130, 6), 7, dtype=BYTE)
    packed = pack(scale, fill=0xFF)
    assert int((packed == 7).sum()) == scale.numel()
    assert int((packed == 0xFF).sum()) == 2 * 2 * 512 - scale.numel()


def test_pairs_and_back() -> None:
    codes = torch.arange(16, dtype=torch.int64).to(BYTE).reshape(1, 16)
    assert pairs(codes).tolist() == [[0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]]
    assert torch.equal(unpaired(pairs(codes)), codes)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_a_value_on_the_grid_comes_back(form: Format) -> None:
    values = form.elements[~form.elements.isnan()].float()
    values = torch.cat((values, values.new_zeros(-len(values) % (form.vec - 1))))
    x = torch.nn.functional.pad(values.reshape(-1, form.vec - 1), (1, 0), value=form.largest)
    got = expected_quantize(x, form)
    assert_same_bits(expected_dequantize(got.data, got.scale, form), x)
