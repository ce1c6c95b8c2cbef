"""Every row of the GPU's table of block-scaled products, whichever row the choice would take."""

from __future__ import annotations

import itertools

import pytest
import torch
from block_scaled_operands import constant, in_poison, quantized_normal, random_codes, small_integers
from block_scaled_reference import assert_exact_product, assert_product, documented_bound, expected, product
from block_scaled_table import CANNOT_READ, TABLE, BlockScaledRow, each_block_scaled_row
from test_block_scaled_scales import with_scales

from tileon_ops._rules import configs

pytestmark = pytest.mark.gpu

F32 = torch.float32
every_row = each_block_scaled_row()


def sizes(tile: int) -> tuple[int, ...]:
    return tuple(sorted({1, tile - 1, tile, tile + 1} - {0}))


def k_sizes(row: BlockScaledRow) -> tuple[int, ...]:
    """One block, around the row's block of k, and more blocks than it has stages."""
    step, block_k = row.k_step, row.tile[2]
    near = {step, block_k - step, block_k, block_k + step, 3 * block_k + step, 14 * block_k + step}
    return tuple(sorted(k for k in near if k > 0 and k % step == 0))


@every_row
def test_every_size_class_exactly(row: BlockScaledRow) -> None:
    tile_m, tile_n, _ = row.tile
    for k in k_sizes(row):
        largest = small_integers(row.fmt, "a", tile_m + 1, k), small_integers(row.fmt, "b", tile_n + 1, k, seed=1)
        for (m, n), forms in zip(
            itertools.product(sizes(tile_m), sizes(tile_n)), itertools.cycle(row.scale_forms), strict=False
        ):
            a, b = (x.first(rows).to("cuda") for x, rows in zip(largest, (m, n), strict=True))
            assert_exact_product(row.run(a, b, forms=forms, out_dtype=F32), a, b, f"{m}x{n}x{k} {forms}")


@every_row
def test_sizes_of_zero(row: BlockScaledRow) -> None:
    for m, n, k in ((0, 5, 64), (5, 0, 64), (5, 7, 0)):
        a, b = small_integers(row.fmt, "a", m, k).to("cuda"), small_integers(row.fmt, "b", n, k).to("cuda")
        if k == 0 and row.decodes_weight:
            with pytest.raises(RuntimeError, match=r"cannot run these operands: (k is 0|it takes packed scales)"):
                row.run(a, b)
        else:
            assert not row.run(a, b).any()


@every_row
def test_many_tiles(row: BlockScaledRow) -> None:
    """Several groups of rows, the last one partial, and several waves of tiles."""
    tile_m, tile_n, block_k = row.tile
    m, n = 21 * tile_m + 8, max(13 * tile_n, 1024) + 8
    for k in (64, 3 * block_k + 2 * row.fmt.vec):
        a, b = small_integers(row.fmt, "a", m, k).to("cuda"), small_integers(row.fmt, "b", n, k, seed=1).to("cuda")
        assert_exact_product(row.run(a, b, out_dtype=F32), a, b, f"k {k}")
        bias = (torch.arange(n, device="cuda") % 7 - 3).float()
        wanted = expected(product(a, b), bias, out_dtype=torch.bfloat16)  # by TMA, where float32 is not
        first = row.run(a, b, bias, out_dtype=torch.bfloat16)
        assert_product(first, wanted, f"k {k}")
        assert torch.equal(row.run(a, b, bias, out_dtype=torch.bfloat16), first), f"k {k}"


@every_row
def test_error_bound_and_epilogue(row: BlockScaledRow) -> None:
    """Rows of the output that start at multiples of 16 bytes, and others."""
    factor = torch.tensor(0.37, device="cuda")
    for n in (264, 261):
        a = quantized_normal(row.fmt, "a", 137, 1056).to("cuda")
        b = quantized_normal(row.fmt, "b", n, 1056, seed=1).to("cuda")
        total = product(a, b)
        bias = torch.randn(2 * n + 1, device="cuda")
        for out_dtype in (torch.float16, torch.bfloat16, F32, torch.float8_e4m3fn):
            for activation, some_bias in (("none", None), ("relu", bias[1 : n + 1]), ("gelu", bias[1::2])):
                options = {"activation": activation, "out_dtype": out_dtype}
                actual = row.run(a, b, some_bias, factor, **options)
                bound = documented_bound(1056)
                wanted = expected(total, some_bias, factor, bound=bound, **options)  # type: ignore[arg-type]
                assert_product(actual, wanted, f"n {n}, {out_dtype}, {activation}")


