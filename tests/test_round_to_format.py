"""`_round_to_format`: what the codes of quantized rows stand for, which a GPU may multiply in the place of codes."""

from __future__ import annotations

import pytest
import torch
from layers import FORMATS
from small_float_operands import LAYOUTS, laid_out, wide_values
from test_quantize_nvfp4_rows import with_rare_rows
from test_quantized_linear import OPCHECK_TESTS, ops, quantized, rows
from torch import Tensor

import tileon_ops

NUMBERS = (torch.float16, torch.bfloat16)
FORMATS_OF_NUMBERS = ("mxfp8", "mxfp4", "nvfp4")


def expected_numbers(x: Tensor, form: str, factor: Tensor | None, rounding: str) -> tuple[Tensor, Tensor]:
    """What `_round_to_format` is to make of x, step by step."""
    data, scale, factor = quantized(x, form, factor, rounding)
    values = tileon_ops.dequantize(data, scale, form)
    if x.dtype == torch.float16:  # a scale that is rounded up may lead beyond its largest number
        largest = torch.finfo(x.dtype).max
        values = values.clamp(-largest, largest)
    return values.to(x.dtype), x.new_empty((0, 1), dtype=torch.float32) if factor is None else factor


def assert_same_numbers(actual: Tensor, wanted: Tensor) -> None:
    """The same bits, but for those of NaN."""
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
    assert actual.is_contiguous()
    assert torch.equal(actual.isnan(), wanted.isnan())
    kind = torch.int16 if actual.itemsize == 2 else torch.int32
    actual, wanted = (numbers.masked_fill(numbers.isnan(), 0.0) for numbers in (actual, wanted))
    assert torch.equal(actual.view(kind), wanted.view(kind))


