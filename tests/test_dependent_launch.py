"""Kernels that start before the one ahead of them in the stream is done: nothing may be read or written too early.

Hopper kernels are launched so that their set-up overlaps the end of the kernel before. The products here are followed
at once by what depends on them, behind a kernel that keeps the GPU busy until all of them are queued, and in graphs.
Chains multiply by matrices that pick columns and change signs, so that values stay small and exact at any depth.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch
from operands import integers
from reference import assert_exact
from tile_table import HAS_HOPPER, HOPPER_ROWS, NO_HOPPER_ROWS, TABLE, Row, each_row
from torch import Tensor

pytestmark = pytest.mark.gpu

matmul = torch.ops.tileon.matmul

SPIN_CYCLES = 20_000_000  # about 10 ms: the launches queue up behind it and then run without a gap
WIDTHS = (264, 1000, 512, 72, 2048, 640, 136, 1544)
DEPTH = 20
REPLAYS = 20
LONG_K = 16384

each_16bit = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


@pytest.fixture(autouse=True)
def _settle() -> Iterator[None]:
    """An asynchronous error belongs to the test that caused it."""
    yield
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def rows_of(dtype: torch.dtype) -> list[Row]:
    """The rows that a chain goes through: Hopper's, where those run here."""
    return [row for row in TABLE if row.dtype == dtype and row.is_hopper == HAS_HOPPER]


def pick_columns(k: int, n: int, dtype: torch.dtype, seed: int, *, transposed: bool) -> Tensor:
    """(k, n) with a single 1 or -1 in each column, stored as (k, n) or as (n, k)."""
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    rows = torch.randint(k, (n,), generator=generator, device="cuda")
    signs = torch.randint(2, (n,), generator=generator, device="cuda") * 2 - 1
    columns = torch.zeros(n, k, dtype=dtype, device="cuda")
    columns[torch.arange(n, device="cuda"), rows] = signs.to(dtype)
    return columns.t() if transposed else columns.t().contiguous()


class Chain:
    """(x @ w1) @ w2 @ ..., by rows of the table in turn and by the choice.

    `interleaved`: torch changes every operand just before it is read and just after, and every result. The weights
    then lie one too low, so that a product that runs ahead of the change multiplies by a dense matrix of wrong values.
    """

    def __init__(self, dtype: torch.dtype, first_row: int, *, interleaved: bool) -> None:
        self.interleaved = interleaved
        rows: list[Row | None] = [None, *rows_of(dtype)]
        widths = [WIDTHS[i % len(WIDTHS)] for i in range(DEPTH + 1)]
        self.rows = [rows[(first_row + i) % len(rows)] for i in range(DEPTH)]
        self.weights = [pick_columns(widths[i], widths[i + 1], dtype, i, transposed=i % 2 == 1) for i in range(DEPTH)]
        self.exact = [weight.double() for weight in self.weights]
        if interleaved:
            self.weights = [weight.sub_(1) for weight in self.weights]

    def run(self, x: Tensor) -> Tensor:
        """Overwrites x where torch's kernels are between."""
        for row, weight in zip(self.rows, self.weights, strict=True):
            if self.interleaved:
                x.add_(1)
                weight.add_(1)
            product = matmul(x, weight) if row is None else row.run(x, weight)
            if self.interleaved:
                weight.sub_(1)
                x.zero_()
                product.add_(1)
            x = product
        return x

    def expected(self, x: Tensor) -> Tensor:
        exact, added = x.double(), int(self.interleaved)
        for weight in self.exact:
            exact = (exact + added) @ weight + added
        return exact


