"""What every row promises whose CTAs share a tile's k: by clusters that split it, and by tiles that are streamed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from operands import full_precision, in_aligned_layout, integers
from reference import check_matmul
from tile_table import Row


def check_the_bits_are_the_same(
    row: Row, shapes: Iterable[tuple[int, int, int]], layouts: Sequence[str], times: int
) -> None:
    for m, n, k in shapes:
        values_a = full_precision(m, k, dtype=row.dtype, device="cuda")
        values_b = full_precision(k, n, dtype=row.dtype, device="cuda", seed=1)
        for layout in layouts:
            a, b = in_aligned_layout(values_a, values_b, layout)
            first = row.run(a, b, out_dtype=torch.float32)
            for _ in range(times):
                assert torch.equal(row.run(a, b, out_dtype=torch.float32), first), f"{layout} {m}x{n}x{k}"
            check_matmul(first, values_a, values_b, out_dtype=torch.float32, what=f"{layout} {m}x{n}x{k}")


def check_not_a_number_arrives(row: Row, k: int, step: int) -> None:
    """From every `step`-th place of k, in its row of the result alone."""
    for at in range(0, k, step):
        a = integers(24, k, dtype=row.dtype, device="cuda")
        a[5, at] = float("nan")
        b = torch.ones(k, 72, dtype=row.dtype, device="cuda")
        actual = row.run(a, b)
        assert bool(actual[5].isnan().all()), f"k {at}"
        assert not bool(actual[:5].isnan().any() | actual[6:].isnan().any()), f"k {at}"
