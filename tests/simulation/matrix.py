"""Every row of every table, in every dtype and layout that it takes, on a few sizes and schedules.

python3 matrix.py [--seeds FIRST COUNT] [--rows TEXT] [--table N] [--independent-lanes] [--sizes N] [--record CSV]: the
first seed once more at the end, which must be the same run.
"""

import argparse
import csv
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy comes: for products so small threads only wait

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
from simulation import (
    ELEMENTWISE,
    HOPPER,
    HOPPER_BLOCK_SCALED,
    PORTABLE,
    PORTABLE_BLOCK_SCALED,
    TABLES,
    Problem,
    Simulation,
    dense_problem,
)

LIBRARY = pathlib.Path(__file__).resolve().parents[2] / "build" / "simulation" / "libsimulation.so"
# m, n, k, batch, and what else: edges everywhere, whole tiles, one row, one column, k below a block's, several tiles of
# a CTA. A slope above 1 takes the way of the costly activations.
CASES: list[tuple[int, int, int, int, dict]] = [
    (200, 136, 75, 1, {"activation": "none", "bias": False}),
    (128, 256, 192, 1, {"slope": 2.0}),
    (1, 24, 520, 1, {"slope": 2.0}),
    (130, 1, 136, 1, {"activation": "relu"}),
    (65, 72, 8, 3, {}),
    (70, 33, 1048, 2, {"slope": 2.0}),
    (129, 257, 64, 2, {"pre_activation": True}),
    (300, 264, 328, 1, {"sms": 2}),
]
# And of which CTAs, or clusters of two and of four, share tiles: all of them, or, by clusters, those of the last two
# rounds.
STREAMED_CASES: list[tuple[int, int, int, int, dict]] = [
    (40, 400, 4136, 1, {"sms": 16, "slope": 2.0}),
    (300, 136, 8200, 1, {"sms": 16, "activation": "none", "bias": False}),
    (130, 264, 6152, 1, {"sms": 24, "slope": 2.0}),
    (520, 520, 8200, 1, {"sms": 12, "activation": "relu"}),
]
# Of a, b and the output; whether float32 is tf32.
DTYPES = [
    ((0, 0, 0), False),
    ((1, 1, 1), False),
    ((0, 0, 2), False),
    ((2, 2, 2), True),
    ((2, 2, 2), False),
    ((3, 3, 3), False),
    ((4, 4, 1), False),
    ((4, 5, 0), False),
    ((5, 4, 1), False),
    ((5, 5, 0), False),
]
# m, n, k, and whether scales are of any size.
BLOCK_SCALED_CASES = [
    (96, 136, 256, False),
    (1, 264, 512, True),
    (130, 72, 96, True),
    (17, 129, 1312, False),
    (129, 1, 32, False),
]
FORMATS = [
    ((E4M3, E4M3), E8M0_SCALE),
    ((E4M3, E2M1), E8M0_SCALE),
    ((E2M1, E4M3), E8M0_SCALE),
    ((E2M1, E2M1), E8M0_SCALE),
    ((E2M1, E2M1), E4M3_SCALE),
    ((BFLOAT16, E4M3), E8M0_SCALE),
    ((BFLOAT16, E2M1), E8M0_SCALE),
    ((BFLOAT16, E2M1), E4M3_SCALE),
    ((FLOAT16, E2M1), E4M3_SCALE),
]
# m, n, k and what else, of codes with float32 scales, of both operands or a weight alone, and of a weight that is
# decoded in the main loop: edges, one row, a block of k, one column, several tiles of a CTA.
DIRECT_CASES: list[tuple[int, int, int, dict]] = [
    (200, 136, 352, {"out_dtype": 0}),
    (1, 264, 512, {"wide": True, "slope": 2.0}),
    (130, 72, 96, {"wide": True, "out_dtype": 2}),
    (17, 129, 1312, {"activation": "none", "bias": False, "out_dtype": 0}),
    (129, 1, 32, {"at_end": False}),
    (300, 520, 160, {"activation": "none", "bias": False, "sms": 2}),
    (520, 200, 288, {"wide": True, "sms": 2}),
]
# Of a weight that is decoded in the main loop, whose tiles CTAs share (heuristics/shared_tiles.h): less than a round of
# tiles, by clusters of two, three, four, five and eight, by parts that begin anywhere, of three CTAs and at an odd
# stage too; the last two of several rounds.
SHARED_CASES: list[tuple[int, int, int, dict]] = [
    (40, 130, 4128, {"sms": 4}),
    (40, 330, 4128, {"sms": 5}),
    (60, 120, 4128, {"sms": 8, "wide": True}),
    (40, 250, 1504, {"sms": 9, "out_dtype": 0, "slope": 2.0}),
    (40, 120, 3104, {"sms": 3, "wide": True}),
    (50, 100, 2208, {"sms": 6, "activation": "none", "bias": False}),
    (300, 136, 3104, {"sms": 5, "out_dtype": 0, "slope": 2.0}),
    (300, 264, 2592, {"sms": 4, "wide": True}),
    (300, 264, 2656, {"sms": 4}),
    (600, 264, 2080, {"sms": 4, "activation": "none", "bias": False}),
]
DIRECT_FORMATS = [
    ((E4M3, E4M3), ROW_SCALE),
    ((INT8, INT8), ROW_SCALE),
    ((E4M3, E4M3), BLOCK_SCALE),
    ((BFLOAT16, E2M1), E8M0_SCALE),
    ((BFLOAT16, E2M1), E4M3_SCALE),
    ((FLOAT16, E2M1), E8M0_SCALE),
    ((FLOAT16, E2M1), E4M3_SCALE),
    ((BFLOAT16, E4M3), E8M0_SCALE),
    ((BFLOAT16, E4M3), ROW_SCALE),
    ((BFLOAT16, INT8), ROW_SCALE),
    ((FLOAT16, INT8), ROW_SCALE),
    ((BFLOAT16, E4M3), BLOCK_SCALE),
    ((FLOAT16, E4M3), BLOCK_SCALE),
]
DECODED_FORMATS = [one for one in DIRECT_FORMATS if one[0][0] in (BFLOAT16, FLOAT16) and one[1] != BLOCK_SCALE]


