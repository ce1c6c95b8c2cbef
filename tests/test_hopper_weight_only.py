"""The Hopper configs for few rows of a, by their numbers, where the weight alone has scales: bfloat16 by mxfp4, nvfp4
or mxfp8, float16 by nvfp4. a's elements change their places in shared memory, and the weight becomes what they are."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from block_scaled_reference import assert_product, decode
from block_scaled_table import HAS_HOPPER_GPU, NO_HOPPER_GPU
from scaled_operands import (
    BYTE_SCALES,
    NUMBERS,
    Scaled,
    assert_stays_in_its_row,
    expected,
    make,
    of_bytes,
    packed,
    pair,
    source_of,
)
from torch import Tensor

from tileon_ops._rules import configs
from tileon_ops._rules.configs import Config

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HAS_HOPPER_GPU, reason=NO_HOPPER_GPU)]

F32, BF16 = torch.float32, torch.bfloat16
FEW_ROWS = [config for config in configs.block_scaled() if config.family == "small_m"]
PAIRS = [("bfloat16", "mxfp4"), ("bfloat16", "nvfp4"), ("bfloat16", "mxfp8"), ("float16", "nvfp4")]
# m, n, k: one block and a few, whole stages and short ones, and so many of them that the ring goes round.
SIZES = [
    *((1, 131, 32), (3, 200, 96), (8, 128, 256), (16, 130, 288), (33, 72, 1056), (64, 129, 544)),
    *((65, 64, 800), (128, 264, 512), (5, 5, 7904), (1, 1, 25376)),
]

each_config = pytest.mark.parametrize("config", FEW_ROWS, ids=[config.name for config in FEW_ROWS])
each_pair = pytest.mark.parametrize(("a_name", "weight"), PAIRS, ids=map("*".join, PAIRS))


def run(config: Config, a: Scaled, b: Scaled, *tail: Tensor | None, **options: object) -> Tensor:
    op = torch.ops.tileon._block_scaled_matmul_with_config
    result: Tensor = op(a.data, b.data, None, b.scale, *tail, config=config.index, **options)
    return result


@each_config
@each_pair
class TestProducts:
    def test_small_whole_numbers_exactly(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        for m, n, k in SIZES:
            a, b = pair(a_name, weight, m, n, k, gpu)
            wanted = expected(a, b, out_dtype=F32, bound=0.0)
            for each in (b, packed(b)):
                assert_product(run(config, a, each, out_dtype=F32), wanted, f"{m}x{n}x{k}")

    def test_random_numbers_within_the_bound(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        for m, n, k in SIZES[:-2]:
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
            actual = run(config, Scaled(data, None, data.double(), torch.ones(1, 1)), b, out_dtype=F32)
            assert torch.equal(actual.double(), b.values()[:, at].t()), f"k from {first} on"

    def test_epilogue(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        m, n, k = 19, 139, 1120
        a, b = pair(a_name, weight, m, n, k, gpu, exact=False)
        bias, factor = torch.linspace(-3, 3, n, device=gpu), torch.full((), 0.75, device=gpu)
        for out_dtype, activation in ((F32, "leaky_relu"), (BF16, "gelu"), (torch.float16, "none")):
            options = {"activation": activation, "slope": 0.2, "out_dtype": out_dtype}
            wanted = expected(a, b, bias, factor, **options)  # type: ignore[arg-type]
            assert_product(run(config, a, packed(b), bias, factor, **options), wanted, activation)

    def test_rows_that_lie_apart(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        m, n, k = 10, 70, 352
        a, b = pair(a_name, weight, m, n, k, gpu)
        wanted = expected(a, b, out_dtype=F32, bound=0.0)
        wide = torch.full((m, k + 24), float("nan"), dtype=a.data.dtype, device=gpu)
        for begin, pitch in ((8, k + 24), (0, k + 8)):
            view = wide.view(-1)[: m * pitch].view(m, pitch)[:, begin : begin + k]
            view.copy_(a.data)
            assert_product(run(config, replace(a, data=view), b, out_dtype=F32), wanted, f"{begin}, {pitch}")
        for view in (wide[:, 4 : 4 + k], a.data.t().contiguous().t(), a.data[:1].expand(m, k)):
            with pytest.raises(RuntimeError, match="cannot read the strides or the alignment of `a`"):
                run(config, replace(a, data=view), b, out_dtype=F32)

    def test_what_is_not_finite_stays_in_its_row_or_column(
        self, gpu: torch.device, config: Config, a_name: str, weight: str
    ) -> None:
        m, n, k = 7, 131, 1056
        a, b = pair(a_name, weight, m, n, k, gpu)
        assert b.scale is not None
        clean = run(config, a, b, out_dtype=F32)
        for block in (0, b.scale.shape[1] // 2, b.scale.shape[1] - 1):
            scale = b.scale.view(torch.uint8).clone()
            scale[n - 2, block] = 0xFF
            actual = run(config, a, replace(b, scale=scale.view(b.scale.dtype)), out_dtype=F32)
            assert bool(actual[:, n - 2].isnan().all())
            assert torch.equal(actual.isnan().sum(), torch.tensor(m, device=gpu)), f"block {block}"
        assert_stays_in_its_row(lambda a: run(config, a, b, out_dtype=F32), a, b, clean)

    def test_no_k(self, gpu: torch.device, config: Config, a_name: str, weight: str) -> None:
        a, b = pair(a_name, weight, 3, 5, 0, gpu)
        bias = torch.arange(5.0, device=gpu)
        assert torch.equal(run(config, a, b, bias, out_dtype=F32), bias.expand(3, 5))

    def test_a_row_does_not_depend_on_the_others(
        self, gpu: torch.device, config: Config, a_name: str, weight: str
    ) -> None:
        rows = config.tile[0]
        a, b = pair(a_name, weight, rows, 136, 2336, gpu, exact=False)
        whole = run(config, a, packed(b), out_dtype=F32)
        assert torch.equal(run(config, a, b, out_dtype=F32), whole)
        for row in (0, rows - 1):
            one = replace(a, data=a.data[row : row + 1])
            assert torch.equal(run(config, one, b, out_dtype=F32), whole[row : row + 1])


@each_config
class TestScales:
    @pytest.mark.parametrize("weight", ["mxfp4", "mxfp8"])
    def test_of_e8m0_from_end_to_end(self, gpu: torch.device, config: Config, weight: str) -> None:
        """`a` brings the sums back into float32's range; what bfloat16 loses of e4m3 is added."""
        for byte, power in ((0, 100), (1, 100), (2, 100), (6, 100), (128, 0), (129, 0), (252, -100), (254, -120)):
            a, b = pair("bfloat16", weight, 9, 66, 544, gpu)
            a = replace(a, data=a.data * 2.0**power, elements=a.elements * 2.0**power)
            assert b.scale is not None
            scales = b.scale.view(torch.uint8).clone()
            scales[::3] = byte
            b = of_bytes(b, weight, scales)
            assert_product(
                run(config, a, packed(b), out_dtype=F32), expected(a, b, out_dtype=F32, bound=0.0), f"{byte}"
            )

    @pytest.mark.parametrize("a_name", NUMBERS)
    def test_of_e4m3_all_of_them(self, gpu: torch.device, config: Config, a_name: str) -> None:
        """Each of one row: 0, subnormal ones, 448 and the negative ones; each times each code."""
        n, k = 256, 32
        b = make("nvfp4", n, k).to(gpu)
        codes = torch.arange(16, dtype=torch.uint8, device=gpu).repeat(n, 2)
        scales = torch.arange(n, dtype=torch.uint8, device=gpu)[:, None].expand(n, 2).contiguous()
        data = codes[:, ::2] | codes[:, 1::2] << 4
        elements = decode(codes, "e2m1") * decode(scales, "e4m3").repeat_interleave(16, 1)
        b = Scaled(data, scales.view(torch.float8_e4m3fn), elements, torch.ones(1, 1))
        ones = torch.eye(k, device=gpu)
        a = Scaled(ones.to(NUMBERS[a_name]), None, ones.double(), torch.ones(1, 1))
        actual = run(config, a, b, out_dtype=F32)
        torch.testing.assert_close(actual.double(), elements.t(), rtol=0, atol=0, equal_nan=True)

    @pytest.mark.parametrize("block", [0, 5, 16])
    def test_nan_of_e4m3_elements(self, gpu: torch.device, config: Config, block: int) -> None:
        a, b = pair("bfloat16", "mxfp8", 9, 130, 544, gpu)
        codes = b.data.view(torch.uint8).clone()
        codes[77, block * 32 + 7] = 0x7F
        actual = run(config, a, replace(b, data=codes.view(b.data.dtype)), out_dtype=F32)
        assert torch.equal(actual.isnan().any(0).nonzero().view(-1), torch.tensor([77], device=gpu))
        assert bool(actual[:, 77].isnan().all())


