"""vmap of `block_scaled_matmul` with a 16-bit `a`, float32 scales, or a global scale a row: a loop's bits, in one call.

Operands are small integers, so every order of summation gives the same bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from operands import integers
from test_vmap_quantized import V, check, counted
from torch import Tensor
from weights import FLOAT32_SCALED, GRANULARITIES, each_weight, exact_weight, scale_shape

op = torch.ops.tileon.block_scaled_matmul
backward_op = torch.ops.tileon._block_scaled_backward

ROWS = (1, 5, 128, 130)  # of a sample: one, less than a block, a block, more
Dims = tuple[int | None, ...]


@pytest.fixture(autouse=True)
def _no_fallback(recwarn: pytest.WarningsRecorder) -> Any:
    yield
    assert not any("performance drop" in str(warning.message) for warning in recwarn)


def samples(name: str, rows: int, k: int, device: torch.device, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Data and scales of V operands, stacked."""
    each = [exact_weight(name, rows, k, packed=True, seed=seed + i) for i in range(V)]
    return torch.stack([w.data for w in each]).to(device), torch.stack([w.scale for w in each]).to(device)


def product(
    a: Tensor, b: Tensor, scale_b: Tensor, bias: Tensor | None = None, global_scale: Tensor | None = None
) -> Tensor:
    result: Tensor = op(a, b, None, scale_b, bias, global_scale, activation="relu", out_dtype=torch.float32)
    return result


