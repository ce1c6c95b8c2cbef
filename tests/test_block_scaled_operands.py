"""`block_scaled_matmul` of a 16-bit `a`, and of float32 scales: opcheck, torch.compile, torch.export, autocast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from operands import integers, normal
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode
from weights import FLOAT32_SCALED, GRANULARITIES, NAMES, each_weight, exact_weight, random_weight

import tileon_ops

op = torch.ops.tileon.block_scaled_matmul
backward_op = torch.ops.tileon._block_scaled_backward
OPCHECK_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
TO = (torch.float16, torch.bfloat16)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def weight_of(name: str, n: int, k: int, device: torch.device, packed: bool = False) -> tuple[Tensor, Tensor]:
    weight = exact_weight(name, n, k, packed=packed)
    return weight.data.to(device), weight.scale.to(device)


def numbers(m: int, k: int, device: torch.device, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return integers(m, k, dtype=dtype, device=device, seed=m)


def partner(name: str) -> str:
    """What both operands' kinds may be: int8 goes with int8."""
    return "int8_tensor" if name.startswith("int8") else "float8_e5m2_row"


@pytest.mark.usefixtures("codes_compare_as_bytes")
class TestOpcheck:
    @each_weight
    def test_a_16_bit_a(self, device: torch.device, name: str) -> None:
        b, scale = weight_of(name, 5, 64, device, packed=True)
        one, of_rows = torch.tensor(0.5, device=device), torch.ones(3, 1, device=device)
        for a, tail, options in (
            (numbers(3, 64, device), (), {}),
            (numbers(3, 64, device).requires_grad_(), (torch.ones(5, device=device), of_rows), {"activation": "gelu"}),
            (numbers(0, 64, device, torch.float16), (None, one), {"out_dtype": torch.float32}),
        ):
            torch.library.opcheck(op.default, (a, b, None, scale, *tail), options, test_utils=OPCHECK_TESTS)
            arguments = (a.detach(), b, None, scale, *tail)
            out = torch.empty_like(op(*arguments, **options))
            torch.library.opcheck(op.out, arguments, {**options, "out": out}, test_utils=OPCHECK_TESTS)

    @pytest.mark.parametrize("name", FLOAT32_SCALED)
    def test_float32_scales(self, device: torch.device, name: str) -> None:
        (a, scale_a), (b, scale_b) = weight_of(name, 130, 200, device), weight_of(partner(name), 5, 200, device)
        for arguments in ((a, b, scale_a, scale_b), (b, a, scale_b, scale_a, None, torch.ones(5, 1, device=device))):
            torch.library.opcheck(op.default, arguments, {"activation": "relu"}, test_utils=OPCHECK_TESTS)

    @each_weight
    def test_the_backward_op(self, device: torch.device, name: str) -> None:
        b, scale = weight_of(name, 130, 64, device, packed=True)
        for grad, factor in (
            (numbers(3, 130, device), torch.ones(3, 1, device=device)),
            (numbers(3, 130, device).requires_grad_(), torch.tensor(2.0, device=device)),
            (numbers(0, 130, device), None),
        ):
            torch.library.opcheck(backward_op.default, (grad, b, scale, factor), {}, test_utils=OPCHECK_TESTS)


class TestFake:
    @each_weight
    def test_shape_dtype_strides_and_device_are_the_real_ones(self, device: torch.device, name: str) -> None:
        for m, n, k in ((3, 5, 64), (0, 5, 64), (3, 0, 64), (3, 5, 0), (130, 257, 160)):
            b, scale = weight_of(name, n, k, device)
            for dtype, out_dtype in ((torch.float16, None), (torch.bfloat16, None), (torch.bfloat16, torch.float32)):
                a, grad = numbers(m, k, device, dtype), numbers(m, n, device, dtype)
                with FakeTensorMode() as mode:
                    fakes = [mode.from_tensor(t) for t in (a, b, scale, grad)]
                    found = op(fakes[0], fakes[1], None, fakes[2], out_dtype=out_dtype)
                    found_grad = backward_op(fakes[3], fakes[1], fakes[2])
                real = op(a, b, None, scale, out_dtype=out_dtype)
                assert real.dtype == (out_dtype or dtype)
                for fake, actual in ((found, real), (found_grad, backward_op(grad, b, scale))):
                    assert (fake.shape, fake.dtype, fake.stride()) == (actual.shape, actual.dtype, actual.stride())
                    assert fake.device == actual.device

    @pytest.mark.parametrize("device_or_meta", ["cpu", "meta"])
    def test_the_backward_op_says_what_does_not_fit(self, device_or_meta: str) -> None:
        weight = exact_weight("float8_e4m3fn_row", 5, 64)
        b, scale = weight.data.to(device_or_meta), weight.scale.to(device_or_meta)
        grad = torch.ones(3, 5, dtype=torch.float16, device=device_or_meta)
        for arguments, words in (
            ((grad[0], b, scale), "_block_scaled_backward: `grad` must be 2-D (m, n), got 1-D"),
            ((grad, b[0], scale), "_block_scaled_backward: `b` must be 2-D (n, k), got 1-D"),
            ((grad.float(), b, scale), "_block_scaled_backward: `grad` must be float16 or bfloat16, got float32"),
            (
                (grad[:, 1:], b, scale),
                "_block_scaled_backward: `grad` must have as many columns as `b` has rows",
            ),
            ((grad, b, scale[1:]), "block_scaled_matmul: `scale_b` must have the shape (), (1,) or (1, 1)"),
            ((grad, b, scale, scale[:, 0]), "block_scaled_matmul: `global_scale` must be one element"),
        ):
            with pytest.raises(RuntimeError) as caught:
                backward_op(*arguments)
            assert str(caught.value).startswith(words)


