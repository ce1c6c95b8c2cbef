"""Hopper's kernels that decode a weight of mxfp4, nvfp4 or mxfp8 while the tensor core multiplies, each config by its
number, beside an `a` of bfloat16, of fp4 also of float16, and beside codes that are prepared as bfloat16: exact sums
first, then epilogues, scales of any size, and what is no number."""

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
FAMILIES = {"sm90_weight_fp4": ("mxfp4", "nvfp4"), "sm90_weight_mxfp8": ("mxfp8",)}
# Each config with the weights that it takes, and those with what `a` may be.
CODES = [
    (config, name)
    for config in configs.block_scaled()
    for family, names in FAMILIES.items()
    for name in names
    if config.name.startswith(family)
]
CASES = [(*case, wide) for case in CODES for wide in ("bfloat16", "float16") if f"{wide}*{case[1]}" in case[0].operands]
FIRST = {name: config for config, name in reversed(CODES)}
# Of two operands with scales: what `a` is beside a weight.
PAIRS = {"mxfp4": ("mxfp4", "mxfp8"), "nvfp4": ("nvfp4",), "mxfp8": ("mxfp8", "mxfp4")}
# Edges everywhere; one block; whole tiles; several tiles of a CTA; one row; an end of k within a stage.
SIZES = [(200, 264, 352), (64, 128, 64), (256, 256, 256), (1300, 1100, 96), (1, 40, 160), (33, 17, 32)]

each_case = pytest.mark.parametrize(
    ("config", "name", "wide"), CASES, ids=[f"{config.name}-{name}-{wide}" for config, name, wide in CASES]
)
each_codes = pytest.mark.parametrize(("config", "name"), CODES, ids=[f"{config.name}-{name}" for config, name in CODES])
each_weight = pytest.mark.parametrize("name", list(PAIRS))


def run(config: Config, a: Scaled, b: Scaled, *others: torch.Tensor | None, **options: object) -> torch.Tensor:
    result: torch.Tensor = torch.ops.tileon._block_scaled_matmul_with_config(
        a.data, b.data, None if a.scale is None else packed(a).scale, b.scale, *others, config=config.index, **options
    )
    assert tileon_ops.last_kernel() == config.name
    return result


def packed(b: Scaled) -> Scaled:
    assert b.scale is not None
    return replace(b, scale=tileon_ops.pack_scales(b.scale))


@each_case
def test_sums_of_small_whole_numbers_are_exact(gpu: torch.device, config: Config, name: str, wide: str) -> None:
    for m, n, k in SIZES:
        a, b = make(wide, m, k, True).to(gpu), make(name, n, k, True).to(gpu)
        for out_dtype in (BF16, F32, F16):
            wanted = expected(a, b, out_dtype=out_dtype, bound=0.0)
            assert_product(run(config, a, packed(b), out_dtype=out_dtype), wanted, f"{m}x{n}x{k}")


@each_weight
def test_a_weight_that_tma_cannot_read_goes_another_way(gpu: torch.device, name: str) -> None:
    """Codes that begin between multiples of 16 bytes, and codes that do not lie side by side."""
    m, n, k = 200, 72, 96
    a, b = make("bfloat16", m, k, True).to(gpu), packed(make(name, n, k, True).to(gpu))
    columns = b.data.shape[1]
    wide = torch.full((n, 4 * k), 0x77, dtype=torch.uint8, device=gpu)
    for view in (wide[:, 3 : 3 + columns], wide[:, : 2 * columns : 2]):
        view.copy_(b.data.view(torch.uint8))
        view = view.view(b.data.dtype)
        other = replace(b, data=view)
        with pytest.raises(RuntimeError, match="cannot read the strides or the alignment of `b`"):
            run(FIRST[name], a, other)
        actual = torch.ops.tileon.block_scaled_matmul(a.data, view, None, b.scale, out_dtype=F32)
        assert_product(actual, expected(a, b, out_dtype=F32, bound=0.0), tileon_ops.last_kernel())


@each_case
def test_the_sums_are_finished(gpu: torch.device, config: Config, name: str, wide: str) -> None:
    m, n, k = 150, 200, 288
    a, b = make(wide, m, k).to(gpu), make(name, n, k).to(gpu)
    bias, scale = torch.linspace(-30, 30, n, device=gpu), torch.full((), 0.75, device=gpu)
    for activation, out_dtype in (("none", BF16), ("leaky_relu", BF16), ("relu", BF16), ("gelu", BF16), ("relu", F32)):
        actual = run(config, a, packed(b), bias, scale, activation=activation, slope=0.25, out_dtype=out_dtype)
        wanted = expected(a, b, bias, scale, activation=activation, slope=0.25, out_dtype=out_dtype)
        assert_product(actual, wanted, f"{activation} {out_dtype}")


