"""`block_scaled_matmul` under torch's transformations: opcheck, torch.compile, export, meta tensors, autocast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from block_scaled_operands import (
    FORMATS,
    MXFP4,
    NVFP4,
    Format,
    constant,
    each_format,
    in_poison,
    multiply,
    small_integers,
)
from block_scaled_reference import assert_product, expected, product
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode

from tileon_ops._rules.configs import block_scaled

E4M3 = torch.float8_e4m3fn
OUT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, E4M3)
OPCHECK_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
op = torch.ops.tileon.block_scaled_matmul


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def tensors(
    fmt: Format, device: torch.device, m: int = 3, n: int = 5, k: int = 64, forms: tuple[str, str] = ("2d", "2d")
) -> tuple[Tensor, ...]:
    a, b = small_integers(fmt, "a", m, k).to(device), small_integers(fmt, "b", n, k, seed=1).to(device)
    return a.data(), b.data(), a.scale_tensor(forms[0]), b.scale_tensor(forms[1])


def opcheck_inputs(fmt: Format, device: torch.device) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    bias, factor = torch.arange(5.0, device=device), torch.tensor(0.5, device=device)
    a, b, scale_a, scale_b = tensors(fmt, device)
    transposed = in_poison(a.view(torch.uint8), transposed=True, offset=1).view(a.dtype)
    return [
        ((a, b, scale_a, scale_b), {}),
        (
            (*tensors(fmt, device, forms=("packed", "2d")), bias, factor),
            {"activation": "leaky_relu", "slope": 0.2, "out_dtype": torch.float32},
        ),
        (
            (*tensors(fmt, device, 130, 5, 160, ("packed", "packed")), None, factor.view(1)),
            {"activation": "gelu", "out_dtype": torch.bfloat16, "fast_accum": True},
        ),
        ((transposed, b, scale_a, scale_b, bias.half()), {}),
        (tensors(fmt, device, 0, 5, 64), {}),
        (tensors(fmt, device, 3, 5, 0), {"out_dtype": torch.float32}),
    ]


@pytest.mark.usefixtures("codes_compare_as_bytes")
class TestOpcheck:
    @each_format
    def test_functional(self, device: torch.device, fmt: Format) -> None:
        for arguments, options in opcheck_inputs(fmt, device):
            torch.library.opcheck(op.default, arguments, options, test_utils=OPCHECK_TESTS)

    @each_format
    def test_out(self, device: torch.device, fmt: Format) -> None:
        for arguments, options in opcheck_inputs(fmt, device):
            out = torch.empty_like(op(*arguments, **options))
            torch.library.opcheck(op.out, arguments, {**options, "out": out}, test_utils=OPCHECK_TESTS)

    def test_everything_where_all_operands_are_uint8(self, device: torch.device) -> None:
        for arguments, options in opcheck_inputs(MXFP4, device):
            as_uint8 = tuple(t.view(torch.uint8) if t is not None and t.dim() > 1 else t for t in arguments)
            torch.library.opcheck(op.default, as_uint8, options, test_utils=OPCHECK_TESTS)
            out = torch.empty_like(op(*as_uint8, **options))
            torch.library.opcheck(op.out, as_uint8, {**options, "out": out}, test_utils=OPCHECK_TESTS)

    @pytest.mark.gpu
    @each_format
    def test_a_row_by_index(self, fmt: Format) -> None:
        name = fmt.name.removesuffix("_reversed")
        index = next((config.index for config in block_scaled() if name in config.operands), None)
        if index is None:
            pytest.skip("CPU-only build: the tile table is empty")
        torch.library.opcheck(
            torch.ops.tileon._block_scaled_matmul_with_config.default,
            tensors(fmt, torch.device("cuda"), 64, 64, 128),
            {"config": index, "activation": "relu"},
            test_utils=OPCHECK_TESTS,
        )


def model(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor, factor: Tensor) -> Tensor:
    hidden = op(a, b, scale_a, scale_b, bias, factor, activation="gelu", out_dtype=torch.float32)
    return hidden * 2 + bias


class TestCompile:
    @pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
    def test_fullgraph(self, device: torch.device, backend: str) -> None:
        compiled = torch.compile(model, fullgraph=True, backend=backend)
        for fmt in FORMATS if backend != "inductor" else (NVFP4,):  # what inductor makes is around the op, not in it
            inputs = (*tensors(fmt, device, forms=("packed", "2d")), torch.arange(5.0, device=device))
            factor = torch.tensor(0.5, device=device)
            torch.testing.assert_close(compiled(*inputs, factor), model(*inputs, factor))

    @pytest.mark.parametrize("forms", [("2d", "2d"), ("packed", "packed"), ("2d", "packed")], ids="-".join)
    def test_dynamic_shapes_compile_once(self, device: torch.device, forms: tuple[str, str]) -> None:
        for fmt in FORMATS:
            torch._dynamo.reset()
            counter = CompileCounterWithBackend("aot_eager")
            compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=counter)
            factor = torch.tensor(0.5, device=device)
            # no two numbers of blocks are the same in the first: the compiler would take them for one
            for m, n, k in ((130, 300, 640), (257, 129, 448), (600, 700, 1024)):
                inputs = (*tensors(fmt, device, m, n, k, forms), torch.arange(float(n), device=device))
                torch.testing.assert_close(compiled(*inputs, factor), model(*inputs, factor))
            assert counter.frame_count == 1, fmt

    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_out_mutates_its_argument(self, device: torch.device, backend: str) -> None:
        def into(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, out: Tensor) -> Tensor:
            op.out(a, b, scale_a, scale_b, activation="relu", out_dtype=torch.float32, out=out)
            return out + 1

        a, b = small_integers(NVFP4, "a", 5, 64).to(device), small_integers(NVFP4, "b", 6, 64).to(device)
        out = torch.full((5, 6), -1.0, device=device)
        compiled = torch.compile(into, fullgraph=True, backend=backend)
        result = compiled(a.data(), b.data(), a.scale_tensor(), b.scale_tensor(), out)
        wanted = expected(product(a, b), activation="relu", out_dtype=torch.float32)
        assert_product(out, wanted)
        assert torch.equal(result, out + 1)

    def test_the_promised_strides(self, device: torch.device) -> None:
        def flat(*operands: Tensor) -> Tensor:
            return op(*operands).view(-1)  # fails where the result is not contiguous

        for fmt in FORMATS:
            operands = tensors(fmt, device)
            actual = torch.compile(flat, fullgraph=True, backend="aot_eager")(*operands)
            assert torch.equal(actual, flat(*operands))

    @pytest.mark.gpu
    def test_reduce_overhead_replays_with_new_inputs(self) -> None:
        compiled = torch.compile(model, fullgraph=True, mode="reduce-overhead")
        factor = torch.tensor(0.5, device="cuda")
        for seed in range(4):
            a = small_integers(NVFP4, "a", 64, 64, seed=seed).to("cuda")
            b = small_integers(NVFP4, "b", 72, 64, seed=seed + 10).to("cuda")
            inputs = (a.data(), b.data(), a.scale_tensor("packed"), b.scale_tensor("packed"))
            bias = torch.arange(72.0, device="cuda") + seed
            torch.testing.assert_close(compiled(*inputs, bias, factor), model(*inputs, bias, factor))


def test_export_with_dynamic_rows(device: torch.device) -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            weight = small_integers(NVFP4, "b", 6, 64).to(device)
            self.register_buffer("weight", weight.data())
            self.register_buffer("scale", weight.scale_tensor("packed"))

        def forward(self, x: Tensor, scale: Tensor) -> Tensor:
            return op(x, self.weight, scale, self.scale, activation="relu")

    layer, rows = Layer(), torch.export.Dim("rows", min=2, max=4096)
    x, _, scale, _ = tensors(NVFP4, device, 7)
    program = torch.export.export(layer, (x, scale), dynamic_shapes=({0: rows}, {0: rows}))
    assert "tileon.block_scaled_matmul" in str(program.graph)
    longer, _, longer_scale, _ = tensors(NVFP4, device, 33)
    assert torch.equal(program.module()(longer, longer_scale), layer(longer, longer_scale))


class TestFake:
    @pytest.mark.parametrize("out_dtype", [None, *OUT_DTYPES], ids=str)
    @each_format
    def test_shape_dtype_strides_and_device_are_the_real_ones(
        self, device: torch.device, fmt: Format, out_dtype: torch.dtype | None
    ) -> None:
        for m, n, k in ((3, 5, 64), (0, 5, 64), (3, 0, 64), (3, 5, 0), (130, 257, 160)):
            for forms in (("2d", "2d"), ("packed", "2d"), ("2d", "packed")):
                operands = tensors(fmt, device, m, n, k, forms)
                real = op(*operands, out_dtype=out_dtype)
                with FakeTensorMode() as mode:
                    fake = op(*(mode.from_tensor(t) for t in operands), out_dtype=out_dtype)
                for what in ("shape", "dtype"):
                    assert getattr(fake, what) == getattr(real, what)
                assert fake.stride() == real.stride()
                assert fake.device == real.device

    @each_format
    def test_meta_tensors_have_shapes_and_no_data(self, fmt: Format) -> None:
        size = 2**20
        data = {
            "e4m3": torch.empty(size, size, device="meta", dtype=E4M3),
            "e2m1": torch.empty(size, size // 2, device="meta", dtype=torch.uint8),
        }
        scale_dtype = E4M3 if fmt.scale == "e4m3" else torch.float8_e8m0fnu
        scale = torch.empty(size, size // fmt.vec, device="meta", dtype=scale_dtype)
        packed = torch.empty(size // 128, size // fmt.vec // 4, 32, 4, 4, device="meta", dtype=scale_dtype)
        actual = op(data[fmt.a], data[fmt.b], scale, packed)
        assert (actual.shape, actual.dtype, actual.device.type) == ((size, size), torch.float16, "meta")

    def test_out_returns_nothing(self) -> None:
        operands = tensors(NVFP4, torch.device("cpu"))
        with FakeTensorMode() as mode:
            operands = tuple(mode.from_tensor(t) for t in operands)
            assert op.out(*operands, out=torch.empty(3, 5, dtype=torch.float16)) is None


class TestAutocast:
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
    @each_format
    def test_leaves_the_operands_alone(self, device: torch.device, fmt: Format, dtype: torch.dtype) -> None:
        a, b = small_integers(fmt, "a", 9, 64).to(device), small_integers(fmt, "b", 10, 64).to(device)
        bias, factor = torch.full((10,), 1 + 2.0**-20, device=device), torch.tensor(1 + 2.0**-20, device=device)
        wanted = multiply(a, b, bias, factor, out_dtype=torch.float32)
        with torch.autocast(device.type, dtype):
            actual = multiply(a, b, bias, factor, out_dtype=torch.float32)
            assert multiply(a, b).dtype == torch.float16
        assert actual.dtype == torch.float32
        assert torch.equal(actual, wanted)


def test_the_result_never_requires_grad(device: torch.device) -> None:
    a, b = constant(NVFP4, "a", 2, 32).to(device), constant(NVFP4, "b", 3, 32).to(device)
    assert not multiply(a, b).requires_grad
