"""The op under torch's transformations: opcheck, torch.compile, export, meta and fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from operands import integers, normal, place
from reference import ACTIVATIONS, DTYPE_PAIRS, assert_exact, check_matmul
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import tileon_ops
from tileon_ops._rules import configs

OPCHECK_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def opcheck_inputs(device: torch.device) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    def t(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False, seed: int = 0) -> Tensor:
        return normal(*shape, dtype=dtype, device=device, seed=seed).requires_grad_(grad)

    return [
        ((t(3, 4), t(4, 5)), {}),
        ((t(3, 4), t(5, 4).t(), t(5)), {"activation": "relu"}),
        ((t(3, 4, grad=True), t(4, 5, grad=True), t(5, grad=True)), {"activation": "leaky_relu", "slope": 0.2}),
        ((t(3, 4, grad=True), t(4, 5, grad=True)), {"activation": "gelu"}),
        ((t(2, 3, 4, grad=True), t(4, 5, grad=True), t(5, grad=True)), {"activation": "silu"}),
        ((t(3, 4, grad=True), t(2, 4, 5, grad=True)), {"activation": "gelu_tanh"}),
        ((t(1, 3, 4), t(2, 4, 5)), {"allow_tf32": True}),
        ((t(3, 4, dtype=torch.float16), t(4, 5, dtype=torch.float16), t(5)), {"out_dtype": torch.float32}),
        ((t(3, 4, dtype=torch.bfloat16, grad=True), t(4, 5, dtype=torch.bfloat16)), {"out_dtype": torch.float16}),
        ((t(3, 4, dtype=torch.float64), t(4, 5, dtype=torch.float64)), {"fast_accum": True}),
        ((t(3, 0), t(0, 5), t(5)), {}),
        ((t(0, 4), t(4, 5)), {}),
        ((place(t(3, 4), step=2, offset=1).view, t(4, 1).expand(4, 5)), {}),
    ]


class TestOpcheck:
    @pytest.mark.parametrize("number", range(len(opcheck_inputs(torch.device("cpu")))))
    def test_matmul(self, device: torch.device, number: int) -> None:
        arguments, options = opcheck_inputs(device)[number]
        torch.library.opcheck(torch.ops.tileon.matmul.default, arguments, options, test_utils=OPCHECK_TESTS)

    @pytest.mark.parametrize("number", range(len(opcheck_inputs(torch.device("cpu")))))
    def test_matmul_out(self, device: torch.device, number: int) -> None:
        arguments, options = opcheck_inputs(device)[number]
        arguments = tuple(t.detach() for t in arguments)
        with torch.no_grad():
            out = torch.empty_like(torch.ops.tileon.matmul(*arguments, **options))
        torch.library.opcheck(torch.ops.tileon.matmul.out, arguments, {**options, "out": out}, test_utils=OPCHECK_TESTS)
        strided = place(out).view if out.dim() == 3 else place(out, transposed=True).view
        torch.library.opcheck(
            torch.ops.tileon.matmul.out, arguments, {**options, "out": strided}, test_utils=OPCHECK_TESTS
        )

    @pytest.mark.gpu
    @pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
    def test_matmul_with_config(self, kind: str) -> None:
        index = next((config.index for config in configs.dense() if kind in config.operands), None)
        if index is None:
            pytest.skip("CPU-only build: the tile table is empty")
        a = normal(64, 64, dtype=getattr(torch, kind), device="cuda")
        for options in ({}, {"activation": "relu", "out_dtype": getattr(torch, kind)}):
            torch.library.opcheck(
                torch.ops.tileon._matmul_with_config.default,
                (a, a.t()),
                {"config": index, **options},
                test_utils=OPCHECK_TESTS,
            )


def model(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    hidden = torch.ops.tileon.matmul(a, b, bias, activation="gelu")
    return torch.ops.tileon.matmul(hidden + 1, hidden.transpose(-1, -2).contiguous(), activation="relu") * 2


def operands(device: torch.device, m: int, k: int, n: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    shapes = ((m, k), (k, n), (n,))
    return tuple(normal(*shape, dtype=dtype, device=device, seed=i).requires_grad_() for i, shape in enumerate(shapes))


def counting(backend: str) -> tuple[Callable[..., Any], Any]:
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend(backend)
    return counter, counter


class TestCompile:
    @pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
    def test_fullgraph_forward_and_backward(self, device: torch.device, backend: str) -> None:
        compiled = torch.compile(model, fullgraph=True, backend=backend)
        tensors = operands(device, 5, 7, 6)
        expected, actual = model(*tensors), compiled(*tensors)
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
        upstream = normal(*expected.shape, dtype=torch.float64, device=device)
        for got, wanted in zip(
            torch.autograd.grad(actual, tensors, upstream),
            torch.autograd.grad(expected, tensors, upstream),
            strict=True,
        ):
            torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_dynamic_shapes_compile_once(self, device: torch.device, backend: str) -> None:
        counter, frames = counting(backend)
        compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
        for m, k, n in ((5, 7, 6), (64, 33, 17), (128, 16, 256), (3, 4, 9), (131, 2, 5)):
            tensors = operands(device, m, k, n)
            actual = compiled(*tensors)
            torch.testing.assert_close(actual, model(*tensors), rtol=1e-12, atol=1e-12)
            actual.sum().backward()
        assert frames.frame_count == 1

    def test_dynamic_batches_compile_once(self, device: torch.device) -> None:
        counter, frames = counting("aot_eager")

        def batched(a: Tensor, b: Tensor) -> Tensor:
            return torch.ops.tileon.matmul(a, b, activation="silu").sum(0)

        compiled = torch.compile(batched, fullgraph=True, dynamic=True, backend=counter)
        for batch, m, k, n in ((2, 5, 7, 6), (3, 64, 33, 17), (9, 4, 5, 8)):
            a = normal(batch, m, k, dtype=torch.float32, device=device)
            b = normal(k, n, dtype=torch.float32, device=device, seed=1)
            torch.testing.assert_close(compiled(a, b), batched(a, b))
        assert frames.frame_count == 1

    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_out_mutates_its_argument(self, device: torch.device, backend: str) -> None:
        def into(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
            torch.ops.tileon.matmul.out(a, b, activation="relu", out=out)
            return out + 1

        a, b = (
            integers(5, 7, dtype=torch.float32, device=device),
            integers(7, 6, dtype=torch.float32, device=device, seed=1),
        )
        out = torch.full((5, 6), -1.0, device=device)
        result = torch.compile(into, fullgraph=True, backend=backend)(a, b, out)
        expected = (a.double() @ b.double()).relu()
        assert_exact(out, expected, torch.float32)
        assert_exact(result, expected + 1, torch.float32)

    def test_the_wrapper_compiles(self, device: torch.device) -> None:
        def wrapped(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
            return tileon_ops.matmul(a, b, bias, activation="leaky_relu", slope=0.1)

        compiled = torch.compile(wrapped, fullgraph=True, dynamic=True, backend="aot_eager")
        b, bias = normal(8, 6, dtype=torch.float32, device=device), normal(6, dtype=torch.float32, device=device)
        for shape in ((8,), (3, 8), (2, 3, 8), (2, 2, 3, 8)):
            a = normal(*shape, dtype=torch.float32, device=device)
            torch.testing.assert_close(compiled(a, b, bias), wrapped(a, b, bias))

    def test_strided_inputs_keep_the_promised_strides(self, device: torch.device) -> None:
        def strides(a: Tensor, b: Tensor) -> Tensor:
            return torch.ops.tileon.matmul(a, b).view(-1)  # fails where the result is not contiguous

        a, b = (
            normal(8, 5, dtype=torch.float32, device=device).t(),
            normal(6, 8, dtype=torch.float32, device=device).t(),
        )
        actual = torch.compile(strides, fullgraph=True, backend="inductor")(a, b)
        check_matmul(actual.view(5, 6), a, b)

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    def test_narrow_training_step(self, device: torch.device, activation: str) -> None:
        def loss(a: Tensor, b: Tensor) -> Tensor:
            return torch.ops.tileon.matmul(a, b, activation=activation, out_dtype=torch.float32).square().mean()

        a, b = operands(device, 9, 8, 10, torch.bfloat16)[:2]
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        eager, traced = torch.autograd.grad(loss(a, b), (a, b)), torch.autograd.grad(compiled(a, b), (a, b))
        for got, wanted in zip(traced, eager, strict=True):
            torch.testing.assert_close(got, wanted)

    @pytest.mark.gpu
    def test_reduce_overhead_replays_with_new_inputs(self) -> None:
        compiled = torch.compile(model, fullgraph=True, mode="reduce-overhead")
        for seed in range(5):
            tensors = tuple(
                normal(*shape, dtype=torch.float32, device="cuda", seed=seed + i)
                for i, shape in enumerate(((64, 72), (72, 80), (80,)))
            )
            torch.testing.assert_close(compiled(*tensors), model(*tensors), rtol=1e-4, atol=1e-4)


class TestExport:
    def test_a_module_with_a_dynamic_batch(self, device: torch.device) -> None:
        class Layer(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(normal(6, 8, dtype=torch.float32, device=device))

            def forward(self, x: Tensor) -> Tensor:
                return torch.ops.tileon.matmul(x, self.weight.t(), activation="gelu")

        layer = Layer()
        rows = torch.export.Dim("rows", min=2, max=4096)
        x = normal(7, 8, dtype=torch.float32, device=device)
        program = torch.export.export(layer, (x,), dynamic_shapes=({0: rows},))
        assert "tileon.matmul" in str(program.graph)
        longer = normal(33, 8, dtype=torch.float32, device=device)
        torch.testing.assert_close(program.module()(longer), layer(longer))


class TestFake:
    @pytest.mark.parametrize(("dtype", "out_dtype"), DTYPE_PAIRS, ids=str)
    @pytest.mark.parametrize(
        ("shape_a", "shape_b"),
        [
            ((3, 4), (4, 5)),
            ((2, 3, 4), (4, 5)),
            ((3, 4), (2, 4, 5)),
            ((1, 3, 4), (2, 4, 5)),
            ((0, 3, 4), (1, 4, 5)),
            ((3, 0), (0, 5)),
        ],
        ids=str,
    )
    def test_shape_dtype_strides_and_device_are_the_real_ones(
        self,
        device: torch.device,
        shape_a: tuple[int, ...],
        shape_b: tuple[int, ...],
        dtype: torch.dtype,
        out_dtype: torch.dtype,
    ) -> None:
        real = torch.ops.tileon.matmul(
            torch.ones(shape_a, dtype=dtype, device=device),
            torch.ones(shape_b, dtype=dtype, device=device),
            out_dtype=out_dtype,
        )
        with FakeTensorMode():
            fake = torch.ops.tileon.matmul(
                torch.empty(shape_a, dtype=dtype, device=device),
                torch.empty(shape_b, dtype=dtype, device=device),
                out_dtype=out_dtype,
            )
        assert (fake.shape, fake.dtype, fake.stride(), fake.device.type) == (
            real.shape,
            real.dtype,
            real.stride(),
            real.device.type,
        )

    def test_meta_tensors_have_shapes_and_no_data(self) -> None:
        a = torch.empty(10**6, 10**6, device="meta", dtype=torch.float16)
        assert torch.ops.tileon.matmul(a, a).shape == (10**6, 10**6)

    def test_out_returns_nothing(self) -> None:
        with FakeTensorMode():
            a = torch.empty(3, 3)
            assert torch.ops.tileon.matmul.out(a, a, out=torch.empty(3, 3)) is None
