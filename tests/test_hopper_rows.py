"""What the Hopper rows of the tile table promise beyond what every row does: split k, few rows, TMA."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest
import torch
from exact_products import check_row, operands, product
from operands import Placed, aligned_pad, integers, place
from reference import assert_exact
from shared_k import check_not_a_number_arrives, check_the_bits_are_the_same
from tile_table import (
    HAS_GPU,
    HAS_HOPPER_GPU,
    HOPPER_FLOAT8_ROWS,
    HOPPER_FLOAT32_ROWS,
    HOPPER_ROWS,
    NO_HOPPER_ROWS,
    Row,
    each_row,
    each_row_and_layout,
    last_config,
    on_hopper,
)
from torch import Tensor

pytestmark = pytest.mark.gpu

matmul = torch.ops.tileon.matmul
LONG_K = 20000


PING_PONG_ROWS = [row for row in (*HOPPER_ROWS, *HOPPER_FLOAT8_ROWS) if row.config.family == "pingpong"]
SPLIT_ROWS = [row for row in HOPPER_ROWS if row.splits > 1]
FEW_ROWS = [row for row in HOPPER_ROWS if row.config.family == "swap_ab_split_k"]


@each_row(PING_PONG_ROWS, NO_HOPPER_ROWS)
def test_both_consumers_of_ping_pong_take_several_tiles_with_a_bias(row: Row) -> None:
    """The second one has a tile only where there are more tiles than SMs. Its bias lies in a place of its own, and is
    laid out anew while the first one multiplies."""
    tile_m, tile_n, block_k = row.tile
    shapes = (21 * tile_m + 8, 3 * block_k + 16), (3 * block_k + 16, 25 * tile_n + 8)
    bias = integers(shapes[1][1], dtype=row.out_dtype, device="cuda", seed=2)
    wanted = (product(*shapes) + bias.double()).relu()
    for layout in row.layouts[::3]:
        a, b = operands(row, *shapes, layout)
        first = row.run(a, b, bias, activation="relu")
        assert_exact(first, wanted, row.out_dtype, layout)
        for _ in range(10):
            assert torch.equal(row.run(a, b, bias, activation="relu"), first), layout


class TestSplitK:
    """Several CTAs share a tile's k and add their sums in a fixed order."""

    @each_row(SPLIT_ROWS, NO_HOPPER_ROWS)
    def test_the_bits_are_the_same_every_time(self, row: Row) -> None:
        check_the_bits_are_the_same(row, ((72, 136, LONG_K), (20, 200, 1000)), ("NN", "NT", "TT"), times=20)

    @each_row_and_layout(SPLIT_ROWS, NO_HOPPER_ROWS)
    def test_agrees_with_a_row_that_does_not_split(self, row: Row, layout: str) -> None:
        """From fewer blocks of k than there are CTAs to many each, whole and partial."""
        whole = next(other for other in HOPPER_ROWS if other.splits == 1 and other.kind == row.kind)
        tile_m, tile_n, block_k = row.tile
        blocks = (*range(1, row.splits + 2), 5 * row.splits, 5 * row.splits + 1)
        for k in (*(block_k * count for count in blocks), block_k * row.splits - 8, block_k * row.splits + 1, LONG_K):
            shapes = (tile_m + 9, k), (k, tile_n + 24)
            check_row(row, *shapes, layout)
            assert torch.equal(
                row.run(*operands(row, *shapes, layout)), whole.run(*operands(whole, *shapes, layout))
            ), f"k {k}"

    @each_row(SPLIT_ROWS, NO_HOPPER_ROWS)
    def test_not_a_number_in_any_part_arrives(self, row: Row) -> None:
        check_not_a_number_arrives(row, row.tile[2] * row.splits * 2, step=row.tile[2])


@each_row_and_layout([*FEW_ROWS, *(row for row in SPLIT_ROWS if row not in FEW_ROWS)], NO_HOPPER_ROWS)
def test_a_few_rows_of_a(row: Row, layout: str) -> None:
    for m in (1, 7, 8, 9, 16, 33, 64, 65):
        for n, k in ((72, 520), (1000, 520), (65, 1037)):
            check_row(row, (m, k), (k, n), layout)


