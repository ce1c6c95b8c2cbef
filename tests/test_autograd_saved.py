"""What matmul keeps for its gradients, which ops make them, and who else may have a hand in it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from operands import integers, normal, place
from reference import ACTIVATIONS, activate
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import tileon_ops

CALLS = (tileon_ops.matmul, torch.ops.tileon.matmul)
M, K, N = 6, 10, 14


def leaves(*wanted: bool, device: torch.device, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """a, b and bias, of which those require grad that are wanted."""
    tensors = (normal(*shape, dtype=dtype, device=device, seed=i) for i, shape in enumerate(((M, K), (K, N), (N,))))
    return tuple(t.requires_grad_(w) for t, w in zip(tensors, wanted or (True,) * 3, strict=True))


class Seen(TorchDispatchMode):
    """Names of the package's ops in the order in which they run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "tileon":
            self.names.append(func._schema.name.removeprefix("tileon::"))
        return func(*args, **(kwargs or {}))


class TestWhatIsSaved:
    @pytest.mark.parametrize("call", CALLS, ids=["wrapper", "op"])
    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_each_operand_for_the_other_and_one_tensor_for_the_activation(
        self, device: torch.device, activation: str, call: Callable[..., Tensor]
    ) -> None:
        for dtype, wanted in ((torch.float32, (1, 1, 1)), (torch.float16, (1, 0, 1)), (torch.float64, (0, 0, 1))):
            saved: list[Tensor] = []
            with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):  # noqa: B023
                call(*leaves(*map(bool, wanted), device=device, dtype=dtype), activation=activation)
            elements = wanted[1] * M * K + wanted[0] * K * N + (activation != "none") * M * N
            assert sum(t.untyped_storage().nbytes() for t in saved) == elements * dtype.itemsize

    @pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
    def test_goes_with_the_output_and_waits_for_no_garbage_collector(
        self, device: torch.device, activation: str
    ) -> None:
        tensors = leaves(device=device, dtype=torch.float16)  # torch's own nodes, of the CPU's float32, take no weakref
        gc.disable()
        try:
            output = tileon_ops.matmul(*tensors, activation=activation)
            output.sum().backward()
            node = weakref.ref(output.grad_fn)
            del output
            assert node() is None
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(tensors[0], tensors[0].detach())
                output = tileon_ops.matmul(dual, *tensors[1:], activation=activation)
                node = weakref.ref(output.grad_fn)
                del output
            assert node() is None
        finally:
            gc.enable()

    @pytest.mark.parametrize("activation", ["gelu", "silu", "gelu_tanh", "none"])
    def test_an_output_that_is_not_saved_may_be_written(self, device: torch.device, activation: str) -> None:
        tensors = leaves(device=device)
        untouched = torch.autograd.grad(tileon_ops.matmul(*tensors, activation=activation).sum(), tensors)
        written = tileon_ops.matmul(*tensors, activation=activation).add_(1)
        for gradient, expected in zip(torch.autograd.grad(written.sum(), tensors), untouched, strict=True):
            assert torch.equal(gradient, expected)