@every_row
def test_nan_stays_in_its_row_and_column(row: BlockScaledRow) -> None:
    a, b = small_integers(row.fmt, "a", 130, 224).to("cuda"), small_integers(row.fmt, "b", 136, 224).to("cuda")
    a.scales[129, -1] = 0xFF
    b.scales[135, 0] = 0xFF
    actual = row.run(a, b, out_dtype=F32)
    assert_exact_product(actual, a, b)
    assert int(actual.isnan().sum()) == 130 + 136 - 1


@every_row
def test_scales_of_the_whole_range(row: BlockScaledRow) -> None:
    """Every scale byte against every other: 2^-127, signs, NaN, and sums that overflow or all but vanish."""
    fmt, k = row.fmt, row.k_step
    count = 256 if fmt.scale == "e4m3" else 255
    steps = torch.arange(count)[:, None]
    a, b = (with_scales(constant(fmt, side, count, k), steps).to("cuda") for side in ("a", "b"))
    wanted = expected(product(a, b), out_dtype=F32, bound=documented_bound(k))
    assert_product(row.run(a, b, out_dtype=F32), wanted)


@every_row
def test_the_bits_are_the_same_every_time(row: BlockScaledRow) -> None:
    """A race between the stages of the pipeline shows as changing bits."""
    a = random_codes(row.fmt, "a", 1032, 2112).to("cuda")
    b = random_codes(row.fmt, "b", 1032, 2112, seed=1).to("cuda")
    first = row.run(a, b, out_dtype=F32)
    for _ in range(10):
        assert torch.equal(row.run(a, b, out_dtype=F32), first)


@every_row
def test_strided_operands_run_or_are_refused_by_name(row: BlockScaledRow) -> None:
    a, b = small_integers(row.fmt, "a", 66, 96).to("cuda"), small_integers(row.fmt, "b", 72, 96).to("cuda")
    for options in ({"offset": 1}, {"pad": 3}, {"step": 2}, {"transposed": True}):
        datas = [x.typed(in_poison(x.bytes(), **options)) for x in (a, b)]  # type: ignore[arg-type]
        scales = [x.typed_scale(in_poison(x.scales, **options)) for x in (a, b)]  # type: ignore[arg-type]
        for tensors in ((*datas, a.scale_tensor(), b.scale_tensor()), (a.data(), b.data(), *scales)):
            try:
                actual = row.run_on(*tensors, out_dtype=F32)
            except RuntimeError as error:
                if not CANNOT_READ.search(str(error)):
                    raise
                continue
            assert_exact_product(actual, a, b, str(options))


@every_row
def test_a_format_that_the_row_does_not_multiply_is_refused(row: BlockScaledRow) -> None:
    mine = {other.fmt.name for other in TABLE if other.index == row.index}
    for other in TABLE:
        if other.fmt.name not in mine:
            a, b = small_integers(other.fmt, "a", 32, 64).to("cuda"), small_integers(other.fmt, "b", 32, 64).to("cuda")
            with pytest.raises(RuntimeError, match=r"^block_scaled_matmul: "):
                row.run(a, b)


def test_an_index_outside_the_table_is_refused() -> None:
    a = torch.ones(8, 32, device="cuda").to(torch.float8_e4m3fn)
    scale = torch.full((8, 1), 127, dtype=torch.uint8, device="cuda")
    for index in (-1, len(configs.block_scaled()), 10**6, 2**40):
        with pytest.raises(RuntimeError, match=r"^block_scaled_matmul: .*config"):
            torch.ops.tileon._block_scaled_matmul_with_config(a, a, scale, scale, config=index)