@each_16bit
@pytest.mark.parametrize("m", [264, 16, 1])
@pytest.mark.parametrize("interleaved", [True, False], ids=["interleaved", "bare"])
class TestChains:
    def test_are_exact(self, interleaved: bool, m: int, dtype: torch.dtype) -> None:
        for first_row in range(0, len(rows_of(dtype)) + 1, DEPTH):
            chain = Chain(dtype, first_row, interleaved=interleaved)
            inputs = [integers(m, WIDTHS[0], dtype=dtype, device="cuda", seed=seed) for seed in range(4)]
            copies = [x.clone() for x in inputs]
            torch.cuda.synchronize()
            torch.cuda._sleep(SPIN_CYCLES)
            results = [chain.run(x) for x in copies]
            for x, result in zip(inputs, results, strict=True):
                assert_exact(result, chain.expected(x), dtype, f"rows from {first_row}")

    def test_are_exact_in_a_graph(self, interleaved: bool, m: int, dtype: torch.dtype) -> None:
        for first_row in range(0, len(rows_of(dtype)) + 1, DEPTH):
            chain = Chain(dtype, first_row, interleaved=interleaved)
            inputs = [integers(m, WIDTHS[0], dtype=dtype, device="cuda", seed=seed) for seed in range(REPLAYS)]
            x = torch.zeros_like(inputs[0])
            graph = torch.cuda.CUDAGraph()
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
                result = chain.run(x)
            results = []
            for values in inputs:  # without a gap from replay to replay
                x.copy_(values)
                graph.replay()
                results.append(result.clone())
            for values, actual in zip(inputs, results, strict=True):
                assert_exact(actual, chain.expected(values), dtype, f"rows from {first_row}")

    def test_on_many_streams_do_not_meet(self, interleaved: bool, m: int, dtype: torch.dtype) -> None:
        streams = [torch.cuda.Stream() for _ in range(6)]
        chains = [Chain(dtype, 7 * i, interleaved=interleaved) for i in range(len(streams))]
        inputs = [integers(m, WIDTHS[0], dtype=dtype, device="cuda", seed=i) for i in range(len(streams))]
        copies = [x.clone() for x in inputs]
        torch.cuda.synchronize()
        results = []
        for stream in streams:
            with torch.cuda.stream(stream):
                torch.cuda._sleep(SPIN_CYCLES)
        for stream, chain, x in zip(streams, chains, copies, strict=True):
            with torch.cuda.stream(stream):
                results.append(chain.run(x))
        torch.cuda.synchronize()
        for i, (chain, x, result) in enumerate(zip(chains, inputs, results, strict=True)):
            assert_exact(result, chain.expected(x), dtype, f"stream {i}")


def long_row(row: Row) -> Row:
    """The row that takes longest for a few tiles and a long k: one CTA a tile, most SMs free for what comes next."""
    return next(other for other in HOPPER_ROWS if other.kind == row.kind and other.splits == 1)


