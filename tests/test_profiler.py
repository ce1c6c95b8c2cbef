"""What torch's profiler and FLOP counter see of the ops, and which kernel ran: last_kernel and TILEON_LOG."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from operands import normal
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

import tileon_ops
from tileon_ops._rules import configs

ROOT = pathlib.Path(__file__).resolve().parent.parent
ops = torch.ops.tileon


def ranges(run: Callable[[], Any]) -> list[tuple[str, list[list[int]]]]:
    """The ranges of tileon's ops, in order, each with the shapes of its tensors."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        run()
    events = [event for event in profiler.events() if event.name.startswith("tileon::")]
    events.sort(key=lambda event: event.time_range.start)
    return [(event.name.removeprefix("tileon::"), [list(s) for s in event.input_shapes if s]) for event in events]


def block_scaled(fmt: str, device: torch.device, m: int = 128, n: int = 64, k: int = 96) -> tuple[Tensor, ...]:
    """a, b, scale_a, scale_b"""
    x, y = normal(m, k, dtype=torch.float32, device=device), normal(n, k, dtype=torch.float32, device=device, seed=1)
    (a, scale_a), (b, scale_b) = (ops.quantize(t, fmt) for t in (x, y))
    return a, b, scale_a, scale_b


@pytest.fixture
def operands(device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    shapes = ((2, 5, 3), (3, 4), (4,))
    return tuple(normal(*s, dtype=torch.float32, device=device).requires_grad_() for s in shapes)  # type: ignore


class TestRanges:
    def test_of_a_product_and_its_gradients(
        self, device: torch.device, operands: tuple[Tensor, Tensor, Tensor]
    ) -> None:
        operands = tuple(x.detach().half().requires_grad_() for x in operands)  # type: ignore[assignment]
        result = []
        forward = ranges(lambda: result.append(ops.matmul(*operands, activation="relu")))
        assert forward == [("matmul", [[2, 5, 3], [3, 4], [4]])]
        backward = ranges(lambda: result[0].sum().backward())
        products = sorted(shapes for name, shapes in backward if name == "matmul")
        assert products in (  # the order of the operands is that of the gradient's layout
            sorted([[[2, 5, 4], [4, 3]], [[3, 10], [10, 4]]]),
            sorted([[[2, 5, 4], [4, 3]], [[4, 10], [10, 3]]]),
        )

    def test_of_the_epilogues_backward(self, device: torch.device, operands: tuple[Tensor, Tensor, Tensor]) -> None:
        backward = ranges(lambda: ops.matmul(*operands, activation="gelu").sum().backward())
        assert ("_epilogue_backward", [[2, 5, 4], [2, 5, 4]]) in backward

    def test_of_out(self, device: torch.device, operands: tuple[Tensor, Tensor, Tensor]) -> None:
        a, b, _ = operands
        out = torch.empty(2, 5, 4, device=device)
        with torch.no_grad():
            assert ranges(lambda: tileon_ops.matmul(a, b, out=out))[-1] == ("matmul", [[10, 3], [3, 4], [10, 4]])

    def test_of_the_quantized_ops(self, device: torch.device) -> None:
        x = normal(128, 96, dtype=torch.float32, device=device)
        data, scale = tileon_ops.quantize(x, "mxfp8")
        a, b, scale_a, scale_b = block_scaled("mxfp4", device)
        out = torch.empty(128, 64, dtype=torch.float16, device=device)
        packed = [1, 1, 32, 4, 4]
        product = [[128, 48], [64, 48], packed, packed]
        cases: list[tuple[Callable[[], Any], str, list[list[int]]]] = [
            (lambda: tileon_ops.quantize(x, "mxfp8"), "quantize", [[128, 96]]),
            (lambda: tileon_ops.dequantize(data, scale, "mxfp8"), "dequantize", [[128, 96], packed]),
            (lambda: tileon_ops.unpack_scales(scale, 128, 3), "unpack_scales", [packed]),
            (lambda: tileon_ops.pack_scales(torch.zeros(7, 3, device=device).byte()), "pack_scales", [[7, 3]]),
            (lambda: tileon_ops.block_scaled_matmul(a, b, scale_a, scale_b), "block_scaled_matmul", product),
            (
                lambda: tileon_ops.block_scaled_matmul(a, b, scale_a, scale_b, out=out),
                "block_scaled_matmul",
                [*product, [128, 64]],
            ),
        ]
        for run, name, shapes in cases:
            assert ranges(run) == [(name, shapes)]

    def test_of_a_module(self, device: torch.device) -> None:
        module, x = tileon_ops.Linear(3, 4, activation="gelu").to(device), torch.ones(5, 3, device=device)
        with torch.no_grad():
            assert ranges(lambda: module(x))[-1] == ("matmul", [[5, 3], [3, 4], [4]])

    def test_of_a_mapped_product_is_the_whole_ones(self, device: torch.device) -> None:
        a, b = torch.ones(6, 5, 3, device=device), torch.ones(3, 4, device=device)
        assert ranges(lambda: torch.vmap(ops.matmul, (0, None))(a, b))[-1] == ("matmul", [[30, 3], [3, 4]])

    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_survive_compilation(
        self, device: torch.device, operands: tuple[Tensor, Tensor, Tensor], backend: str
    ) -> None:
        torch._dynamo.reset()
        compiled = torch.compile(lambda *t: ops.matmul(*t, activation="relu").sin().sum(), backend=backend)
        compiled(*operands).backward()
        seen = ranges(lambda: compiled(*operands).backward())
        torch._dynamo.reset()
        name = "_matmul_compiled" if backend == "inductor" else "matmul"
        assert seen[0] == (name, [[2, 5, 3], [3, 4], [4]])
        assert [called for called, _ in seen if "matmul" in called] == [name] * 3

    @pytest.mark.gpu
    def test_hold_the_kernels_they_launch(self) -> None:
        a = torch.ones(256, 256, device="cuda", dtype=torch.bfloat16)
        ops.matmul(a, a)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            ops.matmul(a, a)
            torch.cuda.synchronize()
        (product,) = (event for event in profiler.events() if event.name == "tileon::matmul")
        assert product.kernels or product.device_time_total > 0


def flops(run: Callable[[], Any]) -> dict[str, int]:
    with FlopCounterMode(display=False) as counter:
        run()
    counts = counter.get_flop_counts()["Global"]
    return {str(op).rpartition(".")[2]: count for op, count in counts.items()}


class TestFlops:
    """2 * batch * m * n * k for each product."""

    @pytest.mark.parametrize(
        ("shape_a", "shape_b", "batch"),
        [
            ((5, 3), (3, 4), 1),
            ((2, 5, 3), (3, 4), 2),
            ((5, 3), (2, 3, 4), 2),
            ((2, 5, 3), (2, 3, 4), 2),
            ((1, 5, 3), (2, 3, 4), 2),
            ((2, 5, 3), (1, 3, 4), 2),
            ((0, 5, 3), (1, 3, 4), 0),
            ((1, 5, 3), (0, 3, 4), 0),
        ],
        ids=str,
    )
    def test_of_a_product(
        self, device: torch.device, shape_a: tuple[int, ...], shape_b: tuple[int, ...], batch: int
    ) -> None:
        a, b = torch.ones(shape_a, device=device), torch.ones(shape_b, device=device)
        expected = 2 * batch * 5 * 3 * 4
        assert flops(lambda: ops.matmul(a, b, torch.ones(4, device=device), activation="gelu")) == {"matmul": expected}
        out = ops.matmul(a, b)
        assert flops(lambda: ops.matmul.out(a, b, out=out)) == {"matmul": expected}

    @pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
    def test_of_gradients_are_twice_the_products(
        self, device: torch.device, operands: tuple[Tensor, Tensor, Tensor], activation: str
    ) -> None:
        counts = flops(lambda: ops.matmul(*operands, activation=activation).sum().backward())
        assert sum(counts.values()) == 3 * 2 * 2 * 5 * 3 * 4

    @pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
    def test_of_a_compiled_product(self, device: torch.device, backend: str) -> None:
        torch._dynamo.reset()
        a, b = torch.ones(5, 3, device=device), torch.ones(3, 4, device=device)
        compiled = torch.compile(lambda a, b: ops.matmul(a, b) + 1, backend=backend)
        compiled(a, b)
        assert sum(flops(lambda: compiled(a, b)).values()) == 2 * 5 * 3 * 4
        torch._dynamo.reset()

    def test_of_block_scaled_products_count_elements_not_bytes(self, device: torch.device) -> None:
        for fmt in ("mxfp8", "mxfp4", "nvfp4"):
            tensors = block_scaled(fmt, device)
            assert flops(lambda: ops.block_scaled_matmul(*tensors)) == {"block_scaled_matmul": 2 * 128 * 64 * 96}  # noqa: B023
            out = torch.empty(128, 64, dtype=torch.float16, device=device)
            counts = flops(lambda: ops.block_scaled_matmul.out(*tensors, out=out))  # noqa: B023
            assert counts == {"block_scaled_matmul": 2 * 128 * 64 * 96}
        (a, _, scale_a, _), (_, b, _, scale_b) = block_scaled("mxfp4", device), block_scaled("mxfp8", device)
        counts = flops(lambda: ops.block_scaled_matmul(a, b, scale_a, scale_b))
        assert counts == {"block_scaled_matmul": 2 * 128 * 64 * 96}

    def test_of_a_16_bit_a_and_its_gradient(self, device: torch.device) -> None:
        for fmt in ("mxfp8", "nvfp4"):
            _, b, _, scale_b = block_scaled(fmt, device)
            a = torch.ones(128, 96, dtype=torch.bfloat16, device=device, requires_grad=True)
            counts = flops(lambda: ops.block_scaled_matmul(a, b, None, scale_b).sum().backward())  # noqa: B023
            product = 2 * 128 * 64 * 96
            assert counts == {"block_scaled_matmul": product, "_block_scaled_backward": product}

    def test_of_the_ops_by_index_and_of_prepared_weights(self) -> None:
        """By their shapes alone: on the meta device no kernel is asked."""
        meta = torch.device("meta")
        a = torch.empty(64, 32, device=meta)
        assert flops(lambda: ops._matmul_with_config(a, a.t(), config=0)) == {"_matmul_with_config": 2 * 64 * 32 * 64}
        m, n, k = 256, 128, 96
        tensors = [torch.empty(rows, k // 2, dtype=torch.uint8, device=meta) for rows in (m, n)]
        tensors += [torch.empty(rows, k // 32, dtype=torch.uint8, device=meta) for rows in (m, n)]
        counts = flops(lambda: ops._block_scaled_matmul_with_config(*tensors, config=0))
        assert counts == {"_block_scaled_matmul_with_config": 2 * m * n * k}
        prepared = ops._prepare_block_scaled(tensors[1], tensors[3], form="bfloat16")
        counts = flops(lambda: ops._block_scaled_matmul_prepared(*tensors, prepared))
        assert counts == {"_block_scaled_matmul_prepared": 2 * m * n * k}

    def test_are_told_by_module(self, device: torch.device) -> None:
        model = torch.nn.Sequential(tileon_ops.Linear(3, 4), torch.nn.ReLU(), tileon_ops.Linear(4, 2)).to(device)
        with FlopCounterMode(display=False) as counter:
            model(torch.ones(5, 3, device=device)).sum().backward()
        by_module = {name: sum(counts.values()) for name, counts in counter.get_flop_counts().items()}
        assert by_module["Sequential"] == by_module["Global"]
        first, second = 2 * 5 * 3 * 4, 2 * 5 * 4 * 2
        assert by_module["Sequential.2"] == 3 * second
        assert by_module["Sequential.0"] + by_module["Sequential.2"] == 2 * first + 3 * second  # x wants no gradient

    def test_of_a_mapped_product(self, device: torch.device) -> None:
        a, b = torch.ones(6, 5, 3, device=device), torch.ones(3, 4, device=device)
        assert flops(lambda: torch.vmap(ops.matmul, (0, None))(a, b)) == {"matmul": 2 * 6 * 5 * 3 * 4}

    def test_cost_the_import_nothing(self) -> None:
        program = (
            "import sys, torch, tileon_ops\n"
            "assert 'torch.utils.flop_counter' not in sys.modules\n"
            "from torch.utils.flop_counter import flop_registry\n"
            "assert torch.ops.tileon.matmul in flop_registry\n"
        )
        result = run_python(program)
        assert result.returncode == 0, result.stderr


def run_python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def without_vectors(text: str) -> str:
    """The name of a kernel of tiles on the CPU without that of the vectors, which the processor decides."""
    return re.sub(r"_(baseline|avx2|avx512|avx512_bf16|amx)$", "", text)


class TestLastKernel:
    def test_is_that_of_each_op(self, device: torch.device) -> None:
        x = normal(128, 64, dtype=torch.float32, device=device)
        a, b, scale_a, scale_b = block_scaled("mxfp8", device)
        cases: list[tuple[Callable[[], Any], str]] = [
            (lambda: tileon_ops.matmul(x, x.t()), "cpu_aten"),
            (lambda: tileon_ops.quantize(x, "mxfp8"), "cpu_quantize"),
            (lambda: tileon_ops.dequantize(a, scale_a, "mxfp8"), "cpu_dequantize"),
            (lambda: tileon_ops.unpack_scales(scale_a, 128, 3), "cpu_unpack_scales"),
            (lambda: tileon_ops.pack_scales(torch.zeros(7, 3, device=device).byte()), "cpu_pack_scales"),
            (lambda: tileon_ops.block_scaled_matmul(a, b, scale_a, scale_b), "cpu_tiles"),
        ]
        before = ""
        for run, on_the_cpu in cases:
            run()
            kernel = tileon_ops.last_kernel()
            assert kernel == torch.ops.tileon._last_kernel()
            assert without_vectors(kernel) == on_the_cpu if device.type == "cpu" else kernel not in ("", before)
            before = kernel

    def test_is_each_threads_own(self) -> None:
        tileon_ops.matmul(torch.ones(2, 2), torch.ones(2, 2))
        seen: list[str] = []
        thread = threading.Thread(target=lambda: seen.append(tileon_ops.last_kernel()))
        thread.start()
        thread.join()
        assert seen == [""]

    def test_stays_where_a_call_fails(self, device: torch.device) -> None:
        tileon_ops.quantize(torch.ones(1, 32, device=device), "mxfp8")
        before = tileon_ops.last_kernel()
        with pytest.raises(RuntimeError, match=r"^matmul: "):
            tileon_ops.matmul(torch.ones(2, 3, device=device), torch.ones(2, 3, device=device))
        assert tileon_ops.last_kernel() == before

    @pytest.mark.gpu
    def test_is_a_row_of_the_tile_table(self) -> None:
        a = torch.ones(256, 256, device="cuda", dtype=torch.bfloat16)
        tileon_ops.matmul(a, a)
        assert tileon_ops.last_kernel() in [config.name for config in configs.dense()]

    @pytest.mark.gpu
    def test_says_what_was_copied(self) -> None:
        a = torch.ones(300, 301, device="cuda", dtype=torch.bfloat16)[:, 1:]
        tileon_ops.matmul(a, a.t())
        kernel = tileon_ops.last_kernel()
        assert configs.config_of(kernel) in configs.dense()


EVERY_OP = """
import torch, tileon_ops
a, b, bias = torch.ones(2, 3).requires_grad_(), torch.ones(3, 4), torch.ones(4)
tileon_ops.matmul(a, b, bias, activation="gelu").sum().backward()
with torch.no_grad():
    tileon_ops.matmul(a, b, out=torch.empty(2, 4))
    fp8 = torch.ones(2, 2).to(torch.float8_e4m3fn)
    tileon_ops.matmul(fp8, fp8.to(torch.float8_e5m2), out_dtype=torch.float32)
x, y = tileon_ops.quantize(torch.ones(130, 64), "mxfp4"), tileon_ops.quantize(torch.ones(7, 64).half(), "nvfp4")
tileon_ops.dequantize(*y, "nvfp4", out_dtype=torch.bfloat16)
tileon_ops.pack_scales(tileon_ops.unpack_scales(x[1], 130, 2))
tileon_ops.block_scaled_matmul(x[0], x[0], x[1], x[1], activation="relu")
tileon_ops.block_scaled_matmul(x[0], x[0], x[1], x[1], out=torch.empty(130, 130).half(), fast_accum=True)
"""

THEIR_LINES = """
matmul batch=1 m=2 n=4 k=3 float32->float32 bias+gelu cpu_tiles
epilogue_backward batch=1 m=2 n=4 float32->float32 gelu cpu_epilogue_backward
matmul batch=1 m=2 n=3 k=4 float32->float32 none cpu_tiles
matmul batch=1 m=2 n=4 k=3 float32->float32 none cpu_tiles
matmul batch=1 m=2 n=2 k=2 float8_e4m3fn*float8_e5m2->float32 none cpu_tiles
quantize rows=130 k=64 float32->mxfp4 cpu_quantize
quantize rows=7 k=64 float16->nvfp4 cpu_quantize
dequantize rows=7 k=64 nvfp4->bfloat16 cpu_dequantize
unpack_scales rows=130 cols=2 cpu_unpack_scales
pack_scales rows=130 cols=2 cpu_pack_scales
block_scaled_matmul m=130 n=130 k=64 mxfp4->float16 relu cpu_tiles
block_scaled_matmul m=130 n=130 k=64 mxfp4(fast)->float16 none cpu_tiles
"""


class TestLog:
    def test_has_a_line_for_every_call(self) -> None:
        result = run_python(EVERY_OP, TILEON_LOG="1")
        assert result.returncode == 0, result.stderr
        lines = [line.removeprefix("tileon: ") for line in result.stderr.splitlines() if line.startswith("tileon: ")]
        lines = [without_vectors(line) for line in lines]
        assert lines == THEIR_LINES.split("\n")[1:-1]

    def test_is_silent_for_any_other_value(self) -> None:
        program = "import torch\nimport tileon_ops\ntileon_ops.matmul(torch.ones(2, 2), torch.ones(2, 2))"
        assert "tileon: " not in run_python(program, TILEON_LOG="0").stderr
