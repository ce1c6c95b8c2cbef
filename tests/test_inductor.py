"""What programs of torch's compiler call: ops without a kernel of Python's on the Autograd key, and no defaults."""

from __future__ import annotations

import pathlib
import re
import zipfile
from collections.abc import Callable, Iterator

import pytest
import torch
from operands import integers, normal
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._inductor.utils import run_and_get_code

import tileon_ops
from tileon_ops._rules import inductor


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):  # programs of another version among them
        yield
    torch._dynamo.reset()


def calls(run: Callable[[], object]) -> list[tuple[str, str]]:
    """The ops that the programs call which `run` compiles, each with its arguments."""
    _, programs = run_and_get_code(run)
    return re.findall(r"= torch\.ops\.tileon\.(\w+)\.default\((.*)\)\n", "\n".join(programs))


def operands(device: torch.device | str, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(integers(*shape, dtype=dtype, device=device) for shape in ((16, 32), (32, 48), (48,)))  # type: ignore[return-value]


def product(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.tileon.matmul(a, b, bias, activation="relu")


class TestPrograms:
    @pytest.mark.parametrize("activation", ["relu", "gelu"])
    def test_of_a_training_step(self, device: torch.device, activation: str) -> None:
        def step(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
            return torch.ops.tileon.matmul(a, b, bias, activation=activation)

        tensors = [tensor.requires_grad_() for tensor in operands(device, torch.bfloat16)]
        compiled = torch.compile(step, fullgraph=True)
        called = calls(lambda: compiled(*tensors).sum().backward())
        forward = "_matmul_compiled" if activation == "relu" else "_matmul_with_preactivation_compiled"
        assert [op for op, _ in called] == [
            forward,
            "_epilogue_backward_compiled",
            "_matmul_compiled",
            "_matmul_compiled",
        ]
        compiled_gradients = [tensor.grad for tensor in tensors]
        gradients = torch.autograd.grad(step(*tensors).sum(), tensors)
        for actual, expected in zip(compiled_gradients, gradients, strict=True):
            assert actual is not None
            assert torch.equal(actual, expected)

    @pytest.mark.parametrize("form", ["mxfp8", "nvfp4"])
    def test_of_a_quantized_layer(self, device: torch.device, form: str) -> None:
        weight, weight_scale = tileon_ops.quantize(normal(80, 128, dtype=torch.bfloat16, device=device), form)

        def layer(x: Tensor) -> Tensor:
            data, scale = tileon_ops.quantize(x * 2, form)
            return tileon_ops.block_scaled_matmul(data, weight, scale, weight_scale, out_dtype=torch.float32)

        compiled, x = torch.compile(layer, fullgraph=True), normal(64, 128, dtype=torch.bfloat16, device=device)
        rounds = device.type == "cuda" and form == "mxfp8"  # an H200: see TestRoundedRows
        quantize = "_round_to_format_compiled" if rounds else "_quantize_compiled"
        assert [op for op, _ in calls(lambda: compiled(x))] == [quantize, "_block_scaled_matmul_compiled"]
        torch.testing.assert_close(compiled(x), layer(x), rtol=1e-5 if rounds else 0, atol=1e-4 if rounds else 0)

    def test_of_a_quantized_model(self, device: torch.device) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))
        tileon_ops.convert(model.to(device, torch.bfloat16), "nvfp4")
        compiled, x = torch.compile(model, fullgraph=True), normal(8, 64, dtype=torch.bfloat16, device=device)
        with torch.no_grad():
            called = [op for op, _ in calls(lambda: compiled(x))]
            quantize = "_quantize_nvfp4_rows_compiled" if device.type == "cpu" else "_round_to_format_compiled"
            assert called == [quantize, "_block_scaled_matmul_compiled"] * 2
            assert torch.equal(compiled(x), model(x))

    def test_leave_out_arguments_that_have_their_defaults(self, device: torch.device) -> None:
        def of_defaults(a: Tensor, b: Tensor) -> Tensor:
            options = {"slope": 0.01, "out_dtype": None, "allow_tf32": False, "fast_accum": False}
            return torch.ops.tileon.matmul(a, b, None, activation="leaky_relu", **options)

        def of_others(a: Tensor, b: Tensor) -> Tensor:
            return torch.ops.tileon.matmul(a, b, None, activation="leaky_relu", slope=0.0, out_dtype=torch.float16)

        a, b, _ = operands(device)
        assert calls(lambda: torch.compile(of_defaults)(a, b)) == [
            ("_matmul_compiled", "arg0_1, arg1_1, activation='leaky_relu'")
        ]
        ((_, written),) = calls(lambda: torch.compile(of_others)(a, b))
        assert written == "arg0_1, arg1_1, activation='leaky_relu', slope=0.0, out_dtype=torch.float16"
        assert torch.equal(torch.compile(of_others)(a, b), of_others(a, b))

    def test_keep_the_operands_strides(self, device: torch.device) -> None:
        """Without them inductor may copy an operand."""
        a, b, _ = operands(device)
        ((_, written),) = calls(lambda: torch.compile(lambda a, b: torch.ops.tileon.matmul(b.t(), a.t()))(a, b))
        assert re.fullmatch(r"reinterpret_tensor\(.*, \(1, 48\), 0\), reinterpret_tensor\(.*, \(1, 32\), 0\)", written)

    def test_a_bad_call_is_refused_by_the_public_name(self, device: torch.device) -> None:
        a, b, bias = operands(device)
        with pytest.raises(Exception, match="matmul: `b` must have as many rows as `a` has columns, k = 32, got 48"):
            torch.compile(product, fullgraph=True)(a, b.t(), bias)


@pytest.mark.gpu
@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0), reason="of Hopper's kernels alone"
)
class TestRoundedRows:
    """Rows that a graph quantizes are multiplied as numbers where that is expected to be the faster way."""

    def operands(self, form: str, m: int, *columns: int) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        x = normal(m, 512, dtype=torch.bfloat16, device="cuda")
        weights = [normal(n, 512, dtype=torch.bfloat16, device="cuda", seed=n) for n in columns]
        return x, [tileon_ops.quantize(weight, form) for weight in weights]

    def layer(self, x: Tensor, form: str, weights: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, ...]:
        factor = None
        if form == "nvfp4":
            a, scale_a, factor = torch.ops.tileon._quantize_nvfp4_rows(x)
        else:
            a, scale_a = torch.ops.tileon.quantize(x, form, scale_rounding="rceil")
        multiply = torch.ops.tileon.block_scaled_matmul
        return tuple(multiply(a, b, scale_a, scale_b, None, factor, out_dtype=x.dtype) for b, scale_b in weights)

    def assert_close(self, actual: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
        for one, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-2, atol=2e-1)

    @pytest.mark.parametrize("form", ["mxfp8", "mxfp4", "nvfp4"])
    def test_products_share_them(self, form: str) -> None:
        x, weights = self.operands(form, 4, 256, 384)
        compiled = torch.compile(lambda x: self.layer(x, form, weights), fullgraph=True)
        called = [op for op, _ in calls(lambda: compiled(x))]
        assert called == ["_round_to_format_compiled", *["_block_scaled_matmul_compiled"] * 2]
        self.assert_close(compiled(x), self.layer(x, form, weights))

    def test_codes_that_others_use_stay(self) -> None:
        x, weights = self.operands("mxfp8", 4, 256)

        def layer(x: Tensor) -> tuple[Tensor, ...]:
            a, scale_a = torch.ops.tileon.quantize(x, "mxfp8")
            (b, scale_b) = weights[0]
            return torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b), a.view(torch.uint8)

        called = [op for op, _ in calls(lambda: torch.compile(layer, fullgraph=True)(x))]
        assert called == ["_quantize_compiled", "_block_scaled_matmul_compiled"]

    def test_many_rows_are_codes(self) -> None:
        x, weights = self.operands("mxfp8", 1000, 256)
        called = [op for op, _ in calls(lambda: torch.compile(lambda x: self.layer(x, "mxfp8", weights))(x))]
        assert called == ["_quantize_compiled", "_block_scaled_matmul_compiled"]

    def test_under_batch_invariance_they_are_codes(self) -> None:
        x, weights = self.operands("mxfp8", 4, 256)
        with tileon_ops.batch_invariant():
            called = [op for op, _ in calls(lambda: torch.compile(lambda x: self.layer(x, "mxfp8", weights))(x))]
        assert called == ["_quantize_compiled", "_block_scaled_matmul_compiled"]

    def test_any_number_of_rows_is_one_compilation(self) -> None:
        _, weights = self.operands("mxfp8", 4, 256)
        counter = CompileCounterWithBackend("inductor")
        compiled = torch.compile(lambda x: self.layer(x, "mxfp8", weights), dynamic=True, backend=counter)
        for m in (130, 300, 700, 1000):  # scales of up to 128 rows are one block, which is another graph
            x, _ = self.operands("mxfp8", m)
            self.assert_close(compiled(x), self.layer(x, "mxfp8", weights))
        assert counter.frame_count == 1


def test_a_package_calls_the_public_op(tmp_path: pathlib.Path) -> None:
    class Product(torch.nn.Module):
        def forward(self, a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
            return product(a, b, bias)

    tensors = operands("cpu")
    program = torch.export.export(Product(), tensors)
    path = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "product.pt2"))
    with zipfile.ZipFile(path) as package:
        written = b"".join(package.read(name) for name in package.namelist())
    assert b"tileon::matmul" in written
    assert b"tileon::_matmul_compiled" not in written


@pytest.mark.parametrize("op", inductor.OPS)
def test_the_private_op_is_the_public_one_by_another_name(op: str) -> None:
    private = inductor.compiled_name(op)
    of_public, of_private = (str(getattr(torch.ops.tileon, name).default._schema) for name in (op, private))
    assert of_private == of_public.replace(f"tileon::{op}(", f"tileon::{private}(")
    for key in ("CUDA",) if op == "_round_to_format" else ("CPU", "CUDA"):
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"tileon::{private}", key)
    assert not torch._C._dispatch_has_kernel_for_dispatch_key(f"tileon::{private}", "Autograd")
