"""How the ops shard over four devices: which placements give which, without a wrong element in any.

Operands are small integers, so every sum is exact in whatever order the devices add it up. Placements are written as in
simulated_devices.py: "0" is sharded along dimension 0, "R" replicated, "P" partial sums.
"""

from __future__ import annotations

import pytest
import torch
from operands import integers
from simulated_devices import Devices, Result
from torch import Tensor

import tileon_ops

matmul = torch.ops.tileon.matmul.default
block_scaled_matmul = torch.ops.tileon.block_scaled_matmul.default


def operand(*shape: int, seed: int = 0) -> Tensor:
    return integers(*shape, dtype=torch.float32, device="cpu", seed=seed)


A, B, BIAS = operand(9, 10), operand(10, 7, seed=1), operand(7, seed=2)  # of no size four devices share evenly


# Products. Nothing moves in any of these: the operands stay as they are placed.


@pytest.mark.parametrize(
    ("a", "b", "bias", "output"),
    [("R", "R", "R", "R"), ("0", "R", "R", "0"), ("R", "1", "0", "1")],
    ids=["replicated", "rows", "columns"],
)
@pytest.mark.parametrize("activation", ["none", "relu"])
def test_rows_and_columns_stay_where_they_are(
    line: Devices, a: str, b: str, bias: str, output: str, activation: str
) -> None:
    result = line.call(matmul, (A, a), (B, b), (BIAS, bias), activation=activation)
    assert result.placed == output
    assert result.is_exact


@pytest.mark.parametrize("with_bias", [False, True])
def test_a_sharded_inner_dimension_gives_partial_sums(line: Devices, with_bias: bool) -> None:
    result = line.call(matmul, (A, "1"), (B, "0"), (BIAS, "R") if with_bias else None)
    assert result.placed == "P"
    assert result.is_exact  # the bias is in it once, not four times


def test_no_activation_is_applied_to_partial_sums(line: Devices) -> None:
    result = line.call(matmul, (A, "1"), (B, "0"), activation="relu")
    assert "P" not in result.placed
    assert result.is_exact


def test_a_decision_is_not_remembered_for_another_activation_or_dtype(line: Devices) -> None:
    """Of the same operands: DTensor caches decisions by what it is told that they depend on."""
    calls = [{}, {"activation": "relu"}, {"out_dtype": torch.float16}, {"activation": "none"}]
    results = [line.call(matmul, (A, "1"), (B, "0"), **options) for options in calls]
    assert all(result.is_exact for result in results)
    assert [result.placed == "P" for result in results] == [True, False, True, True]
    assert results[2].dtensor._spec.tensor_meta.dtype == torch.float16


BATCHED_A, BATCHED_B = operand(6, 5, 10), operand(6, 10, 7, seed=1)


@pytest.mark.parametrize(
    ("a", "b", "output"),
    [
        ((BATCHED_A, "0"), (BATCHED_B, "0"), "0"),
        ((BATCHED_A, "0"), (B, "R"), "0"),
        ((A, "R"), (BATCHED_B, "0"), "0"),
        ((BATCHED_A[:1], "R"), (BATCHED_B, "0"), "0"),
        ((BATCHED_A, "0"), (BATCHED_B[:1], "R"), "0"),
        ((BATCHED_A, "1"), (B, "R"), "1"),
        ((A, "0"), (BATCHED_B, "R"), "1"),
        ((BATCHED_A, "R"), (B, "1"), "2"),
        ((BATCHED_A, "R"), (BATCHED_B, "2"), "2"),
        ((BATCHED_A, "2"), (BATCHED_B, "1"), "P"),
        ((BATCHED_A, "2"), (B, "0"), "P"),
        ((A, "1"), (BATCHED_B, "1"), "P"),
    ],
)
def test_batches_shard_by_matrix_row_column_and_inner_dimension(
    line: Devices, a: tuple[Tensor, str], b: tuple[Tensor, str], output: str
) -> None:
    result = line.call(matmul, a, b, (BIAS, "R"))
    assert result.placed == output
    assert result.is_exact


@pytest.mark.parametrize("bias", [None, "R", "0"])
@pytest.mark.parametrize("b", ["R", "0", "1"])
@pytest.mark.parametrize("a", ["R", "0", "1"])
@pytest.mark.parametrize("activation", ["none", "relu"])
def test_every_mixture_of_placements_is_exact(line: Devices, a: str, b: str, bias: str | None, activation: str) -> None:
    given = None if bias is None else (BIAS, bias)
    assert line.call(matmul, (A, a), (B, b), given, activation=activation).is_exact


