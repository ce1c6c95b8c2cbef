"""The kernels on a simulated GPU (tests/simulation/): right in every schedule tried, and what rare numbers cost."""
# ruff: noqa: F811

import csv
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "simulation"))

import planted
from block_scaled import BFLOAT16, E2M1, E4M3, E8M0_SCALE, FLOAT16, ROW_SCALE, block_scaled_problem
from matrix import CASES, STREAMED_CASES, block_scaled_problems, dense_problems, elementwise_problems
from simulation import (
    ELEMENTWISE,
    HOPPER,
    HOPPER_BLOCK_SCALED,
    PORTABLE,
    PORTABLE_BLOCK_SCALED,
    TABLES,
    dense_problem,
)
from test_simulation import ROOT, SIMULATION, fresh, simulation  # noqa: F401
from types_of_csrc import packed_offsets

SCHEDULES = [(0, False), (1, False), (2, False), (12, False), (13, True)]  # a seed, and whether lanes are independent
DENSE_ROWS = [
    (HOPPER, "sm90_gemm_128x256x64", (0, 0, 0)),
    (HOPPER, "sm90_gemm_128x96x64", (1, 1, 1)),
    (HOPPER, "sm90_pingpong_128x128x64", (0, 0, 0)),
    (HOPPER, "sm90_swapped_96x128x64", (0, 0, 0)),
    (HOPPER, "sm90_split4_64x64x128", (1, 1, 1)),
    (HOPPER, "sm90_few_rows_64x64x128", (0, 0, 0)),
    (HOPPER, "sm90_bf16x6_128x128x64", (2, 2, 2)),
    (HOPPER, "sm90_fp8_128x128x128", (4, 5, 1)),
    (HOPPER, "sm90_fp8_fast_pingpong_128x128x128", (4, 4, 0)),
    (PORTABLE, "sm80_mma_64x64x64", (0, 0, 0)),
    (PORTABLE, "sm80_mma_16x128x64", (1, 1, 1)),
    (PORTABLE, "sm80_mma_gather_64x64x64", (0, 0, 0)),
    (PORTABLE, "sm80_mma_widened_64x64x64_fp8", (4, 5, 1)),
    (PORTABLE, "sm80_direct_16x64x64", (0, 0, 0)),
    (PORTABLE, "sm80_direct_16x64x64_fp8", (4, 5, 1)),
    (PORTABLE, "sm80_direct_16x64x32_float32", (2, 2, 2)),
    (PORTABLE, "sm80_direct_16x64x32_float64", (3, 3, 3)),
    (PORTABLE, "sm80_direct_split8_16x16x32", (1, 1, 1)),
    (PORTABLE, "sm80_direct_split8_16x16x32_fp8", (5, 4, 0)),
    (PORTABLE, "sm80_direct_split8_16x16x16_float32", (2, 2, 2)),
    (PORTABLE, "sm80_direct_split8_16x16x16_float64", (3, 3, 3)),
    (PORTABLE, "sm80_simt_64x64x16", (2, 2, 2)),
    (PORTABLE, "sm80_few_rows_4x16x256", (2, 2, 2)),
    (PORTABLE, "sm80_narrow_8x64x256", (1, 1, 1)),
    (PORTABLE, "sm80_dmma_64x64x16", (3, 3, 3)),
    (PORTABLE, "sm80_mma_64x64x128_fp8", (4, 5, 1)),
]


def some_schedules(number: int) -> list[tuple[int, bool]]:
    """Two of them, others for the next problem."""
    return [SCHEDULES[number % 5], SCHEDULES[(number + 2) % 5]]


@pytest.mark.parametrize(("table", "name", "dtypes"), DENSE_ROWS)
def test_dense_products_are_right_in_every_schedule(simulation, table, name, dtypes):
    row = simulation.rows(table).index(name)
    ran = 0
    for number, problem in enumerate(dense_problems(simulation, dtypes=[(dtypes, False)])):
        if problem.why_not(table, row) is None:
            for seed, independent in some_schedules(number):
                assert problem.run(table, row, seed, independent) is None
            ran += 1
    assert ran >= len(CASES)


