"""The kernels for few rows or few columns, at sizes, strides and alignments that are critical for them alone: where
chunks of the short operand end, where loads get narrower, where threads are spread otherwise (cuda/common/narrow.h).

That every row takes every layout and size class is test_config_rows.py's.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator

import pytest
import torch
from operands import full_precision, in_layout, integers, place
from reference import OUT_DTYPES, assert_exact, check_matmul
from tile_table import TABLE, Row, each_row
from torch import Tensor

pytestmark = pytest.mark.gpu

NARROW = [row for row in TABLE if row.config.family == "narrow"]
every_row = each_row(NARROW)
every_float8_row = each_row([row for row in NARROW if row.kind.startswith("float8")])
SHARED_BYTES = 32 * 1024  # kNarrowSharedBytes


def columns_of(row: Row) -> int:
    """Of the short side, in one CTA."""
    return row.tile[0]


def chunk_of(row: Row) -> int:
    """Elements of k in shared memory: kChunk."""
    return SHARED_BYTES // (8 if row.dtype == torch.float64 else 4) // columns_of(row)


def values(row: Row, *shapes: tuple[int, ...]) -> Iterator[Tensor]:
    """Small integers for a and b."""
    for seed, (shape, dtype) in enumerate(zip(shapes, (row.dtype, row.b_dtype), strict=True)):
        yield integers(*shape, dtype=dtype, device="cuda", seed=seed)


def check(row: Row, a: Tensor, b: Tensor, what: str) -> None:
    assert_exact(row.run(a, b), torch.matmul(a.double(), b.double()), row.out_dtype, what)


def sides(long: int, short: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """m and n, with either as the long side."""
    return (long, short), (short, long)


@every_row
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_where_chunks_of_the_short_operand_end(row: Row, layout: str) -> None:
    chunk = chunk_of(row)
    for k, long in itertools.product((chunk - 1, chunk, chunk + 1, 2 * chunk, 2 * chunk + 17), (1, 37)):
        for m, n in sides(long, columns_of(row) - 1):
            a, b = values(row, (m, k), (k, n))
            check(row, *in_layout(a, b, layout), f"{m}x{n}x{k}")


@every_row
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_every_width_of_a_load(row: Row, layout: str) -> None:
    """Lines that begin at multiples of 16, 8, 4 and 2 bytes, and anywhere; operands that begin between two of them."""
    for line, offset in itertools.product((160, 168, 172, 174, 175), (0, 1, 2, 4, 8)):
        for m, n in sides(line, columns_of(row)):
            for k in (line + 1, line):
                a, b = values(row, (m, k), (k, n))
                check(row, *in_layout(a, b, layout, offset=offset), f"{m}x{n}x{k} offset {offset}")


@every_row
def test_every_way_of_spreading_threads(row: Row) -> None:
    """From one row for all threads of a CTA to a thread for each row, in large CTAs and in small ones."""
    draw = random.Random(str(row))
    for long, k in itertools.product((1, 2, 9, 70, 600, 5000), (1, 2, 8, 31, 100, 700)):
        batch = draw.choice(((), (), (3,), (40,))) if long * k < 70 * 100 else ()
        layout, step = draw.choice(("NN", "NT", "TN", "TT")), draw.choice((1, 1, 2))
        for m, n in sides(long, draw.randint(1, columns_of(row) + 1)):
            a, b = values(row, (*batch, m, k), (*batch, k, n))
            placed = (
                place(each, transposed=letter == "T", step=step).view
                for each, letter in zip((a, b), layout, strict=True)
            )
            check(row, *placed, f"{batch} {m}x{n}x{k} {layout} step {step}")


@every_row
def test_strides_of_zero_and_a_batch_within_rows(row: Row) -> None:
    for m, n in sides(300, columns_of(row)):
        a, b = values(row, (m, 130), (130, n))
        check(row, a[:1].expand(m, 130), b, "one row of a")
        check(row, a, b[:, :1].expand(130, n), "one column of b")
        check(row, a[:, :1].expand(m, 130), b[:1].expand(130, n), "one k")
        check(row, a[:1, :1].expand(m, 130), b[:1, :1].expand(130, n), "one element")
        more_a, more_b = values(row, (3, m, 130), (3, 130, n))
        for left, right in (
            (a.expand(3, -1, -1), more_b),
            (more_a, b.expand(3, -1, -1)),
            (place(more_a, batch_last=True).view, place(more_b, batch_last=True).view),
        ):
            check(row, left, right, f"{left.stride()} {right.stride()}")


@every_row
def test_an_empty_k_leaves_the_bias(row: Row) -> None:
    for m, n in sides(300, columns_of(row)):
        bias = integers(n, dtype=row.out_dtype, device="cuda", seed=2)
        a, b = values(row, (m, 0), (0, n))
        assert_exact(row.run(a, b, bias, activation="relu"), bias.double().relu().expand(m, n), row.out_dtype)
        assert_exact(row.run(a, b), torch.zeros(m, n, device="cuda", dtype=torch.float64), row.out_dtype)


@every_row
def test_bias_and_activation_of_either_side(row: Row) -> None:
    for m, n in sides(301, columns_of(row)):
        a = full_precision(m, 100, dtype=row.dtype, device="cuda")
        b = full_precision(100, n, dtype=row.b_dtype, device="cuda", seed=1)
        for out_dtype in OUT_DTYPES[row.dtype]:
            bias = full_precision(2 * n, dtype=out_dtype, device="cuda", seed=2)
            for activation, some_bias in (("gelu_tanh", bias[::2]), ("silu", bias[:1].expand(n)), ("leaky_relu", None)):
                epilogue = {"activation": activation, "slope": 0.25, "out_dtype": out_dtype}
                check_matmul(row.run(a, b, some_bias, **epilogue), a, b, some_bias, tf32=row.kind == "tf32", **epilogue)


@every_row
def test_what_is_not_finite_stays_in_its_row_and_column(row: Row) -> None:
    """In the last element of a line whose vectors reach beyond its end, where zeros would make NaN of an infinity."""
    for (m, n), k, value in itertools.product(sides(67, columns_of(row)), (7, 40, 129), (float("nan"), float("inf"))):
        for layout in ("NN", "NT", "TN", "TT"):
            a, b = values(row, (m, k), (k, n))
            a[-1, -1], b[-1, -1] = value, value
            actual = row.run(*in_layout(a, b, layout))
            check_matmul(actual, a, b, tf32=row.kind == "tf32", what=f"{m}x{n}x{k} {layout} {value}")


@every_float8_row
def test_every_code_of_fp8(row: Row) -> None:
    """As the long operand and as the short one, times 1: exact in float32, NaN where the code is NaN."""
    codes = torch.arange(256, dtype=torch.uint8, device="cuda")
    for a in (codes.view(row.dtype)[:, None], codes.view(row.dtype)[None, :].contiguous().t()):
        actual = row.run(a, torch.ones(1, 1, device="cuda").to(row.b_dtype), out_dtype=torch.float32)
        torch.testing.assert_close(actual, a.float(), rtol=0, atol=0, equal_nan=True)
    b = codes.view(row.b_dtype)
    for long in (8, 512):  # b is the long operand, then a
        ones = torch.ones(long, 1, device="cuda").to(row.dtype)
        actual = row.run(ones, b[None, :], out_dtype=torch.float32)
        torch.testing.assert_close(actual, b.float()[None, :].expand(long, 256), rtol=0, atol=0, equal_nan=True)


@every_row
def test_sums_of_a_long_k_keep_the_bound(row: Row) -> None:
    for (m, n), layout in itertools.product(sides(40, columns_of(row)), ("NT", "TN")):
        a = full_precision(m, 9001, dtype=row.dtype, device="cuda")
        b = full_precision(9001, n, dtype=row.b_dtype, device="cuda", seed=1)
        actual = row.run(*in_layout(a, b, layout))
        check_matmul(actual, a, b, tf32=row.kind == "tf32", what=f"{m}x{n} {layout}")


@every_row
def test_bits_do_not_depend_on_what_else_the_batch_holds(row: Row) -> None:
    """Of each matrix, where the plan is the same: the order of sums is the threads', whichever CTA runs first."""
    a = full_precision(40, 90, 700, dtype=row.dtype, device="cuda")
    b = full_precision(40, 700, columns_of(row), dtype=row.b_dtype, device="cuda", seed=1)
    first = row.run(a, b)
    assert torch.equal(row.run(a, b), first)
    assert torch.equal(row.run(a.flip(0), b.flip(0)), first.flip(0))