def dense_problems(
    simulation: Simulation,
    sizes: int = len(CASES),
    dtypes: Iterable[tuple[tuple[int, int, int], bool]] = tuple(DTYPES),
    cases: list[tuple[int, int, int, int, dict]] = CASES,
) -> Iterator[Problem]:
    for kinds, tf32 in dtypes:
        for layout in range(4):
            for m, n, k, batch, more in cases[:sizes]:
                simulation.free()
                if kinds[0] >= 4:
                    more = {**more, "pre_activation": False}  # kernels of fp8, which has no gradients, do not keep it
                layouts = {"a_k_major": layout % 2 == 0, "b_k_major": layout < 2, "at_end": (layout + k) % 16 != 8}
                yield dense_problem(simulation, m, n, k, kinds, batch=batch, tf32=tf32, **layouts, **more)


def block_scaled_problems(simulation: Simulation, sizes: int = len(DIRECT_CASES)) -> Iterator[Problem]:
    for elements, scale in FORMATS:
        for m, n, k, wide in BLOCK_SCALED_CASES[:sizes]:
            for packed in (True, False):
                form = 0 if elements == (E2M1, E2M1) and scale == E8M0_SCALE else 1
                for prepared in (None,) if elements[0] in (FLOAT16, BFLOAT16) else (None, form):
                    simulation.free()
                    yield block_scaled_problem(
                        simulation,
                        m,
                        n,
                        k,
                        elements,
                        scale,
                        packed=packed,
                        out_dtype=int(packed),
                        at_end=k != 96,
                        wide=wide,
                        prepared=prepared,
                        slope=0.125 if packed else 2.0,
                    )
    for elements, scale in DIRECT_FORMATS:
        for m, n, k, more in DIRECT_CASES[:sizes]:
            simulation.free()
            yield block_scaled_problem(simulation, m, n, k, elements, scale, **more)
    for elements, scale in DECODED_FORMATS:
        for m, n, k, more in SHARED_CASES[:sizes]:
            simulation.free()
            yield block_scaled_problem(simulation, m, n, k, elements, scale, **more)


