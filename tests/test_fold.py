"""`fast_accum` of operands with e8m0 scales: rows become e4m3 codes with one power of two (csrc/core/fold.h), against a
fold in float64 that shares nothing with csrc; what that loses, and what it must not change. The CPU folds no mxfp4, and
few rows of `a` only where results are batch invariant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from block_scaled_operands import (
    MIXED,
    MIXED_REVERSED,
    MXFP4,
    MXFP8,
    NVFP4,
    Format,
    Operand,
    multiply,
    quantized_normal,
    random_codes,
)
from block_scaled_reference import (
    Sum,
    assert_product,
    decode,
    documented_bound,
    expected,
    round_to_e4m3,
    signal_to_noise,
)
from block_scaled_table import HAS_HOPPER_GPU, NO_HOPPER_GPU
from fold_loss import DATA
from torch import Tensor

import tileon_ops
from tileon_ops._rules import configs
from tileon_ops._rules.configs import Config

F32 = torch.float32
FOLDED = (MXFP8, MIXED, MIXED_REVERSED)
# Of both operands: over few binades, over more than e4m3 has, at both ends of what float32 holds.
SCALES = [((120, 128), (124, 130)), ((100, 140), (110, 144)), ((0, 20), (230, 243)), ((230, 243), (0, 20))]
each_scales = pytest.mark.parametrize(("scales", "others"), SCALES, ids=str)
each_folded = pytest.mark.parametrize("fmt", FOLDED, ids=str)


def folded(operand: Operand) -> Tensor:
    """(rows, k) in float64: each row's elements rounded to e4m3 under the row's power of two."""
    values = decode(operand.codes, operand.element) * decode(operand.scales, operand.scale).repeat_interleave(32, 1)
    result = values.clone()
    for row, line in zip(result, values, strict=True):
        largest = float(line.nan_to_num(0.0).abs().max()) if line.numel() else 0.0
        if largest == 0.0:
            continue
        mantissa, exponent = math.frexp(largest)  # largest = 2 mantissa 2^(exponent - 1)
        power = exponent - 1 - (7 if 2 * mantissa == 1.875 else 8)
        row.copy_(round_to_e4m3(line * 2.0**-power) * 2.0**power)
    return result.float().double()  # as float32 holds it


def product_of_folds(a: Operand, b: Operand) -> Sum:
    wide_a, wide_b = folded(a), folded(b)
    return Sum(wide_a @ wide_b.t(), wide_a.abs() @ wide_b.abs().t(), wide_a.shape[1])


def assert_folded(actual: Tensor, a: Operand, b: Operand, what: str, bound: float = 0.0) -> None:
    wanted = expected(product_of_folds(a, b), out_dtype=actual.dtype, bound=bound or documented_bound(a.codes.shape[1]))
    assert_product(actual, wanted, what)


def with_scales(operand: Operand, low: int, high: int, *, nan_share: float = 0.0) -> Operand:
    """Scale bytes of [low, high], drawn anew, and some NaN."""
    source = torch.Generator().manual_seed(low * 256 + high)
    drawn = torch.randint(low, high + 1, operand.scales.shape, generator=source)
    drawn[torch.rand(drawn.shape, generator=source) < nan_share] = 255
    return replace(operand, scales=drawn.to(torch.uint8))


@pytest.fixture
def folds_few_rows() -> Iterator[None]:
    with tileon_ops.batch_invariant():
        yield


@pytest.mark.usefixtures("folds_few_rows")
@each_folded
@each_scales
def test_a_product_is_that_of_the_folds(fmt: Format, scales: tuple[int, int], others: tuple[int, int]) -> None:
    for m, n, k in ((1, 33, 64), (19, 40, 544), (70, 9, 1056)):
        a = with_scales(random_codes(fmt, "a", m, k), *scales, nan_share=0.002)
        b = with_scales(random_codes(fmt, "b", n, k), *others)
        for forms in (("2d", "packed"), ("packed", "2d")):
            actual = multiply(a, b, forms=forms, out_dtype=F32, fast_accum=True)
            assert_folded(actual, a, b, f"{scales} {m}x{n}x{k}")


@pytest.mark.usefixtures("folds_few_rows")
@each_folded
def test_rows_of_up_to_13_binades_lose_nothing(fmt: Format) -> None:
    """Codes and scales together: the bits are those without `fast_accum`."""
    a, b = quantized_normal(fmt, "a", 37, 512), quantized_normal(fmt, "b", 29, 512)
    for operand in (a, b):
        least = 0x30 if operand.element == "e4m3" else 1  # 2^-1, so 10 binades up to 448 are left
        operand.codes.copy_(torch.where(operand.codes & 0x7F < least, 0, operand.codes))
    a, b = with_scales(a, 126, 129), with_scales(b, 126, 129)
    assert torch.equal(multiply(a, b, out_dtype=F32, fast_accum=True), multiply(a, b, out_dtype=F32))


@pytest.mark.usefixtures("folds_few_rows")
@each_folded
def test_a_fold_rounds_what_lies_far_below(fmt: Format) -> None:
    """Else the test above would pass without any fold."""
    a, b = random_codes(fmt, "a", 8, 256), random_codes(fmt, "b", 8, 256)
    a = with_scales(a, 110, 127)
    assert not torch.equal(multiply(a, b, out_dtype=F32, fast_accum=True), multiply(a, b, out_dtype=F32))


@each_folded
def test_the_cpu_folds_from_65_rows_on(fmt: Format) -> None:
    a, b = random_codes(fmt, "a", 65, 256), random_codes(fmt, "b", 8, 256)
    a = with_scales(a, 110, 127)
    few = replace(a, codes=a.codes[:64], scales=a.scales[:64])
    assert torch.equal(multiply(few, b, out_dtype=F32, fast_accum=True), multiply(few, b, out_dtype=F32))
    assert_folded(multiply(a, b, out_dtype=F32, fast_accum=True), a, b, "65 rows")
    assert not torch.equal(multiply(a, b, out_dtype=F32, fast_accum=True), multiply(a, b, out_dtype=F32))


@pytest.mark.parametrize("fmt", [MXFP4, NVFP4], ids=str)
def test_other_formats_are_not_folded(fmt: Format) -> None:
    a, b = random_codes(fmt, "a", 17, 256), random_codes(fmt, "b", 23, 256)
    assert torch.equal(multiply(a, b, out_dtype=F32, fast_accum=True), multiply(a, b, out_dtype=F32))


@pytest.mark.usefixtures("folds_few_rows")
@each_folded
def test_a_row_does_not_depend_on_the_others(fmt: Format) -> None:
    a, b = random_codes(fmt, "a", 70, 320), random_codes(fmt, "b", 40, 320)
    whole = multiply(a, b, out_dtype=F32, fast_accum=True)
    for row in (0, 3, 69):
        alone = replace(a, codes=a.codes[row : row + 1], scales=a.scales[row : row + 1])
        one = multiply(alone, b, out_dtype=F32, fast_accum=True)
        assert torch.equal(one, whole[row : row + 1])


@pytest.mark.usefixtures("folds_few_rows")
def test_rows_of_nothing_and_rows_of_nan() -> None:
    a, b = random_codes(MXFP8, "a", 4, 64), random_codes(MXFP8, "b", 5, 64)
    a.codes[0], a.codes[1], a.codes[2, 7] = 0, 0x7F, 0xFF
    b.codes.bitwise_and_(0x3F)
    a.codes[3].bitwise_and_(0x3F)
    actual = multiply(a, b, out_dtype=F32, fast_accum=True)
    assert torch.equal(actual[0], torch.zeros(5))
    assert actual[1:3].isnan().all()
    assert actual[3].isfinite().all()


@each_folded
@pytest.mark.parametrize("data", DATA)
def test_a_fold_loses_less_than_70_db(fmt: Format, data: str) -> None:
    """fold_loss.py measures the same of larger products, and of trained weights."""
    source = torch.Generator().manual_seed(7)
    names = {"e4m3": "mxfp8", "e2m1": "mxfp4"}
    (a, scale_a), (b, scale_b) = (
        torch.ops.tileon.quantize(DATA[data](rows, 1024, source), names[element], scale_rounding="rceil")
        for rows, element in ((128, fmt.a), (96, fmt.b))
    )
    exact, fast = (
        torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b, out_dtype=F32, fast_accum=fast_accum)
        for fast_accum in (False, True)
    )
    assert signal_to_noise(fast, exact.double()) >= 70


# ---- on a GPU: folds of both operands that other kernels multiply, and kernels that fold the weight themselves ----

FOLDING = [config for config in configs.block_scaled() if config.route == "folded"]
CASES = [
    (config, fmt)
    for config in FOLDING
    for fmt in (*FOLDED, MXFP4)
    if config.backend != "sm90" or ("fp4" in config.name) == (fmt.b == "e2m1")
]
each_case = pytest.mark.parametrize(("config", "fmt"), CASES, ids=[f"{c.name}-{fmt}" for c, fmt in CASES])
ROUTE = next((config for config in FOLDING if config.name == "expanded_folded"), None)


def arguments(a: Operand, b: Operand) -> tuple[Tensor, ...]:
    return a.data(), b.data(), a.scale_tensor("packed"), b.scale_tensor("2d")


def by_config(config: Config, a: Operand, b: Operand, gpu: torch.device, *others: Tensor, **options: object) -> Tensor:
    if config.backend == "sm90" and not HAS_HOPPER_GPU:
        pytest.skip(NO_HOPPER_GPU)
    result: Tensor = torch.ops.tileon._block_scaled_matmul_with_config(
        *arguments(a.to(gpu), b.to(gpu)), *others, config=config.index, **options
    )
    assert tileon_ops.last_kernel().startswith(config.name)
    return result.cpu()


@pytest.mark.gpu
@each_case
@each_scales
def test_a_gpu_multiplies_the_same_folds(
    gpu: torch.device, config: Config, fmt: Format, scales: tuple[int, int], others: tuple[int, int]
) -> None:
    """fp8's sums err by 2^-12 of sum |a||b| where k is below 1024 (docs/fp8_error.md)."""
    for m, n, k in ((3, 33, 64), (70, 40, 544)):
        a = with_scales(random_codes(fmt, "a", m, k), *scales, nan_share=0.002)
        b = with_scales(random_codes(fmt, "b", n, k), *others, nan_share=0.002)
        actual = by_config(config, a, b, gpu, out_dtype=F32)
        assert_folded(actual, a, b, f"{scales} {m}x{n}x{k}", bound=2.0**-10)