@pytest.mark.parametrize("dtypes", [(0, 0, 0), (1, 1, 1)])
@pytest.mark.parametrize("form", ["128x128", "2x1_128x256", "2x2_128x128", "1x2_swapped_208x128"])
def test_products_of_shared_tiles_are_right_in_every_schedule(simulation, form, dtypes):
    row = simulation.rows(HOPPER).index(f"sm90_stream_k_{form}x64")
    problems = dense_problems(simulation, dtypes=[(dtypes, False)], cases=STREAMED_CASES)
    for number, problem in enumerate(problems):
        if number % 4 == dtypes[0]:
            continue  # three layouts of each case, others for the other dtype
        for seed, independent in some_schedules(number):
            assert problem.run(HOPPER, row, seed, independent) is None


TF32_ROWS = [
    (HOPPER, "sm90_tf32_128x192x32"),
    (HOPPER, "sm90_tf32_pingpong_128x128x32"),
    (HOPPER, "sm90_tf32_swapped_128x128x32"),
    (PORTABLE, "sm80_mma_64x64x32_tf32"),
    (PORTABLE, "sm80_direct_16x64x64_tf32"),
    (PORTABLE, "sm80_direct_split8_16x16x32_tf32"),
]


@pytest.mark.parametrize(("table", "name"), TF32_ROWS)
def test_products_of_tf32_are_right_in_every_schedule(simulation, table, name):
    row = simulation.rows(table).index(name)
    ran = 0
    for number, problem in enumerate(dense_problems(simulation, dtypes=[((2, 2, 2), True)])):
        if problem.why_not(table, row) is None:
            for seed, independent in some_schedules(number):
                assert problem.run(table, row, seed, independent) is None
            ran += 1
    assert ran >= len(CASES)


@pytest.mark.parametrize("pitch", [1, 2, 4, 8])
@pytest.mark.parametrize("dtypes", [(0, 0, 2), (2, 2, 2), (3, 3, 3), (5, 4, 1)])
def test_narrow_products_read_no_further_than_their_operands(simulation, dtypes, pitch):
    """Lines of whole units of every width, in operands that end where memory does."""
    for number, (m, n, k, batch) in enumerate([(130, 3, 72, 1), (2, 67, 88, 2), (9, 8, 1100, 1)]):
        for layout in range(4):
            simulation.free()
            layouts = {"a_k_major": layout % 2 == 0, "b_k_major": layout < 2, "pitch": pitch}
            problem = dense_problem(simulation, m, n, k, dtypes, batch=batch, **layouts)
            row = simulation.rows(PORTABLE).index(f"sm80_narrow_{(2, 8)[(number + layout) % 2]}x64x256")
            assert problem.run(PORTABLE, row, *SCHEDULES[number]) is None


@pytest.mark.parametrize("table", [PORTABLE_BLOCK_SCALED, HOPPER_BLOCK_SCALED])
def test_block_scaled_products_are_right_in_every_schedule(simulation, table):
    ran = set()
    for number, problem in enumerate(block_scaled_problems(simulation, 2)):
        for row, name in enumerate(simulation.rows(table)):
            if problem.why_not(table, row) is None:
                seed, independent = SCHEDULES[(number + row) % 5]
                assert problem.run(table, row, seed, independent) is None
                ran.add(name)
    assert ran == set(simulation.rows(table))


def test_elementwise_kernels_give_the_oracles_bits_in_every_schedule(simulation):
    for number, problem in enumerate(elementwise_problems(simulation, 3)):
        for seed, independent in some_schedules(number):
            assert problem.run(ELEMENTWISE, problem.only_row, seed, independent) is None


def test_the_record_of_the_matrix_has_every_row_and_nothing_wrong(simulation):
    with (SIMULATION / "matrix.csv").open(newline="") as file:
        record = list(csv.DictReader(line for line in file if not line.startswith("#")))
    rows = {(name, row) for table, name in enumerate(TABLES) for row in simulation.rows(table)}
    assert {(line["table"], line["row"]) for line in record} == rows
    assert all(int(line["schedules"]) >= 8 and line["wrong"] == "0" for line in record)


