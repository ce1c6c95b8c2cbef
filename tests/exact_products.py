"""Small-integer operands and their exact products, kept on the GPU: rows, dtypes and layouts share them.

The same shape and seed give the same integers in every dtype, so that one float64 product is the reference of all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch
from operands import aligned, integers
from reference import assert_exact
from tile_table import Row
from torch import Tensor

Shape = tuple[int, ...]

LIMIT_BYTES = 2 * 2**30  # all are forgotten when more than this is kept

_kept: dict[Hashable, Tensor] = {}
_kept_bytes = 0


def _keep(key: Hashable, make: Callable[[], Tensor]) -> Tensor:
    global _kept_bytes
    found = _kept.get(key)
    if found is None:
        if _kept_bytes > LIMIT_BYTES:
            _kept.clear()
            _kept_bytes = 0
        found = _kept[key] = make()
        _kept_bytes += found.untyped_storage().nbytes()
    return found


def operands(row: Row, shape_a: Shape, shape_b: Shape, layout: str) -> tuple[Tensor, Tensor]:
    """The integers of these shapes in the row's dtype, every line at a multiple of 16 bytes. Not to be written to."""
    pair = []
    for at, (shape, dtype) in enumerate(((shape_a, row.dtype), (shape_b, row.b_dtype))):

        def make(at: int = at, shape: Shape = shape, dtype: torch.dtype = dtype) -> Tensor:
            values = integers(*shape, dtype=dtype, device="cuda", seed=at)
            return aligned(values, layout[at])

        pair.append(_keep((shape, at, dtype, layout[at]), make))
    return pair[0], pair[1]


def product(shape_a: Shape, shape_b: Shape) -> Tensor:
    """The exact product of the integers of these shapes, in float64."""

    def make() -> Tensor:
        a = integers(*shape_a, dtype=torch.float64, device="cuda")
        b = integers(*shape_b, dtype=torch.float64, device="cuda", seed=1)
        return torch.matmul(a, b)

    return _keep((shape_a, shape_b), make)


def check_row(row: Row, shape_a: Shape, shape_b: Shape, layout: str) -> None:
    """The row's product of the integers of these shapes is exact."""
    actual = row.run(*operands(row, shape_a, shape_b, layout))
    expected = product(shape_a, shape_b)
    if actual.dtype == row.out_dtype and torch.equal(actual, expected.to(row.out_dtype)):
        return
    what = f"{row} {layout} {shape_a} x {shape_b}"
    assert_exact(actual, expected, row.out_dtype, what)
    raise AssertionError(f"{what}: not equal to the exact product")