def assert_numbers(x: Tensor, form: str, factor: Tensor | None = None, rounding: str = "floor") -> None:
    actual = ops._round_to_format(x, form, factor, scale_rounding=rounding)
    for got, wanted in zip(actual, expected_numbers(x, form, factor, rounding), strict=True):
        assert_same_numbers(got, wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
class TestNumbers:
    """`_round_to_format` makes what quantizing and `dequantize` make."""

    ROUNDINGS = (("mxfp8", "floor"), ("mxfp8", "rceil"), ("mxfp4", "floor"), ("mxfp4", "rceil"), ("nvfp4", "floor"))
    each_rounding = pytest.mark.parametrize(("form", "rounding"), ROUNDINGS, ids="-".join)

    @each_rounding
    @pytest.mark.parametrize("m", [1, 3, 129])
    @pytest.mark.parametrize("k", [32, 96, 544, 4096, 14336])
    def test_of_any_size(self, gpu: torch.device, dtype: torch.dtype, form: str, rounding: str, m: int, k: int) -> None:
        assert_numbers(rows(m, k, dtype, gpu), form, rounding=rounding)
        assert_numbers(wide_values(m, k, dtype, gpu, seed=k), form, rounding=rounding)

    @each_rounding
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_of_any_strides(self, gpu: torch.device, dtype: torch.dtype, form: str, rounding: str, layout: str) -> None:
        for m, k in ((5, 96), (9, 608), (3, 4128), (131, 64)):
            x = laid_out(wide_values(m, k, dtype, gpu), **LAYOUTS[layout])  # type: ignore[arg-type]
            assert_numbers(x, form, rounding=rounding)
        assert_numbers(wide_values(1, 64, dtype, gpu).expand(5, 64), form, rounding=rounding)
        assert_numbers(wide_values(5, 1, dtype, gpu).expand(5, 64), form, rounding=rounding)

    @each_rounding
    def test_of_rows_of_zeros_nan_and_infinity(
        self, gpu: torch.device, dtype: torch.dtype, form: str, rounding: str
    ) -> None:
        for k in (64, 608, 4128, 8992):
            assert_numbers(with_rare_rows(wide_values(9, k, dtype, gpu)), form, rounding=rounding)

    @each_rounding
    def test_of_nothing(self, gpu: torch.device, dtype: torch.dtype, form: str, rounding: str) -> None:
        for shape in ((0, 32), (3, 0), (0, 0)):
            assert_numbers(torch.ones(shape, dtype=dtype, device=gpu), form, rounding=rounding)

    @each_rounding
    def test_of_the_ends_of_the_dtype(self, gpu: torch.device, dtype: torch.dtype, form: str, rounding: str) -> None:
        info = torch.finfo(dtype)
        least = torch.tensor(1, dtype=torch.int16).view(dtype).item()
        ends = torch.tensor([info.max, info.tiny, least, 3 * least, info.eps], dtype=torch.float64).unsqueeze(1)
        assert_numbers((ends * torch.linspace(-1, 1, 64, dtype=torch.float64)).to(dtype).to(gpu), form, None, rounding)

    def test_under_a_global_scale(self, gpu: torch.device, dtype: torch.dtype) -> None:
        x = rows(129, 96, dtype, gpu)
        for factor in (torch.tensor(0.3, device=gpu), torch.tensor([0.3], device=gpu), torch.rand(129, 1, device=gpu)):
            assert_numbers(x, "nvfp4", factor)

    @each_rounding
    def test_the_largest_saturate(self, gpu: torch.device, dtype: torch.dtype, form: str, rounding: str) -> None:
        """Rounded up, a scale and a code make 2^16 of the largest number of float16."""
        largest = torch.finfo(torch.float16).max
        x = torch.full((3, 64), largest, dtype=dtype, device=gpu) * torch.tensor([[1], [-1], [1]], device=gpu).to(dtype)
        numbers, _ = ops._round_to_format(x, form, scale_rounding=rounding)
        assert numbers.isfinite().all()
        assert torch.equal(numbers.sign(), x.sign())
        if dtype == torch.float16 and rounding == "rceil":
            assert torch.equal(numbers, x)


@pytest.mark.parametrize("form", FORMATS_OF_NUMBERS)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_without_data_the_results_are_those_of_a_gpu(form: str, dtype: torch.dtype) -> None:
    x = torch.empty(64, 5, dtype=dtype, device="meta").t()
    numbers, row_scales = ops._round_to_format(x, form)
    assert (numbers.shape, numbers.dtype, numbers.stride()) == (x.shape, dtype, (64, 1))
    assert (row_scales.shape, row_scales.dtype) == ((5 if form == "nvfp4" else 0, 1), torch.float32)


@pytest.mark.parametrize("form", [form for form, _ in FORMATS.values() if form not in FORMATS_OF_NUMBERS])
def test_not_every_format_has_numbers(form: str) -> None:
    x = torch.empty(3, 128, dtype=torch.float16, device="meta")
    with pytest.raises(RuntimeError, match=f"^_round_to_format: no numbers of float16 hold {form}$"):
        ops._round_to_format(x, form)


@pytest.mark.parametrize("form", FORMATS_OF_NUMBERS)
def test_numbers_have_16_bits(form: str) -> None:
    x = torch.empty(3, 64, device="meta")
    with pytest.raises(RuntimeError, match=f"^_round_to_format: no numbers of float32 hold {form}$"):
        ops._round_to_format(x, form)
    with pytest.raises(RuntimeError, match=r"^quantize: `x` must be 2-D"):
        ops._round_to_format(x[0], form)


def test_numbers_are_made_on_a_gpu_alone() -> None:
    with pytest.raises(RuntimeError, match=r"^_round_to_format: there are no kernels for tensors as `x` is"):
        ops._round_to_format(torch.ones(3, 64, dtype=torch.float16), "mxfp8")


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMATS_OF_NUMBERS)
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_opcheck(gpu: torch.device, form: str, dtype: torch.dtype) -> None:
    for x in (rows(3, 64, dtype, gpu), rows(64, 5, dtype, gpu).t(), rows(0, 64, dtype, gpu)):
        torch.library.opcheck(ops._round_to_format.default, (x, form), {}, test_utils=OPCHECK_TESTS)
