"""Hopper's kernels of codes with float32 scales, each config by its number: scales of rows that the store applies, and
scales of blocks of 128 k that the main loop applies. Sums exact in float32 first, then scales of any size."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from block_scaled_reference import assert_product
from block_scaled_table import HAS_HOPPER_GPU, NO_HOPPER_GPU
from scaled_operands import Scaled, expected, make, spread

import tileon_ops
from tileon_ops._rules import configs
from tileon_ops._rules.configs import Config

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HAS_HOPPER_GPU, reason=NO_HOPPER_GPU)]

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
CONFIGS = [c for c in configs.block_scaled() if c.backend == "sm90" and c.route.startswith(("row_", "block_scales"))]
PAIRS = {
    "row_scales": [("e4m3_row", "e4m3_row"), ("e4m3_tensor", "e4m3_row"), ("e4m3_row", "e4m3_tensor")],
    "block_scales": [("e4m3_1x128", "e4m3_128x128"), ("e4m3_128x128", "e4m3_128x128"), ("e4m3_row", "e4m3_128x128")],
    "int8": [("int8_row", "int8_row"), ("int8_tensor", "int8_row")],
}
# Edges everywhere; whole tiles; more tiles than SMs, so that a CTA has several.
SIZES = [(200, 264, 656), (128, 384, 256), (1300, 1096, 144)]

each_config = pytest.mark.parametrize("config", CONFIGS, ids=[config.name for config in CONFIGS])


def pairs_of(config: Config) -> list[tuple[str, str]]:
    if config.operands[0].startswith("int8"):
        return PAIRS["int8"]
    return PAIRS["block_scales" if config.route == "block_scales" else "row_scales"]


def run(config: Config, a: Scaled, b: Scaled, *others: torch.Tensor | None, **options: object) -> torch.Tensor:
    result: torch.Tensor = torch.ops.tileon._block_scaled_matmul_with_config(
        a.data, b.data, a.scale, b.scale, *others, config=config.index, **options
    )
    assert tileon_ops.last_kernel() == config.name
    return result


def with_scale(operand: Scaled, scale: torch.Tensor) -> Scaled:
    """The same codes under other scales, of the same shape."""
    rows, k = operand.data.shape
    return replace(operand, scale=scale, scales=spread(scale, rows, k).double())


@each_config
def test_sums_of_small_whole_numbers_are_exact(gpu: torch.device, config: Config) -> None:
    for a_name, b_name in pairs_of(config):
        for m, n, k in SIZES:
            a, b = make(a_name, m, k, True).to(gpu), make(b_name, n, k, True).to(gpu)
            for out_dtype in (F32, BF16):
                actual = run(config, a, b, out_dtype=out_dtype)
                assert_product(actual, expected(a, b, out_dtype=out_dtype, bound=0.0), f"{a_name} {m}x{n}x{k}")


@each_config
def test_the_sums_are_finished(gpu: torch.device, config: Config) -> None:
    """By the formulas that TMA's store applies and by others, for outputs that TMA writes and for others."""
    a_name, b_name = pairs_of(config)[0]
    m, n, k = 150, 200, 272
    a, b = make(a_name, m, k).to(gpu), make(b_name, n, k).to(gpu)
    bias, scale = torch.linspace(-30, 30, n, device=gpu), torch.full((), 0.75, device=gpu)
    for activation, out_dtype in (("none", F16), ("leaky_relu", BF16), ("relu", F16), ("gelu", BF16), ("relu", F32)):
        actual = run(config, a, b, bias, scale, activation=activation, slope=0.25, out_dtype=out_dtype)
        wanted = expected(a, b, bias, scale, activation=activation, slope=0.25, out_dtype=out_dtype)
        assert_product(actual, wanted, f"{activation} {out_dtype}")


@each_config
def test_scales_of_any_size(gpu: torch.device, config: Config) -> None:
    """Products of scales are in range where neither scale is, whole tiles and rows of one among ordinary ones."""
    a_name, b_name = pairs_of(config)[0]
    m, n, k = 200, 264, 272
    a, b = make(a_name, m, k, True).to(gpu), make(b_name, n, k, True).to(gpu)
    assert a.scale is not None
    assert b.scale is not None
    for of_a, of_b in ((2.0**100, 2.0**-110), (2.0**-140, 2.0**110), (2.0**-70, 2.0**-70)):
        scale_a, scale_b = a.scale.clone(), b.scale.clone()
        scale_a[3:160] *= of_a
        scale_b[-1:] *= of_b
        one, other = with_scale(a, scale_a), with_scale(b, scale_b)
        wanted = expected(one, other, out_dtype=F32, bound=2.0**-22)
        assert_product(run(config, one, other, out_dtype=F32), wanted, f"{of_a} {of_b}")
        rounded = run(config, one, other, out_dtype=BF16)
        assert_product(rounded, expected(one, other, out_dtype=BF16, bound=2.0**-22), f"{of_a} {of_b} bfloat16")
    scale_a, scale_b = a.scale.clone(), b.scale.clone()
    scale_a[5], scale_b[0] = float("nan"), 0.0
    actual = run(config, with_scale(a, scale_a), with_scale(b, scale_b), out_dtype=BF16)
    assert bool(actual[5].isnan().all())
    columns = 128 if config.route == "block_scales" else 1
    assert bool((actual[:5, :columns] == 0).all())
    assert bool(actual[6:].isfinite().all())


@each_config
def test_the_same_bits_every_time(gpu: torch.device, config: Config) -> None:
    a_name, b_name = pairs_of(config)[0]
    a, b = make(a_name, 200, 656).to(gpu), make(b_name, 264, 656).to(gpu)
    first = run(config, a, b, out_dtype=F32)
    for _ in range(3):
        assert torch.equal(first, run(config, a, b, out_dtype=F32))


@pytest.mark.sanitizer
@each_config
def test_operands_end_within_tiles(gpu: torch.device, config: Config) -> None:
    """Allocations without room to spare, for compute-sanitizer."""
    a_name, b_name = pairs_of(config)[0]
    tile_m, tile_n, block_k = config.tile
    m, n, k = tile_m + 1, tile_n + 3, block_k + 16
    a, b = make(a_name, m, k, True), make(b_name, n, k, True)
    actual = run(config, a.to(gpu), b.to(gpu), torch.ones(n, device=gpu), activation="leaky_relu", out_dtype=BF16)
    wanted = expected(a, b, torch.ones(n), activation="leaky_relu", out_dtype=BF16, bound=0.0)
    assert_product(actual.cpu(), wanted)
