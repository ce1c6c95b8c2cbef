"""torch.func's transforms of modules, and in compiled functions: those of torch's own ops, in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from operands import normal
from torch import Tensor, func
from torch._dynamo.testing import CompileCounterWithBackend
from transform_pairs import Op, Tensors, check, compare, operands, ours, stacks, theirs

import tileon_ops


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

    def test_of_linear(self, device: torch.device) -> None:
        """tileon_ops.Linear, per sample and as an ensemble, against nn.Linear and the activation."""
        x = normal(5, 4, dtype=torch.float64, device=device)
        plain = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.SiLU(), torch.nn.Linear(3, 2)).to(x)
        fused = torch.nn.Sequential(tileon_ops.Linear(4, 3, activation="silu"), tileon_ops.Linear(3, 2)).to(x)
        with torch.no_grad():
            for mine, other in zip(fused.parameters(), plain.parameters(), strict=True):
                mine.copy_(other)
        for transform in (
            lambda f: func.vmap(func.grad(f), (None, 0))(tuple(p.detach() for p in plain.parameters()), x),
            lambda f: func.vmap(func.grad(f), (0, None))(
                tuple(torch.stack([p, 2 * p]).detach() for p in plain.parameters()), x
            ),
        ):
            results = []
            for module in (fused, plain):
                names = [name for name, _ in module.named_parameters()]

                def loss(parameters: Tensors, x: Tensor) -> Tensor:
                    named = dict(zip(names, parameters, strict=True))  # noqa: B023
                    return func.functional_call(module, named, (x,)).square().sum()  # noqa: B023

                results.append(transform(loss))
            torch.testing.assert_close(*results, rtol=1e-11, atol=1e-11)


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

    @pytest.mark.parametrize("in_dims", [(0, 0, None), (0, None, None), (None, 0, 0)], ids=str)
    def test_a_compiled_vmap_serves_every_size(self, device: torch.device, in_dims: tuple[int | None, ...]) -> None:
        counter = CompileCounterWithBackend("aot_eager")
        mapped = torch.vmap(lambda *t: ours(*t, activation="gelu"), in_dims)
        compiled = torch.compile(mapped, fullgraph=True, dynamic=True, backend=counter)
        frames = []
        for size, m, k, n in ((3, 5, 7, 6), (8, 9, 4, 11), (2, 33, 17, 5)):
            tensors = stacks(operands((m, k), (k, n), device=device), in_dims, size)
            torch.testing.assert_close(compiled(*tensors), mapped(*tensors), rtol=1e-12, atol=1e-12)
            frames.append(counter.frame_count)
        assert frames[0] == frames[-1]

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
