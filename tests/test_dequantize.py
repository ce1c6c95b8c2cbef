"""`dequantize`: every code under every scale, in every layout of data and scales, against the oracle bit for bit."""

from __future__ import annotations

import pytest
import torch
from small_float_operands import LAYOUTS, as_data, dtype_name, global_scales, laid_out, random_bytes, random_data
from small_float_reference import (
    BYTE,
    FORMATS,
    MXFP4,
    MXFP8,
    NVFP4,
    Format,
    assert_same_bits,
    expected_dequantize,
    pack,
    unpaired,
)
from torch import Tensor

dequantize = torch.ops.tileon.dequantize

OUT_DTYPES = (torch.float32, torch.float16, torch.bfloat16)

each_format = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
each_out_dtype = pytest.mark.parametrize("out_dtype", OUT_DTYPES, ids=dtype_name)
each_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def every_pair(form: Format) -> tuple[Tensor, Tensor]:
    """One row for every byte a scale can be, in which every byte of data stands once."""
    data = torch.arange(256).to(BYTE).repeat(256, 1)
    blocks = 256 * form.per_byte // form.vec
    return data, torch.arange(256).to(BYTE).unsqueeze(1).repeat(1, blocks)


def check(data: Tensor, scale: Tensor, form: Format, device: torch.device, what: str = "", **options: object) -> None:
    """Bytes of the oracle's layouts through the op: with 2-D and with packed scales."""
    operand = as_data(data, form.data_dtype, device)
    expected = expected_dequantize(data, scale, form, **options)  # type: ignore[arg-type]
    global_scale = options.pop("global_scale", None)
    for name, given in (("2-D", scale), ("packed", pack(scale, fill=0xFF))):
        actual = dequantize(operand, as_data(given, form.scale_dtype, device), form.name, global_scale, **options)
        assert actual.is_contiguous(), what
        assert_same_bits(actual, expected, f"{form.name} {name} {what}")


@each_out_dtype
@each_format
def test_every_code_under_every_scale(device: torch.device, form: Format, out_dtype: torch.dtype) -> None:
    check(*every_pair(form), form, device, out_dtype=out_dtype)


@each_out_dtype
def test_every_code_under_every_scale_and_a_global_scale(device: torch.device, out_dtype: torch.dtype) -> None:
    """element * scale is exact, the product with global_scale is rounded to float32, and that to out_dtype."""
    for global_scale in (*global_scales(NVFP4, device)[1:], torch.tensor(1e-38, device=device)):
        check(*every_pair(NVFP4), NVFP4, device, f"{global_scale}", global_scale=global_scale, out_dtype=out_dtype)


