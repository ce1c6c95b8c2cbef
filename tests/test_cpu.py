"""What is particular to the CPU implementation: it goes through ATen, in parallel, from any thread."""

from __future__ import annotations

import threading

import torch
from operands import full_precision, integers
from reference import MATMUL_DTYPES, assert_exact, check_matmul

matmul = torch.ops.tileon.matmul


def test_float32_and_float64_are_atens_own_product() -> None:
    """Without an epilogue nothing is left to do after ATen: the same bits."""
    for dtype in (torch.float32, torch.float64):
        a, b = (
            full_precision(130, 300, dtype=dtype, device="cpu"),
            full_precision(300, 70, dtype=dtype, device="cpu", seed=1),
        )
        assert torch.equal(matmul(a, b), a @ b)


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
            integers(33, 40, dtype=dtype, device="cpu", seed=seed),
            integers(40, 35, dtype=dtype, device="cpu", seed=seed + 1),
        )
        for _ in range(20):
            if not torch.equal(matmul(a, b).double(), a.double() @ b.double()):
                failures.append(str(seed))
        if torch.ops.tileon._last_kernel() != "cpu_aten":
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
