"""The scales of a layer's weight: never worse than by either rule, and codes that are the nearest ones under them."""

from __future__ import annotations

import math

import pytest
import torch
from operands import normal
from small_float_reference import BYTE, E2M1_VALUES, E4M3_VALUES, nearest_code
from torch import Tensor, nn

import tileon_ops
from tileon_ops import BlockScaledLinear
from tileon_ops._rules.fake.scales import FORMATS
from tileon_ops.nn import scale_search
from tileon_ops.nn.scale_search import quantize_weight, quantize_with_scale

SEARCHED = ("mxfp8", "mxfp4", "nvfp4")
# At least these dB more than by the better of quantize's rules; measured 0.00, 0.26 to 0.35 and 0.70 to 1.37.
GAINS = {"mxfp8": 0.0, "mxfp4": 0.2, "nvfp4": 0.6}
each_searched = pytest.mark.parametrize("fmt", SEARCHED)


def drawn(name: str, rows: int = 256, k: int = 512) -> Tensor:
    torch.manual_seed(0)
    if name == "student":
        return torch.distributions.StudentT(3.0).sample((rows, k))
    if name == "laplace":
        return torch.distributions.Laplace(0.0, 1.0).sample((rows, k))
    return torch.rand(rows, k) * 2 - 1 if name == "uniform" else torch.randn(rows, k)


def global_scale_of(x: Tensor, fmt: str) -> Tensor | None:
    return tileon_ops.nvfp4_global_scale(x) if fmt == "nvfp4" else None


def errors(x: Tensor, data: Tensor, scale: Tensor, fmt: str, global_scale: Tensor | None) -> Tensor:
    """The squared error of each block, float64."""
    values = tileon_ops.dequantize(data, scale, fmt, global_scale).double()
    return (values - x.double()).square().view(x.shape[0], -1, FORMATS[fmt].vec).sum(-1)


def by_rule(x: Tensor, fmt: str, global_scale: Tensor | None) -> list[tuple[Tensor, Tensor]]:
    rules = ("floor",) if fmt == "nvfp4" else ("floor", "rceil")
    return [tileon_ops.quantize(x, fmt, global_scale, scale_rounding=rule) for rule in rules]