def elementwise_problems(simulation: Simulation, sizes: int = len(CASES)) -> Iterator[Problem]:
    import elementwise  # with torch, which takes its time

    return elementwise.elementwise_problems(simulation, sizes)


# Of tables that take the same problems.
GROUPS: tuple[tuple[tuple[int, ...], Callable[..., Iterator[Problem]]], ...] = (
    ((PORTABLE, HOPPER), dense_problems),
    ((PORTABLE_BLOCK_SCALED, HOPPER_BLOCK_SCALED), block_scaled_problems),
    ((ELEMENTWISE,), elementwise_problems),
)


@dataclass
class Record:
    """What was run of a row."""

    cases: int = 0
    runs: int = 0
    wrong: int = 0
    seconds: float = 0.0
    first: str = ""

    def add(self, problem: Problem, table: int, row: int, seeds: Iterable[int], independent_lanes: bool) -> None:
        self.cases += 1
        switches: dict[int, int] = {}
        for seed in seeds:
            start, before = time.perf_counter(), problem.simulation.statistics()["switches"]
            what = problem.run(table, row, seed, independent_lanes)
            self.seconds += time.perf_counter() - start
            self.runs += 1
            count = problem.simulation.statistics()["switches"] - before
            if what is None and switches.setdefault(seed, count) != count:
                what = f"{switches[seed]} switches of threads, then {count}; seed {seed}; {problem.text}"
            self.wrong += what is not None
            self.first = self.first or what or ""


def run(arguments: argparse.Namespace) -> dict[tuple[int, str], Record]:
    simulation = Simulation(arguments.library)
    first, count = arguments.seeds
    seeds = [*range(first, first + count), first]
    records: dict[tuple[int, str], Record] = {}
    for group, problems in GROUPS:
        tables = [table for table in group if arguments.table in (None, table)]
        for problem in problems(simulation, arguments.sizes) if tables else ():
            for table in tables:
                for row, name in enumerate(simulation.rows(table)):
                    if arguments.rows in name and problem.why_not(table, row) is None:
                        record = records.setdefault((table, name), Record())
                        record.add(problem, table, row, seeds, arguments.independent_lanes)
            if sys.stderr.isatty():
                print(f"\r{sum(record.runs for record in records.values())} runs", end="", file=sys.stderr)
    return dict(sorted(records.items()))


def write(records: dict[tuple[int, str], Record], arguments: argparse.Namespace) -> None:
    with arguments.record.open("w", newline="") as file:
        print(
            f"# python3 matrix.py --seeds {arguments.seeds[0]} {arguments.seeds[1]} --sizes {arguments.sizes}",
            file=file,
        )
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["table", "row", "cases", "schedules", "runs", "wrong"])
        for (table, name), record in records.items():
            out.writerow([TABLES[table], name, record.cases, arguments.seeds[1], record.runs, record.wrong])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 2))
    parser.add_argument("--rows", default="")
    parser.add_argument("--table", type=int)
    parser.add_argument("--independent-lanes", action="store_true")
    parser.add_argument("--sizes", type=int, default=len(CASES))
    parser.add_argument("--library", type=pathlib.Path, default=LIBRARY)
    parser.add_argument("--record", type=pathlib.Path)
    arguments = parser.parse_args()
    begin = time.time()
    records = run(arguments)
    for (table, name), record in records.items():
        text = f"  WRONG {record.wrong}: {record.first}" if record.wrong else ""
        each = record.seconds / record.runs * 1e3
        print(f"{TABLES[table]:22s} {name:40s} {record.runs:5d} runs {each:8.2f} ms each{text}")
    runs, wrong = (sum(getattr(record, key) for record in records.values()) for key in ("runs", "wrong"))
    print(f"{len(records)} rows, {runs} runs, {wrong} wrong, in {time.time() - begin:.1f} s")
    if arguments.record is not None:
        write(records, arguments)


if __name__ == "__main__":
    main()
