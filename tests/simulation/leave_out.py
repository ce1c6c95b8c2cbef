"""Leaves out one wait, arrival, fence, barrier or commit after the other, and notes which schedule misses it first.

python3 leave_out.py [--rows TEXT ...] [--files TEXT ...] [--schedules N]: each place in the sources that runs, for each
role of warps that comes there by itself. What it finds goes into call_sites.csv, which keeps the rest, and explanations
of places that no schedule misses, which are written there by hand. Afterwards, with `--unfound --library
../../build/simulation/accesses/libsimulation.so`, what only the build that sees plain accesses notices.
"""

import argparse
import collections
import pathlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import call_sites
import numpy as np
from block_scaled import (
    BFLOAT16,
    BLOCK_SCALE,
    E2M1,
    E4M3,
    E4M3_SCALE,
    E8M0_SCALE,
    FLOAT16,
    INT8,
    ROW_SCALE,
    block_scaled_problem,
)
from call_sites import KINDS, Site
from elementwise import (
    EPILOGUE_BACKWARD,
    FLOAT32_FORMATS,
    NVFP4_ROWS,
    OPERAND_COPY,
    QUANTIZE,
    epilogue_backward_problem,
    numbers_problem,
    nvfp4_rows_problems,
    operand_copy_problem,
    quantize_float32_problem,
)
from matrix import LIBRARY
from simulation import (
    ELEMENTWISE,
    HOPPER,
    HOPPER_BLOCK_SCALED,
    PORTABLE,
    PORTABLE_BLOCK_SCALED,
    Problem,
    Simulation,
    dense_problem,
)
from small_float_reference import FORMATS
from types_of_csrc import decode, encode, packed_offsets

# A seed, and whether lanes run one by one.
SCHEDULES = [(0, False), (1, False), (2, False), (3, False), (0, True), (1, True)]
SCHEDULES += [(seed, seed % 2 == 1) for seed in range(4, 62)]
FIXED = 6  # of these are tried on all cases, the others on the fastest ones alone
FASTEST = 3
LOOKED_AT = [SCHEDULES[0], SCHEDULES[-1]]  # what runs does not depend on the schedule

Role = tuple[str, int, int]  # first and last warp
ALL: Role = ("all warps", 0, 31)


def roles_of(*first: int) -> list[Role]:
    """Consumers from warp 0 on, the producer from the last of `first` on, in between those who decode."""
    names = ["consumers", "decoders", "producer"] if len(first) > 1 else ["consumers", "producer"]
    return [(name, begin, end - 1) for name, begin, end in zip(names, (0, *first), (*first, 32), strict=True)]


def with_scales(producer: int) -> list[Role]:
    """Behind the producer's warp those that write the stages' scales."""
    return [("consumers", 0, producer - 1), ("producer", producer, producer), ("scale writers", producer + 1, 31)]


ONE, TWO, DECODED_8, DECODED_64 = roles_of(4), roles_of(8), roles_of(16, 20), roles_of(8, 12)
SCALED_1, SCALED_2, SCALED_3 = with_scales(4), with_scales(8), with_scales(12)


@dataclass
class Case:
    """A product by a row of a table, or another op. Returns what went wrong."""

    row: str
    roles: list[Role]
    run: Callable[[int, bool], str | None]
    anew: bool = False  # whether kernels that compute the product anew are meant to follow
    places: dict[tuple[str, int], int] = field(default_factory=dict)  # those that run, and by which warps
    seconds: float = 0.0


