"""Float32 on Hopper's tensor cores: each number as three bfloat16, of whose products six count (layout/encoding.h)."""

from __future__ import annotations

import math

import pytest
import torch
from operands import LAYOUTS, full_precision, in_layout, integers, place
from reference import OUT_DTYPES, assert_exact, check_matmul
from tile_table import (
    HOPPER_FLOAT32_ROWS,
    NO_HOPPER_ROWS,
    TABLE,
    Row,
    each_row,
    each_row_and_layout,
    last_config,
    on_hopper,
)
from torch import Tensor

import tileon_ops

pytestmark = pytest.mark.gpu

matmul = torch.ops.tileon.matmul
each = each_row(HOPPER_FLOAT32_ROWS, NO_HOPPER_ROWS)
SIMT = next((row for row in TABLE if row.config.family == "simt"), None)
# Whose parts' products may overflow by themselves, and below what the third part holds.
OUT_OF_RANGE = (math.inf, -math.inf, math.nan, 3.4e38, -3.4e38, 1e21, 1.01 * 2.0**56, 1.2345678 * 2.0**-120, 1e-42)


def same_bits(x: Tensor, y: Tensor) -> bool:
    return torch.equal(x.nan_to_num(nan=7.0), y.nan_to_num(nan=7.0)) and torch.equal(x.isnan(), y.isnan())


def portable(a: Tensor, b: Tensor) -> Tensor:
    """By one multiply-add after another, as the portable kernels for products of some size: k is not sliced where
    results are batch invariant."""
    assert SIMT is not None
    with tileon_ops.batch_invariant():
        return SIMT.run(a, b)


