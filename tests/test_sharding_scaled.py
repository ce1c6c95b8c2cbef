"""How scaled products shard whose `a` has no scale, or whose scales are float32, and what their backward pass runs.

As in test_sharding.py: operands are small integers, placements are letters, four devices.
"""

from __future__ import annotations

import pytest
import torch
from operands import integers
from simulated_devices import Devices, Result
from torch import Tensor
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from weights import BYTE_SCALED, NAMES, Weight, each_weight, exact_weight

block_scaled_matmul = torch.ops.tileon.block_scaled_matmul.default
block_scaled_backward = torch.ops.tileon._block_scaled_backward.default


N, K = 1024, 512  # of a weight: two blocks of 128 rows, and one of 128 elements along k, for each device
DEFAULT = {"activation": "none", "out_dtype": torch.float32}


def numbers(*shape: int) -> Tensor:
    return integers(*shape, dtype=torch.bfloat16, device="cpu")


def without_e8m0(scale: Tensor) -> Tensor:
    """torch cannot pad e8m0, which DTensor does with uneven shards."""
    return scale.view(torch.uint8) if scale.dtype == torch.float8_e8m0fnu else scale


def beside(placed: str, name: str) -> str:
    """Where scales lie so that nothing moves."""
    granularity = name.rpartition("_")[2]
    if name in BYTE_SCALED or placed == "R" or granularity in ("1x128", "128x128"):
        return placed
    return "R" if granularity == "tensor" or placed == "1" else placed


def product(
    devices: Devices, a: tuple[Tensor, str], weight: Weight, name: str, placed: str,
    bias: tuple[Tensor, str] | None = None, global_scale: tuple[Tensor, str] | None = None, **options: object,
) -> Result:  # fmt: skip
    scale = without_e8m0(weight.scale), beside(placed, name)
    return devices.call(
        block_scaled_matmul, a, (weight.data, placed), None, scale, bias, global_scale, **{**DEFAULT, **options}
    )


class TestWeightOnly:
    @pytest.mark.parametrize("packed", [False, True], ids=["2-D", "packed"])
    @each_weight
    def test_rows_columns_and_whole_blocks_stay_where_they_are(self, line: Devices, name: str, packed: bool) -> None:
        weight = exact_weight(name, N, K, packed=packed)
        a, bias = numbers(9, K), integers(N, dtype=torch.float32, device="cpu")
        of_rows = torch.arange(1.0, 10.0)[:, None]
        for of_a, of_b, of_bias, of_factor, activation, output in (
            ("0", "R", "R", "0", "relu", "0"),
            ("R", "0", "0", "R", "relu", "1"),
            ("1", "1", "R", "R", "none", "P"),
        ):
            result = product(
                line, (a, of_a), weight, name, of_b, (bias, of_bias), (of_rows, of_factor), activation=activation
            )
            assert (result.placed, result.is_exact) == (output, True), (of_a, of_b)

    @pytest.mark.parametrize(
        ("name", "rows"), [*((name, 130) for name in NAMES), ("mxfp4", 3), ("float8_e5m2_128x128", 500)]
    )
    def test_every_placement_of_any_size_is_exact(self, line: Devices, name: str, rows: int) -> None:
        k = 96 if name in BYTE_SCALED else 300
        weight = exact_weight(name, rows, k)
        for of_a in ("R", "0", "1"):
            for of_b in ("R", "0", "1"):
                for activation in ("none", "relu"):
                    assert product(line, (numbers(5, k), of_a), weight, name, of_b, activation=activation).is_exact

    def test_no_activation_is_applied_to_terms(self, line: Devices) -> None:
        weight = exact_weight("int8_row", 8, K)
        for options in ({"activation": "relu"}, {"out_dtype": torch.float8_e4m3fn}):
            result = product(line, (numbers(5, K), "1"), weight, "int8_row", "1", **options)
            assert "P" not in result.placed
            assert result.is_exact

    def test_on_a_mesh_of_two_dimensions(self, square: Devices) -> None:
        name = "float8_e4m3fn_row"
        weight = exact_weight(name, N, K)
        scale = weight.scale
        a, b = numbers(8, K), weight.data
        for of_a, of_b, of_scale, output in (("0R", "R0", "R0", "01"), ("01", "R1", "RR", "0P")):
            result = square.call(block_scaled_matmul, (a, of_a), (b, of_b), None, (scale, of_scale), **DEFAULT)
            assert (result.placed, result.is_exact) == (output, True)


