"""What a product with a 16-bit `a` keeps for its gradients, what its backward pass runs, and torch.func around it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from operands import normal
from reference import ACTIVATIONS, activate
from torch import Tensor, func
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from weights import exact_weight, random_weight

from tileon_ops._rules.activations import ACTIVATIONS as ROWS
from tileon_ops._rules.autograd import decoding

op = torch.ops.tileon.block_scaled_matmul
backward_op = torch.ops.tileon._block_scaled_backward

M, N, K = 6, 16, 64


def leaves(*wanted: bool, device: torch.device, dtype: torch.dtype = torch.bfloat16) -> tuple[Tensor, Tensor]:
    """a and bias, of which those require grad that are wanted."""
    a = normal(M, K, dtype=dtype, device=device) / 8
    bias = normal(N, dtype=torch.float32, device=device, seed=1)
    of_a, of_bias = wanted or (True, True)
    return a.requires_grad_(of_a), bias.requires_grad_(of_bias)


def weight_of(name: str, device: torch.device) -> tuple[Tensor, Tensor]:
    weight = random_weight(name, N, K)
    return weight.data.to(device), weight.scale.to(device)


def saved_by(run: Callable[[], object]) -> list[Tensor]:
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):  # type: ignore[func-returns-value]
        run()
    return saved


class Seen(TorchDispatchMode):
    """Names of the package's ops in the order in which they run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.namespace == "tileon":
            self.names.append(function._schema.name.removeprefix("tileon::"))
        return function(*args, **(kwargs or {}))


class TestWhatIsSaved:
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_the_weight_for_a_and_one_tensor_for_the_activation(self, device: torch.device, activation: str) -> None:
        b, scale = weight_of("nvfp4", device)
        factor = torch.tensor(0.5, device=device)
        of_weight = [t.data_ptr() for t in (b, scale, factor)]
        for wanted in ((True, True), (True, False), (False, True)):
            a, bias = leaves(*wanted, device=device)
            y: list[Tensor] = []
            saved = saved_by(lambda: y.append(op(a, b, None, scale, bias, factor, activation=activation)))  # noqa: B023
            computes_z = ROWS[activation].needs_z(0.01)
            expected = of_weight if wanted[0] or computes_z else []
            expected = expected + ([a.data_ptr(), bias.data_ptr()] if computes_z else [])
            if activation in ("relu", "leaky_relu"):
                expected = [*expected, y[0].data_ptr()]
            assert sorted(t.data_ptr() for t in saved) == sorted(expected)

    @pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
    def test_goes_with_the_output_and_waits_for_no_garbage_collector(
        self, device: torch.device, activation: str
    ) -> None:
        b, scale = weight_of("mxfp8", device)
        a, bias = leaves(device=device)
        gc.disable()
        try:
            output = op(a, b, None, scale, bias, activation=activation)
            output.sum().backward()
            node = weakref.ref(output.grad_fn)
            del output
            assert node() is None
        finally:
            gc.enable()

    def test_no_decoded_weight_is_kept_by_a_gradient_that_is_recorded(self, device: torch.device) -> None:
        b, scale = weight_of("float8_e4m3fn_128x128", device)
        a, bias = leaves(device=device)
        y = op(a, b, None, scale, bias)
        saved = saved_by(lambda: torch.autograd.grad(y.sum(), a, create_graph=True))
        assert {t.data_ptr() for t in saved} <= {b.data_ptr(), scale.data_ptr()}


