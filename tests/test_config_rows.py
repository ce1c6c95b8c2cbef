"""Every row of the GPU's tile table, on every layout and size class, whichever row the choice would take."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from operands import LAYOUTS, config_rows, full_precision, in_aligned_layout, in_layout, integers, place
from reference import OUT_DTYPES, assert_exact, check_matmul
from torch import Tensor

pytestmark = pytest.mark.gpu

DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "tf32": torch.float32,
    "float64": torch.float64,
}
ROWS = [pytest.param(index, name, kind, id=f"{name}-{kind}") for index, name, kinds in config_rows() for kind in kinds]
if not ROWS:
    no_rows = pytest.mark.skipif(torch.cuda.is_available(), reason="CPU-only build: the tile table is empty")
    ROWS = [pytest.param(-1, "", "", marks=no_rows, id="no_rows")]
every_row = pytest.mark.parametrize(("index", "name", "kind"), ROWS)

# What a row says of an operand that it cannot load in 16-byte pieces; nothing else may make a test pass a row over.
CANNOT_READ = re.compile(r"^matmul: .*cannot read")


def tile_of(name: str) -> tuple[int, int, int]:
    match = re.search(r"(\d+)x(\d+)x(\d+)", name)
    assert match is not None, f"a row's name holds its tile: {name}"
    return int(match[1]), int(match[2]), int(match[3])


def reads_any_strides(name: str) -> bool:
    return any(family in name for family in ("gather", "simt", "dmma"))


def run_row(
    index: int, name: str, kind: str, a: Tensor, b: Tensor, bias: Tensor | None = None, **epilogue: object
) -> Tensor:
    """The row's result; asserts that this row ran and nothing was copied."""
    result = torch.ops.tileon._matmul_with_config(a, b, bias, config=index, allow_tf32=kind == "tf32", **epilogue)
    if result.numel() and a.shape[-1]:
        assert torch.ops.tileon._last_kernel() == name
    return result


def sizes(tile: int, prime: int) -> tuple[int, ...]:
    return (0, 1, tile - 1, tile, tile + 1, prime)


@every_row
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_size_class_exactly(index: int, name: str, kind: str, layout: str) -> None:
    """Lines of the operands start at multiples of 16 bytes here, so every row must run every size."""
    dtype = DTYPES[kind]
    tile_m, tile_n, block_k = tile_of(name)
    for m, n, k in itertools.product(
        sizes(tile_m, 2 * tile_m + 67), sizes(tile_n, 2 * tile_n + 67), (*sizes(block_k, 211), 4 * block_k)
    ):
        a = integers(m, k, dtype=dtype, device="cuda")
        b = integers(k, n, dtype=dtype, device="cuda", seed=1)
        actual = run_row(index, name, kind, *in_aligned_layout(a, b, layout))
        assert_exact(actual, a.double() @ b.double(), dtype, f"{m}x{n}x{k}")


@every_row
@pytest.mark.parametrize("layout", LAYOUTS)
def test_long_k(index: int, name: str, kind: str, layout: str) -> None:
    dtype = DTYPES[kind]
    for m, n, k in ((5, 7, 10007), (65, 130, 8192)):
        a = integers(m, k, dtype=dtype, device="cuda")
        b = integers(k, n, dtype=dtype, device="cuda", seed=1)
        actual = run_row(index, name, kind, *in_aligned_layout(a, b, layout))
        assert_exact(actual, a.double() @ b.double(), dtype, f"{m}x{n}x{k}")


@every_row
@pytest.mark.parametrize("layout", LAYOUTS)
def test_unaligned_operands_run_or_are_refused_by_name(index: int, name: str, kind: str, layout: str) -> None:
    dtype = DTYPES[kind]
    refused = 0
    for (m, n, k), offset in itertools.product(((129, 131, 67), (65, 67, 35), (3, 5, 1)), (0, 1)):
        a = integers(m, k, dtype=dtype, device="cuda")
        b = integers(k, n, dtype=dtype, device="cuda", seed=1)
        try:
            actual = run_row(index, name, kind, *in_layout(a, b, layout, offset=offset))
        except RuntimeError as error:
            if not CANNOT_READ.search(str(error)):
                raise
            refused += 1
            continue
        assert_exact(actual, a.double() @ b.double(), dtype, f"{m}x{n}x{k} offset {offset}")
    assert not (refused and reads_any_strides(name)), "this row reads any strides"


@every_row
def test_strides_that_only_some_rows_read(index: int, name: str, kind: str) -> None:
    dtype = DTYPES[kind]
    values_a = integers(66, 72, dtype=dtype, device="cuda")
    values_b = integers(72, 68, dtype=dtype, device="cuda", seed=1)
    for a, b in (
        (place(values_a, step=2).view, values_b),
        (values_a, place(values_b, step=3, offset=1).view),
        (values_a[:1].expand(66, 72), values_b),
        (values_a, values_b[:, :1].expand(72, 68)),
        (values_a[:, :1].expand(66, 72), values_b[:1].expand(72, 68)),
    ):
        try:
            actual = run_row(index, name, kind, a, b)
        except RuntimeError as error:
            if not CANNOT_READ.search(str(error)):
                raise
            assert not reads_any_strides(name)
            continue
        assert_exact(actual, a.double() @ b.double(), dtype, f"{a.stride()} {b.stride()}")


