"""What the Hopper rows for few rows of a promise beyond what every row does: k shared by the CTAs of a cluster, scales
that TMA copies and others, large scales, e4m3 beyond bfloat16, who takes a call, and that no memory is taken."""

from __future__ import annotations

import functools
import gc
import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from block_scaled_operands import (
    MXFP4,
    NVFP4,
    POISON,
    SCALE_PAIRS,
    Format,
    Operand,
    block_selector,
    each_format,
    elements_of,
    in_poison,
    multiply,
    pack_scales,
    quantized_normal,
    random_codes,
    small_integers,
)
from block_scaled_reference import assert_exact_product, assert_product, documented_bound, expected, product
from block_scaled_table import HAS_HOPPER_GPU, NO_HOPPER_GPU, TABLE, BlockScaledRow, each_block_scaled_row
from test_block_scaled import any_scales
from test_block_scaled_gpu import SPIN_CYCLES, Buffers
from test_block_scaled_scales import fractions_below_two, with_scales
from test_block_scaled_strides import strided_packed
from test_hopper_block_scaled import spread
from tile_table import last_config

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HAS_HOPPER_GPU, reason=NO_HOPPER_GPU)]

F32 = torch.float32
PACKED, FLAT = ("packed", "packed"), ("2d", "2d")
TILE_N = 128  # rows of b that a CTA takes
FEW_ROWS = [row for row in TABLE if row.takes_few_rows]
each_row = each_block_scaled_row(FEW_ROWS)
each_e8m0_row = each_block_scaled_row([row for row in FEW_ROWS if row.fmt.scale == "e8m0"])
each_mxfp4_row = each_block_scaled_row([row for row in FEW_ROWS if row.fmt == MXFP4])
each_row_of_e4m3 = each_block_scaled_row([row for row in FEW_ROWS if "e4m3" in (row.fmt.a, row.fmt.b)])

# Tiles of b's rows, stages of k, and how many CTAs then share k on an H200: test_hopper_few_rows_config.cpp holds the
# choice to the last. Mostly the CTAs differ in stages; of nine on one CTA, and of a hundred, the ring goes round.
SHARED_K = [
    pytest.param(tiles, stages, id=f"{stages}_stages_on_{ctas}")
    for tiles, stages, ctas in zip(
        (70, 60, 39, 20, 22, 17, 15, 1, 2), (9, 9, 10, 11, 9, 11, 7, 8, 100), (1, 2, 3, 4, 5, 6, 7, 8, 8), strict=True
    )
]


def stages_of_k(fmt: Format, count: int) -> int:
    """So many stages, of 128 bytes of b each, the last one of 96 elements."""
    return (count - 1) * (256 if fmt.b == "e2m1" else 128) + 96


@functools.lru_cache(maxsize=20)
def kept_integers(fmt: Format, side: str, rows: int, k: int) -> Operand:
    """The same for all rows of the table, which follow each other; not to be changed."""
    return small_integers(fmt, side, rows, k).to("cuda")


@functools.lru_cache(maxsize=20)
def kept_normal(fmt: Format, side: str, rows: int, k: int) -> Operand:
    return quantized_normal(fmt, side, rows, k).to("cuda")


def normal_pair(row: BlockScaledRow, m: int, n: int, stages: int) -> tuple[Operand, Operand]:
    """Numbers whose sums show in their bits in which order, and by which arithmetic, they were taken."""
    k = stages_of_k(row.fmt, stages)
    return kept_normal(row.fmt, "a", 64, k).first(m), kept_normal(row.fmt, "b", n, k)


def of_the_whole_range(fmt: Format, m: int, n: int, blocks: int) -> tuple[Operand, Operand]:
    """Scales from 2^-127 to 2^127 next to each other, b's the inverse of a's: every product is of the size of 1."""
    a, b = fractions_below_two(fmt, "a", m, blocks * 32), fractions_below_two(fmt, "b", n, blocks * 32)
    order = torch.randperm(blocks, generator=torch.Generator().manual_seed(3))
    scales = torch.linspace(0, 254, blocks).round().to(torch.uint8)[order]
    return with_scales(a, scales), with_scales(b, 254 - scales)


def sides_of_e4m3(fmt: Format) -> list[tuple[str, str]]:
    """Each with the other operand's."""
    return [(side, other) for side, other in (("a", "b"), ("b", "a")) if elements_of(fmt, side) == "e4m3"]