class TestBackwardPass:
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_computes_z_again_only_where_the_derivative_needs_it(self, device: torch.device, activation: str) -> None:
        b, scale = weight_of("mxfp4", device)
        for wanted in ((True, True), (False, True)):
            a, bias = leaves(*wanted, device=device)
            output = op(a, b, None, scale, bias, activation=activation)
            with Seen() as seen:
                output.backward(torch.ones_like(output))
            epilogue = [] if activation == "none" else ["_epilogue_backward"]
            z = ["block_scaled_matmul"] * ROWS[activation].needs_z(0.01)
            assert seen.names == z + epilogue + ["_block_scaled_backward"] * wanted[0]

    def test_decodes_a_slice_of_the_weight_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        decoded: list[tuple[int, ...]] = []
        decode = decoding.decoded

        def watched(b: Tensor, scale: Tensor, begin: int, end: int) -> Tensor:
            decoded.append((begin, end))
            return decode(b, scale, begin, end)

        monkeypatch.setattr(decoding, "decoded", watched)
        monkeypatch.setattr(decoding, "_SLICE_BYTES", 4 * 256 * K)
        for name in ("nvfp4", "float8_e5m2_128x128", "int8_row"):
            weight = random_weight(name, 1000, K, packed=True)
            decoded.clear()
            backward_op(torch.ones(2, 1000, dtype=torch.float16), weight.data, weight.scale)
            assert decoded == [(0, 256), (256, 512), (512, 768), (768, 1000)]

    def test_slices_are_bounded_for_every_k(self) -> None:
        for k in (0, 1, 31, 4096, 14336, 1 << 20):
            rows = decoding._rows_at_a_time(k)
            assert rows % 128 == 0
            assert rows == 128 or rows * k * 4 <= decoding._SLICE_BYTES

    def test_two_passes_give_the_same_bits(self, device: torch.device) -> None:
        weight = random_weight("float8_e4m3fn_1x128", 700, 384)
        b, scale = weight.data.to(device), weight.scale.to(device)
        grad = normal(33, 700, dtype=torch.bfloat16, device=device)
        first = backward_op(grad, b, scale)
        assert all(torch.equal(first, backward_op(grad, b, scale)) for _ in range(3))

    def test_under_autocast_the_backward_pass_multiplies_float32(self, device: torch.device) -> None:
        weight = random_weight("mxfp8", 300, 96)
        grad = normal(5, 300, dtype=torch.float16, device=device)
        expected = backward_op(grad, weight.data.to(device), weight.scale.to(device))
        with torch.autocast(device.type, dtype=torch.bfloat16):
            assert torch.equal(backward_op(grad, weight.data.to(device), weight.scale.to(device)), expected)