@each_pair
def test_what_the_kernels_refuse(gpu: torch.device, a_name: str, weight: str) -> None:
    config = FEW_ROWS[0]
    a, b = pair(a_name, weight, 4, 8, 64, gpu)
    with pytest.raises(RuntimeError, match="does not take `a` of this dtype"):
        run(config, replace(a, data=a.data.half()), make("mxfp4", 8, 64).to(gpu))
    if weight == "nvfp4":
        a, b = pair(a_name, weight, 4, 8, 48, gpu)
        with pytest.raises(RuntimeError, match="strides or the alignment of `b`"):
            run(config, a, b)


@each_config
@each_pair
def test_scales_in_their_own_order_reach_their_blocks(
    gpu: torch.device, config: Config, a_name: str, weight: str
) -> None:
    """All different along a row, as packed blocks, transposed and with gaps."""
    m, n, k = 5, 140, 1600
    a, b = pair(a_name, weight, m, n, k, gpu)
    _, kind, vec = BYTE_SCALES[weight]
    blocks = k // vec
    source = source_of("any scales", weight)
    low, high = (120, 135) if kind == "e8m0" else (0x20, 0x50)
    b = of_bytes(b, weight, torch.randint(low, high, (n, blocks), generator=source).to(torch.uint8).to(gpu))
    assert b.scale is not None
    wanted = expected(a, b, out_dtype=F32, bound=2.0**-22)
    gaps = torch.full((n, 3 * blocks), 0xFF, dtype=torch.uint8, device=gpu).view(b.scale.dtype)[:, ::3]
    gaps.view(torch.uint8).copy_(b.scale.view(torch.uint8))
    for scale in (b.scale, packed(b).scale, b.scale.view(torch.uint8).t().contiguous().t().view(b.scale.dtype), gaps):
        assert_product(run(config, a, replace(b, scale=scale), out_dtype=F32), wanted, f"{tuple(scale.stride())}")
