"""`matmul` under torch.func's transforms and forward-mode gradients: those of torch's own ops, in float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from reference import activate
from torch import Tensor, func
from torch.autograd import forward_ad
from transform_pairs import EPILOGUES, SHAPES, Op, argnums, check, compare, operands, ours, scalar, stacks, theirs

import tileon_ops


@pytest.fixture(autouse=True)
def _no_fallback() -> Iterator[None]:
    """torch's loop over samples says this of itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*performance drop")
        yield


class TestOneTransform:
    @pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
    @pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES)
    @pytest.mark.parametrize(("activation", "slope"), EPILOGUES)
    def test_of_every_epilogue(
        self,
        device: torch.device,
        activation: str,
        slope: float,
        shape_a: tuple[int, ...],
        shape_b: tuple[int, ...],
        bias: bool,
    ) -> None:
        tensors = operands(shape_a, shape_b, bias=bias, device=device)
        tangents = tuple(t + 1 for t in tensors)
        compare(lambda f: func.grad_and_value(f, argnums(tensors))(*tensors), activation, slope)
        compare(lambda f: func.jvp(f, tensors, tangents), activation, slope)
        compare(
            lambda f: func.vjp(f, *tensors)[1](torch.ones((), dtype=torch.float64, device=device)), activation, slope
        )

    @pytest.mark.parametrize("which", range(3))
    def test_of_one_argument(self, device: torch.device, which: int) -> None:
        tensors = operands(device=device)

        def only(f: Op) -> Callable[[Tensor], Tensor]:
            return lambda x: f(*(x if i == which else t for i, t in enumerate(tensors)))

        compare(lambda f: func.grad(only(f))(tensors[which]))
        compare(lambda f: func.jvp(only(f), (tensors[which],), (tensors[which] + 1,)))
        compare(lambda f: func.hessian(only(f))(tensors[which]))

    @pytest.mark.parametrize("jacobian", [func.jacrev, func.jacfwd], ids=["jacrev", "jacfwd"])
    @pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES)
    def test_jacobians_of_the_product_itself(
        self, device: torch.device, jacobian: Any, shape_a: tuple[int, ...], shape_b: tuple[int, ...]
    ) -> None:
        tensors = operands(shape_a, shape_b, device=device)
        for activation in ("none", "leaky_relu", "silu"):
            check(
                lambda op: jacobian(lambda *t: op(*t, activation=activation), argnums(tensors))(*tensors),  # noqa: B023
                ours,
                theirs,
            )

    def test_jacobians_in_chunks(self, device: torch.device) -> None:
        tensors = operands(device=device)
        check(lambda op: func.jacrev(lambda *t: op(*t, activation="silu"), chunk_size=2)(*tensors), ours, theirs)

    def test_linearize(self, device: torch.device) -> None:
        tensors = operands(device=device)
        compare(lambda f: func.linearize(f, *tensors)[1](*(t + 1 for t in tensors)))

    def test_dual_numbers(self, device: torch.device) -> None:
        tensors = operands(device=device)

        def tangent(f: Op) -> Tensor:
            with forward_ad.dual_level():
                duals = [forward_ad.make_dual(t, t + 1) for t in tensors]
                return forward_ad.unpack_dual(f(*duals)).tangent

        for activation, slope in EPILOGUES:
            compare(tangent, activation, slope)

    def test_of_the_wrapper(self, device: torch.device) -> None:
        tensors = operands((2, 1, 3, 4), (2, 4, 2), device=device)
        tangents = tuple(t + 1 for t in tensors)
        ops = (tileon_ops.matmul, lambda *t, activation: activate(torch.matmul(t[0], t[1]) + t[2], activation, 0))
        for transform in (
            lambda f: func.grad(f, (0, 1, 2))(*tensors),
            lambda f: func.jvp(f, tensors, tangents),
            lambda f: func.jacfwd(f)(*tensors),
        ):
            check(transform, *(scalar(op, activation="gelu_tanh") for op in ops))


class TestNested:
    @pytest.mark.parametrize(("activation", "slope"), EPILOGUES)
    def test_hessians(self, device: torch.device, activation: str, slope: float) -> None:
        """Forward over reverse, reverse over reverse, forward over forward, reverse over forward."""
        tensors = operands(device=device)
        for outer, inner in ((func.jacfwd, func.jacrev), (func.jacrev, func.jacrev), (func.jacfwd, func.jacfwd)):
            compare(lambda f: outer(inner(f, (0, 2)), (0, 1))(*tensors), activation, slope)  # noqa: B023
        compare(lambda f: func.jacrev(func.jacfwd(f, 1), 0)(*tensors), activation, slope)

    @pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES)
    def test_hessian_vector_products_of_batches(
        self, device: torch.device, shape_a: tuple[int, ...], shape_b: tuple[int, ...]
    ) -> None:
        tensors = operands(shape_a, shape_b, device=device)
        tangents = tuple(t + 1 for t in tensors)
        compare(lambda f: func.jvp(func.grad(f, (0, 1, 2)), tensors, tangents), "silu")

    def test_three_levels(self, device: torch.device) -> None:
        tensors = operands(device=device)

        def third(f: Op) -> Any:
            first = lambda a: func.grad(f)(a, *tensors[1:]).square().sum()  # noqa: E731
            return func.grad(lambda a: func.grad(first)(a).square().sum())(tensors[0])

        for activation in ("none", "leaky_relu", "silu"):
            compare(third, activation)

    def test_within_autograd(self, device: torch.device) -> None:
        """A leaf outside the transform gets its gradient through it."""

        def through(f: Op) -> Any:
            a, b, bias = (t.clone().requires_grad_() for t in operands(device=device))
            inner = func.grad(lambda bias: f(a, b, bias))(bias).square().sum()
            return torch.autograd.grad(inner, (a, b, bias))

        for activation, slope in EPILOGUES:
            if activation in ("gelu", "gelu_tanh", "silu", "none"):
                compare(through, activation, slope)

    def test_autograd_through_vmap(self, device: torch.device) -> None:
        for in_dims in ((0, None, None), (None, 0, 0), (0, 0, 0), (None, None, 0)):

            def through(f: Op) -> Any:
                leaves = [t.requires_grad_() for t in stacks(operands(device=device), in_dims)]  # noqa: B023
                return torch.autograd.grad(torch.vmap(f, in_dims)(*leaves).square().sum(), leaves)  # noqa: B023

            compare(through)

    def test_autograd_within_a_transform(self, device: torch.device) -> None:
        """torch.autograd.grad twice, below vmap of its own backward."""
        tensors = operands(device=device)

        def through(f: Op) -> Any:
            a = tensors[0].clone().requires_grad_()
            (first,) = torch.autograd.grad(f(a, *tensors[1:]), a, create_graph=True)
            basis = torch.eye(a.numel(), dtype=a.dtype, device=device).view(-1, *a.shape)
            return torch.autograd.grad(first, a, basis, is_grads_batched=True)

        compare(through)

    def test_no_grad_within_grad(self, device: torch.device) -> None:
        a, b, bias = operands(device=device)

        def half(f: Op) -> Op:
            def function(a: Tensor) -> Tensor:
                with torch.no_grad():
                    constant = f(a, b, bias)
                return f(a, b, bias) * constant

            return function

        compare(lambda f: func.grad(half(f))(a))


