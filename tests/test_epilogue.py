"""Bias, activation and the output's rounding, against torch's own activations in float64."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from operands import full_precision, integers, normal, place
from reference import ACTIVATIONS, DTYPE_PAIRS, MATMUL_DTYPES, OUT_DTYPES, activate, assert_exact, check_matmul
from torch import Tensor

matmul = torch.ops.tileon.matmul

INF = float("inf")
NAN = float("nan")


def column(values: Tensor) -> tuple[Tensor, Tensor]:
    """Operands whose product is `values` in every column, exactly."""
    return values[:, None], torch.ones(1, 3, dtype=values.dtype, device=values.device)


def bias_views(n: int, dtype: torch.dtype, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    values = integers(n, dtype=dtype, device=device, seed=2, high=7)
    for stride, offset in ((1, 0), (1, 1), (1, 3), (2, 0), (3, 1), (4, 5)):
        storage = torch.full((4 * n + 8,), NAN, dtype=dtype, device=device)
        view = storage.as_strided((n,), (stride,), offset)
        view.copy_(values)
        yield f"stride {stride}, offset {offset}", view
    yield "one number for all", torch.full((1,), 3.0, dtype=dtype, device=device).expand(n)
    yield "column of a matrix", torch.stack([values, values + 1], dim=1)[:, 1]


class TestBias:
    @pytest.mark.parametrize(("dtype", "out_dtype"), DTYPE_PAIRS, ids=str)
    def test_dtypes_and_strides(self, device: torch.device, dtype: torch.dtype, out_dtype: torch.dtype) -> None:
        for m, n, k in ((5, 3, 8), (65, 131, 40), (64, 128, 32)):
            a, b = integers(m, k, dtype=dtype, device=device), integers(k, n, dtype=dtype, device=device, seed=1)
            for bias_dtype in {out_dtype, torch.float32}:
                for name, bias in bias_views(n, bias_dtype, device):
                    actual = matmul(a, b, bias, out_dtype=out_dtype)
                    assert_exact(
                        actual, a.double() @ b.double() + bias.double(), out_dtype, f"{m}x{n}x{k} {bias_dtype} {name}"
                    )

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_k_of_zero_gives_the_activated_bias(
        self, device: torch.device, activation: str, dtype: torch.dtype
    ) -> None:
        bias = full_precision(131, dtype=dtype, device=device)
        a, b = torch.empty(66, 0, dtype=dtype, device=device), torch.empty(0, 131, dtype=dtype, device=device)
        check_matmul(matmul(a, b, bias, activation=activation), a, b, bias, activation=activation)
        batched = matmul(a.expand(3, 66, 0), b, bias, activation=activation)
        check_matmul(batched, a.expand(3, 66, 0), b, bias, activation=activation)

    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_is_shared_by_the_batch(self, device: torch.device, dtype: torch.dtype) -> None:
        a, b = integers(4, 33, 20, dtype=dtype, device=device), integers(4, 20, 65, dtype=dtype, device=device, seed=1)
        bias = integers(65, dtype=dtype, device=device, seed=2, high=9)
        assert_exact(matmul(a, b, bias), a.double() @ b.double() + bias.double(), dtype)

    @pytest.mark.parametrize("shape", [(0, 5), (5, 0)], ids=str)
    def test_with_an_empty_output(self, device: torch.device, shape: tuple[int, int]) -> None:
        m, n = shape
        actual = matmul(torch.ones(m, 3, device=device), torch.ones(3, n, device=device), torch.ones(n, device=device))
        assert actual.shape == shape

    def test_is_not_rounded_to_a_narrow_output(self, device: torch.device) -> None:
        """A float32 bias with a 16-bit output keeps its bits until the sum is rounded."""
        for dtype in (torch.float16, torch.bfloat16):
            a = torch.full((2, 1), -1.0, dtype=dtype, device=device)
            b = torch.ones(1, 2, dtype=dtype, device=device)
            bias = torch.full((2,), 1 + 2.0**-12, device=device)
            assert torch.equal(matmul(a, b, bias), torch.full((2, 2), 2.0**-12, dtype=dtype, device=device))


class TestOneRounding:
    """A product that the output's dtype cannot hold is not rounded before bias and activation."""

    @pytest.mark.parametrize(
        ("dtype", "product", "bias", "right"),
        [(torch.float16, 2049.0, 0.5, 2050.0), (torch.bfloat16, 257.0, 0.5, 258.0)],
        ids=str,
    )
    def test_before_the_bias(
        self, device: torch.device, dtype: torch.dtype, product: float, bias: float, right: float
    ) -> None:
        a = torch.tensor([[product - 1, 1.0]], dtype=dtype, device=device)
        b = torch.ones(2, 65, dtype=dtype, device=device)
        actual = matmul(a, b, torch.full((65,), bias, dtype=dtype, device=device))
        assert torch.equal(actual, torch.full((1, 65), right, dtype=dtype, device=device))

    @pytest.mark.parametrize(("dtype", "product"), [(torch.float16, 65504.0), (torch.bfloat16, 3.0e38)], ids=str)
    def test_before_a_bias_that_brings_an_overflow_back(
        self, device: torch.device, dtype: torch.dtype, product: float
    ) -> None:
        limit = torch.tensor(product, dtype=dtype, device=device)
        if dtype == torch.float16:
            a, b = limit.expand(1, 2), torch.ones(2, 9, dtype=dtype, device=device)
            actual = matmul(a, b, -limit.expand(9))
            assert torch.equal(actual, limit.expand(1, 9))
        else:  # its range is float32's: the product itself must not overflow
            actual = matmul(limit.expand(1, 1), torch.ones(1, 9, dtype=dtype, device=device), -limit.expand(9))
            assert torch.equal(actual, torch.zeros(1, 9, dtype=dtype, device=device))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
    def test_before_the_activation(self, device: torch.device, dtype: torch.dtype) -> None:
        """-(2^p + 1) * 0.75, p the fraction's bits plus one, differs when -(2^p + 1) is rounded first."""
        base = 2048.0 if dtype == torch.float16 else 256.0
        a = torch.tensor([[-base, -1.0]], dtype=dtype, device=device)
        actual = matmul(a, torch.ones(2, 9, dtype=dtype, device=device), activation="leaky_relu", slope=0.75)
        right = torch.full((1, 9), -(base + 1) * 0.75, dtype=torch.float64, device=device).to(dtype)
        assert torch.equal(actual, right)
        assert right[0, 0].item() != torch.tensor(-base * 0.75, dtype=torch.float64).to(dtype).item()


