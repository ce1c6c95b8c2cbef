"""Gradients of `block_scaled_matmul` where `a` has no scale: those of float64, for weights of every kind.

First of exact small integers, where one rounding at the end gives the very bits; then of random numbers, twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from operands import integers, normal
from reference import ACTIVATIONS, activate
from torch import Tensor
from torch.autograd import forward_ad
from weights import NAMES, Weight, each_weight, exact_weight, random_weight

import tileon_ops
from tileon_ops._rules.autograd import decoding

op = torch.ops.tileon.block_scaled_matmul
backward_op = torch.ops.tileon._block_scaled_backward

M, N, K = 5, 160, 192  # rows of the weight that no block of 128 divides
TO = (torch.float16, torch.bfloat16)
EPSILON = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are decoded 128 rows at a time, as larger ones are by more."""
    monkeypatch.setattr(decoding, "_SLICE_BYTES", 1)


def leaves(dtype: torch.dtype, device: torch.device, bias_dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    a = normal(M, K, dtype=dtype, device=device, seed=1) / 4
    bias = normal(N, dtype=bias_dtype, device=device, seed=2)
    return a.requires_grad_(), bias.requires_grad_()


def factors(device: torch.device) -> tuple[Tensor | None, ...]:
    """Global scales: none, one, one a row."""
    return None, torch.tensor(0.5, device=device), torch.tensor([0.25, 0.5, 1, 2, 0.5], device=device)[:, None]


def in_float64(
    a: Tensor, weight: Weight, bias: Tensor, factor: Tensor | None, activation: str = "none", slope: float = 0.01
) -> tuple[Tensor, Tensor, Tensor]:
    """Leaves of float64 in the places of a and bias, and the output."""
    wide_a, wide_bias = (t.detach().double().requires_grad_() for t in (a, bias))
    z = wide_a @ weight.values.to(a.device).t()
    z = (z if factor is None else z * factor.double()) + wide_bias
    return wide_a, wide_bias, activate(z, activation, slope)


def of(weight: Weight, device: torch.device) -> tuple[Tensor, Tensor]:
    return weight.data.to(device), weight.scale.to(device)


def assert_near(actual: Tensor, expected: Tensor, tolerance: float, what: object = "") -> None:
    """Within so much of the largest element: sums cancel."""
    error, largest = (actual.double() - expected).abs().max().item(), expected.abs().max().item()
    assert error <= tolerance * largest, (what, error, largest)


class TestExact:
    @pytest.mark.usefixtures("small_slices")
    @pytest.mark.parametrize("dtype", TO, ids=str)
    @each_weight
    def test_the_gradient_is_the_sum_rounded_once(self, device: torch.device, name: str, dtype: torch.dtype) -> None:
        """In slices or not, with 2-D or packed scales, with every kind of global scale."""
        for packed in (False, True):
            weight = exact_weight(name, N, K, packed=packed)
            a = integers(M, K, dtype=dtype, device=device).requires_grad_()
            bias = integers(N, dtype=torch.float32, device=device, seed=3).requires_grad_()
            upstream = integers(M, N, dtype=dtype, device=device, seed=4)
            b, scale = of(weight, device)
            for factor in factors(device):
                y = op(a, b, None, scale, bias, factor)
                grad_a, grad_bias = torch.autograd.grad(y, (a, bias), upstream)
                wide_a, wide_bias, wide_y = in_float64(a, weight, bias, factor)
                expected = torch.autograd.grad(wide_y, (wide_a, wide_bias), upstream.double())
                assert torch.equal(y, wide_y.to(dtype))
                assert torch.equal(grad_a, expected[0].to(dtype))
                assert torch.equal(grad_bias, expected[1].float())

    @pytest.mark.usefixtures("small_slices")
    @each_weight
    def test_sizes_around_a_slice_and_a_block(self, device: torch.device, name: str) -> None:
        for rows, k in ((1, 32), (127, 96), (128, 128), (129, 32), (256, 160), (300, 288)):
            weight = exact_weight(name, rows, k, packed=rows > 128)
            grad = integers(3, rows, dtype=torch.bfloat16, device=device)
            expected = (grad.double() @ weight.values.to(device)).bfloat16()
            assert torch.equal(backward_op(grad, *of(weight, device)), expected)

    def test_float32_scales_take_any_k(self, device: torch.device) -> None:
        for name in NAMES:
            if name in ("mxfp8", "mxfp4", "nvfp4"):
                continue
            for k in (1, 127, 129, 300):
                weight = exact_weight(name, 130, k)
                a = integers(3, k, dtype=torch.float16, device=device).requires_grad_()
                y = op(a, weight.data.to(device), None, weight.scale.to(device), out_dtype=torch.float32)
                (gradient,) = torch.autograd.grad(y.sum(), a)
                assert torch.equal(gradient, weight.values.to(device).sum(0).half().expand(3, k))

    def test_sizes_of_zero(self, device: torch.device) -> None:
        for m, n, k in ((0, 3, 32), (3, 0, 32), (3, 4, 0)):
            b, scale = of(exact_weight("mxfp8", n, k), device)
            a = torch.ones(m, k, dtype=torch.float16, device=device, requires_grad=True)
            bias = torch.ones(n, device=device, requires_grad=True)
            y = op(a, b, None, scale, bias, activation="gelu")
            grad_a, grad_bias = torch.autograd.grad(y.sum(), (a, bias))
            assert (grad_a.shape, grad_bias.shape) == ((m, k), (n,))
            assert not grad_a.any()

    def test_strides_of_every_operand(self, device: torch.device) -> None:
        weight = exact_weight("float8_e4m3fn_1x128", N, K)
        b, scale = of(weight, device)
        b, scale = b.view(torch.uint8).t().contiguous().t().view(b.dtype), scale.t().contiguous().t()
        a = integers(K, M, dtype=torch.float16, device=device).t().requires_grad_()
        upstream = integers(N, M, dtype=torch.float16, device=device).t()
        (gradient,) = torch.autograd.grad(op(a, b, None, scale), a, upstream)
        assert torch.equal(gradient, (upstream.double() @ weight.values.to(device)).half())

    def test_scales_beyond_float16_decode_exactly(self, device: torch.device) -> None:
        """2^30 under a global scale of 2^-30: a weight in float16 would be infinite."""
        b = torch.ones(3, 32, device=device).to(torch.float8_e4m3fn)
        scale = torch.full((3, 1), 127 + 30, dtype=torch.uint8, device=device)
        a = torch.ones(2, 32, dtype=torch.float16, device=device, requires_grad=True)
        y = op(a, b, None, scale, None, torch.tensor(2.0**-30, device=device))
        (gradient,) = torch.autograd.grad(y.sum(), a)
        assert torch.equal(gradient, torch.full_like(a, 3))

    def test_out_dtypes(self, device: torch.device) -> None:
        """The gradient has the dtype of `a`, whatever the output has; that of e4m3 arrives in e4m3."""
        weight = exact_weight("int8_row", 8, 8)
        for dtype in TO:
            for out_dtype in (None, torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn):
                for activation in ("none", "relu", "gelu"):
                    a = torch.ones(2, 8, dtype=dtype, device=device, requires_grad=True)
                    b, scale = of(weight, device)
                    y = op(a, b, None, scale, activation=activation, out_dtype=out_dtype)
                    y.backward(torch.ones_like(y))
                    assert a.grad is not None
                    wide_a, _, wide_y = in_float64(a, weight, torch.zeros(8, device=device), None, activation)
                    (expected,) = torch.autograd.grad(wide_y.sum(), wide_a)
                    assert a.grad.dtype == dtype
                    assert_near(a.grad, expected, 0.05, (dtype, out_dtype, activation))


class TestRandom:
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    @each_weight
    def test_first_and_second_order(self, device: torch.device, name: str, activation: str) -> None:
        weight = random_weight(name, N, K, packed=True)
        for dtype, factor in zip(TO, factors(device)[1:], strict=True):
            a, bias = leaves(dtype, device)
            b, scale = of(weight, device)
            assert factor is not None
            factor = factor / (weight.values.std().item() * K**0.5)  # numbers that float16 holds
            y = op(a, b, None, scale, bias, factor, activation=activation, slope=0.3, out_dtype=torch.float32)
            wide_a, wide_bias, wide_y = in_float64(a, weight, bias, factor, activation, 0.3)
            first = torch.autograd.grad(y.square().sum(), (a, bias), create_graph=True)
            wide_first = torch.autograd.grad(wide_y.square().sum(), (wide_a, wide_bias), create_graph=True)
            tolerance = 8 * EPSILON[dtype]
            for got, expected in zip(first, wide_first, strict=True):
                assert_near(got, expected, tolerance, (name, activation, dtype))
            second = torch.autograd.grad(sum(g.float().square().sum() for g in first), (a, bias))
            wide_second = torch.autograd.grad(sum(g.square().sum() for g in wide_first), (wide_a, wide_bias))
            for got, expected in zip(second, wide_second, strict=True):
                assert_near(got, expected, 2 * tolerance, (name, activation, dtype, "twice"))

    def test_negative_slopes(self, device: torch.device) -> None:
        """Where the output does not tell the sign of z."""
        weight = random_weight("nvfp4", N, K)
        a, bias = leaves(torch.bfloat16, device)
        b, scale = of(weight, device)
        y = op(a, b, None, scale, bias, activation="leaky_relu", slope=-0.5, out_dtype=torch.float32)
        wide_a, wide_bias, wide_y = in_float64(a, weight, bias, None, "leaky_relu", -0.5)
        expected = torch.autograd.grad(wide_y.square().sum(), (wide_a, wide_bias))
        for got, wanted in zip(torch.autograd.grad(y.square().sum(), (a, bias)), expected, strict=True):
            assert_near(got, wanted, 8 * EPSILON[torch.bfloat16])

    def test_the_mean_error_is_that_of_one_rounding(self, device: torch.device) -> None:
        """A second rounding, of a decoded weight or of a sum, would show in the mean over many elements."""
        weight = random_weight("float8_e4m3fn_128x128", 300, 512)
        grad = normal(64, 300, dtype=torch.bfloat16, device=device)
        expected = grad.double() @ weight.values.to(device)
        error = (backward_op(grad, *of(weight, device)).double() - expected).abs().mean()
        rounded = (expected.bfloat16().double() - expected).abs().mean()
        assert error <= 1.01 * rounded

    def test_the_gradient_of_a_float32_bias_is_summed_in_float32(self, device: torch.device) -> None:
        weight = random_weight("mxfp8", N, K)
        a, bias = leaves(torch.bfloat16, device)
        b, scale = of(weight, device)
        y = op(a.detach(), b, None, scale, bias, out_dtype=torch.float32)
        upstream = normal(M, N, dtype=torch.float32, device=device, seed=9)
        (gradient,) = torch.autograd.grad(y, bias, upstream)
        torch.testing.assert_close(gradient, upstream.double().sum(0).float(), rtol=1e-6, atol=1e-6)


class TestRefused:
    """Constants that ask for a gradient, and everything where both operands have scales."""

    def arguments(self, name: str) -> dict[str, Any]:
        weight = random_weight("float8_e4m3fn_row", 8, 32)
        return {
            "a": torch.ones(2, 32, dtype=torch.float16),
            "b": weight.data,
            "scale_a": None,
            "scale_b": weight.scale,
            "global_scale": torch.tensor(2.0),
        }

    @pytest.mark.parametrize("name", ["b", "scale_b", "global_scale"])
    @pytest.mark.parametrize("call", [op, tileon_ops.block_scaled_matmul], ids=["op", "function"])
    def test_a_constant_that_requires_grad(self, name: str, call: Callable[..., Tensor]) -> None:
        arguments = self.arguments(name)
        arguments[name] = arguments[name].clone().requires_grad_()
        with pytest.raises(RuntimeError) as caught:
            call(**arguments)
        assert str(caught.value) == (
            f"block_scaled_matmul: `{name}` requires grad, and where `scale_a` is None gradients flow to `a` and "
            "`bias` alone"
        )
        for quiet in (torch.no_grad, torch.inference_mode):
            with quiet():
                assert not call(**arguments).requires_grad

    @pytest.mark.parametrize("name", ["scale_b", "global_scale"])
    def test_a_constant_with_a_tangent(self, name: str) -> None:
        arguments = self.arguments(name)
        with forward_ad.dual_level():
            arguments[name] = forward_ad.make_dual(arguments[name], torch.ones_like(arguments[name]))
            with pytest.raises(RuntimeError, match=rf"^block_scaled_matmul: `{name}` has a tangent of forward-mode"):
                op(**arguments)

    def test_a_constant_under_torch_func(self) -> None:
        arguments = self.arguments("scale_b")
        with pytest.raises(RuntimeError, match=r"^block_scaled_matmul: `scale_b` requires grad, and where"):
            torch.func.grad(lambda s: op(**{**arguments, "scale_b": s}).sum())(arguments["scale_b"])

    def test_out_with_anything_that_requires_grad(self) -> None:
        arguments = self.arguments("a")
        out = torch.zeros(2, 8, dtype=torch.float16)
        for name in ("a", "scale_b", "global_scale"):
            changed = {**arguments, name: arguments[name].clone().requires_grad_()}
            with pytest.raises(RuntimeError) as caught:
                op.out(**changed, out=out)
            assert str(caught.value) == (
                f"block_scaled_matmul: `out` does not support automatic differentiation, but `{name}` requires grad"
            )
        assert not out.any()

    def test_quantized_operands_as_before(self) -> None:
        weight = random_weight("float8_e4m3fn_row", 8, 32)
        bias = torch.ones(8, requires_grad=True)
        both = (weight.data, weight.data, weight.scale, weight.scale)
        for call in (op, tileon_ops.block_scaled_matmul):
            with pytest.raises(RuntimeError) as caught:
                call(*both, bias)
            assert str(caught.value) == (
                "block_scaled_matmul: `bias` requires grad, and no gradient flows through quantized operands"
            )

    def test_what_the_op_refuses_it_refuses_while_gradients_are_recorded(self) -> None:
        arguments = self.arguments("a")
        bad_bias = torch.ones(7, requires_grad=True)
        with pytest.raises(RuntimeError, match=r"^block_scaled_matmul: `bias` must have n = 8 elements, got 7"):
            op(**arguments, bias=bad_bias)
        arguments["a"] = arguments["a"].float().requires_grad_()
        with pytest.raises(RuntimeError, match=r"^block_scaled_matmul: operands `a` x `b` of dtypes float32 x"):
            op(**arguments)
