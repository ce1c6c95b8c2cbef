"""`matmul` under torch.func's transforms and forward-mode gradients: those of torch's own ops, in float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from operands import normal
from reference import ACTIVATIONS, activate
from torch import Tensor, func
from torch.autograd import forward_ad

import tileon_ops

SLOPES = {"leaky_relu": (0.3, -0.5)}  # of a negative slope the output does not tell the argument's sign
EPILOGUES = [(activation, slope) for activation in ACTIVATIONS for slope in SLOPES.get(activation, (0.01,))]

# Of a, b and bias, for one sample: shared operands, and batches of one and of both.
SHAPES = (
    pytest.param((3, 4), (4, 2), id="2d"),
    pytest.param((3, 3, 4), (4, 2), id="b_shared"),
    pytest.param((3, 4), (3, 4, 2), id="a_shared"),
    pytest.param((3, 3, 4), (1, 4, 2), id="b_batch_1"),
    pytest.param((2, 3, 4), (2, 4, 2), id="batched"),
)

Op = Callable[..., Tensor]
Tensors = tuple[Tensor, ...]


@pytest.fixture(autouse=True)
def _no_fallback() -> Iterator[None]:
    """torch's loop over samples says this of itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*performance drop")
        yield


def ours(a: Tensor, b: Tensor, bias: Tensor | None = None, *, activation: str, slope: float = 0.01) -> Tensor:
    return torch.ops.tileon.matmul(a, b, bias, activation=activation, slope=slope)


def theirs(a: Tensor, b: Tensor, bias: Tensor | None = None, *, activation: str, slope: float = 0.01) -> Tensor:
    total = torch.matmul(a, b)
    return activate(total if bias is None else total + bias, activation, slope)


def operands(
    shape_a: tuple[int, ...] = (3, 4), shape_b: tuple[int, ...] = (4, 2), *, bias: bool = True, device: torch.device
) -> Tensors:
    shapes = (shape_a, shape_b, *([shape_b[-1:]] if bias else []))
    return tuple(normal(*shape, dtype=torch.float64, device=device, seed=i) for i, shape in enumerate(shapes))


def stacks(tensors: Tensors, in_dims: tuple[int | None, ...], size: int = 3) -> Tensors:
    """Other values for each sample where a tensor is mapped."""
    return tuple(
        t if d is None else torch.stack([t * (i + 1) - 0.3 * i for i in range(size)], d)
        for t, d in zip(tensors, in_dims, strict=True)
    )


def scalar(op: Op, **epilogue: Any) -> Op:
    """A function of the operands whose every derivative is curved."""
    return lambda *tensors: op(*tensors, **epilogue).sin().sum()


def check(transform: Callable[[Op], Any], *ops: Op) -> None:
    """That `transform` makes the same of both."""
    actual, expected = (transform(op) for op in ops)
    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-11)


def compare(transform: Callable[[Op], Any], activation: str = "gelu", slope: float = 0.01) -> None:
    """That `transform` makes the same of a scalar function of ours and of theirs."""
    check(transform, *(scalar(op, activation=activation, slope=slope) for op in (ours, theirs)))


def argnums(tensors: Tensors) -> tuple[int, ...]:
    return tuple(range(len(tensors)))


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


class Block(torch.nn.Module):
    """Two layers of `op`, the second shared by two calls."""

    def __init__(self, op: Op) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def parameter(*shape: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.randn(*shape, generator=generator, dtype=torch.float64) / 2)

        self.op = op
        self.w1, self.b1, self.w2 = parameter(6, 4), parameter(6), parameter(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.op(x, self.w1.t(), self.b1, activation="gelu")
        return self.op(self.op(hidden, self.w2.t(), activation="silu"), self.w2, activation="leaky_relu")


class TestModules:
    def test_gradients_of_each_sample(self, device: torch.device) -> None:
        x = normal(5, 4, dtype=torch.float64, device=device)

        def per_sample(op: Op) -> Any:
            module = Block(op).to(device)
            parameters = {name: p.detach() for name, p in module.named_parameters()}

            def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
                return func.functional_call(module, parameters, (x[None],)).square().sum()

            return func.vmap(func.grad(loss), (None, 0))(parameters, x)

        check(per_sample, ours, theirs)

    def test_ensembles(self, device: torch.device) -> None:
        x = normal(5, 4, dtype=torch.float64, device=device)

        def ensemble(op: Op) -> Tensor:
            modules = [Block(op).to(device) for _ in range(3)]
            with torch.no_grad():
                for i, module in enumerate(modules):
                    for p in module.parameters():
                        p.mul_(i + 1)
            parameters, _ = func.stack_module_state(modules)
            return func.vmap(lambda p: func.functional_call(modules[0], p, (x,)))(parameters)

        check(ensemble, ours, theirs)


class TestCompiled:
    @pytest.fixture(autouse=True)
    def _fresh_compiler(self) -> Iterator[None]:
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()

    @pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
    def test_vmap_of_grad_is_one_graph(self, device: torch.device, backend: str) -> None:
        in_dims = (0, None, 0)
        tensors = stacks(operands(device=device), in_dims)
        compare(
            lambda f: torch.compile(func.vmap(func.grad(f, (0, 1, 2)), in_dims), fullgraph=True, backend=backend)(
                *tensors
            )
        )

    @pytest.mark.parametrize("activation", ["none", "leaky_relu", "silu"])
    def test_other_transforms(self, device: torch.device, activation: str) -> None:
        tensors = operands(device=device)

        def transformed(transform: Callable[[Op], Op]) -> None:
            compare(
                lambda f: torch.compile(lambda *t: transform(f)(*t), fullgraph=True, backend="aot_eager")(*tensors),
                activation,
            )

        transformed(lambda f: func.grad(f, (0, 1, 2)))
        transformed(lambda f: func.jacrev(f, (0, 2)))
        transformed(lambda f: lambda *t: func.jvp(f, t, t))
        transformed(lambda f: func.jacfwd(f))

    def test_autograd_through_a_compiled_vmap(self, device: torch.device) -> None:
        in_dims = (0, None, 0)

        def through(f: Op) -> Any:
            leaves = [t.requires_grad_() for t in stacks(operands(device=device), in_dims)]
            mapped = torch.compile(torch.vmap(f, in_dims), fullgraph=True, backend="aot_eager")
            return torch.autograd.grad(mapped(*leaves).square().sum(), leaves)

        compare(through)


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
