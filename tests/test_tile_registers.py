"""Products on CPUs by AMX's tile registers: which products take them, the order of their sums bit by bit, and what the
registers would lose. Left out where the processor has none; the host tests emulate them on any."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterable

import pytest
import torch
from operands import full_precision, integers, place
from scaled_operands import make, multiply
from source_trees import ROOT
from torch import Tensor

import tileon_ops

matmul = torch.ops.tileon.matmul
BFLOAT16, F32 = torch.bfloat16, torch.float32
GROUP, RUN = 32, 2048  # elements along k of one product of registers, and those that a register sums up


@pytest.fixture(autouse=True)
def _needs_the_registers() -> None:
    matmul(torch.ones(8, 8).bfloat16(), torch.ones(8, 8).bfloat16())
    if tileon_ops.last_kernel() != "cpu_tiles_amx":
        pytest.skip("needs a processor with AMX")


def numbers(rows: int, cols: int, seed: int = 0) -> Tensor:
    return full_precision(rows, cols, dtype=BFLOAT16, device="cpu", seed=seed)


def fused(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a (m, 1) times b (1, n) plus c, rounded to float32 once but for one case in 2^29."""
    return (a.double() * b.double() + c.double()).float()


def sums_in_order(a: Tensor, b: Tensor) -> Tensor:
    """a @ b in float32, in the order of csrc/cpu/tiles/amx_block.h."""
    k = a.shape[1]
    total = torch.zeros(a.shape[0], b.shape[1])
    for run in range(0, k, RUN):
        of_run = torch.zeros_like(total)
        for group in range(run, min(run + RUN, k), GROUP):
            parts = [torch.zeros_like(total), torch.zeros_like(total)]
            for i in range(group, min(group + GROUP, k)):
                parts[i % 2] = fused(a[:, i, None], b[None, i], parts[i % 2])
            of_run = of_run + (parts[0] + parts[1])
        total = total + of_run
    return total


@pytest.mark.parametrize(("m", "n", "k"), [(7, 40, 32), (17, 33, 77), (8, 20, 544), (7, 9, 2 * RUN + 96)])
def test_the_order_of_the_sums(m: int, n: int, k: int) -> None:
    a, b = numbers(m, k), numbers(k, n, seed=1)
    for right in (b, b.t().contiguous().t()):
        result = matmul(a, right, out_dtype=F32)
        assert tileon_ops.last_kernel() == "cpu_tiles_amx"
        assert torch.equal(result, sums_in_order(a, b))


def test_what_takes_the_registers() -> None:
    a, b = numbers(7, 64), numbers(64, 40, seed=1)
    other = {dtype: (a.to(dtype), b.to(dtype)) for dtype in (torch.float16, F32, torch.float64, torch.float8_e4m3fn)}
    for (left, right), kernel in (
        ((a, b), "cpu_tiles_amx"),
        (other[torch.float8_e4m3fn], "cpu_tiles_amx"),
        ((a[:1], b), "cpu_row_avx512"),
        ((a[:6], b), "cpu_tiles_avx512"),
        (other[torch.float16], "cpu_tiles_avx512"),
        (other[F32], "cpu_tiles_avx512"),
        (other[torch.float64], "cpu_tiles_avx512"),
    ):
        matmul(left, right, out_dtype=torch.float64 if left.dtype == torch.float64 else F32)
        assert tileon_ops.last_kernel() == kernel
    for a_name, b_name, kernel in (
        ("bfloat16", "mxfp4", "cpu_tiles_amx"),
        ("mxfp8", "mxfp4", "cpu_tiles_amx"),
        ("int8_row", "int8_row", "cpu_tiles_amx"),
        ("bfloat16", "e4m3_128x128", "cpu_tiles_amx"),
        ("float16", "mxfp4", "cpu_tiles_avx512"),
    ):
        for m in (1, 3):
            multiply(make(a_name, m, 256), make(b_name, 40, 256))
            assert tileon_ops.last_kernel().replace("row", "tiles") == kernel, (a_name, b_name, m)
    with tileon_ops.batch_invariant():
        matmul(a[:1], b)
        assert tileon_ops.last_kernel() == "cpu_tiles_amx"


@pytest.mark.parametrize("m", [7, 130, 300])
def test_small_integers_are_exact(m: int) -> None:
    for n, k in ((40, 32), (1030, 700), (33, 2600)):
        a = integers(m, k, dtype=BFLOAT16, device="cpu")
        b = integers(k, n, dtype=BFLOAT16, device="cpu", seed=1)
        for left, right in ((a, b), (place(a, transposed=True).view, place(b, pad=3).view), (a, place(b.t()).view.t())):
            assert torch.equal(matmul(left, right, out_dtype=torch.float32), (a.double() @ b.double()).float())


