"""Fits the correction of the Hopper choice to sweeps, and says what the choice loses. After fit_hopper.py, which fits
the cost model that it corrects.

    python -m benchmarks.fit.fit_correction benchmarks/results/h200/sweep*.csv*             # what the choice loses
    python -m benchmarks.fit.fit_correction benchmarks/results/h200/sweep*.csv* --folds 3   # and on cases left out
    python -m benchmarks.fit.fit_correction benchmarks/results/h200/sweep*.csv* --write     # into correction_numbers.h
    python -m benchmarks.fit.fit_correction --reset                            # nothing is corrected: for new rows

Shapes that tune_regret.py judges the choice by are left out of the fit. The loss: the error of the times, and the
regret of a choice that is softened to have a gradient, most of all beyond a few per cent. Large weights cost, and what
is written is the mean of the numbers on their way: sweeps have noise, and the network could learn it by heart. A fit
takes about a minute on two cores. The network: correction.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.fit.correction import (
    COST_FEATURES,
    HIDDEN,
    PROBLEM_FEATURES,
    Network,
    corrected_ns,
    cost_features,
    near,
    problem_features,
    write_network,
)
from benchmarks.fit.cost_model import Array, Row, cost_of, read_constants, read_table
from benchmarks.fit.fit_hopper import report
from benchmarks.fit.sweep_times import Sweep
from benchmarks.measure.tune_regret import linear_cases, rectangles

_MEASURED_NEAR = 1.6  # times the best one: rows whose times count
_NEAREST = 0.25  # a row that takes so much more than the best one counts for 1/e of it
_TIED = 0.02  # rows that are put this close together share a case
_CENTERED = 0.5  # of what is wrong in the mean of a case's rows: so much does not matter for the choice
_FAR = 1.4  # times the best one: less shall not be expected of rows that were left out as slower
_WORST = 0.05  # the regret that no case should exceed
_WEIGHTS = {"times": 100.0, "regret": 3.0, "worst": 4.0, "beyond": 20.0, "far": 2.0, "of_row": 2e-5}
_WEIGHT_DECAY, _LEARNING_RATE, _BATCH, _AVERAGED = 1.0, 5e-3, 256, 0.99


def row_features(table: Sequence[Row]) -> Array:
    """[rows][features], which end up in the biases of the rows: those of similar tiles start out alike."""
    families = sorted({row.family for row in table})
    lines = []
    for row in table:
        sizes = np.log([row.tile_m, row.tile_n, row.splits, row.block_k])
        lines.append([*(float(row.family == family) for family in families), *sizes])
    return np.array(lines)


class _Module(nn.Module):
    """The network while it is fitted: of features in units of their deviation."""

    def __init__(self, mean: Tensor, deviation: Tensor, rows: int) -> None:
        super().__init__()
        self.mean, self.deviation = mean, deviation
        self.first, self.second = nn.Linear(len(mean), HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.last = nn.Linear(HIDDEN, 1)
        self.of_row = nn.Parameter(torch.zeros(rows, HIDDEN))
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, features: Tensor, row: Tensor) -> Tensor:
        first = torch.relu(self.first((features - self.mean) / self.deviation) + self.of_row[row])
        found: Tensor = self.last(torch.relu(self.second(first)))[:, 0]
        return found

    def network(self, rows: Array) -> Network:
        """With the features as they are, and those of the rows in the rows' biases."""
        weight = self.first.weight.detach().double().T / self.deviation.double()[:, None]
        bias = self.first.bias.detach().double() - self.mean.double() @ weight
        of_cost, of_row, of_problem = weight.split([len(COST_FEATURES), rows.shape[1], len(PROBLEM_FEATURES)])
        rest = [
            layer.detach().double().numpy()
            for layer in (self.second.weight.T, self.second.bias, self.last.weight[0], self.last.bias[0])
        ]
        biases = torch.as_tensor(rows) @ of_row + self.of_row.detach() + bias
        return Network(of_problem.numpy(), of_cost.numpy(), biases.numpy(), *rest)


