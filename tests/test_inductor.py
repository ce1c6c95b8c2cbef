"""What programs of torch's compiler call: ops without a kernel of Python's on the Autograd key, and no defaults."""

from __future__ import annotations

import pathlib
import re
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
import torch
from operands import integers, normal
from torch import Tensor
from torch._inductor.utils import run_and_get_code

import tileon_ops
from tileon_ops._rules import inductor
from tileon_ops._rules.inductor import quantized_linear

pytestmark = pytest.mark.usefixtures("no_programs_from_before")


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
        assert [op for op, _ in calls(lambda: compiled(x))] == ["_quantize_compiled", "_block_scaled_matmul_compiled"]
        assert torch.equal(compiled(x), layer(x))

    def test_of_a_quantized_model(self, device: torch.device) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32))
        tileon_ops.convert(model.to(device, torch.bfloat16), "nvfp4")
        compiled, x = torch.compile(model, fullgraph=True), normal(8, 64, dtype=torch.bfloat16, device=device)
        with torch.no_grad():
            called = [op for op, _ in calls(lambda: compiled(x))]
            by_codes = ["_quantize_nvfp4_rows_compiled", "_block_scaled_matmul_compiled"]
            assert called == (by_codes if device.type == "cpu" else [LINEAR]) * 2
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


Weights = list[tuple[Tensor, Tensor]]
FORMS = ("mxfp8", "mxfp4", "nvfp4")
BY_CODES = ["_quantize_compiled", "_block_scaled_matmul_compiled"]
LINEAR = "_quantized_linear_compiled"


def operands_of(form: str, m: int, *columns: int, dtype: torch.dtype, device: str) -> tuple[Tensor, Weights]:
    weights = [normal(n, 512, dtype=torch.bfloat16, device=device, seed=n) for n in columns]
    return normal(m, 512, dtype=dtype, device=device), [tileon_ops.quantize(weight, form) for weight in weights]


def products(x: Tensor, form: str, weights: Weights, out_dtype: torch.dtype | None) -> tuple[Tensor, ...]:
    factor = None
    if form == "nvfp4":
        a, scale_a, factor = torch.ops.tileon._quantize_nvfp4_rows(x)
    else:
        a, scale_a = torch.ops.tileon.quantize(x, form, scale_rounding="rceil")
    multiply = torch.ops.tileon.block_scaled_matmul
    return tuple(multiply(a, b, scale_a, scale_b, None, factor, out_dtype=out_dtype) for b, scale_b in weights)


