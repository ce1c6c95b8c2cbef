"""`matmul` of float8_e4m3fn and float8_e5m2 operands, in every pairing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from operands import LAYOUTS, in_layout, integers, normal, place
from reference import ACTIVATIONS, Expected, activation_gain, assert_exact, assert_matches, expected_matmul
from test_out import OUTPUTS
from torch import Tensor

import tileon_ops

matmul = torch.ops.tileon.matmul

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
FP8 = (E4M3, E5M2)
PAIRS = tuple(itertools.product(FP8, FP8))
OUT_DTYPES = (F16, BF16, F32)
NAN, INF = float("nan"), float("inf")
TENSOR_CORE_BOUND = 2.0**-15  # of sum |a||b|, on random data; on the CPU the products are exact to float32

each_pair = pytest.mark.parametrize(("dtype_a", "dtype_b"), PAIRS, ids=lambda dtype: str(dtype)[13:17])


def expected_fp8(a: Tensor, b: Tensor, bias: Tensor | None = None, **epilogue: Any) -> Expected:
    """As docs/dtypes.md documents it for these operands; float16 unless told."""
    epilogue = {"out_dtype": F16, **epilogue}
    exact = expected_matmul(a.float(), b.float(), bias, **epilogue)
    if a.device.type == "cpu":
        return exact
    gain = activation_gain(epilogue.get("activation", "none"), epilogue.get("slope", 0.01))
    more = gain * TENSOR_CORE_BOUND * (a.double().abs() @ b.double().abs())
    return replace(exact, error=exact.error + more)


def shapes() -> Iterator[tuple[int, int, int]]:
    """Odd sizes, tiles and their neighbours, long k."""
    yield from itertools.product((1, 64, 65, 127, 129), (1, 16, 63, 128, 131), (1, 37))
    for k in (0, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257):
        yield 67, 71, k
    yield 17, 19, 10007
    yield 3, 130, 8192


class TestExactIntegers:
    @each_pair
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_every_size_category(
        self, device: torch.device, layout: str, dtype_a: torch.dtype, dtype_b: torch.dtype
    ) -> None:
        for m, n, k in shapes():
            a = integers(m, k, dtype=dtype_a, device=device)
            b = integers(k, n, dtype=dtype_b, device=device, seed=1)
            assert_exact(matmul(*in_layout(a, b, layout)), a.double() @ b.double(), F16, f"{m}x{n}x{k}")

    @each_pair
    @pytest.mark.parametrize("out_dtype", OUT_DTYPES, ids=str)
    def test_every_out_dtype_and_activation(
        self, device: torch.device, out_dtype: torch.dtype, dtype_a: torch.dtype, dtype_b: torch.dtype
    ) -> None:
        a = integers(65, 72, dtype=dtype_a, device=device)
        b = integers(72, 131, dtype=dtype_b, device=device, seed=1)
        exact = a.double() @ b.double()
        assert_exact(matmul(a, b, out_dtype=out_dtype), exact, out_dtype)
        for bias_dtype in {out_dtype, F32}:
            bias = integers(131, dtype=bias_dtype, device=device, seed=2)
            for activation in ACTIVATIONS:
                options: dict[str, Any] = {"activation": activation, "slope": 0.25, "out_dtype": out_dtype}
                actual = matmul(a, b, bias, **options)
                wanted = expected_matmul(a.float(), b.float(), bias, **options)
                assert_matches(actual, wanted, f"{bias_dtype} {activation}")

    @each_pair
    def test_batches(self, device: torch.device, dtype_a: torch.dtype, dtype_b: torch.dtype) -> None:
        for (batch_a, batch_b), layout in itertools.product(
            (((3,), (3,)), ((3,), ()), ((), (3,)), ((1,), (3,)), ((3,), (1,)), ((0,), (0,)), ((1,), ())), LAYOUTS
        ):
            a = integers(*batch_a, 33, 70, dtype=dtype_a, device=device)
            b = integers(*batch_b, 70, 65, dtype=dtype_b, device=device, seed=1)
            actual = matmul(*in_layout(a, b, layout))
            assert_exact(actual, torch.matmul(a.double(), b.double()), F16, f"{batch_a} {batch_b} {layout}")

    @each_pair
    def test_any_strides(self, device: torch.device, dtype_a: torch.dtype, dtype_b: torch.dtype) -> None:
        options: list[dict[str, Any]] = [
            {"transposed": transposed, **more}
            for transposed in (False, True)
            for more in ({"offset": 1}, {"offset": 8}, {"pad": 3}, {"pad": 16}, {"step": 2, "pad": 1})
        ]
        a = integers(67, 72, dtype=dtype_a, device=device)
        b = integers(72, 66, dtype=dtype_b, device=device, seed=1)
        exact = a.double() @ b.double()
        for option_a, option_b in itertools.product(options, options):
            actual = matmul(place(a, **option_a).view, place(b, **option_b).view)
            assert_exact(actual, exact, F16, f"a {option_a}, b {option_b}")
        for view_a, view_b in ((a[:1].expand(67, 72), b), (a, b[:, :1].expand(72, 66)), (a[:, :1].expand(67, 72), b)):
            assert_exact(matmul(view_a, view_b), view_a.double() @ view_b.double(), F16, "stride 0")

    @each_pair
    def test_large_and_many_tiles(self, device: torch.device, dtype_a: torch.dtype, dtype_b: torch.dtype) -> None:
        m, n, k = (2625, 2825, 72) if device.type == "cuda" else (425, 825, 72)
        a, b = integers(m, k, dtype=dtype_a, device=device), integers(k, n, dtype=dtype_b, device=device, seed=1)
        assert_exact(matmul(a, b), a.double() @ b.double(), F16)

    @each_pair
    def test_out_writes_the_view_and_nothing_else(
        self, device: torch.device, dtype_a: torch.dtype, dtype_b: torch.dtype
    ) -> None:
        for (m, n, k), out_dtype in itertools.product(((1, 1, 1), (65, 67, 33), (130, 128, 0)), OUT_DTYPES):
            a, b = integers(m, k, dtype=dtype_a, device=device), integers(k, n, dtype=dtype_b, device=device, seed=1)
            for name, make in OUTPUTS.items():
                out = make(torch.full((m, n), NAN, dtype=out_dtype, device=device))
                matmul.out(a, b, out_dtype=out_dtype, out=out.view)
                assert_exact(out.view, a.double() @ b.double(), out_dtype, f"{m}x{n}x{k} {name}")
                assert out.margin_is_intact(), f"{m}x{n}x{k} {name}: something outside out was written"


class TestError:
    @each_pair
    @pytest.mark.parametrize("out_dtype", OUT_DTYPES, ids=str)
    def test_is_within_the_bound_on_normal_data(
        self, device: torch.device, out_dtype: torch.dtype, dtype_a: torch.dtype, dtype_b: torch.dtype
    ) -> None:
        for (m, n, k), layout in zip(((130, 67, 1031), (33, 257, 64), (5, 6, 8192)), ("NT", "NN", "TN"), strict=True):
            a = normal(m, k, dtype=dtype_a, device=device)
            b = normal(k, n, dtype=dtype_b, device=device, seed=1)
            actual = matmul(*in_layout(a, b, layout), out_dtype=out_dtype)
            assert_matches(actual, expected_fp8(a, b, out_dtype=out_dtype), f"{m}x{n}x{k}")

    @each_pair
    @pytest.mark.parametrize("layout", ["NN", "NT"])
    def test_fast_accum_mostly_keeps_12_bits_of_normal_data(
        self, device: torch.device, layout: str, dtype_a: torch.dtype, dtype_b: torch.dtype
    ) -> None:
        """And loses one more seldom, as docs/fp8_error.md says."""
        a, b = normal(130, 1024, dtype=dtype_a, device=device), normal(1024, 72, dtype=dtype_b, device=device, seed=1)
        wanted, sizes = expected_fp8(a, b, out_dtype=F32), a.double().abs() @ b.double().abs()
        actual = matmul(*in_layout(a, b, layout), out_dtype=F32, fast_accum=True)
        assert_matches(actual, replace(wanted, error=wanted.error + 2.0**-11 * sizes))
        beyond = (actual.double() - a.double() @ b.double()).abs() > 2.0**-12 * sizes
        assert beyond.double().mean() < 0.01

    def test_the_tutorials_own_check(self, device: torch.device) -> None:
        """512 x 512, e5m2 made from float16, against torch's float16 product of the same numbers."""
        torch.manual_seed(0)
        a = torch.randn(512, 512, device=device, dtype=F16).to(E5M2)
        b = torch.randn(512, 512, device=device, dtype=F16).t().to(E5M2)
        reference = torch.matmul(a.to(F16), b.to(F16))
        torch.testing.assert_close(matmul(a, b), reference, atol=0.125, rtol=0)
        torch.testing.assert_close(tileon_ops.matmul(a, b), reference, atol=0.125, rtol=0)

    @each_pair
    def test_the_bits_are_the_same_every_time(
        self, device: torch.device, dtype_a: torch.dtype, dtype_b: torch.dtype
    ) -> None:
        for m, n, k in ((65, 67, 1031), (300, 200, 4096), (1, 128, 5000)):
            a, b = normal(m, k, dtype=dtype_a, device=device), normal(k, n, dtype=dtype_b, device=device, seed=1)
            first = matmul(a, b, activation="silu", out_dtype=F32)
            for _ in range(4):
                assert torch.equal(matmul(a, b, activation="silu", out_dtype=F32), first)


