"""Autocast in every company: biases of each dtype, nested regions, gradients, torch.func's transforms, torch.compile.

What it does to the operands alone is in test_wrapper.py, to mapped ones in test_vmap.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from operands import integers, normal
from torch import Tensor, func

import tileon_ops

matmul = torch.ops.tileon.matmul

TO = (torch.float16, torch.bfloat16)
FLOATS = (*TO, torch.float32)


@pytest.fixture(params=TO, ids=str)
def to(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture
def tensors(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """float32 operands and bias whose products are exact in every dtype."""
    return tuple(integers(*s, dtype=torch.float32, device=device, seed=i) for i, s in enumerate(((5, 6), (6, 7), (7,))))  # type: ignore


class TestBias:
    @pytest.mark.parametrize("dtype", FLOATS, ids=str)
    def test_of_any_float_dtype_is_taken(
        self, device: torch.device, to: torch.dtype, dtype: torch.dtype, tensors: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        """As torch's own linear takes it; float32 ones are added in float32."""
        a, b, bias = tensors
        with torch.autocast(device.type, dtype=to):
            actual = matmul(a, b, bias.to(dtype), activation="relu")
        assert actual.dtype == to
        assert torch.equal(actual, (a @ b + bias).relu().to(to))

    def test_of_float32_is_not_rounded(self, device: torch.device, to: torch.dtype) -> None:
        """1 + 2^-12 - 1: a bias of 16 bits would have lost it."""
        one, bias = torch.ones(1, 1, device=device), torch.full((1,), -1 - 2.0**-12, device=device)
        with torch.autocast(device.type, dtype=to):
            assert matmul(one, one, bias, out_dtype=torch.float32).item() == -(2.0**-12)

    @pytest.mark.parametrize("out_dtype", FLOATS, ids=str)
    def test_follows_the_outputs_dtype(
        self,
        device: torch.device,
        to: torch.dtype,
        out_dtype: torch.dtype,
        tensors: tuple[Tensor, Tensor, Tensor],
    ) -> None:
        a, b, bias = tensors
        for dtype in FLOATS:
            with torch.autocast(device.type, dtype=to):
                actual = matmul(a, b, bias.to(dtype), out_dtype=out_dtype)
            assert actual.dtype == out_dtype
            assert torch.equal(actual, (a @ b + bias).to(out_dtype))

    def test_of_float64_with_narrow_operands_is_an_error(
        self, device: torch.device, to: torch.dtype, tensors: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        a, b, bias = tensors
        with torch.autocast(device.type, dtype=to), pytest.raises(RuntimeError, match=r"^matmul: `bias` must be "):
            matmul(a, b, bias.double())


class TestRegions:
    def test_that_are_disabled_inside_others(
        self, device: torch.device, to: torch.dtype, tensors: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        with torch.autocast(device.type, dtype=to):
            with torch.autocast(device.type, enabled=False):
                assert matmul(*tensors).dtype == torch.float32
                assert tileon_ops.matmul(*tensors).dtype == torch.float32
                assert torch.vmap(matmul, (0, None, None))(tensors[0][:, None], *tensors[1:]).dtype == torch.float32
            assert matmul(*tensors).dtype == to

    def test_of_another_dtype_inside_others(
        self, device: torch.device, to: torch.dtype, tensors: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        (other,) = set(TO) - {to}
        with torch.autocast(device.type, dtype=other):
            hidden = matmul(*tensors)
            with torch.autocast(device.type, dtype=to):
                again = matmul(hidden, tensors[1].t())
        assert (hidden.dtype, again.dtype) == (other, to)

    def test_of_the_other_device_change_nothing(
        self, device: torch.device, to: torch.dtype, tensors: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        other = "cpu" if device.type == "cuda" else "cuda"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is no GPU
            region = torch.autocast(other, dtype=to)
        with region:
            assert matmul(*tensors).dtype == torch.float32
            assert torch.vmap(matmul, (0, None, None))(tensors[0][:, None], *tensors[1:]).dtype == torch.float32

    def test_do_not_reach_out(
        self, device: torch.device, to: torch.dtype, tensors: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        out = torch.empty(5, 7, device=device)
        with torch.autocast(device.type, dtype=to):
            assert tileon_ops.matmul(*tensors, out=out) is out
        assert torch.equal(out, tensors[0] @ tensors[1] + tensors[2])


def loss(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    return matmul(a, b, bias, activation="leaky_relu", slope=0.5).float().sum()


def expected_gradients(a: Tensor, b: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    leaves = tuple(t.detach().clone().requires_grad_() for t in (a, b, bias))
    total = torch.nn.functional.leaky_relu(leaves[0] @ leaves[1] + leaves[2], 0.5).sum()
    return torch.autograd.grad(total, leaves)  # type: ignore


class TestGradients:
    @pytest.mark.parametrize("bias_dtype", FLOATS, ids=str)
    def test_have_the_dtypes_of_what_was_given(
        self, device: torch.device, to: torch.dtype, bias_dtype: torch.dtype, tensors: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        a, b, bias = tensors[0].requires_grad_(), tensors[1].to(to).requires_grad_(), tensors[2].to(bias_dtype)
        bias.requires_grad_()
        with torch.autocast(device.type, dtype=to):
            value = loss(a, b, bias)
        grads = torch.autograd.grad(value, (a, b, bias))
        for got, given, wanted in zip(grads, (a, b, bias), expected_gradients(*tensors), strict=True):
            assert got.dtype == given.dtype
            assert torch.equal(got.float(), wanted)

    @pytest.mark.parametrize("transform", ["grad", "vmap of grad", "jacrev", "jacfwd"])
    def test_by_torch_func(
        self, device: torch.device, to: torch.dtype, transform: str, tensors: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        argnums = (0, 1, 2)
        with torch.autocast(device.type, dtype=to):
            if transform == "vmap of grad":
                stacked = tuple(torch.stack([t, t]) for t in tensors)
                grads = func.vmap(func.grad(loss, argnums))(*stacked)
                assert all(torch.equal(g[0], g[1]) for g in grads)
                grads = tuple(g[0] for g in grads)
            else:
                grads = getattr(func, transform)(loss, argnums)(*tensors)
        for got, wanted in zip(grads, expected_gradients(*tensors), strict=True):
            assert torch.equal(got.float(), wanted)

    def test_of_linear(self, device: torch.device, to: torch.dtype) -> None:
        module, x = (
            tileon_ops.Linear(6, 7, activation="gelu").to(device),
            normal(5, 6, dtype=torch.float32, device=device),
        )
        with torch.autocast(device.type, dtype=to):
            result = module(x)
        result.sum().backward()
        assert result.dtype == to
        assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in module.parameters())


class TestCompiled:
    @pytest.fixture(autouse=True)
    def _fresh_compiler(self) -> Iterator[None]:
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()

    def test_regions_within_one_graph(
        self, device: torch.device, to: torch.dtype, tensors: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        def model(a: Tensor, b: Tensor, bias: Tensor) -> Any:
            with torch.autocast(device.type, dtype=to):
                narrow = matmul(a, b, bias, activation="relu")
                mapped = torch.vmap(matmul, (None, None, 0))(a, b, torch.stack([bias, bias]))
                with torch.autocast(device.type, enabled=False):
                    wide = matmul(a, b, bias)
            return narrow, mapped, wide

        leaves = tuple(t.requires_grad_() for t in tensors)
        actual = torch.compile(model, fullgraph=True, backend="aot_eager")(*leaves)
        for got, wanted in zip(actual, model(*leaves), strict=True):
            assert got.dtype == wanted.dtype
            assert torch.equal(got, wanted)
        grads = torch.autograd.grad(sum(t.float().sum() for t in actual), leaves)
        assert [g.dtype for g in grads] == [torch.float32] * 3

    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_a_region_around_the_compiled_function(
        self, device: torch.device, backend: str, tensors: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        to = torch.bfloat16
        compiled = torch.compile(lambda *t: matmul(*t, activation="relu"), fullgraph=True, backend=backend)
        assert compiled(*tensors).dtype == torch.float32
        with torch.autocast(device.type, dtype=to):
            actual, expected = compiled(*tensors), matmul(*tensors, activation="relu")
        assert actual.dtype == to
        assert torch.equal(actual, expected)
