"""What is particular to the CPU implementation: by tiles or through ATen, in parallel, from any thread."""

from __future__ import annotations

import math
import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest
import torch
from operands import full_precision, integers, place
from reference import MATMUL_DTYPES, assert_exact, check_matmul
from torch import Tensor

import tileon_ops

ROOT = pathlib.Path(__file__).resolve().parent.parent
matmul = torch.ops.tileon.matmul


def kernel_of(m: int, n: int, k: int, dtype: torch.dtype, *, across: bool = False) -> str:
    """What multiplies (m, k) by (k, n); `across`: whose rows are adjacent, as those of torch.matmul."""
    b = torch.ones(k, n) if across else torch.ones(n, k).t()
    matmul(torch.ones(m, k).to(dtype), b.to(dtype), out_dtype=torch.float32 if dtype.itemsize < 4 else dtype)
    return re.sub("_(baseline|avx2|avx512|avx512_bf16|amx|aten)$", "", str(torch.ops.tileon._last_kernel()))


def is_of_aten(m: int, n: int, k: int, dtype: torch.dtype) -> bool:
    """Of row-major operands."""
    operands = torch.ones(m, k, dtype=dtype), torch.ones(k, n, dtype=dtype)
    return bool(torch.ops.tileon._is_product_of_aten(*operands))


def test_large_float32_and_float64_products_are_atens_own() -> None:
    """Without an epilogue nothing is left to do after ATen: the same bits. Of a short k on any processor."""
    for dtype in (torch.float32, torch.float64):
        a, b = (
            full_precision(130, 90, dtype=dtype, device="cpu"),
            full_precision(90, 70, dtype=dtype, device="cpu", seed=1),
        )
        assert torch.equal(matmul(a, b), a @ b)
        assert torch.ops.tileon._last_kernel() == "cpu_aten"


def test_the_choice_between_tiles_and_aten() -> None:
    """ATen has float32 and float64, unless they are small or, in float32, a few rows by adjacent ones; or tiles are
    faster on this processor (tests/host/test_cpu_choice.cpp has the rules)."""
    aten = "cpu" if is_of_aten(256, 256, 256, torch.float32) else "cpu_tiles"
    for dtype in (torch.float16, torch.bfloat16, torch.float8_e4m3fn):
        for size in (8, 200):
            assert kernel_of(size, size, size, dtype, across=True) == "cpu_tiles"
    for dtype in (torch.float32, torch.float64):
        assert kernel_of(8, 8, 8, dtype, across=True) == "cpu_tiles"
        assert kernel_of(100, 100, 90, dtype) == "cpu"
    assert kernel_of(32, 512, 512, torch.float32) == "cpu_tiles"
    assert kernel_of(1, 512, 512, torch.float32) == "cpu_row"
    assert kernel_of(33, 512, 512, torch.float32) == aten
    assert kernel_of(32, 512, 512, torch.float32, across=True) == aten
    assert kernel_of(32, 512, 512, torch.float64) == aten
    assert kernel_of(15, 512, 512, torch.float32, across=True) == "cpu"


@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_large_recorded_product_goes_as_one_that_is_not(dtype: torch.dtype, activation: str) -> None:
    """From some millions of multiplications on, where a node in Python costs less than ATen would."""
    a, b = (full_precision(200, 200, dtype=dtype, device="cpu", seed=seed) for seed in (0, 1))
    assert matmul(a, b, activation=activation).equal(matmul(a.requires_grad_(), b, activation=activation))
    assert (tileon_ops.last_kernel() == "cpu_aten") == is_of_aten(200, 200, 200, dtype)