UNUSUAL = {
    "subnormal": 2.0**-130,
    "small": 2.0**-100,
    "large": 2.0**100,
    "infinite": math.inf,
    "nan": math.nan,
    "negative zero": -0.0,
}


@pytest.mark.parametrize("name", UNUSUAL)
@pytest.mark.parametrize("m", [7, 300])
def test_a_number_of_an_unusual_size_keeps_its_row_and_its_column_right(name: str, m: int) -> None:
    """As float64 has them; and no bit of the others changes."""
    a, b = numbers(m, 96), numbers(96, 600, seed=1)
    usual = matmul(a, b, out_dtype=F32)
    changed_a, changed_b = a.clone(), b.clone()
    changed_a[m - 1] = 0
    changed_a[m - 1, 17] = UNUSUAL[name]
    changed_b[:, 300] = 0
    changed_b[40, 300] = UNUSUAL[name]
    result = matmul(changed_a, changed_b, out_dtype=F32)
    exact = (changed_a.double() @ changed_b.double()).float()
    torch.testing.assert_close(result[m - 1], exact[m - 1], rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(result[:, 300], exact[:, 300], rtol=0, atol=0, equal_nan=True)
    columns = torch.arange(600) != 300
    assert torch.equal(result[: m - 1][:, columns], usual[: m - 1][:, columns])


def test_a_row_of_fp8_hangs_on_no_other() -> None:
    a, b = (x.to(torch.float8_e4m3fn) for x in (numbers(30, 1120), numbers(1120, 70, seed=1)))
    whole = matmul(a, b, out_dtype=F32)
    for rows in (1, 2, 6, 7):
        assert torch.equal(matmul(a[:rows], b, out_dtype=F32), whole[:rows])


@pytest.mark.parametrize("rows", [range(0, 300, 37), range(5, 290), (299,), (0, 8, 20, 128)], ids=str)
def test_unusual_rows_and_columns_anywhere(rows: Iterable[int]) -> None:
    """In runs, apart, at the ends of blocks: the exact sums of small integers times powers of two."""
    a = integers(300, 64, dtype=BFLOAT16, device="cpu")
    b = integers(64, 1100, dtype=BFLOAT16, device="cpu", seed=1)
    for i in rows:
        a[i] *= 2.0**-90
        b[:, 3 * i] *= 2.0**-70
    assert torch.equal(matmul(a, b, out_dtype=F32), (a.double() @ b.double()).float())


def test_a_row_of_numbers_hangs_on_no_other_in_batch_invariant_products() -> None:
    a, b = numbers(300, 2600), numbers(2600, 70, seed=1)
    a[7, 3] = 2.0**-130
    with tileon_ops.batch_invariant():
        whole = matmul(a, b)
        for i in (0, 7, 129, 299):
            assert torch.equal(matmul(a[i : i + 1], b), whole[i : i + 1])


VECTORS = f"""
import sys
sys.path[:0] = ["{ROOT}", "{ROOT}/tests"]
import torch, tileon_ops
from scaled_operands import make, multiply
result = multiply(make("int8_row", 33, 1056), make("int8_row", 45, 1056), out_dtype=torch.float32)
torch.save((result, tileon_ops.last_kernel()), sys.argv[1])
"""


def test_products_of_int8_have_the_bits_of_the_vector_code(tmp_path: os.PathLike[str]) -> None:
    path = os.path.join(tmp_path, "result.pt")
    environment = os.environ | {"TILEON_CPU_VECTORS": "avx512"}
    subprocess.run([sys.executable, "-c", VECTORS, path], check=True, env=environment, timeout=120)
    by_vectors, kernel = torch.load(path)
    assert kernel == "cpu_tiles_avx512"
    assert torch.equal(multiply(make("int8_row", 33, 1056), make("int8_row", 45, 1056), out_dtype=F32), by_vectors)


def test_threads_change_no_bit() -> None:
    threads = torch.get_num_threads()
    a, b = numbers(520, 1000), numbers(1000, 1100, seed=1)
    try:
        results = []
        for count in (1, 2, 3, 8):
            torch.set_num_threads(count)
            results.append(matmul(a, b, out_dtype=F32))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(results[0], result) for result in results[1:])
