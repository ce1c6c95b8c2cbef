"""What the Hopper rows of block-scaled products decide by themselves: int8 where mxfp4 fits it, with fast_accum e5m2
where it fits that, and bfloat16 where it does not; e4m3 beyond bfloat16."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from block_scaled_operands import (
    MIXED,
    MXFP4,
    MXFP8,
    Format,
    Operand,
    multiply,
    quantized_normal,
    random_codes,
    small_integers,
)
from block_scaled_reference import VALUES, assert_exact_product, dequantize
from block_scaled_table import HAS_HOPPER_GPU, NO_HOPPER_GPU, TABLE, BlockScaledRow, each_block_scaled_row
from fp8_sums import dominated_blocks, lost, mxfp4_worst_case
from tile_table import last_config

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HAS_HOPPER_GPU, reason=NO_HOPPER_GPU)]

F32 = torch.float32
LEAST, MOST = 67, 187  # the largest scale of a row of int8 or e5m2 (sm90/layout/encoding.h)
FLOAT8_BINADES = 26  # below it
INT8_ROWS = [row for row in TABLE if row.config.route == "int8"]
FLOAT8_ROWS = [row for row in TABLE if row.config.route == "float8"]
each_int8_row = each_block_scaled_row(INT8_ROWS)
each_float8_row = each_block_scaled_row(FLOAT8_ROWS)


def bfloat16_row(row: BlockScaledRow) -> BlockScaledRow:
    """The row of bfloat16 whose tile is `row`'s."""
    rows = (other for other in TABLE if other.config.route == "bfloat16" and other.fmt == row.fmt)
    return next(other for other in rows if other.tile[:2] == row.tile[:2])


def portable_row(row: BlockScaledRow) -> BlockScaledRow:
    return next(other for other in TABLE if not other.is_hopper and other.fmt == row.fmt)


def exact_product(a: Operand, b: Operand) -> torch.Tensor:
    """Rounded to float32 once: float64 holds every sum of such operands."""
    return (dequantize(a) @ dequantize(b).T).float()


def with_scales(operand: Operand, scales: torch.Tensor) -> Operand:
    return replace(operand, scales=scales.to(torch.uint8))


def codes_of(values: torch.Tensor) -> torch.Tensor:
    """Of numbers that e2m1 has."""
    return (values[:, None] == VALUES["e2m1"][:8]).int().argmax(dim=1).to(torch.uint8)


def spread(operand: Operand, largest: int, binades: int) -> Operand:
    """Scales from `largest` down to so many powers of two below it, both ends in every row."""
    rows, cols = operand.scales.shape
    steps = (torch.arange(cols) + torch.arange(rows)[:, None]) % (binades + 1)
    return with_scales(operand, largest - steps)


@each_int8_row
@pytest.mark.parametrize("k", [32, 544, 8192])
def test_int8_rounds_once(row: BlockScaledRow, k: int) -> None:
    a, b = (quantized_normal(MXFP4, side, rows, k).to("cuda") for side, rows in (("a", 200), ("b", 330)))
    actual = row.run(a, b, out_dtype=F32)
    assert torch.equal(actual, exact_product(a, b))


@each_int8_row
@pytest.mark.parametrize("largest", [LEAST, 127, MOST])
def test_three_binades_fit(row: BlockScaledRow, largest: int) -> None:
    """Every code under every shift, to the last bit; both ends of the scales that fit."""
    a, b = random_codes(MXFP4, "a", 130, 1056), random_codes(MXFP4, "b", 140, 1056)
    a, b = spread(a, largest, 3).to("cuda"), spread(b, 254 - largest, 3).to("cuda")
    assert torch.equal(row.run(a, b, out_dtype=F32), exact_product(a, b))


@each_int8_row
@pytest.mark.parametrize("side", ["a", "b"])
def test_one_row_that_does_not_fit_sends_all_to_bfloat16(row: BlockScaledRow, side: str) -> None:
    operands = {name: quantized_normal(MXFP4, name, 200, 544) for name in "ab"}
    for change in ("four binades", "below", "above"):
        scales = operands[side].scales.clone()
        if change == "four binades":
            scales[77, 3] = scales[77].max() - 4
            operands[side].codes[77, 96:128] = 7
        else:
            scales[77] = LEAST - 1 if change == "below" else MOST + 1
        changed = operands | {side: with_scales(operands[side], scales)}
        a, b = changed["a"].to("cuda"), changed["b"].to("cuda")
        actual = row.run(a, b, out_dtype=F32)
        assert torch.equal(actual, bfloat16_row(row).run(a, b, out_dtype=F32)), change
        torch.testing.assert_close(actual, exact_product(a, b), rtol=1e-5, atol=0.0 if change == "above" else 1e-4)