class TestSpecialValues:
    @each_pair
    def test_every_pair_of_codes(self, device: torch.device, dtype_a: torch.dtype, dtype_b: torch.dtype) -> None:
        """k 1: all 256 x 256 products, subnormal numbers, infinities and NaN among them, exact in float32."""
        codes = torch.arange(256, dtype=torch.uint8, device=device)
        a, b = codes.view(dtype_a)[:, None], codes.view(dtype_b)[None]
        for out_dtype in OUT_DTYPES:
            assert_exact(matmul(a, b, out_dtype=out_dtype), a.double() * b.double(), out_dtype, str(out_dtype))

    @each_pair
    def test_identity_gives_back_every_code(
        self, device: torch.device, dtype_a: torch.dtype, dtype_b: torch.dtype
    ) -> None:
        """Each finite value of the format, in float32 as it is; 16 values a row, so that infinity meets no zero."""
        values = torch.arange(256, dtype=torch.uint8, device=device).view(dtype_a)
        values = torch.where(values.float().isfinite(), values.float(), 0.0).to(dtype_a).view(16, 16)
        identity = torch.eye(16, device=device).to(dtype_b)
        assert torch.equal(matmul(values, identity, out_dtype=F32), values.float())

    @each_pair
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_nan_and_infinity_stay_in_their_row_and_column(
        self, device: torch.device, layout: str, dtype_a: torch.dtype, dtype_b: torch.dtype
    ) -> None:
        m, n, k = 67, 69, 37
        for value in (NAN, INF, -INF):
            for at in ((0, 0), (66, 36), (3, 35)):
                a = integers(m, k, dtype=dtype_a, device=device)
                b = integers(k, n, dtype=dtype_b, device=device, seed=1)
                if dtype_a == E5M2 or value != value:
                    a[at] = value
                if dtype_b == E5M2 or value != value:
                    b[at[1], at[0]] = value
                actual = matmul(*in_layout(a, b, layout), out_dtype=F32)
                assert_exact(actual, a.double() @ b.double(), F32, f"{value} at {at}")

    def test_sums_beyond_float16_overflow_in_it_alone(self, device: torch.device) -> None:
        a = torch.full((3, 64), 448.0, device=device).to(E4M3)
        actual = matmul(a, a.t())
        assert bool((actual == INF).all())
        assert bool((matmul(a, (-a.t().float()).to(E4M3)) == -INF).all())
        assert bool((matmul(a, a.t(), out_dtype=F32) == 64 * 448.0**2).all())

    def test_no_k_gives_the_activation_of_the_bias(self, device: torch.device) -> None:
        for dtype_a, dtype_b in PAIRS:
            a, b = torch.empty(3, 0, dtype=dtype_a, device=device), torch.empty(0, 2, dtype=dtype_b, device=device)
            bias = torch.tensor([-1.0, 2.0], device=device)
            assert matmul(a, b, bias, activation="relu").tolist() == [[0.0, 2.0]] * 3
            assert matmul(a.new_empty(0, 5), b.new_empty(5, 2)).shape == (0, 2)
