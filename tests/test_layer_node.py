"""tileon_ops.Linear in training: one node in the graph, and both products of its backward pass in one call."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import tileon_ops
from tileon_ops._rules import torch_private

if not torch_private.shortcut.is_whole:
    pytest.skip("this torch lacks a name that the node takes", allow_module_level=True)

from tileon_ops._rules.autograd import kernel, layer

N, K = 24, 40
SHAPES = ((5, K), (3, 4, K), (2, 3, 2, K), (1, 2, 1, 3, K), (0, K), (2, 0, K))
EPILOGUES = (("none", False), ("none", True), ("relu", True), ("leaky_relu", True), ("relu", False))


def dtypes_of(device: torch.device) -> list[torch.dtype]:
    """On the CPU products of float32 and float64 have torch's nodes (test_cpu.py)."""
    return [torch.bfloat16, torch.float16, *([] if device.type == "cpu" else [torch.float32, torch.float64])]


def made(device: torch.device, dtype: torch.dtype, shape: tuple[int, ...], activation: str, has_bias: bool) -> tuple:
    torch.manual_seed(0)
    model = tileon_ops.Linear(K, N, has_bias, activation=activation, device=device, dtype=dtype)
    x = torch.randn(shape, device=device, dtype=dtype, requires_grad=True)
    return model, x


def by_op(model: tileon_ops.Linear, x: Tensor) -> Tensor:
    epilogue = {"activation": model.activation, "slope": model.slope}
    return tileon_ops.matmul(x, model.weight.t(), model.bias, **epilogue)


def gradients(y: Tensor, model: nn.Module, x: Tensor, **options: bool) -> list[Tensor]:
    grad = torch.linspace(-1, 1, y.numel(), device=y.device).view(y.shape).to(y.dtype)
    return list(torch.autograd.grad(y, [x, *model.parameters()], grad, **options))


