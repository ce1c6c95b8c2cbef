"""Gradients of a, b and bias, once and twice."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import pytest
import torch
from operands import integers, normal, place
from reference import ACTIVATIONS, activate
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import tileon_ops

matmul = torch.ops.tileon.matmul

SHAPES = (
    pytest.param((3, 4), (4, 5), id="2d"),
    pytest.param((2, 3, 4), (2, 4, 5), id="batched"),
    pytest.param((2, 3, 4), (4, 5), id="b_shared_2d"),
    pytest.param((3, 4), (2, 4, 5), id="a_shared_2d"),
    pytest.param((2, 3, 4), (1, 4, 5), id="b_batch_1"),
    pytest.param((1, 3, 4), (2, 4, 5), id="a_batch_1"),
    pytest.param((1, 3, 4), (1, 4, 5), id="batch_1"),
)


def away_from_zero(a: Tensor, b: Tensor, bias: Tensor | None) -> bool:
    total = torch.matmul(a, b) if bias is None else torch.matmul(a, b) + bias
    return bool((total.abs() > 1e-2).all())


def double_operands(
    shape_a: tuple[int, ...], shape_b: tuple[int, ...], device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Operands in float64 whose sums are not near the kink of relu, where a difference quotient means nothing."""
    for seed in itertools.count():
        a = normal(*shape_a, dtype=torch.float64, device=device, seed=seed)
        b = normal(*shape_b, dtype=torch.float64, device=device, seed=seed + 1000)
        bias = normal(shape_b[-1], dtype=torch.float64, device=device, seed=seed + 2000)
        if away_from_zero(a, b, bias) and away_from_zero(a, b, None):
            return a.requires_grad_(), b.requires_grad_(), bias.requires_grad_()
    raise AssertionError


