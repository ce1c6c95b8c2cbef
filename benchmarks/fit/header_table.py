"""What the fits of the tables in headers share: reading a table's rows, least squares, and what a choice loses.

The sweep of such a fit is arrays over pairs of a case and a row that was measured in it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import geometric_mean

import numpy as np

from benchmarks.common.cases import Case
from benchmarks.common.commit import ROOT
from benchmarks.common.times import Times, read_row_times
from benchmarks.fit.cost_model import Array as Array

CSRC = ROOT / "csrc"
LAUNCH_NS = 2000.0  # of an empty kernel between two events: the same for all rows, and left out of the models
_ROW = re.compile(
    r'\{"(?P<name>\w+)",[^{}]*\{Family::(?!kNarrow)\w+,(?P<tile>[^}]*)\},?(?P<numbers>(?:\s*\{[^{}]*\})?[^{}]*)\}'
)
_TILE_NUMBERS = 8  # at most
_STEP = 1e-5  # of finite differences

Model = Callable[[Array], Array]  # logarithms of the numbers -> nanoseconds of every pair


class Table:
    """The first table of a header: names, tiles (the numbers behind the family), the numbers behind the tile that every
    row has, [row][number], and as `extra` as many behind them as there are `defaults`, for rows that leave them out."""

    def __init__(self, header: Path, defaults: tuple[float, ...] = ()) -> None:
        first = header.read_text().partition("KernelConfig k")[2].partition("};")[0]
        rows = list(_ROW.finditer(first))
        self.names = [row["name"] for row in rows]
        tiles = [[float(number) for number in re.findall(r"\b\d+\b", row["tile"])] for row in rows]
        self.tiles = np.array([tile + [0.0] * (_TILE_NUMBERS - len(tile)) for tile in tiles])
        numbers = [[float(number) for number in re.findall(r"[\d.]+", row["numbers"])] for row in rows]
        count = min(map(len, numbers))
        self.numbers = np.array([of_row[:count] for of_row in numbers])
        extra = [[*of_row[count:], *defaults[len(of_row) - count :]][: len(defaults)] for of_row in numbers]
        self.extra = np.array(extra)


class Pairs:
    """Every case of a sweep with every row of the table that it was measured with."""

    def __init__(self, path: Path, names: list[str]) -> None:
        self.times: Times = read_row_times(path, names, unit=1e3)
        self.cases = list(self.times)
        measured = [(case, name) for case, by in self.times.items() for name in by]
        place = {name: number for number, name in enumerate(names)}
        self.keys, self.names = [case for case, _ in measured], [name for _, name in measured]
        self.row = np.array([place[name] for name in self.names], int)
        self.m, self.n, self.k = np.array([(case.m, case.n, case.k) for case in self.keys], float).reshape(-1, 3).T
        self.ns = np.array([self.times[case][name] for case, name in measured])

    def by_case(self, ns: Array) -> Times:
        found = Times()
        for case, name, expected in zip(self.keys, self.names, ns.tolist(), strict=True):
            found.setdefault(case, {})[name] = expected
        return found


def least_squares(model: Model, logs: Array, ns: Array, pull: Array, steps: int = 60) -> Array:
    """The logarithms that make the relative errors smallest, by damped steps; `pull` is the price of each of them for
    being away from where it began."""
    first = logs
    for _ in range(steps):
        error = np.log(model(logs)) - np.log(ns)
        moved = [np.log(model(logs + _STEP * unit)) for unit in np.eye(len(logs))]
        slopes = (np.stack(moved, axis=1) - (error + np.log(ns))[:, None]) / _STEP
        curvature = slopes.T @ slopes / len(ns) + np.diag(pull + 1e-6)
        gradient = slopes.T @ error / len(ns) + pull * (logs - first)
        logs = logs - np.clip(np.linalg.solve(curvature, gradient), -0.2, 0.2)
    return logs


def report(title: str, lost: Iterable[tuple[Case, float]]) -> None:
    """What is lost by choices against the best ones."""
    worst = sorted(lost, key=lambda one: -one[1])
    ratios = [ratio for _, ratio in worst]
    print(
        f"{title}: regret {geometric_mean(ratios) - 1:.2%} in mean over {len(ratios)} cases, "
        f"{np.quantile(ratios, 0.95) - 1:.1%} or less in 95% of them; worst: "
        f"{', '.join(f'{case} {ratio - 1:.1%}' for case, ratio in worst[:5])}"
    )


def command_line(doc: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path, help="CSV of benchmarks/matmul.py --rows")
    parser.add_argument("--sm-count", type=int, default=132, help="of the GPU of the sweep (default 132, an H200)")
    return parser.parse_args()
