"""The times of sweep.py's CSVs as arrays of rows by cases, and what the Hopper choice loses in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.times import Key, Loss, read_row_times
from benchmarks.fit.correction import corrected_ns
from benchmarks.fit.cost_model import Array, Features, Row, cost_of, read_table

_LEFT_OUT = 3.0  # times the best one: what a row counts that was left out of a case as hopeless


class Sweep:
    """The measured times, as arrays of rows by cases."""

    def __init__(self, measured: dict[Key, dict[str, float]], table: Sequence[Row], sm_count: int) -> None:
        self.table, self.by_case, self.sm_count = table, measured, sm_count
        self.cases = list(measured)
        times = [[1e3 * by_row.get(row.name, math.nan) for by_row in measured.values()] for row in table]
        self.measured = np.array(times).reshape(len(table), len(self.cases))
        self.best = np.nanmin(self.measured, axis=0) if self.cases else np.zeros(0)
        self.times = np.where(np.isnan(self.measured), _LEFT_OUT * self.best, self.measured)
        self.features = Features.of(table, self.cases, sm_count)

    @classmethod
    def read(cls, paths: Sequence[Path], table: Sequence[Row], sm_count: int) -> Sweep:
        """Of several files; what a later one has of a case stands."""
        names = {row.name for row in table}
        return cls(
            {case: times for path in paths for case, times in read_row_times(path, names).items()}, table, sm_count
        )

    def some(self, wanted: Sequence[bool]) -> Sweep:
        kept = {case: times for (case, times), keep in zip(self.by_case.items(), wanted, strict=True) if keep}
        return Sweep(kept, self.table, self.sm_count)

    def chosen(self, numbers: Array, constants: Sequence[float]) -> Array:
        found: Array = cost_of(self.features, numbers, constants).ns.argmin(axis=0)
        return found

    def regrets(self, numbers: Array, constants: Sequence[float]) -> Array:
        """By case: time of the chosen row over that of the best one."""
        found: Array = self.times[self.chosen(numbers, constants), np.arange(len(self.cases))] / self.best
        return found


def losses_of_table(path: Path, sm_count: int = 132) -> list[Loss]:
    """What the choice as it stands loses in every case of a sweep."""
    table = read_table()
    sweep = Sweep.read([path], table, sm_count)
    if not sweep.cases:
        return []
    chosen, best = corrected_ns(table, sweep.cases, sm_count).argmin(axis=0), sweep.times.argmin(axis=0)
    return [
        Loss(case, table[mine].name, table[other].name, float(time / least))
        for case, mine, other, time, least in zip(
            sweep.cases, chosen, best, sweep.times[chosen, np.arange(len(chosen))], sweep.best, strict=True
        )
    ]