def test_the_default_is_float32(device: torch.device) -> None:
    for form in FORMATS:
        data = as_data(random_data(form, 3, 64), form.data_dtype, device)
        scale = torch.ones(3, 64 // form.vec, device=device).to(form.scale_dtype)
        assert dequantize(data, scale, form.name).dtype == torch.float32


class TestByHand:
    def test_the_smallest_scale_is_not_zero(self, device: torch.device) -> None:
        """Byte 0 is 2^-127, a subnormal float32."""
        data = torch.ones(1, 32, device=device).to(torch.float8_e4m3fn)
        scale = torch.zeros(1, 1, dtype=BYTE, device=device)
        assert bool((dequantize(data, scale, "mxfp8") == 2.0**-127).all())

    def test_an_e8m0_nan_makes_zeros_nan(self, device: torch.device) -> None:
        for form in (MXFP8, MXFP4):
            data = torch.zeros(2, 96 // form.per_byte, dtype=BYTE, device=device).view(form.data_dtype)
            scale = torch.tensor([[127, 255, 0], [254, 0, 255]], dtype=BYTE, device=device)
            nan = dequantize(data, scale, form.name).isnan().unflatten(1, (3, 32))
            assert nan.all(-1).tolist() == [[False, True, False], [False, False, True]]
            assert nan.any(-1).tolist() == nan.all(-1).tolist()

    def test_e4m3_scales_have_a_sign_and_two_nans(self, device: torch.device) -> None:
        data = torch.full((1, 32), 0x02, dtype=BYTE, device=device)  # 1, 0
        scale = torch.tensor([[0xB8, 0x38, 0x7F, 0xFF]], dtype=BYTE, device=device).view(torch.float8_e4m3fn)
        rows = dequantize(data, scale, "nvfp4").unflatten(1, (4, 16))[0]
        assert bool((rows[0, 0::2] == -1).all())
        assert bool(rows[0].signbit().all()), "0 * -1 is -0"
        assert bool((rows[1, 0::2] == 1).all())
        assert bool(rows[2:].isnan().all())

    def test_even_k_is_in_the_low_nibble(self, device: torch.device) -> None:
        data = torch.arange(16).to(BYTE).to(device).reshape(1, 16)
        scale = torch.full((1, 1), 127, dtype=BYTE, device=device)
        restored = dequantize(data, scale, "mxfp4").cpu()
        assert restored[0, 0::2].tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]
        assert not bool(restored[0, 1::2].any())

    def test_one_changed_scale_changes_one_block(self, device: torch.device) -> None:
        for form in FORMATS:
            rows, blocks = 131, 9
            data = as_data(
                torch.full((rows, blocks * form.vec // form.per_byte), 0x22, dtype=BYTE), form.data_dtype, device
            )
            one = 0x38 if form is NVFP4 else 127
            scale = torch.full((rows, blocks), one, dtype=BYTE, device=device)
            plain = dequantize(data, scale.view(form.scale_dtype), form.name)
            for row, block in ((0, 0), (31, 3), (32, 4), (127, 8), (128, 0), (130, 7)):
                changed = scale.clone()
                changed[row, block] = one + 8
                packed = as_data(pack(changed.cpu()), form.scale_dtype, device)
                different = (dequantize(data, packed, form.name) != plain).unflatten(1, (blocks, form.vec))
                assert bool(different[row, block].all())
                assert int(different.sum()) == form.vec


@each_format
class TestOperands:
    @each_layout
    def test_data_of_any_strides(self, device: torch.device, form: Format, layout: dict[str, object]) -> None:
        data, scale = random_data(form, 37, 96, seed=1), random_bytes(37, 96 // form.vec, seed=2)
        strided = laid_out(as_data(data, form.data_dtype, device), **layout)  # type: ignore[arg-type]
        actual = dequantize(strided, as_data(scale, form.scale_dtype, device), form.name)
        assert_same_bits(actual, expected_dequantize(data, scale, form))

    @each_layout
    def test_scales_of_any_strides(self, device: torch.device, form: Format, layout: dict[str, object]) -> None:
        data, scale = random_data(form, 150, 160, seed=3), random_bytes(150, 160 // form.vec, seed=4)
        operand = as_data(data, form.data_dtype, device)
        for given in (scale, pack(scale, fill=0xFF)):
            strided = laid_out(as_data(given, form.scale_dtype, device), **layout)  # type: ignore[arg-type]
            actual = dequantize(operand, strided, form.name)
            assert_same_bits(actual, expected_dequantize(data, scale, form), f"{given.dim()}-D")

    def test_operands_of_stride_zero(self, device: torch.device, form: Format) -> None:
        blocks = 6
        column = random_bytes(5, 1, seed=5)
        data = column.expand(5, blocks * form.vec // form.per_byte)
        scale = random_bytes(1, blocks, seed=6).expand(5, blocks)
        expected = expected_dequantize(data, scale, form)
        given = as_data(column, form.data_dtype, device).expand(data.shape)
        actual = dequantize(given, as_data(scale[:1], form.scale_dtype, device).expand(5, blocks), form.name)
        assert_same_bits(actual, expected)
        packed = as_data(torch.full((1, 1, 1, 1, 1), 0x30, dtype=BYTE), form.scale_dtype, device)
        actual = dequantize(given, packed.expand(1, 2, 32, 4, 4), form.name)
        assert_same_bits(actual, expected_dequantize(data, torch.full_like(scale, 0x30), form))

    def test_every_dtype_of_data_and_scales(self, device: torch.device, form: Format) -> None:
        data, scale = random_data(form, 5, 64, seed=7), random_bytes(5, 64 // form.vec, seed=8)
        expected = expected_dequantize(data, scale, form)
        for data_dtype in form.data_dtypes:
            for scale_dtype in form.scale_dtypes:
                for given in (scale, pack(scale)):
                    operands = as_data(data, data_dtype, device), as_data(given, scale_dtype, device)
                    assert_same_bits(dequantize(*operands, form.name), expected, f"{data_dtype} {scale_dtype}")

    @pytest.mark.parametrize("rows", [1, 31, 32, 33, 127, 128, 129, 257])
    def test_rows_and_blocks_that_fill_no_packed_block(self, device: torch.device, form: Format, rows: int) -> None:
        for blocks in (1, 2, 3, 4, 5, 7, 8, 9):
            k = blocks * form.vec
            check(random_data(form, rows, k, seed=rows), random_bytes(rows, blocks, seed=k), form, device, f"{blocks}")

    def test_without_rows_or_columns(self, device: torch.device, form: Format) -> None:
        for rows, blocks in ((0, 3), (3, 0), (0, 0), (129, 0)):
            data = torch.empty(rows, blocks * form.vec // form.per_byte, dtype=BYTE)
            for out_dtype in OUT_DTYPES:
                check(data, torch.empty(rows, blocks, dtype=BYTE), form, device, out_dtype=out_dtype)

    def test_the_padding_of_packed_scales_never_matters(self, device: torch.device, form: Format) -> None:
        data, scale = random_data(form, 70, 96, seed=11), random_bytes(70, 96 // form.vec, seed=12)
        operand = as_data(data, form.data_dtype, device)
        for fill in (0, 0xFF, 0x7F, 0x80, 0x01):
            packed = as_data(pack(scale, fill), form.scale_dtype, device)
            assert_same_bits(dequantize(operand, packed, form.name), expected_dequantize(data, scale, form), f"{fill}")

    def test_operands_are_not_written(self, device: torch.device, form: Format) -> None:
        data = as_data(random_data(form, 130, 64), form.data_dtype, device)
        scale = as_data(pack(random_bytes(130, 64 // form.vec)), form.scale_dtype, device)
        before = data.view(BYTE).clone(), scale.view(BYTE).clone()
        dequantize(data, scale, form.name)
        assert torch.equal(data.view(BYTE), before[0])
        assert torch.equal(scale.view(BYTE), before[1])


@each_out_dtype
def test_one_rounding_to_the_output(device: torch.device, out_dtype: torch.dtype) -> None:
    """Without global_scale the exact product is rounded once: subnormal and infinite halves included."""
    for form in FORMATS:
        data, scale = every_pair(form)
        actual = dequantize(
            as_data(data, form.data_dtype, device),
            as_data(scale, form.scale_dtype, device),
            form.name,
            out_dtype=out_dtype,
        ).cpu()
        codes = unpaired(data) if form.is_fp4 else data
        exact = form.elements[codes.long()] * form.scales[scale.long()].repeat_interleave(form.vec, 1)
        spacing = actual.nextafter(torch.tensor(torch.inf, dtype=out_dtype)).double() - actual.double()
        near = (actual.double() - exact).abs() <= spacing.abs() / 2
        finite = exact.abs() < torch.finfo(out_dtype).max / 2
        assert bool(near[finite].all())
        assert torch.equal(actual.isnan(), exact.isnan())


@pytest.mark.parametrize("form", [MXFP4, NVFP4], ids=lambda form: form.name)
def test_float4_of_any_strides(device: torch.device, form: Format) -> None:
    """There are no copy kernels for it."""
    data, scale = random_data(form, 35, 64, seed=9), random_bytes(35, 64 // form.vec, seed=10)
    for name, layout in LAYOUTS.items():
        strided = laid_out(as_data(data, torch.float4_e2m1fn_x2, device), **layout)  # type: ignore[arg-type]
        actual = dequantize(strided, as_data(scale, form.scale_dtype, device), form.name)
        assert_same_bits(actual, expected_dequantize(data, scale, form), name)
