"""Hopper's kernels that decode a weight of mxfp4 or nvfp4 while the tensor core multiplies, each config by its number,
under a bfloat16 `a`: exact sums first, then epilogues, scales of any size, and what is no number."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from block_scaled_reference import assert_product
from block_scaled_table import HAS_HOPPER_GPU, NO_HOPPER_GPU
from scaled_operands import Scaled, expected, make

import tileon_ops
from tileon_ops._rules import configs
from tileon_ops._rules.configs import Config

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HAS_HOPPER_GPU, reason=NO_HOPPER_GPU)]

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
CONFIGS = [config for config in configs.block_scaled() if config.name.startswith("sm90_weight_fp4")]
# Edges everywhere; one block; whole tiles; several tiles of a CTA; one row; an end of k within a stage.
SIZES = [(200, 264, 352), (64, 128, 64), (256, 256, 256), (1300, 1100, 96), (1, 40, 160), (33, 17, 32)]

each_config = pytest.mark.parametrize("config", CONFIGS, ids=[config.name for config in CONFIGS])
each_weight = pytest.mark.parametrize("name", ["mxfp4", "nvfp4"])


def run(config: Config, a: Scaled, b: Scaled, *others: torch.Tensor | None, **options: object) -> torch.Tensor:
    result: torch.Tensor = torch.ops.tileon._block_scaled_matmul_with_config(
        a.data, b.data, None, b.scale, *others, config=config.index, **options
    )
    assert tileon_ops.last_kernel() == config.name
    return result


def packed(b: Scaled) -> Scaled:
    assert b.scale is not None
    return replace(b, scale=tileon_ops.pack_scales(b.scale))


@each_weight
@each_config
def test_sums_of_small_whole_numbers_are_exact(gpu: torch.device, config: Config, name: str) -> None:
    for m, n, k in SIZES:
        a, b = make("bfloat16", m, k, True).to(gpu), make(name, n, k, True).to(gpu)
        for out_dtype in (BF16, F32, F16):
            wanted = expected(a, b, out_dtype=out_dtype, bound=0.0)
            assert_product(run(config, a, packed(b), out_dtype=out_dtype), wanted, f"{m}x{n}x{k}")


@each_weight
def test_a_weight_that_tma_cannot_read_goes_another_way(gpu: torch.device, name: str) -> None:
    """Codes that begin between multiples of 16 bytes, and codes that do not lie side by side."""
    m, n, k = 200, 72, 96
    a, b = make("bfloat16", m, k, True).to(gpu), packed(make(name, n, k, True).to(gpu))
    wide = torch.full((n, 2 * k), 0x77, dtype=torch.uint8, device=gpu)
    for view in (wide[:, 3 : 3 + k // 2], wide[:, :k:2]):
        view.copy_(b.data)
        other = replace(b, data=view)
        with pytest.raises(RuntimeError, match="cannot read the strides or the alignment of `b`"):
            run(CONFIGS[0], a, other)
        actual = torch.ops.tileon.block_scaled_matmul(a.data, view, None, b.scale, out_dtype=F32)
        assert_product(actual, expected(a, b, out_dtype=F32, bound=0.0), tileon_ops.last_kernel())


@each_weight
@each_config
def test_the_sums_are_finished(gpu: torch.device, config: Config, name: str) -> None:
    m, n, k = 150, 200, 288
    a, b = make("bfloat16", m, k).to(gpu), make(name, n, k).to(gpu)
    bias, scale = torch.linspace(-30, 30, n, device=gpu), torch.full((), 0.75, device=gpu)
    for activation, out_dtype in (("none", BF16), ("leaky_relu", BF16), ("relu", BF16), ("gelu", BF16), ("relu", F32)):
        actual = run(config, a, packed(b), bias, scale, activation=activation, slope=0.25, out_dtype=out_dtype)
        wanted = expected(a, b, bias, scale, activation=activation, slope=0.25, out_dtype=out_dtype)
        assert_product(actual, wanted, f"{activation} {out_dtype}")


@each_config
def test_every_scale_of_mxfp4(gpu: torch.device, config: Config) -> None:
    """Elements under all bytes from 2^-127 to 2^117, each exact."""
    n, k = 256, 64
    a, b = make("bfloat16", 3, k, True), make("mxfp4", n, k, True)
    assert b.scale is not None
    bytes_ = torch.arange(n, dtype=torch.uint8).clamp(max=244)[:, None].expand(n, k // 32).contiguous()
    codes = b.data.view(torch.uint8)
    pairs = torch.stack([codes & 15, codes >> 4], -1).reshape(n, k).long()
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)[pairs & 7] * (1 - 2.0 * (pairs >> 3))
    elements = values * torch.exp2(bytes_[:, :1].double() - 127)
    weight = replace(b, scale=bytes_.view(torch.float8_e8m0fnu), elements=elements)
    actual = run(config, a.to(gpu), packed(weight.to(gpu)), out_dtype=F32)
    assert_product(actual, expected(a.to(gpu), weight.to(gpu), out_dtype=F32, bound=0.0))


@each_weight
@each_config
def test_what_is_no_number(gpu: torch.device, config: Config, name: str) -> None:
    """A NaN scale makes its row of the weight NaN, NaN or infinity in `a` its row; all else stays as it was."""
    m, n, k = 70, 140, 96
    a, b = make("bfloat16", m, k, True).to(gpu), make(name, n, k, True).to(gpu)
    assert b.scale is not None
    before = run(config, a, packed(b), out_dtype=F32)
    scale = b.scale.view(torch.uint8).clone()
    scale[7, -1] = 255 if name == "mxfp4" else 0x7F
    a.data[3, 5], a.data[9, 95] = float("inf"), float("nan")
    after = run(config, a, packed(replace(b, scale=scale.view(b.scale.dtype))), out_dtype=F32)
    assert bool(after[:, 7].isnan().all())
    assert bool(after[9].isnan().all())
    assert not bool(after[3].isfinite().any())
    rows = torch.tensor([row for row in range(m) if row not in (3, 9)], device=gpu)
    columns = torch.tensor([column for column in range(n) if column != 7], device=gpu)
    assert torch.equal(after[rows][:, columns], before[rows][:, columns])


@each_config
def test_the_same_bits_every_time(gpu: torch.device, config: Config) -> None:
    a, b = make("bfloat16", 200, 640).to(gpu), make("mxfp4", 264, 640).to(gpu)
    first = run(config, a, packed(b), out_dtype=F32)
    for _ in range(3):
        assert torch.equal(first, run(config, a, packed(b), out_dtype=F32))


@pytest.mark.sanitizer
@each_weight
@each_config
def test_operands_end_within_tiles(gpu: torch.device, config: Config, name: str) -> None:
    """Allocations without room to spare, for compute-sanitizer."""
    m, n, k = config.tile[0] + 1, config.tile[1] + 3, 96
    a, b = make("bfloat16", m, k, True), packed(make(name, n, k, True))
    actual = run(config, a.to(gpu), b.to(gpu), torch.ones(n, device=gpu), activation="leaky_relu", out_dtype=BF16)
    wanted = expected(a, b, torch.ones(n), activation="leaky_relu", out_dtype=BF16, bound=0.0)
    assert_product(actual.cpu(), wanted)