class TestBackwardPass:
    """In float16: of float32 on the CPU it is torch's (TestNodesOfTorch)."""

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_is_one_pass_and_a_product_for_each_operand(self, device: torch.device, activation: str) -> None:
        for wanted in ((True, True, True), (False, True, True), (False, False, True), (True, True, False)):
            tensors = leaves(*wanted, device=device, dtype=torch.float16)
            output = tileon_ops.matmul(*tensors, activation=activation)
            with Seen() as seen:
                output.backward(torch.ones_like(output))
            epilogue = [] if activation == "none" else ["_epilogue_backward"]
            assert seen.names == epilogue + ["matmul"] * sum(wanted[:2])

    def test_copies_a_gradient_that_repeats_one_number_but_once(self, device: torch.device) -> None:
        """`loss.sum()` hands down strides of 0, which products read badly."""
        tensors = leaves(device=device, dtype=torch.float16)
        with Seen() as seen:
            tileon_ops.matmul(*tensors).sum().backward()
        assert seen.names == ["matmul", "_epilogue_backward", "matmul", "matmul"]

    @pytest.mark.parametrize("batch", [(), (3,)], ids=str)
    @pytest.mark.parametrize("activation", ["none", "silu"])
    def test_gradients_lie_as_their_operands_do(
        self, device: torch.device, activation: str, batch: tuple[int, ...]
    ) -> None:
        a, b, bias = leaves(device=device, dtype=torch.float16)
        a = integers(*batch, M, K, dtype=torch.float16, device=device)
        for a_transposed in (False, True):
            for b_transposed in (False, True):
                x = place(a, transposed=a_transposed, pad=2).view.requires_grad_()
                y = place(b.detach(), transposed=b_transposed).view.requires_grad_()
                output = tileon_ops.matmul(x, y, bias, activation=activation)
                grad_x, grad_y = torch.autograd.grad(output.sum(), (x, y))
                assert (grad_x.mT if a_transposed else grad_x).is_contiguous()
                assert (grad_y.mT if b_transposed else grad_y).is_contiguous()

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_of_fp8_operands_gives_the_bias_its_gradient(self, device: torch.device, activation: str) -> None:
        """No gradient flows to the operands, and nothing may be rounded to their dtype."""
        a, b = (integers(16, 16, dtype=torch.float32, device=device, seed=i) / 4 for i in range(2))
        for bias_dtype in (torch.float16, torch.float32):
            bias = (integers(16, dtype=torch.float32, device=device, seed=2) / 4).to(bias_dtype).requires_grad_()
            upstream = normal(16, 16, dtype=torch.float16, device=device)
            e4m3, e5m2 = a.to(torch.float8_e4m3fn), b.to(torch.float8_e5m2)
            output = tileon_ops.matmul(e4m3, e5m2, bias, activation=activation)
            (gradient,) = torch.autograd.grad(output, bias, upstream)

            wide = bias.detach().double().requires_grad_()
            expected = activate(e4m3.double() @ e5m2.double() + wide, activation, 0.01)
            (expected,) = torch.autograd.grad(expected, wide, upstream.double())
            assert gradient.dtype == bias_dtype
            torch.testing.assert_close(gradient.double(), expected, rtol=2e-3, atol=2e-2)


def gradients(call: Callable[..., Tensor], tensors: tuple[Tensor, ...], activation: str) -> tuple[Tensor, ...]:
    output = call(*tensors, activation=activation)
    return output, *torch.autograd.grad(output.sin().sum(), tensors)


def in_a_checkpoint(call: Callable[..., Tensor], tensors: tuple[Tensor, ...], activation: str) -> tuple[Tensor, ...]:
    output = checkpoint(call, *tensors, use_reentrant=False, activation=activation)
    return output, *torch.autograd.grad(output.sin().sum(), tensors)


def in_a_reentrant_checkpoint(
    call: Callable[..., Tensor], tensors: tuple[Tensor, ...], activation: str
) -> tuple[Tensor, ...]:
    fresh = tuple(t.detach().requires_grad_() for t in tensors)
    output = checkpoint(lambda *t: call(*t, activation=activation), *fresh, use_reentrant=True)
    output.sin().sum().backward()
    return output, *(t.grad for t in fresh)


def with_saved_tensors_on_the_cpu(
    call: Callable[..., Tensor], tensors: tuple[Tensor, ...], activation: str
) -> tuple[Tensor, ...]:
    with torch.autograd.graph.save_on_cpu():
        return gradients(call, tensors, activation)


def while_anomalies_are_detected(
    call: Callable[..., Tensor], tensors: tuple[Tensor, ...], activation: str
) -> tuple[Tensor, ...]:
    with pytest.warns(UserWarning, match="Anomaly Detection"), torch.autograd.detect_anomaly():
        return gradients(call, tensors, activation)


def under_a_dispatch_mode(
    call: Callable[..., Tensor], tensors: tuple[Tensor, ...], activation: str
) -> tuple[Tensor, ...]:
    with Seen() as seen:
        results = gradients(call, tensors, activation)
    assert seen.names[0] in ("matmul", "_matmul_with_preactivation")
    return results


def under_another_devices_autocast(
    call: Callable[..., Tensor], tensors: tuple[Tensor, ...], activation: str
) -> tuple[Tensor, ...]:
    other = "cpu" if tensors[0].is_cuda else "cuda"
    with torch.autocast(other, dtype=torch.bfloat16):
        return gradients(call, tensors, activation)


COMPANIES = (
    in_a_checkpoint,
    in_a_reentrant_checkpoint,
    with_saved_tensors_on_the_cpu,
    while_anomalies_are_detected,
    under_a_dispatch_mode,
    under_another_devices_autocast,
)


