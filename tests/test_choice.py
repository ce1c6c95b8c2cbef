"""Which kernel takes a call: Hopper's where it can read the operands, the portable ones elsewhere."""

from __future__ import annotations

import re

import pytest
import torch
from operands import LAYOUTS, in_aligned_layout, in_layout, integers, normal, place
from reference import assert_exact, check_matmul
from tile_table import HAS_GPU, HAS_HOPPER, on_hopper
from torch import Tensor

pytestmark = pytest.mark.gpu

matmul = torch.ops.tileon.matmul

DTYPES_16 = (torch.float16, torch.bfloat16)
TENSOR_CORES = re.compile(r"^sm80_mma_\d+x\d+x\d+$")
HOPPER = re.compile(r"^sm90_\w+$")
HOPPER_AFTER_A_COPY = re.compile(r"^sm90_\w+ \(.*copied\)$")
PORTABLE = re.compile(r"^sm80_mma\w+( \(.*copied\))?$")

on_another_gpu = pytest.mark.skipif(HAS_GPU and HAS_HOPPER, reason="the Hopper kernels take these calls here")


def kernel_of(a: Tensor, b: Tensor) -> str:
    matmul(a, b)
    kernel: str = torch.ops.tileon._last_kernel()
    return kernel


@on_hopper
class TestOnHopper:
    @pytest.mark.parametrize("dtype", DTYPES_16, ids=str)
    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("batch", [(), (3,)], ids=str)
    def test_aligned_squares_run_on_its_kernels(self, batch: tuple[int, ...], layout: str, dtype: torch.dtype) -> None:
        for size in (64, 72, 128, 136, 256, 384, 512, 1000, 1024, 1408, 2048, 4096, 8192):
            if batch and size > 2048:
                break
            a, b = (normal(*batch, size, size, dtype=dtype, device="cuda", seed=seed) for seed in (0, 1))
            placed = in_layout(a, b, layout)
            actual = matmul(*placed)
            kernel = torch.ops.tileon._last_kernel()
            assert HOPPER.match(kernel), f"{size}: {kernel}"
            if size <= 2048:
                check_matmul(actual, a, b, what=f"{size}: {kernel}")

    @pytest.mark.parametrize("dtype", DTYPES_16, ids=str)
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_aligned_rectangles_run_on_its_kernels(self, layout: str, dtype: torch.dtype) -> None:
        """Few rows, few columns, a long k: also with sizes that are odd while lines start at multiples of 16 bytes."""
        for m, n, k in (
            *((m, 4096, 4096) for m in (64, 128, 512, 2048)),
            (64, 14336, 4096),
            (4096, 64, 4096),
            (64, 64, 16384),
            (129, 131, 1037),
            (1001, 77, 333),
        ):
            a, b = integers(m, k, dtype=dtype, device="cuda"), integers(k, n, dtype=dtype, device="cuda", seed=1)
            placed = in_aligned_layout(a, b, layout)
            actual = matmul(*placed)
            kernel = torch.ops.tileon._last_kernel()
            assert HOPPER.match(kernel), f"{m}x{n}x{k}: {kernel}"
            assert_exact(actual, a.double() @ b.double(), dtype, f"{m}x{n}x{k}: {kernel}")

    @pytest.mark.parametrize("dtype", DTYPES_16, ids=str)
    def test_linear_layers_run_on_its_kernels(self, dtype: torch.dtype) -> None:
        """Weights of the sizes that models have, stored as (n, k)."""
        weights = {nk: integers(*nk, dtype=dtype, device="cuda") for nk in ((4096, 4096), (14336, 4096), (4096, 14336))}
        for (_, k), weight in weights.items():
            exact_weight = weight.double()
            for m in (1, 8, 16, 32, 64, 128):
                x = integers(m, k, dtype=dtype, device="cuda", seed=m)
                actual = matmul(x, weight.t())
                kernel = torch.ops.tileon._last_kernel()
                assert HOPPER.match(kernel), f"{m} {tuple(weight.shape)}: {kernel}"
                assert_exact(actual, x.double() @ exact_weight.t(), dtype, f"{m} {tuple(weight.shape)}: {kernel}")

    @pytest.mark.parametrize("dtype", DTYPES_16, ids=str)
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_small_awkward_operands_go_to_the_portable_kernels(self, layout: str, dtype: torch.dtype) -> None:
        a, b = integers(65, 35, dtype=dtype, device="cuda"), integers(35, 67, dtype=dtype, device="cuda", seed=1)
        views = [in_layout(a, b, layout), in_layout(a, b, layout, offset=1)]
        views += [(place(a, step=2).view, in_layout(a, b, layout)[1])]
        for view_a, view_b in views:
            actual = matmul(view_a, view_b)
            kernel = torch.ops.tileon._last_kernel()
            assert PORTABLE.match(kernel), kernel
            assert_exact(actual, a.double() @ b.double(), dtype, kernel)

    @pytest.mark.parametrize("dtype", DTYPES_16, ids=str)
    def test_an_expanded_operand_is_not_read_by_tma(self, dtype: torch.dtype) -> None:
        row, b = integers(1, 64, dtype=dtype, device="cuda"), integers(64, 72, dtype=dtype, device="cuda", seed=1)
        a = row.expand(66, 64)
        actual = matmul(a, b)
        kernel = torch.ops.tileon._last_kernel()
        assert PORTABLE.match(kernel) or HOPPER_AFTER_A_COPY.match(kernel), kernel
        assert_exact(actual, a.double() @ b.double(), dtype, kernel)

    @pytest.mark.parametrize("dtype", DTYPES_16, ids=str)
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_a_large_awkward_product_is_copied_and_runs_on_its_kernels(self, layout: str, dtype: torch.dtype) -> None:
        for m, n, k in ((2049, 2049, 2049), (2044, 2052, 588)):  # no line of any layout is a multiple of 16 bytes
            a, b = integers(m, k, dtype=dtype, device="cuda"), integers(k, n, dtype=dtype, device="cuda", seed=1)
            actual = matmul(*in_layout(a, b, layout))
            kernel = torch.ops.tileon._last_kernel()
            assert HOPPER_AFTER_A_COPY.match(kernel), f"{m}x{n}x{k}: {kernel}"
            assert_exact(actual, a.double() @ b.double(), dtype, f"{m}x{n}x{k}: {kernel}")

    def test_wider_dtypes_stay_with_the_portable_kernels(self) -> None:
        for dtype, allow_tf32 in ((torch.float32, True), (torch.float64, False)):
            a = torch.ones(1024, 1024, dtype=dtype, device="cuda")
            matmul(a, a, allow_tf32=allow_tf32)
            assert torch.ops.tileon._last_kernel().startswith("sm80_")

    def test_a_few_rows_of_float32_are_read_in_place(self) -> None:
        weight = torch.ones(4096, 2048, device="cuda")
        for rows in (1, 2, 3, 8):
            assert kernel_of(torch.ones(rows, 2048, device="cuda"), weight.t()).startswith("sm80_few_rows_")

    def test_large_products_of_float32_run_on_tensor_cores(self) -> None:
        for size, family in ((64, "sm80_"), (1024, "sm90_bf16x6_"), (4095, "sm90_bf16x6_")):
            a = torch.ones(size, size, device="cuda")
            assert kernel_of(a, a.t()).startswith(family)


@on_another_gpu
class TestElsewhere:
    @pytest.mark.parametrize("dtype", DTYPES_16, ids=str)
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_aligned_products_run_on_tensor_cores(self, layout: str, dtype: torch.dtype) -> None:
        for size in (256, 1024, 2048):
            a, b = (normal(size, size, dtype=dtype, device="cuda", seed=seed) for seed in (0, 1))
            actual = matmul(*in_layout(a, b, layout))
            kernel = torch.ops.tileon._last_kernel()
            assert TENSOR_CORES.match(kernel), kernel
            check_matmul(actual, a, b)

    def test_a_large_unaligned_product_says_how_it_was_read(self) -> None:
        """By gathering, or from a copy made first."""
        a = torch.ones(2049, 2049, dtype=torch.float16, device="cuda")
        kernel = kernel_of(a, a)
        assert "copied" in kernel or "gather" in kernel, kernel


def test_float32_runs_on_mma_only_as_tf32() -> None:
    a = torch.ones(1024, 1024, device="cuda")
    assert "mma" not in kernel_of(a, a)
    matmul(a, a, allow_tf32=True)
    assert "tf32" in torch.ops.tileon._last_kernel()
