"""Leaves out one wait, arrival, fence, barrier or commit after the other, and tells which schedules notice.

python3 leave_out.py [--rows NAME ...] [--seeds N]: for each row, every place in the sources that runs; where the
producer's warp and others come there, for each of these by itself.
"""

import argparse
import pathlib

from matrix import LIBRARY
from simulation import (
    E2M1,
    E4M3,
    E8M0_SCALE,
    HOPPER,
    HOPPER_BLOCK_SCALED,
    PORTABLE,
    Problem,
    Simulation,
    block_scaled_problem,
    dense_problem,
)

# What can be left out; everything else computes or moves something.
KINDS = (
    "bar.sync 0",
    "bar.sync",
    "bar.arrive",
    "bar.warp.sync",
    "barrier.cluster.arrive",
    "barrier.cluster.wait",
    "cp.async.bulk.wait_group.read",
    "cp.async.commit_group",
    "cp.async.wait_group",
    "fence.mbarrier_init",
    "fence.proxy.async",
    "griddepcontrol.wait",
    "mbarrier.arrive",
    "mbarrier.arrive.expect_tx",
    "mbarrier.init",
    "mbarrier.try_wait",
    "wgmma.commit_group",
    "wgmma.fence",
    "wgmma.wait_group",
)
ROWS = [
    "sm90_gemm_128x256x64",
    "sm90_pingpong_128x128x64",
    "sm90_split2_128x128x64",
    "sm90_bf16x6_128x128x64",
    "sm90_few_rows_64x64x128",
    "sm80_mma_64x64x64",
]
ROWS += ["sm90_block_scaled_few_rows_64x128x256"]
PRODUCERS = {"sm90_gemm": 8, "sm90_pingpong": 8, "sm90_split2": 8, "sm90_bf16x6": 8, "sm90_few_rows": 4}


def problems_of(simulation: Simulation, name: str) -> tuple[int, int, list[Problem]]:
    """The table and row of that name, and products for it: many tiles and blocks of k, so that rings go round."""
    for table in (PORTABLE, HOPPER, HOPPER_BLOCK_SCALED):
        names = simulation.rows(table)
        if name not in names:
            continue
        row = names.index(name)
        if table == HOPPER_BLOCK_SCALED:
            made = [
                block_scaled_problem(simulation, 64, 264, 2048, elements, E8M0_SCALE, sms=4)
                for elements in ((E4M3, E4M3), (E2M1, E2M1))
            ]
        else:
            dtypes = (2, 2, 2) if "bf16x6" in name else (0, 0, 0)
            made = [
                dense_problem(simulation, m, n, k, dtypes, sms=2)
                for m, n, k in ((300, 264, 4000), (129, 257, 64), (300, 520, 64))
            ]
        return table, row, made
    raise SystemExit(f"no row {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="*", default=ROWS)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--library", type=pathlib.Path, default=LIBRARY)
    arguments = parser.parse_args()
    simulation = Simulation(arguments.library)
    simulation.lib.simulation_refuse_second_way(1)
    all_found = all_count = 0
    for name in arguments.rows:
        table, row, problems = problems_of(simulation, name)
        simulation.record_sites(True)
        for problem in problems:
            for seed in range(4):
                what = problem.run(table, row, seed)
                assert what is None, what
        sites = sorted(
            (file, line, kind, warps)
            for kind, file, line, _, warps in simulation.sites()
            if kind in KINDS and not file.startswith("/")
        )
        simulation.record_sites(False)
        producer = next((warp for start, warp in PRODUCERS.items() if name.startswith(start)), None)
        split = [] if producer is None else [("consumers", 0, producer - 1), ("producer", producer, producer)]
        print(f"{name}: {len(sites)} places")
        for file, line, kind, warps in sites:
            came = [role for role in split if warps >> role[1] & ((2 << (role[2] - role[1])) - 1)]
            for role, first, last in came if len(came) > 1 else [("all warps", 0, 31)]:
                simulation.leave_out(file, line, first, last)
                noticed, text = [], ""
                for seed in range(arguments.seeds):
                    for problem in problems:
                        what = problem.run(table, row, seed)
                        if what is not None:
                            noticed.append(seed)
                            text = text or what
                            break
                all_count += 1
                all_found += bool(noticed)
                fixed = "".join(str(seed) if seed in noticed else "-" for seed in range(4))
                others = sum(seed >= 4 for seed in noticed)
                text = " ".join(text.split())[:140] if noticed else "NOT FOUND"
                print(
                    f"  {file}:{line} {kind}, {role}: fixed {fixed}, random {others}/{arguments.seeds - 4}: {text}",
                    flush=True,
                )
        simulation.leave_out(None)
        for problem in problems:
            assert problem.run(table, row, 0) is None
        simulation.free()
    print(f"{all_found} of {all_count} found")


if __name__ == "__main__":
    main()
