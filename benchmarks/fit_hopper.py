"""Fits the Hopper tile table's cost model to a sweep, and says what the choice loses.

    python benchmarks/sweep.py --csv sweep.csv            # on the GPU
    python benchmarks/fit_hopper.py sweep.csv             # anywhere: prints the fit and the regret
    python benchmarks/fit_hopper.py sweep.csv --write     # and puts the numbers into csrc/cuda/sm90/config.h

The numbers in config.h, and others that are fitted to every row's times alone, are both moved towards the choice that
they lead to, all together; the better ones are kept. The regret is the time of the row that the model chooses over the
time of the best row, in geometric mean and at worst, for the numbers in config.h and for the new ones. The model is
`expected_ns` of csrc/cuda/sm90/choice.h:
start + max(waves * (per_tile + per_k * k), bytes / bytes_per_ns, bytes that L2 hands out / kL2BytesPerNs).
"""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from summary import Key, Loss, geometric_mean, read_row_times

SM90 = Path(__file__).resolve().parent.parent / "csrc" / "cuda" / "sm90"
_ROW = re.compile(
    r'\{"(?P<name>sm90_\w+)",\s*\{Family::k(?P<family>\w+),\s*(?P<tile>\d+(?:,\s*\d+)*)(?:,\s*true)?\},'
    r"\s*(?P<splits>\d+),\s*(?P<resident>\d+),(?P<numbers>(?:\s*[\d.]+f,?){5})\}"
)
_NUMBERS = 5  # start, per_tile, per_k, per_k_mn, bytes_per_ns
_TIED = 0.01  # rows that the model puts this close together are as good as equal
_WORST = 1.08  # the regret that no case should exceed
_LEFT_OUT = 3.0  # times the best one: what a row counts that was left out of a case as hopeless

Array = npt.NDArray[Any]


def traffic(case: Key) -> float:
    """Bytes of both operands and the output, each once, all of 16 bits."""
    return 2.0 * (case.m * case.k + case.k * case.n + case.m * case.n)


def l2_bytes_per_ns() -> float:
    """kL2BytesPerNs of choice.h."""
    match = re.search(r"kL2BytesPerNs = ([\d.]+);", (SM90 / "choice.h").read_text())
    assert match is not None
    return float(match[1])


