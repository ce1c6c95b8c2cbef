"""What only a GPU shows of `block_scaled_matmul`: the kernel's name, streams, graphs, the end of an allocation."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from block_scaled_operands import FORMATS, Format, Operand, each_format, multiply, small_integers
from block_scaled_reference import assert_exact_product, product
from block_scaled_table import HAS_HOPPER_GPU, TABLE
from tile_table import last_config

pytestmark = pytest.mark.gpu

SPIN_CYCLES = 20_000_000  # about 10 ms: long enough for a launch on the wrong stream to overtake
block_scaled_matmul = torch.ops.tileon.block_scaled_matmul
F32 = torch.float32
HAS_HOPPER_ROWS = HAS_HOPPER_GPU and any(row.is_hopper for row in TABLE)


@pytest.fixture(autouse=True)
def _settle() -> Iterator[None]:
    """An asynchronous error belongs to the test that caused it."""
    yield
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def operands(fmt: Format, m: int, n: int, k: int, seed: int = 0) -> tuple[Operand, Operand]:
    return (
        small_integers(fmt, "a", m, k, seed=seed).to("cuda"),
        small_integers(fmt, "b", n, k, seed=seed + 100).to("cuda"),
    )


class Buffers:
    """Tensors of the op at addresses that stay, which new operands are written to."""

    def __init__(self, a: Operand, b: Operand) -> None:
        self.bytes = [x.bytes().clone().zero_() for x in (a, b)]
        self.scales = [x.scale_tensor("packed").view(torch.uint8).clone().zero_() for x in (a, b)]
        self.tensors = (
            *(x.typed(data) for x, data in zip((a, b), self.bytes, strict=True)),
            *(x.typed_scale(scales) for x, scales in zip((a, b), self.scales, strict=True)),
        )

    def write(self, a: Operand, b: Operand) -> None:
        for at, x in enumerate((a, b)):
            self.bytes[at].copy_(x.bytes())
            self.scales[at].copy_(x.scale_tensor("packed").view(torch.uint8))


@each_format
def test_the_kernel_is_named(fmt: Format) -> None:
    """Few rows and many, of some length, take one of Hopper's own where there are some, elsewhere a portable one."""
    for rows in (16, 200):
        a, b = operands(fmt, rows, 264, 1056)
        for forms in (("2d", "2d"), ("packed", "packed")):
            multiply(a, b, forms=forms)
            assert last_config().backend == ("sm90" if HAS_HOPPER_ROWS else "sm80")


def test_hopper_kernels_can_be_left_out() -> None:
    """TILEON_HOPPER=0 is read once, so in a process of its own."""
    script = """
import torch, tileon_ops
from tileon_ops._rules.configs import config_of
a, scale = torch.ops.tileon.quantize(torch.ones(256, 256, device="cuda"), "mxfp4")
torch.ops.tileon.block_scaled_matmul(a, a, scale, scale)
print(config_of(tileon_ops.last_kernel()).backend)
torch.ops.tileon.matmul(torch.ones(256, 256, device="cuda").half(), torch.ones(256, 256, device="cuda").half())
print(config_of(tileon_ops.last_kernel()).backend)
"""
    environment = os.environ | {"TILEON_HOPPER": "0"}
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert result.stdout.split() == ["sm80", "sm80"]


class TestStreams:
    @each_format
    def test_runs_on_the_current_stream(self, fmt: Format) -> None:
        """The operands are written late on a side stream: a launch on any other stream would read the old ones."""
        a, b = operands(fmt, 300, 260, 192)
        buffers = Buffers(a, b)
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(SPIN_CYCLES)
            buffers.write(a, b)
            actual = block_scaled_matmul(*buffers.tensors, out_dtype=F32)
        stream.synchronize()
        assert_exact_product(actual, a, b)

    @each_format
    def test_a_copied_operand_is_copied_on_that_stream_too(self, fmt: Format) -> None:
        a, b = operands(fmt, 128, 96, 128)
        transposed = a.bytes().t().contiguous().zero_()
        new = a.bytes().t().contiguous()
        tensors = b.data(), a.scale_tensor(), b.scale_tensor()
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(SPIN_CYCLES)
            transposed.copy_(new)
            actual = block_scaled_matmul(a.typed(transposed.t()), *tensors, out_dtype=F32)
        stream.synchronize()
        assert_exact_product(actual, a, b)

    def test_does_not_wait_for_the_gpu(self) -> None:
        for fmt in FORMATS:
            a, b = operands(fmt, 64, 64, 64)
            tensors = a.data(), b.data(), a.scale_tensor("packed"), b.scale_tensor()
            block_scaled_matmul(*tensors)
            done = torch.cuda.Event()
            torch.cuda.synchronize()
            torch.cuda._sleep(10 * SPIN_CYCLES)
            block_scaled_matmul(*tensors)
            done.record()
            assert not done.query(), "the call returned only after the work before it was finished"
            torch.cuda.synchronize()