def test_planted_faults_were_found_and_can_be_planted_again():
    faults = planted.faults()
    assert len(faults) >= 30
    for fault in faults:
        assert (ROOT / "csrc" / "cuda" / fault["file"]).read_text().count(fault["old"]) == 1, fault
        assert fault["seed"], fault


def test_an_a100_has_less_shared_memory_and_no_hopper_kernels(simulation):
    problem = dense_problem(simulation, 128, 128, 64, (0, 0, 0))
    simulation.choose_device("a100")
    try:
        assert problem.why_not(HOPPER, 0) is not None
        assert problem.run(PORTABLE, simulation.rows(PORTABLE).index("sm80_mma_128x128x32"), 0) is None
    finally:
        simulation.choose_device("h200")


def test_tiles_are_not_shared_where_a_gpu_lends_fewer_sms(simulation):
    """The cooperative launch is refused, and the kernel launched again with whole tiles: other bits, as right."""
    row = simulation.rows(HOPPER_BLOCK_SCALED).index("sm90_weight_codes_64x128x128")
    outputs = []
    for device in ("h200", "h200_context"):
        problem = block_scaled_problem(simulation, 20, 9590, 2592, (BFLOAT16, E4M3), ROW_SCALE, out_dtype=2, sms=132)
        simulation.choose_device(device)
        try:
            assert problem.run(HOPPER_BLOCK_SCALED, row, 0) is None
        finally:
            simulation.choose_device("h200")
        outputs.append(problem.outputs[0].data.copy())
    assert not np.array_equal(*outputs)


@pytest.mark.parametrize("form", ["128x128", "2x1_128x256"])
def test_tiles_of_16_bits_are_whole_where_a_gpu_lends_fewer_sms(simulation, form):
    """Of one schedule: what is refused takes other turns than what is shared."""
    row = simulation.rows(HOPPER).index(f"sm90_stream_k_{form}x64")
    switches = []
    for device in ("h200", "h200_context"):
        problem = dense_problem(simulation, 40, 8200, 4104, (1, 1, 1), sms=132)
        before = simulation.statistics()["switches"]
        simulation.choose_device(device)
        try:
            assert problem.run(HOPPER, row, 0) is None
        finally:
            simulation.choose_device("h200")
        switches.append(simulation.statistics()["switches"] - before)
    assert switches[0] != switches[1]


# What few rows of block-scaled operands do about rare scales.


def costs_of(problem, row: int) -> tuple[np.ndarray, int, int]:
    """The output of a run, how many products of wgmma it took, and how many elements were added up by themselves."""
    before = problem.simulation.statistics()
    what = problem.run(HOPPER_BLOCK_SCALED, row, 0)
    assert what is None or what.startswith("output 0: element"), what  # the expected results are without rare scales
    after = problem.simulation.statistics()
    wgmma, fmaf = (after[key] - before[key] for key in ("wgmma", "fmaf"))
    return problem.outputs[0].data.copy().reshape(problem.struct.m, -1), wgmma, fmaf


@pytest.mark.parametrize("of_b", [False, True])
def test_a_rare_scale_of_e4m3_costs_the_sums_of_its_own_row(simulation, of_b):
    m, n, k, line, col = 33, 264, 608, 5, 3
    row = simulation.rows(HOPPER_BLOCK_SCALED).index("sm90_block_scaled_few_rows_64x128x256")
    problem = block_scaled_problem(simulation, m, n, k, (E4M3, E4M3), E8M0_SCALE)
    codes, scales = problem.kept[2:4] if of_b else problem.kept[:2]
    block, scale = codes.reshape(-1, k)[line, col * 32 : col * 32 + 32], packed_offsets(line + 1, col + 1)[line, col]
    was = block.copy()
    block[:] = 0
    clean, products, sums = costs_of(problem, row)
    assert sums == 0
    block[:], scales[scale] = was, 0
    tiny, wgmma, fmaf = costs_of(problem, row)
    assert np.array_equal(tiny, clean)
    assert (wgmma, fmaf) == (products, 32 * (m if of_b else n))
    scales[scale] = 0xFF
    with_nan, wgmma, fmaf = costs_of(problem, row)
    assert (wgmma, fmaf) == (products, 0)
    own, others = (with_nan.T, clean.T) if of_b else (with_nan, clean)
    assert np.all((own[line] & 0x7FFF) > 0x7F80)
    assert np.array_equal(np.delete(own, line, 0), np.delete(others, line, 0))