@each_row_and_layout(FEW_ROWS, NO_HOPPER_ROWS)
def test_one_row_of_a_with_many_columns_or_a_long_k(row: Row, layout: str) -> None:
    for n, k in ((5003, 264), (28672, 1024), (40, 14336), (3, 8195)):
        check_row(row, (1, k), (k, n), layout)


def unreadable(values: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The matrix in ways that TMA cannot read."""
    rows, cols = values.shape
    pad = aligned_pad(cols, 2)
    yield "a storage offset of one element", place(values, pad=pad, offset=1).view
    yield "a storage offset of 8 bytes", place(values, pad=pad, offset=4).view
    yield "lines that start anywhere", place(values, pad=1).view
    yield "columns that start anywhere", place(values, transposed=True, pad=3).view
    yield "every other column", place(values, step=2).view
    yield "an expanded row", values[:1].expand(rows, cols)
    yield "an expanded column", values[:, :1].expand(rows, cols)
    yield "an expanded element", values[:1, :1].expand(rows, cols)


def refusal(row: Row, a: Tensor, b: Tensor) -> str:
    try:
        row.run(a, b)
    except RuntimeError as error:
        return str(error)
    return "ran"


@each_row(HOPPER_ROWS, NO_HOPPER_ROWS)
def test_what_tma_cannot_read_is_refused_by_name(row: Row) -> None:
    a = integers(24, 72, dtype=row.dtype, device="cuda")
    b = integers(72, 40, dtype=row.dtype, device="cuda", seed=1)
    batch = place(integers(3, 24, 72, dtype=row.dtype, device="cuda")).storage
    odd_batch = batch.as_strided((3, 24, 72), (24 * 72 + 4, 72, 1))
    calls = [("a", f"a with {what}", view, b) for what, view in unreadable(a)]
    calls += [("b", f"b with {what}", a, view) for what, view in unreadable(b)]
    calls += [("a", "a with an odd stride of the batch", odd_batch, b)]
    for name, what, left, right in calls:
        expected = (
            rf"matmul: `config` \d+ \({row.name}, float16,bfloat16\) cannot run these operands: "
            rf"it cannot read the strides or the alignment of `{name}`"
        )
        assert re.fullmatch(expected, refusal(row, left, right)), f"{what}: {refusal(row, left, right)}"


@each_row(HOPPER_ROWS, NO_HOPPER_ROWS)
def test_the_stride_of_a_dimension_of_size_one_is_never_used(row: Row) -> None:
    storage = integers(400, dtype=row.dtype, device="cuda")
    for stride in (0, 1, 3, 8, 10**12):
        a, b = storage.as_strided((1, 64), (stride, 1), 0), storage.as_strided((64, 1), (1, stride), 64)
        assert_exact(row.run(a, b), a.double() @ b.double(), row.dtype, f"k adjacent, stride {stride}")
        a, b = storage.as_strided((1, 1), (stride, stride), 0), storage.as_strided((1, 9), (stride, 8), 64)
        assert_exact(row.run(a, b), a.double() @ b.double(), row.dtype, f"k is 1, columns apart, stride {stride}")
        a, b = storage.as_strided((64, 1), (1, stride), 0), storage.as_strided((1, 64), (stride, 1), 64)
        assert_exact(row.run(a, b), a.double() @ b.double(), row.dtype, f"k is 1, stride {stride}")
        a, b = storage.as_strided((1, 9), (stride, 8), 0), storage.as_strided((9, 1), (8, stride), 104)
        assert_exact(row.run(a, b), a.double() @ b.double(), row.dtype, f"k apart, stride {stride}")
        batch = storage.as_strided((1, 8, 16), (stride, 16, 1))
        assert_exact(row.run(batch, batch.transpose(1, 2)), batch.double() @ batch.double().mT, row.dtype, "batch of 1")


@each_row((*HOPPER_ROWS, *HOPPER_FLOAT32_ROWS), NO_HOPPER_ROWS)
def test_more_batches_than_a_grid_has_rows(row: Row) -> None:
    batch, m, n, k = 70000, 3, 8, 16
    a = integers(batch, m, k, dtype=row.dtype, device="cuda")
    b = integers(n, k, dtype=row.dtype, device="cuda", seed=1).t()
    assert_exact(row.run(a, b), a.double() @ b.double(), row.dtype)


@each_row([row for row in HOPPER_ROWS if row.kind == "float16"], NO_HOPPER_ROWS)
def test_more_tiles_along_one_side_than_a_grid_has_rows(row: Row) -> None:
    tile_m, tile_n, _ = row.tile
    for m, n in ((65537 * tile_m + 1, 8), (8, 65537 * tile_n + 8)):
        a = integers(m, 8, dtype=row.dtype, device="cuda")
        b = integers(n, 8, dtype=row.dtype, device="cuda", seed=1).t()
        actual = row.run(a, b)
        assert_exact(actual[-40:, -40:], a[-40:].double() @ b[:, -40:].double(), row.dtype, f"{m}x{n}, the end")
        assert_exact(actual[:40, :40], a[:40].double() @ b[:, :40].double(), row.dtype, f"{m}x{n}, the beginning")
        assert torch.equal(actual.double().sum(0), a.double().sum(0) @ b.double()), f"{m}x{n}, sums of columns"


def outs(batch: tuple[int, ...], m: int, n: int, dtype: torch.dtype) -> Iterator[tuple[str, Placed]]:
    def empty() -> Tensor:
        return torch.full((*batch, m, n), float("nan"), dtype=dtype, device="cuda")

    yield "contiguous", place(empty())
    yield "aligned lines", place(empty(), pad=aligned_pad(n, dtype.itemsize))
    yield "padded lines", place(empty(), pad=3)
    yield "an odd offset", place(empty(), pad=aligned_pad(n, dtype.itemsize), offset=1)
    yield "transposed", place(empty(), transposed=True, pad=5)
    yield "every other column", place(empty(), step=2)
    if batch:
        yield "batch last", place(empty(), batch_last=True)


@on_hopper
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=str)
def test_nothing_outside_of_out_is_written(out_dtype: torch.dtype | None, dtype: torch.dtype) -> None:
    """Outputs that TMA can write, and all others: n that is no multiple of 8, odd offsets, any strides."""
    draw = random.Random(str(dtype))
    shapes = [(200, 264, 136), (129, 131, 72), (1, 1000, 512), (8, 523, 1032), (65, 8, 64), (300, 1, 40), (130, 97, 24)]
    shapes += [(draw.randint(1, 400), draw.randint(1, 400), draw.randint(1, 300)) for _ in range(12)]
    by_hopper, kinds = set(), set()
    for m, n, k in shapes:
        for batch in ((), (3,)):
            a = integers(*batch, m, k, dtype=dtype, device="cuda")
            b = integers(k, n, dtype=dtype, device="cuda", seed=1)
            bias = integers(n, dtype=torch.float32, device="cuda", seed=2)
            expected = a.double() @ b.double() + bias.double()
            a = place(a, pad=aligned_pad(k, 2)).view
            b = place(b, transposed=True, pad=aligned_pad(k, 2)).view
            for kind, out in outs(batch, m, n, out_dtype or dtype):
                what = f"{kind}, batch {batch} {m}x{n}x{k}"
                matmul.out(a, b, bias, out_dtype=out_dtype, out=out.view)
                kinds.add(kind)
                if last_config().backend == "sm90":
                    by_hopper.add(kind)
                assert_exact(out.view, expected, out_dtype or dtype, what)
                assert out.margin_is_intact(), what
    assert by_hopper == kinds  # of small products with odd rows, portable kernels are the faster ones


@pytest.mark.skipif(HAS_GPU and (HAS_HOPPER_GPU or not HOPPER_ROWS), reason="needs another GPU than a Hopper one")
def test_other_gpus_are_refused_by_name() -> None:
    a = torch.ones(64, 64, dtype=torch.float16, device="cuda")
    for row in HOPPER_ROWS:
        with pytest.raises(RuntimeError, match=r"cannot run these operands: it needs a GPU of compute capability 9\.0"):
            torch.ops.tileon._matmul_with_config(a, a, config=row.index)