class TestGraphs:
    @each_format
    def test_replays_with_new_data(self, fmt: Format) -> None:
        """Capture on a side stream, with no call before it; the replays see what the buffers hold then."""
        a, b = operands(fmt, 200, 264, 160)
        buffers = Buffers(a, b)
        bias, factor = torch.zeros(264, device="cuda"), torch.zeros(1, device="cuda")
        out = torch.empty(200, 264, device="cuda")
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            fresh = block_scaled_matmul(*buffers.tensors, bias, factor, activation="relu", out_dtype=F32)
            block_scaled_matmul.out(*buffers.tensors, out_dtype=F32, out=out)
        for seed in range(4):
            a, b = operands(fmt, 200, 264, 160, seed)
            buffers.write(a, b)
            bias.copy_(torch.arange(264.0) - 100 * seed)
            factor.fill_(2.0**-seed)
            graph.replay()
            torch.cuda.synchronize()
            total = product(a, b).value
            assert torch.equal(fresh.double(), (total * 2.0**-seed + bias.double()).relu()), f"replay {seed}"
            assert torch.equal(out.double(), total), f"replay {seed}, out"

    def test_strided_operands_may_be_captured(self) -> None:
        for fmt in FORMATS:
            a, b = operands(fmt, 64, 72, 64)
            data_a, data_b = (x.typed(x.bytes().t().contiguous().t()) for x in (a, b))
            graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                actual = block_scaled_matmul(data_a, data_b, a.scale_tensor(), b.scale_tensor(), out_dtype=F32)
            graph.replay()
            torch.cuda.synchronize()
            assert_exact_product(actual, a, b, str(fmt))


@pytest.mark.skipif(torch.cuda.device_count() == 1, reason="needs two GPUs")
def test_runs_where_its_inputs_are() -> None:
    for fmt in FORMATS:
        for current, home in ((0, 1), (1, 0)):
            with torch.cuda.device(current):
                a, b = (x.to(f"cuda:{home}") for x in operands(fmt, 130, 90, 96))
                actual = multiply(a, b, forms=("packed", "2d"), out_dtype=F32)
                assert torch.cuda.current_device() == current
            assert actual.device.index == home
            assert_exact_product(actual, a, b)


def test_operands_that_end_where_mapped_memory_ends() -> None:
    """In a process of its own, because a read past the end is an error that ends the CUDA context."""
    script = pathlib.Path(__file__).with_name("block_scaled_unmapped_pages.py")
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
    if result.returncode == 77:
        pytest.skip(result.stdout.strip().splitlines()[-1])
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]


@pytest.mark.slow
class TestMoreThanInt32:
    """Byte offsets beyond 2^31; the last rows are where an overflow shows."""

    @pytest.fixture(autouse=True)
    def _memory(self) -> Iterator[None]:
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        if free < 40 * 2**30:
            pytest.skip("needs 40 GiB of free GPU memory")
        yield
        torch.cuda.empty_cache()

    def test_a_large_a(self) -> None:
        m, k = 2**17 + 40, 2**14 + 32  # 2.15e9 bytes of e4m3
        a = torch.full((m, k), 0x38, dtype=torch.uint8, device="cuda")
        a[-3:] = 0x40
        b = torch.zeros(8, k, dtype=torch.uint8, device="cuda")
        b[:, -16:] = 0x38
        scales = [torch.full((rows, k // 32), 127, dtype=torch.uint8, device="cuda") for rows in (m, 8)]
        scales[0][-1] = 128
        actual = block_scaled_matmul(*(x.view(torch.float8_e4m3fn) for x in (a, b)), *scales)
        assert bool((actual[:-3] == 16).all())
        assert bool((actual[-3:-1] == 32).all())
        assert bool((actual[-1] == 64).all())

    def test_a_large_output(self) -> None:
        m, n, k = 2**16 + 9, 2**15 + 8, 32
        a, b = (torch.full((rows, k // 2), 0x22, dtype=torch.uint8, device="cuda") for rows in (m, n))
        scales = [torch.full((rows, 1), 127, dtype=torch.uint8, device="cuda") for rows in (m, n)]
        scales[0][-1], scales[1][-1] = 128, 129
        actual = block_scaled_matmul(a, b, *scales)
        assert bool((actual[:-1, :-1] == 32).all())
        assert bool((actual[-1, :-1] == 64).all())
        assert bool((actual[:-1, -1] == 128).all())
        assert actual[-1, -1].item() == 256