class TestManyRowsOfBfloat16:
    """ATen has them where the processor has an instruction for pairs of bfloat16, and where that loses nothing."""

    M, N, K = 64, 720, 720

    @pytest.fixture(autouse=True)
    def _needs_the_instruction(self) -> None:
        matmul(torch.ones(8, 8).bfloat16(), torch.ones(8, 8).bfloat16())
        if tileon_ops.last_kernel() != "cpu_tiles_avx512_bf16":
            pytest.skip("needs a processor that multiplies pairs of bfloat16")

    def operands(self) -> tuple[Tensor, Tensor, Tensor]:
        a, b = (
            integers(*s, dtype=torch.bfloat16, device="cpu", seed=i)
            for i, s in enumerate([(self.M, self.K), (self.K, self.N)])
        )
        return a, b, (integers(self.N, dtype=torch.float32, device="cpu", seed=2) * 37.25).bfloat16()

    def test_are_rounded_once(self) -> None:
        a, b, _ = self.operands()
        exact = a.double() @ b.double()
        for x in (a, place(a, transposed=True).view, a[None]):
            for y in (b, b.t().contiguous().t(), place(b, pad=3).view):
                result = matmul(x, y)
                assert tileon_ops.last_kernel() == "cpu_aten"
                assert torch.equal(result.view(self.M, self.N), exact.bfloat16())

    def test_into_an_output_of_any_strides(self) -> None:
        a, b, _ = self.operands()
        out = place(torch.zeros(self.M, self.N, dtype=torch.bfloat16), pad=5)
        matmul.out(a, b, out=out.view)
        assert tileon_ops.last_kernel() == "cpu_aten"
        assert torch.equal(out.view, (a.double() @ b.double()).bfloat16())

    def test_else_go_by_tiles(self) -> None:
        a, b, bias = self.operands()
        subnormal, huge = a.clone(), a.clone()
        subnormal[5, 7], huge[5, 7] = 1e-39, 3e38
        infinite, of_nan = a.clone(), b.clone()
        infinite[0, 0], of_nan[0, 0] = math.inf, math.nan
        for call in (
            lambda: matmul(a[:63], b),
            lambda: matmul(a[:, :700:2], b[:700:2, ::2]),  # whose elements lie apart
            lambda: matmul(a, b, activation="relu"),
            lambda: matmul(a, b, bias),
            lambda: matmul(a, b, bias.float()),
            lambda: matmul(a, b, out_dtype=torch.float32),
            lambda: matmul(subnormal, b),
            lambda: matmul(huge, b),
            lambda: matmul(infinite, b),
            lambda: matmul(a, of_nan),
        ):
            call()
            assert tileon_ops.last_kernel() == "cpu_tiles_avx512_bf16"
        with tileon_ops.batch_invariant():
            matmul(a, b)
            assert tileon_ops.last_kernel() == "cpu_tiles_avx512_bf16"

    def test_a_subnormal_number_is_not_lost(self) -> None:
        a, b, _ = self.operands()
        a[3], a[3, 0] = 0, 2.0**-130
        b[0] = 1
        assert torch.equal(matmul(a, b)[3], torch.full((self.N,), 2.0**-130, dtype=torch.bfloat16))


def test_columns_of_a_block_at_its_widest() -> None:
    """One and two rows by a matrix with adjacent columns, more of them than a block has."""
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for m in (1, 2, 3):
            a, b = integers(m, 70, dtype=dtype, device="cpu"), integers(70, 2100, dtype=dtype, device="cpu", seed=1)
            assert_exact(matmul(a, b), a.double() @ b.double(), dtype)


def test_rows_of_a_batch_that_share_b_are_those_of_one_matrix() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        b = full_precision(40, 30, dtype=dtype, device="cpu", seed=1)
        rows = full_precision(12, 40, dtype=dtype, device="cpu")
        for a in (rows.view(3, 4, 40), rows.view(12, 1, 40), rows.view(4, 3, 40)[:, :2], rows[:4].expand(3, 4, 40)):
            assert torch.equal(matmul(a, b), torch.stack([matmul(matrix, b) for matrix in a]))


def test_a_bias_is_added_to_the_whole_sum_of_a_recorded_product_too() -> None:
    """Of exact sums: one rounding is left, that of the sum with its bias."""
    for dtype in (torch.float32, torch.float64):
        for shape in ((1, 8), (5, 8), (2, 3, 8)):
            a = integers(math.prod(shape[:-1]), 8, dtype=dtype, device="cpu").view(shape).requires_grad_()
            b = integers(8, 211, dtype=dtype, device="cpu", seed=1)
            bias = full_precision(211, 1, dtype=dtype, device="cpu", seed=2).view(211)
            wanted = (a.detach().double() @ b.double()).to(dtype) + bias
            for right in (b, place(b, pad=3).view):
                assert torch.equal(matmul(a, right, bias).detach(), wanted)


