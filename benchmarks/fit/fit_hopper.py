"""Fits the Hopper tile table's cost model to the times of sweeps, and says what a choice by it alone loses.

    python -m benchmarks.fit.sweep --csv sweep.csv                                    # on the GPU
    python -m benchmarks.fit.sweep --preset random --rows sm90 --csv random.csv
    python -m benchmarks.fit.fit_hopper sweep.csv random.csv             # anywhere: prints the fit and the regret
    python -m benchmarks.fit.fit_hopper sweep.csv random.csv --write     # and puts the numbers into csrc/cuda/sm90/

The regret is the time of the row that the model chooses over the time of the best row, in geometric mean and at worst,
for the numbers in config.h and for the new ones; `--folds 3` fits without a third of the cases, three times, and says
what the choice loses on those that were left out. The model: cost_model.py. The library corrects it before it chooses:
fit_correction.py, which also has the outputs that TMA cannot write; they are left out here.

Each row has six numbers, far more in all than a sweep can tell apart. So the logarithms of a row's numbers are a linear
function of its tile (its family, area, edges and splits), plus what its own times say beyond, which costs: a row that
few cases speak for follows its neighbours.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.common.times import Key, geometric_mean
from benchmarks.fit.cost_model import (
    CONSTANTS,
    NUMBERS,
    Array,
    Features,
    Row,
    cost_of,
    read_constants,
    read_table,
    write,
)
from benchmarks.fit.sweep_times import Sweep
from benchmarks.subjects.tuning import WORST_REGRET

_NEAR = 1.6  # times the best one: rows whose times the model shall tell
_FAR = 1.4  # times the best one: less the model shall not expect of the others
_NEAREST = 0.25  # a row that takes so much more than the best one counts for 1/e of it
_CENTERED = 0.5  # of what the model is wrong by in the mean of a case's rows: so much does not matter for the choice
_OWN = 0.15  # the price of what a row's numbers are beyond its tile's
_TIMES = 15.0  # the weight of the errors


def _traits(table: Sequence[Row]) -> Tensor:
    """What a row's numbers are a function of: [rows][traits]."""
    families = sorted({row.family for row in table})
    lines = []
    for row in table:
        family, area = row.family, row.tile_m * row.tile_n / 2**14
        few = family == "FewRows"
        lines.append(
            [
                *(float(family == each) for each in families),
                *(math.log(area), math.log((row.tile_m + row.tile_n) / 256), area),
                math.log(row.splits) * (not few),
                *(math.log(row.splits) * few, math.log(row.tile_m / 32) * few),
            ]
        )
    return torch.tensor(lines, dtype=torch.float64)


class Fit:
    """Numbers and constants on their way to less loss, by Adam."""

    def __init__(self, sweep: Sweep) -> None:
        as_tensor = {field.name: torch.as_tensor(getattr(sweep.features, field.name)) for field in fields(Features)}
        self._features = SimpleNamespace(**as_tensor)
        self._times, self._best = torch.as_tensor(sweep.times), torch.as_tensor(sweep.best)
        self._near = torch.as_tensor(~np.isnan(sweep.measured) & (sweep.times < _NEAR * sweep.best))
        self._nearness = torch.exp(-(self._times / self._best - 1) / _NEAREST) * self._near
        self._traits = _traits(sweep.table)
        first = torch.tensor([_first_guess(row) for row in sweep.table], dtype=torch.float64).log()
        self._common = (torch.linalg.pinv(self._traits) @ first).requires_grad_()
        self._own = torch.zeros_like(first).requires_grad_()
        self._constants = torch.tensor(list(CONSTANTS.values()), dtype=torch.float64).log().requires_grad_()

    def _numbers(self) -> Tensor:
        return torch.exp(self._traits @ self._common + self._own)

    def _loss(self) -> Tensor:
        found = cost_of(self._features, self._numbers(), list(torch.exp(self._constants)), torch.where).ns
        error = torch.log(found / self._times)
        common = (self._nearness * error).sum(0) / self._nearness.sum(0)
        error = (self._nearness * (error - _CENTERED * common) ** 2).sum() / self._nearness.sum()
        cases = len(self._best)
        far = (torch.relu(torch.log(_FAR * self._best / found)) ** 2 * ~self._near).sum() / cases
        return _TIMES * error + far + _OWN * (self._own**2).sum() / cases

    def run(self, steps: int) -> tuple[Array, tuple[float, ...]]:
        """Numbers, [rows][6], and constants."""
        moved = [self._common, self._own, self._constants]
        optimizer = torch.optim.Adam(moved, lr=0.03)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(steps):
            optimizer.zero_grad()
            self._loss().backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            return self._numbers().numpy(), tuple(torch.exp(self._constants).tolist())