def both_scaled(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> Tensor:
    result: Tensor = op(a, b, scale_a, scale_b, out_dtype=torch.float32)
    return result


def calls_of(function: Callable[..., Any], in_dims: Dims, *tensors: Tensor) -> int:
    return check(function, in_dims, *tensors)["block_scaled_matmul"]


class TestWeightOnly:
    @each_weight
    def test_is_one_call_where_rows_or_the_weight_are_mapped(self, device: torch.device, name: str) -> None:
        for m, n in ((5, 130), (1, 1), (3, 128)):
            a = integers(V, m, 64, dtype=torch.bfloat16, device=device)
            b, scale = samples(name, n, 64, device)
            bias = integers(V, n, dtype=torch.float32, device=device, seed=3)
            one = torch.tensor(0.5, device=device)
            of_rows = torch.full((V, m, 1), 0.5, device=device) * torch.arange(1, V + 1, device=device)[:, None, None]
            for in_dims, tensors in (
                ((0, None, None), (a, b[0], scale[0])),
                ((1, None, None, None), (a.movedim(0, 1), b[0], scale[0], bias[0])),
                ((0, None, None, None, None), (a, b[0], scale[0], bias[0], one)),
                ((0, None, None, None, 0), (a, b[0], scale[0], bias[0], of_rows)),
                ((0, None, None, None, 1), (a, b[0], scale[0], bias[0], of_rows.movedim(0, 1))),
                ((0, None, None, None, None), (a, b[0], scale[0], bias[0], of_rows[0])),
                ((None, 0, 0), (a[0], b, scale)),
                ((None, 0, None), (a[0], b, scale[0])),
                ((None, None, 0), (a[0], b[0], scale)),
                ((None, 0, 0, 0), (a[0], b, scale, bias)),
                ((None, 0, 0, None, None), (a[0], b, scale, bias[0], of_rows[0])),
                ((None, 1, 0, 1), (a[0], b.movedim(0, 1), scale, bias.t())),
            ):
                assert calls_of(product, in_dims, *tensors) == 1, (in_dims, m, n)

    def test_is_a_call_for_each_otherwise(self, device: torch.device) -> None:
        a = integers(V, 2, 64, dtype=torch.bfloat16, device=device)
        b, scale = samples("int8_row", 5, 64, device)
        bias, each = torch.ones(V, 5, device=device), torch.tensor([1.0, 2, 4], device=device)
        of_rows = each[:, None, None].expand(V, 2, 1)
        for in_dims, tensors in (
            ((0, 0, 0), (a, b, scale)),
            ((0, None, None, 0), (a, b[0], scale[0], bias)),
            ((None, None, None, 0), (a[0], b[0], scale[0], bias)),
            ((0, None, None, None, 0), (a, b[0], scale[0], bias[0], each)),
            ((None, None, None, None, 0), (a[0], b[0], scale[0], bias[0], of_rows)),
            ((None, 0, 0, None, 0), (a[0], b, scale, bias[0], of_rows)),
        ):
            assert calls_of(product, in_dims, *tensors) == V, in_dims

    def test_no_samples(self, device: torch.device) -> None:
        a = torch.ones(0, 2, 64, dtype=torch.float16, device=device)
        weight = exact_weight("float8_e4m3fn_tensor", 5, 64)
        b, scale = weight.data.to(device), weight.scale.to(device)
        assert torch.vmap(product, (0, None, None))(a, b, scale).shape == (0, 2, 5)
        of_none = torch.vmap(product, (None, 0, 0))(a.new_ones(2, 64), b.expand(0, 5, 64), scale.expand(0))
        assert of_none.shape == (0, 2, 5)

    def test_errors_are_those_of_one_sample(self, device: torch.device) -> None:
        a = integers(V, 2, 64, dtype=torch.bfloat16, device=device)
        b, scale = samples("float8_e4m3fn_row", 5, 64, device)
        for bad in ((a[:, 0], b, scale), (a.float(), b, scale), (a, b, scale[:, 1:]), (a, b[..., 1:], scale)):
            with pytest.raises(RuntimeError, match=r"^block_scaled_matmul: ") as alone:
                product(*(t[0] for t in bad))
            for in_dims in itertools.product((None, 0), repeat=3):
                if any(dim is not None for dim in in_dims):
                    tensors = tuple(t[0] if dim is None else t for t, dim in zip(bad, in_dims, strict=True))
                    with pytest.raises(RuntimeError) as mapped:
                        torch.vmap(product, in_dims)(*tensors)
                    assert str(mapped.value) == str(alone.value)

    def test_under_autocast_the_samples_are_cast_first(self, device: torch.device) -> None:
        a = integers(V, 2, 64, dtype=torch.float32, device=device)
        weight = exact_weight("mxfp8", 5, 64)
        b, scale = weight.data.to(device), weight.scale.to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            mapped, calls = counted(lambda: torch.vmap(lambda a: op(a, b, None, scale))(a))
            alone = torch.stack([op(each, b, None, scale) for each in a])
        assert calls["block_scaled_matmul"] == 1
        assert mapped.dtype == torch.bfloat16
        assert torch.equal(mapped, alone)


class TestFloat32Scales:
    @pytest.mark.parametrize("name", FLOAT32_SCALED)
    @pytest.mark.parametrize("rows", ROWS)
    def test_is_one_call_where_one_operand_is_mapped(self, device: torch.device, rows: int, name: str) -> None:
        """Scales of 128 x 128 elements are folded as they are, or become finer where blocks would be cut."""
        k = 200
        a, scale_a = samples(name, rows, k, device)
        other = exact_weight("int8_tensor" if name.startswith("int8") else "float8_e5m2_row", 7, k)
        b, scale_b = other.data.to(device), other.scale.to(device)
        for in_dims, tensors in (
            ((0, None, 0, None), (a, b, scale_a, scale_b)),
            ((0, None, None, None), (a, b, scale_a[0], scale_b)),
            ((None, None, 0, None), (a[0], b, scale_a, scale_b)),
            ((None, 0, None, 0), (b, a, scale_b, scale_a)),
            ((None, 0, None, None), (b, a, scale_b, scale_a[0])),
        ):
            assert calls_of(both_scaled, in_dims, *tensors) == 1, in_dims

    @pytest.mark.parametrize("granularity", GRANULARITIES)
    def test_of_every_dimension_that_is_mapped(self, device: torch.device, granularity: str) -> None:
        a, scale_a = samples(f"float8_e4m3fn_{granularity}", 130, 200, device)
        weight = exact_weight("float8_e4m3fn_row", 7, 200)
        b, scale_b = weight.data.to(device), weight.scale.to(device)
        for dim in range(len(scale_shape(granularity, 130, 200)) + 1):
            moved = scale_a.movedim(0, dim)
            assert calls_of(both_scaled, (0, None, dim, None), a, b, moved, scale_b) == 1

    def test_of_nested_maps_is_every_pair(self, device: torch.device) -> None:
        a, scale_a = samples("float8_e4m3fn_1x128", 5, 200, device)
        b, scale_b = samples("float8_e4m3fn_128x128", 130, 200, device, seed=9)
        pairs = torch.vmap(torch.vmap(both_scaled, (None, 0, None, 0)), (0, None, 0, None))
        actual, calls = counted(lambda: pairs(a, b, scale_a, scale_b))
        assert calls["block_scaled_matmul"] == 1
        for i, j in itertools.product(range(V), range(V)):
            assert torch.equal(actual[i, j], both_scaled(a[i], b[j], scale_a[i], scale_b[j]))


class TestBackward:
    @each_weight
    def test_is_one_call_where_gradients_alone_are_mapped(self, device: torch.device, name: str) -> None:
        grad = integers(V, 3, 130, dtype=torch.bfloat16, device=device)
        b, scale = samples(name, 130, 64, device)
        one = torch.tensor(0.5, device=device)
        of_rows = torch.arange(1.0, 1 + 3 * V, device=device).view(V, 3, 1)
        for in_dims, tensors, calls in (
            ((0, None, None), (grad, b[0], scale[0]), 1),
            ((1, None, None, None), (grad.movedim(0, 1), b[0], scale[0], one), 1),
            ((0, None, None, None), (grad, b[0], scale[0], of_rows[0]), 1),
            ((0, None, None, 0), (grad, b[0], scale[0], of_rows), 1),
            ((0, None, None, 0), (grad, b[0], scale[0], of_rows[:, 0, 0]), V),
            ((0, 0, 0), (grad, b, scale), V),
            ((None, 0, None), (grad[0], b, scale[0]), V),
        ):
            assert check(backward_op, in_dims, *tensors)["_block_scaled_backward"] == calls, in_dims

    def test_gradients_of_each_sample_are_one_product(self, device: torch.device) -> None:
        weight = exact_weight("nvfp4", 16, 64)
        b, scale = weight.data.to(device), weight.scale.to(device)
        a = integers(V, 2, 64, dtype=torch.float16, device=device)

        def loss(a: Tensor) -> Tensor:
            return op(a, b, None, scale, activation="relu", out_dtype=torch.float32).sum()  # type: ignore[no-any-return]

        mapped, calls = counted(lambda: torch.vmap(torch.func.grad(loss))(a))
        assert (calls["block_scaled_matmul"], calls["_block_scaled_backward"]) == (1, 1)
        assert torch.equal(mapped, torch.stack([torch.func.grad(loss)(each) for each in a]))