@each_case
def test_every_scale(gpu: torch.device, config: Config, name: str, wide: str) -> None:
    """Elements under all bytes from 2^-127 to 2^117, each exact; of mxfp8 some are beyond bfloat16, of mxfp4 some are
    beyond float16, which holds those from 2^-17 to 2^12."""
    n, k = 256, 64
    if name == "nvfp4":
        return
    a, b = make(wide, 3, k, True), make(name, n, k, True)
    assert b.scale is not None
    codes = b.elements / torch.exp2(b.scale.view(torch.uint8).double() - 127).repeat_interleave(32, 1)
    for first, last in ((0, 244), (127 - 17, 127 + 12)):
        bytes_ = torch.arange(n, dtype=torch.uint8).clamp(first, last)[:, None].expand(n, k // 32).contiguous()
        elements = codes * torch.exp2(bytes_[:, :1].double() - 127)
        weight = replace(b, scale=bytes_.view(torch.float8_e8m0fnu), elements=elements)
        actual = run(config, a.to(gpu), packed(weight.to(gpu)), out_dtype=F32)
        assert_product(actual, expected(a.to(gpu), weight.to(gpu), out_dtype=F32, bound=0.0))


@each_codes
def test_every_code_of_mxfp8(gpu: torch.device, config: Config, name: str) -> None:
    """Each code that is a number, under scales that bfloat16 holds them under, and under those that it does not."""
    if name != "mxfp8":
        return
    n, k = 12, 256
    codes = torch.arange(256, dtype=torch.uint8)[None].repeat(n, 1)
    codes[(codes & 0x7F) == 0x7F] = 0
    bytes_ = torch.tensor([0, 1, 2, 3, 4, 60, 127, 133, 134, 135, 136, 200], dtype=torch.uint8)
    scale = bytes_[:, None].expand(n, k // 32).contiguous()
    values = codes.view(torch.float8_e4m3fn).double() * torch.exp2(bytes_[:, None].double() - 127)
    b = Scaled(codes.view(torch.float8_e4m3fn), scale.view(torch.float8_e8m0fnu), values, torch.ones(1, 1).double())
    # A row of `a` for each k: a sum is one number.
    a = Scaled(torch.eye(k, dtype=BF16), None, torch.eye(k).double(), torch.ones(1, 1).double())
    actual = run(config, a.to(gpu), packed(b.to(gpu)), out_dtype=F32)
    assert torch.equal(actual.cpu().double(), values.t())


@each_codes
def test_two_operands_with_scales(gpu: torch.device, config: Config, name: str) -> None:
    """`a` is prepared as bfloat16; of nvfp4 each of its rows may have a global scale of its own."""
    for of_a in PAIRS[name]:
        for m, n, k in SIZES:
            a, b = make(of_a, m, k, True).to(gpu), make(name, n, k, True).to(gpu)
            for out_dtype in (BF16, F32):
                wanted = expected(a, b, out_dtype=out_dtype, bound=0.0)
                assert_product(run(config, a, packed(b), out_dtype=out_dtype), wanted, f"{of_a} {m}x{n}x{k}")
            factors = torch.exp2(torch.arange(m, device=gpu).float() % 7 - 3)[:, None]
            wanted = expected(a, b, None, factors, out_dtype=F32, bound=0.0)
            bias = torch.linspace(-3, 3, n, device=gpu)
            assert_product(run(config, a, packed(b), None, factors, out_dtype=F32), wanted, f"{of_a} {m}x{n}x{k}")
            wanted = expected(a, b, bias, factors, activation="relu", out_dtype=BF16)
            assert_product(run(config, a, packed(b), bias, factors, activation="relu", out_dtype=BF16), wanted)


@each_codes
def test_what_bfloat16_does_not_hold_of_a_is_computed_anew(gpu: torch.device, config: Config, name: str) -> None:
    """Codes of e4m3 under scales below 2^-124, which the weight's scales bring back."""
    if name == "nvfp4":
        return
    a, b = make("mxfp8", 70, 96, True), make(name, 140, 96, True)
    assert b.scale is not None
    low = torch.arange(3, dtype=torch.uint8).expand(70, 3).contiguous()
    codes = torch.full_like(a.data.view(torch.uint8), 1)
    elements = 2.0**-9 * torch.exp2(low.double() - 127).repeat_interleave(32, 1)
    a = replace(a, data=codes.view(torch.float8_e4m3fn), scale=low.view(torch.float8_e8m0fnu), elements=elements)
    high = torch.full((140, 3), 230, dtype=torch.uint8)
    factor = torch.exp2(high.double() - b.scale.view(torch.uint8).double()).repeat_interleave(32, 1)
    b = replace(b, scale=high.view(torch.float8_e8m0fnu), elements=b.elements * factor)
    actual = run(config, a.to(gpu), packed(b.to(gpu)), out_dtype=F32)
    assert_product(actual, expected(a.to(gpu), b.to(gpu), out_dtype=F32))


@pytest.mark.slow
@pytest.mark.parametrize(("wide", "name", "byte"), [("float16", "mxfp4", 60), ("bfloat16", "mxfp8", 1)])
def test_a_large_product_is_computed_anew(gpu: torch.device, wide: str, name: str, byte: int) -> None:
    """Of more tiles than the portable kernel behind has CTAs, for one scale under which the weight loses something."""
    m, n, k = 1100, 1160, 64
    a, b = make(wide, m, k, True), make(name, n, k, True)
    assert b.scale is not None
    bytes_ = b.scale.view(torch.uint8).clone()
    bytes_[7, 1] = byte
    factor = torch.exp2(bytes_.double() - b.scale.view(torch.uint8).double()).repeat_interleave(32, 1)
    b = replace(b, scale=bytes_.view(b.scale.dtype), elements=b.elements * factor)
    actual = run(FIRST[name], a.to(gpu), packed(b.to(gpu)), out_dtype=F32)
    assert_product(actual, expected(a.to(gpu), b.to(gpu), out_dtype=F32))


@each_case
def test_what_is_no_number(gpu: torch.device, config: Config, name: str, wide: str) -> None:
    """A NaN scale makes its row of the weight NaN, NaN or infinity in `a` its row; all else stays as it was."""
    m, n, k = 70, 140, 96
    a, b = make(wide, m, k, True).to(gpu), make(name, n, k, True).to(gpu)
    assert b.scale is not None
    before = run(config, a, packed(b), out_dtype=F32)
    scale = b.scale.view(torch.uint8).clone()
    scale[7, -1] = 0x7F if name == "nvfp4" else 255
    a.data[3, 5], a.data[9, 95] = float("inf"), float("nan")
    after = run(config, a, packed(replace(b, scale=scale.view(b.scale.dtype))), out_dtype=F32)
    assert bool(after[:, 7].isnan().all())
    assert bool(after[9].isnan().all())
    assert not bool(after[3].isfinite().any())
    rows = torch.tensor([row for row in range(m) if row not in (3, 9)], device=gpu)
    columns = torch.tensor([column for column in range(n) if column != 7], device=gpu)
    assert torch.equal(after[rows][:, columns], before[rows][:, columns])


@each_case
def test_the_same_bits_every_time(gpu: torch.device, config: Config, name: str, wide: str) -> None:
    a, b = make(wide, 200, 640).to(gpu), make(name, 264, 640).to(gpu)
    first = run(config, a, packed(b), out_dtype=F32)
    for _ in range(3):
        assert torch.equal(first, run(config, a, packed(b), out_dtype=F32))


@pytest.mark.sanitizer
@each_case
def test_operands_end_within_tiles(gpu: torch.device, config: Config, name: str, wide: str) -> None:
    """Allocations without room to spare, for compute-sanitizer."""
    m, n, k = config.tile[0] + 1, config.tile[1] + 3, 96
    a, b = make(wide, m, k, True), packed(make(name, n, k, True))
    actual = run(config, a.to(gpu), b.to(gpu), torch.ones(n, device=gpu), activation="leaky_relu", out_dtype=BF16)
    wanted = expected(a, b, torch.ones(n), activation="leaky_relu", out_dtype=BF16, bound=0.0)
    assert_product(actual.cpu(), wanted)


# `a` of each format, whether its rows have global scales of their own, and what takes 192 rows of it by a large weight.
CHOSEN = [
    ("bfloat16", "mxfp4", False, "sm90_weight_fp4"),
    ("bfloat16", "nvfp4", False, "sm90_weight_fp4"),
    ("bfloat16", "mxfp8", False, "sm90_weight_mxfp8"),
    ("mxfp4", "mxfp4", False, "sm90_weight_fp4"),
    ("mxfp8", "mxfp4", False, "sm90_weight_fp4"),
    ("mxfp8", "mxfp8", False, "sm90_weight_mxfp8"),
    ("nvfp4", "nvfp4", True, "sm90_weight_fp4"),
]


@pytest.mark.parametrize(("of_a", "name", "has_factors", "family"), CHOSEN)
def test_some_hundred_rows_take_them(gpu: torch.device, of_a: str, name: str, has_factors: bool, family: str) -> None:
    m, n, k = 192, 8192, 8192
    x, weight = (torch.randn(rows, k, device=gpu, dtype=BF16) for rows in (m, n))
    a, scale_a = (x, None) if of_a == "bfloat16" else tileon_ops.quantize(x, of_a)[:2]
    b, scale_b = tileon_ops.quantize(weight, name)[:2]
    factors = torch.full((m, 1), 0.5, device=gpu) if has_factors else None
    actual = torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b, None, factors)
    assert tileon_ops.last_kernel().startswith(family), tileon_ops.last_kernel()
    assert actual.shape == (m, n)
    if scale_a is None or has_factors:
        return
    m, n, k = (256, 8192, 8192) if name == "mxfp8" else (384, 14336, 4096)
    (a, scale_a), (b, scale_b) = (
        tileon_ops.quantize(torch.randn(rows, k, device=gpu, dtype=BF16), of)[:2] for rows, of in ((m, of_a), (n, name))
    )
    folded = torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b, fast_accum=True)
    assert tileon_ops.last_kernel().startswith("sm90_folded"), tileon_ops.last_kernel()
    assert folded.shape == (m, n)
