"""Fits the portable tile table's cost model to a sweep, and says what the choice loses.

    python -m benchmarks.fit.sweep --csv sweep.csv        # on the GPU
    python -m benchmarks.fit.fit_portable sweep.csv       # anywhere

Prints each row's three numbers as csrc/cuda/sm80/heuristics/config.h wants them, and the regret: the time of the row
that the model chooses over the time of the best row, in geometric mean and at worst, for the numbers there and for
the new ones. The model is `expected_ns` of choice.h beside it; what one launch costs is the same for all rows and
left out of it. Other backends' rows in the sweep are passed over.
"""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.common.times import Key, Times, geometric_mean, read_row_times

CONFIG = Path(__file__).resolve().parents[2] / "csrc" / "cuda" / "sm80" / "heuristics" / "config.h"
LAUNCH_NS = 2000.0  # of an empty kernel between two events
_ROW = re.compile(
    r'\{"(?P<name>\w+)",\s*[^{]*\{Family::\w+,\s*(?P<tile>[\d,\s]+)\},'
    r"\s*\{(?P<ns_per_k>[\d.]+)f\},\s*(?P<ns_fixed>[\d.]+)f,\s*(?P<share>[\d.]+)f\}"
)


@dataclass(frozen=True)
class Row:
    """A row of the tile table: its tile, CTAs an SM, and the cost model's numbers."""

    name: str
    tile_m: int
    tile_n: int
    resident: int
    ns_per_k: float
    ns_fixed: float
    share: float

    def turns(self, case: Key, sm_count: int, share: float) -> float:
        """How many times a lone CTA's time the product takes."""
        tiles = math.ceil(case.m / self.tile_m) * math.ceil(case.n / self.tile_n)
        whole, left = divmod(tiles, sm_count * self.resident)
        last = math.ceil(left / sm_count)
        return whole * max(1.0, self.resident * share) + (max(1.0, last * share) if last else 0.0)

    def expected_ns(self, case: Key, sm_count: int) -> float:
        return self.turns(case, sm_count, self.share) * (self.ns_per_k * case.k + self.ns_fixed)


def read_table() -> dict[str, Row]:
    rows = {}
    for match in _ROW.finditer(CONFIG.read_text()):
        tile = [int(number) for number in match["tile"].split(",")]
        numbers = (float(match[field]) for field in ("ns_per_k", "ns_fixed", "share"))
        rows[match["name"]] = Row(match["name"], tile[0], tile[1], tile[-1], *numbers)
    return rows


def read_sweep(path: Path, table: dict[str, Row]) -> Times:
    """Nanoseconds by row."""
    times = read_row_times(path, table)
    return {case: {row: 1e3 * us for row, us in by_row.items()} for case, by_row in times.items()}


def fit(row: Row, sweep: Times, sm_count: int) -> Row:
    """Least squares of the relative error; the share by search, the other two are linear then."""
    cases = [case for case, times in sweep.items() if row.name in times]
    if not cases:
        return row
    times = np.array([sweep[case][row.name] for case in cases])
    best = (math.inf, row)
    for share in np.arange(0.30, 1.0001, 0.01) if row.resident > 1 else [1.0]:
        turns = np.array([row.turns(case, sm_count, float(share)) for case in cases])
        k = np.array([float(case.k) for case in cases])
        system = np.stack([turns * k, turns], axis=1) / times[:, None]
        solution = np.linalg.lstsq(system, (times - LAUNCH_NS) / times, rcond=None)[0]
        solution = np.maximum(solution, [1e-3, 0.0])
        error = float(np.square(system @ solution - (times - LAUNCH_NS) / times).sum())
        if error < best[0]:
            fitted = replace(row, ns_per_k=float(solution[0]), ns_fixed=float(solution[1]), share=float(share))
            best = (error, fitted)
    return best[1]


def regret(rows: dict[str, Row], sweep: Times, sm_count: int) -> tuple[float, float, Key]:
    """Geometric mean and worst of chosen over best, and the case of the worst."""
    losses = {}
    for case, times in sweep.items():
        chosen = min(times, key=lambda name: rows[name].expected_ns(case, sm_count))
        losses[case] = times[chosen] / min(times.values())
    worst = max(losses, key=lambda case: losses[case])
    return geometric_mean(losses.values()), losses[worst], worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path, help="CSV of benchmarks/fit/sweep.py")
    parser.add_argument("--sm-count", type=int, default=132, help="of the GPU of the sweep (default 132, an H200)")
    arguments = parser.parse_args()
    table = read_table()
    sweep = read_sweep(arguments.sweep, table)
    fitted = {name: fit(row, sweep, arguments.sm_count) for name, row in table.items()}
    for row in fitted.values():
        print(f"{row.name:28} {{{row.ns_per_k:.2f}f}}, {row.ns_fixed:7.0f}.0f, {row.share:.2f}f")
    for title, rows in (("config.h", table), ("fitted", fitted)):
        mean, worst, case = regret(rows, sweep, arguments.sm_count)
        print(f"{title:9} regret {100 * (mean - 1):.2f} % in mean, {100 * (worst - 1):.1f} % at worst ({case})")


if __name__ == "__main__":
    main()
