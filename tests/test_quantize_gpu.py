"""What only a GPU shows of quantize and its companions: the CPU's bits, streams, graphs, devices, the end of memory."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from operands import normal
from small_float_operands import LAYOUTS, X_DTYPES, as_data, laid_out, random_bytes, random_data, wide_values
from small_float_reference import (
    BYTE,
    FORMAT_ROUNDINGS,
    FORMATS,
    NVFP4,
    Format,
    assert_quantized,
    assert_same_bits,
    expected_dequantize,
    expected_quantize,
    pack,
)
from torch import Tensor

OPS = torch.ops.tileon

pytestmark = pytest.mark.gpu

SPIN_CYCLES = 20_000_000  # about 10 ms: long enough for a launch on the wrong stream to overtake

each_format = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)


@pytest.fixture(autouse=True)
def _settle() -> Iterator[None]:
    """An asynchronous error belongs to the test that caused it."""
    yield
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def assert_cpu_and_gpu_agree(x: Tensor, form: Format, rounding: str, global_scale: Tensor | None = None) -> None:
    """Both results of quantize, and what dequantize makes of them, byte for byte; `x` is on the CPU."""
    on_gpu = None if global_scale is None else global_scale.cuda()
    results = [
        OPS.quantize(given, form.name, scale, scale_rounding=rounding)
        for given, scale in ((x, global_scale), (x.cuda(), on_gpu))
    ]
    for cpu, gpu in zip(*results, strict=True):
        assert torch.equal(cpu.view(BYTE), gpu.view(BYTE).cpu())
    for out_dtype in X_DTYPES:
        restored = OPS.dequantize(*results[0], form.name, global_scale, out_dtype=out_dtype)
        assert_same_bits(OPS.dequantize(*results[1], form.name, on_gpu, out_dtype=out_dtype), restored)


class TestAsTheCpu:
    @pytest.mark.parametrize(("form", "rounding"), FORMAT_ROUNDINGS, ids=lambda value: getattr(value, "name", value))
    @pytest.mark.parametrize("dtype", X_DTYPES, ids=str)
    def test_the_same_bits(self, form: Format, rounding: str, dtype: torch.dtype) -> None:
        for seed in range(3):
            assert_cpu_and_gpu_agree(wide_values(1027, 1120, dtype, seed=seed), form, rounding)

    @pytest.mark.parametrize(("form", "rounding"), FORMAT_ROUNDINGS, ids=lambda value: getattr(value, "name", value))
    def test_the_same_bits_of_any_float32(self, form: Format, rounding: str) -> None:
        """Random bit patterns: a NaN somewhere in most blocks of the second half, none in the first."""
        generator = torch.Generator()
        generator.manual_seed(0)
        bits = torch.randint(-(2**31), 2**31, (2048, 512), generator=generator).to(torch.int32)
        x = bits.view(torch.float32)
        assert_cpu_and_gpu_agree(torch.cat((x.masked_fill(~x.isfinite(), 1.0), x)), form, rounding)

    def test_the_same_bits_under_any_global_scale(self) -> None:
        """Also where a product is NaN, whose code nothing defines."""
        x = wide_values(130, 160)
        for value in (1.0, 0.3, -2.0, 0.0, -0.0, 1e-42, 1e-38, 3e38, torch.inf, -torch.inf, torch.nan):
            assert_cpu_and_gpu_agree(x, NVFP4, "floor", torch.tensor(value))

    @each_format
    def test_the_same_bytes_of_any_packed_scales(self, form: Format) -> None:
        packed = random_bytes(3, 5, 32, 4, 4)
        cpu = OPS.unpack_scales(packed, 370, 18)
        assert torch.equal(cpu, OPS.unpack_scales(packed.cuda(), 370, 18).cpu())
        assert torch.equal(OPS.pack_scales(cpu), OPS.pack_scales(cpu.cuda()).cpu())


def late(target: Tensor, values: Tensor) -> None:
    """Writes `values` on the current stream after a pause: a launch on any other stream would read what was there."""
    torch.cuda._sleep(SPIN_CYCLES)
    target.view(BYTE).copy_(values.view(BYTE))


class TestStreams:
    @each_format
    def test_quantize_runs_on_the_current_stream(self, form: Format) -> None:
        new = normal(300, 256, dtype=torch.bfloat16, device="cuda")
        for layout in ({}, {"offset": 1}, {"reverse": True}):  # a copy that an op makes first is on the stream too
            x = laid_out(torch.zeros_like(new), **layout)  # type: ignore[arg-type]
            torch.cuda.synchronize()
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                torch.cuda._sleep(SPIN_CYCLES)
                x.copy_(new)
                actual = OPS.quantize(x, form.name)
            stream.synchronize()
            assert_quantized(actual, expected_quantize(new, form))

    @each_format
    def test_the_others_run_on_the_current_stream(self, form: Format) -> None:
        rows, k = 300, 256
        data, scale = random_data(form, rows, k), random_bytes(rows, k // form.vec, seed=1)
        new_data, new_scale = (as_data(data, form.data_dtype, "cuda"), as_data(scale, form.scale_dtype, "cuda"))
        held_data, held_scale = torch.zeros_like(data, device="cuda"), torch.zeros_like(scale, device="cuda")
        held_data, held_scale = held_data.view(form.data_dtype), held_scale.view(form.scale_dtype)
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            late(held_data, new_data)
            late(held_scale, new_scale)
            packed = OPS.pack_scales(held_scale)
            restored = OPS.dequantize(held_data, packed, form.name)
            plain = OPS.unpack_scales(packed, rows, k // form.vec)
        stream.synchronize()
        assert torch.equal(packed.view(BYTE).cpu(), pack(scale))
        assert torch.equal(plain.view(BYTE).cpu(), scale)
        assert_same_bits(restored, expected_dequantize(data, scale, form))

    def test_global_scale_is_read_on_the_stream_and_not_on_the_host(self) -> None:
        x = normal(64, 64, dtype=torch.float32, device="cuda")
        global_scale = torch.ones((), device="cuda")
        torch.cuda.synchronize()
        torch.cuda._sleep(SPIN_CYCLES)
        global_scale.fill_(0.01)
        data, scale = OPS.quantize(x, "nvfp4", global_scale)
        restored = OPS.dequantize(data, scale, "nvfp4", global_scale)
        expected = expected_quantize(x, NVFP4, torch.tensor(0.01))
        assert_quantized((data, scale), expected)
        assert_same_bits(restored, expected_dequantize(expected.data, expected.scale, NVFP4, torch.tensor(0.01)))

    @each_format
    def test_nothing_waits_for_the_gpu(self, form: Format) -> None:
        x = torch.ones(130, 64, device="cuda")

        def every_op() -> None:
            data, scale = OPS.quantize(x, form.name)
            plain = OPS.unpack_scales(scale, 130, 64 // form.vec)
            OPS.dequantize(data, OPS.pack_scales(plain), form.name)

        every_op()
        done = torch.cuda.Event()
        torch.cuda.synchronize()
        torch.cuda._sleep(50 * SPIN_CYCLES)
        every_op()
        done.record()
        assert not done.query(), "a call returned only after the work before it was finished"


class TestGraphs:
    @each_format
    def test_replay_with_new_inputs(self, form: Format) -> None:
        """Capture on a side stream, with no call before it; the replays see what the buffers hold then."""
        rows, k = 200, 160
        x = torch.zeros(rows, k, dtype=torch.float16, device="cuda")
        global_scale = torch.ones((), device="cuda") if form is NVFP4 else None
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            data, scale = OPS.quantize(x, form.name, global_scale)
            plain = OPS.unpack_scales(scale, rows, k // form.vec)
            restored = OPS.dequantize(data, OPS.pack_scales(plain), form.name, global_scale)
        for seed in range(4):
            x.copy_(wide_values(rows, k, torch.float16, "cuda", seed=seed))
            if global_scale is not None:
                global_scale.fill_(0.5 + seed)
            graph.replay()
            torch.cuda.synchronize()
            expected = expected_quantize(x, form, global_scale)
            assert_quantized((data, scale), expected, f"replay {seed}")
            wanted = expected_dequantize(expected.data, expected.scale, form, global_scale)
            assert_same_bits(restored, wanted, f"replay {seed}")


@pytest.mark.skipif(torch.cuda.device_count() == 1, reason="needs two GPUs")
class TestTwoDevices:
    @each_format
    def test_every_op_runs_where_its_inputs_are(self, form: Format) -> None:
        for current, home in ((0, 1), (1, 0)):
            with torch.cuda.device(current):
                x = wide_values(130, 96, device=f"cuda:{home}")
                data, scale = OPS.quantize(x, form.name)
                plain = OPS.unpack_scales(scale, 130, 96 // form.vec)
                restored = OPS.dequantize(data, OPS.pack_scales(plain), form.name)
                assert torch.cuda.current_device() == current
            assert {t.device.index for t in (data, scale, plain, restored)} == {home}
            expected = expected_quantize(x, form)
            assert_quantized((data, scale), expected)
            assert_same_bits(restored, expected_dequantize(expected.data, expected.scale, form))


def test_operands_that_end_where_mapped_memory_ends() -> None:
    """In a process of its own, because a read past the end is an error that ends the CUDA context."""
    script = pathlib.Path(__file__).with_name("unmapped_pages_quantize.py")
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
    if result.returncode == 77:
        pytest.skip(result.stdout.strip().splitlines()[-1])
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]


@pytest.mark.slow
class TestMoreThanInt32:
    """Element counts and byte offsets beyond 2^31; the last rows are where an overflow shows."""

    @pytest.fixture(autouse=True)
    def _memory(self) -> Iterator[None]:
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        if free < 40 * 2**30:
            pytest.skip("needs 40 GiB of free GPU memory")
        yield
        torch.cuda.empty_cache()

    @each_format
    def test_there_and_back(self, form: Format) -> None:
        rows, k = 2**17 + 40, 2**14 + 64  # 2.2e9 elements
        x = torch.full((rows, k), 6.0, dtype=torch.bfloat16, device="cuda")
        last = wide_values(3, k, torch.bfloat16, "cuda")
        x[-3:] = last
        data, scale = OPS.quantize(x, form.name)
        expected = expected_quantize(last, form)
        assert torch.equal(data[-3:].view(BYTE).cpu(), expected.data)
        assert int((data.view(BYTE)[:-3] != data.view(BYTE)[0, 0]).sum()) == 0
        plain = OPS.unpack_scales(scale, rows, k // form.vec)
        assert torch.equal(plain[-3:].view(BYTE).cpu(), expected.scale)
        for given in (scale, plain):
            restored = OPS.dequantize(data, given, form.name, out_dtype=torch.bfloat16)
            wanted = expected_dequantize(expected.data, expected.scale, form, out_dtype=torch.bfloat16)
            assert_same_bits(restored[-3:], wanted)
            assert bool((restored[:-3] == 6).all())
            del restored

    @each_format
    def test_large_strides_of_both_dimensions(self, form: Format) -> None:
        storage = torch.zeros(2**31 + 2**24, dtype=torch.float16, device="cuda")
        x = storage.as_strided((65, 32), (2**25 + 1, 2**10 + 3))
        x.copy_(wide_values(65, 32, torch.float16, "cuda"))
        assert_quantized(OPS.quantize(x, form.name), expected_quantize(x, form))

    def test_packing_more_than_2_to_the_31_scales(self) -> None:
        rows, cols = 2**16 + 5, 2**15 + 3
        scale = torch.full((rows, cols), 127, dtype=BYTE, device="cuda")
        scale[-1] = torch.arange(cols, device="cuda").to(BYTE)
        packed = OPS.pack_scales(scale)
        assert torch.equal(OPS.unpack_scales(packed, rows, cols), scale)
        row = packed[-1, :, (rows - 1) % 32, (rows - 1) % 128 // 32].flatten()[:cols]
        assert torch.equal(row, scale[-1])


@pytest.mark.sanitizer
@each_format
def test_the_small_set_for_compute_sanitizer(form: Format) -> None:
    """Odd sizes and strides, both kinds of scales."""
    for rows, blocks in ((1, 1), (130, 5)):
        for layout in (LAYOUTS[name] for name in ("contiguous", "odd offset", "transposed, odd", "step 2")):
            x = wide_values(rows, blocks * form.vec, torch.float16, "cuda")
            data, scale = OPS.quantize(laid_out(x, **layout), form.name)  # type: ignore[arg-type]
            expected = expected_quantize(x, form)
            assert_quantized((data, scale), expected)
            plain = OPS.unpack_scales(laid_out(scale, **layout), rows, blocks)  # type: ignore[arg-type]
            packed = OPS.pack_scales(laid_out(plain, **layout))  # type: ignore[arg-type]
            for given in (plain, packed):
                operands = laid_out(data, **layout), laid_out(given, **layout)  # type: ignore[arg-type]
                restored = OPS.dequantize(*operands, form.name)
                assert_same_bits(restored, expected_dequantize(expected.data, expected.scale, form))