class TestActivations:
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
    def test_of_every_16_bit_number(self, device: torch.device, dtype: torch.dtype, activation: str) -> None:
        """All 65536 of them: subnormal numbers, infinities and NaNs too."""
        values = torch.arange(-32768, 32768, dtype=torch.int16, device=device).view(dtype)
        a, b = column(values)
        for out_dtype in OUT_DTYPES[dtype]:
            actual = matmul(a, b, activation=activation, out_dtype=out_dtype)
            check_matmul(actual, a, b, activation=activation, out_dtype=out_dtype, what=str(out_dtype))

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
    def test_of_many_magnitudes(self, device: torch.device, dtype: torch.dtype, activation: str) -> None:
        exponents = torch.linspace(-40, 38 / 3, 20011, dtype=torch.float64, device=device)  # x^3 stays within float32
        values = torch.cat(
            [10**exponents, -(10**exponents), torch.linspace(-12, 12, 20011, device=device).double()]
        ).to(dtype)
        a, b = column(values)
        check_matmul(matmul(a, b, activation=activation), a, b, activation=activation)

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_nan_and_infinity_are_torchs(self, device: torch.device, dtype: torch.dtype, activation: str) -> None:
        values = torch.tensor([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0], dtype=dtype, device=device)
        actual = matmul(*column(values), activation=activation)[:, 0].double()
        expected = activate(values.double(), activation, 0.01).to(dtype).double()
        torch.testing.assert_close(
            actual, expected, equal_nan=True, rtol=1e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-6, atol=0
        )

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_of_huge_finite_numbers(self, device: torch.device, activation: str) -> None:
        """No intermediate overflow turns a finite number into NaN."""
        values = torch.tensor([1e30, -1e30, 3e38, -3e38, 1e13, -1e13, 200.0, -200.0], device=device)
        actual = matmul(*column(values), activation=activation)[:, 0]
        expected = activate(values.double(), activation, 0.01).float()
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-30)

    @pytest.mark.parametrize(
        "slope", [0.01, 0.0, -0.0, 0.25, 1.0, 1.5, -0.5, -1.0, -3.0, 1e3, -1e3, 1e-3, 1e-30, 1 / 3]
    )
    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_slope_sweep(self, device: torch.device, dtype: torch.dtype, slope: float) -> None:
        a, b = normal(65, 40, dtype=dtype, device=device), normal(40, 67, dtype=dtype, device=device, seed=1)
        actual = matmul(a, b, activation="leaky_relu", slope=slope)
        check_matmul(actual, a, b, activation="leaky_relu", slope=slope)
        exact = integers(65, 40, dtype=dtype, device=device)
        actual = matmul(exact, exact.t(), activation="leaky_relu", slope=slope)
        check_matmul(actual, exact, exact.t(), activation="leaky_relu", slope=slope)

    @pytest.mark.parametrize("slope", [INF, -INF, NAN, 1e300, -1e300])
    def test_extreme_slopes_leave_positive_numbers_alone(self, device: torch.device, slope: float) -> None:
        values = torch.tensor([1.0, 2.0, INF, 0.0, 3e38], device=device)
        actual = matmul(*column(values), activation="leaky_relu", slope=slope)
        assert torch.equal(actual[:, 0], values)
        wide = matmul(*column(torch.tensor([-2.0], device=device)), activation="leaky_relu", slope=slope)[0, 0]
        expected = torch.tensor(-2.0 * slope, dtype=torch.float64).float()
        assert wide.item() == expected.item() or (wide.isnan() and expected.isnan())

    @pytest.mark.parametrize("slope", [7e-46, 1e-45, 1.5e-45, -7e-46])
    def test_a_slope_is_what_float32_holds_of_it(self, device: torch.device, slope: float) -> None:
        """Below 2^-150 that is 0, and 0 times -inf is NaN: on the kernels that finish cheap formulas too."""
        a = torch.full((64, 64), 1.0, device=device, dtype=torch.float16)
        b = torch.zeros(64, 64, device=device, dtype=torch.float16)
        b[0] = -INF
        actual = matmul(a, b, activation="leaky_relu", slope=slope)
        held = torch.tensor(slope, dtype=torch.float32).item()
        expected = torch.tensor(-INF, dtype=torch.float32) * held
        torch.testing.assert_close(actual.cpu().float(), expected.expand(64, 64), equal_nan=True, rtol=0, atol=0)

    def test_slope_is_only_leaky_relus(self, device: torch.device) -> None:
        a = normal(33, 34, dtype=torch.float32, device=device)
        for activation in set(ACTIVATIONS) - {"leaky_relu"}:
            assert torch.equal(
                matmul(a, a.t(), activation=activation, slope=7.0), matmul(a, a.t(), activation=activation)
            )

    def test_none_is_leaky_relu_of_slope_one(self, device: torch.device) -> None:
        for dtype in MATMUL_DTYPES:
            a = normal(33, 34, dtype=dtype, device=device)
            assert torch.equal(matmul(a, a.t(), activation="leaky_relu", slope=1.0), matmul(a, a.t()))