def _first_guess(row: Row) -> tuple[float, ...]:
    """As NUMBERS has them; the rest is for the fit."""
    per_k = 5.6 * max(0.15, row.tile_m * row.tile_n / 2**14) / row.splits
    return 5500.0, 500.0, per_k, 1.05 * per_k, 3000.0, 150.0


def report(title: str, regrets: Array, cases: Sequence[Key]) -> None:
    worst = np.argsort(-regrets)[:5]
    listed = ", ".join(f"{cases[case]} {100 * (regrets[case] - 1):.1f} %" for case in worst)
    mean = geometric_mean(regrets)
    beyond = int((regrets > 1 + WORST_REGRET).sum())
    print(
        f"{title:9} regret {100 * (mean - 1):.2f} % in mean over {len(cases)} cases, more than "
        f"{100 * WORST_REGRET:.0f} % in {beyond}; worst: {listed}"
    )


def _cross_validate(sweep: Sweep, folds: int, steps: int) -> None:
    fold_of = np.random.default_rng(0).integers(folds, size=len(sweep.cases))
    found: dict[Key, Any] = {}
    for fold in range(folds):
        rest, left_out = sweep.some(list(fold_of != fold)), sweep.some(list(fold_of == fold))
        found |= dict(zip(left_out.cases, left_out.regrets(*Fit(rest).run(steps)), strict=True))
    report("left out", np.array(list(found.values())), list(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", type=Path, nargs="+", help="CSVs of benchmarks/fit/sweep.py")
    parser.add_argument("--sm-count", type=int, default=132, help="of the GPU of the sweep (default 132, an H200)")
    parser.add_argument("--steps", type=int, default=900, help="of the fit (default 900, some seconds)")
    parser.add_argument("--folds", type=int, default=0, help="cross-validation: cases are left out in so many parts")
    parser.add_argument("--write", action="store_true", help="put the fitted numbers into config.h and cost.h")
    arguments = parser.parse_args()
    table = read_table()
    sweep = Sweep.read(arguments.sweeps, table, arguments.sm_count)
    sweep = sweep.some([case.n % 8 == 0 for case in sweep.cases])
    here = np.array([row.numbers for row in table])
    report("config.h", sweep.regrets(here, read_constants()), sweep.cases)
    if arguments.folds:
        _cross_validate(sweep, arguments.folds, arguments.steps)
    numbers, constants = Fit(sweep).run(arguments.steps)
    report("fitted", sweep.regrets(numbers, constants), sweep.cases)
    best = sweep.times.argmin(axis=0)
    print(f"{'':34}" + " ".join(f"{name[:9]:>9}" for name in NUMBERS))
    for number, row in enumerate(table):
        values = " ".join(f"{value:9.4g}" for value in numbers[number])
        print(f"{row.name:34}{values}   best {(best == number).sum()} times")
    print(", ".join(f"{name} {value:.3f}" for name, value in zip(CONSTANTS, constants, strict=True)))
    if arguments.write:
        write(table, numbers, constants)


if __name__ == "__main__":
    main()