class TestSharedK:
    @each_row
    @pytest.mark.parametrize(("tiles", "stages"), SHARED_K)
    def test_is_exact(self, tiles: int, stages: int, row: BlockScaledRow) -> None:
        n, k = (tiles - 1) * TILE_N + 5, stages_of_k(row.fmt, stages)
        a, b = kept_integers(row.fmt, "a", 64, k).first(row.tile[0] - 1), kept_integers(row.fmt, "b", n, k)
        actual = row.run(a, b, forms=PACKED, out_dtype=F32)
        assert_exact_product(actual, a, b)
        assert torch.equal(row.run(a, b, forms=FLAT, out_dtype=F32), actual)

    @each_row
    def test_a_global_scale_for_each_row(self, row: BlockScaledRow) -> None:
        a, b = kept_integers(row.fmt, "a", 64, 1056).first(row.tile[0] - 1), kept_integers(row.fmt, "b", 133, 1056)
        scales = torch.exp2(torch.arange(len(a.codes), device="cuda") % 7 - 3.0)[:, None]
        assert torch.equal(row.run(a, b, None, scales, out_dtype=F32), row.run(a, b, out_dtype=F32) * scales)

    @each_row
    def test_every_scale_reaches_its_block_in_every_stage(self, row: BlockScaledRow) -> None:
        """Against an operand that picks one block a column, the product is a row's blocks, one by one."""
        blocks = stages_of_k(row.fmt, 9) // row.fmt.vec
        selectors = {side: block_selector(row.fmt, side, blocks * row.fmt.vec).to("cuda") for side in "ab"}
        for side, other, rows in (("a", "b", row.tile[0] - 1), ("b", "a", 131)):
            operand = kept_integers(row.fmt, side, rows, blocks * row.fmt.vec)
            operand = replace(operand, scales=any_scales(row.fmt, rows, blocks).to("cuda"))
            pair = {side: operand, other: selectors[other]}
            for forms in SCALE_PAIRS:
                actual = row.run(pair["a"], pair["b"], forms=forms, out_dtype=F32)
                assert_exact_product(actual, pair["a"], pair["b"], f"{side}, {forms}")

    @each_row
    def test_nan_in_any_part_stays_in_its_row_or_column(self, row: BlockScaledRow) -> None:
        """A scale of NaN; of e4m3 an element, too."""
        m, n, k = row.tile[0], 131, stages_of_k(row.fmt, 9)
        blocks = k // row.fmt.vec
        for side, what, block in itertools.product("ab", ("scale", "code"), (0, blocks // 2, blocks - 1)):
            if what == "code" and elements_of(row.fmt, side) == "e2m1":
                continue  # it has no NaN
            pair = {"a": small_integers(row.fmt, "a", m, k), "b": small_integers(row.fmt, "b", n, k, seed=1)}
            at = {"a": m - 2, "b": n - 2}[side]
            if what == "scale":
                pair[side].scales[at, block] = 0xFF  # NaN of either type
            else:
                pair[side].codes[at, block * row.fmt.vec + 5] = 0x7F
            a, b = pair["a"].to("cuda"), pair["b"].to("cuda")
            actual = row.run(a, b, out_dtype=F32)
            wanted = torch.zeros(m, n, dtype=torch.bool, device="cuda")
            (wanted if side == "a" else wanted.t())[at] = True
            assert torch.equal(actual.isnan(), wanted), f"{what} of {side}, block {block}"
            assert_exact_product(actual, a, b, f"{what} of {side}, block {block}")

    @each_row
    @pytest.mark.parametrize(("n", "stages"), [(131, 9), (131, 100), (39 * TILE_N, 9)])
    def test_the_bits_are_the_same_every_time(self, n: int, stages: int, row: BlockScaledRow) -> None:
        """A race between the stages, or between the CTAs of a cluster, shows as changing bits."""
        a, b = normal_pair(row, row.tile[0], n, stages)
        first = row.run(a, b, out_dtype=F32)
        assert_product(first, expected(product(a, b), out_dtype=F32, bound=documented_bound(a.codes.shape[1])))
        for _ in range(20):
            assert torch.equal(row.run(a, b, out_dtype=F32), first)

    @each_row
    def test_a_row_does_not_depend_on_the_others(self, row: BlockScaledRow) -> None:
        for stages in (2, 5, 9):
            a, b = normal_pair(row, row.tile[0], 200, stages)
            together = row.run(a, b, out_dtype=F32)
            for at in (0, row.tile[0] - 1):
                one = replace(a, codes=a.codes[at : at + 1], scales=a.scales[at : at + 1])
                assert torch.equal(row.run(one, b, out_dtype=F32), together[at : at + 1]), f"row {at}, {stages} stages"


class TestScales:
    @each_row
    def test_of_any_strides(self, row: BlockScaledRow) -> None:
        """TMA copies whole blocks of 512 bytes where both operands have them; threads gather all others."""
        k = stages_of_k(row.fmt, 5)
        a, b = kept_integers(row.fmt, "a", row.tile[0], k), kept_integers(row.fmt, "b", 300, k)
        scales = {"a": a.scale_tensor("packed"), "b": b.scale_tensor("packed")}
        options = ({"transposed": True}, {"pad": 3}, {"step": 2}, {"offset": 1})
        for side, operand in (("a", a), ("b", b)):
            views = [(str(option), in_poison(operand.scales, **option)) for option in options]  # type: ignore[arg-type]
            for name, view in [*views, *strided_packed(pack_scales(operand.scales))]:
                given = scales | {side: operand.typed_scale(view)}
                actual = row.run_on(a.data(), b.data(), given["a"], given["b"], out_dtype=F32)
                assert_exact_product(actual, a, b, f"{side}, {name}")

    @each_row
    def test_what_stands_in_the_padding_never_matters(self, row: BlockScaledRow) -> None:
        """Not even to the bits: NaN under a row that is not there is nothing that bfloat16 would have lost."""
        a, b = normal_pair(row, row.tile[0] - 3, 131, 5)
        results = [
            row.run_on(
                a.data(), b.data(), *(x.typed_scale(pack_scales(x.scales, padding)) for x in (a, b)), out_dtype=F32
            )
            for padding in (0, 0x7F, POISON)
        ]
        for result in results[1:]:
            assert torch.equal(result, results[0])

    @each_row
    def test_what_an_earlier_kernel_left_in_shared_memory_never_matters(self, row: BlockScaledRow) -> None:
        """Where threads gather scales, none come for rows of a tile that are not there."""
        a, b = normal_pair(row, 1, 131, 5)
        results = []
        for byte in (0, POISON):
            leave_in_shared_memory(row, byte)
            results.append(row.run(a, b, forms=FLAT, out_dtype=F32))
        assert torch.equal(results[0], results[1])
        assert torch.equal(row.run(a, b, forms=PACKED, out_dtype=F32), results[0])

    @each_e8m0_row
    def test_large_ones_beside_small_ones(self, row: BlockScaledRow) -> None:
        """Above 2, e2m1 takes a multiplication more; every byte in every row, in no order."""
        a, b = (x.to("cuda") for x in of_the_whole_range(row.fmt, row.tile[0], 131, 255))
        assert_exact_product(row.run(a, b, out_dtype=F32), a, b)

    @each_e8m0_row
    def test_one_large_one_among_small_ones(self, row: BlockScaledRow) -> None:
        """One thread of a warp then decides for all of it; what the others hold stays as it is."""
        k = stages_of_k(row.fmt, 5)
        for side, at in (("a", row.tile[0] - 1), ("b", 77)):
            pair = {"a": small_integers(row.fmt, "a", row.tile[0], k), "b": small_integers(row.fmt, "b", 131, k)}
            for operand in pair.values():
                operand.scales.clamp_(max=128)
            for block in range(0, k // 32, 5):
                pair[side].scales[at, block] = 133
            a, b = pair["a"].to("cuda"), pair["b"].to("cuda")
            assert_exact_product(row.run(a, b, out_dtype=F32), a, b, side)

    @each_mxfp4_row
    @pytest.mark.parametrize("binades", [3, 15, 31, 70])
    def test_of_mxfp4_may_lie_any_number_of_binades_apart(self, binades: int, row: BlockScaledRow) -> None:
        """In every row of a, or in one alone; within the bound, and where b picks a block, to the last bit."""
        k = stages_of_k(MXFP4, 9)
        wide = spread(random_codes(MXFP4, "a", row.tile[0], k), 150, binades)
        level = with_scales(wide, torch.tensor(150))
        one = replace(level, scales=torch.cat((level.scales[:-1], wide.scales[-1:])))
        b = random_codes(MXFP4, "b", 131, k, seed=1).to("cuda")
        select = block_selector(MXFP4, "b", k).to("cuda")
        for a in (wide.to("cuda"), one.to("cuda")):
            total = expected(product(a, b), out_dtype=F32, bound=documented_bound(k))
            assert_product(row.run(a, b, out_dtype=F32), total, "all blocks")
            assert_exact_product(row.run(a, select, out_dtype=F32), a, select, "block by block")


def leave_in_shared_memory(row: BlockScaledRow, byte: int) -> None:
    """Runs the row on every SM, through all stages of the ring, under scales that are all `byte`."""
    fmt = row.fmt
    k = stages_of_k(fmt, 10)
    sm_count = torch.cuda.get_device_properties("cuda").multi_processor_count
    a, b = (
        Operand(
            torch.zeros(rows, k, dtype=torch.uint8, device="cuda"),
            torch.full((rows, k // fmt.vec), byte, dtype=torch.uint8, device="cuda"),
            elements_of(fmt, side),
            fmt.scale,
        )
        for side, rows in (("a", row.tile[0]), ("b", TILE_N * sm_count))
    )
    row.run(a, b, forms=FLAT)


class TestBeyondBFloat16:
    """e4m3 under scales of 2^-127 to 2^-125, of which bfloat16 loses bits; the other operand's bring them back."""

    @each_row_of_e4m3
    def test_is_summed_anew(self, row: BlockScaledRow) -> None:
        """The smallest elements, exactly; and all of them."""
        m, n, k = row.tile[0], 131, stages_of_k(row.fmt, 5)
        for side, other in sides_of_e4m3(row.fmt):
            rows = {"a": m, "b": n}
            every = with_scales(random_codes(row.fmt, side, rows[side], k), torch.arange(k // 32) % 3)
            tiny = replace(every, codes=every.codes & 0x87)
            large = with_scales(small_integers(row.fmt, other, rows[other], k), torch.tensor(230)).to("cuda")
            for operand, bound in ((tiny.to("cuda"), 0.0), (every.to("cuda"), documented_bound(k))):
                pair = {side: operand, other: large}
                wanted = expected(product(pair["a"], pair["b"]), out_dtype=F32, bound=bound)
                assert_product(row.run(pair["a"], pair["b"], out_dtype=F32), wanted, f"{side}, bound {bound}")

    @each_row_of_e4m3
    def test_in_one_block_reaches_every_cta_of_the_cluster(self, row: BlockScaledRow) -> None:
        """The one that sees it has an eighth of k; all of them store."""
        m, n, k = row.tile[0], 131, stages_of_k(row.fmt, 8)
        for side, other in sides_of_e4m3(row.fmt):
            for block in (0, k // 64, k // 32 - 1):
                pair = {"a": small_integers(row.fmt, "a", m, k), "b": small_integers(row.fmt, "b", n, k, seed=1)}
                at = slice(block * 32, block * 32 + 32)
                tiny, large = pair[side], pair[other]
                tiny.codes[:, at] = 0
                tiny.codes[5] = 0
                tiny.codes[5, at] = torch.arange(32, dtype=torch.uint8) % 8
                tiny.scales[5, block] = 0
                large.codes[7] *= torch.arange(k) // 32 == block
                large.scales[7, block] = 227
                a, b = pair["a"].to("cuda"), pair["b"].to("cuda")
                actual = row.run(a, b, out_dtype=F32)
                assert_exact_product(actual, a, b, f"{side}, block {block}")
                assert bool((actual[5] if side == "a" else actual[:, 5]).any())


class TestChoice:
    """Which tile is taken: test_block_scaled_choice.py, hopper_few_rows_config."""

    @each_format
    def test_products_of_any_few_rows_are_exact(self, fmt: Format) -> None:
        n, k = 200, 1056
        b = kept_integers(fmt, "b", n, k)
        families = set()
        for m in (1, 8, 9, 16, 17, 32, 33, 64, 65, 129):
            a = kept_integers(fmt, "a", 129, k).first(m)
            for forms in (PACKED, FLAT):
                assert_exact_product(multiply(a, b, forms=forms, out_dtype=F32), a, b, f"m {m}")
                families.add(last_config().family)
        assert families <= {"small_m", "cooperative", "swap_ab"}, "Hopper's kernels"

    @each_format
    @pytest.mark.parametrize("side", ["a", "b"])
    def test_what_tma_cannot_read_goes_another_way(self, side: str, fmt: Format) -> None:
        """Rows that do not begin at multiples of 16 bytes, or are none; those that lie apart are read as they are."""
        a, b = kept_integers(fmt, "a", 16, 4128), kept_integers(fmt, "b", 200, 4128)
        operand = {"a": a, "b": b}[side]
        for options, is_read in (
            ({"pad": 8}, False),
            ({"offset": 8}, False),
            ({"step": 2}, False),
            ({"transposed": True}, False),
            ({"pad": 16}, True),
        ):
            data = {"a": a.data(), "b": b.data(), side: operand.typed(in_poison(operand.bytes(), **options))}  # type: ignore[arg-type]
            scales = a.scale_tensor("packed"), b.scale_tensor("packed")
            actual = torch.ops.tileon.block_scaled_matmul(data["a"], data["b"], *scales, out_dtype=F32)
            assert (last_config().family == "small_m") == is_read, options
            assert_exact_product(actual, a, b, str(options))

    def test_nvfp4_of_an_odd_number_of_blocks_goes_another_way(self) -> None:
        """Its rows are 8 bytes longer than a multiple of 16; of one row that does not show."""
        for m, n, is_read in ((16, 200, False), (1, 200, False), (1, 1, True)):
            a, b = kept_integers(NVFP4, "a", m, 4112), kept_integers(NVFP4, "b", n, 4112)
            assert_exact_product(multiply(a, b, out_dtype=F32), a, b)
            assert (last_config().family == "small_m") == is_read, f"{m}x{n}"


def in_turn(fmt: Format, m: int, n: int, k: int) -> Iterator[tuple[Operand, Operand]]:
    """Operands that go different ways through one kernel: plain ones, scales of the whole range or NaN, plain ones."""
    for seed in range(3):
        a = small_integers(fmt, "a", m, k, seed=seed)
        b = small_integers(fmt, "b", n, k, seed=seed + 100)
        if seed == 1 and fmt.scale == "e8m0":
            a, b = of_the_whole_range(fmt, m, n, k // 32)
        elif seed == 1:
            a.scales[3, 5] = 0xFF
        yield a.to("cuda"), b.to("cuda")


@each_format
def test_a_graph_multiplies_what_its_inputs_hold_at_each_replay(fmt: Format) -> None:
    m, n, k = 16, 200, 4128
    pairs = list(in_turn(fmt, m, n, k))
    buffers = Buffers(*pairs[0])
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream()):
        actual = torch.ops.tileon.block_scaled_matmul(*buffers.tensors, out_dtype=F32)
    assert last_config().family == "small_m"
    for a, b in pairs:
        buffers.write(a, b)
        graph.replay()
        assert_exact_product(actual, a, b)


@each_row
def test_each_product_waits_for_the_one_before(row: BlockScaledRow) -> None:
    """A kernel starts while the one ahead runs: its bias is that one's result, and its operands change right after."""
    m, n, k = 1, 200, stages_of_k(row.fmt, 5)
    pairs = list(in_turn(row.fmt, m + 7, n, k))[::2]
    pairs = [(a.first(m), b) for a, b in pairs]
    buffers = Buffers(*pairs[0])
    total = sum(product(a, b).value for a, b in pairs)
    bias = torch.zeros(n, device="cuda")
    torch.cuda.synchronize()
    torch.cuda._sleep(SPIN_CYCLES)
    for a, b in pairs * 4:
        buffers.write(a, b)
        bias = row.run_on(*buffers.tensors, bias, out_dtype=F32).view(-1)
        bias = row.run_on(*buffers.tensors, bias, out_dtype=F32).view(-1)
    assert torch.equal(bias.double(), 8 * total.view(-1))


@each_format
def test_no_memory_is_taken_but_the_outputs(fmt: Format) -> None:
    b = kept_integers(fmt, "b", 200, 4128)
    for m in (1, 16, 64):
        a = kept_integers(fmt, "a", 64, 4128).first(m)
        for forms in (PACKED, FLAT):
            tensors = (a.data(), b.data(), a.scale_tensor(forms[0]), b.scale_tensor(forms[1]))
            out = torch.empty(m, 200, device="cuda")
            gc.collect()  # what other tests have left behind
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            torch.ops.tileon.block_scaled_matmul.out(*tensors, out_dtype=F32, out=out)
            assert last_config().family == "small_m"
            assert torch.cuda.max_memory_allocated() == before
            torch.ops.tileon.block_scaled_matmul(*tensors, out_dtype=F32)
            more = torch.cuda.max_memory_allocated() - before  # which the allocator counts in 512 bytes
            assert more == -(-out.nbytes // 512) * 512
