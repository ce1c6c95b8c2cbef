"""`quantize` and `dequantize` in the formats with float32 scales, against the oracle bit for bit."""

from __future__ import annotations

import math

import pytest
import torch
from float32_scale_reference import (
    FLOAT32_FORMATS,
    Float32Format,
    assert_quantized,
    expected_dequantize,
    expected_quantize,
)
from operands import normal
from small_float_operands import LAYOUTS, X_DTYPES, as_data, dtype_name, laid_out, random_bytes, wide_values
from small_float_reference import BYTE, assert_same_bits
from torch import Tensor

import tileon_ops

quantize, dequantize = torch.ops.tileon.quantize, torch.ops.tileon.dequantize

LARGEST = torch.finfo(torch.float32).max
SIZES = (0, 1, 2, 7, 15, 16, 17, 127, 128, 129, 300)

each_format = pytest.mark.parametrize("form", FLOAT32_FORMATS, ids=lambda form: form.name)
each_dtype = pytest.mark.parametrize("dtype", X_DTYPES, ids=dtype_name)
each_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def check(x: Tensor, form: Float32Format) -> None:
    assert_quantized(quantize(x, form.name), expected_quantize(x, form), form)


def wide(rows: int, k: int, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> Tensor:
    """Numbers of many sizes, subnormal, zero, infinite and NaN among them."""
    return wide_values(rows, -(-k // 16) * 16, dtype, device, seed=rows + k)[:, :k].contiguous()


def finite(rows: int, k: int, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> Tensor:
    """One number that is not finite would make a whole tensor's scale NaN."""
    values = wide(rows, k, dtype, device)
    return values.masked_fill(~values.isfinite(), 1.0)


def scales_for(form: Float32Format, rows: int, k: int, seed: int = 0) -> Tensor:
    generator = torch.Generator()
    generator.manual_seed(seed)
    shape = form.scale_shape(rows, k)
    exponents = torch.randint(-140, 120, shape, generator=generator)
    return (torch.randn(shape, generator=generator).double() * torch.exp2(exponents.double())).float()


class TestQuantize:
    @each_dtype
    @each_format
    def test_values_of_very_different_sizes(
        self, device: torch.device, form: Float32Format, dtype: torch.dtype
    ) -> None:
        check(wide(257, 1000, dtype, device), form)
        check(finite(257, 1000, dtype, device), form)
        check(normal(130, 5000, dtype=dtype, device=device), form)

    @pytest.mark.parametrize("rows", SIZES)
    @each_format
    def test_sizes_that_are_multiples_of_nothing(self, device: torch.device, form: Float32Format, rows: int) -> None:
        for k in SIZES:
            check(finite(rows, k, device=device), form)

    @each_layout
    @each_dtype
    @each_format
    def test_any_strides(
        self, device: torch.device, form: Float32Format, dtype: torch.dtype, layout: dict[str, object]
    ) -> None:
        for k in (144, 157):
            x = finite(141, k, dtype, device)
            strided = laid_out(x, **layout)  # type: ignore[arg-type]
            assert_quantized(quantize(strided, form.name), expected_quantize(x, form), form)

    @each_format
    def test_slices_and_stride_zero(self, device: torch.device, form: Float32Format) -> None:
        whole = normal(200, 512, dtype=torch.float16, device=device)
        for view in (whole[3:40, 5:261], whole[::3, 1::2][:, :99], whole.t()[7:, 1:33], whole[:, 16:16]):
            check(view, form)
        for shape in ((1, 150), (133, 1), (1, 1)):
            check(normal(*shape, dtype=torch.float32, device=device).expand(133, 150), form)

    @each_format
    def test_halfway_goes_to_the_even_code(self, device: torch.device, form: Float32Format) -> None:
        """The largest value makes the scale 1, under which products are exact."""
        steps = torch.arange(-127, 127) + 0.5
        fine = torch.arange(-448, 449) * 2.0**-6
        for scale in (1.0, 2.0**-100, 2.0**100):
            values = torch.cat((torch.tensor([form.largest]), steps, fine, -fine)) * scale
            check(values.unsqueeze(0).to(device), form)
            check(values[: len(values) // 2].unsqueeze(0).expand(3, -1).to(device), form)

    @each_format
    def test_nothing_but_the_largest_value_gets_the_largest_code(
        self, device: torch.device, form: Float32Format
    ) -> None:
        """For any amax: neither 448 and more nor -128 comes of rounding twice."""
        generator = torch.Generator()
        generator.manual_seed(1)
        amax = torch.rand(4096, 1, generator=generator) + 0.5
        x = torch.cat((amax, -amax, amax / 2), 1).to(device)
        if form.rows is None:
            x = x[:1]
        check(x, form)
        codes = quantize(x, form.name)[0].float().cpu()
        if form.rows in (1, None):
            assert bool((codes[:, 0] == form.largest).all())
            assert bool((codes[:, 1] == -form.largest).all())

    @each_format
    def test_zeros_have_the_scale_one(self, device: torch.device, form: Float32Format) -> None:
        x = torch.zeros(130, 140, device=device)
        data, scale = quantize(x, form.name)
        assert bool((scale == 1).all())
        assert not bool(data.view(BYTE).any())
        check(-x, form)

    @each_format
    def test_the_smallest_scale_has_an_inverse(self, device: torch.device, form: Float32Format) -> None:
        """2^-126, whatever is below that; no code of a number is NaN, and no number becomes infinite."""
        generator = torch.Generator()
        generator.manual_seed(0)
        for exponent in (-149, -148, -140, -135, -127, -126, -125, -120, -118, -117):
            x = torch.rand(3, 40, generator=generator).double() * 2.0**exponent
            x = x.float().to(device)
            check(x, form)
            data, scale = quantize(x, form.name)
            assert bool((scale >= 2.0**-126).all())
            assert bool(dequantize(data, scale, form.name).isfinite().all())

    @each_format
    def test_the_largest_floats(self, device: torch.device, form: Float32Format) -> None:
        x = torch.tensor([[LARGEST, -LARGEST, LARGEST / 2, 1.0, 0.0]], device=device)
        check(x, form)
        data, scale = quantize(x, form.name)
        assert bool(dequantize(data, scale, form.name).isfinite().all())

    @each_format
    @pytest.mark.parametrize("bad", [math.nan, -math.nan, math.inf, -math.inf])
    def test_nan_and_infinity_make_their_own_block_nan(
        self, device: torch.device, form: Float32Format, bad: float
    ) -> None:
        for row, column in ((0, 0), (127, 127), (128, 128), (129, 299), (5, 255)):
            x = torch.full((130, 300), -2.0)
            x[row, column] = bad
            check(x.to(device), form)
            scale = quantize(x.to(device), form.name)[1]
            assert int(scale.isnan().sum()) == 1

    @each_format
    def test_the_three_dtypes_agree_on_values_they_share(self, device: torch.device, form: Float32Format) -> None:
        x = normal(65, 130, dtype=torch.float32, device=device).bfloat16().half().float()
        x = torch.where(x.bfloat16().float() == x, x, 0.5)
        first, *others = (quantize(x.to(dtype), form.name) for dtype in X_DTYPES)
        for data, scale in others:
            assert torch.equal(data.view(BYTE), first[0].view(BYTE))
            assert torch.equal(scale, first[1])

    def test_every_value_of_the_16_bit_types(self, device: torch.device) -> None:
        for dtype in (torch.float16, torch.bfloat16):
            values = torch.arange(65536).to(torch.int32).to(torch.int16).view(dtype)
            for form in FLOAT32_FORMATS:
                check(values.reshape(-1, 64).to(device), form)
                check(values[values.isfinite()].reshape(-1, 64).to(device), form)

    @each_format
    def test_x_is_not_written(self, device: torch.device, form: Float32Format) -> None:
        x = normal(130, 96, dtype=torch.float32, device=device)
        before = x.clone()
        quantize(x, form.name)
        assert torch.equal(x, before)

    def test_by_hand(self, device: torch.device) -> None:
        x = torch.tensor([[1.5, -3.0, 127.0, 0.5], [2.5, -254.0, 3.0, -1.0]], device=device)
        data, scale = quantize(x, "int8_row")
        assert scale.tolist() == [[1.0], [2.0]]
        assert data.tolist() == [[2, -3, 127, 0], [1, -127, 2, 0]]
        data, scale = quantize(x, "int8_tensor")
        assert scale.tolist() == [[2.0]]
        assert data.tolist() == [[1, -2, 64, 0], [1, -127, 2, 0]]
        data, scale = quantize(x * 448 / 254, "fp8_tensor")
        assert scale.tolist() == [[1.0]]
        assert data[1, 1].item() == -448


class TestDequantize:
    @each_dtype
    @each_format
    def test_every_code(self, device: torch.device, form: Float32Format, dtype: torch.dtype) -> None:
        data = torch.arange(256).to(BYTE).repeat(140, 1)
        scale = scales_for(form, *data.shape)
        actual = dequantize(as_data(data, form.dtype, device), scale.to(device), form.name, out_dtype=dtype)
        assert actual.is_contiguous()
        assert_same_bits(actual, expected_dequantize(data, scale, form, dtype))

    @pytest.mark.parametrize("rows", SIZES)
    @each_format
    def test_sizes_that_are_multiples_of_nothing(self, device: torch.device, form: Float32Format, rows: int) -> None:
        for k in SIZES:
            data, scale = random_bytes(rows, k, seed=k), scales_for(form, rows, k)
            for dtype in X_DTYPES:
                actual = dequantize(as_data(data, form.dtype, device), scale.to(device), form.name, out_dtype=dtype)
                assert_same_bits(actual, expected_dequantize(data, scale, form, dtype))

    @each_layout
    @each_format
    def test_any_strides(self, device: torch.device, form: Float32Format, layout: dict[str, object]) -> None:
        data, scale = random_bytes(150, 168, seed=1), scales_for(form, 150, 168, seed=2)
        expected = expected_dequantize(data, scale, form)
        operands = as_data(data, form.dtype, device), scale.to(device)
        strided = [laid_out(operand, **layout) for operand in operands]  # type: ignore[arg-type]
        assert_same_bits(dequantize(strided[0], operands[1], form.name), expected)
        assert_same_bits(dequantize(operands[0], strided[1], form.name), expected)

    @each_format
    def test_stride_zero(self, device: torch.device, form: Float32Format) -> None:
        data, scale = random_bytes(5, 1, seed=5).expand(5, 200), torch.tensor([[0.3]])
        given = scale.to(device).expand(form.scale_shape(5, 200))
        actual = dequantize(as_data(data[:, :1], form.dtype, device).expand(5, 200), given, form.name)
        assert_same_bits(actual, expected_dequantize(data.contiguous(), given.cpu().contiguous(), form))

    @pytest.mark.parametrize(
        "form", [form for form in FLOAT32_FORMATS if form.rows is None], ids=lambda form: form.name
    )
    def test_a_tensors_scale_of_any_shape(self, device: torch.device, form: Float32Format) -> None:
        data = random_bytes(7, 33)
        expected = expected_dequantize(data, torch.tensor([[0.3]]), form)
        for shape in ((), (1,), (1, 1)):
            scale = torch.full(shape, 0.3, device=device)
            assert_same_bits(dequantize(as_data(data, form.dtype, device), scale, form.name), expected)

    @each_format
    def test_there_and_back_errs_by_half_a_step(self, device: torch.device, form: Float32Format) -> None:
        x = normal(200, 333, dtype=torch.float32, device=device)
        data, scale = tileon_ops.quantize(x, form.name)
        back = tileon_ops.dequantize(data, scale, form.name)
        step = x.abs().amax() / 127 if form.dtype == torch.int8 else x.abs() / 8
        smallest = scale.amax() * 2.0**-9
        assert bool(((back - x).abs() <= torch.maximum(step, smallest) * 0.5001).all())

    @each_format
    def test_operands_are_not_written(self, device: torch.device, form: Float32Format) -> None:
        data, scale = as_data(random_bytes(30, 64), form.dtype, device), scales_for(form, 30, 64).to(device)
        before = data.view(BYTE).clone(), scale.clone()
        dequantize(data, scale, form.name)
        assert torch.equal(data.view(BYTE), before[0])
        assert torch.equal(scale, before[1])


@pytest.mark.gpu
class TestAsTheCpu:
    @each_format
    def test_the_same_bits_of_any_float32(self, form: Float32Format) -> None:
        generator = torch.Generator()
        generator.manual_seed(0)
        bits = torch.randint(-(2**31), 2**31, (513, 520), generator=generator).to(torch.int32)
        x = bits.view(torch.float32)
        for values in (x, x.masked_fill(~x.isfinite(), 1.0), x[:, :515]):
            cpu, gpu = quantize(values, form.name), quantize(values.cuda(), form.name)
            assert torch.equal(cpu[0].view(BYTE), gpu[0].view(BYTE).cpu())
            assert_same_bits(gpu[1], cpu[1])
            assert_same_bits(dequantize(*gpu, form.name), dequantize(*cpu, form.name))


@pytest.mark.gpu
@each_format
class TestOnTheGpu:
    def test_graphs_replay_with_new_inputs(self, form: Float32Format) -> None:
        """What a tensor's scale needs besides is the graph's own memory."""
        x = torch.zeros(200, 161, dtype=torch.float16, device="cuda")
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            data, scale = quantize(x, form.name)
            restored = dequantize(data, scale, form.name)
        for seed in range(3):
            x.copy_(finite(200, 161, torch.float16, "cuda").roll(seed, 1))
            graph.replay()
            torch.cuda.synchronize()
            expected = expected_quantize(x, form)
            assert_quantized((data, scale), expected, form)
            assert_same_bits(restored, expected_dequantize(*expected, form))

    def test_runs_on_the_current_stream(self, form: Float32Format) -> None:
        new = normal(300, 257, dtype=torch.bfloat16, device="cuda")
        x = torch.zeros_like(new)
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            x.copy_(new)
            actual = quantize(x, form.name)
        stream.synchronize()
        assert_quantized(actual, expected_quantize(new, form), form)

    @pytest.mark.sanitizer
    def test_the_small_set_for_compute_sanitizer(self, form: Float32Format) -> None:
        for rows, k in ((1, 1), (130, 157), (3, 5008)):
            for name in ("contiguous", "odd offset", "transposed, odd", "step 2"):
                x = finite(rows, k, torch.float16, "cuda")
                strided = laid_out(x, **LAYOUTS[name])  # type: ignore[arg-type]
                expected = expected_quantize(x, form)
                assert_quantized(quantize(strided, form.name), expected, form)
                data, scale = expected[0].cuda().view(form.dtype), expected[1].cuda()
                operands = (laid_out(operand, **LAYOUTS[name]) for operand in (data, scale))  # type: ignore[arg-type]
                assert_same_bits(dequantize(*operands, form.name), expected_dequantize(*expected, form))