def test_a_rare_scale_of_mxfp4_costs_the_tiles_of_its_own_row(simulation):
    m, n, k = 33, 384, 608
    row = simulation.rows(HOPPER_BLOCK_SCALED).index("sm90_block_scaled_few_rows_64x128x256")
    problem = block_scaled_problem(simulation, m, n, k, (E2M1, E2M1), E8M0_SCALE)
    _, products, _ = costs_of(problem, row)
    more = []
    for line in (5, 133, 261):  # one of each tile
        problem.kept[3][packed_offsets(n, k // 32)[line, 3]] = 1
        more.append(costs_of(problem, row)[1] - products)
    assert more[0] > 0
    assert more == [more[0], 2 * more[0], 3 * more[0]]


@pytest.fixture
def asks_for_the_product_anew(simulation):
    """asks(problem, row): whether the kernels of a config ask for the product to be computed anew, which it is not."""

    def asks(problem, row: int) -> bool:
        what = problem.run(HOPPER_BLOCK_SCALED, row, 0) or ""
        is_refused = what.startswith("the kernels ask for the product to be computed anew")
        assert is_refused or what == "" or what.startswith("output 0: element"), what  # as the scales were before
        return is_refused

    simulation.lib.simulation_refuse_second_way(1)
    yield asks
    simulation.lib.simulation_refuse_second_way(0)


@pytest.mark.parametrize(("line", "col"), [(5, 3), (13, 18), (263, 0)])
def test_numbers_that_bfloat16_loses_ask_for_the_product_anew(simulation, asks_for_the_product_anew, line, col):
    """Of a weight of mxfp8 that the main loop decodes: codes under scales below 2^-124, those of zero but for them."""
    names = simulation.rows(HOPPER_BLOCK_SCALED)
    rows = [names.index(name) for name in names if name.startswith("sm90_weight_mxfp8_")]
    problem = block_scaled_problem(simulation, 40, 264, 608, (BFLOAT16, E4M3), E8M0_SCALE)
    _, codes, scales = problem.kept[:3]
    block, scale = codes.reshape(-1, 608)[line, col * 32 : col * 32 + 32], packed_offsets(264, 19)[line, col]
    for row in rows:
        block[:], scales[scale] = 0x38, 3
        assert not asks_for_the_product_anew(problem, row)
        scales[scale] = 2
        assert asks_for_the_product_anew(problem, row)
        block[:] = 0x80
        assert not asks_for_the_product_anew(problem, row)
        block[31] = 1
        assert asks_for_the_product_anew(problem, row)
    assert rows


@pytest.mark.parametrize(("line", "col"), [(5, 3), (13, 18), (263, 0)])
def test_numbers_that_float16_loses_ask_for_the_product_anew(simulation, asks_for_the_product_anew, line, col):
    """Of a weight of mxfp4 beside float16: codes under scales outside of 2^-17 to 2^12, those of zero but for them."""
    names = simulation.rows(HOPPER_BLOCK_SCALED)
    rows = [names.index(name) for name in names if name.startswith("sm90_weight_fp4_")]
    problem = block_scaled_problem(simulation, 40, 264, 608, (FLOAT16, E2M1), E8M0_SCALE)
    _, codes, scales = problem.kept[:3]
    block, scale = codes.reshape(-1, 304)[line, col * 16 : col * 16 + 16], packed_offsets(264, 19)[line, col]
    for row in rows:
        for held, lost in ((127 - 17, 127 - 18), (127 + 12, 127 + 13), (127 - 17, 0), (255, 254)):
            block[:], scales[scale] = 0x22, held
            assert not asks_for_the_product_anew(problem, row)
            scales[scale] = lost
            assert asks_for_the_product_anew(problem, row)
            block[:] = 0x80
            assert not asks_for_the_product_anew(problem, row)
            block[15] = 0x10
            assert asks_for_the_product_anew(problem, row)
    assert rows