class TestQuantizedRows:
    """A graph that quantizes rows for products, on a CPU as if numbers were the faster way."""

    @pytest.fixture(autouse=True)
    def _numbers_pay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(quantized_linear, "numbers_pay", lambda *_: True)

    def called(self, layer: Callable[[Tensor], Any], x: Tensor) -> list[str]:
        """The ops of the layer's program, whose results are those of the layer, bit by bit."""
        compiled, wanted = torch.compile(layer, fullgraph=True), layer(x.clone())
        found = [op for op, _ in calls(lambda: compiled(x.clone()))]
        torch.testing.assert_close(compiled(x.clone()), wanted, rtol=0, atol=0)
        return found

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
    def test_each_product_is_a_call(self, form: str, dtype: torch.dtype) -> None:
        x, weights = operands_of(form, 4, 256, 384, dtype=dtype, device="cpu")
        assert self.called(lambda x: products(x, form, weights, dtype), x) == [LINEAR] * 2

    @pytest.mark.parametrize("form", FORMS)
    def test_a_result_of_another_dtype_is_of_codes(self, form: str) -> None:
        """As it is without `out_dtype` of bfloat16."""
        x, weights = operands_of(form, 4, 256, dtype=torch.bfloat16, device="cpu")
        for out_dtype in (None, torch.float32):
            torch._dynamo.reset()
            called = self.called(lambda x: products(x, form, weights, out_dtype), x)  # noqa: B023
            assert called[1:] == BY_CODES[1:]

    def test_codes_that_others_use_stay(self) -> None:
        x, ((b, scale_b),) = operands_of("mxfp8", 4, 256, dtype=torch.float16, device="cpu")

        def layer(x: Tensor) -> tuple[Tensor, ...]:
            a, scale_a = torch.ops.tileon.quantize(x, "mxfp8")
            return torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b), a.view(torch.uint8)

        assert sorted(self.called(layer, x)) == ["_quantize_compiled", LINEAR]

    def test_rows_of_nvfp4_without_scales_of_their_own_are_codes(self) -> None:
        x, ((b, scale_b),) = operands_of("nvfp4", 4, 256, dtype=torch.float16, device="cpu")

        def layer(x: Tensor) -> Tensor:
            a, scale_a = torch.ops.tileon.quantize(x, "nvfp4")
            return torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b)

        assert self.called(layer, x) == BY_CODES

    def test_bias_factor_and_activation_go_along(self) -> None:
        x, ((b, scale_b),) = operands_of("mxfp4", 4, 256, dtype=torch.float16, device="cpu")
        bias, factor = torch.linspace(-1, 1, 256), torch.rand(4, 1) + 0.5

        def layer(x: Tensor) -> Tensor:
            a, scale_a = torch.ops.tileon.quantize(x, "mxfp4")
            options = {"bias": bias, "activation": "relu", "fast_accum": True}
            return torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b, global_scale=factor, **options)

        assert self.called(layer, x) == [LINEAR]

    def test_the_rows_may_be_written_behind_it(self) -> None:
        x, ((b, scale_b),) = operands_of("mxfp4", 4, 256, dtype=torch.float16, device="cpu")

        def layer(x: Tensor) -> tuple[Tensor, Tensor]:
            y = x + 1
            a, scale_a = torch.ops.tileon.quantize(y, "mxfp4")
            y.index_put_((torch.tensor([0]),), torch.zeros(512, dtype=y.dtype))
            x.mul_(2)
            return torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b), y

        assert LINEAR in self.called(layer, x)

    def test_a_weight_that_comes_later_is_multiplied_by_codes(self) -> None:
        x, ((b, scale_b),) = operands_of("mxfp4", 4, 256, dtype=torch.float16, device="cpu")

        def layer(x: Tensor) -> Tensor:
            a, scale_a = torch.ops.tileon.quantize(x, "mxfp4")
            later = (a[:1].view(torch.uint8) | b.view(torch.uint8)).view(b.dtype)
            return torch.ops.tileon.block_scaled_matmul(a, later, scale_a, scale_b)

        assert self.called(layer, x) == BY_CODES

    def test_a_model(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32)).bfloat16()
        tileon_ops.convert(model, "nvfp4")
        with torch.no_grad():
            assert self.called(model, normal(8, 64, dtype=torch.bfloat16, device="cpu")) == [LINEAR] * 2


@pytest.mark.gpu
@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() != (9, 0), reason="of Hopper's kernels alone"
)
class TestQuantizedRowsOnHopper:
    """Where numbers are expected to be the faster way the products are calls, which decide when they run."""

    def program(self, form: str, m: int) -> tuple[list[str], Callable[[Tensor], Any], Tensor, Weights]:
        x, weights = operands_of(form, m, 4096, 1024, dtype=torch.bfloat16, device="cuda")
        compiled = torch.compile(lambda x: products(x, form, weights, x.dtype), fullgraph=True, dynamic=False)
        return [op for op, _ in calls(lambda: compiled(x))], compiled, x, weights

    @pytest.mark.parametrize("form", FORMS)
    def test_few_rows(self, form: str) -> None:
        called, compiled, x, weights = self.program(form, 4)
        assert called == [LINEAR] * 2
        for actual, wanted in zip(compiled(x), products(x, form, weights, x.dtype), strict=True):
            torch.testing.assert_close(actual, wanted, rtol=1e-2, atol=2e-1)
        assert tileon_ops.last_kernel().startswith("sm90_block_scaled_")  # of the products by codes
        compiled(x)
        assert tileon_ops.last_kernel().startswith("sm90_weight_direct_")

    @pytest.mark.parametrize("form", FORMS)
    def test_many_rows_share_their_codes(self, form: str) -> None:
        called, *_ = self.program(form, 1000)
        assert called[1:] == ["_block_scaled_matmul_compiled"] * 2

    @pytest.mark.parametrize("form", FORMS)
    def test_programs_heed_batch_invariance_when_they_run(self, form: str) -> None:
        (_, few, x, _), (_, many, _, _) = self.program(form, 4), self.program(form, 500)
        rows = torch.cat((x, torch.randn(496, 512, dtype=x.dtype, device="cuda")))
        with tileon_ops.batch_invariant():
            for one, other in zip(few(x), many(rows), strict=True):
                assert torch.equal(one, other[:4])


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
    for key in ("CPU", "CUDA"):
        assert torch._C._dispatch_has_kernel_for_dispatch_key(f"tileon::{private}", key)
    assert not torch._C._dispatch_has_kernel_for_dispatch_key(f"tileon::{private}", "Autograd")