@each_row_and_layout(HOPPER_FLOAT32_ROWS, NO_HOPPER_ROWS)
def test_every_bit_of_both_operands_counts(row: Row, layout: str) -> None:
    """Integers whose parts are of all three planes, and whose sums float32 holds."""
    for m, n, k in ((1, 1, 1), (200, 300, 8), (333, 77, 200), (65, 129, 1000)):
        large = integers(m, k, dtype=torch.float32, device="cuda", high=2**23 // k)
        small = integers(k, n, dtype=torch.float32, device="cuda", seed=1, high=1)
        for a, b in ((large, small), (small.t(), large.t())):
            actual = row.run(*in_layout(a, b, layout, offset=1))
            assert_exact(actual, a.double() @ b.double(), torch.float32, f"{m}x{n}x{k}")


@each
@pytest.mark.parametrize("shape", [(512, 512, 1), (512, 512, 33), (512, 512, 4096), (64, 64, 65536)], ids=str)
@pytest.mark.parametrize("kind", ["normal", "of one sign", "of every size", "one far above"])
def test_no_less_accurate_than_one_multiply_add_after_another(row: Row, kind: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a = full_precision(m, k, dtype=torch.float32, device="cuda")
    b = full_precision(k, n, dtype=torch.float32, device="cuda", seed=1)
    if kind == "of one sign":
        a, b = a.abs(), b.abs()
    elif kind == "of every size":
        a, b = a * torch.logspace(-8, 8, k, device="cuda"), b * torch.logspace(-8, 8, n, device="cuda")
    elif kind == "one far above":
        a[:, k // 2] = 1e6
    exact, scale = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    errors = [(actual.double() - exact).abs() / scale for actual in (row.run(a, b), portable(a, b))]
    rms, rms_portable = (error.square().mean().sqrt().item() for error in errors)
    assert errors[0].max().item() <= (4 + 2 * k**0.5) * 2.0**-23
    assert rms <= max(rms_portable, 2.0**-24), f"{rms:.3g}, portable {rms_portable:.3g}"


@each
def test_numbers_that_are_not_three_bfloat16_are_multiplied_by_the_portable_kernels(row: Row) -> None:
    """One such number anywhere, in a full tile or in one that reaches past the end."""
    a = full_precision(700, 150, dtype=torch.float32, device="cuda")
    b = full_precision(150, 330, dtype=torch.float32, device="cuda", seed=1)
    for value in OUT_OF_RANGE:
        for at in ((0, 0), (70, 64), (699, 149)):
            changed = a.clone()
            changed[at] = value
            assert same_bits(row.run(changed, b), portable(changed, b)), f"a{at} = {value}"
        changed = b.clone()
        changed[149, 329] = value
        assert same_bits(row.run(a, changed), portable(a, changed)), f"b = {value}"
    assert not torch.equal(row.run(a, b), portable(a, b)), "all others stay with the tensor cores"


@each
def test_sums_that_overflow_keep_their_sign(row: Row) -> None:
    """Products of parts may have another sign than the whole, and overflow before it."""
    a = full_precision(64, 256, dtype=torch.float32, device="cuda").abs() * 1e21
    b = full_precision(256, 64, dtype=torch.float32, device="cuda", seed=1).abs() * 1e21
    assert torch.equal(row.run(a, b), torch.full((64, 64), math.inf, device="cuda"))
    assert torch.equal(row.run(-a, b), torch.full((64, 64), -math.inf, device="cuda"))


@each
def test_small_and_large_numbers(row: Row) -> None:
    """Parts down to bfloat16's subnormal numbers, and products and sums down to float32's."""
    a = full_precision(130, 96, dtype=torch.float32, device="cuda")
    b = full_precision(96, 200, dtype=torch.float32, device="cuda", seed=1)
    a, b = a.sign() * a.abs().clamp(0.01, 4), b.sign() * b.abs().clamp(0.01, 4)
    for power_a, power_b in ((-103, 0), (-103, 100), (-70, -70), (120, -120), (60, 60), (0, -103)):
        small_a, small_b = a * 2.0**power_a, b * 2.0**power_b
        check_matmul(row.run(small_a, small_b), small_a, small_b, what=f"2^{power_a}, 2^{power_b}")


@each
@pytest.mark.parametrize("out_dtype", OUT_DTYPES[torch.float32], ids=str)
def test_epilogue_and_what_it_keeps(row: Row, out_dtype: torch.dtype) -> None:
    a = full_precision(150, 136, dtype=torch.float32, device="cuda")
    b = full_precision(136, 336, dtype=torch.float32, device="cuda", seed=1)
    bias = full_precision(336, dtype=torch.float32, device="cuda", seed=2)
    for activation in ("none", "relu", "leaky_relu", "gelu"):
        actual = row.run(a, b, bias, activation=activation, slope=0.2, out_dtype=out_dtype)
        check_matmul(actual, a, b, bias, activation=activation, slope=0.2, out_dtype=out_dtype, what=activation)


@each
def test_the_bits_are_the_same_every_time(row: Row) -> None:
    a = full_precision(1000, 777, dtype=torch.float32, device="cuda")
    b = full_precision(777, 1300, dtype=torch.float32, device="cuda", seed=1)
    first = row.run(a, b)
    for layout in LAYOUTS:
        assert torch.equal(row.run(*in_layout(a, b, layout, pad=3)), first)


@on_hopper
@pytest.mark.parametrize("activation", ["leaky_relu", "gelu"])
def test_the_activations_argument_is_kept(activation: str) -> None:
    a = full_precision(1000, 800, dtype=torch.float32, device="cuda")
    b = full_precision(800, 1100, dtype=torch.float32, device="cuda", seed=1)
    bias = full_precision(1100, dtype=torch.float32, device="cuda", seed=2)
    out, argument = torch.ops.tileon._matmul_with_preactivation(a, b, bias, activation=activation)
    assert last_config().route == "bf16x6"
    check_matmul(argument, a, b, bias)
    check_matmul(out, a, b, bias, activation=activation)


@on_hopper
def test_nothing_outside_of_out_is_written() -> None:
    a = integers(3, 900, 700, dtype=torch.float32, device="cuda")
    b = integers(700, 1003, dtype=torch.float32, device="cuda", seed=1)
    expected = a.double() @ b.double()
    for options in ({}, {"pad": 3}, {"offset": 1}, {"transposed": True, "pad": 5}, {"step": 2}, {"batch_last": True}):
        out = place(torch.full((3, 900, 1003), math.nan, device="cuda"), **options)
        matmul.out(a, b, out=out.view)
        assert last_config().route == "bf16x6"
        assert_exact(out.view, expected, torch.float32, str(options))
        assert out.margin_is_intact(), str(options)


@on_hopper
def test_a_graph_replays_with_other_numbers_and_goes_back_to_the_tensor_cores() -> None:
    """Which kernels compute it is decided on the GPU, at every replay anew."""
    a = full_precision(1024, 1024, dtype=torch.float32, device="cuda")
    b = full_precision(1024, 1024, dtype=torch.float32, device="cuda", seed=1)
    plain = matmul(a, b)
    assert last_config().route == "bf16x6"
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = matmul(a, b)
    kept = a[1023, 1023].clone()
    for value in (kept, torch.tensor(math.inf), kept, torch.tensor(1e-42), kept):
        a[1023, 1023] = value
        graph.replay()
        assert same_bits(out, plain if value is kept else portable(a, b)), str(value)