def _panels(tile_mn: int, k_major: bool) -> int:
    """What an operand's tile is loaded as: an mn-major one comes in whole panels of 64."""
    return tile_mn if k_major else -(-tile_mn // 64) * 64


def _lines_of_l2(pitch: int, lines: int) -> int:
    """How many lines of L2 (128 bytes) a line of a tile takes; the operand has `lines`, `pitch` elements apart."""
    return 1 if lines == 1 or 2 * pitch % 128 == 0 else 2


@dataclass(frozen=True)
class Row:
    """A row of the table: the tile, the CTAs that share a tile's k, those that an SM holds, and the model's numbers."""

    name: str
    tile_m: int
    tile_n: int
    splits: int
    resident: int
    numbers: tuple[float, ...]

    def wide_operand_is_k_major(self, case: Key) -> bool:
        """Of the operand whose tile may be of any width: b, and a where the operands are swapped."""
        return case.layout[0] == "N" if "_swapped_" in self.name else case.layout[1] == "T"

    def tiles(self, case: Key) -> int:
        return math.ceil(case.m / self.tile_m) * math.ceil(case.n / self.tile_n)

    def delivered(self, case: Key) -> float:
        """Bytes of whole lines that L2 hands to the SMs."""
        a_k_major, b_k_major = case.layout[0] == "N", case.layout[1] == "T"
        a_lines = _lines_of_l2(case.k, case.m) if a_k_major else _lines_of_l2(case.m, case.k)
        b_lines = _lines_of_l2(case.k, case.n) if b_k_major else _lines_of_l2(case.n, case.k)
        per_k = 2.0 * (_panels(self.tile_m, a_k_major) * a_lines + _panels(self.tile_n, b_k_major) * b_lines)
        return self.tiles(case) * per_k * case.k

    def waves(self, case: Key, sm_count: int) -> float:
        tiles = self.tiles(case)
        if self.resident > 1:
            return max(1.0, tiles * self.splits / sm_count)
        usable = sm_count if self.splits <= 2 else sm_count * 10 // 11  # clusters leave some of a GPC's SMs over
        return math.ceil(tiles / (usable // self.splits))


def read_table() -> list[Row]:
    rows = []
    for match in _ROW.finditer((SM90 / "config.h").read_text()):
        tile = [int(number) for number in match["tile"].split(",")]
        numbers = tuple(float(number) for number in re.findall(r"([\d.]+)f", match["numbers"]))
        rows.append(Row(match["name"], tile[0], tile[1], int(match["splits"]), int(match["resident"]), numbers))
    return rows


class Features:
    """What the model needs of the cases, as arrays of rows by cases or of cases alone. A layout's first letter N is a
    k-major a, its second letter T a k-major b."""

    def __init__(self, table: list[Row], cases: list[Key], sm_count: int) -> None:
        self.waves = np.array([[row.waves(case, sm_count) for case in cases] for row in table])
        self.k = np.array([float(case.k) for case in cases])
        self.k_major = np.array([[row.wide_operand_is_k_major(case) for case in cases] for row in table])
        self.bytes = np.array([traffic(case) for case in cases])
        self.delivery = np.array([[row.delivered(case) for case in cases] for row in table]) / l2_bytes_per_ns()

    def expected(self, numbers: Array) -> Array:
        """Nanoseconds by the model; `numbers` is [rows][5]. The counterpart of expected_ns in choice.h."""
        start, per_tile, per_k, per_k_mn, bytes_per_ns = (column[:, None] for column in numbers.T)
        slope = np.where(self.k_major, per_k, per_k_mn)
        compute, memory = self.waves * (per_tile + slope * self.k), self.bytes / bytes_per_ns
        return start + np.maximum(np.maximum(compute, memory), self.delivery)


def expected_ns(table: list[Row], cases: list[Key], sm_count: int) -> Array:
    """Nanoseconds of every row in every case, by the numbers in config.h."""
    return Features(table, cases, sm_count).expected(np.array([row.numbers for row in table]))


class Sweep:
    """The measured times, as arrays of rows by cases."""

    def __init__(self, path: Path, table: list[Row], sm_count: int) -> None:
        measured = read_row_times(path, {row.name for row in table})
        self.cases = list(measured)
        nanoseconds = [[1e3 * by_row.get(row.name, math.nan) for by_row in measured.values()] for row in table]
        self.measured = np.array(nanoseconds).reshape(len(table), len(self.cases))
        self.best = np.nanmin(self.measured, axis=0) if self.cases else np.zeros(0)
        self.times = np.where(np.isnan(self.measured), _LEFT_OUT * self.best, self.measured)
        self.features = Features(table, self.cases, sm_count)

    def expected(self, numbers: Array) -> Array:
        return self.features.expected(numbers)

    def regrets(self, numbers: Array) -> Array:
        """By case: time of the chosen row over that of the best one."""
        chosen = self.expected(numbers).argmin(axis=0)
        return self.times[chosen, np.arange(len(self.cases))] / self.best

    def loss(self, numbers: Array) -> float:
        """The mean regret, where rows that the model holds for nearly equal share a case: that makes it smooth, and
        keeps noise from deciding. Great losses count more, one beyond _WORST most of all, and so does, a little, the
        model's own error."""
        expected = self.expected(numbers)
        shares = np.exp(-(expected / expected.min(axis=0) - 1.0) / _TIED)
        shares /= shares.sum(axis=0)
        regret = np.log((shares * self.times).sum(axis=0) / self.best)
        near = ~np.isnan(self.measured) & (self.times < 1.5 * self.best)
        error = np.abs(np.log(expected[near] / self.times[near]))
        beyond = max(0.0, float(self.regrets(numbers).max()) - _WORST)
        return float(regret.mean() + 3.0 * np.square(regret).mean() + 0.05 * error.mean()) + 10.0 * beyond


def losses_of_table(path: Path, sm_count: int = 132) -> list[Loss]:
    """What the choice by config.h as it stands loses in every case of a sweep."""
    table = read_table()
    sweep = Sweep(path, table, sm_count)
    if not sweep.cases:
        return []
    chosen = sweep.expected(np.array([row.numbers for row in table])).argmin(axis=0)
    best = sweep.times.argmin(axis=0)
    ratios = sweep.times[chosen, np.arange(len(sweep.cases))] / sweep.best
    return [
        Loss(case, table[mine].name, table[other].name, float(ratio))
        for case, mine, other, ratio in zip(sweep.cases, chosen, best, ratios, strict=True)
    ]


def first_fit(row: int, numbers: Array, sweep: Sweep) -> Array:
    """Least squares of the relative error where the row is near the best one; elsewhere nobody would choose it.

    What the memory bounds says nothing about the tile, so the two parts are told apart by iteration.
    """
    here = ~np.isnan(sweep.measured[row])
    if not here.any():
        return numbers
    features, times = sweep.features, sweep.times[row][here]
    waves, k, k_major = features.waves[row][here], features.k[here], features.k_major[row][here]
    traffic = features.bytes[here]
    weights = np.sqrt(np.exp(-(times / sweep.best[here] - 1.0) / 0.15) + 0.01) / times
    last = numbers.copy()
    for _ in range(10):
        tile = waves * (last[1] + np.where(k_major, last[2], last[3]) * k)
        bound = traffic / last[4] > tile
        columns = [np.ones_like(k), waves * ~bound, waves * k * k_major * ~bound, waves * k * ~k_major * ~bound]
        columns.append(traffic * bound)
        inverse = np.array([*last[:4], 1.0 / last[4]])
        pull = np.diag(1e-3 / np.maximum(inverse, [1.0, 1.0, 1e-2, 1e-2, 1e-5]))  # for what the sweep leaves open
        system = np.concatenate([np.stack(columns, axis=1) * weights[:, None], pull])
        solution = _non_negative(system, np.concatenate([times * weights, pull @ inverse]))
        last = np.array([*solution[:4], 1.0 / np.clip(solution[4], 1 / 4700, 1 / 2000)])
    return last


def _non_negative(system: Array, target: Array) -> Array:
    """Least squares with non-negative unknowns, by leaving out those that come out negative."""
    active = np.ones(system.shape[1], dtype=bool)
    while True:
        solution = np.zeros(system.shape[1])
        solution[active] = np.linalg.lstsq(system[:, active], target, rcond=None)[0]
        if not (solution < 0).any():
            return solution
        active &= solution >= 0


def descend(numbers: Array, sweep: Sweep, rounds: int) -> Array:
    """Moves one number of one row at a time, by less and less, as long as the loss falls."""
    numbers, least = numbers.copy(), sweep.loss(numbers)
    for factor in np.geomspace(0.15, 0.004, rounds):
        for row in range(numbers.shape[0]):
            for number in range(_NUMBERS):
                for sign in (1, -1):
                    before = numbers[row, number]
                    nanoseconds = 300.0 * factor if number < 2 else 0.0  # the first two may be 0, and leave it
                    numbers[row, number] = max(0.0, before * (1 + factor) ** sign + sign * nanoseconds)
                    now = sweep.loss(numbers)
                    if now < least:
                        least = now
                    else:
                        numbers[row, number] = before
    return numbers


def _report(title: str, numbers: Array, sweep: Sweep) -> None:
    found = sweep.regrets(numbers)
    worst = np.argsort(-found)[:5]
    listed = ", ".join(f"{sweep.cases[case]} {100 * (found[case] - 1):.1f} %" for case in worst)
    mean = geometric_mean(found)
    print(f"{title:9} regret {100 * (mean - 1):.2f} % in mean over {len(found)} cases; worst: {listed}")


def _write(table: list[Row], numbers: Array) -> None:
    path = SM90 / "config.h"
    by_name = {row.name: values for row, values in zip(table, numbers, strict=True)}

    def line(match: re.Match[str]) -> str:
        start, per_tile, per_k, per_k_mn, bytes_per_ns = by_name[match["name"]]
        text = f"  {start:7.1f}f, {per_tile:7.1f}f, {per_k:7.4f}f, {per_k_mn:7.4f}f, {bytes_per_ns:6.1f}f"
        return match[0][: match.start("numbers") - match.start()] + text + "}"

    path.write_text(_ROW.sub(line, path.read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path, help="CSV of benchmarks/sweep.py")
    parser.add_argument("--sm-count", type=int, default=132, help="of the GPU of the sweep (default 132, an H200)")
    parser.add_argument("--rounds", type=int, default=16, help="of the descent (default 16)")
    parser.add_argument("--write", action="store_true", help="put the fitted numbers into config.h")
    arguments = parser.parse_args()
    table = read_table()
    sweep = Sweep(arguments.sweep, table, arguments.sm_count)
    here = np.array([row.numbers for row in table])
    _report("config.h", here, sweep)
    first = np.stack([first_fit(row, here[row], sweep) for row in range(len(table))])
    _report("first", first, sweep)
    fitted = min((descend(start, sweep, arguments.rounds) for start in (here, first)), key=sweep.loss)
    _report("fitted", fitted, sweep)
    best = sweep.times.argmin(axis=0)
    for number, row in enumerate(table):
        values = " ".join(f"{value:9.4g}" for value in fitted[number])
        print(f"{row.name:34}{values}   best {(best == number).sum()} times")
    if arguments.write:
        _write(table, fitted)


if __name__ == "__main__":
    main()
