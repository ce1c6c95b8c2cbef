"""The product itself: exact integers, every layout and dtype, strides, batches, non-finite values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from operands import LAYOUTS, full_precision, in_layout, integers, normal, place
from reference import DTYPE_PAIRS, MATMUL_DTYPES, assert_exact, check_matmul
from torch import Tensor

from tileon_ops._rules.configs import config_of, dense

matmul = torch.ops.tileon.matmul

SIZES = (0, 1, 63, 64, 65, 127, 128, 129, 131)  # {0, 1, tile - 1, tile, tile + 1, prime} for tiles of 64 and 128


def shapes_by_category() -> Iterator[tuple[int, int, int]]:
    """Every m x n with a small and an odd k, every k with an odd m and n, and long k."""
    for m, n in itertools.product(SIZES, SIZES):
        yield m, n, 1
        yield m, n, 37
    for k in (*SIZES, 15, 16, 17, 31, 32, 33, 257):
        yield 67, 71, k
        yield 1, 1, k
    yield 17, 19, 10007
    yield 3, 130, 65537


class TestExactIntegers:
    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_every_size_category(self, device: torch.device, layout: str, dtype: torch.dtype) -> None:
        for m, n, k in shapes_by_category():
            a = integers(m, k, dtype=dtype, device=device)
            b = integers(k, n, dtype=dtype, device=device, seed=1)
            actual = matmul(*in_layout(a, b, layout))
            assert_exact(actual, a.double() @ b.double(), dtype, f"{m}x{n}x{k}")

    @pytest.mark.parametrize(("dtype", "out_dtype"), DTYPE_PAIRS, ids=str)
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_every_out_dtype(
        self, device: torch.device, layout: str, dtype: torch.dtype, out_dtype: torch.dtype
    ) -> None:
        for m, n, k in ((1, 1, 1), (64, 128, 32), (65, 129, 77), (131, 67, 300)):
            a = integers(m, k, dtype=dtype, device=device, high=9)
            b = integers(k, n, dtype=dtype, device=device, high=9, seed=1)
            actual = matmul(*in_layout(a, b, layout), out_dtype=out_dtype)
            assert_exact(actual, a.double() @ b.double(), out_dtype, f"{m}x{n}x{k}")

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_tf32_is_exact_on_small_integers(self, device: torch.device, layout: str) -> None:
        for m, n, k in ((65, 129, 77), (128, 128, 256), (1, 7, 1000)):
            a = integers(m, k, dtype=torch.float32, device=device)
            b = integers(k, n, dtype=torch.float32, device=device, seed=1)
            actual = matmul(*in_layout(a, b, layout), allow_tf32=True)
            assert_exact(actual, a.double() @ b.double(), torch.float32, f"{m}x{n}x{k}")

    def test_fast_accum_changes_nothing_without_fp8(self, device: torch.device) -> None:
        for dtype in MATMUL_DTYPES:
            a, b = normal(65, 300, dtype=dtype, device=device), normal(300, 67, dtype=dtype, device=device)
            assert torch.equal(matmul(a, b, fast_accum=True), matmul(a, b))

    def test_large_tiles_and_many_tiles(self, device: torch.device) -> None:
        """More tiles than a GPU has SMs, with partial ones at both edges and a partial group of rows."""
        m, n, k = (2625, 2825, 72) if device.type == "cuda" else (425, 825, 72)
        for dtype in MATMUL_DTYPES:
            a = integers(m, k, dtype=dtype, device=device)
            b = integers(k, n, dtype=dtype, device=device, seed=1)
            assert_exact(matmul(a, b), a.double() @ b.double(), dtype, str(dtype))


class TestErrorBound:
    """Random data against the bound (4 + 2 sqrt K) 2^-23 sum |a||b|."""

    SHAPES = ((130, 67, 1031), (33, 257, 64), (5, 6, 20011))

    @pytest.mark.parametrize(("dtype", "out_dtype"), DTYPE_PAIRS, ids=str)
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_normal_values(self, device: torch.device, layout: str, dtype: torch.dtype, out_dtype: torch.dtype) -> None:
        for m, n, k in self.SHAPES:
            a = full_precision(m, k, dtype=dtype, device=device)
            b = full_precision(k, n, dtype=dtype, device=device, seed=1)
            actual = matmul(*in_layout(a, b, layout), out_dtype=out_dtype)
            check_matmul(actual, a, b, out_dtype=out_dtype, what=f"{m}x{n}x{k}")

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_values_of_one_sign(self, device: torch.device, dtype: torch.dtype) -> None:
        """A sum that only grows shows an accumulator that is too narrow."""
        for m, n, k in self.SHAPES:
            a = full_precision(m, k, dtype=dtype, device=device).abs()
            b = full_precision(k, n, dtype=dtype, device=device, seed=1).abs()
            out_dtype = torch.float64 if dtype == torch.float64 else torch.float32
            actual = matmul(a, b, out_dtype=out_dtype)
            if device.type == "cuda" and dtype in (torch.float16, torch.bfloat16):
                # the tensor core cuts its float32 sum at every step of 16 k: up to two units of 2^-23 of the sum so far
                exact = a.double() @ b.double()
                bound = (4 + 2 * k**0.5 + k / 8) * 2.0**-23 * exact
                assert bool(((actual.double() - exact).abs() <= bound).all()), f"{m}x{n}x{k}"
            else:
                check_matmul(actual, a, b, out_dtype=out_dtype, what=f"{m}x{n}x{k}")

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_values_of_many_magnitudes(self, device: torch.device, dtype: torch.dtype) -> None:
        m, n, k = 65, 66, 515
        reach = 2 if dtype == torch.float16 else 10
        scale = torch.pow(2.0, (torch.arange(k, device=device) % (2 * reach + 1) - reach).double())
        a = (full_precision(m, k, dtype=torch.float64, device=device) * scale).to(dtype)
        b = (full_precision(k, n, dtype=torch.float64, device=device, seed=1) * scale[:, None]).to(dtype)
        check_matmul(matmul(a, b), a, b)

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_tf32(self, device: torch.device, layout: str) -> None:
        for m, n, k in self.SHAPES:
            a = full_precision(m, k, dtype=torch.float32, device=device)
            b = full_precision(k, n, dtype=torch.float32, device=device, seed=1)
            actual = matmul(*in_layout(a, b, layout), allow_tf32=True)
            check_matmul(actual, a, b, tf32=True, what=f"{m}x{n}x{k}")

    def test_float32_without_allow_tf32_keeps_every_bit(self, device: torch.device) -> None:
        """1 + 2^-23 is the next float32 after 1: TF32 would lose it."""
        a = torch.full((64, 64), 1 + 2.0**-23, device=device)
        actual = matmul(a, torch.eye(64, device=device))
        assert torch.equal(actual, a)

    def test_float64_does_not_pass_through_float32(self, device: torch.device) -> None:
        a = torch.full((3, 5), 1 + 2.0**-52, dtype=torch.float64, device=device)
        actual = matmul(a, torch.eye(5, dtype=torch.float64, device=device))
        assert torch.equal(actual, a)

    def test_float16_operands_have_a_float32_sum(self, device: torch.device) -> None:
        """2048 + 1 + ... in float16 would stay 2048."""
        a = torch.ones(4, 4097, dtype=torch.float16, device=device)
        b = torch.ones(4097, 4, dtype=torch.float16, device=device)
        assert torch.equal(matmul(a, b, out_dtype=torch.float32), torch.full((4, 4), 4097.0, device=device))

    def test_subnormal_values_are_not_flushed(self, device: torch.device) -> None:
        tiny = torch.full((8, 8), 2.0**-24, dtype=torch.float16, device=device)  # the smallest float16
        identity = torch.eye(8, dtype=torch.float16, device=device)
        assert torch.equal(matmul(tiny, identity), tiny)
        a = torch.full((8, 8), 2.0**-100, device=device)
        b = torch.eye(8, device=device) * 2.0**-40
        assert torch.equal(matmul(a, b), torch.full((8, 8), 2.0**-140, device=device))

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_the_bits_are_the_same_every_time(self, device: torch.device, dtype: torch.dtype) -> None:
        for m, n, k in ((65, 67, 1031), (300, 200, 4096), (1, 128, 5000)):
            a, b = (
                full_precision(m, k, dtype=dtype, device=device),
                full_precision(k, n, dtype=dtype, device=device, seed=1),
            )
            first = matmul(a, b, activation="silu")
            for _ in range(5):
                assert torch.equal(matmul(a, b, activation="silu"), first)


BATCHES = (  # shapes of a and b for (m, k, n) = (33, 70, 65)
    pytest.param((5,), (5,), id="both"),
    pytest.param((5,), (), id="b_2d"),
    pytest.param((), (5,), id="a_2d"),
    pytest.param((5,), (1,), id="b_batch_1"),
    pytest.param((1,), (5,), id="a_batch_1"),
    pytest.param((1,), (1,), id="one"),
    pytest.param((1,), (), id="one_and_2d"),
    pytest.param((0,), (0,), id="none"),
    pytest.param((0,), (), id="none_and_2d"),
    pytest.param((1,), (0,), id="one_and_none"),
)


class TestBatches:
    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize(("batch_a", "batch_b"), BATCHES)
    def test_every_combination(
        self, device: torch.device, batch_a: tuple[int, ...], batch_b: tuple[int, ...], layout: str, dtype: torch.dtype
    ) -> None:
        a = integers(*batch_a, 33, 70, dtype=dtype, device=device)
        b = integers(*batch_b, 70, 65, dtype=dtype, device=device, seed=1)
        actual = matmul(*in_layout(a, b, layout))
        assert_exact(actual, torch.matmul(a.double(), b.double()), dtype)

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    @pytest.mark.parametrize("shape", [(3, 0, 5, 7), (3, 5, 0, 7), (3, 5, 7, 0), (3, 0, 0, 0), (0, 0, 0, 0)], ids=str)
    def test_sizes_of_zero(self, device: torch.device, shape: tuple[int, int, int, int], dtype: torch.dtype) -> None:
        batch, m, k, n = shape
        a, b = torch.ones(batch, m, k, dtype=dtype, device=device), torch.ones(batch, k, n, dtype=dtype, device=device)
        actual = matmul(a, b)
        assert actual.shape == (batch, m, n)
        assert torch.equal(actual, torch.zeros_like(actual))

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_batch_strides(self, device: torch.device, dtype: torch.dtype) -> None:
        """A batch that is expanded, reversed in memory order with the rows, or the fastest dimension."""
        a = integers(4, 34, 50, dtype=dtype, device=device)
        b = integers(4, 50, 36, dtype=dtype, device=device, seed=1)
        views_a = [
            a[:1].expand(4, -1, -1),
            place(a.transpose(0, 1)).view.transpose(0, 1),
            place(a, batch_last=True).view,
        ]
        views_b = [
            b[2:3].expand(4, -1, -1),
            place(b.transpose(0, 1)).view.transpose(0, 1),
            place(b, batch_last=True).view,
        ]
        for view_a, view_b in itertools.product(views_a, views_b):
            assert_exact(
                matmul(view_a, view_b), view_a.double() @ view_b.double(), dtype, f"{view_a.stride()} {view_b.stride()}"
            )

    def test_many_batches(self, device: torch.device) -> None:
        """More than the 65535 that a grid's y and z may be."""
        a = integers(70001, 2, 3, dtype=torch.float16, device=device)
        b = integers(70001, 3, 2, dtype=torch.float16, device=device, seed=1)
        assert_exact(matmul(a, b), a.double() @ b.double(), torch.float16)