def test_16_bit_products_are_not_rounded_on_the_way() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        a, b = (
            full_precision(65, 300, dtype=dtype, device="cpu"),
            full_precision(300, 70, dtype=dtype, device="cpu", seed=1),
        )
        check_matmul(matmul(a, b, out_dtype=torch.float32), a, b, out_dtype=torch.float32)


def test_the_number_of_threads_changes_no_exact_result() -> None:
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            for dtype in MATMUL_DTYPES:
                a, b = (
                    integers(301, 70, dtype=dtype, device="cpu"),
                    integers(70, 1003, dtype=dtype, device="cpu", seed=1),
                )
                assert_exact(matmul(a, b, activation="relu"), (a.double() @ b.double()).relu(), dtype)
    finally:
        torch.set_num_threads(threads)


def test_from_several_threads() -> None:
    failures: list[str] = []

    def work(seed: int) -> None:
        dtype = MATMUL_DTYPES[seed % 4]
        a, b = (
            integers(13, 40, dtype=dtype, device="cpu", seed=seed),
            integers(40, 35, dtype=dtype, device="cpu", seed=seed + 1),
        )
        for _ in range(20):
            if not torch.equal(matmul(a, b).double(), a.double() @ b.double()):
                failures.append(str(seed))
        if not torch.ops.tileon._last_kernel().startswith("cpu_tiles_"):
            failures.append("last kernel")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_last_kernel_is_each_threads_own() -> None:
    """A thread that has run nothing has nothing to tell."""
    matmul(torch.ones(2, 2), torch.ones(2, 2))
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(torch.ops.tileon._last_kernel()))
    thread.start()
    thread.join()
    assert seen == [""]


def test_allow_tf32_has_no_effect() -> None:
    a = full_precision(40, 50, dtype=torch.float32, device="cpu")
    assert torch.equal(matmul(a, a.t(), allow_tf32=True), matmul(a, a.t()))


def test_torchs_reduced_precision_settings_do_not_reach_the_product() -> None:
    """`set_float32_matmul_precision("medium")` lets ATen multiply in bfloat16 on some CPUs; the op promises IEEE."""
    a, b = (
        full_precision(130, 300, dtype=torch.float32, device="cpu"),
        full_precision(300, 70, dtype=torch.float32, device="cpu", seed=1),
    )
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "high", "medium"):
            torch.set_float32_matmul_precision(precision)
            check_matmul(matmul(a, b), a, b, what=precision)
    finally:
        torch.set_float32_matmul_precision(before)


PEAK_OF_A_CALL = """
import torch, tileon_ops
torch.set_num_threads(1)
dtype, rows, layout, activation = getattr(torch, "{dtype}"), {rows}, "{layout}", "{activation}"

def status(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key)) * 1024

a, w, bias = (torch.randn(*shape).to(dtype) for shape in ((rows, 2048), (2048, 2048), (2048,)))
b = w.t() if layout == "NT" else w
call = lambda rows: torch.ops.tileon.matmul(a[:rows], b, bias, activation=activation)
call(rows // 8)  # what the first call alone takes: code, threads, torch's own
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = status("VmRSS")
out = call(rows)
print(status("VmHWM") - before - out.nbytes)
"""


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="needs Linux's count of the peak")
@pytest.mark.parametrize("activation", ["none", "gelu"])
@pytest.mark.parametrize("layout", ["NN", "NT"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_call_takes_little_memory_beside_its_result(dtype: str, layout: str, activation: str) -> None:
    """No copy of the weight, which has 8 or 16 MB here."""
    program = PEAK_OF_A_CALL.format(dtype=dtype, layout=layout, activation=activation, rows=256)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) <= 8 * 2**20, f"{int(result.stdout) / 2**20:.1f} MB"
