"""Every row of the GPU's tile table, on every layout and size class, whichever row the choice would take."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from exact_products import check_row, operands
from operands import full_precision, in_aligned_layout, in_layout, integers, place
from reference import OUT_DTYPES, assert_exact, check_matmul
from tile_table import DTYPES, Row, each_row, each_row_and_layout

from tileon_ops._rules import configs

pytestmark = pytest.mark.gpu

every_row = each_row()
every_row_and_layout = each_row_and_layout()


def prime_above(number: int) -> int:
    return next(n for n in itertools.count(number + 1) if all(n % d for d in range(2, int(n**0.5) + 1)))


def sizes(tile: int) -> tuple[int, ...]:
    return tuple(sorted({1, tile - 1, tile, tile + 1, prime_above(2 * tile)} - {0}))


def k_sizes(block_k: int) -> tuple[int, ...]:
    """Also a multiple of 64 that is none of every block_k, and more blocks than any row has stages."""
    return (0, *sizes(block_k), 5 * 64, 14 * block_k + 8)


@every_row_and_layout
def test_every_size_class_exactly(row: Row, layout: str) -> None:
    """Lines of the operands start at multiples of 16 bytes here, so every row must run every size."""
    tile_m, tile_n, block_k = row.tile
    for m, n, k in itertools.product(sizes(tile_m), sizes(tile_n), k_sizes(block_k)):
        check_row(row, (m, k), (k, n), layout)
    for m, n, k in itertools.product((0, tile_m), (0, tile_n), (0, block_k)):
        check_row(row, (m, k), (k, n), layout)


@every_row_and_layout
def test_long_k(row: Row, layout: str) -> None:
    for m, n, k in ((5, 7, 10007), (65, 130, 8192)):
        check_row(row, (m, k), (k, n), layout)


@every_row_and_layout
def test_unaligned_operands_run_or_are_refused_by_name(row: Row, layout: str) -> None:
    refused = 0
    for (m, n, k), offset in itertools.product(((129, 131, 67), (65, 67, 35), (3, 5, 1)), (0, 1)):
        a = integers(m, k, dtype=row.dtype, device="cuda")
        b = integers(k, n, dtype=row.b_dtype, device="cuda", seed=1)
        actual = row.run_or_refuse(*in_layout(a, b, layout, offset=offset))
        if actual is None:
            refused += 1
        else:
            assert_exact(actual, a.double() @ b.double(), row.out_dtype, f"{m}x{n}x{k} offset {offset}")
    assert not (refused and row.reads_any_strides), "this row reads any strides"


@every_row
def test_strides_that_only_some_rows_read(row: Row) -> None:
    values_a = integers(66, 72, dtype=row.dtype, device="cuda")
    values_b = integers(72, 88, dtype=row.b_dtype, device="cuda", seed=1)
    for a, b in (
        (place(values_a, step=2).view, values_b),
        (values_a, place(values_b, step=3, offset=1).view),
        (values_a[:1].expand(66, 72), values_b),
        (values_a, values_b[:, :1].expand(72, 88)),
        (values_a[:, :1].expand(66, 72), values_b[:1].expand(72, 88)),
    ):
        actual = row.run_or_refuse(a, b)
        if actual is None:
            assert not row.reads_any_strides
        else:
            assert_exact(actual, a.double() @ b.double(), row.out_dtype, f"{a.stride()} {b.stride()}")


@every_row_and_layout
def test_batches(row: Row, layout: str) -> None:
    tile_m, tile_n, block_k = row.tile
    matrix_a, matrix_b = (tile_m + 8, block_k + 8), (block_k + 8, tile_n + 8)
    for batch_a, batch_b in (((3,), (3,)), ((3,), ()), ((), (3,)), ((1,), (3,)), ((3,), (1,)), ((0,), (0,))):
        check_row(row, (*batch_a, *matrix_a), (*batch_b, *matrix_b), layout)


@every_row_and_layout
def test_a_batch_may_have_a_stride_of_zero(row: Row, layout: str) -> None:
    tile_m, tile_n, block_k = row.tile
    k = 2 * block_k + 8
    a, b = operands(row, (tile_m + 8, k), (k, tile_n + 8), layout)
    more_a, more_b = operands(row, (3, tile_m + 8, k), (3, k, tile_n + 8), layout)
    for left, right in ((a.expand(3, -1, -1), more_b), (more_a, b.expand(3, -1, -1))):
        actual = row.run(left, right)
        assert_exact(actual, torch.matmul(left.double(), right.double()), row.out_dtype, f"{left.stride()}")


@every_row
def test_many_tiles_in_groups(row: Row) -> None:
    """Several groups of rows, the last one partial; several waves of tiles, with a ring that goes on between them."""
    tile_m, tile_n, block_k = row.tile
    m, n = 21 * tile_m + 8, max(13 * tile_n, 1024) + 8
    for layout in row.layouts[::3]:
        for k in (40, 3 * block_k + 8):
            check_row(row, (m, k), (k, n), layout)


@every_row
def test_random_shapes(row: Row) -> None:
    """Shapes, batches, layouts and output dtypes that nobody thought of; the same ones in every run."""
    draw = random.Random(str(row))
    tile_m, tile_n, block_k = row.tile
    for _ in range(30):
        m, n = draw.randint(1, 3 * tile_m), draw.randint(1, 3 * tile_n)
        k = draw.randint(1, 10 * block_k)
        batch_a, batch_b = draw.choice([((), ()), ((), ()), ((2,), (2,)), ((5,), ()), ((), (4,))])
        layout, out_dtype = draw.choice(row.layouts), draw.choice(OUT_DTYPES[row.dtype])
        a = integers(*batch_a, m, k, dtype=row.dtype, device="cuda")
        b = integers(*batch_b, k, n, dtype=row.b_dtype, device="cuda", seed=1)
        bias = integers(n + 1, dtype=out_dtype, device="cuda", seed=2)[1:] if draw.random() < 0.5 else None
        expected = torch.matmul(a.double(), b.double()) + (0 if bias is None else bias.double())
        actual = row.run(*in_aligned_layout(a, b, layout), bias, out_dtype=out_dtype)
        what = f"{batch_a} {batch_b} {m}x{n}x{k} {layout}{'' if bias is None else ' + bias'}"
        assert_exact(actual, expected, out_dtype, what)


@every_row_and_layout
def test_error_bound(row: Row, layout: str) -> None:
    for m, n, k in ((136, 264, 1032), (72, 72, 8)):
        a = full_precision(m, k, dtype=row.dtype, device="cuda")
        b = full_precision(k, n, dtype=row.b_dtype, device="cuda", seed=1)
        actual = row.run(*in_aligned_layout(a, b, layout))
        check_matmul(actual, a, b, tf32=row.kind == "tf32", more=row.more_error(k), what=f"{m}x{n}x{k}")


@every_row
@pytest.mark.parametrize("n", [264, 261])
def test_epilogue_and_out_dtype(row: Row, n: int) -> None:
    """Where rows of the output start at multiples of 16 bytes, and where they do not."""
    values_a = full_precision(137, 72, dtype=row.dtype, device="cuda")
    values_b = full_precision(72, n, dtype=row.b_dtype, device="cuda", seed=1)
    a, b = in_aligned_layout(values_a, values_b, row.layouts[0])
    for out_dtype in OUT_DTYPES[row.dtype]:
        for bias_dtype in {out_dtype, torch.float32}:
            bias = full_precision(2 * n + 1, dtype=bias_dtype, device="cuda", seed=2)
            for activation, some_bias in (  # a bias may start anywhere and have any stride
                ("none", bias[1 : n + 1]),
                ("relu", bias[:n]),
                ("leaky_relu", bias[1::2]),
                ("leaky_relu", None),
                ("gelu", bias[:n]),
            ):
                epilogue = {"activation": activation, "slope": 0.25, "out_dtype": out_dtype}
                actual = row.run(a, b, some_bias, **epilogue)
                what = f"{out_dtype} {activation}{'' if some_bias is None else f' + {bias_dtype}'}"
                allowed = {"tf32": row.kind == "tf32", "more": row.more_error(72), "what": what}
                check_matmul(actual, values_a, values_b, some_bias, **allowed, **epilogue)


@every_row
def test_the_bits_are_the_same_every_time(row: Row) -> None:
    """A race between the stages of the pipeline shows as changing bits."""
    values_a = full_precision(1032, 2056, dtype=row.dtype, device="cuda")
    values_b = full_precision(2056, 1032, dtype=row.b_dtype, device="cuda", seed=1)
    a, b = in_aligned_layout(values_a, values_b, row.layouts[0])
    first = row.run(a, b)
    for _ in range(20):
        assert torch.equal(row.run(a, b), first)
    check_matmul(first, values_a, values_b, tf32=row.kind == "tf32", more=row.more_error(2056))


@every_row
def test_non_finite_values_stay_in_their_row_and_column(row: Row) -> None:
    for value in (float("nan"), float("inf")):
        a = integers(130, 72, dtype=row.dtype, device="cuda")
        b = integers(72, 136, dtype=row.b_dtype, device="cuda", seed=1)
        a[-1, 71] = value
        b[71, 135] = value
        actual = row.run(*in_aligned_layout(a, b, row.layouts[0]))
        check_matmul(actual, a, b, tf32=row.kind == "tf32", what=str(value))


@every_row
def test_a_dtype_that_the_row_does_not_multiply_is_refused(row: Row) -> None:
    a = torch.ones(64, 64, device="cuda")
    for other in set(DTYPES) - set(row.config.operands):
        operand = a.to(DTYPES[other])
        with pytest.raises(RuntimeError, match=r"^matmul: .*does not take operands of this dtype"):
            torch.ops.tileon._matmul_with_config(operand, operand, config=row.index, allow_tf32=other == "tf32")


def test_an_index_outside_the_table_is_refused() -> None:
    a = torch.ones(8, 8, device="cuda")
    for index in (-1, len(configs.dense()), 10**6, 2**40):
        with pytest.raises(RuntimeError, match=r"^matmul: .*config"):
            torch.ops.tileon._matmul_with_config(a, a, config=index)