class TestCompanies:
    @pytest.mark.filterwarnings("ignore:CUDA is not available")
    @pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
    @pytest.mark.parametrize("company", COMPANIES, ids=lambda company: company.__name__)
    def test_change_no_bit_and_the_wrapper_does_what_the_op_does(
        self, device: torch.device, company: Callable[..., tuple[Tensor, ...]], dtype: torch.dtype
    ) -> None:
        """But that on the CPU torch multiplies float32 where nobody looks on, and adds in another order."""
        by_torch = dtype == torch.float32 and device.type == "cpu"
        for activation in ("none", "relu", "gelu"):
            tensors = leaves(device=device, dtype=dtype)
            expected = gradients(torch.ops.tileon.matmul, tensors, activation)
            for call in CALLS:
                for got, wanted in zip(company(call, tensors, activation), expected, strict=True):
                    assert torch.equal(got, wanted) or (by_torch and torch.allclose(got, wanted, rtol=1e-5, atol=1e-5))

    @pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
    def test_nothing_is_recorded_where_gradients_are_off(self, device: torch.device, mode: Callable[[], Any]) -> None:
        tensors = leaves(device=device)
        expected = torch.ops.tileon.matmul(*tensors, activation="gelu")
        with mode():
            for call in CALLS:
                result = call(*tensors, activation="gelu")
                assert (result.requires_grad, result.is_inference()) == (False, mode is torch.inference_mode)
                assert torch.equal(result, expected)

    def test_compiled_autograd(self, device: torch.device) -> None:
        """One compiler for nodes of several activations and slopes, which it must tell apart."""
        compiler = torch.compile(backend="aot_eager")
        for activation, slope in (("none", 0.0), ("gelu", 0.0), ("leaky_relu", 0.5), ("leaky_relu", -0.25)):
            tensors = leaves(device=device)
            loss = tileon_ops.matmul(*tensors, activation=activation, slope=slope).sin().sum()
            expected = torch.autograd.grad(loss, tensors, retain_graph=True)
            with torch._dynamo.compiled_autograd._enable(compiler):
                loss.backward()
            for tensor, gradient in zip(tensors, expected, strict=True):
                torch.testing.assert_close(tensor.grad, gradient, rtol=1e-5, atol=1e-5)


def node_of(output: Tensor) -> str:
    assert output.grad_fn is not None
    return output.grad_fn.name()


class TestNodesOfTorch:
    """Recorded products of float32 and float64 on the CPU."""

    CPU = torch.device("cpu")

    @pytest.mark.parametrize("call", CALLS, ids=["wrapper", "op"])
    @pytest.mark.parametrize(("activation", "node"), [("none", "Add"), ("relu", "Relu"), ("leaky_relu", "LeakyRelu")])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
    def test_are_in_the_graph_and_last_kernel_says_so(
        self, dtype: torch.dtype, activation: str, node: str, call: Callable[..., Tensor]
    ) -> None:
        tensors = leaves(device=self.CPU, dtype=dtype)
        torch.ops.tileon.matmul(tensors[0].detach(), tensors[1].detach())
        assert tileon_ops.last_kernel() != "cpu_aten"
        output = call(*tensors, activation=activation)
        assert node_of(output) == f"{node}Backward0"
        assert tileon_ops.last_kernel() == "cpu_aten"

    @pytest.mark.parametrize("with_bias", [False, True])
    @pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
    @pytest.mark.parametrize(("activation", "slope"), [("none", 0.01), ("relu", 0.01), ("leaky_relu", 0.3)])
    def test_give_the_values_and_the_gradients_of_both_orders(
        self, activation: str, slope: float, batch: tuple[int, ...], with_bias: bool
    ) -> None:
        a, b, bias = leaves(device=self.CPU, dtype=torch.float64)
        a = normal(*batch, M, K, dtype=torch.float64, device=self.CPU, seed=3).requires_grad_()
        tensors = (a, b, bias) if with_bias else (a, b)

        def derivatives(call: Callable[..., Tensor]) -> list[Tensor]:
            output = call(*tensors)
            first = torch.autograd.grad(output.sin().sum(), tensors, create_graph=True)
            return [output, *first, *torch.autograd.grad(sum(g.square().sum() for g in first), tensors)]

        ours = derivatives(lambda *t: tileon_ops.matmul(*t, activation=activation, slope=slope))
        theirs = derivatives(lambda a, b, c=0.0: activate(a @ b + c, activation, slope))
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)

    def test_are_not_there_where_the_op_gives_something_else(self, monkeypatch: pytest.MonkeyPatch) -> None:
        a, b, bias = leaves(device=self.CPU)
        wide = a.detach().double().requires_grad_()
        cases: list[Callable[[], Tensor]] = [
            lambda: tileon_ops.matmul(a, b, activation="gelu"),
            lambda: tileon_ops.matmul(a, b, activation="leaky_relu", slope=-0.5),
            lambda: tileon_ops.matmul(a, b, out_dtype=torch.bfloat16),
            lambda: tileon_ops.matmul(wide, b.detach().double(), bias),  # another dtype's bias
            lambda: torch.ops.tileon.matmul(a.expand(2, M, K), b.expand(2, K, N)),
            lambda: tileon_ops.matmul(a.half(), b.half()),
        ]
        for case in cases:
            assert "_Matmul" in node_of(case()) or "View" in node_of(case())
        with tileon_ops.batch_invariant():
            assert "_Matmul" in node_of(tileon_ops.matmul(a, b))
        with Seen() as seen:
            tileon_ops.matmul(a, b)
        assert seen.names == ["matmul"]

    def test_are_not_there_where_torchs_products_may_round(self) -> None:
        before = torch.get_float32_matmul_precision()
        try:
            torch.set_float32_matmul_precision("medium")
            a, b, _ = leaves(device=self.CPU)
            assert "_Matmul" in node_of(tileon_ops.matmul(a, b))
            a, b, _ = leaves(device=self.CPU, dtype=torch.float64)
            assert node_of(tileon_ops.matmul(a, b)) == "MmBackward0"
        finally:
            torch.set_float32_matmul_precision(before)

    def test_leave_refusals_to_the_op(self) -> None:
        a, b, bias = leaves(device=self.CPU)
        with pytest.raises(RuntimeError, match=r"^matmul: `b` must have as many rows"):
            tileon_ops.matmul(a, b[:-1])
        with pytest.raises(RuntimeError, match=r"^matmul: "):
            tileon_ops.matmul(a, b, bias[:-1])
        with pytest.raises(RuntimeError, match=r"^matmul: "):
            tileon_ops.matmul(a, b, activation="no such thing")


