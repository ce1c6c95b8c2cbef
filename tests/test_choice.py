"""Which kernel takes a call: Hopper's where it can read the operands, the portable ones elsewhere."""

from __future__ import annotations

import pytest
import torch
from operands import LAYOUTS, in_aligned_layout, in_layout, integers, normal, place
from reference import assert_exact, check_matmul
from tile_table import HAS_GPU, HAS_HOPPER, last_config, on_hopper
from torch import Tensor

from tileon_ops._rules.configs import Config, config_of

pytestmark = pytest.mark.gpu

matmul = torch.ops.tileon.matmul

DTYPES_16 = (torch.float16, torch.bfloat16)

on_another_gpu = pytest.mark.skipif(HAS_GPU and HAS_HOPPER, reason="the Hopper kernels take these calls here")


def config_for(a: Tensor, b: Tensor) -> Config:
    matmul(a, b)
    return last_config()


def was_copied(kernel: str) -> bool:
    return kernel.endswith("copied)")


def backend_of(kernel: str) -> tuple[str, bool]:
    """The backend, and whether an operand was copied first."""
    config = config_of(kernel)
    return "none" if config is None else config.backend, was_copied(kernel)


def is_portable(kernel: str) -> bool:
    config = config_of(kernel)
    return (
        config is not None and config.backend == "sm80" and config.family in ("mma", "mma_gather", "direct", "narrow")
    )


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
            assert backend_of(kernel) == ("sm90", False), f"{size}: {kernel}"
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
            assert backend_of(kernel) == ("sm90", False), f"{m}x{n}x{k}: {kernel}"
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
                assert backend_of(kernel) == ("sm90", False), f"{m} {tuple(weight.shape)}: {kernel}"
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
            assert is_portable(kernel), kernel
            assert_exact(actual, a.double() @ b.double(), dtype, kernel)

    @pytest.mark.parametrize("dtype", [*DTYPES_16, torch.float8_e4m3fn, torch.float32, torch.float64], ids=str)
    def test_small_products_stay_in_registers(self, dtype: torch.dtype) -> None:
        """Without splitting k, and with: no multiple of 16 bytes, so that the others would have to gather."""
        for m, n, k in ((523, 411, 5), (67, 45, 130)):
            a, b = integers(m, k, dtype=dtype, device="cuda"), integers(k, n, dtype=dtype, device="cuda", seed=1)
            actual = matmul(a, b, out_dtype=torch.float32 if dtype == torch.float8_e4m3fn else None)
            kernel = torch.ops.tileon._last_kernel()
            assert (last_config().family, was_copied(kernel)) == ("direct", False), f"{m}x{n}x{k}: {kernel}"
            assert_exact(actual, a.double() @ b.double(), actual.dtype, f"{m}x{n}x{k}: {kernel}")

    @pytest.mark.parametrize("dtype", DTYPES_16, ids=str)
    def test_an_expanded_operand_is_not_read_by_tma(self, dtype: torch.dtype) -> None:
        row, b = integers(1, 64, dtype=dtype, device="cuda"), integers(64, 72, dtype=dtype, device="cuda", seed=1)
        a = row.expand(66, 64)
        actual = matmul(a, b)
        kernel = torch.ops.tileon._last_kernel()
        assert is_portable(kernel) or backend_of(kernel) == ("sm90", True), kernel
        assert_exact(actual, a.double() @ b.double(), dtype, kernel)

    @pytest.mark.parametrize("dtype", DTYPES_16, ids=str)
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_a_large_awkward_product_is_copied_and_runs_on_its_kernels(self, layout: str, dtype: torch.dtype) -> None:
        for m, n, k in ((2049, 2049, 2049), (2044, 2052, 588)):  # no line of any layout is a multiple of 16 bytes
            a, b = integers(m, k, dtype=dtype, device="cuda"), integers(k, n, dtype=dtype, device="cuda", seed=1)
            actual = matmul(*in_layout(a, b, layout))
            kernel = torch.ops.tileon._last_kernel()
            assert backend_of(kernel) == ("sm90", True), f"{m}x{n}x{k}: {kernel}"
            assert_exact(actual, a.double() @ b.double(), dtype, f"{m}x{n}x{k}: {kernel}")

    @pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_fp8_that_lies_across_k_is_transposed_and_runs_on_its_kernels(
        self, layout: str, dtype: torch.dtype
    ) -> None:
        for m, n, k in ((512, 768, 1024), (520, 1028, 772), (259, 515, 2001)):  # lines of 16, 4 and 1 bytes
            a, b = integers(m, k, dtype=dtype, device="cuda"), integers(k, n, dtype=dtype, device="cuda", seed=1)
            actual = matmul(*in_layout(a, b, layout), out_dtype=torch.bfloat16)
            kernel, config = torch.ops.tileon._last_kernel(), last_config()
            is_read = layout == "NT" and k % 16 == 0
            assert (config.backend, config.route, was_copied(kernel)) == ("sm90", "promoted", not is_read), kernel
            assert_exact(actual, a.double() @ b.double(), torch.bfloat16, f"{m}x{n}x{k}: {kernel}")

    def test_float64_stays_with_the_portable_kernels(self) -> None:
        a = torch.ones(1024, 1024, dtype=torch.float64, device="cuda")
        matmul(a, a)
        assert last_config().backend == "sm80"

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_tf32_runs_on_its_kernels(self, layout: str) -> None:
        for m, n, k in ((2048, 1536, 1280), (2045, 1501, 2003)):  # lines of 16 bytes, and of 4
            a, b = (
                integers(m, k, dtype=torch.float32, device="cuda"),
                integers(k, n, dtype=torch.float32, device="cuda"),
            )
            actual = matmul(*in_layout(a, b, layout), allow_tf32=True)
            kernel, config = torch.ops.tileon._last_kernel(), last_config()
            assert (config.backend, config.operands) == ("sm90", ("tf32",)), kernel
            assert was_copied(kernel) == (layout == "TN" or k % 4 != 0 or n % 4 != 0), kernel
            assert_exact(actual, a.double() @ b.double(), torch.float32, f"{m}x{n}x{k}: {kernel}")

    def test_a_few_rows_of_float32_are_read_in_place(self) -> None:
        weight = torch.ones(4096, 2048, device="cuda")
        for rows in (1, 2, 3, 8):
            assert config_for(torch.ones(rows, 2048, device="cuda"), weight.t()).family == "skinny"

    def test_large_products_of_float32_run_on_tensor_cores(self) -> None:
        for size, route in ((64, "plain"), (1024, "bf16x6"), (4095, "bf16x6")):
            a = torch.ones(size, size, device="cuda")
            assert config_for(a, a.t()).route == route


@on_another_gpu
class TestElsewhere:
    @pytest.mark.parametrize("dtype", DTYPES_16, ids=str)
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_aligned_products_run_on_tensor_cores(self, layout: str, dtype: torch.dtype) -> None:
        for size in (256, 1024, 2048):
            a, b = (normal(size, size, dtype=dtype, device="cuda", seed=seed) for seed in (0, 1))
            actual = matmul(*in_layout(a, b, layout))
            kernel = torch.ops.tileon._last_kernel()
            assert (last_config().family, was_copied(kernel)) == ("mma", False), kernel
            check_matmul(actual, a, b)

    def test_a_large_unaligned_product_says_how_it_was_read(self) -> None:
        """By gathering, or from a copy made first."""
        a = torch.ones(2049, 2049, dtype=torch.float16, device="cuda")
        family = config_for(a, a).family
        assert was_copied(torch.ops.tileon._last_kernel()) or family == "mma_gather", family


def test_float32_runs_on_mma_only_as_tf32() -> None:
    a = torch.ones(1024, 1024, device="cuda")
    assert config_for(a, a).family != "mma"
    matmul(a, a, allow_tf32=True)
    assert last_config().operands == ("tf32",)
