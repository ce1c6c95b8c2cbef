"""Tiles that reach past the end of an operand: Hopper's rows load what there is (a smaller box, or the last tile moved
back over the one before it), and what lies in shared memory instead reaches no output."""

from __future__ import annotations

import pytest
import torch
from exact_products import check_row, operands
from tile_table import (
    HOPPER_FLOAT8_ROWS,
    HOPPER_FLOAT32_ROWS,
    HOPPER_ROWS,
    NO_HOPPER_ROWS,
    Row,
    each_row,
    each_row_and_layout,
)

pytestmark = pytest.mark.gpu

SHORT_K, LONG_K = 264, 776  # below and above what the last tile is moved back for (kOverlapPaysFrom)


@each_row_and_layout((*HOPPER_ROWS, *HOPPER_FLOAT8_ROWS, *HOPPER_FLOAT32_ROWS), NO_HOPPER_ROWS)
def test_one_tile_and_less(row: Row, layout: str) -> None:
    tile_m, tile_n, _ = row.tile
    for m, n in ((1, 8), (3, tile_n), (tile_m, 1), (tile_m - 1, tile_n - 1), (tile_m - 7, 24), (5, tile_n - 24)):
        for k in (SHORT_K, LONG_K):
            check_row(row, (m, k), (k, n), layout)


@each_row_and_layout((*HOPPER_ROWS, *HOPPER_FLOAT8_ROWS, *HOPPER_FLOAT32_ROWS), NO_HOPPER_ROWS)
def test_a_tile_and_a_bit_more(row: Row, layout: str) -> None:
    """By rows and columns that are whole vectors, sectors and panels, and by some that are none."""
    tile_m, tile_n, _ = row.tile
    for more_m, more_n in ((1, 1), (8, 8), (0, 16), (3, 0), (7, tile_n + 9), (tile_m + 64, 64)):
        for k in (SHORT_K, LONG_K):
            check_row(row, (tile_m + more_m, k), (k, tile_n + more_n), layout)


@each_row(HOPPER_ROWS, NO_HOPPER_ROWS)
def test_what_an_earlier_product_left_in_shared_memory_reaches_no_output(row: Row) -> None:
    tile_m, tile_n, block_k = row.tile
    nan = torch.full((2048, 2048), float("nan"), dtype=row.dtype, device="cuda")
    for m, n in ((1, tile_n), (tile_m, 8), (9, 17), (tile_m + 1, tile_n + 8)):
        for k in (block_k, LONG_K):
            a, b = operands(row, (m, k), (k, n), "NT")
            wanted = a.double() @ b.double()
            assert row.run(nan, nan.t()).isnan().all()  # on every SM
            assert torch.equal(row.run(a, b).double(), wanted.to(row.out_dtype).double()), f"{m}x{n}x{k}"