@every_row
@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches(index: int, name: str, kind: str, layout: str) -> None:
    dtype = DTYPES[kind]
    tile_m, tile_n, block_k = tile_of(name)
    for batch_a, batch_b in (((3,), (3,)), ((3,), ()), ((), (3,)), ((1,), (3,)), ((3,), (1,))):
        a = integers(*batch_a, tile_m + 8, block_k + 8, dtype=dtype, device="cuda")
        b = integers(*batch_b, block_k + 8, tile_n + 8, dtype=dtype, device="cuda", seed=1)
        actual = run_row(index, name, kind, *in_aligned_layout(a, b, layout))
        assert_exact(actual, torch.matmul(a.double(), b.double()), dtype, f"{batch_a} {batch_b}")


@every_row
def test_many_tiles_in_groups(index: int, name: str, kind: str) -> None:
    """Several groups of rows, the last one partial, and several waves of tiles."""
    dtype = DTYPES[kind]
    tile_m, tile_n, _ = tile_of(name)
    m, n, k = 21 * tile_m + 8, 13 * tile_n + 8, 40
    a, b = integers(m, k, dtype=dtype, device="cuda"), integers(k, n, dtype=dtype, device="cuda", seed=1)
    assert_exact(run_row(index, name, kind, a, b), a.double() @ b.double(), dtype)


@every_row
@pytest.mark.parametrize("layout", LAYOUTS)
def test_error_bound(index: int, name: str, kind: str, layout: str) -> None:
    dtype = DTYPES[kind]
    for m, n, k in ((136, 264, 1032), (72, 72, 8)):
        a, b = (
            full_precision(m, k, dtype=dtype, device="cuda"),
            full_precision(k, n, dtype=dtype, device="cuda", seed=1),
        )
        actual = run_row(index, name, kind, *in_aligned_layout(a, b, layout))
        check_matmul(actual, a, b, tf32=kind == "tf32", what=f"{m}x{n}x{k}")


@every_row
def test_epilogue_and_out_dtype(index: int, name: str, kind: str) -> None:
    dtype = DTYPES[kind]
    a, b = (
        full_precision(137, 72, dtype=dtype, device="cuda"),
        full_precision(72, 264, dtype=dtype, device="cuda", seed=1),
    )
    for out_dtype in OUT_DTYPES[dtype]:
        for bias_dtype in {out_dtype, torch.float32}:
            bias = full_precision(264, dtype=bias_dtype, device="cuda", seed=2)
            for activation in ("none", "leaky_relu", "gelu"):
                epilogue = {"activation": activation, "slope": 0.25, "out_dtype": out_dtype}
                actual = run_row(index, name, kind, a, b, bias, **epilogue)
                check_matmul(actual, a, b, bias, tf32=kind == "tf32", what=f"{out_dtype} {activation}", **epilogue)


@every_row
def test_the_bits_are_the_same_every_time(index: int, name: str, kind: str) -> None:
    """A race between the stages of the pipeline shows as changing bits."""
    dtype = DTYPES[kind]
    a, b = (
        full_precision(1032, 2056, dtype=dtype, device="cuda"),
        full_precision(2056, 1032, dtype=dtype, device="cuda", seed=1),
    )
    first = run_row(index, name, kind, a, b)
    for _ in range(20):
        assert torch.equal(run_row(index, name, kind, a, b), first)
    check_matmul(first, a, b, tf32=kind == "tf32")


@every_row
def test_non_finite_values_stay_in_their_row_and_column(index: int, name: str, kind: str) -> None:
    dtype = DTYPES[kind]
    for value in (float("nan"), float("inf")):
        a, b = integers(130, 72, dtype=dtype, device="cuda"), integers(72, 136, dtype=dtype, device="cuda", seed=1)
        a[129, 71] = value
        b[71, 135] = value
        actual = run_row(index, name, kind, *in_aligned_layout(a, b, "NN"))
        check_matmul(actual, a, b, tf32=kind == "tf32", what=str(value))


@every_row
def test_a_dtype_that_the_row_does_not_multiply_is_refused(index: int, name: str, kind: str) -> None:
    row_kinds = {k for i, _, kinds in config_rows() if i == index for k in kinds}
    a = torch.ones(64, 64, device="cuda")
    for other in set(DTYPES) - row_kinds:
        operand = a.to(DTYPES[other])
        with pytest.raises(RuntimeError, match=r"^matmul: "):
            torch.ops.tileon._matmul_with_config(operand, operand, config=index, allow_tf32=other == "tf32")


def test_an_index_outside_the_table_is_refused() -> None:
    a = torch.ones(8, 8, device="cuda")
    for index in (-1, len(config_rows()), 10**6, 2**40):
        with pytest.raises(RuntimeError, match=r"^matmul: .*config"):
            torch.ops.tileon._matmul_with_config(a, a, config=index)


def test_the_choice_takes_the_fast_rows_where_it_should() -> None:
    """Large, aligned products of 16-bit operands run on tensor cores; float32 without TF32 never does."""
    for dtype in (torch.float16, torch.bfloat16):
        for layout in LAYOUTS:
            a, b = in_layout(*(torch.ones(1024, 1024, dtype=dtype, device="cuda") for _ in range(2)), layout)
            torch.ops.tileon.matmul(a, b)
            kernel = torch.ops.tileon._last_kernel()
            assert re.search(r"_mma_\d+x\d+x\d+$", kernel), f"{dtype} {layout}: {kernel}"
    a = torch.ones(1024, 1024, device="cuda")
    torch.ops.tileon.matmul(a, a)
    assert "mma" not in torch.ops.tileon._last_kernel()
    torch.ops.tileon.matmul(a, a, allow_tf32=True)
    assert "tf32" in torch.ops.tileon._last_kernel()
