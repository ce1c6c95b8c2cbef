"""What the soak test compares with is right: against torch, against the suite's own oracles, and by hand."""

from __future__ import annotations

import math
from typing import Any

import float32_scale_reference
import pytest
import small_float_reference
import torch
from small_float_operands import wide_values
from torch import Tensor

CPU = torch.device("cpu")


def matrix(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


class TestSums:
    def interval(self, a: Tensor, b: Tensor) -> Any:
        from soak.intervals import product
        from soak.precision import Data, dense

        return product(a, b, dense(a.shape[-1], (torch.float32, torch.float32), CPU, Data()))

    @pytest.mark.parametrize("k", [1, 7, 300])
    def test_an_interval_holds_torchs_float32_product_and_is_no_wider_than_the_bound(self, k: int) -> None:
        a, b = torch.randn(9, k, dtype=torch.float64).float(), torch.randn(k, 11, dtype=torch.float64).float()
        interval = self.interval(a.double(), b.double())
        assert bool(((a @ b).double() - interval.value).abs().le(interval.error).all())
        size = a.double().abs() @ b.double().abs()
        assert bool((interval.error <= (4 + 2 * math.sqrt(k)) * 2.0**-23 * size + k * 2.0**-149).all())

    def test_sums_that_cannot_round_are_points(self) -> None:
        a, b = torch.randint(-40, 41, (9, 100)).double(), torch.randint(-40, 41, (100, 9)).double()
        assert not self.interval(a, b).error.any()
        assert not self.interval(a * 2.0**-60, b * 2.0**-60).error.any()
        assert self.interval(a * 2.0**-75, b * 2.0**-75).error.any(), "below the smallest subnormal number"
        assert self.interval(a * 4001, b * 4001).error.all(), "more than 24 bits"

    def test_a_product_is_aligned_as_if_subnormal_elements_were_the_least_normal_one(self) -> None:
        from soak.intervals import Precision, product

        a, b = matrix([2049.0, 2.0**-40, 0.0]), matrix([2.0**-20], [1.0], [1.0])
        exact = Precision(bound=2.0**-20, exact=2.0**22)
        assert not product(a[:, :1], b[:1], exact).error.any()
        aligned = product(a[:, :1], b[:1], Precision(bound=2.0**-20, exact=2.0**22, least=2.0**-7))
        assert float(aligned.error) == pytest.approx(2049 * 2.0**-27)
        assert not product(a[:, 2:], b[2:], Precision(bound=1.0, exact=1.0, least=1.0)).error.any(), "zero is zero"

    def test_what_lies_beyond_float32_is_infinite_with_its_sign(self) -> None:
        interval = self.interval(matrix([2.0**100, 2.0**100]), matrix([2.0**30, -(2.0**30)], [2.0**30, -(2.0**30)]))
        assert interval.value.tolist() == [[math.inf, -math.inf]]
        assert not interval.open

    def test_sums_whose_parts_overflow_in_both_directions_are_left_open_by_name(self) -> None:
        from soak.intervals import PARTIAL_SUMS

        interval = self.interval(matrix([2.0**100, 2.0**100, 1.0]), matrix([2.0**30, 1], [-(2.0**30), 1], [1.0, 1]))
        assert interval.open[PARTIAL_SUMS].tolist() == [[True, False]]
        tiny = self.interval(matrix([2.0**120, 2.0**120]), matrix([2.0**120], [-(2.0**40)]))
        assert tiny.open[PARTIAL_SUMS].tolist() == [[True]], "in float64 the smaller product does not change the sum"

    def test_infinity_and_nan_are_ieees(self) -> None:
        interval = self.interval(matrix([math.inf, 1.0], [math.nan, 1.0]), matrix([1.0, 0, -1], [1, 1, 1]))
        assert interval.value[0, 0] == math.inf
        assert interval.value[0, 2] == -math.inf
        assert interval.value.isnan().tolist() == [[False, True, False], [True, True, True]]
        assert not interval.error.any()


class TestPrecision:
    """Of a GPU's tensor cores, which no test here has."""

    def bound(self, k: int, dtype: torch.dtype, *, uneven: bool = False, **options: bool) -> float:
        from soak.precision import Data, dense

        return dense(k, (dtype, dtype), torch.device("cuda"), Data(is_uneven=uneven), **options).bound

    def test_uneven_data_of_16_bits_may_lose_a_quarter_of_k_more(self) -> None:
        base = (4 + 2 * 32) * 2.0**-23
        for dtype in (torch.float16, torch.bfloat16):
            assert self.bound(1024, dtype) == base
            assert self.bound(1024, dtype, uneven=True) == base + 256 * 2.0**-23
        assert self.bound(1024, torch.float32, uneven=True) == base
        assert self.bound(1024, torch.float32, tf32=True) == base + 2.0**-9

    def test_uneven_data_on_a_cpu_may_round_in_one_direction_at_every_step(self) -> None:
        from soak.precision import Data, dense

        bounds = [dense(1024, (torch.float32,) * 2, CPU, Data(is_uneven=uneven)).bound for uneven in (False, True)]
        assert bounds == [(4 + 2 * 32) * 2.0**-23, (4 + 2 * 32 + 512) * 2.0**-23]

    def test_fp8_may_lose_what_is_proven_on_uneven_data(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from fp8_sums import worst_case

        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
        for k in (1, 100, 128, 4096):
            for fast in (False, True):
                for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
                    allowed = self.bound(k, dtype, uneven=True, fast_accum=fast) - (4 + 2 * math.sqrt(k)) * 2.0**-23
                    proven = worst_case(k, (dtype, dtype), promoted=not fast)
                    assert allowed == pytest.approx(proven, abs=(k / 128 + 1) * 2.0**-24)

    def test_block_scaled_sums_may_lose_what_fast_accum_allows_and_no_more_without(self) -> None:
        from fp8_sums import mxfp4_worst_case
        from soak.precision import block_scaled

        exact, fast = (block_scaled(1024, torch.device("cuda"), as_e5m2=fast).bound for fast in (False, True))
        assert exact == (4 + 2 * 32 + 256) * 2.0**-23
        assert fast - exact == pytest.approx(mxfp4_worst_case(1024), abs=9 * 2.0**-24)
        assert block_scaled(1024, CPU, as_e5m2=True).bound == (4 + 2 * 32 + 512) * 2.0**-23

    def test_what_the_data_are_decides(self) -> None:
        from soak.draw import Draw
        from soak.operand import Layout
        from soak.precision import Data
        from soak.values import Source

        source = Source(Draw(1, 0, 0), integers=False, high=9, plain=True)
        normal = source.operand((8, 8), torch.float32, layout=Layout((8, 8), (8, 1)))
        repeated = source.operand((8, 8), torch.float32, layout=Layout((8, 8), (0, 1)))
        whole = Source(Draw(1, 0, 0), integers=True, high=9).operand((8, 8), torch.float32)
        assert Data.of(normal, normal) == Data(is_normal=True)
        assert Data.of(normal, repeated) == Data(is_uneven=True)
        assert Data.of(normal, whole) == Data()
        assert Data.of(whole, whole).is_integers


class TestEpilogue:
    def test_each_activation_of_a_point_holds_torchs_float32_result(self) -> None:
        from soak.intervals import Interval, activate, activated

        # not of infinite ones: torch's own gelu makes NaN of them on some CPUs
        x = torch.cat((torch.linspace(-40, 40, 4001), torch.tensor([0.0, -0.0, math.nan, 1e18, -1e18])))
        point = Interval(x.double(), torch.zeros(len(x), dtype=torch.float64))
        for name in ("none", "relu", "leaky_relu", "gelu", "gelu_tanh", "silu"):
            for slope in (0.01, -3.0, 0.5):
                actual = activate(x, name, slope).double()
                interval = activated(point, name, slope, 2.0**-24)
                is_same = (actual - interval.value).abs() <= interval.error
                is_same |= (actual == interval.value) | (actual.isnan() & interval.value.isnan())
                is_same |= actual.isinf() & (interval.value.abs() > 3.4e38)
                assert bool(is_same.all()), f"{name}, {slope}: {x[~is_same]}"

    def test_scale_and_bias_round_once_each_or_not_at_all(self) -> None:
        from soak.intervals import Interval, biased, scaled

        def point(value: float) -> Any:
            return Interval(torch.tensor([value], dtype=torch.float64), torch.zeros(1, dtype=torch.float64))

        assert not scaled(point(3.0), 0.5).error.any()
        assert not scaled(point(3.0), 1.5).error.any()
        assert 0 < float(scaled(point(1 + 2.0**-23), 1 + 2.0**-23).error) <= 2.0**-23
        assert not biased(point(3.0), torch.tensor([4.0], dtype=torch.float64), 2.0**-24).error.any()
        assert 0 < float(biased(point(3.0), torch.tensor([2.0**-40], dtype=torch.float64), 2.0**-24).error) <= 2.0**-22
        assert scaled(point(2.0**100), 2.0**60).value.tolist() == [math.inf]

    def test_infinity_times_what_may_be_zero_is_left_open(self) -> None:
        from soak.intervals import ZERO_TIMES_INFINITY, Interval, scaled

        values = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
        interval = Interval(values, torch.tensor([1e-9, 1e-9, 0.0], dtype=torch.float64))
        result = scaled(interval, math.inf)
        assert result.open[ZERO_TIMES_INFINITY].tolist() == [True, False, False]
        assert result.value[1] == math.inf
        assert bool(result.value[2].isnan())


class TestSmallFloats:
    def test_the_tables_are_torchs_and_those_of_the_suite(self) -> None:
        from soak import small_floats as small

        codes = torch.arange(256, dtype=torch.uint8)
        for table, dtype in ((small.E4M3, torch.float8_e4m3fn), (small.E8M0, torch.float8_e8m0fnu)):
            torch.testing.assert_close(table, codes.view(dtype).float().double(), rtol=0, atol=0, equal_nan=True)
        assert torch.equal(small.E2M1, small_float_reference.E2M1_VALUES)

    def test_the_nearest_code_is_the_suites(self) -> None:
        from soak import small_floats as small

        for table in (small.E2M1, small.E4M3):
            steps = table[~table.isnan()].unique()
            values = torch.cat((steps, (steps[1:] + steps[:-1]) / 2, torch.randn(5000, dtype=torch.float64) * 30))
            values = torch.cat((values, torch.tensor([-0.0, 1e30, -1e30, math.inf], dtype=torch.float64)))
            assert torch.equal(small.nearest_code(values, table), small_float_reference.nearest_code(values, table))

    @pytest.mark.parametrize(("rows", "columns"), [(0, 3), (1, 1), (128, 4), (129, 5), (300, 17)])
    def test_packed_scales_are_the_suites(self, rows: int, columns: int) -> None:
        from soak import small_floats as small

        scales = torch.randint(0, 256, (rows, columns), dtype=torch.uint8)
        packed = small.packed(scales, padding=7)
        assert torch.equal(packed, small_float_reference.pack(scales, fill=7))
        assert torch.equal(small.unpacked(packed, rows, columns), scales)

    @pytest.mark.parametrize("name", ["mxfp8", "mxfp4", "nvfp4"])
    def test_quantized_numbers_are_the_suites(self, name: str) -> None:
        from soak.quantized import FORMATS, quantized

        (form,) = (form for form in small_float_reference.FORMATS if form.name == name)
        for seed, rounding in enumerate(form.roundings):
            x = wide_values(40, 96, torch.float32, "cpu", seed=seed)
            for factor in (None, 0.037) if name == "nvfp4" else (None,):
                whole = None if factor is None else torch.tensor(factor)
                wanted = small_float_reference.expected_quantize(x, form, whole, rounding)
                codes, scales = quantized(x, FORMATS[name], rounding, None if whole is None else whole.view(1, 1))
                assert torch.equal(codes, wanted.codes)
                assert torch.equal(scales, wanted.scale)


@pytest.mark.parametrize("form", float32_scale_reference.FLOAT32_FORMATS, ids=lambda form: form.name)
def test_float32_scales_are_the_suites(form: float32_scale_reference.Float32Format) -> None:
    from soak.float32_scaled import FLOAT32_FORMATS, quantized

    for seed, (rows, k) in enumerate(((40, 96), (130, 157), (1, 5), (0, 3), (3, 0))):
        x = wide_values(rows, -(-k // 16) * 16, torch.float32, "cpu", seed=seed)[:, :k]
        for values in (x, x.masked_fill(~x.isfinite(), 1.0), x * 2.0**-20, x * 0, torch.full_like(x, 3.4e38)):
            codes, scales = quantized(values, FLOAT32_FORMATS[form.name])
            wanted = float32_scale_reference.expected_quantize(values, form)
            assert torch.equal(codes, wanted[0])
            assert torch.equal(scales.isnan(), wanted[1].isnan())
            assert torch.equal(scales.nan_to_num(0.0), wanted[1].nan_to_num(0.0))


def test_gradients_are_those_of_torchs_autograd() -> None:
    """Of drawn calls: activation(a @ b + bias) in float64, differentiated by torch itself."""
    from soak.cases import draw_case
    from soak.intervals import activate

    seen: set[str] = set()
    for index in range(2500):
        case = draw_case(2, 0, index, frozenset({"matmul.backward"}))
        if case is None or case.flaw is not None or "float" not in case.format:
            continue
        call = case.call
        leaves = {
            name: operand.view().detach().double().requires_grad_()
            for name, operand in call.operands()
            if name in ("a", "b", "bias")
        }
        z = leaves["a"] @ leaves["b"]
        z = z + leaves["bias"] if "bias" in leaves else z
        activation, slope = (
            call.options.get(name, default) for name, default in (("activation", "none"), ("slope", 0.01))
        )
        y = activate(z, activation, slope)  # type: ignore[arg-type]
        assert call.upstream is not None
        wanted = case.wanted(CPU)
        names = [name for name in leaves if f"gradient of {name}" in wanted]
        found = torch.autograd.grad(y, [leaves[name] for name in names], call.upstream.view().double())
        for name, gradient in zip(names, found, strict=True):
            interval = wanted[f"gradient of {name}"].interval  # type: ignore[attr-defined]
            good = (gradient - interval.value).abs() <= interval.error + 1e-9 * (1 + interval.value.abs())
            assert bool((good | interval.is_open()).all()), case.described()
            seen.add(f"{name} of {activation}")
        if len(seen) == 18:
            return
    raise AssertionError(f"too few calls were drawn: {sorted(seen)}")


def test_what_is_drawn_covers_the_surface() -> None:
    from soak.cases import draw_case
    from soak.operand import Operand

    seen: set[object] = set()
    for index in range(800):
        case = draw_case(1, 0, index)
        assert case is not None
        call = case.call
        seen |= {call.name, call.through, call.mode, case.format, *call.options.items(), *call.options}
        for name, operand in call.operands():
            layout = operand.layout
            seen |= {(name, operand.dtype), *(("size", size) for size in layout.shape), ("offset", layout.offset % 2)}
            seen |= {("zero stride", name)} if 0 in layout.strides else set()
            seen |= {("overlaps", name)} if layout.overlaps_itself() else set()
            seen |= {("long", name)} if any(size > 1000 for size in layout.shape) else set()
            seen |= {("packed", name)} if len(layout.shape) == 5 else set()
        assert call.out is None or case.flaw or not call.out.layout.overlaps_itself()
        assert all(isinstance(operand, Operand) for _, operand in call.operands())
    floats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    for name in ("a", "b", "out", "upstream", "bias"):
        assert {(name, dtype) for dtype in floats} <= seen
    for name in ("a", "b"):
        assert {(name, dtype) for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.uint8)} <= seen
        assert (name, torch.float4_e2m1fn_x2) in seen
        assert {("zero stride", name), ("overlaps", name), ("long", name)} <= seen
    assert {("packed", "scale_a"), ("packed", "scale_b"), ("packed", "scale"), ("packed", "packed")} <= seen
    assert {("size", size) for size in (0, 1, 2, 127, 128, 129, 255, 256, 257)} <= seen
    assert {("offset", 0), ("offset", 1), "op", "python", "grad", "no_grad", "inference_mode"} <= seen
    activations = ("none", "relu", "leaky_relu", "gelu", "gelu_tanh", "silu")
    assert {("activation", name) for name in activations} <= seen
    assert {("allow_tf32", True), ("fast_accum", True), ("scale_rounding", "rceil")} <= seen
    assert {"mxfp8", "mxfp4", "mixed", "mixed reversed", "nvfp4", "refused"} <= seen
    assert ("out", torch.float8_e4m3fn) in seen