def gradients(call: Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    output = call(*tensors)
    return output, *torch.autograd.grad(output.sin().sum(), tensors)


def in_a_checkpoint(call: Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    output = checkpoint(call, *tensors, use_reentrant=False)
    return output, *torch.autograd.grad(output.sin().sum(), tensors)


def under_a_dispatch_mode(call: Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    with Seen() as seen:
        results = gradients(call, tensors)
    assert seen.names[0] == "block_scaled_matmul"
    return results


def with_saved_tensors_on_the_cpu(call: Callable[..., Tensor], tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    with torch.autograd.graph.save_on_cpu():
        return gradients(call, tensors)


class TestCompanies:
    @pytest.mark.parametrize(
        "company", [in_a_checkpoint, under_a_dispatch_mode, with_saved_tensors_on_the_cpu], ids=lambda c: c.__name__
    )
    def test_change_no_bit(self, device: torch.device, company: Callable[..., tuple[Tensor, ...]]) -> None:
        b, scale = weight_of("float8_e4m3fn_row", device)
        for activation in ("none", "relu", "gelu"):
            tensors = leaves(device=device)

            def call(a: Tensor, bias: Tensor) -> Tensor:
                result: Tensor = op(a, b, None, scale, bias, activation=activation, out_dtype=torch.float32)  # noqa: B023
                return result

            for got, wanted in zip(company(call, tensors), gradients(call, tensors), strict=True):
                assert torch.equal(got, wanted)

    def test_compiled_autograd(self, device: torch.device) -> None:
        compiler = torch.compile(backend="aot_eager")
        b, scale = weight_of("mxfp8", device)
        for activation, slope in (("none", 0.0), ("gelu", 0.0), ("leaky_relu", 0.5), ("leaky_relu", -0.25)):
            tensors = leaves(device=device)
            loss = op(tensors[0], b, None, scale, tensors[1], activation=activation, slope=slope).float().sin().sum()
            expected = torch.autograd.grad(loss, tensors, retain_graph=True)
            with torch._dynamo.compiled_autograd._enable(compiler):
                loss.backward()
            for tensor, gradient in zip(tensors, expected, strict=True):
                torch.testing.assert_close(tensor.grad, gradient, rtol=1e-2, atol=1e-2)


Op = Callable[..., Tensor]
EPILOGUES = (("none", 0.0), ("relu", 0.0), ("leaky_relu", 0.3), ("leaky_relu", -0.5), ("gelu", 0.0), ("silu", 0.0))


class TestTransforms:
    """torch.func's transforms and forward mode, against torch's own ops in float64 on the same numbers."""

    SHAPE = (3, 5, 32)  # m, n, k

    def compare(self, device: torch.device, transform: Callable[[Op], Any], activation: str, slope: float) -> None:
        m, n, k = self.SHAPE
        weight = exact_weight("mxfp8", n, k)
        b, scale = weight.data.to(device), weight.scale.to(device)
        factor = torch.full((m, 1), 0.125, device=device)

        def ours(a: Tensor, bias: Tensor) -> Tensor:
            y: Tensor = op(
                *(a.half(), b, None, scale, bias.float(), factor),
                activation=activation, slope=slope, out_dtype=torch.float32,
            )  # fmt: skip
            return y.double().square().sum()

        def theirs(a: Tensor, bias: Tensor) -> Tensor:
            z = a @ weight.values.to(device).t() * 0.125 + bias
            return activate(z, activation, slope).square().sum()

        leaves_of = torch.utils._pytree.tree_leaves
        for got, expected in zip(leaves_of(transform(ours)), leaves_of(transform(theirs)), strict=True):
            largest = expected.abs().max().item()
            assert (got.double() - expected).abs().max().item() <= 4e-3 * largest, (activation, slope)

    def tensors(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Of float64, which is rounded inside of the functions; these are numbers of float16."""
        m, n, k = self.SHAPE
        a = normal(m, k, dtype=torch.float16, device=device) / 4
        return a.double(), normal(n, dtype=torch.float16, device=device, seed=1).double()

    @pytest.mark.parametrize(("activation", "slope"), EPILOGUES)
    def test_of_one_level(self, device: torch.device, activation: str, slope: float) -> None:
        tensors = self.tensors(device)
        tangents = tuple(torch.ones_like(t) for t in tensors)
        for transform in (
            lambda f: func.grad_and_value(f, (0, 1))(*tensors),
            lambda f: func.jvp(f, tensors, tangents),
            lambda f: func.jacfwd(f, (0, 1))(*tensors),
            lambda f: func.jacrev(f, (0, 1))(*tensors),
        ):
            self.compare(device, transform, activation, slope)

    @pytest.mark.parametrize(("activation", "slope"), EPILOGUES)
    def test_of_two_levels(self, device: torch.device, activation: str, slope: float) -> None:
        tensors = self.tensors(device)
        tangents = tuple(torch.ones_like(t) for t in tensors)
        for outer, inner in ((func.jacfwd, func.jacrev), (func.jacrev, func.jacrev), (func.jacfwd, func.jacfwd)):
            self.compare(device, lambda f: outer(inner(f, (0, 1)), (0, 1))(*tensors), activation, slope)  # noqa: B023
        self.compare(device, lambda f: func.jvp(func.grad(f, (0, 1)), tensors, tangents), activation, slope)

    def test_of_samples(self, device: torch.device) -> None:
        """Gradients of each sample: one product forward and one backward."""
        a, bias = self.tensors(device)
        stacked = torch.stack([a, a / 2, -a]), bias
        for activation in ("none", "gelu"):
            self.compare(device, lambda f: func.vmap(func.grad(f, (0, 1)), (0, None))(*stacked), activation, 0.0)
            self.compare(
                device,
                lambda f: func.grad(lambda *t: func.vmap(f, (0, None))(*t).sum(), (0, 1))(*stacked),
                activation,
                0.0,
            )

    def test_dual_numbers(self, device: torch.device) -> None:
        tensors = self.tensors(device)

        def tangent(f: Op) -> Any:
            with forward_ad.dual_level():
                duals = [forward_ad.make_dual(t, torch.ones_like(t)) for t in tensors]
                return forward_ad.unpack_dual(f(*duals)).tangent

        for activation, slope in EPILOGUES:
            self.compare(device, tangent, activation, slope)

    def test_tangents_pass_through_a_backward_pass(self, device: torch.device) -> None:
        """One that is not recorded, of a call with a tangent."""
        a, bias = self.tensors(device)

        def tangents(f: Op) -> Any:
            leaf = bias.clone().requires_grad_()
            with forward_ad.dual_level():
                (found,) = torch.autograd.grad(f(forward_ad.make_dual(a, torch.ones_like(a)), leaf), leaf)
                return forward_ad.unpack_dual(found).tangent

        for activation, slope in EPILOGUES[:-1]:  # torch's silu_backward takes no tangents
            self.compare(device, tangents, activation, slope)

    def test_within_autograd(self, device: torch.device) -> None:
        def through(f: Op) -> Any:
            a, bias = (t.clone().requires_grad_() for t in self.tensors(device))
            inner = func.grad(lambda bias: f(a, bias))(bias).square().sum()
            return torch.autograd.grad(inner, (a, bias))

        for activation in ("none", "gelu", "silu"):
            self.compare(device, through, activation, 0.0)
