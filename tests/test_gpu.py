"""What only a GPU shows: streams, graphs, threads, devices, the end of an allocation, more than 2^31 elements."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import torch
from operands import LAYOUTS, full_precision, in_layout, integers, normal
from reference import MATMUL_DTYPES, assert_exact

matmul = torch.ops.tileon.matmul

pytestmark = pytest.mark.gpu

SPIN_CYCLES = 20_000_000  # about 10 ms: long enough for a launch on the wrong stream to overtake


@pytest.fixture(autouse=True)
def _settle() -> Iterator[None]:
    """An asynchronous error belongs to the test that caused it."""
    yield
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class TestStreams:
    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_runs_on_the_current_stream(self, dtype: torch.dtype) -> None:
        """The operands are written late on a side stream: a launch on any other stream would read the old ones."""
        new_a, new_b = (
            integers(300, 200, dtype=dtype, device="cuda"),
            integers(200, 260, dtype=dtype, device="cuda", seed=1),
        )
        for offset in (0, 1):  # 1: where an operand may be copied first, the copy is on the stream too
            a = torch.zeros(300 * 200 + 8, dtype=dtype, device="cuda")[offset:][: 300 * 200].view(300, 200)
            b, bias = torch.zeros_like(new_b), torch.zeros(260, dtype=dtype, device="cuda")
            torch.cuda.synchronize()
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                torch.cuda._sleep(SPIN_CYCLES)
                a.copy_(new_a)
                b.copy_(new_b)
                bias.fill_(1)
                actual = matmul(a, b, bias)
            stream.synchronize()
            assert_exact(actual, new_a.double() @ new_b.double() + 1, dtype, f"offset {offset}")

    def test_does_not_wait_for_the_gpu(self) -> None:
        a = torch.ones(64, 64, device="cuda", dtype=torch.float16)
        matmul(a, a)
        done = torch.cuda.Event()
        torch.cuda.synchronize()
        torch.cuda._sleep(50 * SPIN_CYCLES)
        matmul(a, a)
        done.record()
        assert not done.query(), "the call returned only after the work before it was finished"
        torch.cuda.synchronize()

    def test_many_streams_at_once(self) -> None:
        a, b = (
            integers(500, 300, dtype=torch.bfloat16, device="cuda"),
            integers(300, 400, dtype=torch.bfloat16, device="cuda", seed=1),
        )
        expected = (a.double() @ b.double()).bfloat16()
        torch.cuda.synchronize()
        streams = [torch.cuda.Stream() for _ in range(8)]
        results = []
        for i in range(64):
            with torch.cuda.stream(streams[i % 8]):
                results.append(matmul(a, b))
        torch.cuda.synchronize()
        assert all(torch.equal(result, expected) for result in results)


class TestGraphs:
    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    @pytest.mark.parametrize("offset", [0, 1])
    def test_replays_with_new_inputs(self, offset: int, dtype: torch.dtype) -> None:
        """Capture on a side stream, with no call before it; the replays see what the buffers hold then."""
        storage = torch.zeros(200 * 136 + 8, dtype=dtype, device="cuda")
        a = storage[offset:][: 200 * 136].view(200, 136)
        b, bias = torch.zeros(136, 264, dtype=dtype, device="cuda"), torch.zeros(264, dtype=dtype, device="cuda")
        out = torch.empty(200, 264, dtype=dtype, device="cuda")
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
            fresh = matmul(a, b, bias, activation="relu")
            matmul.out(a, b, out=out)
        for seed in range(4):
            a.copy_(integers(200, 136, dtype=dtype, device="cuda", seed=seed))
            b.copy_(integers(136, 264, dtype=dtype, device="cuda", seed=seed + 10))
            bias.copy_(integers(264, dtype=dtype, device="cuda", seed=seed + 20))
            graph.replay()
            torch.cuda.synchronize()
            product = a.double() @ b.double()
            assert_exact(fresh, (product + bias.double()).relu(), dtype, f"replay {seed}")
            assert_exact(out, product, dtype, f"replay {seed}, out")

    def test_the_first_call_of_a_process_may_be_captured(self) -> None:
        """No tuning, no synchronization, no lazy set-up that a capture forbids."""
        program = (
            "import sys, torch; sys.path.insert(0, sys.argv[1]); import tileon_ops\n"
            "a = torch.ones(256, 256, device='cuda', dtype=torch.float16); graph = torch.cuda.CUDAGraph()\n"
            "with torch.cuda.graph(graph): c = torch.ops.tileon.matmul(a, a)\n"
            "graph.replay(); torch.cuda.synchronize(); assert bool((c == 256).all()); print('replayed')\n"
        )
        root = pathlib.Path(__file__).resolve().parent.parent
        result = subprocess.run([sys.executable, "-c", program, str(root)], capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stderr[-2000:]
        assert "replayed" in result.stdout


class TestThreads:
    def test_several_threads_with_their_own_streams(self) -> None:
        problems = [(65 + 40 * i, 120 + 8 * i, 33 + 64 * i, dtype) for i, dtype in enumerate(MATMUL_DTYPES)] * 2
        failures: list[str] = []
        start = threading.Barrier(len(problems))

        def work(m: int, n: int, k: int, dtype: torch.dtype) -> None:
            try:
                stream = torch.cuda.Stream()
                with torch.cuda.stream(stream):
                    a, b = (
                        integers(m, k, dtype=dtype, device="cuda"),
                        integers(k, n, dtype=dtype, device="cuda", seed=1),
                    )
                    expected = (a.double() @ b.double()).to(dtype)
                    stream.synchronize()
                    start.wait(60)
                    for _ in range(50):
                        actual = matmul(a, b)
                        kernel = torch.ops.tileon._last_kernel()
                        stream.synchronize()
                        if not torch.equal(actual, expected):
                            failures.append(f"{m}x{n}x{k} {dtype}: wrong numbers by {kernel}")
                            return
            except Exception as error:
                failures.append(f"{m}x{n}x{k} {dtype}: {error!r}")

        threads = [threading.Thread(target=work, args=problem) for problem in problems]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not failures

    def test_a_product_is_the_first_thing_that_a_thread_runs(self) -> None:
        """All memory is there, so that nothing has bound the device's context to the thread before."""
        a = integers(256, 192, dtype=torch.bfloat16, device="cuda")
        b = integers(192, 256, dtype=torch.bfloat16, device="cuda", seed=1)
        out = torch.empty(256, 256, dtype=torch.bfloat16, device="cuda")
        failures: list[RuntimeError] = []

        def work() -> None:
            try:
                torch.ops.tileon.matmul.out(a, b, out=out)
            except RuntimeError as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(120)
        assert not failures
        torch.cuda.synchronize()
        assert_exact(out, a.double() @ b.double(), torch.bfloat16)

    def test_gradients_on_autograds_own_thread(self) -> None:
        """The backward pass runs on another thread, whose current device nobody has set."""
        a = normal(40, 33, dtype=torch.float32, device="cuda").requires_grad_()
        b = normal(33, 50, dtype=torch.float32, device="cuda", seed=1).requires_grad_()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            matmul(a, b, activation="silu").sum().backward()
        torch.cuda.current_stream().wait_stream(stream)
        wide_a, wide_b = a.detach().double().requires_grad_(), b.detach().double().requires_grad_()
        torch.nn.functional.silu(wide_a @ wide_b).sum().backward()
        torch.testing.assert_close(a.grad, wide_a.grad.float(), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(b.grad, wide_b.grad.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(torch.cuda.device_count() == 1, reason="needs two GPUs")
class TestTwoDevices:
    @pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
    def test_runs_where_its_inputs_are(self, dtype: torch.dtype) -> None:
        for current, home in ((0, 1), (1, 0)):
            with torch.cuda.device(current):
                a = integers(130, 70, dtype=dtype, device=f"cuda:{home}")
                b = integers(70, 90, dtype=dtype, device=f"cuda:{home}", seed=1)
                actual = matmul(a, b, activation="relu")
                assert torch.cuda.current_device() == current
            assert actual.device.index == home
            assert_exact(actual, (a.double() @ b.double()).relu(), dtype)

    def test_uses_the_stream_of_that_device(self) -> None:
        torch.cuda.set_device(0)
        new = integers(300, 300, dtype=torch.float16, device="cuda:1")
        a = torch.zeros_like(new)
        torch.cuda.synchronize(1)
        stream = torch.cuda.Stream(device=1)
        with torch.cuda.stream(stream), torch.cuda.device(1):
            torch.cuda._sleep(SPIN_CYCLES)
            a.copy_(new)
            with torch.cuda.device(0):
                actual = matmul(a, a)
        stream.synchronize()
        assert_exact(actual, new.double() @ new.double(), torch.float16)

    def test_operands_on_two_devices_are_refused(self) -> None:
        a, b = torch.ones(4, 4, device="cuda:0"), torch.ones(4, 4, device="cuda:1")
        with pytest.raises(RuntimeError, match=r"^matmul: .*`b`.*cuda:1"):
            matmul(a, b)


def test_operands_that_end_where_mapped_memory_ends() -> None:
    """In a process of its own, because a read past the end is an error that ends the CUDA context."""
    script = pathlib.Path(__file__).with_name("unmapped_pages.py")
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
    if result.returncode == 77:
        pytest.skip(result.stdout.strip().splitlines()[-1])
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]


@pytest.mark.slow
class TestMoreThanInt32:
    """Element counts and byte offsets beyond 2^31 and 2^32; the last rows are where an overflow shows."""

    @pytest.fixture(autouse=True)
    def _memory(self) -> Iterator[None]:
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        if free < 40 * 2**30:
            pytest.skip("needs 40 GiB of free GPU memory")
        yield
        torch.cuda.empty_cache()

    def test_a_large_a(self) -> None:
        m, k = 2**17 + 40, 2**14 + 8  # 2.1e9 elements
        a = torch.ones(m, k, dtype=torch.bfloat16, device="cuda")
        a[-3:] = 2
        b = torch.zeros(k, 8, dtype=torch.bfloat16, device="cuda")
        b[-16:] = 1
        actual = matmul(a, b)
        assert bool((actual[:-3] == 16).all())
        assert bool((actual[-3:] == 32).all())

    def test_a_large_transposed_a(self) -> None:
        k, m = 2**14 + 8, 2**17 + 40
        a = torch.ones(k, m, dtype=torch.bfloat16, device="cuda")
        a[-1] = 3
        a[:, -1] = 2
        actual = matmul(a.t(), torch.ones(k, 8, dtype=torch.bfloat16, device="cuda"), out_dtype=torch.float32)
        assert bool((actual[:-1] == k + 2).all())
        assert bool((actual[-1] == 2 * k).all())

    def test_a_large_b(self) -> None:
        k, n = 2**14 + 8, 2**17 + 40
        b = torch.ones(k, n, dtype=torch.float16, device="cuda")
        b[:, -5:] = 2
        a = torch.zeros(3, k, dtype=torch.float16, device="cuda")
        a[:, -16:] = 1
        for view in (b, b.as_strided((k, n), (n, 1))):
            actual = matmul(a, view)
            assert bool((actual[:, :-5] == 16).all())
            assert bool((actual[:, -5:] == 32).all())

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
    def test_a_large_output(self, dtype: torch.dtype) -> None:
        m, n = 2**16 + 9, 2**15 + 8
        a = torch.ones(m, 8, dtype=dtype, device="cuda")
        b = torch.ones(8, n, dtype=dtype, device="cuda")
        a[-1] = 2
        b[:, -1] = 3
        actual = matmul(a, b, torch.ones(n, dtype=dtype, device="cuda"))
        assert bool((actual[:-1, :-1] == 9).all())
        assert bool((actual[-1, :-1] == 17).all())
        assert bool((actual[:-1, -1] == 25).all())
        assert actual[-1, -1].item() == 49

    def test_a_large_batch_stride(self) -> None:
        storage = torch.zeros(2**31 + 2**20, dtype=torch.float16, device="cuda")
        a = storage.as_strided((3, 64, 64), (2**30, 64, 1))
        a[2] = 1
        actual = matmul(a, torch.ones(64, 64, dtype=torch.float16, device="cuda"))
        assert bool((actual[:2] == 0).all())
        assert bool((actual[2] == 64).all())

    def test_large_row_strides_of_operands_and_out(self) -> None:
        storage = torch.zeros(2**31 + 2**20, dtype=torch.float16, device="cuda")
        a = storage.as_strided((5, 64), (2**29, 1))
        a.copy_(integers(5, 64, dtype=torch.float16, device="cuda"))
        b = integers(64, 72, dtype=torch.float16, device="cuda", seed=1)
        assert_exact(matmul(a, b), a.double() @ b.double(), torch.float16)
        out = torch.empty(2**31 + 2**20, dtype=torch.float16, device="cuda").as_strided((5, 72), (2**29, 1))
        matmul.out(a, b, out=out)
        assert_exact(out, a.double() @ b.double(), torch.float16)

    def test_large_strides_of_both_dimensions(self) -> None:
        """Gathered element by element, the last one beyond 2^31."""
        storage = torch.zeros(2**31 + 2**24, dtype=torch.float16, device="cuda")
        a = storage.as_strided((65, 33), (2**25 + 1, 2**10 + 3))
        a.copy_(integers(65, 33, dtype=torch.float16, device="cuda"))
        b = integers(33, 40, dtype=torch.float16, device="cuda", seed=1)
        assert_exact(matmul(a, b), a.double() @ b.double(), torch.float16)


class TestFloat32Accuracy:
    """IEEE float32 is no less accurate than torch's SGEMM."""

    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize(
        "shape", [(512, 512, 4096), (1024, 1024, 1024), (64, 64, 65536), (129, 131, 10007)], ids=str
    )
    def test_against_torch(self, shape: tuple[int, int, int], layout: str) -> None:
        m, n, k = shape
        a, b = (
            full_precision(m, k, dtype=torch.float32, device="cuda"),
            full_precision(k, n, dtype=torch.float32, device="cuda", seed=1),
        )
        a, b = in_layout(a, b, layout)
        exact = a.double() @ b.double()
        scale = a.double().abs() @ b.double().abs()
        ours = (matmul(a, b).double() - exact).abs() / scale
        torchs = (torch.matmul(a, b).double() - exact).abs() / scale
        rms_ours, rms_torch = ours.square().mean().sqrt().item(), torchs.square().mean().sqrt().item()
        assert ours.max().item() <= (4 + 2 * k**0.5) * 2.0**-23
        # cuBLAS may split a long k in parts, which a plain sum cannot match: that errs by 0.43 to 0.54 x 2^-24 for k
        # from 1024 to 65536 (normal values, in units of sum |a||b|; simulated).
        assert rms_ours <= max(1.1 * rms_torch, 0.6 * 2.0**-24), f"rms error {rms_ours:.3g}, torch {rms_torch:.3g}"

    def test_a_plain_square_is_no_worse_than_torch(self) -> None:
        a, b = (
            full_precision(2048, 2048, dtype=torch.float32, device="cuda"),
            full_precision(2048, 2048, dtype=torch.float32, device="cuda", seed=1),
        )
        exact = a.double() @ b.double()
        ours, torchs = ((c.double() - exact).square().mean().sqrt().item() for c in (matmul(a, b), torch.matmul(a, b)))
        assert ours <= 1.05 * torchs, f"rms error {ours:.3g}, torch {torchs:.3g}"