class TestDifferenceQuotients:
    @pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES)
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_once_and_twice(
        self, device: torch.device, activation: str, shape_a: tuple[int, ...], shape_b: tuple[int, ...]
    ) -> None:
        a, b, bias = double_operands(shape_a, shape_b, device)

        def with_bias(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
            return matmul(a, b, bias, activation=activation, slope=0.3)

        def without_bias(a: Tensor, b: Tensor) -> Tensor:
            return matmul(a, b, activation=activation, slope=0.3)

        assert gradcheck(with_bias, (a, b, bias))
        assert gradgradcheck(with_bias, (a, b, bias))
        assert gradcheck(without_bias, (a, b))
        assert gradgradcheck(without_bias, (a, b))

    @pytest.mark.parametrize("slope", [0.01, 0.0, 1.0, 1.5, -0.5, -2.0])
    def test_leaky_relu_of_every_kind_of_slope(self, device: torch.device, slope: float) -> None:
        """Where the slope is not positive the output no longer tells the argument's sign."""
        a, b, bias = double_operands((3, 4), (4, 5), device)

        def op(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
            return matmul(a, b, bias, activation="leaky_relu", slope=slope)

        assert gradcheck(op, (a, b, bias))
        assert gradgradcheck(op, (a, b, bias))

    @pytest.mark.parametrize("which", range(3))
    @pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
    def test_only_one_argument_requires_grad(self, device: torch.device, activation: str, which: int) -> None:
        arguments = [t.detach() for t in double_operands((3, 4), (4, 5), device)]
        arguments[which].requires_grad_()

        def op(x: Tensor) -> Tensor:
            return matmul(*[x if i == which else t for i, t in enumerate(arguments)], activation=activation)

        assert gradcheck(op, (arguments[which],))
        assert gradgradcheck(op, (arguments[which],))

    def test_of_the_wrapper_with_broadcast_batches(self, device: torch.device) -> None:
        a, b, bias = double_operands((3, 1, 2, 4), (2, 4, 3), device)
        assert gradcheck(lambda a, b, bias: tileon_ops.matmul(a, b, bias, activation="silu"), (a, b, bias))


def torch_composition(a: Tensor, b: Tensor, bias: Tensor | None, activation: str, slope: float) -> Tensor:
    total = torch.matmul(a, b)
    return activate(total if bias is None else total + bias, activation, slope)


def gradients(op: Callable[..., Tensor], tensors: tuple[Tensor, ...], upstream: Tensor | None) -> tuple[Tensor, ...]:
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    result = op(*leaves)
    return torch.autograd.grad(result, leaves, torch.ones_like(result) if upstream is None else upstream)


class TestAgainstTorch:
    @pytest.mark.parametrize("slope", [0.01, 0.0, 1.0, 2.0, -0.5])
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_gradients_at_zero_are_torchs(self, device: torch.device, activation: str, slope: float) -> None:
        """Small integers make sums of exactly 0 frequent."""
        a = integers(17, 3, dtype=torch.float64, device=device, high=1)
        b = integers(3, 19, dtype=torch.float64, device=device, high=1, seed=1)
        assert int((a @ b == 0).sum()) > 20
        upstream = integers(17, 19, dtype=torch.float64, device=device, seed=2)
        ours = gradients(lambda a, b: matmul(a, b, activation=activation, slope=slope), (a, b), upstream)
        theirs = gradients(lambda a, b: torch_composition(a, b, None, activation, slope), (a, b), upstream)
        for got, expected in zip(ours, theirs, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES)
    @pytest.mark.parametrize("activation", ["none", "leaky_relu", "silu"])
    def test_expanded_and_transposed_gradients(
        self, device: torch.device, activation: str, shape_a: tuple[int, ...], shape_b: tuple[int, ...]
    ) -> None:
        """`loss.sum()` hands a gradient of stride 0 down, a transposed use a transposed one."""
        tensors = tuple(t.detach() for t in double_operands(shape_a, shape_b, device))

        def ours(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
            return matmul(a, b, bias, activation=activation)

        def theirs(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
            return torch_composition(a, b, bias, activation, 0.01)

        shape = theirs(*tensors).shape
        one = torch.ones((), dtype=torch.float64, device=device)
        strided = place(normal(*shape, dtype=torch.float64, device=device), transposed=True, step=2).view
        for upstream in (
            one.expand(shape),
            strided,
            normal(*shape[:-1], 1, dtype=torch.float64, device=device).expand(shape),
        ):
            for got, expected in zip(
                gradients(ours, tensors, upstream), gradients(theirs, tensors, upstream), strict=True
            ):
                assert got.shape == expected.shape
                torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize(
        "shape", [((0, 4), (4, 5)), ((3, 0), (0, 5)), ((3, 4), (4, 0)), ((0, 3, 4), (4, 5))], ids=str
    )
    def test_sizes_of_zero(self, device: torch.device, shape: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
        for activation in ("none", "relu", "gelu"):
            a, b = (torch.ones(s, dtype=torch.float64, device=device) for s in shape)
            bias = torch.ones(b.shape[-1], dtype=torch.float64, device=device)
            ours = gradients(functools.partial(matmul, activation=activation), (a, b, bias), None)
            theirs = gradients(
                functools.partial(torch_composition, activation=activation, slope=0.0), (a, b, bias), None
            )
            for got, expected in zip(ours, theirs, strict=True):
                assert got.shape == expected.shape
                torch.testing.assert_close(got, expected)

    def test_the_same_tensor_as_both_operands(self, device: torch.device) -> None:
        a = normal(5, 5, dtype=torch.float64, device=device)
        (ours,) = gradients(lambda a: matmul(a, a, activation="silu"), (a,), None)
        (theirs,) = gradients(lambda a: torch_composition(a, a, None, "silu", 0), (a,), None)
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)

    def test_an_expanded_operand(self, device: torch.device) -> None:
        row, b = normal(1, 4, dtype=torch.float64, device=device), normal(4, 5, dtype=torch.float64, device=device)
        ours = gradients(lambda row, b: matmul(row.expand(3, 4), b, activation="gelu"), (row, b), None)
        theirs = gradients(lambda row, b: torch_composition(row.expand(3, 4), b, None, "gelu", 0), (row, b), None)
        for got, expected in zip(ours, theirs, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


UNIT = {
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-22,
}  # float32: its sums round more than once


class TestNarrowDtypes:
    """Gradients of 16-bit and float32 operands against the same formula in float64."""

    @pytest.mark.parametrize("dtype", UNIT, ids=str)
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    @pytest.mark.parametrize("batch", [(), (3,)], ids=str)
    def test_against_float64(
        self, device: torch.device, batch: tuple[int, ...], activation: str, dtype: torch.dtype
    ) -> None:
        """The sums are exact, so that the sign at a kink is never in doubt; the rest rounds by UNIT a few times."""
        a = integers(*batch, 34, 6, dtype=dtype, device=device) / 2
        b = integers(6, 40, dtype=dtype, device=device, seed=1) / 2
        bias = integers(40, dtype=dtype, device=device, seed=2) / 4
        upstream = normal(*batch, 34, 40, dtype=dtype, device=device, seed=3)
        ours = gradients(
            lambda a, b, bias: matmul(a, b, bias, activation=activation, slope=0.25), (a, b, bias), upstream
        )
        wide = tuple(t.double() for t in (a, b, bias))
        theirs = gradients(lambda a, b, bias: torch_composition(a, b, bias, activation, 0.25), wide, upstream.double())

        # The gradient before the product is rounded, and off by what rounding its argument may change (|act''| < 1.2).
        total = torch.matmul(wide[0], wide[1]) + wide[2]
        doubt = upstream.double().abs() * (2 + 1.2 * total.abs()) * 2 * UNIT[dtype]
        errors = (
            doubt @ wide[1].abs().transpose(-1, -2),
            (wide[0].abs().transpose(-1, -2) @ doubt).sum(tuple(range(len(batch))))
            if batch
            else wide[0].abs().T @ doubt,
            doubt.sum(tuple(range(doubt.dim() - 1))),
        )
        for name, got, expected, error in zip(("a", "b", "bias"), ours, theirs, errors, strict=True):
            assert got.dtype == dtype
            excess = (got.double() - expected).abs() - error - 2 * UNIT[dtype] * expected.abs()
            assert float(excess.max()) <= 0, f"gradient of {name}: {float(excess.max()):.3g} over the bound"

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
    def test_each_gradient_has_its_operands_dtype(self, device: torch.device, dtype: torch.dtype) -> None:
        a = normal(8, 9, dtype=dtype, device=device).requires_grad_()
        b = normal(9, 10, dtype=dtype, device=device).requires_grad_()
        bias = normal(10, dtype=torch.float32, device=device).requires_grad_()
        for activation in ACTIVATIONS:
            for out_dtype in (dtype, torch.float32):
                result = matmul(a, b, bias, activation=activation, out_dtype=out_dtype)
                assert result.dtype == out_dtype
                grads = torch.autograd.grad(result.sum(), (a, b, bias))
                assert [g.dtype for g in grads] == [dtype, dtype, torch.float32]
                assert all(bool(g.isfinite().all()) for g in grads)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
    def test_the_gradient_of_a_float32_bias_is_summed_in_float32(
        self, device: torch.device, dtype: torch.dtype
    ) -> None:
        """2049 ones: neither 16-bit dtype holds their sum."""
        bias = torch.zeros(3, device=device, requires_grad=True)
        a, b = torch.ones(2049, 2, dtype=dtype, device=device), torch.ones(2, 3, dtype=dtype, device=device)
        (grad,) = torch.autograd.grad(matmul(a, b, bias).sum(), (bias,))
        assert torch.equal(grad, torch.full((3,), 2049.0, device=device))

    @pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
    @pytest.mark.parametrize("recorded", [False, True])
    def test_the_gradient_of_a_float32_bias_of_float64_operands_is_summed_in_float64(
        self, device: torch.device, activation: str, recorded: bool
    ) -> None:
        """Numbers that cancel but for what float32 does not hold of them."""
        a = torch.zeros(3, 4, dtype=torch.float64, device=device)
        b = torch.zeros(4, 2, dtype=torch.float64, device=device)
        bias = torch.full((2,), 40.0, device=device, requires_grad=True)  # where every activation is the identity
        grad = torch.tensor([[1.0], [2.0**-30], [-1.0]], dtype=torch.float64, device=device).expand(3, 2)
        y = matmul(a, b, bias, activation=activation)
        (grad_bias,) = torch.autograd.grad(y, bias, grad, create_graph=recorded)
        assert grad_bias.dtype == torch.float32
        assert torch.equal(grad_bias, torch.full((2,), 2.0**-30, device=device))


class TestRecording:
    def test_out_with_an_operand_that_requires_grad_is_an_error(self, device: torch.device) -> None:
        a, b, out = (
            torch.ones(3, 3, device=device, requires_grad=True),
            torch.ones(3, 3, device=device),
            torch.zeros(3, 3, device=device),
        )
        for arguments in ((a, b), (b, a), (b, b, a[0])):
            with pytest.raises(RuntimeError, match=r"requires? grad|differentiation"):
                matmul.out(*arguments, out=out)
        with pytest.raises(RuntimeError, match=r"requires? grad|differentiation"):
            matmul.out(b, b, out=torch.zeros(3, 3, device=device, requires_grad=True))
        assert not out.any()

    def test_out_is_fine_where_nothing_is_recorded(self, device: torch.device) -> None:
        a, out = torch.ones(3, 3, device=device, requires_grad=True), torch.zeros(3, 3, device=device)
        with torch.no_grad():
            matmul.out(a, a, out=out)
        assert torch.equal(out, torch.full_like(out, 3))
        with torch.inference_mode():
            matmul.out(a, a, activation="relu", out=out)

    def test_nothing_is_recorded_without_need(self, device: torch.device) -> None:
        a = torch.ones(3, 3, device=device)
        assert matmul(a, a).grad_fn is None
        with torch.no_grad():
            assert matmul(a.clone().requires_grad_(), a).grad_fn is None
        with torch.inference_mode():
            assert matmul(a, a).is_inference()

    @pytest.mark.parametrize("activation", ["none", "relu", "leaky_relu", "gelu"])
    def test_an_operand_that_changed_since_the_forward_pass_is_noticed(
        self, device: torch.device, activation: str
    ) -> None:
        a = torch.ones(3, 3, device=device, requires_grad=True)
        b = torch.ones(3, 3, device=device)
        result = matmul(a, b, activation=activation)
        matmul.out(torch.ones(3, 3, device=device), torch.ones(3, 3, device=device), out=b)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()

    @pytest.mark.gpu
    def test_the_row_by_index_is_not_differentiable(self) -> None:
        a = torch.ones(64, 64, device="cuda", requires_grad=True)
        with pytest.raises(RuntimeError):
            torch.ops.tileon._matmul_with_config(a, a, config=0).sum().backward()

    def test_a_module_trains(self, device: torch.device) -> None:
        """Two layers fit a small problem: gradients point downhill through bias, activation and shared weights."""
        torch.manual_seed(0)
        x = torch.randn(4, 16, 8, device=device)
        target = torch.randn(8, 3, device=device)
        w1, w2 = (torch.randn(s, device=device, requires_grad=True) for s in ((8, 32), (32, 3)))
        b1 = torch.zeros(32, device=device, requires_grad=True)
        optimizer = torch.optim.Adam([w1, w2, b1], lr=0.02)
        losses = []
        for _ in range(60):
            loss = (tileon_ops.matmul(tileon_ops.matmul(x, w1, b1, activation="gelu"), w2) - x @ target).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.05 * losses[0]