# The ops that write where they are told, and those that keep the argument of the activation, take no config: they are
# told by the tuner's word, which the choice follows.
each_eight_columns = each_row(
    [row for row in NARROW if row.tile[0] == 8 and row.kind in ("bfloat16", "float32", "float64")]
)


@pytest.fixture
def _no_tuned_configs() -> Iterator[None]:
    yield
    torch.ops.tileon._clear_tuned_configs()


@each_eight_columns
@pytest.mark.usefixtures("_no_tuned_configs")
def test_a_strided_output_keeps_its_margin(row: Row) -> None:
    for (m, n), transposed in itertools.product(sides(130, 5), (False, True)):
        a, b = values(row, (m, 70), (70, n))
        out = place(torch.zeros(m, n, dtype=row.dtype, device="cuda"), transposed=transposed, pad=3, step=2)
        fresh = torch.ops.tileon._matmul_problem(a, b)
        torch.ops.tileon._set_tuned_config(0, re.sub(r"out=\S+", "out=other", fresh), row.name)
        torch.ops.tileon.matmul.out(a, b, out=out.view)
        assert torch.ops.tileon._last_kernel() == row.name
        assert_exact(out.view, a.double() @ b.double(), row.dtype)
        assert out.margin_is_intact()


@each_eight_columns
@pytest.mark.usefixtures("_no_tuned_configs")
def test_the_argument_of_the_activation_is_kept(row: Row) -> None:
    for m, n in sides(130, 5):
        a, b = values(row, (m, 70), (70, n))
        bias = integers(n, dtype=row.dtype, device="cuda", seed=2)
        problem = torch.ops.tileon._matmul_problem(a, b, bias, activation="relu") + ",kept"
        torch.ops.tileon._set_tuned_config(0, problem, row.name)
        out, argument = torch.ops.tileon._matmul_with_preactivation(a, b, bias, activation="relu")
        assert torch.ops.tileon._last_kernel() == row.name
        expected = a.double() @ b.double() + bias.double()
        assert_exact(argument, expected, row.dtype)
        assert_exact(out, expected.relu(), row.dtype)