class TestTangents:
    @pytest.mark.parametrize("activation", ["none", "relu", "leaky_relu", "gelu", "gelu_tanh"])
    def test_pass_through_a_backward_pass_that_is_not_recorded(self, device: torch.device, activation: str) -> None:
        tensors = leaves(device=device, dtype=torch.float64)
        direction = normal(M, K, dtype=torch.float64, device=device, seed=7)

        def tangents(call: Callable[..., Tensor]) -> list[Tensor | None]:
            with forward_ad.dual_level():
                output = call(forward_ad.make_dual(tensors[0], direction), *tensors[1:])
                found = torch.autograd.grad(output.square().sum(), tensors[1:])
                return [forward_ad.unpack_dual(t).tangent for t in found]

        ours = tangents(lambda a, b, bias: tileon_ops.matmul(a, b, bias, activation=activation))
        theirs = tangents(lambda a, b, bias: activate(a @ b + bias, activation, 0.01))
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)

    def test_are_refused_with_out(self, device: torch.device) -> None:
        """They would be lost, and one that `out` has would stay and be wrong."""
        ones = torch.ones(3, 3, device=device)
        for place_of_dual, name in enumerate(("a", "b", "out")):
            with forward_ad.dual_level():
                tensors = [torch.zeros(3, 3, device=device) for _ in range(3)]
                tensors[place_of_dual] = forward_ad.make_dual(tensors[place_of_dual], ones)
                with pytest.raises(RuntimeError, match=rf"^matmul: `out` does not .* but `{name}` has a tangent"):
                    tileon_ops.matmul(*tensors[:2], out=tensors[2])

    @pytest.mark.parametrize("recorded", [False, True])
    def test_are_refused_by_quantized_ops(self, device: torch.device, recorded: bool) -> None:
        x = torch.ones(32, 64, device=device)
        data, scale = tileon_ops.quantize(x, "mxfp8")
        bias = torch.ones(32, device=device)
        with forward_ad.dual_level(), torch.set_grad_enabled(recorded):
            with pytest.raises(RuntimeError, match=r"^quantize: `x` has a tangent"):
                tileon_ops.quantize(forward_ad.make_dual(x, x), "mxfp8")
            dual = forward_ad.make_dual(bias, bias)
            with pytest.raises(RuntimeError, match=r"^block_scaled_matmul: `bias` has a tangent"):
                torch.ops.tileon.block_scaled_matmul(data, data, scale, scale, dual, out_dtype=torch.float32)
