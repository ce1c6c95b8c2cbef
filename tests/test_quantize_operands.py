"""`quantize` of any strides, sizes and dtypes; `nvfp4_global_scale`; what torch and torchao make of the same values."""

from __future__ import annotations

import pytest
import torch
from operands import normal
from small_float_operands import LAYOUTS, X_DTYPES, dtype_name, laid_out, wide_values
from small_float_reference import (
    BYTE,
    E4M3,
    FORMAT_ROUNDINGS,
    FORMATS,
    MXFP4,
    MXFP8,
    NVFP4,
    Format,
    assert_quantized,
    assert_same_bits,
    expected_quantize,
    packed_shape,
)
from torch import Tensor

import tileon_ops

quantize = torch.ops.tileon.quantize

each_format = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
each_dtype = pytest.mark.parametrize("dtype", X_DTYPES, ids=dtype_name)
each_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


class TestStrides:
    @each_layout
    @each_dtype
    @each_format
    def test_any_strides(
        self, device: torch.device, form: Format, dtype: torch.dtype, layout: dict[str, object]
    ) -> None:
        x = wide_values(141, 160, dtype, device)
        strided = laid_out(x, **layout)  # type: ignore[arg-type]
        assert_quantized(quantize(strided, form.name), expected_quantize(x, form))

    @each_format
    def test_a_slice_in_the_middle_of_a_matrix(self, device: torch.device, form: Format) -> None:
        whole = wide_values(64, 512, torch.float16, device, seed=1)
        for view in (whole[3:40, 5:261], whole[::3, 1::2][:, :96], whole.t()[7:, 1:33], whole[:, 16:16]):
            assert_quantized(quantize(view, form.name), expected_quantize(view, form))

    @each_dtype
    @each_format
    def test_stride_zero(self, device: torch.device, form: Format, dtype: torch.dtype) -> None:
        for shape in ((1, 96), (133, 1), (1, 1)):
            x = normal(*shape, dtype=dtype, device=device).expand(133, 96)
            assert_quantized(quantize(x, form.name), expected_quantize(x, form), f"{shape}")

    @each_format
    def test_x_is_not_written(self, device: torch.device, form: Format) -> None:
        x = normal(130, 96, dtype=torch.float32, device=device)
        before = x.clone()
        quantize(x, form.name)
        assert torch.equal(x, before)


class TestSizes:
    @each_format
    @pytest.mark.parametrize("rows", [1, 2, 31, 32, 33, 127, 128, 129, 257])
    def test_rows_and_blocks_that_fill_no_packed_block(self, device: torch.device, form: Format, rows: int) -> None:
        """The padding of the scales is zero."""
        for blocks in (1, 2, 3, 4, 5, 8, 9):
            x = wide_values(rows, blocks * form.vec, device=device, seed=blocks)
            assert_quantized(quantize(x, form.name), expected_quantize(x, form), f"{blocks} blocks")

    @each_format
    def test_a_long_k(self, device: torch.device, form: Format) -> None:
        x = wide_values(3, 32 * 521, torch.bfloat16, device)
        assert_quantized(quantize(x, form.name), expected_quantize(x, form))

    @each_dtype
    @each_format
    def test_without_rows_or_columns(self, device: torch.device, form: Format, dtype: torch.dtype) -> None:
        for rows, blocks in ((0, 3), (3, 0), (0, 0), (129, 0)):
            x = torch.empty(rows, blocks * form.vec, dtype=dtype, device=device)
            assert_quantized(quantize(x, form.name), expected_quantize(x, form), f"{rows} rows, {blocks} blocks")
            assert quantize(x, form.name)[1].shape == packed_shape(rows, blocks)

    @each_format
    def test_the_three_dtypes_agree_on_values_they_share(self, device: torch.device, form: Format) -> None:
        x = normal(65, 128, dtype=torch.float32, device=device).bfloat16().half().float()
        x = torch.where(x.bfloat16().float() == x, x, 0.5)
        results = [quantize(x.to(dtype), form.name) for dtype in X_DTYPES]
        for data, scale in results[1:]:
            assert torch.equal(data.view(BYTE), results[0][0].view(BYTE))
            assert torch.equal(scale.view(BYTE), results[0][1].view(BYTE))