def ones_at(a: Operand, picked: Tensor) -> Operand:
    """Rows that have a one at one k alone, which bring elements of the other fold out, bit by bit."""
    a = with_scales(a, 127, 127)
    a.codes.zero_()
    a.codes[torch.arange(len(picked)), picked] = 0x38 if a.element == "e4m3" else 2
    return a


@pytest.mark.gpu
@each_case
@pytest.mark.parametrize("k", [96, 4128, 8224, 16416, 33024])
def test_a_gpu_folds_rows_of_any_length(gpu: torch.device, config: Config, fmt: Format, k: int) -> None:
    """By one, two, four and eight warps, which hold a row, and by eight of a row that they do not hold."""
    if config.backend == "sm90" and k > 8224 and config.tile[0] not in (64, 160):
        return
    source = torch.Generator().manual_seed(k)
    picked = torch.cat([torch.tensor([0, 31, k - 1]), torch.randint(0, k, (37,), generator=source)])
    ones, other = ones_at(random_codes(fmt, "a", len(picked), k), picked), random_codes(fmt, "b", 19, k)
    for scales in ((112, 137), (125, 130)):
        b = with_scales(other, *scales)
        actual = by_config(config, ones, b, gpu, out_dtype=F32)
        assert torch.equal(actual.double(), folded(b)[:, picked].t())
    # The other way round: rows of `a` by a weight of ones.
    a = with_scales(random_codes(fmt, "a", 70, k), 112, 137)
    ones = ones_at(random_codes(fmt, "b", len(picked), k), picked)
    actual = by_config(config, a, ones, gpu, out_dtype=F32)
    assert torch.equal(actual.double(), folded(a)[:, picked])


