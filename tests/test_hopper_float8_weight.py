"""Hopper's kernels of a weight of mxfp4 that becomes e5m2 in the main loop, beside the fold of mxfp4 or mxfp8, each config
by its number: exact sums first, then the bound of e5m2, epilogues, and what no narrow row holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from block_scaled_reference import assert_product
from block_scaled_table import HAS_HOPPER_GPU, NO_HOPPER_GPU
from scaled_operands import Scaled, expected, make
from torch import Tensor

import tileon_ops
from tileon_ops._rules import configs
from tileon_ops._rules.configs import Config

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HAS_HOPPER_GPU, reason=NO_HOPPER_GPU)]

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
E8M0 = torch.float8_e8m0fnu
NAME = "sm90_weight_float8"
CONFIGS = [config for config in configs.block_scaled() if config.name.startswith(NAME)]
# One block of k; edges everywhere; whole tiles; several tiles of a CTA; one row.
SIZES = [(33, 17, 128), (200, 264, 384), (128, 256, 256), (1300, 1100, 128), (1, 40, 640)]
TYPICAL = 2.0**-12  # of sum |a||b|, as docs/block_scaled_on_hopper.md says of e5m2

CASES = [(config, of_a) for config in CONFIGS for of_a in ("mxfp4", "mxfp8")]
each_case = pytest.mark.parametrize(("config", "of_a"), CASES, ids=[f"{config.name}-{of_a}" for config, of_a in CASES])


def run(config: Config, a: Scaled, b: Scaled, *others: Tensor | None, **options: object) -> Tensor:
    op = torch.ops.tileon._block_scaled_matmul_with_config
    result: Tensor = op(a.data, b.data, packed(a), packed(b), *others, config=config.index, **options)
    assert tileon_ops.last_kernel() == config.name
    return result


def packed(operand: Scaled) -> Tensor:
    assert operand.scale is not None
    return tileon_ops.pack_scales(operand.scale)


def under(operand: Scaled, scale: Tensor) -> Scaled:
    """The same codes under other scales, bytes of (rows, k / 32)."""
    assert operand.scale is not None
    factor = torch.exp2(scale.double() - operand.scale.view(torch.uint8).double()).repeat_interleave(32, 1)
    return replace(operand, scale=scale.view(E8M0), elements=operand.elements * factor)


def bytes_of(operand: Scaled) -> Tensor:
    assert operand.scale is not None
    return operand.scale.view(torch.uint8).clone()


@each_case
def test_sums_of_small_whole_numbers_are_exact(gpu: torch.device, config: Config, of_a: str) -> None:
    for m, n, k in SIZES:
        a, b = make(of_a, m, k, True).to(gpu), make("mxfp4", n, k, True).to(gpu)
        for out_dtype in (BF16, F32, F16):
            wanted = expected(a, b, out_dtype=out_dtype, bound=0.0)
            assert_product(run(config, a, b, out_dtype=out_dtype), wanted, f"{m}x{n}x{k}")


@each_case
def test_every_k_meets_its_own(gpu: torch.device, config: Config, of_a: str) -> None:
    """A row of `a` with a number at one place of 256 alone: the weight's element there, each code under each scale that
    e5m2 holds beside another."""
    k, rows = 256, 128
    codes = torch.arange(rows * k, dtype=torch.int64).reshape(rows, k) % 251 % 16
    bytes_ = (100 + (torch.arange(rows)[:, None] * 5 + torch.arange(k // 32)[None] * 10) % 27).to(torch.uint8)
    magnitudes = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6]).double()
    values = magnitudes[codes & 7] * torch.where(codes >= 8, -1.0, 1.0)
    values = values * torch.exp2(bytes_.double() - 127).repeat_interleave(32, 1)
    nibbles = codes.to(torch.uint8)
    data = (nibbles[:, ::2] | nibbles[:, 1::2] << 4).view(torch.float4_e2m1fn_x2)
    b = Scaled(data, bytes_.view(E8M0), values, torch.ones(1, 1).double())
    places = torch.eye(k, dtype=torch.uint8) * 2  # 1.0
    one = (places[:, ::2] | places[:, 1::2] << 4).view(torch.float4_e2m1fn_x2)
    if of_a == "mxfp8":
        one = torch.eye(k).to(torch.float8_e4m3fn)
    scale = torch.full((k, k // 32), 127, dtype=torch.uint8).view(E8M0)
    a = Scaled(one, scale, torch.eye(k).double(), torch.ones(1, 1).double())
    actual = run(config, a.to(gpu), b.to(gpu), out_dtype=F32)
    assert torch.equal(actual.cpu().double(), values.t())


@each_case
def test_the_sums_are_finished(gpu: torch.device, config: Config, of_a: str) -> None:
    m, n, k = 150, 200, 384
    a, b = make(of_a, m, k, True).to(gpu), make("mxfp4", n, k, True).to(gpu)
    bias, scale = torch.linspace(-30, 30, n, device=gpu), torch.full((), 0.75, device=gpu)
    for activation, out_dtype in (("none", BF16), ("leaky_relu", BF16), ("relu", F16), ("gelu", BF16), ("relu", F32)):
        actual = run(config, a, b, bias, scale, activation=activation, slope=0.25, out_dtype=out_dtype)
        wanted = expected(a, b, bias, scale, activation=activation, slope=0.25, out_dtype=out_dtype)
        assert_product(actual, wanted, f"{activation} {out_dtype}")


@each_case
@pytest.mark.parametrize("binades", [0, 3, 9])
def test_sums_err_by_what_e5m2_may(gpu: torch.device, config: Config, of_a: str, binades: int) -> None:
    m, n, k = 130, 140, 1024
    a, b = make(of_a, m, k), make("mxfp4", n, k)
    draw = torch.Generator().manual_seed(3)
    scales = [torch.randint(120, 121 + binades, (rows, k // 32), generator=draw, dtype=torch.uint8) for rows in (m, n)]
    a, b = under(a, scales[0]).to(gpu), under(b, scales[1]).to(gpu)
    assert_product(run(config, a, b, out_dtype=F32), expected(a, b, out_dtype=F32, bound=TYPICAL))


@each_case
def test_what_e5m2_does_not_hold_is_computed_anew(gpu: torch.device, config: Config, of_a: str) -> None:
    """Scales of a weight's row more than 26 binades apart, which a fold of `a` rounds instead, and scales that are very
    large or small. A scale that is NaN makes its row NaN alone."""
    m, n, k = 70, 140, 256
    a, b = make(of_a, m, k, True), make("mxfp4", n, k, True)
    clean = run(config, a.to(gpu), b.to(gpu), out_dtype=F32)
    for operand in (a, b):
        for low, high in ((90, 117), (3, 3), (200, 200)):
            if operand is a and low < high:
                continue
            scale = bytes_of(operand)
            scale[5], scale[5, 2] = high, low
            pair = [under(each, scale) if each is operand else each for each in (a, b)]
            actual = run(config, *(each.to(gpu) for each in pair), out_dtype=F32)
            assert_product(actual, expected(*(each.to(gpu) for each in pair), out_dtype=F32), f"{low} {high}")
    scale = bytes_of(b)
    scale[7, -1] = 255
    after = run(config, a.to(gpu), replace(b, scale=scale.view(E8M0)).to(gpu), out_dtype=F32)
    assert bool(after[:, 7].isnan().all())
    columns = torch.tensor([column for column in range(n) if column != 7], device=gpu)
    assert torch.equal(after[:, columns], clean[:, columns])


@each_case
def test_blocks_of_zeros_fit_under_any_scale(gpu: torch.device, config: Config, of_a: str) -> None:
    m, n, k = 70, 140, 256
    a, b = make(of_a, m, k, True), make("mxfp4", n, k, True)
    codes = b.data.view(torch.uint8).clone()
    codes[:, 16:32] = 0x80  # 0 and -0
    elements = b.elements.clone()
    elements[:, 32:64] = 0
    scale = bytes_of(b)
    scale[:, 1] = 40
    b = replace(b, data=codes.view(b.data.dtype), scale=scale.view(E8M0), elements=elements)
    assert_product(run(config, a.to(gpu), b.to(gpu), out_dtype=F32).cpu(), expected(a, b, out_dtype=F32, bound=0.0))


@each_case
def test_a_fold_rounds_the_small_elements_of_a_row(gpu: torch.device, config: Config, of_a: str) -> None:
    """By a multiple of 2^-16 of the row's largest at most; a NaN scale makes its row NaN."""
    m, n, k = 130, 140, 1024
    a, b = make(of_a, m, k), make("mxfp4", n, k)
    draw = torch.Generator().manual_seed(4)
    a = under(a, torch.randint(107, 128, (m, k // 32), generator=draw, dtype=torch.uint8))
    scale = bytes_of(a)
    scale[9, 7] = 255
    spoiled = replace(a, scale=scale.view(E8M0)).to(gpu)
    actual = run(config, spoiled, b.to(gpu), out_dtype=F32).double().cpu()
    assert bool(actual[9].isnan().all())
    wanted = a.elements @ b.elements.t()
    allowed = TYPICAL * (a.elements.abs() @ b.elements.abs().t())
    allowed += 2.0**-17 * a.elements.abs().amax(1, keepdim=True) * b.elements.abs().sum(1)
    others = torch.arange(m) != 9
    assert bool(((actual - wanted).abs() <= allowed)[others].all())


@each_case
def test_few_tiles_are_shared(gpu: torch.device, config: Config, of_a: str) -> None:
    """Exact sums are the same; other bits than of whole sums say that CTAs add theirs."""
    m, n, k = 40, 130, 6144
    a, b = make(of_a, m, k, True).to(gpu), make("mxfp4", n, k, True).to(gpu)
    assert_product(run(config, a, b, out_dtype=F32), expected(a, b, out_dtype=F32, bound=0.0))
    a, b = make(of_a, m, k).to(gpu), make("mxfp4", n, k).to(gpu)
    shared = run(config, a, b, out_dtype=F32)
    with tileon_ops.batch_invariant():
        whole = run(config, a, b, out_dtype=F32)
    assert_product(shared, expected(a, b, out_dtype=F32, bound=TYPICAL))
    assert_product(whole, expected(a, b, out_dtype=F32, bound=TYPICAL))
    assert not torch.equal(shared, whole)
    for _ in range(3):
        assert torch.equal(run(config, a, b, out_dtype=F32), shared)


@pytest.mark.sanitizer
@each_case
def test_operands_end_within_tiles(gpu: torch.device, config: Config, of_a: str) -> None:
    """Allocations without room to spare, for compute-sanitizer."""
    m, n, k = config.tile[0] + 1, config.tile[1] + 3, 128
    a, b = make(of_a, m, k, True), make("mxfp4", n, k, True)
    actual = run(config, a.to(gpu), b.to(gpu), torch.ones(n, device=gpu), activation="leaky_relu", out_dtype=BF16)
    wanted = expected(a, b, torch.ones(n), activation="leaky_relu", out_dtype=BF16, bound=0.0)
    assert_product(actual.cpu(), wanted)


def test_other_operands_are_refused(gpu: torch.device) -> None:
    config = CONFIGS[0]
    for of_a, of_b, k, reason in (
        ("mxfp4", "mxfp4", 96, "k is no multiple of 128"),
        ("mxfp4", "mxfp8", 128, "it takes a weight of mxfp4"),
        ("nvfp4", "nvfp4", 128, "it takes a weight of mxfp4"),
    ):
        a, b = make(of_a, 70, k, True).to(gpu), make(of_b, 140, k, True).to(gpu)
        with pytest.raises(RuntimeError, match=reason):
            run(config, a, b)


@pytest.mark.parametrize("of_a", ["mxfp4", "mxfp8"])
def test_some_hundred_rows_take_them(gpu: torch.device, of_a: str) -> None:
    """With fast_accum alone, which layers allow."""
    x, weight = (torch.randn(rows, 8192, device=gpu, dtype=BF16) for rows in (384, 8192))
    (a, scale_a), (b, scale_b) = tileon_ops.quantize(x, of_a)[:2], tileon_ops.quantize(weight, "mxfp4")[:2]
    torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b, fast_accum=True)
    assert tileon_ops.last_kernel().startswith(NAME), tileon_ops.last_kernel()
    torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b)
    assert not tileon_ops.last_kernel().startswith(NAME), tileon_ops.last_kernel()
