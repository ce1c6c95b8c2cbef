"""Kernels whose tiles several CTAs share (csrc/cuda/sm90/heuristics/shared_tiles.h): the weights that are decoded in
the main loop. Few tiles with a long k, which clusters share; more of them, and tiles of some rounds of which the last
is not full, where CTAs hand their sums over through memory."""

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

F32, BF16 = torch.float32, torch.bfloat16
WEIGHTS = {  # of a name that ends in _beside_float16 `a` is float16, of the others bfloat16
    "sm90_weight_fp4": ("mxfp4", "nvfp4", "mxfp4_beside_float16", "nvfp4_beside_float16"),
    "sm90_weight_mxfp8": ("mxfp8",),
    "sm90_weight_codes": ("e4m3_row", "int8_row"),
    "sm90_weight_blocks": ("e4m3_1x128", "e4m3_128x128"),
}
CASES = [
    (config, weight)
    for config in configs.block_scaled()
    for family, weights in WEIGHTS.items()
    for weight in weights
    if config.name.startswith(family) and config.splits == 1
]
LARGEST = [(config, weight) for config, weight in CASES if config.tile[0] == 256]

FEW_TILES, MANY_TILES = (40, 130, 6176), (40, 9590, 4128)  # m, n, k: for clusters where there are any; for stream-K
TILES_OF_FEW_CTAS = ((9, 3800, 2592), (9, 4500, 2592), (9, 8000, 2592))  # by clusters of four, three and two

each_way = pytest.mark.parametrize("size", [FEW_TILES, MANY_TILES], ids=["few_tiles", "many_tiles"])
each_case = pytest.mark.parametrize(("config", "weight"), CASES, ids=[f"{c.name}-{weight}" for c, weight in CASES])
each_largest = pytest.mark.parametrize(("config", "weight"), LARGEST, ids=[f"{c.name}-{w}" for c, w in LARGEST])


def run(config: Config, a: Scaled, b: Scaled, **options: object) -> Tensor:
    op = torch.ops.tileon._block_scaled_matmul_with_config
    result: Tensor = op(a.data, b.data, None, b.scale, config=config.index, **options)
    assert tileon_ops.last_kernel() == config.name
    return result


def operands(weight: str, m: int, n: int, k: int, gpu: torch.device, exact: bool = False) -> tuple[Scaled, Scaled]:
    name, _, beside = weight.partition("_beside_")
    a, b = make(beside or "bfloat16", m, k, exact).to(gpu), make(name, n, k, exact).to(gpu)
    assert b.scale is not None
    return a, b if b.scale.dtype == F32 else replace(b, scale=tileon_ops.pack_scales(b.scale))


def without_sharing(config: Config, a: Scaled, b: Scaled, **options: object) -> Tensor:
    with tileon_ops.batch_invariant():
        return run(config, a, b, **options)


@each_case
@each_way
def test_tiles_are_shared(gpu: torch.device, size: tuple[int, int, int], config: Config, weight: str) -> None:
    """Other bits than of whole sums say that they are; exact sums are the same."""
    a, b = operands(weight, *size, gpu, exact=True)
    assert_product(run(config, a, b, out_dtype=F32), expected(a, b, out_dtype=F32, bound=0.0))
    a, b = operands(weight, *size, gpu)
    shared, whole = run(config, a, b, out_dtype=F32), without_sharing(config, a, b, out_dtype=F32)
    assert_product(shared, expected(a, b, out_dtype=F32))
    assert_product(whole, expected(a, b, out_dtype=F32))
    assert not torch.equal(shared, whole)
    assert torch.equal(run(config, a, b, out_dtype=F32), shared)