class TestTogether:
    @pytest.mark.parametrize(("dtype", "out_dtype"), DTYPE_PAIRS, ids=str)
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_bias_and_activation(
        self, device: torch.device, activation: str, dtype: torch.dtype, out_dtype: torch.dtype
    ) -> None:
        for m, n, k in ((129, 67, 300), (64, 256, 64)):
            a = full_precision(m, k, dtype=dtype, device=device)
            b = full_precision(k, n, dtype=dtype, device=device, seed=1)
            for bias_dtype in {out_dtype, torch.float32}:
                bias = full_precision(n, dtype=bias_dtype, device=device, seed=2)
                epilogue = {"activation": activation, "slope": -0.3, "out_dtype": out_dtype}
                check_matmul(matmul(a, b, bias, **epilogue), a, b, bias, what=f"{m}x{n}x{k} {bias_dtype}", **epilogue)

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_into_a_strided_out(self, device: torch.device, activation: str) -> None:
        for dtype, (step, transposed) in itertools.product(MATMUL_DTYPES, ((1, True), (2, False))):
            a, b = normal(67, 40, dtype=dtype, device=device), normal(40, 69, dtype=dtype, device=device, seed=1)
            bias = normal(69, dtype=dtype, device=device, seed=2)
            out = place(
                torch.full((67, 69), NAN, dtype=dtype, device=device), step=step, transposed=transposed, offset=1
            )
            matmul.out(a, b, bias, activation=activation, out=out.view)
            check_matmul(out.view, a, b, bias, activation=activation, what=str(dtype))
            assert out.margin_is_intact()

    def test_a_nan_in_the_bias_spoils_its_column_alone(self, device: torch.device) -> None:
        for activation in ACTIVATIONS:
            a, b = (
                normal(33, 20, dtype=torch.float16, device=device),
                normal(20, 67, dtype=torch.float16, device=device, seed=1),
            )
            bias = torch.zeros(67, dtype=torch.float16, device=device)
            bias[66] = NAN
            check_matmul(matmul(a, b, bias, activation=activation), a, b, bias, activation=activation, what=activation)