def long_product(row: Row, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """Operands of some 100 us of `long_row`, and their exact product: (1, n), as a bias may be made."""
    a = integers(1, LONG_K, dtype=row.dtype, device="cuda", seed=5)
    b = integers(LONG_K, n, dtype=row.dtype, device="cuda", seed=6)
    return a, b, (a.double() @ b.double()).to(row.dtype)


def overwrite_by(dtype: torch.dtype, shape: torch.Size) -> dict[str, tuple[Callable[[Tensor], object], Tensor]]:
    """What fills a matrix of this shape, and what it holds then: torch, a product, a bias without a product."""
    rows, cols = shape
    p, q = integers(rows, 8, dtype=dtype, device="cuda", seed=7), integers(8, cols, dtype=dtype, device="cuda", seed=8)
    empty_p, empty_q = p[:, :0].contiguous(), q[:0].contiguous()
    bias = integers(cols, dtype=dtype, device="cuda", seed=9)
    return {
        "torch": (lambda target: target.fill_(3), torch.full_like(p @ q, 3)),
        "a product": (lambda target: matmul.out(p, q, out=target), (p.double() @ q.double()).to(dtype)),
        "a bias": (lambda target: matmul.out(empty_p, empty_q, bias, out=target), bias.expand(rows, cols)),
    }


@each_row(HOPPER_ROWS, NO_HOPPER_ROWS)
class TestEveryHopperRow:
    @pytest.mark.parametrize("operand", [0, 1], ids=["a", "b"])
    def test_its_operands_may_be_overwritten_by_the_next_kernel(self, row: Row, operand: int) -> None:
        m, n, k = 40, 136, LONG_K
        values = (
            integers(m, k, dtype=row.dtype, device="cuda"),
            integers(k, n, dtype=row.dtype, device="cuda", seed=1),
        )
        expected = values[0].double() @ values[1].double()
        pair = (values[0].clone(), values[1].t().contiguous().t())
        for what, (overwrite, after) in overwrite_by(row.dtype, pair[operand].shape).items():
            for _ in range(3):
                pair[operand].copy_(values[operand])
                torch.cuda.synchronize()
                torch.cuda._sleep(SPIN_CYCLES // 20)
                actual = row.run(*pair)
                overwrite(pair[operand])
                assert_exact(actual, expected, row.dtype, f"overwritten by {what}")
                assert torch.equal(pair[operand], after), what
            pair[operand].copy_(values[operand])

    def test_it_does_not_hide_a_longer_product_before_it(self, row: Row) -> None:
        """A kernel is done only when all before it are: whoever waits for it alone then sees their results too."""
        n = 72
        a, b, expected = long_product(row, n)
        small = integers(24, 64, dtype=row.dtype, device="cuda")
        weight = integers(40, 64, dtype=row.dtype, device="cuda", seed=1).t()
        pick = pick_columns(n, 64, row.dtype, 3, transposed=True)
        for between in (0, 1, 3):
            torch.cuda.synchronize()
            torch.cuda._sleep(SPIN_CYCLES // 20)
            stale = torch.full((1, n), float("nan"), dtype=row.dtype, device="cuda")
            del stale  # its memory is the likely place of the next tensor of this size
            long = long_row(row).run(a, b)
            for _ in range(between):
                short = row.run(small, weight)
            picked, seen = row.run(long, pick), long.clone()
            assert_exact(picked, expected.double() @ pick.double(), row.dtype, f"{between} short products between")
            assert torch.equal(seen, expected), f"{between} short products between"
            if between:
                assert_exact(short, small.double() @ weight.double(), row.dtype, "the short product")

    def test_its_bias_may_come_from_the_kernel_before(self, row: Row) -> None:
        a = integers(40, 64, dtype=row.dtype, device="cuda")
        b = integers(136, 64, dtype=row.dtype, device="cuda", seed=1).t()
        long_a, long_b, bias = long_product(row, 136)
        buffer = torch.empty(1, 136, dtype=row.dtype, device="cuda")
        product = a.double() @ b.double()
        makers: dict[str, Callable[[], object]] = {
            "a product": lambda: matmul.out(long_a, long_b, out=buffer),
            "torch": lambda: buffer.copy_(bias),
        }
        for what, make in makers.items():
            for _ in range(3):
                buffer.fill_(float("nan"))
                torch.cuda.synchronize()
                torch.cuda._sleep(SPIN_CYCLES // 20)
                make()
                actual = row.run(a, b, buffer.view(-1))
                assert_exact(actual, product + bias.double(), row.dtype, f"bias by {what}")
        torch.cuda._sleep(SPIN_CYCLES // 20)
        fresh = long_row(row).run(long_a, long_b).view(-1)
        assert_exact(row.run(a, b, fresh), product + bias.double(), row.dtype, "bias by a long product")

    def test_it_may_write_where_the_kernel_before_has_written(self, row: Row) -> None:
        """Results that nobody keeps share memory; the last one to be written must stand."""
        values_a = [integers(40, 64, dtype=row.dtype, device="cuda", seed=seed) for seed in range(8)]
        b = integers(136, 64, dtype=row.dtype, device="cuda", seed=1).t()
        torch.cuda.synchronize()
        torch.cuda._sleep(SPIN_CYCLES // 20)
        for a in values_a:
            actual = row.run(a, b)
        assert_exact(actual, values_a[-1].double() @ b.double(), row.dtype)


@each_16bit
def test_two_buffers_in_turn(dtype: torch.dtype) -> None:
    """Each product overwrites the operand of the one before."""
    x = integers(264, 512, dtype=dtype, device="cuda")
    buffers = [x.clone(), torch.zeros_like(x)]
    weights = [pick_columns(512, 512, dtype, seed, transposed=seed % 2 == 1) for seed in range(6)]
    exact = x.double()
    torch.cuda.synchronize()
    torch.cuda._sleep(SPIN_CYCLES)
    for i in range(60):
        matmul.out(buffers[i % 2], weights[i % 6], out=buffers[(i + 1) % 2])
    for i in range(60):
        exact = exact @ weights[i % 6].double()
    assert_exact(buffers[0], exact, dtype)


@each_16bit
def test_operands_that_are_copied_first(dtype: torch.dtype) -> None:
    """The copy is one more kernel between; its buffer is freed while the product runs."""
    wide = torch.zeros(640, 649, dtype=dtype, device="cuda")
    weight = integers(640, 640, dtype=dtype, device="cuda", seed=1)
    inputs = [integers(640, 649, dtype=dtype, device="cuda", seed=seed) for seed in range(10)]
    torch.cuda.synchronize()
    torch.cuda._sleep(SPIN_CYCLES)
    results = []
    for values in inputs:
        wide.copy_(values)
        results.append(matmul(wide[:, 1:641], weight))
        wide.zero_()
    for values, actual in zip(inputs, results, strict=True):
        assert_exact(actual, values[:, 1:641].double() @ weight.double(), dtype)


def test_it_can_be_turned_off() -> None:
    """TILEON_PDL=0 is read once, so in a process of its own."""
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command = [*pytest_command, __file__, "-k", "TestChains and bare"]
    root = pathlib.Path(__file__).resolve().parent.parent
    environment = os.environ | {"TILEON_PDL": "0"}
    result = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=root, env=environment)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-2000:]
    assert "18 passed" in result.stdout, result.stdout[-500:]