@each_int8_row
def test_zeros_fit_under_any_scale(row: BlockScaledRow) -> None:
    a, b = small_integers(MXFP4, "a", 150, 256), small_integers(MXFP4, "b", 160, 256, seed=1)
    a.codes[:, 32:64] = torch.where(torch.arange(150)[:, None] % 2 == 0, 0, 8).to(torch.uint8)  # -0 as well
    a.scales[:, 1] = 0
    a.codes[17], a.scales[17] = 0, 0
    b.codes[40], b.scales[40] = 8, 254
    a, b = a.to("cuda"), b.to("cuda")
    assert_exact_product(row.run(a, b, out_dtype=F32), a, b)
    narrow = row.run(a, b, out_dtype=F32)
    assert torch.equal(narrow, exact_product(a, b))


@each_int8_row
def test_a_nan_scale_makes_its_row_nan(row: BlockScaledRow) -> None:
    a, b = small_integers(MXFP4, "a", 150, 256), small_integers(MXFP4, "b", 160, 256, seed=1)
    a.scales[140, 7] = 255
    a.codes[140] = 0
    actual = row.run(a.to("cuda"), b.to("cuda"), out_dtype=F32)
    wanted = torch.zeros(150, 160, dtype=torch.bool, device="cuda")
    wanted[140] = True
    assert torch.equal(actual.isnan(), wanted)


@each_float8_row
def test_fast_accum_takes_int8_where_it_fits(row: BlockScaledRow) -> None:
    a, b = (quantized_normal(MXFP4, side, rows, 544).to("cuda") for side, rows in (("a", 200), ("b", 330)))
    assert torch.equal(row.run(a, b, out_dtype=F32), exact_product(a, b))


@each_float8_row
@pytest.mark.parametrize("largest", [LEAST, 127, MOST])
def test_e5m2_holds_every_code_under_27_powers_of_two(row: BlockScaledRow, largest: int) -> None:
    """A row of b has one block of numbers: a sum is that of two blocks, which the tensor core does not round."""
    blocks = FLOAT8_BINADES + 1
    a, b = random_codes(MXFP4, "a", 130, 32 * blocks), random_codes(MXFP4, "b", 140, 32 * blocks)
    in_block = torch.arange(32 * blocks) // 32 == torch.arange(140)[:, None] % blocks
    b = replace(b, codes=b.codes * in_block.to(torch.uint8))
    a, b = spread(a, largest, FLOAT8_BINADES).to("cuda"), with_scales(b, torch.full((140, blocks), 127)).to("cuda")
    assert torch.equal(row.run(a, b, out_dtype=F32), exact_product(a, b))
    assert torch.equal(row.run(b, a, out_dtype=F32), exact_product(b, a))


@each_float8_row
@pytest.mark.parametrize("k", [544, 8192])
def test_e5m2_keeps_12_bits_of_such_data(row: BlockScaledRow, k: int) -> None:
    a, b = random_codes(MXFP4, "a", 200, k), random_codes(MXFP4, "b", 330, k)
    a, b = spread(a, 127, 9).to("cuda"), spread(b, 127, 6).to("cuda")
    error = (row.run(a, b, out_dtype=F32) - exact_product(a, b)).abs()
    bound = (dequantize(a).abs() @ dequantize(b).abs().T).float() * 2.0**-12
    assert (error <= bound).all()
    assert (error > 0).any(), "not e5m2"