def test_fewer_rows_than_devices(line: Devices) -> None:
    assert line.call(matmul, (A[:3], "0"), (B, "R"), (BIAS, "R"), activation="relu").is_exact


@pytest.mark.parametrize(
    ("a", "b", "bias", "output"),
    [("0R", "R1", "R0", "01"), ("01", "R0", "RR", "0P"), ("11", "00", "RR", "PP"), ("00", "RR", "RR", "00")],
)
def test_two_dimensions_of_a_mesh_shard_independently(square: Devices, a: str, b: str, bias: str, output: str) -> None:
    result = square.call(matmul, (A, a), (B, b), (BIAS, bias))
    assert result.placed == output
    assert result.is_exact


def test_a_bad_call_says_what_the_op_says(line: Devices) -> None:
    with pytest.raises(RuntimeError, match=r"matmul: `b` must have as many rows as `a` has columns"):
        line.on_devices(matmul, (A, "0"), (A, "R"))


# What its backward pass is made of.


@pytest.mark.parametrize(
    ("placed", "of_bias"), [("R", "R"), ("0", "P"), ("1", "0")], ids=["replicated", "rows", "columns"]
)
@pytest.mark.parametrize("bias_dtype", [None, torch.float32], ids=["no bias", "bias"])
@pytest.mark.parametrize("activation", ["none", "relu"])
def test_the_backward_pass_of_an_epilogue_stays_where_it_is(
    line: Devices, placed: str, of_bias: str, bias_dtype: torch.dtype | None, activation: str
) -> None:
    saved = None if activation == "none" else (operand(9, 7, seed=1), placed)
    options = {"activation": activation, "slope": 0.0, "out_dtype": torch.float32, "bias_dtype": bias_dtype}
    results = line.call_all(torch.ops.tileon._epilogue_backward.default, (operand(9, 7), placed), saved, **options)
    assert [result.placed for result in results] == [placed, "R" if bias_dtype is None else of_bias]
    assert all(result.is_exact for result in results)


@pytest.mark.parametrize("a", ["R", "0", "1"])
@pytest.mark.parametrize("b", ["R", "0", "1"])
def test_a_product_that_keeps_its_preactivation_shards_as_without(line: Devices, a: str, b: str) -> None:
    operands = (A, a), (B, b), (BIAS, "R")
    pair = line.call_all(torch.ops.tileon._matmul_with_preactivation.default, *operands, activation="relu")
    plain = line.call(matmul, *operands, activation="relu")
    assert [one.placed for one in pair] == [plain.placed] * 2
    assert all(one.is_exact for one in pair)


# Block-scaled products.

ROWS_A, ROWS_B = 512, 1024  # packed scales: a block and two for each device
VECS = {"mxfp8": 32, "mxfp4": 32, "nvfp4": 16}


