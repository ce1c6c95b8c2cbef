"""The times of sweep.py's CSVs as arrays of configs by cases, and what the Hopper choice loses in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.times import Key, Loss, read_row_times
from benchmarks.fit.cost_model import SM_COUNT, Array, as_array, model

_LEFT_OUT = 3.0  # times the best one: what a config counts that was left out of a case as hopeless


class Sweep:
    """The measured times, as arrays of configs by cases."""

    def __init__(self, measured: dict[Key, dict[str, float]], configs: Sequence[str]) -> None:
        self.configs, self.by_case = configs, measured
        self.cases = list(measured)
        times = [[1e3 * of_case.get(name, math.nan) for of_case in measured.values()] for name in configs]
        self.measured = np.array(times).reshape(len(configs), len(self.cases))
        self.best = np.nanmin(self.measured, axis=0) if self.cases else np.zeros(0)
        self.times = np.where(np.isnan(self.measured), _LEFT_OUT * self.best, self.measured)
        self.as_array = as_array(self.cases)

    @classmethod
    def read(cls, paths: Sequence[Path]) -> Sweep:
        """Of several files; what a later one has of a case stands."""
        configs = model().configs
        return cls(
            {case: times for path in paths for case, times in read_row_times(path, configs).items()},
            configs,
        )

    def some(self, wanted: Sequence[bool]) -> Sweep:
        kept = {case: times for (case, times), keep in zip(self.by_case.items(), wanted, strict=True) if keep}
        return Sweep(kept, self.configs)

    def expected(self, of_configs: Array, of_gpu: Array) -> Array:
        """Nanoseconds by these numbers, [configs][cases]."""
        shape = self.measured.shape
        config, case = (numbers.ravel() for numbers in np.indices(shape))
        return model().expected_ns(config, case, self.as_array, of_configs, of_gpu).reshape(shape)

    def regrets(self, chosen: Array) -> Array:
        """By case: time of the chosen config over that of the best one."""
        found: Array = self.times[chosen, np.arange(len(self.cases))] / self.best
        return found


def losses_of_table(path: Path, sm_count: int = SM_COUNT) -> list[Loss]:
    """What the choice as it stands loses in every case of a sweep."""
    sweep = Sweep.read([path])
    if not sweep.cases:
        return []
    chosen, best = model().chosen(sweep.cases, sm_count), sweep.times.argmin(axis=0)
    return [
        Loss(case, sweep.configs[mine], sweep.configs[other], float(ratio))
        for case, mine, other, ratio in zip(sweep.cases, chosen, best, sweep.regrets(chosen), strict=True)
    ]
