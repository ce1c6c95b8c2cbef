"""torch.compile and torch.export in earnest: one compilation for all sizes, CUDA graphs, autotuning, saved programs."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from operands import integers, normal
from reference import assert_exact
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._dynamo.utils import counters

import tileon_ops

# m, k, n of the products: multiples of 16, of 8 and of neither, none of them 1, which compilers take for another size
ROUND = ((16, 32, 48), (32, 16, 64), (64, 48, 16), (48, 80, 32))
SHIFTS = ((0, 0, 0), (8, 0, 8), (1, 0, 3), (0, 5, 0), (7, 11, 1))
SIZES = [(m + dm, k + dk, n + dn) for m, k, n in ROUND for dm, dk, dn in SHIFTS]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def by_op(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    return torch.ops.tileon.matmul(a, b, bias, activation="leaky_relu", slope=0.5) * 2


def by_wrapper(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    """The rows of `a` as two batches, which the wrapper has to put together."""
    return tileon_ops.matmul(torch.stack((a, a)), b, bias, activation="leaky_relu", slope=0.5).sum(0)


def by_torch(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    return F.leaky_relu(a @ b + bias, 0.5) * 2


def operands(
    size: tuple[int, int, int], device: torch.device | str, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    m, k, n = size
    return tuple(integers(*shape, dtype=dtype, device=device, seed=m) for shape in ((m, k), (k, n), (n,)))  # type: ignore[return-value]


@pytest.mark.parametrize("function", [by_op, by_wrapper], ids=["op", "wrapper"])
def test_twenty_sizes_are_one_compilation(device: torch.device, function: Callable[..., Tensor]) -> None:
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    assert len(set(SIZES)) == 20
    for size in SIZES:
        tensors = [tensor.requires_grad_() for tensor in operands(size, device)]
        result = compiled(*tensors)
        exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
        expected = by_torch(*exact)
        assert_exact(result.detach(), expected.detach(), torch.float32, str(size))
        upstream = integers(*result.shape, dtype=torch.float32, device=device)
        gradients = torch.autograd.grad(result, tensors, upstream)
        for gradient, wanted in zip(gradients, torch.autograd.grad(expected, exact, upstream.double()), strict=True):
            assert_exact(gradient, wanted, torch.float32, f"gradient of {size}")
    assert counter.frame_count == 1


class Layer(torch.nn.Module):
    def __init__(self, device: torch.device, function: Callable[..., Tensor] = by_op) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(integers(8, 6, dtype=torch.float32, device=device))
        self.bias = torch.nn.Parameter(integers(6, dtype=torch.float32, device=device))

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.weight, self.bias)


@pytest.mark.parametrize("function", [by_op, by_wrapper], ids=["op", "wrapper"])
@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_an_exported_program_is_saved_and_loaded(
    device: torch.device, tmp_path: pathlib.Path, strict: bool, function: Callable[..., Tensor]
) -> None:
    layer = Layer(device, function)
    x = integers(5, 8, dtype=torch.float32, device=device)
    rows = torch.export.Dim("rows", min=2, max=4096)
    program = torch.export.export(layer, (x,), dynamic_shapes=({0: rows},), strict=strict)
    torch.export.save(program, tmp_path / "layer.pt2")
    loaded = torch.export.load(tmp_path / "layer.pt2")
    assert "tileon.matmul" in str(loaded.graph)
    for count in (2, 5, 33, 4096):
        x = integers(count, 8, dtype=torch.float32, device=device, seed=count)
        expected = by_torch(x.double(), layer.weight.double(), layer.bias.double())
        assert_exact(loaded.module()(x).detach(), expected.detach(), torch.float32)


def test_a_saved_program_keeps_every_argument() -> None:
    class EveryArgument(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
            return torch.ops.tileon.matmul(
                a,
                b,
                bias,
                activation="leaky_relu",
                slope=-0.5,
                out_dtype=torch.float32,
                allow_tf32=True,
                fast_accum=True,
            )

    a, b, bias = operands((5, 8, 6), "cpu", torch.bfloat16)
    tensors = (a, b, bias.float())
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(EveryArgument(), tensors), buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer)
    (call,) = (node for node in loaded.graph.nodes if node.target is torch.ops.tileon.matmul.default)
    assert call.kwargs == {
        "activation": "leaky_relu",
        "slope": -0.5,
        "out_dtype": torch.float32,
        "allow_tf32": True,
        "fast_accum": True,
    }
    assert torch.equal(loaded.module()(*tensors), EveryArgument()(*tensors))


def test_max_autotune(device: torch.device) -> None:
    compiled = torch.compile(by_op, fullgraph=True, mode="max-autotune")
    for seed in range(3):  # on a GPU: the third call replays a graph
        tensors = [tensor + seed for tensor in operands((64, 72, 80), device)]
        expected = by_torch(*(tensor.double() for tensor in tensors))
        assert_exact(compiled(*tensors), expected, torch.float32)


@pytest.mark.gpu
class TestCudaGraphs:
    """mode="reduce-overhead": the graph is recorded once, and replayed for new inputs."""

    def launches(self, run: Callable[[], object]) -> int:
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities, acc_events=True) as profile:
            run()
            torch.cuda.synchronize()
        return sum(event.count for event in profile.key_averages() if event.key == "cudaGraphLaunch")

    def test_inference(self) -> None:
        compiled = torch.compile(by_op, fullgraph=True, mode="reduce-overhead")
        counters.clear()
        with torch.no_grad():
            for seed in range(6):
                tensors = [tensor + seed for tensor in operands((64, 72, 80), "cuda")]
                expected = by_torch(*(tensor.double() for tensor in tensors))
                assert_exact(compiled(*tensors), expected, torch.float32, f"call {seed}")
            assert self.launches(lambda: compiled(*tensors)) == 1
        assert counters["inductor"]["cudagraph_skips"] == 0
        assert counters["stats"]["unique_graphs"] == 1

    def test_a_training_step(self) -> None:
        layer = Layer(torch.device("cuda"))
        compiled = torch.compile(layer, fullgraph=True, mode="reduce-overhead")
        counters.clear()

        def step(x: Tensor) -> tuple[Tensor, ...]:
            torch.compiler.cudagraph_mark_step_begin()
            result = compiled(x)
            gradients = torch.autograd.grad(result.sum(), tuple(layer.parameters()))
            return (result.detach().clone(), *(gradient.clone() for gradient in gradients))

        for seed in range(6):
            x = integers(64, 8, dtype=torch.float32, device="cuda", seed=seed)
            exact = Layer(torch.device("cuda"), by_torch).double()
            expected = exact(x.double())
            wanted = (expected.detach(), *torch.autograd.grad(expected.sum(), tuple(exact.parameters())))
            for actual, value in zip(step(x), wanted, strict=True):
                assert_exact(actual, value, torch.float32, f"step {seed}")
        assert self.launches(lambda: step(x)) == 2
        assert counters["inductor"]["cudagraph_skips"] == 0

    @pytest.mark.parametrize("form", ["mxfp8", "nvfp4"])
    def test_a_quantized_layer(self, form: str) -> None:
        weight, weight_scale = tileon_ops.quantize(normal(80, 128, dtype=torch.bfloat16, device="cuda"), form)

        def layer(x: Tensor) -> Tensor:
            data, scale = tileon_ops.quantize(x * 2, form)
            return tileon_ops.block_scaled_matmul(data, weight, scale, weight_scale, out_dtype=torch.float32)

        compiled = torch.compile(layer, fullgraph=True, mode="reduce-overhead")
        counters.clear()
        for seed in range(5):
            x = normal(64, 128, dtype=torch.bfloat16, device="cuda", seed=seed)
            assert torch.equal(compiled(x), layer(x)), f"call {seed}"
        assert self.launches(lambda: compiled(x)) == 1
        assert counters["inductor"]["cudagraph_skips"] == 0