MANY = [(200, 264, 584), (129, 257, 64), (200, 520, 64)]  # tiles and blocks of k, so that rings go round
FEW = [(200, 136, 264), (129, 257, 72)]
# Row, roles, dtypes, sizes and what else dense_problem takes.
HALF, WHOLE, DOUBLE = (0, 0, 0), (2, 2, 2), (3, 3, 3)
DENSE = [
    (HOPPER, "sm90_gemm_128x256x64", TWO, HALF, MANY, {}),
    (HOPPER, "sm90_gemm_128x256x64", TWO, (1, 1, 1), [(200, 136, 72)], {"batch": 2, "a_k_major": False}),
    (HOPPER, "sm90_gemm_128x96x64", TWO, HALF, [(200, 264, 136), (200, 129, 72)], {"pre_activation": True}),
    (HOPPER, "sm90_gemm_128x176x64", TWO, HALF, FEW, {}),
    (HOPPER, "sm90_gemm_128x176x64", TWO, HALF, [(300, 536, 136)], {"slope": 2.0}),
    (HOPPER, "sm90_gemm_128x176x64", TWO, HALF, [(300, 536, 136)], {"pre_activation": True}),
    (HOPPER, "sm90_gemm_64x64x128", ONE, HALF, FEW, {}),
    (HOPPER, "sm90_pingpong_128x128x64", TWO, HALF, MANY, {}),
    (HOPPER, "sm90_swapped_96x128x64", TWO, HALF, FEW, {}),
    (HOPPER, "sm90_cluster2x1_128x256x64", TWO, HALF, [(520, 264, 328)], {"sms": 2}),
    (HOPPER, "sm90_cluster2x2_128x128x64", TWO, HALF, [(520, 264, 328)], {"sms": 8}),
    (HOPPER, "sm90_split2_128x128x64", TWO, HALF, [(200, 136, 2056)], {}),
    (HOPPER, "sm90_few_rows_64x64x128", ONE, HALF, [(100, 136, 1032)], {}),
    (HOPPER, "sm90_few_rows_split2_8x64x128", ONE, HALF, [(9, 136, 2056), (9, 137, 2056)], {}),
    (HOPPER, "sm90_bf16x6_128x128x64", TWO, WHOLE, [(200, 264, 328), (129, 257, 64)], {}),
    (HOPPER, "sm90_bf16x6_64x64x64", ONE, WHOLE, FEW, {"b_k_major": False}),
    (HOPPER, "sm90_bf16x6_split2_64x64x64", ONE, WHOLE, [(100, 136, 520)], {}),
    (HOPPER, "sm90_tf32_128x128x32", TWO, WHOLE, [(200, 264, 328), (129, 260, 64)], {"tf32": True}),
    (HOPPER, "sm90_tf32_64x128x32", ONE, WHOLE, [(132, 264, 328)], {"tf32": True, "a_k_major": False}),
    (HOPPER, "sm90_tf32_swapped_128x128x32", TWO, WHOLE, [(200, 264, 328)], {"tf32": True, "b_k_major": False}),
    (HOPPER, "sm90_fp8_128x128x128", TWO, (4, 5, 1), [(200, 264, 1040), (129, 257, 64)], {}),
    (HOPPER, "sm90_fp8_fast_pingpong_128x128x128", TWO, (4, 4, 0), [(200, 264, 1040)], {}),
    (PORTABLE, "sm80_mma_64x64x64", [], HALF, FEW, {}),
    (PORTABLE, "sm80_mma_64x64x64", [], HALF, [(129, 72, 520)], {"a_k_major": False, "b_k_major": False}),
    (PORTABLE, "sm80_mma_gather_64x64x64", [], HALF, [(65, 129, 200)], {"pitch": 1}),
    (PORTABLE, "sm80_mma_widened_64x64x64_fp8", [], (4, 5, 1), [(72, 136, 528)], {"a_k_major": False}),
    (PORTABLE, "sm80_mma_64x64x32_tf32", [], WHOLE, [(65, 136, 264)], {"tf32": True}),
    (PORTABLE, "sm80_mma_64x64x128_fp8", [], (4, 5, 1), [(65, 136, 528)], {}),
    (PORTABLE, "sm80_simt_64x64x16", [], WHOLE, [(65, 129, 100)], {"batch": 2}),
    (PORTABLE, "sm80_dmma_64x64x16", [], DOUBLE, [(65, 129, 100)], {}),
    (PORTABLE, "sm80_dmma_64x64x16", [], DOUBLE, [(9, 129, 2900)], {"sms": 132}),
    (PORTABLE, "sm80_direct_split8_16x16x32", [], HALF, [(20, 24, 600)], {}),
    (PORTABLE, "sm80_few_rows_4x16x256", [], WHOLE, [(5, 40, 600)], {}),
    (PORTABLE, "sm80_narrow_8x64x256", [], HALF, [(5, 40, 2100), (3, 1, 4000)], {}),
    (PORTABLE, "sm80_narrow_8x64x256", [], HALF, [(40, 5, 2100)], {"a_k_major": False}),
]
# Row, roles, formats, sizes, by what power of two the scales of a row of a and of b are smaller, and what else
# block_scaled_problem takes. `every`: the distance to further such rows; `anew`: bfloat16 loses some of these numbers.
MXFP8, MXFP4, NVFP4 = ((E4M3, E4M3), E8M0_SCALE), ((E2M1, E2M1), E8M0_SCALE), ((E2M1, E2M1), E4M3_SCALE)
BFLOAT16_MXFP4, BFLOAT16_MXFP8 = ((BFLOAT16, E2M1), E8M0_SCALE), ((BFLOAT16, E4M3), E8M0_SCALE)
FP8_ROWS, INT8_ROWS, FP8_BLOCKS = ((E4M3, E4M3), ROW_SCALE), ((INT8, INT8), ROW_SCALE), ((E4M3, E4M3), BLOCK_SCALE)
BFLOAT16_FP8_ROWS = ((BFLOAT16, E4M3), ROW_SCALE)
BFLOAT16_FP8_BLOCKS, FLOAT16_INT8_ROWS = ((BFLOAT16, E4M3), BLOCK_SCALE), ((FLOAT16, INT8), ROW_SCALE)
PLAIN = {"bias": False, "activation": "none", "sms": 2}
NARROW = {"last": 4, "bias": False, "activation": "none", "out_dtype": 2}
BLOCK_SCALED = [
    (HOPPER_BLOCK_SCALED, "few_rows_64x128x256", DECODED_64, MXFP8, (64, 264, 1280), (0, 0), {}),
    (HOPPER_BLOCK_SCALED, "few_rows_64x128x256", DECODED_64, MXFP4, (64, 264, 2560), (0, 0), {}),
    (HOPPER_BLOCK_SCALED, "few_rows_64x128x256", DECODED_64, NVFP4, (64, 264, 1536), (0, 0), {"packed": False}),
    (HOPPER_BLOCK_SCALED, "few_rows_8x128x256", DECODED_8, MXFP8, (9, 136, 3328), (0, 0), {"sms": 8}),
    (HOPPER_BLOCK_SCALED, "few_rows_8x128x256", DECODED_8, MXFP4, (8, 72, 3328), (0, 0), {"sms": 4}),
    (HOPPER_BLOCK_SCALED, "few_rows_8x128x256", DECODED_8, MXFP4, (8, 73, 3328), (0, 0), {"sms": 4}),
    (HOPPER_BLOCK_SCALED, "few_rows_8x128x256", DECODED_8, MXFP8, (9, 136, 544), (126, 0), {"sms": 8}),
    (HOPPER_BLOCK_SCALED, "few_rows_8x128x256", DECODED_8, MXFP8, (8, 72, 544), (0, 126), {}),
    (HOPPER_BLOCK_SCALED, "few_rows_8x128x256", DECODED_8, MXFP4, (9, 136, 1056), (20, 0), {"sms": 8}),
    (HOPPER_BLOCK_SCALED, "few_rows_8x128x256", DECODED_8, MXFP4, (8, 72, 544), (0, 122), {"sms": 1}),
    (HOPPER_BLOCK_SCALED, "few_rows_64x128x256", DECODED_64, MXFP4, (64, 136, 1312), (20, 0), {}),
    (HOPPER_BLOCK_SCALED, "few_rows_8x128x256", DECODED_8, BFLOAT16_MXFP4, (8, 72, 3328), (0, 0), {}),
    (HOPPER_BLOCK_SCALED, "few_rows_8x128x256", DECODED_8, BFLOAT16_FP8_BLOCKS, (8, 72, 1712), (0, 0), {"sms": 1}),
    (HOPPER_BLOCK_SCALED, "few_rows_64x128x256", DECODED_64, FLOAT16_INT8_ROWS, (64, 136, 1312), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "bfloat16_128x256x64", TWO, MXFP8, (200, 264, 352), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "bfloat16_pingpong_128x128x64", TWO, NVFP4, (200, 264, 192), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "bfloat16_64x64x128", ONE, MXFP8, (72, 72, 96), (126, 0), {"anew": True}),
    (HOPPER_BLOCK_SCALED, "weight_mxfp8_64x128x128", [], BFLOAT16_MXFP8, (1050, 1048, 32), (0, 126), {"anew": True}),
    (HOPPER_BLOCK_SCALED, "int8_128x128x128", TWO, MXFP4, (200, 264, 1056), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "int8_pingpong_128x176x128", TWO, MXFP4, (200, 264, 608), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "int8_64x64x256", ONE, MXFP4, (130, 200, 32), (0, 9), {"sms": 2, "every": 2}),
    (HOPPER_BLOCK_SCALED, "int8_128x128x128", TWO, MXFP4, (200, 520, 32), (0, 9), {"sms": 2, "every": 2}),
    (HOPPER_BLOCK_SCALED, "int8_64x64x256", ONE, MXFP4, (130, 136, 608), (0, 0), NARROW),
    (HOPPER_BLOCK_SCALED, "float8_128x128x128", TWO, MXFP4, (200, 264, 1056), (0, 0), NARROW | {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "float8_64x128x128", ONE, MXFP4, (72, 136, 96), (70, 0), {}),
    (HOPPER_BLOCK_SCALED, "scaled_fp8_128x128x128", TWO, FP8_ROWS, (200, 264, 400), (0, 0), PLAIN),
    (HOPPER_BLOCK_SCALED, "scaled_fp8_fast_pingpong_128x160x128", TWO, FP8_ROWS, (300, 328, 272), (0, 0), PLAIN),
    (HOPPER_BLOCK_SCALED, "scaled_int8_64x128x256", ONE, INT8_ROWS, (200, 264, 528), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "scaled_int8_64x64x256", ONE, INT8_ROWS, (520, 200, 288), (0, 0), {"sms": 2, "wide": True}),
    (HOPPER_BLOCK_SCALED, "scaled_fp8_blocks_192x128x128", SCALED_3, FP8_BLOCKS, (200, 264, 1312), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "scaled_fp8_blocks_128x128x128", SCALED_2, FP8_BLOCKS, (200, 264, 912), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "scaled_fp8_blocks_64x128x128", SCALED_1, FP8_BLOCKS, (200, 264, 912), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "scaled_fp8_blocks_swapped_16x128x128", SCALED_2, FP8_BLOCKS, (40, 264, 1040), (0, 0), {}),
    (HOPPER_BLOCK_SCALED, "weight_fp4_256x128x64", TWO, BFLOAT16_MXFP4, (300, 264, 544), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "weight_fp4_64x128x64", TWO, BFLOAT16_MXFP4, (130, 264, 1056), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "weight_direct_8x16x128", [ALL], BFLOAT16_MXFP4, (9, 136, 3328), (0, 0), {}),
    (HOPPER_BLOCK_SCALED, "weight_direct_16x16x128", [ALL], FLOAT16_INT8_ROWS, (9, 136, 3344), (0, 0), {}),
    (HOPPER_BLOCK_SCALED, "weight_mxfp8_256x128x64", TWO, BFLOAT16_MXFP8, (300, 264, 544), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "weight_mxfp8_64x128x128", TWO, BFLOAT16_MXFP8, (130, 264, 1056), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "weight_codes_256x128x64", TWO, BFLOAT16_FP8_ROWS, (300, 264, 544), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "weight_codes_64x128x128", TWO, FLOAT16_INT8_ROWS, (130, 264, 1056), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "weight_codes_64x128x128", TWO, FLOAT16_INT8_ROWS, (40, 130, 4128), (0, 0), {"sms": 4}),
    (HOPPER_BLOCK_SCALED, "weight_codes_64x128x128", TWO, FLOAT16_INT8_ROWS, (40, 330, 4128), (0, 0), {"sms": 5}),
    (HOPPER_BLOCK_SCALED, "weight_blocks_256x128x64", TWO, BFLOAT16_FP8_BLOCKS, (300, 264, 544), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "weight_blocks_64x128x128", TWO, BFLOAT16_FP8_BLOCKS, (130, 264, 1056), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "weight_fp4_256x128x64", TWO, BFLOAT16_MXFP4, (300, 264, 2592), (0, 0), {"sms": 4}),
    (HOPPER_BLOCK_SCALED, "folded_mxfp8_160x128x128", TWO, MXFP8, (300, 264, 1088), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "folded_mxfp8_64x128x128", TWO, MXFP8, (130, 264, 1088), (0, 0), {"sms": 2}),
    (HOPPER_BLOCK_SCALED, "folded_fp4_64x128x128", TWO, MXFP4, (40, 130, 4128), (0, 0), {"sms": 4}),
    (PORTABLE_BLOCK_SCALED, "64x128x32", [], MXFP8, (65, 136, 288), (0, 0), {}),
    (PORTABLE_BLOCK_SCALED, "64x128x32", [], NVFP4, (65, 136, 288), (0, 0), {"packed": False}),
    (PORTABLE_BLOCK_SCALED, "64x128x32", [], MXFP8, (65, 136, 160), (126, 0), {}),
]


def make_smaller(problem: Problem, rows: np.ndarray, power: int, *, transposed: bool = False) -> None:
    """Multiplies rows (or columns) of what is expected by 2^-power; what then is subnormal is rounded."""
    output = problem.outputs[0]
    for ends, slack in ((output.low, -(2.0**-147)), (output.high, 2.0**-147)):
        of_rows = ends.reshape(problem.struct.m, problem.struct.n)
        view = of_rows.T if transposed else of_rows
        view[rows] = view[rows] * 2.0**-power + slack


def dense_cases(simulation: Simulation) -> Iterator[Case]:
    for table, name, roles, dtypes, sizes, more in DENSE:
        row = simulation.rows(table).index(name)
        for m, n, k in sizes:
            yield case_of(name, roles, dense_problem(simulation, m, n, k, dtypes, **{"sms": 2, **more}), table, row)
    # A row of numbers of which bfloat16 loses something.
    name = "sm90_bf16x6_64x64x64"
    m, n, k = 65, 72, 40
    problem = dense_problem(simulation, m, n, k, WHOLE, bias=False, pitch=1)
    problem.kept[0].reshape(m, k)[2] *= 2.0**-140
    make_smaller(problem, np.array([2]), 140)
    yield case_of(f"{name}, anew", [], problem, HOPPER, simulation.rows(HOPPER).index(name), anew=True)


def block_scaled_cases(simulation: Simulation) -> Iterator[Case]:
    for table, short, roles, (elements, scale), (m, n, k), smaller, options in BLOCK_SCALED:
        more = dict(options)
        kind = "" if short.startswith(("scaled_", "weight_", "folded_")) else "block_scaled_"
        name = f"sm{90 if table == HOPPER_BLOCK_SCALED else 80}_{kind}{short}"
        if any(smaller):
            more = {"bias": False, "out_dtype": 2, **more}
        every, anew = more.pop("every", k), more.pop("anew", False)
        problem = block_scaled_problem(simulation, m, n, k, elements, scale, **{"sms": 4, **more})
        for i, (count, power) in enumerate(zip((m, n), smaller, strict=True)):
            if power == 0:
                continue
            first = 2 * i - (elements[0] in (BFLOAT16, FLOAT16))  # `a` of 16 bits has no scales
            codes, scales = problem.kept[first].reshape(count, -1), problem.kept[first + 1]
            rows = np.arange(count // 4 * 2, count, every)  # even ones: of integers
            scales[packed_offsets(count, k // 32)[rows]] -= power
            if power > 100 and elements[i] == E4M3:  # so small that bfloat16 does not hold them
                codes[rows] = encode(decode(codes[rows], 4) * 2.0**-9, 4)
                power += 9
            make_smaller(problem, rows, power, transposed=i == 1)
        row = simulation.rows(table).index(name)
        yield case_of(f"{name}{', anew' if anew else ''}", roles, problem, table, row, anew=anew)


def case_of(name: str, roles: list[Role], problem: Problem, table: int, row: int, anew: bool = False) -> Case:
    reason = problem.why_not(table, row)
    assert reason is None, f"{name}: {reason}; {problem.text}"
    return Case(name, roles, lambda seed, lanes: problem.run(table, row, seed, lanes), anew)


class Search:
    def __init__(self, simulation: Simulation, cases: list[Case]) -> None:
        self.simulation = simulation
        self.cases = cases

    def run(self, case: Case, seed: int, lanes: bool) -> str | None:
        # What goes wrong in a first way would not show where another one follows, which is a fault therefore.
        self.simulation.lib.simulation_refuse_second_way(int(not case.anew))
        return case.run(seed, lanes)

    def look_around(self) -> None:
        """Notes which places each case comes to, and that nothing is wrong while nothing is left out."""
        for case in self.cases:
            begin = time.process_time()
            self.simulation.record_sites(True)
            for seed, lanes in LOOKED_AT:
                what = self.run(case, seed, lanes)
                assert what is None, f"{case.row}: {what}"
            for kind, file, line, _, warps in self.simulation.sites():
                if kind in KINDS.values():
                    case.places[file, line] = case.places.get((file, line), 0) | warps
            self.simulation.record_sites(False)
            case.seconds = (time.process_time() - begin) / len(LOOKED_AT)
            print(f"{case.row}: {len(case.places)} places, {case.seconds * 1e3:.0f} ms a run", flush=True)

    def roles_at(self, site: Site) -> dict[str, list[tuple[Case, Role]]]:
        """Who comes there, in which cases, the fastest first."""
        # Kernels in front of a product, and those that come behind it, have no roles.
        has_roles = site.file.startswith(("sm90/", "common/pipeline")) and not site.file.endswith(
            (".cu", "layout/encoding.cuh")
        )
        found = collections.defaultdict(list)
        for case in sorted(self.cases, key=lambda case: case.seconds):
            warps = case.places.get((site.file, site.line), 0)
            for role in case.roles if has_roles else [ALL]:
                if warps >> role[1] & ((2 << (role[2] - role[1])) - 1):
                    found[role[0]].append((case, role))
        return found

    def find(self, site: Site, cases: list[tuple[Case, Role]], schedules: int) -> tuple[str, int, str]:
        """Row, number of schedules and what was noticed in the last one of them; nothing where none did."""
        try:
            for number, (seed, lanes) in enumerate(SCHEDULES[:schedules]):
                for case, (_, first, last) in cases if number < FIXED else cases[:FASTEST]:
                    self.simulation.leave_out(site.file, site.line, first, last)
                    what = self.run(case, seed, lanes)
                    if what is not None:
                        self.simulation.leave_out(None)
                        assert self.run(case, seed, lanes) is None, "it is wrong with nothing left out"
                        return case.row, number + 1, " ".join(what.split())[:100]
        finally:
            self.simulation.leave_out(None)
        return "", 0, ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="*", default=[""], help="only rows whose names hold one of these")
    parser.add_argument("--files", nargs="*", default=[""], help="only places in files whose paths hold one of these")
    parser.add_argument("--schedules", type=int, default=len(SCHEDULES))
    parser.add_argument("--unfound", action="store_true", help="only places that the report has no schedule for")
    parser.add_argument("--library", type=pathlib.Path, default=LIBRARY)
    arguments = parser.parse_args()
    simulation = Simulation(arguments.library)
    gradient = epilogue_backward_problem(simulation, 100, 264, 1, 2, "none", False)
    columns = operand_copy_problem(simulation, 130, 200, 2, 1, 4, 1, 132)
    fours = operand_copy_problem(simulation, 70, 36, 2, 4, 4, 4, 284)
    by_float32 = [quantize_float32_problem(simulation, 3, 5000, form, 2, False) for form in FLOAT32_FORMATS[:4]]
    by_bytes = numbers_problem(simulation, 17, 64, FORMATS[0], 1, False)
    of_nvfp4 = next(nvfp4_rows_problems(simulation, 17, 64))
    cases = [
        *dense_cases(simulation),
        *block_scaled_cases(simulation),
        case_of("operand_copy", [], columns, ELEMENTWISE, OPERAND_COPY),
        case_of("operand_copy", [], fours, ELEMENTWISE, OPERAND_COPY),
        case_of("epilogue_backward", [], gradient, ELEMENTWISE, EPILOGUE_BACKWARD),
        *(case_of("quantize", [], problem, ELEMENTWISE, QUANTIZE) for problem in (*by_float32, by_bytes)),
        case_of("quantize_nvfp4_rows", [], of_nvfp4, ELEMENTWISE, NVFP4_ROWS),
    ]
    search = Search(simulation, [case for case in cases if any(text in case.row for text in arguments.rows)])
    search.look_around()
    sites = call_sites.all_sites()
    report = {(*call_sites.key_of(row), row["role"]): row for row in call_sites.read_report()}
    report = {key: row for key, row in report.items() if key[:5] in {site.key() for site in sites}}
    counts: collections.Counter = collections.Counter()
    for site in sites:
        if not any(text in site.file for text in arguments.files):
            continue
        roles = search.roles_at(site)
        if not roles:
            print(f"  {site.file}:{site.line} {site.kind}: nothing runs it", flush=True)
        for role, of_role in roles.items():
            key = (*site.key(), role)
            if arguments.unfound and report.get(key, {}).get("notice"):
                continue
            begin = time.process_time()
            row, schedules, notice = search.find(site, of_role, arguments.schedules)
            counts[bool(notice)] += 1
            kept = report.get(key, {}).get("explanation", "") if not notice else ""
            values = [*key, row, str(schedules or ""), notice, kept]
            report[key] = dict(zip(call_sites.COLUMNS, values, strict=True))
            text = f"{schedules} schedules, {row}: {notice}" if notice else f"NOT FOUND by {len(of_role)} cases"
            print(
                f"  {site.file}:{site.line} {site.kind}, {role}: {text} ({time.process_time() - begin:.1f} s)",
                flush=True,
            )
            call_sites.write_report(list(report.values()))
    print(f"{counts[True]} of {counts.total()} found")


if __name__ == "__main__":
    main()