@pytest.mark.gpu
@each_case
def test_a_gpu_folds_under_any_factor(gpu: torch.device, config: Config, fmt: Format) -> None:
    """Each distance from a block's scale to the row's largest one; blocks of zeros under larger scales; rows whose
    codes are all small, all zero and all NaN."""
    k, far = 64 * 32, torch.arange(64)
    b = random_codes(fmt, "b", 9, k)
    b = replace(b, scales=(127 - far).to(torch.uint8)[None].repeat(9, 1))
    smallest = 0x07 if b.element == "e4m3" else 0x01
    b.codes[1] &= smallest  # and, where the element has a sign, no sign
    b.codes[2] &= 1
    b.scales[3, 5] = 200
    b.codes[3, 5 * 32 : 6 * 32] = 0
    b.codes[4, : 20 * 32] = 0
    b.codes[5] = 0
    b.scales[6] = 255
    b.scales[7] = torch.randint(100, 140, (64,), generator=torch.Generator().manual_seed(3)).to(torch.uint8)
    b.codes[7, 7::32] &= smallest
    picked = torch.arange(0, k, 29)
    actual = by_config(config, ones_at(random_codes(fmt, "a", len(picked), k), picked), b, gpu, out_dtype=F32)
    wanted = folded(b)[:, picked].t()
    has_nan = folded(b).isnan().any(1)
    assert torch.equal(actual.double()[:, ~has_nan], wanted[:, ~has_nan])
    assert actual[:, has_nan].isnan().all()