class TestSecondOracles:
    def test_under_the_scale_one_mxfp8_is_torchs_cast(self, device: torch.device) -> None:
        """torch's cast does not saturate, so up to 448."""
        x = normal(512, 320, dtype=torch.float32, device=device) * 50
        x = x.clamp(-440, 440)
        x[:, ::32] = 448
        data, scale = quantize(x, "mxfp8")
        assert bool((tileon_ops.unpack_scales(scale, 512, 10).view(BYTE) == 127).all())
        assert torch.equal(data.view(BYTE), x.to(E4M3).view(BYTE))

    @pytest.mark.parametrize(("form", "rounding"), FORMAT_ROUNDINGS, ids=lambda value: getattr(value, "name", value))
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=dtype_name)
    def test_as_torchao(self, device: torch.device, dtype: torch.dtype, form: Format, rounding: str) -> None:
        """On values of common sizes; there its conventions are these."""
        tensors = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
        x = (normal(200, 256, dtype=torch.float32, device=device) * 3).to(dtype)
        data, scale = quantize(x, form.name, scale_rounding=rounding)
        if form is NVFP4:
            nvfp4 = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")
            their_scale, their_data = nvfp4.nvfp4_quantize(x)
        else:
            kind = E4M3 if form is MXFP8 else torch.float4_e2m1fn_x2
            mode = tensors.ScaleCalculationMode[rounding.upper()]
            their_scale, their_data = tensors.to_mx(x, kind, 32, mode)
        scales = tileon_ops.unpack_scales(scale, 200, 256 // form.vec)
        assert torch.equal(scales.view(BYTE), their_scale.view(BYTE).reshape(scales.shape))
        assert torch.equal(data.view(BYTE), their_data.view(BYTE).reshape(data.shape))

    def test_nvfp4_with_a_global_scale_as_torchao(self, device: torch.device) -> None:
        nvfp4 = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")
        x = normal(200, 256, dtype=torch.float32, device=device) * 3
        global_scale = tileon_ops.nvfp4_global_scale(x)
        data, scale = quantize(x, "nvfp4", global_scale)
        their_scale, their_data = nvfp4.nvfp4_quantize(x, 16, global_scale)
        scales = tileon_ops.unpack_scales(scale, 200, 16)
        assert torch.equal(scales.view(BYTE), their_scale.view(BYTE).reshape(scales.shape))
        assert torch.equal(data, their_data.view(BYTE).reshape(data.shape))


class TestGlobalScaleOfATensor:
    """`nvfp4_global_scale`."""

    @staticmethod
    def check(x: Tensor, expected: float) -> None:
        actual = tileon_ops.nvfp4_global_scale(x)
        assert (actual.dtype, actual.device, actual.numel()) == (torch.float32, x.device, 1)
        assert actual.dim() <= 1
        assert_same_bits(actual.reshape(()), torch.tensor(expected, dtype=torch.float32), f"{tuple(x.shape)}")

    @each_dtype
    def test_is_amax_over_2688(self, device: torch.device, dtype: torch.dtype) -> None:
        x = normal(65, 48, dtype=dtype, device=device)
        self.check(x, x.abs().max().item() / 2688)
        x[3, 5] = -100
        self.check(x, 100 / 2688)
        self.check(x.t(), 100 / 2688)
        self.check(x[:, 6::2], x[:, 6::2].abs().max().item() / 2688)
        self.check(x[:1].expand(9, 48), x[0].abs().max().item() / 2688)

    @each_dtype
    def test_of_each_row(self, device: torch.device, dtype: torch.dtype) -> None:
        x = normal(65, 48, dtype=dtype, device=device)
        x[3] = 0
        x[4, 5], x[5, 6], x[6] = torch.nan, -torch.inf, torch.inf
        for given in (x, x.t(), x[:, ::5], x[:0], x[:, :0]):
            actual = tileon_ops.nvfp4_global_scale(given, per_row=True)
            assert (actual.dtype, actual.device, actual.shape) == (torch.float32, x.device, (given.shape[0], 1))
            for row, scale in zip(given, actual, strict=True):
                assert_same_bits(scale[0], tileon_ops.nvfp4_global_scale(row).cpu())
        with pytest.raises(RuntimeError, match=r"^nvfp4_global_scale: `x` must be 2-D .*, got 3-D"):
            tileon_ops.nvfp4_global_scale(x.unsqueeze(0), per_row=True)

    @each_dtype
    def test_passes_over_nan_and_infinity(self, device: torch.device, dtype: torch.dtype) -> None:
        x = torch.tensor([[1.5, torch.nan, -torch.inf, torch.inf, -3.0, 0.0]], dtype=dtype, device=device)
        self.check(x, 3 / 2688)

    def test_is_one_where_nothing_but_zeros_is_finite(self, device: torch.device) -> None:
        for values in (torch.zeros(3, 16), torch.full((3, 16), torch.nan), torch.full((3, 16), torch.inf)):
            self.check(values.to(device), 1.0)
        for shape in ((0, 16), (3, 0), (0, 0)):
            self.check(torch.empty(shape, device=device), 1.0)

    def test_is_one_division_rounded_once(self, device: torch.device) -> None:
        """On a GPU torch divides by a Python number by multiplying with its reciprocal, which errs by one step here."""
        reciprocal = torch.tensor(1.0) / 2688
        values = normal(64, dtype=torch.float32, device="cpu").abs()
        values = values[values / 2688 != values * reciprocal]
        assert len(values) > 4
        for value in values.tolist():
            self.check(torch.full((1, 16), value, device=device), value / 2688)

    def test_at_the_ends_of_float32(self, device: torch.device) -> None:
        """Where amax / 2688 rounds to zero it is one too: a scale of zero would lose every value."""
        for amax, expected in ((3e38, 3e38 / 2688), (2.0**-130, 2.0**-130 / 2688), (2.0**-149, 1.0)):
            x = torch.zeros(1, 16, device=device)
            x[0, 3] = amax
            self.check(x, float(torch.tensor(amax) / 2688) or expected)

    def test_the_largest_block_gets_the_largest_scale(self, device: torch.device) -> None:
        x = normal(64, 64, dtype=torch.float32, device=device)
        x[10, 20] = -1000
        global_scale = tileon_ops.nvfp4_global_scale(x)
        data, scale = tileon_ops.quantize(x, "nvfp4", global_scale)
        assert tileon_ops.unpack_scales(scale, 64, 4)[10, 1].float().item() == 448
        restored = tileon_ops.dequantize(data, scale, "nvfp4", global_scale)
        torch.testing.assert_close(restored[10, 20].item(), -1000.0, rtol=1e-6, atol=0.0)
        assert_quantized((data, scale), expected_quantize(x, NVFP4, global_scale))

    @pytest.mark.gpu
    def test_does_not_wait_for_the_gpu(self) -> None:
        x = torch.ones(64, 64, device="cuda")
        tileon_ops.nvfp4_global_scale(x)
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            quantized = quantize(x, "nvfp4", tileon_ops.nvfp4_global_scale(x))
            with pytest.raises(RuntimeError, match="synchronizing"):
                x[0, 0].item()  # a wait, so that one in the calls above would have been noticed
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert_quantized(quantized, expected_quantize(x, NVFP4, tileon_ops.nvfp4_global_scale(x)))


class TestPythonFunctions:
    """`tileon_ops.quantize` and the others are the ops under their Python names."""

    @pytest.mark.parametrize("form", [MXFP8, MXFP4, NVFP4], ids=lambda form: form.name)
    def test_give_what_the_ops_give(self, device: torch.device, form: Format) -> None:
        x = normal(130, 96, dtype=torch.float32, device=device)
        data, scale = tileon_ops.quantize(x, form.name, scale_rounding="floor")
        assert_quantized((data, scale), expected_quantize(x, form))
        unpacked = tileon_ops.unpack_scales(scale, 130, 96 // form.vec)
        assert torch.equal(tileon_ops.pack_scales(unpacked).view(BYTE), scale.view(BYTE))
        for out_dtype in (None, torch.float16, torch.bfloat16):
            restored = tileon_ops.dequantize(data, unpacked, form.name, out_dtype=out_dtype)
            expected = torch.ops.tileon.dequantize(data, scale, form.name, out_dtype=out_dtype)
            assert restored.dtype == (out_dtype or torch.float32)
            assert torch.equal(restored, expected)

    def test_with_a_global_scale(self, device: torch.device) -> None:
        x = normal(5, 32, dtype=torch.float32, device=device)
        global_scale = torch.tensor(0.3, device=device)
        data, scale = tileon_ops.quantize(x, "nvfp4", global_scale)
        assert_quantized((data, scale), expected_quantize(x, NVFP4, global_scale))
        restored = tileon_ops.dequantize(data, scale, "nvfp4", global_scale)
        assert torch.equal(restored, torch.ops.tileon.dequantize(data, scale, "nvfp4") * global_scale)