def model(a: Tensor, b: Tensor, scale: Tensor, bias: Tensor, factor: Tensor) -> Tensor:
    hidden = op(a, b, None, scale, bias, factor, activation="gelu", out_dtype=torch.float32)
    return hidden * 2 + bias


def loss(*arguments: Tensor) -> Tensor:
    return model(*arguments).square().sum()


class TestCompile:
    @pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
    def test_fullgraph_forward_and_backward(self, device: torch.device, backend: str) -> None:
        for name in ("mxfp8", "nvfp4", "float8_e4m3fn_128x128", "int8_row"):
            torch._dynamo.reset()
            compiled = torch.compile(loss, fullgraph=True, backend=backend)
            weight = random_weight(name, 5, 64)
            b, scale = weight.data.to(device), weight.scale.to(device)
            factor = torch.full((3, 1), 1 / weight.values.std().item() / 8, device=device)
            for run in (loss, compiled):
                a = (normal(3, 64, dtype=torch.float16, device=device)).requires_grad_()
                bias = torch.arange(5.0, device=device, requires_grad=True)
                gradients = torch.autograd.grad(run(a, b, scale, bias, factor), (a, bias))
                if run is loss:
                    expected = gradients
                torch.testing.assert_close(gradients, expected, rtol=2e-3, atol=2e-3)

    @each_weight
    def test_dynamic_shapes_compile_once(self, device: torch.device, name: str) -> None:
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
        # no two numbers of blocks are the same in the first: the compiler would take them for one
        for m, n, k in ((130, 300, 640), (257, 129, 448), (40, 500, 832)):
            b, scale = weight_of(name, n, k, device, packed=True)
            inputs = (numbers(m, k, device), b, scale, torch.arange(float(n), device=device))
            factor = torch.rand(m, 1, device=device)
            torch.testing.assert_close(compiled(*inputs, factor), model(*inputs, factor))
        assert counter.frame_count == 1

    @pytest.mark.parametrize("granularity", GRANULARITIES)
    def test_dynamic_rows_with_float32_scales_compile_once(self, device: torch.device, granularity: str) -> None:
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(op, fullgraph=True, dynamic=True, backend=counter)
        weight = weight_of("float8_e4m3fn_128x128", 300, 640, device)
        for m in (130, 257, 600):
            a, scale_a = weight_of(f"float8_e4m3fn_{granularity}", m, 640, device)
            torch.testing.assert_close(compiled(a, weight[0], scale_a, weight[1]), op(a, weight[0], scale_a, weight[1]))
        assert counter.frame_count == 1

    def test_samples_gradients_compile(self, device: torch.device) -> None:
        b, scale = weight_of("mxfp8", 5, 64, device)

        def of_samples(a: Tensor) -> Tensor:
            one = lambda a: op(a, b, None, scale, activation="silu", out_dtype=torch.float32).sum()  # noqa: E731
            return torch.vmap(torch.func.grad(one))(a)

        a = numbers(6, 64, device).view(3, 2, 64)
        compiled = torch.compile(of_samples, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(a), of_samples(a))


class WeightOnly(torch.nn.Module):
    def __init__(self, name: str, device: torch.device) -> None:
        super().__init__()
        weight, scale = weight_of(name, 6, 64, device)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = op(x, self.weight, None, self.scale, activation="relu")
        return result


class Float32Scaled(WeightOnly):
    """Activations of fp8 with a scale a row, made on the fly."""

    def forward(self, x: Tensor) -> Tensor:
        scale = x.float().abs().amax(1, keepdim=True) / 448
        data = (x.float() / scale).to(torch.float8_e4m3fn)
        result: Tensor = op(data, self.weight, scale, self.scale, activation="relu", out_dtype=torch.bfloat16)
        return result


