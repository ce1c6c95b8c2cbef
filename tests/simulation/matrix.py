"""Every row of every table, in every dtype and layout that it takes, on a few sizes and schedules.

python3 matrix.py [--seeds FIRST COUNT] [--rows TEXT] [--table N] [--independent-lanes] [--sizes N]
"""

import argparse
import collections
import pathlib
import time
from collections.abc import Iterator

from simulation import (
    E2M1,
    E4M3,
    E4M3_SCALE,
    E8M0_SCALE,
    HOPPER,
    HOPPER_BLOCK_SCALED,
    PORTABLE,
    PORTABLE_BLOCK_SCALED,
    TABLES,
    Problem,
    Simulation,
    block_scaled_problem,
    dense_problem,
)

LIBRARY = pathlib.Path(__file__).resolve().parents[2] / "build" / "simulation" / "libsimulation.so"
SIZES = [(128, 256, 192, 1), (200, 136, 72, 1), (1, 24, 520, 1), (129, 257, 64, 2), (65, 72, 8, 3), (300, 264, 640, 1)]
# Of a, b and the output; whether float32 is tf32.
DTYPES = [
    ((0, 0, 0), False),
    ((1, 1, 1), False),
    ((2, 2, 2), True),
    ((2, 2, 2), False),
    ((3, 3, 3), False),
    ((4, 4, 1), False),
    ((4, 5, 0), False),
    ((5, 4, 1), False),
    ((5, 5, 0), False),
]
BLOCK_SCALED_SIZES = [(96, 136, 256), (1, 264, 512), (130, 72, 96), (17, 129, 1312)]
FORMATS = [
    ((E4M3, E4M3), E8M0_SCALE),
    ((E4M3, E2M1), E8M0_SCALE),
    ((E2M1, E4M3), E8M0_SCALE),
    ((E2M1, E2M1), E8M0_SCALE),
    ((E2M1, E2M1), E4M3_SCALE),
]


def dense_problems(simulation: Simulation, sizes: int) -> Iterator[Problem]:
    for dtypes, tf32 in DTYPES:
        for layout in range(4):
            for m, n, k, batch in SIZES[:sizes]:
                simulation.free()
                yield dense_problem(
                    simulation,
                    m,
                    n,
                    k,
                    dtypes,
                    batch=batch,
                    a_k_major=layout % 2 == 0,
                    b_k_major=layout < 2,
                    tf32=tf32,
                    at_end=(layout + k) % 16 != 8,
                )


def block_scaled_problems(simulation: Simulation, sizes: int) -> Iterator[Problem]:
    for elements, scale in FORMATS:
        for m, n, k in BLOCK_SCALED_SIZES[:sizes]:
            for packed in (True, False):
                simulation.free()
                yield block_scaled_problem(
                    simulation, m, n, k, elements, scale, packed=packed, out_dtype=int(packed), at_end=k != 96
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 2))
    parser.add_argument("--rows", default="")
    parser.add_argument("--table", type=int)
    parser.add_argument("--independent-lanes", action="store_true")
    parser.add_argument("--sizes", type=int, default=6)
    parser.add_argument("--library", type=pathlib.Path, default=LIBRARY)
    arguments = parser.parse_args()
    simulation = Simulation(arguments.library)
    seconds: collections.Counter = collections.Counter()
    runs: collections.Counter = collections.Counter()
    wrong: collections.Counter = collections.Counter()
    first: dict = {}
    begin = time.time()
    for tables, problems in (
        ((PORTABLE, HOPPER), dense_problems),
        ((PORTABLE_BLOCK_SCALED, HOPPER_BLOCK_SCALED), block_scaled_problems),
    ):
        tables = [table for table in tables if arguments.table in (None, table)]
        for problem in problems(simulation, arguments.sizes) if tables else ():
            for table in tables:
                for row, name in enumerate(simulation.rows(table)):
                    if arguments.rows not in name or problem.why_not(table, row) is not None:
                        continue
                    key = (table, name)
                    for seed in range(arguments.seeds[0], sum(arguments.seeds)):
                        start = time.perf_counter()
                        what = problem.run(table, row, seed, arguments.independent_lanes)
                        seconds[key] += time.perf_counter() - start
                        runs[key] += 1
                        if what is not None:
                            wrong[key] += 1
                            first.setdefault(key, what)
    for key, count in runs.items():
        text = f"  WRONG {wrong[key]}: {first[key]}" if wrong[key] else ""
        print(f"{TABLES[key[0]]:22s} {key[1]:40s} {count:5d} runs {seconds[key] / count * 1e3:8.2f} ms each{text}")
    for table, name in enumerate(TABLES):
        of_table = [key for key in runs if key[0] == table]
        if of_table:
            print(f"{name}: {sum(runs[key] for key in of_table)} runs in {sum(seconds[key] for key in of_table):.1f} s")
    print(f"{sum(runs.values())} runs, {sum(wrong.values())} wrong, in {time.time() - begin:.1f} s")


if __name__ == "__main__":
    main()