@pytest.mark.gpu
@each_case
def test_a_gpu_finishes_the_sums_of_folds(gpu: torch.device, config: Config, fmt: Format) -> None:
    """Exact sums of few large codes: bias, activation, global scale and every output dtype. A GPU may round a product
    with the global scale and the sum with the bias once, a CPU rounds twice."""
    is_own = config.backend == "sm90"
    a, b = random_codes(fmt, "a", 20, 96), random_codes(fmt, "b", 24, 96)
    for operand in (a, b):
        few = torch.tensor([0x38, 0x40, 0xB8, 0x00] if operand.element == "e4m3" else [2, 4, 10, 0])
        operand.codes.copy_(few[operand.codes.long() % 4])
    a, b = with_scales(a, 126, 129), with_scales(b, 126, 129)
    bias = torch.linspace(-3, 3, 24)
    of_rows = () if is_own else (torch.linspace(0.25, 2, 20)[:, None].contiguous(),)
    for global_scale in (torch.full((), 0.5), *of_rows):
        for out_dtype in (torch.float16, torch.bfloat16, F32, *(() if is_own else (torch.float8_e4m3fn,))):
            options = {"activation": "leaky_relu", "slope": 0.25, "out_dtype": out_dtype}
            actual = by_config(config, a, b, gpu, bias.to(gpu), global_scale.to(gpu), **options)
            wanted = torch.ops.tileon.block_scaled_matmul(*arguments(a, b), bias, global_scale, **options)
            if global_scale.dim() == 0:  # a power of two: exact
                assert torch.equal(actual.view(torch.uint8), wanted.view(torch.uint8)), out_dtype
            step = torch.finfo(out_dtype).eps
            torch.testing.assert_close(actual.float(), wanted.float(), rtol=step, atol=2.0**-22)


