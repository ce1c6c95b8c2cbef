"""quantize, dequantize and the packing ops under torch's transformations: opcheck, compile, export, fake and meta."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from float32_scale_reference import FLOAT32_FORMATS, Float32Format
from operands import normal
from small_float_operands import X_DTYPES, as_data, laid_out, random_bytes, random_data
from small_float_reference import (
    BYTE,
    E4M3,
    E8M0,
    FORMATS,
    NVFP4,
    Format,
    assert_same_bits,
    expected_dequantize,
    expected_quantize,
    pack,
)
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._subclasses.fake_tensor import FakeTensorMode

import tileon_ops

OPCHECK_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
OPS = torch.ops.tileon
INT8_TENSOR = FLOAT32_FORMATS[-1]

each_format = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def quantize_calls(device: torch.device) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    def x(rows: int, k: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return normal(rows, k, dtype=dtype, device=device)

    return {
        "mxfp8": ((x(3, 64), "mxfp8"), {}),
        "mxfp4 rceil": ((x(3, 64, torch.bfloat16), "mxfp4"), {"scale_rounding": "rceil"}),
        "nvfp4": ((x(3, 48, torch.float16), "nvfp4"), {}),
        "nvfp4 with global_scale": ((x(3, 48), "nvfp4", torch.tensor(0.1, device=device)), {}),
        "global_scale (1,)": ((x(3, 48), "nvfp4", torch.tensor([0.1], device=device)), {}),
        "more than one packed block": ((x(130, 160), "mxfp8"), {}),
        "transposed": ((x(64, 5).t(), "mxfp4"), {}),
        "strided": ((laid_out(x(5, 64), step=2, offset=1), "nvfp4"), {}),
        "expanded": ((x(5, 1).expand(5, 64), "mxfp8"), {}),
        "no rows": ((x(0, 64), "mxfp8"), {}),
        "no columns": ((x(3, 0), "nvfp4"), {}),
        "nvfp4 with a global_scale a row": ((x(3, 48), "nvfp4", x(3, 1).abs()), {}),
        **{form.name: ((x(130, 157), form.name), {}) for form in FLOAT32_FORMATS},
        "fp8_row without columns": ((x(3, 0), "fp8_row"), {}),
        "int8_tensor without rows": ((x(0, 3), "int8_tensor"), {}),
        "fp8_128x128 transposed": ((x(157, 130, torch.float16).t(), "fp8_128x128"), {}),
    }


def dequantize_calls(device: torch.device) -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    def operands(form: Format, rows: int, blocks: int, packed: bool) -> tuple[Tensor, Tensor, str]:
        """Codes without NaN: opcheck compares results with NaN unequal."""
        data = random_data(form, rows, blocks * form.vec) & 0x77
        scale = random_bytes(rows, blocks, below=16) + 0x30
        given = pack(scale) if packed else scale
        return as_data(data, form.data_dtype, device), as_data(given, form.scale_dtype, device), form.name

    def float32_operands(form: Float32Format) -> tuple[Tensor, Tensor, str]:
        data = random_bytes(130, 157) & 0x77
        scale = normal(*form.scale_shape(130, 157), dtype=torch.float32, device=device)
        return as_data(data, form.dtype, device), scale, form.name

    mxfp8, mxfp4, nvfp4 = FORMATS
    data, scale, name = operands(mxfp8, 5, 4, False)
    return {
        "mxfp8": ((data, scale, name), {}),
        "mxfp8 packed": (operands(mxfp8, 130, 5, True), {"out_dtype": torch.bfloat16}),
        "mxfp4": (operands(mxfp4, 5, 2, False), {"out_dtype": torch.float16}),
        "mxfp4 packed": (operands(mxfp4, 5, 2, True), {}),
        "nvfp4": (operands(nvfp4, 5, 3, True), {}),
        "nvfp4 with global_scale": ((*operands(nvfp4, 5, 3, False), torch.tensor(0.1, device=device)), {}),
        "strided": ((laid_out(data, reverse=True), laid_out(scale, step=2), name), {}),
        "no rows": (operands(mxfp8, 0, 2, True), {}),
        "no columns": (operands(nvfp4, 3, 0, False), {}),
        "nvfp4 with a global_scale a row": ((*operands(nvfp4, 5, 3, False), torch.rand(5, 1, device=device)), {}),
        **{form.name: (float32_operands(form), {"out_dtype": torch.bfloat16}) for form in FLOAT32_FORMATS},
        "int8_tensor, scale 0-D": (
            (float32_operands(INT8_TENSOR)[0], torch.tensor(0.5, device=device), "int8_tensor"),
            {},
        ),
    }


def packing_calls(device: torch.device) -> dict[str, tuple[str, tuple[Any, ...]]]:
    scale = as_data(random_bytes(130, 6, below=200), BYTE, device)
    packed = as_data(pack(random_bytes(130, 6, below=100)), BYTE, device)
    return {
        "pack uint8": ("pack_scales", (scale,)),
        "pack e8m0": ("pack_scales", (scale.view(E8M0),)),
        "pack e4m3": ("pack_scales", ((scale & 0x77).view(E4M3),)),
        "pack strided": ("pack_scales", (laid_out(scale, reverse=True, step=2),)),
        "pack nothing": ("pack_scales", (scale[:0],)),
        "unpack uint8": ("unpack_scales", (packed, 130, 6)),
        "unpack e8m0": ("unpack_scales", (packed.view(E8M0), 129, 5)),
        "unpack e4m3": ("unpack_scales", ((packed & 0x77).view(E4M3), 1, 1)),
        "unpack strided": ("unpack_scales", (laid_out(packed, reverse=True), 130, 6)),
        "unpack nothing": ("unpack_scales", (packed, 0, 6)),
    }


CPU = torch.device("cpu")


@pytest.mark.usefixtures("codes_compare_as_bytes")
class TestOpcheck:
    @pytest.mark.parametrize("name", quantize_calls(CPU))
    def test_quantize(self, device: torch.device, name: str) -> None:
        arguments, options = quantize_calls(device)[name]
        torch.library.opcheck(OPS.quantize.default, arguments, options, test_utils=OPCHECK_TESTS)

    @pytest.mark.parametrize("name", dequantize_calls(CPU))
    def test_dequantize(self, device: torch.device, name: str) -> None:
        arguments, options = dequantize_calls(device)[name]
        torch.library.opcheck(OPS.dequantize.default, arguments, options, test_utils=OPCHECK_TESTS)

    @pytest.mark.parametrize("name", packing_calls(CPU))
    def test_packing(self, device: torch.device, name: str) -> None:
        op, arguments = packing_calls(device)[name]
        torch.library.opcheck(getattr(OPS, op).default, arguments, test_utils=OPCHECK_TESTS)


def there_and_back(x: Tensor, form: str) -> tuple[Tensor, Tensor]:
    """Every op once: the values through 2-D scales, and the packed scales."""
    data, scale = tileon_ops.quantize(x * 2, form)
    blocks = x.shape[1] // (16 if form == "nvfp4" else 32)
    plain = tileon_ops.unpack_scales(scale, x.shape[0], blocks)
    return tileon_ops.dequantize(data, plain, form) + 1, tileon_ops.pack_scales(plain)


class TestCompile:
    @pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
    @each_format
    def test_fullgraph(self, device: torch.device, form: Format, backend: str) -> None:
        x = normal(37, 96, dtype=torch.float32, device=device)
        actual = torch.compile(there_and_back, fullgraph=True, backend=backend)(x, form.name)
        expected = there_and_back(x, form.name)
        assert torch.equal(actual[0], expected[0])
        assert torch.equal(actual[1].view(BYTE), expected[1].view(BYTE))

    @each_format
    def test_dynamic_shapes_compile_once(self, device: torch.device, form: Format) -> None:
        """Rows and K both. torch guards on whether a derived size, ceil(rows / 128), is 1: then once more for each."""
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(there_and_back, fullgraph=True, dynamic=True, backend=counter)
        several = ((129, 5), (300, 13), (257, 40), (1000, 6))
        one = ((37, 3), (128, 4), (5, 2), (128, 8), (300, 2))
        for shapes, frames in ((several, 1), (one, 4)):
            for rows, blocks in shapes:
                x = normal(rows, blocks * form.vec, dtype=torch.float32, device=device)
                actual, expected = compiled(x, form.name), there_and_back(x, form.name)
                assert torch.equal(actual[0], expected[0]), (rows, blocks)
                assert torch.equal(actual[1].view(BYTE), expected[1].view(BYTE)), (rows, blocks)
            assert counter.frame_count <= frames

    def test_a_symbolic_k_that_breaks_the_rule_is_refused(self, device: torch.device) -> None:
        compiled = torch.compile(
            lambda x: tileon_ops.quantize(x, "mxfp8")[0], fullgraph=True, dynamic=True, backend="aot_eager"
        )
        compiled(torch.ones(3, 64, device=device))
        with pytest.raises(Exception, match="32"):
            compiled(torch.ones(3, 65, device=device))

    def test_unpack_to_sizes_that_are_symbols(self, device: torch.device) -> None:
        def cropped(packed: Tensor, x: Tensor) -> Tensor:
            return tileon_ops.unpack_scales(packed, x.shape[0], x.shape[1])

        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(cropped, fullgraph=True, dynamic=True, backend=counter)
        packed = as_data(pack(random_bytes(256, 12)), BYTE, device)
        for rows, cols in ((200, 9), (256, 12), (3, 5)):
            x = torch.empty(rows, cols, device=device)
            assert torch.equal(compiled(packed, x), tileon_ops.unpack_scales(packed, rows, cols))
        assert counter.frame_count == 1

    def test_nvfp4_with_its_global_scale(self, device: torch.device) -> None:
        """nvfp4_global_scale breaks no graph: it reads nothing back."""

        def quantized(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            global_scale = tileon_ops.nvfp4_global_scale(x)
            return *tileon_ops.quantize(x, "nvfp4", global_scale), global_scale

        compiled = torch.compile(quantized, fullgraph=True, dynamic=True, backend="aot_eager")
        for rows in (7, 130):
            x = normal(rows, 96, dtype=torch.bfloat16, device=device)
            data, scale, global_scale = compiled(x)
            expected = expected_quantize(x, NVFP4, global_scale)
            assert_same_bits(global_scale.reshape(()).cpu(), tileon_ops.nvfp4_global_scale(x).reshape(()).cpu())
            assert torch.equal(data.cpu(), expected.data)
            assert torch.equal(scale.view(BYTE).cpu(), pack(expected.scale))

    def test_results_have_the_promised_strides(self, device: torch.device) -> None:
        """A view of them fails to compile where they are not contiguous."""

        def flat(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            data, scale = OPS.quantize(x, "mxfp4")
            return data.view(-1), scale.view(-1), OPS.dequantize(data, scale, "mxfp4").view(-1)

        x = normal(64, 40, dtype=torch.float32, device=device).t()
        compiled = torch.compile(flat, fullgraph=True, backend="inductor")
        for actual, expected in zip(compiled(x), flat(x), strict=True):
            assert torch.equal(actual.view(BYTE), expected.view(BYTE))

    @pytest.mark.parametrize(("fewest", "most"), [(2, 4096), (2, 128), (129, 4096)])
    def test_export_with_dynamic_rows(self, device: torch.device, fewest: int, most: int) -> None:
        """Of few rows and of many, though torch would guard on whether a derived size, ceil(rows / 128), is 1."""

        class Quantizer(torch.nn.Module):
            def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
                return OPS.quantize(x, "mxfp8")

        rows = torch.export.Dim("rows", min=fewest, max=most)
        x = normal(fewest + 5, 96, dtype=torch.float32, device=device)
        program = torch.export.export(Quantizer(), (x,), dynamic_shapes=({0: rows},))
        assert "tileon.quantize" in str(program.graph)
        for more in (fewest, fewest + 30, most):
            longer = normal(more, 96, dtype=torch.float32, device=device)
            for actual, expected in zip(program.module()(longer), Quantizer()(longer), strict=True):
                assert torch.equal(actual.view(BYTE), expected.view(BYTE))


@pytest.mark.parametrize("form", FLOAT32_FORMATS, ids=lambda form: form.name)
class TestFloat32Scales:
    @staticmethod
    def there_and_back(x: Tensor, form: str) -> tuple[Tensor, Tensor]:
        data, scale = tileon_ops.quantize(x * 2, form)
        return tileon_ops.dequantize(data, scale, form, out_dtype=x.dtype) + 1, scale * 2

    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_fullgraph(self, device: torch.device, form: Float32Format, backend: str) -> None:
        x = normal(37, 201, dtype=torch.float32, device=device)
        compiled = torch.compile(self.there_and_back, fullgraph=True, backend=backend)
        for actual, expected in zip(compiled(x, form.name), self.there_and_back(x, form.name), strict=True):
            assert torch.equal(actual, expected)

    def test_dynamic_shapes_compile_once(self, device: torch.device, form: Float32Format) -> None:
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(self.there_and_back, fullgraph=True, dynamic=True, backend=counter)
        for rows, k in ((300, 777), (257, 1000), (1000, 129)):
            x = normal(rows, k, dtype=torch.float32, device=device)
            for actual, expected in zip(compiled(x, form.name), self.there_and_back(x, form.name), strict=True):
                assert torch.equal(actual, expected)
        assert counter.frame_count == 1

    @pytest.mark.parametrize(("rows", "k"), [(1, 1), (37, 201), (128, 128), (129, 257), (0, 5), (5, 0), (0, 0)])
    def test_fakes_have_the_shapes_and_strides(
        self, device: torch.device, form: Float32Format, rows: int, k: int
    ) -> None:
        def results() -> list[tuple[object, ...]]:
            data, scale = OPS.quantize(torch.ones(k, rows, device=device).t(), form.name)
            return [*described((data, scale)), *described(OPS.dequantize(data, scale, form.name))]

        real = results()
        with FakeTensorMode():
            assert results() == real


def described(result: Tensor | tuple[Tensor, ...]) -> list[tuple[object, ...]]:
    tensors = result if isinstance(result, tuple) else (result,)
    return [(t.shape, t.dtype, t.stride(), t.device.type) for t in tensors]


class TestFake:
    """Shape, dtype, strides and device are the real ones."""

    @pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (37, 3), (128, 4), (129, 5), (0, 2), (3, 0), (0, 0)])
    @each_format
    def test_every_op(self, device: torch.device, form: Format, rows: int, blocks: int) -> None:
        def results() -> list[tuple[object, ...]]:
            found = []
            for dtype in X_DTYPES:
                x = torch.ones(blocks * form.vec, rows, dtype=dtype, device=device).t()
                data, scale = OPS.quantize(x, form.name)
                found += described((data, scale))
                found += described(OPS.dequantize(data, scale, form.name, out_dtype=dtype))
            plain = OPS.unpack_scales(scale, rows, blocks)
            found += described(plain)
            found += described(OPS.pack_scales(plain))
            found += described(OPS.dequantize(data, plain, form.name))
            return found

        real = results()
        with FakeTensorMode():
            assert results() == real

    def test_meta_tensors_have_shapes_and_no_data(self) -> None:
        x = torch.empty(10**6, 32 * 10**5, device="meta", dtype=torch.bfloat16)
        data, scale = OPS.quantize(x, "mxfp4")
        assert (data.shape, data.dtype, data.device.type) == ((10**6, 16 * 10**5), BYTE, "meta")
        assert (scale.shape, scale.dtype) == ((7813, 25000, 32, 4, 4), E8M0)
        assert OPS.dequantize(data, scale, "mxfp4").shape == x.shape
        assert OPS.unpack_scales(scale, 10**6, 10**5).shape == (10**6, 10**5)
        assert OPS.pack_scales(OPS.unpack_scales(scale, 10**6, 10**5)).shape == scale.shape

    def test_float4_data(self, device: torch.device) -> None:
        with FakeTensorMode():
            data = torch.empty(3, 32, dtype=BYTE, device=device).view(torch.float4_e2m1fn_x2)
            scale = torch.empty(3, 2, dtype=BYTE, device=device)
            restored = OPS.dequantize(data, scale, "mxfp4", out_dtype=torch.float16)
        assert (restored.shape, restored.dtype) == ((3, 64), torch.float16)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_is_refused_or_right(device: torch.device) -> None:
    """Never a silently wrong answer."""
    x = normal(2, 5, 64, dtype=torch.float32, device=device)
    try:
        data, scale = torch.vmap(lambda part: OPS.quantize(part, "mxfp8"))(x)
    except (RuntimeError, NotImplementedError):
        return
    for i in range(2):
        expected = expected_quantize(x[i], FORMATS[0])
        assert torch.equal(data[i].view(BYTE).cpu(), expected.codes)
        assert_same_bits(
            OPS.dequantize(data[i], scale[i], "mxfp8"), expected_dequantize(expected.codes, expected.scale, FORMATS[0])
        )
