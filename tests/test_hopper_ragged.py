"""Outputs whose rows begin anywhere, as those of 50257 columns do: TMA cannot write them, so the warps of Hopper's
kernels copy them (epilogue/tma_store.cuh)."""

from __future__ import annotations

import pytest
import torch
from exact_products import check_row
from operands import in_aligned_layout, normal
from reference import check_matmul
from tile_table import HOPPER_ROWS, NO_HOPPER_ROWS, Row, each_row, last_config, on_hopper

pytestmark = pytest.mark.gpu

matmul = torch.ops.tileon.matmul


@each_row(HOPPER_ROWS, NO_HOPPER_ROWS)
def test_every_width_of_a_row(row: Row) -> None:
    """Rows that begin at multiples of 2, 4 and 8 bytes, and end within a chunk or a pair."""
    tile_m, tile_n, _ = row.tile
    for n in (*range(tile_n + 1, tile_n + 8), 2 * tile_n - 1, 1, 2, 3, 63, 65):
        check_row(row, (tile_m + 3, 72), (72, n), "NT")


@each_row(HOPPER_ROWS, NO_HOPPER_ROWS)
@pytest.mark.parametrize("activation", ["none", "relu", "leaky_relu", "gelu", "silu"])
def test_epilogues(row: Row, activation: str) -> None:
    a = normal(150, 136, dtype=row.dtype, device="cuda")
    b = normal(136, 333, dtype=row.dtype, device="cuda", seed=1)
    bias = normal(333, dtype=row.dtype, device="cuda", seed=2)
    placed = in_aligned_layout(a, b, "NT")
    actual = row.run(*placed, bias, activation=activation, slope=0.2)
    check_matmul(actual, a, b, bias, activation=activation, slope=0.2, what=str(row))


@on_hopper
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("begin", [0, 1, 2, 5])
@pytest.mark.parametrize("n", [257, 1002, 1540])
def test_nothing_around_the_output_is_written(n: int, begin: int, dtype: torch.dtype) -> None:
    a, b = normal(300, 264, dtype=dtype, device="cuda"), normal(264, n, dtype=dtype, device="cuda", seed=1)
    placed = in_aligned_layout(a, b, "NT")
    for pitch in (n, n + 1, n + 3):
        storage = torch.full((begin + 300 * pitch + 9,), 7.0, dtype=dtype, device="cuda")
        out = torch.as_strided(storage, (300, n), (pitch, 1), begin)
        matmul.out(*placed, activation="leaky_relu", slope=0.1, out=out)
        assert last_config().backend == "sm90"
        assert torch.equal(out, matmul(*placed, activation="leaky_relu", slope=0.1))
        check_matmul(out, a, b, activation="leaky_relu", slope=0.1)
        out.fill_(7.0)
        assert bool((storage == 7.0).all())


@on_hopper
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
def test_the_activations_argument_is_kept(batch: tuple[int, ...], activation: str) -> None:
    a = normal(*batch, 600, 264, dtype=torch.bfloat16, device="cuda")
    b = normal(*batch, 264, 523, dtype=torch.bfloat16, device="cuda", seed=1)
    bias = normal(523, dtype=torch.bfloat16, device="cuda", seed=2)
    placed = in_aligned_layout(a, b, "NT")
    out, argument = torch.ops.tileon._matmul_with_preactivation(*placed, bias, activation=activation)
    assert last_config().backend == "sm90"
    check_matmul(argument, a, b, bias)
    check_matmul(out, a, b, bias, activation=activation)