@pytest.mark.gpu
@each_case
def test_tiles_of_folds(gpu: torch.device, config: Config, fmt: Format) -> None:
    """Edges everywhere, whole tiles, several tiles of a CTA, tiles that CTAs share: exact sums of whole numbers."""
    if config.backend != "sm90":
        return
    tile_m = config.tile[0]
    sizes = [(tile_m + 9, 264, 352), (tile_m, 128, 128), (1300, 1100, 96), (1, 40, 160), (tile_m - 3, 130, 6176)]
    for m, n, k in sizes:
        a, b = random_codes(fmt, "a", m, k), random_codes(fmt, "b", n, k)
        for operand in (a, b):
            few = torch.tensor([0x38, 0x40, 0xB8, 0x00] if operand.element == "e4m3" else [2, 4, 10, 0])
            operand.codes.copy_(few[operand.codes.long() % 4])
        a, b = with_scales(a, 127, 128), with_scales(b, 127, 128)
        for out_dtype in (torch.bfloat16, F32):
            for _ in range(2):
                actual = by_config(config, a, b, gpu, out_dtype=out_dtype)
                assert_folded(actual, a, b, f"{m}x{n}x{k}")


SMALLEST = [(config, fmt) for config, fmt in CASES if config.tile == (64, 128, 128) and fmt in (MXFP8, MIXED)]


@pytest.mark.gpu
@pytest.mark.sanitizer
@pytest.mark.parametrize(("config", "fmt"), SMALLEST, ids=[f"{c.name}-{fmt}" for c, fmt in SMALLEST])
def test_operands_end_within_tiles_and_words(gpu: torch.device, config: Config, fmt: Format) -> None:
    a, b = quantized_normal(fmt, "a", 70, 416), quantized_normal(fmt, "b", 200, 416)
    assert_folded(by_config(config, a, b, gpu, out_dtype=F32), a, b, "70x200x416", bound=2.0**-10)


@pytest.mark.gpu
@each_case
def test_sums_leave_the_tensor_core_every_128_k(gpu: torch.device, config: Config, fmt: Format) -> None:
    """A product of 2^13, and behind its block 480 of 0.75, of which the tensor core keeps nothing beside it: those of
    the first 128 k are lost, 72 of 8552, and no more (docs/fp8_error.md)."""
    sides = []
    for side, rows, scale, first, other in (("a", 70, 134, 1.0, 1.5), ("b", 40, 133, 1.0, 0.5)):
        operand = with_scales(random_codes(fmt, side, rows, 512), 127, 127)
        code_of = {1.0: 0x38, 1.5: 0x3C, 0.5: 0x30} if operand.element == "e4m3" else {1.0: 2, 1.5: 3, 0.5: 1}
        operand.codes[:, :32], operand.codes[:, 32:] = 0, code_of[other]
        operand.codes[:, 0], operand.scales[:, 0] = code_of[first], scale
        sides.append(operand)
    sums = by_config(config, *sides, gpu, out_dtype=F32)
    assert torch.equal(sums, torch.full_like(sums, 8552.0 - 72.0))


@pytest.mark.gpu
@each_case
def test_whole_tiles_have_the_bits_of_the_two_pass_fold(gpu: torch.device, config: Config, fmt: Format) -> None:
    """Products of 128 k in the tensor core, then added in float32, wherever the fold is made."""
    assert ROUTE is not None
    a, b = (quantized_normal(fmt, side, rows, 2080) for side, rows in (("a", 150), ("b", 200)))
    with tileon_ops.batch_invariant():
        one, other = (by_config(of, a, b, gpu, out_dtype=F32) for of in (config, ROUTE))
    assert torch.equal(one, other)


@pytest.mark.gpu
def test_the_route_of_folds_takes_what_may_be_folded(gpu: torch.device) -> None:
    a, b = random_codes(NVFP4, "a", 20, 96), random_codes(NVFP4, "b", 24, 96)
    for config in FOLDING:
        with pytest.raises(RuntimeError, match=r"it takes e8m0 scales of both operands|of compute capability 9\.0"):
            by_config(config, a, b, gpu)
