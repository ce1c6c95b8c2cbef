"""The Hopper configs, by their numbers, for a weight of codes of 8 bits with float32 scales: the codes become what `a`
is; scales of rows, or one, multiply the sums, and scales of blocks the sums of 128 k. Configs for few rows of a take
all of them, those that read codes straight into registers scales of rows; of those that convert the codes in the main
loop, for more rows, some take scales of rows, and some those that change along k."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from block_scaled_reference import assert_product
from block_scaled_table import HAS_HOPPER_GPU, NO_HOPPER_GPU
from scaled_operands import NUMBERS, Scaled, assert_stays_in_its_row, expected, float32_scale_shape, make, spread
from torch import Tensor

import tileon_ops
from tileon_ops._rules import configs
from tileon_ops._rules.configs import Config

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HAS_HOPPER_GPU, reason=NO_HOPPER_GPU)]

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
FEW_ROWS = [config for config in configs.block_scaled() if config.family == "small_m"]
DIRECT = [config for config in configs.block_scaled() if config.family == "direct_weight" and config.tile[1] == 16]
PAIRS = [
    *((a, weight) for a in ("bfloat16", "float16") for weight in ("e4m3_row", "int8_row")),
    *(("bfloat16", "e4m3_128x128"), ("float16", "e4m3_128x128"), ("bfloat16", "e4m3_1x128")),
]
CODES = [config for config in configs.block_scaled() if config.name.startswith("sm90_weight_codes")]
BLOCKS = [config for config in configs.block_scaled() if config.name.startswith("sm90_weight_blocks")]
CASES = [
    *((config, *pair) for config in FEW_ROWS for pair in PAIRS),
    *((config, *pair) for config in (*CODES, *DIRECT) for pair in PAIRS if pair[1].endswith("row")),
    *((config, *pair) for config in BLOCKS for pair in PAIRS if not pair[1].endswith("row")),
]
# One block and a few, whole stages and short ones, and so many of them that the ring goes round.
SIZES = [(1, 131, 16), (3, 200, 96), (8, 128, 256), (16, 130, 304), (33, 72, 1056), (65, 64, 800), (5, 5, 7904)]
# And several tiles of a CTA, edges everywhere.
MORE_ROWS = [(300, 264, 352), (1300, 1100, 96), (256, 128, 64)]

each_case = pytest.mark.parametrize(
    ("config", "a_name", "weight"), CASES, ids=[f"{config.name}-{a}*{weight}" for config, a, weight in CASES]
)
each_pair = pytest.mark.parametrize(("a_name", "weight"), PAIRS, ids=map("*".join, PAIRS))


def run(config: Config, a: Scaled, b: Scaled, *tail: Tensor | None, **options: object) -> Tensor:
    op = torch.ops.tileon._block_scaled_matmul_with_config
    result: Tensor = op(a.data, b.data, None, b.scale, *tail, config=config.index, **options)
    assert tileon_ops.last_kernel() == config.name
    return result


def plain(data: Tensor) -> Scaled:
    return Scaled(data, None, data.double(), torch.ones(1, 1, dtype=torch.float64, device=data.device))


def with_scale(b: Scaled, scale: Tensor) -> Scaled:
    return replace(b, scale=scale, scales=spread(scale, *b.data.shape).double())


def powers(b: Scaled, least: int, count: int) -> Tensor:
    """Scales as b has them, 2^least and the `count` - 1 powers above in turns."""
    assert b.scale is not None
    exponents = torch.arange(b.scale.numel(), device=b.data.device) % count + float(least)
    return torch.exp2(exponents).view(b.scale.shape)


def sizes_of(config: Config) -> list[tuple[int, int, int]]:
    return SIZES if config in FEW_ROWS else SIZES + MORE_ROWS


@each_case
class TestProducts:
    def test_small_whole_numbers_exactly(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        for m, n, k in sizes_of(config):
            a = make(a_name, m, k, True).to(gpu)
            for name in {weight, weight.replace("row", "tensor")}:
                b = make(name, n, k, True).to(gpu)
                wanted = expected(a, b, out_dtype=F32, bound=0.0)
                assert_product(run(config, a, b, out_dtype=F32), wanted, f"{name} {m}x{n}x{k}")

    def test_random_numbers_within_the_bound(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        for m, n, k in sizes_of(config):
            a, b = make(a_name, m, k).to(gpu), make(weight, n, k).to(gpu)
            assert_product(run(config, a, b, out_dtype=F32), expected(a, b, out_dtype=F32), f"{m}x{n}x{k}")

    def test_every_code_at_every_k(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        """A row of a that is one at one k picks a column of the weight."""
        n, k = 136, 272
        codes = (torch.arange(n).view(-1, 1) * 7 + torch.arange(k) * 13) % 256
        codes = codes.masked_fill(codes & 0x7F == 0x7F, 0).to(torch.uint8)
        data = codes.to(gpu).view(torch.int8 if weight.startswith("int8") else torch.float8_e4m3fn)
        shape = float32_scale_shape(weight.partition("_")[2], n, k)
        b = Scaled(data, torch.ones(shape, device=gpu), data.double(), torch.ones(1, 1, device=gpu))
        b = with_scale(b, powers(b, -2, 5))
        for first in range(0, k, 64):
            at = torch.arange(first, min(first + 64, k))
            one_hot = torch.nn.functional.one_hot(at, k).to(NUMBERS[a_name]).to(gpu)
            actual = run(config, plain(one_hot), b, out_dtype=F32)
            assert torch.equal(actual.double(), b.values()[:, at].t()), f"k from {first} on"

    def test_epilogue(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        m, n, k = 19, 139, 1120
        a, b = make(a_name, m, k).to(gpu), make(weight, n, k).to(gpu)
        bias, factor = torch.linspace(-3, 3, n, device=gpu), torch.full((), 0.75, device=gpu)
        for out_dtype, activation in ((F32, "leaky_relu"), (BF16, "gelu"), (F16, "none")):
            options = {"activation": activation, "slope": 0.2, "out_dtype": out_dtype}
            wanted = expected(a, b, bias, factor, **options)  # type: ignore[arg-type]
            assert_product(run(config, a, b, bias, factor, **options), wanted, activation)

    def test_a_k_that_is_no_multiple_of_sixteen(
        self, gpu: torch.device, config: Config, a_name: str, weight: str
    ) -> None:
        """Rows a multiple of 16 bytes apart, and NaN between their ends and the next."""
        m, n, k = 5, 20, 301
        if config in DIRECT:
            with pytest.raises(RuntimeError, match="rows of whole sixteen bytes of codes"):
                run(config, make(a_name, m, k).to(gpu), make(weight, n, k).to(gpu))
            return
        a, b = make(a_name, m, k, True).to(gpu), make(weight, n, k, True).to(gpu)
        wide_a = torch.full((m, 320), float("nan"), dtype=a.data.dtype, device=gpu)
        wide_b = torch.full((n, 304), 0x7F, dtype=torch.uint8, device=gpu).view(b.data.dtype)
        wide_a[:, :k], wide_b.view(torch.uint8)[:, :k] = a.data, b.data.view(torch.uint8)
        actual = run(config, replace(a, data=wide_a[:, :k]), replace(b, data=wide_b[:, :k]), out_dtype=F32)
        assert_product(actual, expected(a, b, out_dtype=F32, bound=0.0), "padded rows")

    def test_scales_of_any_size(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        m, n, k = 9, 131, 272
        a, b = make(a_name, m, k, True).to(gpu), make(weight, n, k, True).to(gpu)
        bound = 0.0 if weight.endswith("row") else None  # of blocks, sums of many binades
        for least, count in ((-149, 25), (-20, 90), (60, 40)):
            other = with_scale(b, powers(b, least, count))
            wanted = expected(a, other, out_dtype=F32, bound=bound)
            assert_product(run(config, a, other, out_dtype=F32), wanted, f"2^{least} and above")
        for value in (float("nan"), 0.0):
            scale = powers(b, 0, 1)
            scale[-1, -1] = value
            actual = run(config, a, with_scale(b, scale), out_dtype=F32)
            first = n - 3 if weight.endswith("128x128") else n - 1  # the last block of rows has three, or one
            columns, rest = actual[:, first:], actual[:, :first]
            assert bool(columns.isnan().all() if value != value else columns.isfinite().all())
            assert bool(rest.isfinite().all())

    def test_what_is_not_finite_stays_in_its_row_or_column(
        self, gpu: torch.device, config: Config, a_name: str, weight: str
    ) -> None:
        m, n, k = 7, 131, 1056
        a, b = make(a_name, m, k, True).to(gpu), make(weight, n, k, True).to(gpu)
        clean = run(config, a, b, out_dtype=F32)
        if weight.startswith("e4m3"):
            for row in (0, 77, n - 1):
                for at in (0, 531, k - 1):
                    codes = b.data.view(torch.uint8).clone()
                    codes[row, at] = 0xFF
                    actual = run(config, a, replace(b, data=codes.view(b.data.dtype)), out_dtype=F32)
                    assert bool(actual[:, row].isnan().all())
                    assert int(actual.isnan().sum()) == m, f"{row}, {at}"
        assert_stays_in_its_row(lambda a: run(config, a, b, out_dtype=F32), a, b, clean)

    def test_no_k(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        a, b = make(a_name, 3, 0).to(gpu), make(weight, 5, 0).to(gpu)
        bias = torch.arange(5.0, device=gpu)
        if config not in FEW_ROWS:
            with pytest.raises(RuntimeError, match="k is 0"):
                run(config, a, b, bias, out_dtype=F32)
            return
        assert torch.equal(run(config, a, b, bias, out_dtype=F32), bias.expand(3, 5))


# compute-sanitizer's set is small
SOME = [*FEW_ROWS, *DIRECT, CODES[0], CODES[-1], BLOCKS[0], BLOCKS[-1]] if CODES else []


@pytest.mark.sanitizer
@pytest.mark.parametrize("config", SOME, ids=[config.name for config in SOME])
def test_operands_end_within_tiles(gpu: torch.device, config: Config) -> None:
    """Allocations without room to spare, for compute-sanitizer."""
    m, n, k = config.tile[0] + 1, config.tile[1] + 3, 144
    for a_name, weight in (("bfloat16", "e4m3_row"), ("float16", "int8_row"), ("bfloat16", "e4m3_128x128")):
        if config in (BLOCKS if weight.endswith("row") else (*CODES, *DIRECT)):
            continue
        a, b = make(a_name, m, k, True).to(gpu), make(weight, n, k, True).to(gpu)
        actual = run(config, a, b, torch.ones(n, device=gpu), activation="leaky_relu", out_dtype=BF16)
        wanted = expected(a, b, torch.ones(n, device=gpu), activation="leaky_relu", out_dtype=BF16, bound=0.0)
        assert_product(actual, wanted, f"{m}x{n}x{k} {weight}")


@each_pair
def test_the_library_chooses_them(gpu: torch.device, a_name: str, weight: str) -> None:
    for m in (1, 16, 32, 384, 1000):
        a, b = make(a_name, m, 256).to(gpu), make(weight, 272, 256).to(gpu)
        torch.ops.tileon.block_scaled_matmul(a.data, b.data, None, b.scale)
        of_many, of_few = (CODES, DIRECT) if weight.endswith("row") else (BLOCKS, FEW_ROWS)
        chosen = of_few if m <= 32 else of_many
        assert tileon_ops.last_kernel() in {config.name for config in chosen}, f"m {m}"


@pytest.mark.parametrize("config", [*CODES, *DIRECT, *BLOCKS], ids=lambda config: config.name)
def test_the_same_bits_every_time(gpu: torch.device, config: Config) -> None:
    weight = "e4m3_1x128" if config in BLOCKS else "e4m3_row"
    a, b = make("bfloat16", 200, 640).to(gpu), make(weight, 264, 640).to(gpu)
    first = run(config, a, b, out_dtype=F32)
    for _ in range(3):
        assert torch.equal(first, run(config, a, b, out_dtype=F32))


# Neighbours along k: far apart by the last binade that is near, by the first that is not, by all there is; of both
# signs; nothing, and the least there is.
JUMPS = [
    [1.0, 256.0, 0.5, 257.0],
    [1e-30, 1e30, 3.0, -2e30],
    [-2.0, 3.0, -700.0, 5.0],
    [0.0, 1.5, 0.0, 2.5],
    [1e-45, 1.0],
]


@pytest.mark.parametrize("config", BLOCKS, ids=[config.name for config in BLOCKS])
@pytest.mark.parametrize("granularity", ["1x128", "128x128"])
def test_scales_that_jump_along_k(gpu: torch.device, config: Config, granularity: str) -> None:
    """Other rows' scales are near one another: a warp puts sums aside where one row of its sixteen asks for it."""
    m, n, k = config.tile[0] + 9, 264, 1264
    for a_name in ("bfloat16", "float16"):
        a, b = make(a_name, m, k).to(gpu), make(f"e4m3_{granularity}", n, k).to(gpu)
        for jumps in JUMPS:
            assert b.scale is not None
            scale = torch.linspace(0.5, 2.0, b.scale.numel()).view(b.scale.shape).to(gpu)
            for row in range(0, scale.shape[0], 24):
                scale[row] = torch.tensor(jumps * 10)[row // 24 % 2 :][: scale.shape[1]]
            other = with_scale(b, scale)
            assert_product(run(config, a, other, out_dtype=F32), expected(a, other, out_dtype=F32), f"{jumps}")


def test_what_they_do_not_take(gpu: torch.device) -> None:
    a = make("bfloat16", 4, 256).to(gpu)
    for config in (FEW_ROWS[0], CODES[0], DIRECT[0]):
        with pytest.raises(RuntimeError, match="of this dtype"):
            run(config, a, make("e5m2_row", 40, 256).to(gpu), out_dtype=F32)
    for config in (CODES[0], DIRECT[0]):
        for weight in ("e4m3_1x128", "e4m3_128x128"):
            with pytest.raises(RuntimeError, match="do not change along k"):
                run(config, a, make(weight, 40, 256).to(gpu), out_dtype=F32)