def is_layers(y: Tensor) -> bool:
    return y.grad_fn is not None and y.grad_fn.name() == "_LinearBackward"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of `_linear_backward` and `_matmul_backward`."""
    seen: list[str] = []

    def counted(module: object, name: str) -> None:
        function: Callable[..., object] = getattr(module, name)

        def call(*arguments: object, **options: object) -> object:
            seen.append(name)
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    counted(layer, "_linear_backward")
    counted(kernel, "_matmul_backward")
    return seen


class TestTheSameResults:
    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    @pytest.mark.parametrize(("activation", "has_bias"), EPILOGUES)
    def test_bit_by_bit(
        self, device: torch.device, shape: tuple[int, ...], activation: str, has_bias: bool, calls: list[str]
    ) -> None:
        for dtype in dtypes_of(device):
            model, x = made(device, dtype, shape, activation, has_bias)
            y, wanted = model(x), by_op(model, x)
            assert is_layers(y)
            assert torch.equal(y, wanted)
            assert (y.shape, y.is_contiguous()) == (wanted.shape, True)
            calls.clear()
            found = gradients(y, model, x)
            assert calls == ["_linear_backward"]
            for one, other in zip(found, gradients(wanted, model, x), strict=True):
                assert torch.equal(one, other)
                assert one.stride() == other.stride()

    def test_weights_that_lie_across_and_begin_anywhere(self, device: torch.device) -> None:
        model, _ = made(device, torch.bfloat16, (6, K), "none", True)
        memory = torch.randn(N * K + 3, device=device, dtype=torch.bfloat16)
        model.weight = nn.Parameter(memory[3:].view(K, N).t())
        rows = torch.randn(7 * K + 1, device=device, dtype=torch.bfloat16)[1:].view(7, K).requires_grad_()
        y = model(rows)
        assert is_layers(y)
        assert torch.equal(y, by_op(model, rows))
        for one, other in zip(gradients(y, model, rows), gradients(by_op(model, rows), model, rows), strict=True):
            assert torch.equal(one, other)

    def test_without_elements(self, device: torch.device) -> None:
        """Of any strides: torch calls them contiguous."""
        model, _ = made(device, torch.bfloat16, (5, K), "relu", True)
        x = torch.randn(0, 2 * K, device=device, dtype=torch.bfloat16)[:, ::2].requires_grad_()
        y = model(x)
        assert is_layers(y)
        assert y.shape == (0, N)
        assert [one.shape for one in gradients(y, model, x)] == [(0, K), (N, K), (N,)]
        flat = tileon_ops.Linear(0, N, device=device, dtype=torch.bfloat16)
        nothing = torch.zeros(3, 4, 0, device=device, dtype=torch.bfloat16, requires_grad=True)
        assert torch.equal(flat(nothing), flat.bias.expand(3, 4, N))
        assert [one.shape for one in gradients(flat(nothing), flat, nothing)] == [(3, 4, 0), (N, 0), (N,)]

    def test_gradients_that_are_not_contiguous(self, device: torch.device) -> None:
        for activation, shape in itertools.product(("none", "relu"), ((5, K), (3, 4, K))):
            model, x = made(device, torch.bfloat16, shape, activation, True)
            for grad in (torch.ones((), device=device), torch.randn(N, *shape[:-1], device=device).movedim(0, -1)):
                given = grad.bfloat16().expand(*shape[:-1], N)
                leaves = [x, *model.parameters()]
                found = torch.autograd.grad(model(x), leaves, given)
                for one, other in zip(found, torch.autograd.grad(by_op(model, x), leaves, given), strict=True):
                    assert torch.equal(one, other)

    def test_a_second_derivative(self, device: torch.device, calls: list[str]) -> None:
        for activation, has_bias in EPILOGUES:
            model, x = made(device, torch.bfloat16, (3, 4, K), activation, has_bias)
            results = []
            for y in (model(x), by_op(model, x)):
                calls.clear()
                first = gradients(y, model, x, create_graph=True)
                assert calls == [], "it is made of ops that are differentiable"
                total = sum(one.float().square().sum() for one in first)
                results.append(torch.autograd.grad(total, [x, model.weight]))
            for one, other in zip(*results, strict=True):
                torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)

    @pytest.mark.parametrize("frozen", ["x", "weight", "bias"])
    def test_what_wants_no_gradient_gets_none(self, device: torch.device, frozen: str, calls: list[str]) -> None:
        model, x = made(device, torch.bfloat16, (3, 4, K), "relu", True)
        (x if frozen == "x" else getattr(model, frozen)).requires_grad_(False)
        leaves = [leaf for leaf in (x, model.weight, model.bias) if leaf.requires_grad]
        y, wanted = model(x), by_op(model, x)
        assert is_layers(y)
        kept = [None if one is None else one.data_ptr() for one in y.grad_fn.saved_tensors]
        assert (x.data_ptr() in kept) == (frozen != "weight"), "x is for the weight's gradient"
        assert (model.weight.data_ptr() in kept) == (frozen != "x")
        for is_recorded in (False, True):
            options = {"retain_graph": True, "create_graph": is_recorded}
            found = torch.autograd.grad(y.float().sum(), leaves, **options)
            for one, other in zip(found, torch.autograd.grad(wanted.float().sum(), leaves, **options), strict=True):
                assert torch.equal(one, other)
                assert one.stride() == other.stride()
        assert ("_linear_backward" in calls) == (frozen == "bias")


class TestWhereItIs:
    def test_not_where_the_derivative_needs_z(self, device: torch.device) -> None:
        for activation in ("gelu", "silu"):
            model, x = made(device, torch.bfloat16, (5, K), activation, True)
            assert not is_layers(model(x))

    def test_not_where_somebody_looks_on(self, device: torch.device) -> None:
        model, x = made(device, torch.bfloat16, (5, K), "none", False)
        seen = []

        class See(TorchDispatchMode):
            def __torch_dispatch__(self, op: Any, types: object, args: Any = (), kwargs: Any = None) -> object:
                seen.append(str(op))
                return op(*args, **(kwargs or {}))

        with See():
            y = model(x)
            assert not is_layers(y)
            gradients(y, model, x)
        assert seen.count("tileon.matmul.default") == 3
        with forward_ad.dual_level():
            assert not is_layers(model(x))
        with torch.autocast(device.type, dtype=torch.bfloat16):
            assert not is_layers(model(x))
        strided = torch.randn(5, 2 * K, device=device, dtype=torch.bfloat16)[:, ::2]
        assert not is_layers(model(strided))

    def test_not_without_a_gradient_or_of_operands_that_do_not_fit(self, device: torch.device) -> None:
        model, x = made(device, torch.bfloat16, (5, K), "none", False)
        with torch.no_grad():
            assert model(x).grad_fn is None
        with pytest.raises(RuntimeError, match=r"^matmul: "):
            model(x.float())
        with pytest.raises(RuntimeError, match=r"^matmul: "):
            model(x[:, 1:].contiguous())
        model.bias = nn.Parameter(torch.zeros(N + 1, device=device, dtype=torch.bfloat16))
        with pytest.raises(RuntimeError, match=f"^matmul: `bias` must have n = {N} elements"):
            model(x)

    def test_backward_passes_of_other_kinds(self, device: torch.device) -> None:
        """Batches of gradients, through checkpoints, and in place on the result."""
        model, x = made(device, torch.bfloat16, (3, 4, K), "none", True)
        grads = torch.randn(2, 3, 4, N, device=device).bfloat16()
        y = model(x)
        batch = torch.autograd.grad(y, x, grads, is_grads_batched=True, retain_graph=True)[0]
        for one, grad in zip(batch, grads, strict=True):
            torch.testing.assert_close(one, torch.autograd.grad(y, x, grad, retain_graph=True)[0], rtol=2e-2, atol=2e-2)
        again = checkpoint(model, x, use_reentrant=False)
        assert torch.equal(gradients(again, model, x)[1], gradients(y, model, x, retain_graph=True)[1])
        changed = model(x).relu_()
        assert torch.equal(gradients(changed, model, x)[1], gradients(torch.relu(y), model, x)[1])


class TestTheOps:
    def test_matmul_takes_one_call_too(self, device: torch.device, calls: list[str]) -> None:
        for dtype in dtypes_of(device):
            a = torch.randn(6, K, device=device).to(dtype).requires_grad_()
            for b in (torch.randn(K, N, device=device).to(dtype), torch.randn(N, K, device=device).to(dtype).t()):
                b.requires_grad_()
                calls.clear()
                y = tileon_ops.matmul(a, b)
                found = torch.autograd.grad(y, (a, b), torch.ones_like(y))
                assert calls == ["_matmul_backward"]
                for one, like, wanted in zip(found, (a, b), (y.detach() * 0 + 1, None), strict=True):
                    assert one.shape == like.shape
                    assert one.stride() == like.stride()
                    assert wanted is None or wanted.shape == y.shape
                wide = [x.detach().double().cpu() for x in (a, b)]
                ones = torch.ones(6, N, dtype=torch.double)
                for one, wanted in zip(found, (ones @ wide[1].t(), wide[0].t() @ ones), strict=True):
                    torch.testing.assert_close(one.double().cpu(), wanted, rtol=1e-2, atol=5e-2)

    def test_they_say_what_is_wrong(self, device: torch.device) -> None:
        x, weight, grad = (torch.zeros(*shape, device=device) for shape in ((2, 3, K), (N, K), (2, 3, N)))
        ops = torch.ops.tileon
        for call, words in (
            (lambda: ops._linear(x.transpose(0, 1), weight), "_linear: `x` must be contiguous"),
            (lambda: ops._linear(x[0, 0], weight), "_linear: `x` must be 2-D or more, got 1-D"),
            (lambda: ops._linear(x, weight[0]), "_linear: `weight` must be 2-D, got 1-D"),
            (lambda: ops._linear(x, weight[:, 1:]), "matmul: `b` must have as many rows"),
            (lambda: ops._linear_backward(grad.mT.contiguous().mT, x, weight), "_linear_backward: `grad` must be con"),
            (lambda: ops._linear_backward(grad[:1], x, weight), "matmul: `b` must have as many rows"),
            (lambda: ops._matmul_backward(grad, x, weight), "_matmul_backward: `grad` must be 2-D, got 3-D"),
            (lambda: ops._matmul_backward(grad[0], x[0], weight), "matmul: "),
        ):
            with pytest.raises(RuntimeError, match=f"^{words}"):
                call()