@each_case
def test_every_tile_is_shared_by_as_many_ctas(gpu: torch.device, config: Config, weight: str) -> None:
    """By two to eight, on 132 SMs; columns of the tile, or rows of the weight, that nobody stores; with epilogues."""
    tile_m = config.tile[0]
    few = ((tile_m - 3, 130, 1184), (tile_m, 139, 1760), (9, 1100, 2592), (tile_m // 2, 264, 6176))
    for m, n, k in (*few, *TILES_OF_FEW_CTAS):
        a, b = operands(weight, m, n, k, gpu, exact=True)
        wanted = expected(a, b, out_dtype=F32, bound=0.0)
        for _ in range(2):
            assert_product(run(config, a, b, out_dtype=F32), wanted, f"{m}x{n}x{k}")
        a, b = operands(weight, m, n, k, gpu)
        bias, factor = torch.linspace(-3, 3, n, device=gpu), torch.full((), 0.75, device=gpu)
        for out_dtype, activation in ((BF16, "gelu"), (F32, "leaky_relu"), (BF16, "none")):
            options = {"activation": activation, "slope": 0.2, "out_dtype": out_dtype}
            wanted = expected(a, b, bias, factor, **options)  # type: ignore[arg-type]
            first = run(config, a, b, bias=bias, global_scale=factor, **options)
            assert_product(first, wanted, f"{m}x{n}x{k} {activation}")
            assert torch.equal(run(config, a, b, bias=bias, global_scale=factor, **options), first)


@each_case
def test_the_last_of_several_rounds_is_shared(gpu: torch.device, config: Config, weight: str) -> None:
    sms = torch.cuda.get_device_properties(gpu).multi_processor_count
    tile_m, tile_n, _ = config.tile
    for tiles, k in ((sms + sms // 4, 2080), (2 * sms + 3, 2080), (2 * sms + sms // 2, 4096)):
        rows = 3
        m, n = rows * tile_m - 5, -(-tiles // rows) * tile_n - 8
        a, b = operands(weight, m, n, k, gpu, exact=True)
        assert_product(run(config, a, b, out_dtype=F32), expected(a, b, out_dtype=F32, bound=0.0), f"{m}x{n}x{k}")
        a, b = operands(weight, m, n, k, gpu)
        shared = run(config, a, b)
        assert_product(shared, expected(a, b, out_dtype=a.data.dtype), f"{m}x{n}x{k}")
        for _ in range(3):
            assert torch.equal(run(config, a, b), shared)


@each_largest
@each_way
def test_nan_stays_in_its_row(gpu: torch.device, size: tuple[int, int, int], config: Config, weight: str) -> None:
    a, b = operands(weight, *size, gpu)
    clean = run(config, a, b, out_dtype=F32)
    for k in (0, size[2] // 2, size[2] - 1):
        spoiled = a.data.clone()
        spoiled[7, k] = float("nan")
        out = run(config, Scaled(spoiled, None, a.elements, a.scales), b, out_dtype=F32)
        assert out[7].isnan().all()
        assert torch.equal(torch.cat([out[:7], out[8:]]), torch.cat([clean[:7], clean[8:]]))


@each_largest
@each_way
def test_graphs_replay_it(gpu: torch.device, size: tuple[int, int, int], config: Config, weight: str) -> None:
    """Of stream-K a replay finds the words of the replay before it, and other kernels' numbers in between."""
    a, b = operands(weight, *size, gpu)
    wanted = run(config, a, b)
    others = torch.randn(512, 512, device=gpu)
    others @ others
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        first = run(config, a, b)
        others @ others
        second = run(config, a, b)
    for _ in range(20):
        first.fill_(float("nan"))
        second.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(first, wanted)
        assert torch.equal(second, wanted)


@each_largest
@each_way
def test_calls_in_streams_side_by_side(
    gpu: torch.device, size: tuple[int, int, int], config: Config, weight: str
) -> None:
    m, n, k = size
    problems = [operands(weight, m + i, n + 1100 * i, k, gpu) for i in range(3)]
    wanted = [run(config, *problem) for problem in problems]
    streams = [torch.cuda.Stream(gpu) for _ in problems]
    torch.cuda.synchronize()
    results: list[list[Tensor]] = [[] for _ in problems]
    for _ in range(20):
        for problem, stream, result in zip(problems, streams, results, strict=True):
            with torch.cuda.stream(stream):
                result.append(run(config, *problem))
    torch.cuda.synchronize()
    for result, one in zip(results, wanted, strict=True):
        assert all(torch.equal(each, one) for each in result)


@each_largest
def test_batch_invariant_results_share_nothing(gpu: torch.device, config: Config, weight: str) -> None:
    a, b = operands(weight, 300, 130, 6176, gpu)
    whole = without_sharing(config, a, b)
    for m in (1, 16, 129):
        few = Scaled(a.data[:m].contiguous(), None, a.elements[:m], a.scales[:m])
        assert torch.equal(without_sharing(config, few, b), whole[:m]), m