@pytest.mark.parametrize(
    ("make", "name"),
    [*((WeightOnly, name) for name in NAMES), *((Float32Scaled, f"float8_e4m3fn_{g}") for g in GRANULARITIES)],
)
def test_export_is_one_program_for_all_row_counts(
    device: torch.device, make: Callable[..., torch.nn.Module], name: str
) -> None:
    layer, rows = make(name, device), torch.export.Dim("rows", min=2, max=4096)
    program = torch.export.export(layer, (numbers(7, 64, device),), dynamic_shapes=({0: rows},))
    assert "tileon.block_scaled_matmul" in str(program.graph)
    for count in (2, 7, 33, 128, 130):
        x = numbers(count, 64, device) + 1
        assert torch.equal(program.module()(x), layer(x))


class TestAutocast:
    @pytest.mark.parametrize("to", TO, ids=str)
    @pytest.mark.parametrize("dtype", [*TO, torch.float32], ids=str)
    def test_casts_an_a_without_a_scale(self, device: torch.device, to: torch.dtype, dtype: torch.dtype) -> None:
        b, scale = weight_of("nvfp4", 5, 64, device)
        factor = torch.tensor(1 + 2.0**-20, device=device)
        a = numbers(3, 64, device, dtype)
        with torch.autocast(device.type, dtype=to):
            for call in (op, tileon_ops.block_scaled_matmul):
                result = call(a, b, None, scale, None, factor)
                assert result.dtype == to
        assert torch.equal(result, op(a.to(to), b, None, scale, None, factor))

    @pytest.mark.parametrize("to", TO, ids=str)
    @pytest.mark.parametrize("out_dtype", [None, *TO, torch.float32, torch.float8_e4m3fn], ids=str)
    def test_a_bias_follows_the_outputs_dtype(
        self, device: torch.device, to: torch.dtype, out_dtype: torch.dtype | None
    ) -> None:
        b, scale = weight_of("mxfp8", 5, 64, device)
        a, bias = numbers(3, 64, device, torch.float32), integers(5, dtype=torch.float32, device=device)
        expected = op(a.to(to), b, None, scale, bias, out_dtype=out_dtype)
        with torch.autocast(device.type, dtype=to):
            for given in (*TO, torch.float32):
                actual = op(a, b, None, scale, bias.to(given), out_dtype=out_dtype)
                assert actual.dtype == (out_dtype or to)
                assert torch.equal(actual.float(), expected.float())
            wide = torch.full((5,), 1 + 2.0**-20, device=device)  # of float32: not rounded
            zeros = torch.zeros_like(a)
            assert torch.equal(op(zeros, b, None, scale, wide, out_dtype=torch.float32), wide.expand(3, 5))

    def test_gradients_have_the_dtypes_of_what_was_given(self, device: torch.device) -> None:
        b, scale = weight_of("int8_row", 5, 64, device)
        a = numbers(3, 64, device, torch.float32).requires_grad_()
        bias = torch.ones(5, dtype=torch.float16, device=device, requires_grad=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            result = op(a, b, None, scale, bias)
        of_a, of_bias = torch.autograd.grad(result.sum(), (a, bias))
        assert (of_a.dtype, of_bias.dtype) == (torch.float32, torch.float16)
        assert torch.equal(of_a, exact_weight("int8_row", 5, 64).values.sum(0).float().to(device).expand(3, 64))

    def test_codes_and_float32_scales_are_left_alone(self, device: torch.device) -> None:
        (a, scale_a), (b, scale_b) = (
            weight_of("float8_e4m3fn_1x128", 3, 64, device),
            weight_of("int8_row", 5, 64, device),
        )
        c, scale_c = weight_of("int8_tensor", 3, 64, device)
        bias = torch.full((5,), 1 + 2.0**-20, device=device)
        for arguments in ((a, a, scale_a, scale_a), (c, b, scale_c, scale_b, bias)):
            expected = op(*arguments, out_dtype=torch.float32)
            with torch.autocast(device.type, dtype=torch.bfloat16):
                assert op(*arguments).dtype == torch.float16
                assert torch.equal(op(*arguments, out_dtype=torch.float32), expected)

    def test_does_not_reach_out_nor_what_is_not_within(self, device: torch.device) -> None:
        b, scale = weight_of("mxfp4", 5, 64, device)
        a = numbers(3, 64, device, torch.float32)
        words = r"^block_scaled_matmul: operands `a` x `b` of dtypes float32 x uint8 are not offered"
        with pytest.raises(RuntimeError, match=words):
            op(a, b, None, scale)
        out = torch.zeros(3, 5, dtype=torch.bfloat16, device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16), pytest.raises(RuntimeError, match=words):
            op.out(a, b, None, scale, out=out)
        assert not out.any()

    def test_compiled(self, device: torch.device) -> None:
        b, scale = weight_of("float8_e5m2_row", 5, 64, device)

        def run(a: Tensor) -> Tensor:
            with torch.autocast(device.type, dtype=torch.bfloat16):
                result: Tensor = op(a, b, None, scale)
            return result

        a: Any = numbers(3, 64, device, torch.float32)
        actual = torch.compile(run, fullgraph=True, backend="aot_eager")(a)
        assert actual.dtype == torch.bfloat16
        assert torch.equal(actual, run(a))