def quantized(rows: int, k: int, format: str, packed: bool, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Integers, which every format holds exactly, and their scales."""
    data, scale = tileon_ops.quantize(operand(rows, k, seed=seed), format)
    if scale.dtype == torch.float8_e8m0fnu:
        scale = scale.view(torch.uint8)  # torch cannot pad e8m0, which DTensor does with uneven shards
    return data, scale if packed else tileon_ops.unpack_scales(scale, rows, k // VECS[format])


def scaled(
    devices: Devices,
    a: tuple[tuple[Tensor, Tensor], str],
    b: tuple[tuple[Tensor, Tensor], str],
    bias: tuple[Tensor, str] | None = None,
    global_scale: tuple[Tensor, str] | None = None,
    *,
    out_dtype: torch.dtype = torch.float32,
    activation: str = "none",
) -> Result:
    """The product of operands whose scales are placed as they are."""
    (a_data, scale_a), of_a = a
    (b_data, scale_b), of_b = b
    scales = ((scale_a, of_a), (scale_b, of_b))
    return devices.call(
        block_scaled_matmul,
        *((a_data, of_a), (b_data, of_b), *scales, bias, global_scale),
        out_dtype=out_dtype,
        activation=activation,
    )


@pytest.mark.parametrize("packed", [False, True], ids=["2-D", "packed"])
@pytest.mark.parametrize(("a", "b", "bias", "output"), [("0", "R", "R", "0"), ("R", "0", "0", "1")])
def test_rows_shard_with_their_scales(line: Devices, packed: bool, a: str, b: str, bias: str, output: str) -> None:
    operands = quantized(ROWS_A, 32, "mxfp8", packed), quantized(ROWS_B, 32, "mxfp8", packed, seed=1)
    result = scaled(line, (operands[0], a), (operands[1], b), (operand(ROWS_B), bias), activation="relu")
    assert result.placed == output
    assert result.is_exact


@pytest.mark.parametrize(("a", "b", "output"), [("0", "R", "0"), ("R", "0", "1")])
def test_rows_with_2d_scales_may_be_shared_unevenly(line: Devices, a: str, b: str, output: str) -> None:
    operands = quantized(9, 64, "mxfp4", False), quantized(7, 64, "mxfp4", False, seed=1)
    result = scaled(line, (operands[0], a), (operands[1], b))
    assert result.placed == output
    assert result.is_exact


@pytest.mark.parametrize("rows", [500, 130, 640], ids=["no whole block", "fewer blocks", "a block more"])
def test_packed_scales_are_not_cut_inside_a_block_of_rows(line: Devices, rows: int) -> None:
    """640 rows are 160 each, and five blocks of scales would be two for each of the first two devices."""
    of_a, of_b = quantized(rows, 32, "mxfp8", True), quantized(8, 32, "mxfp8", True, seed=1)
    for a, b in (((of_a, "0"), (of_b, "R")), ((of_b, "R"), (of_a, "0"))):
        assert scaled(line, a, b).is_exact


@pytest.mark.parametrize("format", VECS)
@pytest.mark.parametrize("packed", [False, True], ids=["2-D", "packed"])
def test_a_sharded_inner_dimension_in_whole_blocks_gives_partial_sums(line: Devices, format: str, packed: bool) -> None:
    k = 4 * VECS[format] * (4 if packed else 1)
    a, b = quantized(5, k, format, packed), quantized(6, k, format, packed, seed=1)
    result = scaled(line, (a, "1"), (b, "1"), (operand(6), "R"), (torch.tensor(2.0), "R"))
    assert result.placed == "P"
    assert result.is_exact


def test_a_mixed_product_counts_blocks_not_bytes(line: Devices) -> None:
    a, b = quantized(5, 128, "mxfp8", False), quantized(6, 128, "mxfp4", False, seed=1)
    result = scaled(line, (a, "1"), (b, "1"))
    assert result.placed == "P"
    assert result.is_exact


@pytest.mark.parametrize(
    ("format", "packed", "blocks"), [("mxfp8", False, 6), ("nvfp4", False, 9), ("mxfp8", True, 20)]
)
def test_a_block_of_the_inner_dimension_is_not_cut(line: Devices, format: str, packed: bool, blocks: int) -> None:
    k = blocks * VECS[format]
    a, b = quantized(5, k, format, packed), quantized(6, k, format, packed, seed=1)
    result = scaled(line, (a, "1"), (b, "1"))
    assert "P" not in result.placed
    assert result.is_exact


@pytest.mark.parametrize("options", [{"activation": "relu"}, {"out_dtype": torch.float8_e4m3fn}], ids=str)
def test_terms_are_neither_activated_nor_rounded_to_fp8(line: Devices, options: dict[str, object]) -> None:
    a, b = quantized(5, 128, "mxfp8", False), quantized(6, 128, "mxfp8", False, seed=1)
    assert scaled(line, (a, "1"), (b, "1")).placed == "P"
    result = scaled(line, (a, "1"), (b, "1"), **options)
    assert "P" not in result.placed
    assert result.is_exact


def test_scales_follow_their_operand_wherever_they_were(line: Devices) -> None:
    (a, scale_a), (b, scale_b) = quantized(ROWS_A, 32, "mxfp8", True), quantized(8, 32, "mxfp8", False, seed=1)
    result = line.call(block_scaled_matmul, (a, "0"), (b, "R"), (scale_a, "R"), (scale_b, "0"), out_dtype=torch.float32)
    assert result.placed == "0"
    assert result.is_exact


def test_on_a_mesh_of_two_dimensions_blocks_are_counted_for_all_devices(square: Devices) -> None:
    """768 rows are six blocks: two devices could have three each, and four cannot have the same number."""
    b = quantized(8, 32, "mxfp8", True, seed=1)
    for rows in (ROWS_A, 768):
        result = scaled(square, (quantized(rows, 32, "mxfp8", True), "00"), (b, "RR"))
        assert result.is_exact
        assert (result.placed == "00") == (rows == ROWS_A)


def test_a_bias_is_not_taken_for_a_global_scale(line: Devices) -> None:
    """Of one shape and placement, in calls that are otherwise the same."""
    a, b = quantized(5, 128, "mxfp8", False), quantized(1, 128, "mxfp8", False, seed=1)
    one = torch.full((1,), 3.0)
    for given in (((one, "R"), None), (None, (one, "R"))):
        result = scaled(line, (a, "1"), (b, "1"), *given)
        assert result.placed == "P"
        assert result.is_exact