@each_float8_row
def test_e5m2_loses_no_more_than_its_bound_where_one_block_dominates(row: BlockScaledRow) -> None:
    """Three blocks of each four (docs/fp8_error.md): many times what `fast_accum` costs other data."""
    k = 1024
    values_a, values_b = dominated_blocks(k)
    powers = torch.where(torch.arange(k // 32) % 4 == 0, 0, -5)
    a, b = random_codes(MXFP4, "a", 200, k), random_codes(MXFP4, "b", 330, k)
    for operand, values in ((a, values_a), (b, values_b)):
        operand.codes[:] = codes_of(values * torch.exp2(-powers.double()).repeat_interleave(32))
    a, b = (with_scales(operand, 127 + powers.expand(len(operand.codes), -1)).to("cuda") for operand in (a, b))
    assert torch.equal(dequantize(a).cpu(), values_a.double().expand(200, k))
    loss = lost(row.run(a, b, out_dtype=F32), dequantize(a), dequantize(b).T)
    worst = mxfp4_worst_case(k)
    print(f"{row}: {loss.min():.5f} to {loss.max():.5f} of {worst:.5f}")
    assert worst / 4 < loss.max() <= worst


@each_float8_row
@pytest.mark.parametrize("change", ["27 binades", "below", "above", "nan"])
def test_what_does_not_fit_e5m2_is_bfloat16(row: BlockScaledRow, change: str) -> None:
    a, b = (quantized_normal(MXFP4, side, 200, 544) for side in "ab")
    scales = b.scales.clone()
    scales[77] = {"27 binades": 127, "below": LEAST - 1, "above": MOST + 1, "nan": 127}[change]
    if change in ("27 binades", "nan"):
        scales[77, 3] = 127 - FLOAT8_BINADES - 1 if change == "27 binades" else 255
    b.codes[77, 96:128] = 7
    a, b = a.to("cuda"), with_scales(b, scales).to("cuda")
    actual, wanted = row.run(a, b, out_dtype=F32), bfloat16_row(INT8_ROWS[0]).run(a, b, out_dtype=F32)
    torch.testing.assert_close(actual, wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("fmt", [MXFP8, MIXED], ids=str)
def test_e4m3_beyond_bfloat16_is_computed_anew(fmt: Format) -> None:
    """Under scales of 2^-127 to 2^-125 bfloat16 loses bits of e4m3; the other operand's scales bring them back."""
    k = 224  # too short to be sliced: the kernels that stand behind never slice
    a, b = random_codes(fmt, "a", 150, k), random_codes(fmt, "b", 160, k)
    a = with_scales(a, torch.arange(7).expand(150, 7) % 4)
    b = with_scales(b, torch.full((160, 7), 230))
    row = next(row for row in TABLE if row.config.route == "bfloat16" and row.fmt == fmt)
    a, b = a.to("cuda"), b.to("cuda")
    assert torch.equal(row.run(a, b, out_dtype=F32), portable_row(row).run(a, b, out_dtype=F32))


def test_a_graph_decides_by_the_data_of_each_replay() -> None:
    fits = [quantized_normal(MXFP4, side, 256, 512).to("cuda") for side in "ab"]
    wide = [spread(operand.to("cpu"), 130, 9).to("cuda") for operand in fits]
    data = [operand.data().clone() for operand in fits]
    scales = [operand.scale_tensor("packed").clone() for operand in fits]
    row = INT8_ROWS[0]
    row.run_on(*data, *scales, out_dtype=F32)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = row.run_on(*data, *scales, out_dtype=F32)
    for operands in (fits, wide, fits):
        for target, operand in zip(scales, operands, strict=True):
            target.view(torch.uint8).copy_(operand.scale_tensor("packed").view(torch.uint8))
        graph.replay()
        if operands is wide:
            torch.testing.assert_close(out, exact_product(*operands), rtol=1e-5, atol=1e-3)
        else:
            assert torch.equal(out, exact_product(*operands))


def test_the_route_is_named() -> None:
    """By the format and the size."""
    for fmt, size, route, fast in (
        (MXFP4, 256, "bfloat16", "bfloat16"),
        (MXFP4, 1536, "int8", "folded"),
        (MXFP8, 1536, "bfloat16", "folded"),
    ):
        a, b = (quantized_normal(fmt, side, size, 1536).to("cuda") for side in "ab")
        multiply(a, b)
        assert last_config().route == route
        multiply(a, b, fast_accum=True)
        assert last_config().route == fast
    for few_of_b in (False, True):
        a, b = (quantized_normal(MXFP8, side, 1536, 1536).to("cuda") for side in "ab")
        multiply(*((a, b.first(16)) if few_of_b else (a.first(16), b)), forms=("packed", "packed"))
        assert last_config().family == "small_m", "codes are decoded where either operand has few rows"