class TestError:
    @each_searched
    @pytest.mark.parametrize("name", ["normal", "uniform", "laplace", "student"])
    def test_no_block_errs_more_than_by_a_rule(self, device: torch.device, fmt: str, name: str) -> None:
        x = drawn(name).to(device)
        factor = global_scale_of(x, fmt)
        mine = errors(x, *quantize_weight(x, fmt, factor), fmt, factor)
        for quantized in by_rule(x, fmt, factor):
            theirs = errors(x, *quantized, fmt, factor)
            assert bool((mine <= theirs * (1 + 1e-5)).all())  # compared in float32

    @each_searched
    @pytest.mark.parametrize("name", ["normal", "laplace", "student"])
    def test_the_whole_gains_what_the_page_says(self, fmt: str, name: str) -> None:
        x = drawn(name)
        factor = global_scale_of(x, fmt)
        mine = float(errors(x, *quantize_weight(x, fmt, factor), fmt, factor).sum())
        theirs = min(float(errors(x, *each, fmt, factor).sum()) for each in by_rule(x, fmt, factor))
        assert 10 * math.log10(theirs / mine) >= GAINS[fmt]

    @pytest.mark.parametrize("fmt", ["mxfp8", "mxfp4"])
    def test_no_other_power_of_two_is_better(self, fmt: str) -> None:
        """Of a larger one that is proven, of a smaller one it is so on such data."""
        x = drawn("normal")
        data, packed = quantize_weight(x, fmt, None)
        mine = errors(x, data, packed, fmt, None)
        scale = tileon_ops.unpack_scales(packed, x.shape[0], x.shape[1] // 32).view(BYTE)
        for step in (-2, -1, 1, 2):
            other = (scale.int() + step).to(BYTE)
            codes = quantize_with_scale(x, other, FORMATS[fmt], None)
            assert bool((mine <= errors(x, codes, other, fmt, None) * (1 + 1e-5)).all())


class TestCodes:
    @each_searched
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
    def test_are_the_nearest_under_the_scale_that_was_found(
        self, device: torch.device, fmt: str, dtype: torch.dtype
    ) -> None:
        x = drawn("student").to(device, dtype)
        factor = global_scale_of(x, fmt)
        data, packed = quantize_weight(x, fmt, factor)
        form = FORMATS[fmt]
        scale = tileon_ops.unpack_scales(packed, x.shape[0], x.shape[1] // form.vec).float()
        inverse = scale.reciprocal() if factor is None else factor.reciprocal() / scale
        elements = (x.float() * inverse.repeat_interleave(form.vec, 1)).double().cpu()
        codes = nearest_code(elements, E4M3_VALUES if form.per_byte == 1 else E2M1_VALUES)
        wanted = codes if form.per_byte == 1 else codes[:, ::2] | codes[:, 1::2] << 4
        assert torch.equal(data.cpu().view(BYTE), wanted)

    @each_searched
    def test_are_those_of_quantize_under_its_own_scales(self, device: torch.device, fmt: str) -> None:
        x = drawn("student").to(device)
        factor, form = global_scale_of(x, fmt), FORMATS[fmt]
        for data, packed in by_rule(x, fmt, factor):
            scale = tileon_ops.unpack_scales(packed, x.shape[0], x.shape[1] // form.vec).view(BYTE)
            codes = quantize_with_scale(x, scale, form, factor)
            assert torch.equal(codes.view(BYTE), data.view(BYTE))


class TestPlaces:
    @each_searched
    @pytest.mark.parametrize("shape", [(0, 64), (3, 0), (1, 32), (129, 96), (300, 64)], ids=str)
    def test_any_shape(self, device: torch.device, fmt: str, shape: tuple[int, int]) -> None:
        x = normal(*shape, dtype=torch.float32, device=device)
        factor = global_scale_of(x, fmt)
        mine, theirs = quantize_weight(x, fmt, factor), tileon_ops.quantize(x, fmt, factor)
        for actual, wanted in zip(mine, theirs, strict=True):
            assert (actual.shape, actual.dtype, actual.device) == (wanted.shape, wanted.dtype, wanted.device)

    @each_searched
    def test_slices_of_rows_give_what_the_whole_gives(self, monkeypatch: pytest.MonkeyPatch, fmt: str) -> None:
        x = drawn("normal", 700, 64)
        factor = global_scale_of(x, fmt)
        whole = quantize_weight(x, fmt, factor)
        monkeypatch.setattr(scale_search, "_ELEMENTS_AT_ONCE", 1)
        for actual, wanted in zip(quantize_weight(x, fmt, factor), whole, strict=True):
            assert torch.equal(actual.view(BYTE), wanted.view(BYTE))

    @each_searched
    def test_any_strides(self, fmt: str) -> None:
        x = drawn("normal", 64, 96)
        mine, theirs = quantize_weight(x.t().contiguous().t(), fmt, None), quantize_weight(x, fmt, None)
        for actual, wanted in zip(mine, theirs, strict=True):
            assert torch.equal(actual.view(BYTE), wanted.view(BYTE))

    @each_searched
    def test_zeros_nan_and_the_ends_of_the_range_are_those_of_quantize(self, device: torch.device, fmt: str) -> None:
        x = torch.ones(6, 64, device=device)
        for row, value in enumerate((0.0, math.nan, math.inf, 3e38, 1e-38, 1e-45)):
            x[row, :32] = value
        rounding = "floor" if fmt == "nvfp4" else "rceil"
        wanted = tileon_ops.quantize(x, fmt, scale_rounding=rounding)
        data, scale = quantize_weight(x, fmt, None)
        mine, theirs = (tileon_ops.dequantize(*each, fmt) for each in ((data, scale), wanted))
        nan = theirs.isnan()
        assert torch.equal(mine.isnan(), nan)
        errs_more = (mine - x).abs() > (theirs - x).abs()
        assert not bool((errs_more & ~nan & x.isfinite()).any())


@pytest.mark.parametrize("fmt", ["fp8_row", "fp8_128x128", "int8_row"])
def test_float32_scales_are_those_of_quantize(fmt: str) -> None:
    linear = nn.Linear(200, 130)
    layer = BlockScaledLinear.from_linear(linear, fmt)
    data, scale = tileon_ops.quantize(linear.weight.detach(), fmt)
    assert torch.equal(layer.data.view(BYTE), data.view(BYTE))
    assert torch.equal(layer.scale, scale)