def strided_views(values: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The same numbers under other strides and alignments, between NaNs; the expanded ones have their own numbers."""
    for transposed in (False, True):
        name = "T" if transposed else "N"
        for offset in (1, 2, 3, 4, 5, 7, 8):
            yield f"{name} offset {offset}", place(values, transposed=transposed, offset=offset).view
        for pad in (1, 2, 3, 8, 13):
            yield f"{name} pad {pad}", place(values, transposed=transposed, pad=pad).view
        for step in (2, 3, 8):
            yield f"{name} step {step}", place(values, transposed=transposed, step=step, pad=1).view
    rows, cols = values.shape
    yield "one row for all", place(values[:1]).view.expand(rows, cols)
    yield "one column for all", place(values[:, :1]).view.expand(rows, cols)
    yield "one number for all", place(values[:1, :1]).view.expand(rows, cols)
    windows = values.reshape(-1)[: rows + cols - 1]
    yield "overlapping windows", windows.unfold(0, cols, 1) if rows * cols >= rows + cols - 1 else values


class TestStrides:
    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_any_strides_of_a(self, device: torch.device, dtype: torch.dtype) -> None:
        for m, n, k in ((67, 64, 72), (128, 40, 128), (1, 16, 64)):
            values = integers(m, k, dtype=dtype, device=device)
            b = integers(k, n, dtype=dtype, device=device, seed=1)
            for name, a in strided_views(values):
                assert_exact(matmul(a, b), a.double() @ b.double(), dtype, f"{m}x{n}x{k} {name}")

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_any_strides_of_b(self, device: torch.device, dtype: torch.dtype) -> None:
        for m, n, k in ((64, 67, 72), (40, 128, 128), (16, 1, 64)):
            a = integers(m, k, dtype=dtype, device=device)
            values = integers(k, n, dtype=dtype, device=device, seed=1)
            for name, b in strided_views(values):
                assert_exact(matmul(a, b), a.double() @ b.double(), dtype, f"{m}x{n}x{k} {name}")

    @pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
    def test_any_strides_of_both(self, device: torch.device, dtype: torch.dtype) -> None:
        for (name_a, a), (name_b, b) in itertools.product(
            strided_views(integers(65, 72, dtype=dtype, device=device)),
            strided_views(integers(72, 66, dtype=dtype, device=device, seed=1)),
        ):
            assert_exact(matmul(a, b), a.double() @ b.double(), dtype, f"a {name_a}, b {name_b}")

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_a_large_product_of_awkward_operands(self, device: torch.device, dtype: torch.dtype) -> None:
        """Large enough that an implementation may copy an operand into an aligned buffer first."""
        size = 1024 if device.type == "cuda" else 192
        a = integers(size + 1, size + 3, dtype=dtype, device=device)
        b = integers(size + 3, size + 5, dtype=dtype, device=device, seed=1)
        for view_a, view_b in (
            (place(a, offset=1).view, b),
            (a, place(b, step=2).view),
            (place(a, transposed=True, pad=1).view, place(b, transposed=True, offset=3).view),
        ):
            assert_exact(matmul(view_a, view_b), a.double() @ b.double(), dtype, f"{view_a.stride()} {view_b.stride()}")

    def test_the_same_tensor_twice(self, device: torch.device) -> None:
        for dtype in MATMUL_DTYPES:
            a = integers(70, 70, dtype=dtype, device=device)
            assert_exact(matmul(a, a), a.double() @ a.double(), dtype)
            assert_exact(matmul(a, a.t()), a.double() @ a.t().double(), dtype)

    def test_the_stride_of_a_dimension_of_size_one_is_never_used(self, device: torch.device) -> None:
        storage = integers(400, dtype=torch.float16, device=device)
        for stride in (0, 1, 3, 10**12):
            a, b = storage.as_strided((1, 64), (stride, 1), 0), storage.as_strided((64, 1), (1, stride), 64)
            assert_exact(matmul(a, b), a.double() @ b.double(), torch.float16, f"k adjacent, stride {stride}")
            a, b = storage.as_strided((64, 1), (1, stride), 0), storage.as_strided((1, 64), (stride, 1), 64)
            assert_exact(matmul(a, b), a.double() @ b.double(), torch.float16, f"k is 1, stride {stride}")


class TestFunctionalResult:
    def test_is_fresh_and_contiguous(self, device: torch.device) -> None:
        a, b = torch.ones(3, 4, device=device), torch.ones(5, 4, device=device).t()
        first, second = matmul(a, b), matmul(a, b)
        assert first.is_contiguous()
        assert first.data_ptr() != second.data_ptr()
        assert matmul(a.expand(2, 3, 4).transpose(1, 2), torch.ones(3, 6, device=device)).is_contiguous()
        assert first.device.type == device.type

    def test_leaves_its_operands_alone(self, device: torch.device) -> None:
        for dtype in MATMUL_DTYPES:
            a, b = normal(70, 33, dtype=dtype, device=device), normal(33, 65, dtype=dtype, device=device, seed=1)
            bias = normal(65, dtype=dtype, device=device, seed=2)
            before = [t.clone() for t in (a, b, bias)]
            matmul(a, b, bias, activation="relu")
            assert all(torch.equal(t, was) for t, was in zip((a, b, bias), before, strict=True))

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_what_ran_is_known(self, device: torch.device, dtype: torch.dtype) -> None:
        a = torch.ones(64, 64, dtype=dtype, device=device)
        matmul(a, a)
        kernel = torch.ops.tileon._last_kernel()
        if device.type == "cpu":
            assert kernel.startswith("cpu_tiles_") if dtype.itemsize == 2 else kernel == "cpu_aten"
        else:
            assert config_of(kernel) in dense()


class TestNonFinite:
    """NaN and infinity propagate as the arithmetic says, and touch no other row or column."""

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")], ids=str)
    def test_in_one_place(self, device: torch.device, value: float, layout: str, dtype: torch.dtype) -> None:
        m, n, k = 67, 69, 37
        for at in ((0, 0), (66, 36), (64, 32), (3, 35)):
            a = integers(m, k, dtype=dtype, device=device)
            b = integers(k, n, dtype=dtype, device=device, seed=1)
            a[at] = value
            check_matmul(matmul(*in_layout(a, b, layout)), a, b, what=f"a at {at}")
        for at in ((0, 0), (36, 68), (32, 64), (35, 3)):
            a = integers(m, k, dtype=dtype, device=device)
            b = integers(k, n, dtype=dtype, device=device, seed=1)
            b[at] = value
            check_matmul(matmul(*in_layout(a, b, layout)), a, b, what=f"b at {at}")

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_sums_of_infinities(self, device: torch.device, dtype: torch.dtype) -> None:
        a = torch.ones(3, 40, dtype=dtype, device=device)
        b = torch.ones(40, 5, dtype=dtype, device=device)
        a[0, 3], a[0, 39], a[1, 3], a[1, 39] = float("inf"), float("inf"), float("inf"), float("-inf")
        actual = matmul(a, b)
        assert bool((actual[0] == float("inf")).all())
        assert bool(actual[1].isnan().all())
        assert bool((actual[2] == 40).all())

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_infinity_times_zero_is_nan(self, device: torch.device, dtype: torch.dtype) -> None:
        a, b = torch.zeros(70, 70, dtype=dtype, device=device), torch.zeros(70, 70, dtype=dtype, device=device)
        a[69, 69] = float("inf")
        actual = matmul(a, b)
        assert bool(actual[69].isnan().all())
        assert bool((actual[:69] == 0).all())

    def test_float16_output_overflows_to_infinity(self, device: torch.device) -> None:
        a = torch.tensor(
            [[60000.0, 60000.0], [-60000.0, -60000.0], [60000.0, -60000.0]], dtype=torch.float16, device=device
        )
        b = torch.ones(2, 9, dtype=torch.float16, device=device)
        check_matmul(matmul(a, b), a, b)
        assert matmul(a, b).tolist() == [[float("inf")] * 9, [float("-inf")] * 9, [0.0] * 9]
        assert matmul(a, b, out_dtype=torch.float32)[0, 0].item() == 2 * a[0, 0].item()

    def test_bfloat16_output_rounds_to_nearest_even(self, device: torch.device) -> None:
        a = torch.tensor([[257.0], [258.0], [259.0], [-257.0], [-259.0], [3.3895314e38]], device=device)
        actual = matmul(a, torch.ones(1, 2, device=device), out_dtype=torch.bfloat16)
        assert torch.equal(actual, a.to(torch.bfloat16).expand(-1, 2))


def test_large_and_small_strides_agree_to_the_bit_on_integers(device: torch.device) -> None:
    """Vector loads, gathered loads and copied operands must all give the one exact answer."""
    for dtype in MATMUL_DTYPES:
        a, b = integers(130, 264, dtype=dtype, device=device), integers(264, 136, dtype=dtype, device=device, seed=1)
        first = matmul(a, b)
        for offset, step in ((1, 1), (0, 2), (5, 3)):
            view_a, view_b = place(a, offset=offset, step=step).view, place(b, offset=offset, step=step).view
            assert torch.equal(matmul(view_a, view_b), first)