class TestFloat32Scales:
    @pytest.mark.parametrize("name", [name for name in NAMES if name not in BYTE_SCALED])
    def test_both_operands_keep_their_places(self, line: Devices, name: str) -> None:
        partner = "int8_tensor" if name.startswith("int8") else "float8_e5m2_row"
        a, b = exact_weight(name, N, K), exact_weight(partner, 9, K)
        for of_a, of_b, output in (("0", "R", "0"), ("R", "0", "1"), ("1", "1", "P")):
            result = line.call(
                block_scaled_matmul,
                *((a.data, of_a), (b.data, of_b), (a.scale, beside(of_a, name)), (b.scale, beside(of_b, partner))),
                **DEFAULT,
            )
            assert (result.placed, result.is_exact) == (output, True), (of_a, of_b)

    @pytest.mark.parametrize(("rows", "k"), [(640, K), (N, 640), (N, 500), (500, K)])
    def test_a_block_of_128_is_not_cut(self, line: Devices, rows: int, k: int) -> None:
        """640 is five blocks: two for the first two devices would be 256 elements, and DTensor cuts at 160."""
        a = exact_weight("float8_e4m3fn_128x128", rows, k)
        b = exact_weight("float8_e4m3fn_1x128", 9, k)
        for of_a, of_b in (("0", "R"), ("1", "1"), ("R", "0")):
            result = line.call(
                block_scaled_matmul, (a.data, of_a), (b.data, of_b), (a.scale, of_a), (b.scale, of_b), **DEFAULT
            )
            assert result.is_exact
            if of_a == "0":
                assert (result.placed == "0") == (rows % 512 == 0)
            elif of_a == "1":
                assert (result.placed == "P") == (k % 512 == 0)

    def test_scales_of_one_a_row_or_one_a_tensor_cut_k_anywhere(self, line: Devices) -> None:
        a, b = exact_weight("float8_e4m3fn_tensor", 6, 301), exact_weight("float8_e5m2_row", 9, 301)
        result = line.call(block_scaled_matmul, (a.data, "1"), (b.data, "1"), (a.scale, "R"), (b.scale, "R"), **DEFAULT)
        assert (result.placed, result.is_exact) == ("P", True)


class TestBackward:
    @pytest.mark.parametrize("packed", [False, True], ids=["2-D", "packed"])
    @each_weight
    def test_rows_columns_and_terms(self, line: Devices, name: str, packed: bool) -> None:
        weight = exact_weight(name, N, K, packed=packed)
        grad, of_rows = numbers(9, N) % 2, torch.ones(9, 1)
        for of_grad, of_b, of_factor, output in (("0", "R", "0", "0"), ("R", "1", "R", "1"), ("1", "0", "R", "P")):
            scale = without_e8m0(weight.scale), beside(of_b, name)
            result = line.call(block_scaled_backward, (grad, of_grad), (weight.data, of_b), scale, (of_rows, of_factor))
            assert result.placed == output, (of_grad, of_b)
            if output != "P":  # terms are rounded to 16 bits before they are added up
                assert result.is_exact
            else:
                largest = result.expected.abs().max()
                assert (result.whole.float() - result.expected.float()).abs().max() <= 2.0**-6 * largest

    @each_weight
    def test_gradients_of_dtensors_are_those_of_whole_tensors(self, line: Devices, name: str) -> None:
        weight = exact_weight(name, 16, 64)
        a = numbers(8, 64)
        leaf = a.clone().requires_grad_()
        whole = block_scaled_matmul(leaf, weight.data, None, weight.scale, activation="relu")
        (expected,) = torch.autograd.grad(whole.sum(), leaf)
        with LocalTensorMode(4):
            b, scale = (
                distribute_tensor(t, line.mesh, (Replicate(),)) for t in (weight.data, without_e8m0(weight.scale))
            )
            placed = distribute_tensor(a, line.mesh, (Shard(0),)).requires_grad_()
            y = block_scaled_matmul(placed, b, None, scale, activation="relu")
            (gradient,) = torch.autograd.grad(y.sum(), placed)
            actual = gradient.full_tensor().reconcile()
        assert gradient.placements == (Shard(0),)
        assert torch.equal(actual, expected)