IN_DIMS = ((0, None, None), (None, 0, None), (None, None, 0), (0, 0, None), (1, 2, 1), (None, 1, 0), (0, 0, 0))


class TestMapped:
    @pytest.mark.parametrize("in_dims", IN_DIMS, ids=str)
    @pytest.mark.parametrize(("activation", "slope"), EPILOGUES)
    def test_gradients_of_each_sample(
        self, device: torch.device, activation: str, slope: float, in_dims: tuple[int | None, ...]
    ) -> None:
        tensors = stacks(operands(device=device), in_dims)
        compare(lambda f: func.vmap(func.grad(f, (0, 1, 2)), in_dims)(*tensors), activation, slope)

    @pytest.mark.parametrize("in_dims", IN_DIMS, ids=str)
    def test_other_transforms_of_each_sample(self, device: torch.device, in_dims: tuple[int | None, ...]) -> None:
        tensors = stacks(operands(device=device), in_dims)
        compare(lambda f: func.vmap(func.jacfwd(f, (0, 1, 2)), in_dims)(*tensors))
        compare(lambda f: func.vmap(func.hessian(f, 2), in_dims)(*tensors), "silu")
        compare(lambda f: func.vmap(lambda *t: func.jvp(f, t, t), in_dims)(*tensors), "leaky_relu")
        compare(lambda f: func.grad(lambda *t: func.vmap(f, in_dims)(*t).square().sum(), (0, 1, 2))(*tensors))
        compare(lambda f: func.jvp(func.vmap(f, in_dims), tensors, tensors))

    @pytest.mark.parametrize(("shape_a", "shape_b"), SHAPES)
    def test_gradients_of_batched_samples(
        self, device: torch.device, shape_a: tuple[int, ...], shape_b: tuple[int, ...]
    ) -> None:
        for in_dims in IN_DIMS:
            tensors = stacks(operands(shape_a, shape_b, device=device), in_dims)
            compare(lambda f: func.vmap(func.grad(f, (0, 1, 2)), in_dims)(*tensors))  # noqa: B023

    @pytest.mark.parametrize("chunk_size", [1, 2])
    def test_in_chunks(self, device: torch.device, chunk_size: int) -> None:
        tensors = stacks(operands(device=device), (0, None, None))
        compare(lambda f: func.vmap(func.grad(f, 1), (0, None, None), chunk_size=chunk_size)(*tensors))

    def test_maps_of_maps(self, device: torch.device) -> None:
        a, b, bias = operands(device=device)
        a, bias = torch.stack([a, a + 1]), torch.stack([bias, -bias, 2 * bias])
        outer, inner = (0, None, None), (None, None, 0)
        compare(lambda f: func.vmap(func.vmap(func.grad(f, (0, 1, 2)), inner), outer)(a, b, bias))


class TestNarrowDtypes:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
    def test_keep_their_dtypes(self, device: torch.device, dtype: torch.dtype) -> None:
        """Gradients have their operand's dtype, tangents the output's."""
        a, b, bias = (t.to(dtype) for t in operands(device=device))
        f = scalar(ours, activation="gelu")
        for grad, operand in zip(func.grad(f, (0, 1, 2))(a, b, bias), (a, b, bias), strict=True):
            assert grad.dtype == dtype
            assert grad.shape == operand.shape
        grads = func.vmap(func.grad(f, (0, 1, 2)), (0, None, None))(torch.stack([a, a]), b, bias.float())
        assert [g.dtype for g in grads] == [dtype, dtype, torch.float32]
        value, tangent = func.jvp(lambda *t: ours(*t, activation="gelu"), (a, b, bias), (a, b, bias))
        assert value.dtype == tangent.dtype == dtype

    def test_fp8_operands_are_refused(self, device: torch.device) -> None:
        a = torch.ones(3, 3, device=device).to(torch.float8_e4m3fn)
        b = torch.ones(3, 3, device=device).to(torch.float8_e4m3fn)
        with pytest.raises(RuntimeError, match=r"^matmul: `a` requires grad, and no gradient flows through fp8"):
            func.grad(lambda a: torch.ops.tileon.matmul(a, b).float().sum())(a)
