"""The Hopper configs, by their numbers, that read a weight with scales of blocks straight into registers, for few rows.

`a` is of bfloat16 or float16, the scales are packed, and a row of the weight is whole sixteen bytes of codes. Weights
with float32 scales: test_hopper_float32_scaled_weight.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from block_scaled_reference import assert_product, decode
from block_scaled_table import HAS_HOPPER_GPU, NO_HOPPER_GPU
from scaled_operands import NUMBERS, Scaled, assert_stays_in_its_row, expected, make, of_bytes, packed, pair
from torch import Tensor

import tileon_ops
from tileon_ops._rules import configs
from tileon_ops._rules.configs import Config

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HAS_HOPPER_GPU, reason=NO_HOPPER_GPU)]

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
DIRECT = [config for config in configs.block_scaled() if config.family == "direct_weight"]
PAIRS = [
    *(("bfloat16", "mxfp4"), ("bfloat16", "nvfp4"), ("bfloat16", "mxfp8")),
    *(("float16", "mxfp4"), ("float16", "nvfp4")),
]
# m, n, k: less than a chunk of k, some for a part of the warps, several for each; tiles that reach past every end.
SIZES = [
    *((1, 131, 32), (3, 200, 96), (8, 128, 256), (16, 130, 288), (33, 72, 1056), (9, 129, 544)),
    *((5, 5, 7904), (1, 1, 25376), (7, 1200, 640)),
]

FP8 = [config for config in DIRECT if config.tile[1] == 16]  # the others have no room for codes of 8 bits
CASES = [(config, *pair) for config in DIRECT for pair in PAIRS if pair[1] != "mxfp8" or config in FP8]

each_config = pytest.mark.parametrize("config", DIRECT, ids=[config.name for config in DIRECT])
each_fp8_config = pytest.mark.parametrize("config", FP8, ids=[config.name for config in FP8])
each_pair = pytest.mark.parametrize(("a_name", "weight"), PAIRS, ids=map("*".join, PAIRS))
each_case = pytest.mark.parametrize(
    ("config", "a_name", "weight"), CASES, ids=[f"{config.name}-{a}*{weight}" for config, a, weight in CASES]
)


def run(config: Config, a: Scaled, b: Scaled, *tail: Tensor | None, **options: object) -> Tensor:
    op = torch.ops.tileon._block_scaled_matmul_with_config
    result: Tensor = op(a.data, b.data, None, b.scale, *tail, config=config.index, **options)
    assert tileon_ops.last_kernel() == config.name
    return result


@each_case
class TestProducts:
    def test_small_whole_numbers_exactly(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        for m, n, k in SIZES:
            a, b = pair(a_name, weight, m, n, k, gpu)
            wanted = expected(a, b, out_dtype=F32, bound=0.0)
            assert_product(run(config, a, packed(b), out_dtype=F32), wanted, f"{m}x{n}x{k}")

    def test_random_numbers_within_the_bound(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        for m, n, k in SIZES:
            a, b = pair(a_name, weight, m, n, k, gpu, exact=False)
            assert_product(run(config, a, packed(b), out_dtype=F32), expected(a, b, out_dtype=F32), f"{m}x{n}x{k}")

    def test_every_element_of_a_meets_its_own(
        self, gpu: torch.device, config: Config, a_name: str, weight: str
    ) -> None:
        """A row of a that is one at one k picks a column of the weight."""
        n, k = 130, 544
        b = make(weight, n, k).to(gpu)
        for first in range(0, k, 64):
            at = torch.arange(first, min(first + 64, k))
            data = torch.nn.functional.one_hot(at, k).to(NUMBERS[a_name]).to(gpu)
            actual = run(config, Scaled(data, None, data.double(), torch.ones(1, 1)), packed(b), out_dtype=F32)
            assert torch.equal(actual.double(), b.values()[:, at].t()), f"k from {first} on"

    def test_epilogue(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        m, n, k = 19, 139, 1120
        a, b = pair(a_name, weight, m, n, k, gpu, exact=False)
        bias = torch.linspace(-3, 3, n, device=gpu)
        factors = torch.full((), 0.75, device=gpu), torch.linspace(0.5, 2, m, device=gpu)[:, None]
        for out_dtype, activation in ((F32, "leaky_relu"), (BF16, "gelu"), (F16, "none")):
            for factor in factors:
                options = {"activation": activation, "slope": 0.2, "out_dtype": out_dtype}
                wanted = expected(a, b, bias, factor, **options)  # type: ignore[arg-type]
                assert_product(run(config, a, packed(b), bias, factor, **options), wanted, activation)

    def test_rows_that_lie_apart(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        m, n, k = 10, 70, 352
        a, b = pair(a_name, weight, m, n, k, gpu)
        wanted = expected(a, b, out_dtype=F32, bound=0.0)
        wide = torch.full((m, k + 24), float("nan"), dtype=a.data.dtype, device=gpu)
        held = b.data.shape[1]  # bytes of a row
        codes = torch.full((n, held + 48), 0x7F, dtype=torch.uint8, device=gpu)
        codes[:, 16 : 16 + held] = b.data.view(torch.uint8)
        apart = replace(packed(b), data=codes[:, 16 : 16 + held].view(b.data.dtype))
        for begin, pitch in ((8, k + 24), (0, k + 8)):
            view = wide.view(-1)[: m * pitch].view(m, pitch)[:, begin : begin + k]
            view.copy_(a.data)
            assert_product(run(config, replace(a, data=view), apart, out_dtype=F32), wanted, f"{begin}, {pitch}")

    def test_what_is_not_finite_stays_in_its_row_or_column(
        self, gpu: torch.device, config: Config, a_name: str, weight: str
    ) -> None:
        m, n, k = 7, 131, 1056
        a, b = pair(a_name, weight, m, n, k, gpu)
        assert b.scale is not None
        clean = run(config, a, packed(b), out_dtype=F32)
        for block in (0, b.scale.shape[1] // 2, b.scale.shape[1] - 1):
            scale = b.scale.view(torch.uint8).clone()
            scale[n - 2, block] = 0xFF
            actual = run(config, a, packed(replace(b, scale=scale.view(b.scale.dtype))), out_dtype=F32)
            assert bool(actual[:, n - 2].isnan().all())
            assert torch.equal(actual.isnan().sum(), torch.tensor(m, device=gpu)), f"block {block}"
        assert_stays_in_its_row(lambda a: run(config, a, packed(b), out_dtype=F32), a, b, clean)

    def test_a_row_does_not_depend_on_the_others(
        self, gpu: torch.device, config: Config, a_name: str, weight: str
    ) -> None:
        rows = 2 * config.tile[0] + 3
        a, b = pair(a_name, weight, rows, 136, 2336, gpu, exact=False)
        whole = run(config, a, packed(b), out_dtype=F32)
        for row in (0, config.tile[0], rows - 1):
            one = replace(a, data=a.data[row : row + 1])
            assert torch.equal(run(config, one, packed(b), out_dtype=F32), whole[row : row + 1])


@each_config
class TestScales:
    @pytest.mark.parametrize("weight", ["mxfp4", "mxfp8"])
    def test_of_e8m0_from_end_to_end(self, gpu: torch.device, config: Config, weight: str) -> None:
        """`a` brings the sums back into float32's range. Scales above 2 take two multiplications, of e4m3 those below
        2^-63 too; below 2^-124 bfloat16 does not hold every code of e4m3."""
        if weight == "mxfp8" and config not in FP8:
            a, b = pair("bfloat16", weight, 9, 66, 544, gpu)
            with pytest.raises(RuntimeError, match="it takes a weight of fp4"):
                run(config, a, packed(b))
            return
        bytes_ = ((0, 100), (1, 100), (2, 100), (3, 100), (6, 100), (63, 60), (64, 60), (127, 0), (128, 0), (129, 0))
        for byte, power in (*bytes_, (252, -100), (254, -120)):
            a, b = pair("bfloat16", weight, 9, 66, 544, gpu)
            a = replace(a, data=a.data * 2.0**power, elements=a.elements * 2.0**power)
            assert b.scale is not None
            scales = b.scale.view(torch.uint8).clone()
            scales[::3] = byte
            b = of_bytes(b, weight, scales)
            wanted = expected(a, b, out_dtype=F32, bound=0.0)
            assert_product(run(config, a, packed(b), out_dtype=F32), wanted, f"{byte}")

    @pytest.mark.parametrize("a_name", NUMBERS)
    def test_of_e4m3_all_of_them(self, gpu: torch.device, config: Config, a_name: str) -> None:
        """Each of one row: 0, subnormal ones, 448 and the negative ones; each times each code."""
        n, k = 256, 32
        codes = torch.arange(16, dtype=torch.uint8, device=gpu).repeat(n, 2)
        scales = torch.arange(n, dtype=torch.uint8, device=gpu)[:, None].expand(n, 2).contiguous()
        data = codes[:, ::2] | codes[:, 1::2] << 4
        elements = decode(codes, "e2m1") * decode(scales, "e4m3").repeat_interleave(16, 1)
        b = Scaled(data, scales.view(torch.float8_e4m3fn), elements, torch.ones(1, 1))
        ones = torch.eye(k, device=gpu)
        a = Scaled(ones.to(NUMBERS[a_name]), None, ones.double(), torch.ones(1, 1))
        actual = run(config, a, packed(b), out_dtype=F32)
        torch.testing.assert_close(actual.double(), elements.t(), rtol=0, atol=0, equal_nan=True)

    def test_reach_their_blocks(self, gpu: torch.device, config: Config) -> None:
        """All different along a row."""
        for weight, (low, high) in (("mxfp4", (110, 127)), ("nvfp4", (0x20, 0x50)), ("mxfp8", (110, 127))):
            if weight == "mxfp8" and config not in FP8:
                continue
            a, b = pair("bfloat16", weight, 5, 140, 1600, gpu)
            assert b.scale is not None
            bytes_ = torch.arange(b.scale.numel(), device=gpu).mul(7).remainder(high - low).add(low).to(torch.uint8)
            b = of_bytes(b, weight, bytes_.view(b.scale.shape))
            assert_product(run(config, a, packed(b), out_dtype=F32), expected(a, b, out_dtype=F32), weight)


@each_config
class TestFloat16BesideMxfp4:
    """Scales from 2^-16 to 2^13 are those under which float16 holds every code."""

    def test_every_scale(self, gpu: torch.device, config: Config) -> None:
        of_windows = [end + i for end in (20, 49, 78, 107, 136, 165, 194) for i in (0, 1)]
        for byte in (0, 1, *of_windows, 110, 111, 112, 113, 127, 128, 129, 140, 141, 223, 230):
            a, b = pair("float16", "mxfp4", 9, 66, 544, gpu)
            assert b.scale is not None
            scales = b.scale.view(torch.uint8).clone()
            scales[::3] = byte
            b = of_bytes(b, "mxfp4", scales)
            wanted = expected(a, b, out_dtype=F32, bound=0.0)
            assert_product(run(config, a, packed(b), out_dtype=F32), wanted, f"{byte}")

    def test_any_scales_beside_each_other(self, gpu: torch.device, config: Config) -> None:
        for turns in ([110, 140, 111, 141, 120, 124], [130, 96, 140, 127, 136, 200], [0, 90, 78, 79, 1, 108]):
            a, b = pair("float16", "mxfp4", 5, 66, 544, gpu)
            assert b.scale is not None
            scales = torch.tensor(turns, dtype=torch.uint8, device=gpu).repeat(66, 3)[:, : b.scale.shape[1]]
            scales[7:40] = scales[7:40].roll(1, 1)
            b = of_bytes(b, "mxfp4", scales.contiguous())
            assert_product(run(config, a, packed(b), out_dtype=F32), expected(a, b, out_dtype=F32), f"{turns}")

    def test_elements_at_the_end_of_float32(self, gpu: torch.device, config: Config) -> None:
        """2^127 is a sum; an element of 2^128 is infinite, as everywhere, and makes NaN of zero."""
        a, b = pair("float16", "mxfp4", 3, 66, 128, gpu)
        data = torch.zeros_like(a.data)
        data[0, 3], data[1, 40] = 1, -1.5
        codes = torch.full_like(b.data.view(torch.uint8), 0x22)  # 1
        codes[1, 1], codes[2, 1] = 0x42, 0x32  # at k = 3: 2, of which the scale makes 2^128, and 1.5
        bytes_ = torch.tensor([254, 252, 127, 127], dtype=torch.uint8, device=gpu).repeat(66, 1)
        b = of_bytes(replace(b, data=codes.view(b.data.dtype)), "mxfp4", bytes_)
        actual = run(config, replace(a, data=data), packed(b), out_dtype=F32)
        wanted = torch.tensor([2.0**127, -1.5 * 2.0**125, 0], device=gpu)[:, None].repeat(1, 66)
        wanted[:, 1] = torch.tensor([float("inf"), float("nan"), float("nan")])
        wanted[0, 2] = 1.5 * 2.0**127
        torch.testing.assert_close(actual, wanted, rtol=0, atol=0, equal_nan=True)

    def test_what_is_not_finite_beside_them(self, gpu: torch.device, config: Config) -> None:
        """Infinite elements of `a`, of which zero makes NaN, and NaN scales."""
        a, b = pair("float16", "mxfp4", 5, 66, 96, gpu)
        assert b.scale is not None
        scales = torch.tensor([3, 120, 150], dtype=torch.uint8, device=gpu).repeat(66, 1)
        scales[9, 1] = 255
        b = of_bytes(b, "mxfp4", scales)
        for value in (float("inf"), float("nan")):
            for column in (3, 40, 90):
                data = a.data.clone()
                data[2, column] = value
                actual = run(config, replace(a, data=data), packed(b), out_dtype=F32)
                wanted = data[2].double() @ b.values().t()
                torch.testing.assert_close(actual[2].double(), wanted, rtol=0, atol=0, equal_nan=True)
                others = actual[[0, 1, 3, 4]]
                assert bool(others[:, 9].isnan().all())
                assert bool(torch.cat([others[:, :9], others[:, 10:]], 1).isfinite().all())


@each_fp8_config
class TestE4M3:
    @pytest.mark.parametrize("block", [0, 5, 16])
    def test_nan_of_e4m3_elements(self, gpu: torch.device, config: Config, block: int) -> None:
        a, b = pair("bfloat16", "mxfp8", 9, 130, 544, gpu)
        codes = b.data.view(torch.uint8).clone()
        codes[77, block * 32 + 7] = 0x7F
        actual = run(config, a, packed(replace(b, data=codes.view(b.data.dtype))), out_dtype=F32)
        assert torch.equal(actual.isnan().any(0).nonzero().view(-1), torch.tensor([77], device=gpu))
        assert bool(actual[:, 77].isnan().all())

    def test_small_ones_beside_others(self, gpu: torch.device, config: Config) -> None:
        """Of a row whose blocks in turns have a scale that bfloat16 does not hold beside e4m3, and one that it does."""
        a, b = pair("bfloat16", "mxfp8", 5, 66, 544, gpu)
        a = replace(a, data=a.data * 2.0**100, elements=a.elements * 2.0**100)
        assert b.scale is not None
        scales = torch.tensor([0, 8, 2, 5, 1, 10], dtype=torch.uint8, device=gpu).repeat(66, 3)[:, : b.scale.shape[1]]
        b = of_bytes(b, "mxfp8", scales.contiguous())
        assert_product(run(config, a, packed(b), out_dtype=F32), expected(a, b, out_dtype=F32), "in turns")

    def test_not_finite_beside_small_ones(self, gpu: torch.device, config: Config) -> None:
        """An infinite element of `a` meets codes under scales of both kinds: zero among them makes NaN."""
        a, b = pair("bfloat16", "mxfp8", 5, 66, 96, gpu)
        assert b.scale is not None
        b = of_bytes(b, "mxfp8", torch.tensor([0, 100, 2], dtype=torch.uint8, device=gpu).repeat(66, 1))
        for value in (float("inf"), float("nan")):
            for column in (3, 40, 90):
                data = a.data.clone()
                data[2, column] = value
                actual = run(config, replace(a, data=data), packed(b), out_dtype=F32)
                wanted = data[2].double() @ b.values().t()
                torch.testing.assert_close(actual[2].double(), wanted, rtol=0, atol=0, equal_nan=True)
                assert bool(actual[[0, 1, 3, 4]].isfinite().all())


@pytest.mark.sanitizer
@each_config
def test_operands_end_within_tiles(gpu: torch.device, config: Config) -> None:
    """Allocations without room to spare, for compute-sanitizer."""
    m, n, k = config.tile[0] + 1, config.tile[1] + 3, 160
    for a_name, weight in [case[1:] for case in CASES if case[0] is config]:
        a, b = pair(a_name, weight, m, n, k, gpu)
        bias = torch.ones(n, device=gpu)
        actual = run(config, a, packed(b), bias, activation="leaky_relu", out_dtype=BF16)
        wanted = expected(a, b, bias, activation="leaky_relu", out_dtype=BF16, bound=0.0)
        assert_product(actual, wanted, f"{m}x{n}x{k} {weight}")


@each_config
def test_the_same_bits_every_time(gpu: torch.device, config: Config) -> None:
    a, b = pair("bfloat16", "mxfp4", 16, 1160, 4000, gpu, exact=False)
    first = run(config, a, packed(b), out_dtype=F32)
    for _ in range(3):
        assert torch.equal(first, run(config, a, packed(b), out_dtype=F32))


@each_pair
def test_the_library_chooses_them(gpu: torch.device, a_name: str, weight: str) -> None:
    """Up to 8 rows; up to 16 where they are expected to take less than the kernels with a pipeline, which do not take
    mxfp4 beside float16; up to 32 where an SM has one tile, or two of a short k. Where scales are not packed, those
    with a pipeline. Which tile: test_hopper_direct_weight_config.cpp."""
    chosen = {config.name for config in DIRECT}
    for m, n, k, is_direct in (
        (1, 8400, 64, True),
        (8, 272, 256, True),
        (16, 272, 256, True),
        (16, 2720, 2624, True),
        (16, 16384, 512, (a_name, weight) == ("float16", "mxfp4")),
        (17, 272, 256, True),
        (32, 1056, 512, True),
        (32, 1056, 1312, weight != "mxfp8"),
        (32, 4352, 512, False),
        (33, 272, 256, False),
    ):
        a, b = pair(a_name, weight, m, n, k, gpu)
        for each in (packed(b), b):
            torch.ops.tileon.block_scaled_matmul(a.data, each.data, None, each.scale)
            is_taken = is_direct and each is not b
            assert (tileon_ops.last_kernel() in chosen) == is_taken, f"{m}x{n}x{k}"


def test_what_they_do_not_take(gpu: torch.device) -> None:
    config = DIRECT[0]
    a = make("bfloat16", 4, 64).to(gpu)
    with pytest.raises(RuntimeError, match="takes packed scales"):
        run(config, a, make("mxfp4", 8, 64).to(gpu))
    with pytest.raises(RuntimeError, match="does not take `a` of this dtype"):
        run(config, replace(a, data=a.data.half()), packed(make("mxfp8", 8, 64).to(gpu)))
    a, b = pair("bfloat16", "nvfp4", 4, 8, 48, gpu)
    with pytest.raises(RuntimeError, match="whole sixteen bytes of codes"):
        run(config, a, packed(b))
    a, b = pair("bfloat16", "mxfp4", 4, 8, 64, gpu)
    wide = torch.zeros(4, 80, dtype=BF16, device=gpu)
    for view in (wide[:, 4:68], a.data.t().contiguous().t(), a.data[:1].expand(4, 64)):
        with pytest.raises(RuntimeError, match="cannot read the strides or the alignment of `a`"):
            run(config, replace(a, data=view), packed(b))