class Fit:
    """All arrays are of rows by cases; `looked_at` are the rows that the choice looks at again."""

    def __init__(self, sweep: Sweep) -> None:
        table, cases = sweep.table, sweep.cases
        cost = cost_of(sweep.features, np.array([row.numbers for row in table]), read_constants())
        self._rows = row_features(table)
        self._of_problem = problem_features(cases)
        self._of_cost = cost_features(table, cases, sweep.features, cost, sweep.sm_count)
        shape = (len(table), len(cases))
        of_rows = np.broadcast_to(self._rows[:, None], (*shape, self._rows.shape[1]))
        of_problem = np.broadcast_to(self._of_problem, (*shape, len(PROBLEM_FEATURES)))
        self._features = torch.tensor(np.concatenate([self._of_cost, of_rows, of_problem], -1)).float()
        self._row = torch.arange(len(table))[:, None].expand(shape)
        self._ns, self._looked_at = cost.ns, torch.tensor(cost.ns <= near() * cost.ns.min(axis=0))
        self._log_expected = torch.tensor(np.log(cost.ns)).float()
        self._log_times = torch.tensor(np.log(sweep.times)).float()
        self._log_best = torch.tensor(np.log(sweep.best)).float()
        is_near = ~np.isnan(sweep.measured) & (sweep.times < _MEASURED_NEAR * sweep.best)
        self._nearness = torch.tensor(np.exp(-(sweep.times / sweep.best - 1) / _NEAREST) * is_near).float()

    def _loss(self, module: _Module, cases: Tensor) -> Tensor:
        looked_at, nearness = self._looked_at[:, cases], self._nearness[:, cases] * self._looked_at[:, cases]
        times, best, expected = self._log_times[:, cases], self._log_best[cases], self._log_expected[:, cases]
        found = module(self._features[:, cases][looked_at], self._row[:, cases][looked_at])
        unlikely = torch.full(looked_at.shape, 1e2)
        found = unlikely.masked_scatter(looked_at, found + expected[looked_at])
        error = torch.where(looked_at, found - times, 0.0)
        common = (nearness * error).sum(0) / (nearness.sum(0) + 1e-9)
        shares = torch.softmax(-(found - found.min(0).values) / _TIED, 0)
        regret = torch.log((shares * torch.exp(times - best)).sum(0))
        far = torch.relu(best + np.log(_FAR) - found) ** 2 * (looked_at & (nearness == 0))
        parts = {
            "times": (nearness * (error - _CENTERED * common) ** 2).sum() / nearness.sum(),
            "regret": regret.mean(),
            "worst": (regret**2).mean(),
            "beyond": torch.relu(regret - _WORST).mean(),
            "far": far.sum() / len(cases),
            "of_row": (module.of_row**2).sum(),
        }
        return sum((_WEIGHTS[name] * part for name, part in parts.items()), torch.zeros(()))

    def run(self, cases: Array, epochs: int) -> Network:
        """Fitted to some of the cases, by number."""
        torch.manual_seed(0)
        shuffle = np.random.default_rng(0)
        seen = self._features[:, cases][self._looked_at[:, cases]]
        module, averaged = (_Module(seen.mean(0), seen.std(0) + 1e-6, len(self._rows)) for _ in range(2))
        averaged.load_state_dict(module.state_dict())
        batches = -(-len(cases) // _BATCH)
        optimizer = torch.optim.AdamW(module.parameters(), lr=_LEARNING_RATE, weight_decay=_WEIGHT_DECAY)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * batches)
        for _ in range(epochs):
            for batch in np.array_split(shuffle.permutation(cases), batches):
                optimizer.zero_grad()
                self._loss(module, torch.as_tensor(batch)).backward()
                optimizer.step()
                schedule.step()
                with torch.no_grad():
                    for mean, value in zip(averaged.parameters(), module.parameters(), strict=True):
                        mean.lerp_(value, 1 - _AVERAGED)
        return averaged.network(self._rows)

    def chosen(self, network: Network) -> Array:
        """By case: the row that the choice takes, by number."""
        found = np.log(self._ns) + network.corrections(self._of_problem, self._of_cost)
        rows: Array = np.where(self._looked_at.numpy(), found, np.inf).argmin(axis=0)
        return rows


def read_without_judged(paths: Sequence[Path], table: Sequence[Row], sm_count: int) -> Sweep:
    """The sweeps' cases without those that tune_regret.py judges the choice by."""
    judged = {(case.layout, case.m, case.n, case.k) for case in linear_cases() + rectangles()}
    sweep = Sweep.read(paths, table, sm_count)
    return sweep.some([(case.layout, case.m, case.n, case.k) not in judged for case in sweep.cases])


def _cheapest(sweep: Sweep) -> Array:
    """By case: the row that is cheapest by the cost model alone."""
    return sweep.chosen(np.array([row.numbers for row in sweep.table]), read_constants())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", type=Path, nargs="*", help="CSVs of benchmarks/fit/sweep.py")
    parser.add_argument("--sm-count", type=int, default=132, help="of the GPU of the sweep (default 132, an H200)")
    parser.add_argument("--epochs", type=int, default=300, help="of the fit (default 300)")
    parser.add_argument("--folds", type=int, default=0, help="cross-validation: cases are left out in so many parts")
    parser.add_argument("--write", action="store_true", help="fit, and write correction_numbers.h")
    parser.add_argument(
        "--reset", action="store_true", help="write one that corrects nothing, of the table as it stands"
    )
    arguments = parser.parse_args()
    table = read_table()
    if arguments.reset:
        write_network(Network.of_nothing(len(table)), table)
        return
    if not arguments.sweeps:
        parser.error("which sweeps?")
    sweep = read_without_judged(arguments.sweeps, table, arguments.sm_count)
    numbers = np.arange(len(sweep.cases))

    def regrets(chosen: Array) -> Array:
        found: Array = sweep.times[chosen, numbers] / sweep.best
        return found

    report("expected", regrets(_cheapest(sweep)), sweep.cases)
    fit = Fit(sweep)
    if arguments.folds:
        fold_of = np.random.default_rng(0).integers(arguments.folds, size=len(numbers))
        chosen = np.zeros_like(numbers)
        for fold in range(arguments.folds):
            network = fit.run(numbers[fold_of != fold], arguments.epochs)
            chosen = np.where(fold_of == fold, fit.chosen(network), chosen)
        report("left out", regrets(chosen), sweep.cases)
    if arguments.write:
        write_network(fit.run(numbers, arguments.epochs), table)
    report("corrected", regrets(corrected_ns(table, sweep.cases, arguments.sm_count).argmin(axis=0)), sweep.cases)


if __name__ == "__main__":
    main()
