"""Fits the cost model of the Hopper choice to the times of sweeps, and says what the choice by it loses.

    python benchmarks/run_all.py --stages sweep                                     # on the GPU
    python -m benchmarks.fit.fit_hopper benchmarks/results/*/sweep*.csv*              # anywhere: what the choice loses

The regret is the time of the config that the model chooses over that of the best config. `--halves` fits to one half of
the cases, says what the choice loses in the other, and the other way round. Shapes that tune_regret.py judges the
choice by are left out. A fit takes some minutes on one core, and needs a C++ compiler: the model is
csrc/cuda/sm90/heuristics/cost.h itself (cost_model.py).

`--unaligned` fits but what a tile takes longer where TMA cannot write the output, unaligned_tile and odd_columns, to
sweeps of such outputs: by steps from the numbers in the tree, of the regret and of the times.

The fit first goes by least squares of the times, then by gradients of the regret too, that of a softened choice. The
derivatives are finite differences, of all configs at once. What several configs have in common, by their family, tile
and splits, costs nothing; what a config's numbers are beyond that has a small price. The fewer cases a GPU has, the
more each of them counts, and squares and sizes of models count more than others. The last part goes by the regret
itself (`polish`), and keeps clusters from where they save nothing (`hold_clusters_back`).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.common.cases import LAYOUTS, Case
from benchmarks.fit.cost_model import Array, Sweep, as_array, model, write_numbers
from benchmarks.fit.header_table import report
from benchmarks.measure.tune_regret import linear_cases, rectangles

_NEAR = 1.6  # times the best one: configs whose times the model shall tell
_NEAREST = 0.25  # a config that takes so much more than the best one counts for 1/e of it
_FAR = 1.4  # times the best one: less the model shall not expect of the others
_CENTERED = 0.5  # of what the model is wrong by in the mean of a case's configs: so much does not matter for the choice
_OWN = 0.15  # the price of what a config's numbers are beyond its tile's
_TIED = 0.015  # configs that are expected to be this close together share a case
_BEYOND = ((0.05, 60.0), (0.09, 300.0))  # regrets from which more counts so much more
_TIMES_WEIGHT, _REGRET_WEIGHT, _SQUARE_WEIGHT, _FAR_WEIGHT = 100.0, 3.0, 20.0, 2.0
_ROUND_WEIGHT = 3.0  # a case whose n and k are multiples of 64, as those of models are, counts as so many
_SQUARE_TIMES = 6.0  # and such a case whose m, n and k are the same as so many of these
_FACTORS = 6  # a GPU's last numbers: by what its configs differ from those of the first GPU, whose factors stay 1
_LEAST_FACTOR = 0.05  # where a fit begins: of a factor that is nearly 0, the logarithm hardly moves
# Of `polish`: by a number's place the steps that are tried, nanoseconds of the first two and shares of the others; what
# a step must save; regrets from which more counts so much more.
_POLISH_STEPS = {0: (60.0, -60.0, 150.0, -150.0), 1: (50.0, -50.0, 120.0, -120.0), 2: (0.01, -0.01), 4: (0.01, -0.01)}
_POLISH_GAIN, _POLISH_BEYOND = 2e-4, ((0.05, 2.0), (0.12, 20.0))
_START, _PER_TILE, _PER_K, _PER_K_MN = 0, 1, 2, 4  # places of a config's numbers
_OF_TILE = [3, 5, 6]  # and of memory_bytes, unaligned_tile, memory_bytes_a_cta
_UNALIGNED_TILE, _ODD_COLUMNS = 5, 5  # of a config's numbers, and of a GPU's
_UNALIGNED_STEPS = (1.5, 1.2, 1.07, 1.02)
_UNALIGNED_TIMES = 1.0  # what a squared error of the times counts, beside a regret
_NOT_LESS = [_START, _PER_TILE, _PER_K]  # of a cluster than of its tile: it waits for others besides
_ALIGNED_SQUARES = range(1024, 8193, 256)
_RAISE, _RAISES = 1.002, 100  # of a cluster's numbers at a time, and how often at most
TIE = 1.07  # times as fast a cluster may be expected to be at an aligned square
_LEAST_SQUARES_STEPS, _STEP, _ALIKE_EVERY = 12, 1e-5, 25


def _traits() -> Array:
    """What the numbers of configs are tied by: [configs][traits]."""
    tiles = model().tiles()
    families = np.unique(tiles[:, 0])
    few_rows = tiles[:, 4] != 0
    _, tile_m, tile_n, splits, *_ = tiles.T.astype(float)
    area, splits = tile_m * tile_n / 2**14, np.log(splits)
    numbers = [np.log(area), np.log((tile_m + tile_n) / 256), area, splits * ~few_rows, splits * few_rows]
    numbers += [np.log(tile_m / 32) * few_rows]
    return np.stack([*(tiles[:, 0] == family for family in families), *numbers], axis=1)


def _plain_tiles() -> dict[int, int]:
    """By cluster of CTAs that load together: the config of one such CTA, or the one that has its tile exchanged."""
    tiles = model().tiles().tolist()
    plain = {tuple(tile[1:3]): config for config, tile in reversed(list(enumerate(tiles))) if tile[3] == tile[5] == 1}
    clusters = {config: (m, n) for config, (_, m, n, _, _, ctas) in enumerate(tiles) if ctas > 1}
    return {config: plain[tile if tile in plain else tile[::-1]] for config, tile in clusters.items()}


def tie_clusters(logs: Array) -> None:
    """Gives clusters, [configs][numbers] in logarithms, the numbers that are their tile's too: few cases tell them
    apart. Their own are l2_bytes_a_tile, and start, per_tile and per_k, which are not less; per_k_mn is by as much
    more than per_k as the tile's."""
    for cluster, plain in _plain_tiles().items():
        logs[cluster, _NOT_LESS] = np.maximum(logs[cluster, _NOT_LESS], logs[plain, _NOT_LESS])
        logs[cluster, _OF_TILE] = logs[plain, _OF_TILE]
        logs[cluster, _PER_K_MN] = logs[cluster, _PER_K] + logs[plain, _PER_K_MN] - logs[plain, _PER_K]


def hold_clusters_back(of_configs: Array, of_gpus: Array) -> None:
    """Raises what clusters take for a tile until none is expected to be more than TIE times as fast as all others at a
    larger square whose lines begin with L2's: there they save nothing. (Clusters of 128 x 176, 208 and 224 had 0.98 to
    1.01 times the best other config's speed at 33 squares on an H200, where 1.03 are expected, and 1.06 on an H100.)"""
    cases = [Case("float16", layout, size, size, size) for layout in LAYOUTS for size in _ALIGNED_SQUARES]
    squares = np.concatenate([as_array(cases, gpu) for gpu in range(len(of_gpus))])
    config, case = (numbers.ravel() for numbers in np.indices((len(of_configs), len(squares))))
    clusters = list(_plain_tiles())
    for _ in range(_RAISES):
        expected = model().expected_ns(config, case, squares, of_configs, of_gpus).reshape(-1, len(squares))
        others = np.delete(expected, clusters, axis=0).min(axis=0)
        too_fast = [cluster for cluster in clusters if (expected[cluster] * TIE < others).any()]
        for cluster in too_fast:
            of_configs[cluster, [_PER_TILE, _PER_K, _PER_K_MN]] *= _RAISE
        if not too_fast:
            return
    raise RuntimeError("clusters stay far the fastest of an aligned square")


class _Pairs:
    """Pairs of a config and a case, and what a fit knows of them."""

    def __init__(self, sweep: Sweep, wanted: Array) -> None:
        self.config, self.case = np.nonzero(wanted)
        pairs = self.config, self.case
        times, best = sweep.times[pairs], sweep.best[self.case]
        is_round = np.array([case.n % 64 == 0 and case.k % 64 == 0 for case in sweep.cases])
        self.case_weight = _gpu_weight(sweep) * np.where(is_round, _ROUND_WEIGHT, 1.0) * _square_weight(sweep)
        self.case_weight /= self.case_weight.sum()
        self.log_times, self.log_best = np.log(times), np.log(best)
        self.is_near = _is_near(sweep)[pairs]
        self.weight = np.exp(-(times / best - 1) / _NEAREST) * self.is_near * self.case_weight[self.case]
        self.cases = len(sweep.cases)

    def by_case(self, values: Array) -> Array:
        return np.bincount(self.case, values, self.cases)

    def errors(self, log_ns: Array) -> Array:
        """Of the times, less a part of what all configs of a case have in common."""
        error = np.where(self.is_near, log_ns - self.log_times, 0)
        common = self.by_case(self.weight * error) / np.maximum(self.by_case(self.weight), 1e-9)
        return error - _CENTERED * common[self.case]


def _gpu_weight(sweep: Sweep) -> Array:
    """Between that of cases that count the same, and of GPUs that do: the one with a sixth of the cases would rule the
    numbers that they share."""
    return np.sqrt(sweep.weight)


def _square_weight(sweep: Sweep) -> Array:
    is_square = np.array([case.is_square and case.m % 64 == 0 for case in sweep.cases])
    return np.where(is_square, _SQUARE_TIMES, 1.0)


def _is_near(sweep: Sweep) -> Array:
    return ~np.isnan(sweep.measured) & (sweep.times < _NEAR * sweep.best)


class Fit:
    """The logarithms of all numbers, those of the configs first, on their way to less loss."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        of_configs, of_gpus = model().numbers()
        self._shape, self._own_numbers, self._gpus = of_configs.shape, of_configs.size, of_gpus.shape
        numbers = np.arange(of_configs.size, of_configs.size + of_gpus.size)
        end = of_gpus.shape[1]
        self._moved = np.concatenate([numbers[: end - _FACTORS], numbers[end:]])  # of the GPUs'
        traits = _traits()
        self._beyond_traits = np.eye(len(traits)) - traits @ np.linalg.pinv(traits)
        logs = np.log(of_configs)
        by_traits = logs - self._beyond_traits @ logs  # what was known of single configs goes
        self._logs = np.concatenate([by_traits.ravel(), np.log(np.maximum(of_gpus, _LEAST_FACTOR)).ravel()])

    def numbers(self, logs: Array | None = None) -> tuple[Array, Array]:
        """As Model.numbers has them."""
        values = np.exp(self._logs if logs is None else logs)
        of_configs, of_gpus = np.split(values, [self._own_numbers])
        return of_configs.reshape(self._shape), of_gpus.reshape(self._gpus)

    def _log_ns(self, pairs: _Pairs, logs: Array) -> Array:
        found = model().expected_ns(pairs.config, pairs.case, self._sweep.as_array, *self.numbers(logs))
        return np.asarray(np.log(found))

    def _derivatives(self, pairs: _Pairs) -> tuple[Array, Array]:
        """Logarithms of the expected times, and their derivatives: by the config's own numbers, then by the GPU's."""
        log_ns, columns = self._log_ns(pairs, self._logs), []
        own = self._shape[1]
        of_configs = [slice(number, self._own_numbers, own) for number in range(own)]
        for moved in [*of_configs, *self._moved]:
            logs = self._logs.copy()
            logs[moved] += _STEP
            columns.append((self._log_ns(pairs, logs) - log_ns) / _STEP)
        return log_ns, np.stack(columns, axis=1)

    def _places(self, config: int) -> Array:
        """Where the numbers stand that a config's derivatives are by."""
        own = np.arange(config * self._shape[1], (config + 1) * self._shape[1])
        return np.concatenate([own, self._moved])

    def _pull(self) -> Array:
        """Towards what the traits say: the gradient of half its price."""
        own = self._logs[: self._own_numbers].reshape(self._shape)
        pulled = np.zeros_like(self._logs)
        pulled[: self._own_numbers] = (self._beyond_traits @ own).ravel() * _OWN / len(self._sweep.cases)
        return pulled

    def _move(self, less: Array) -> None:
        self._logs = self._logs - less
        tie_clusters(self._logs[: self._own_numbers].reshape(self._shape))

    def to_times(self) -> None:
        """By least squares, damped."""
        pairs = _Pairs(self._sweep, _is_near(self._sweep))
        total, size = pairs.weight.sum(), len(self._logs)
        for _ in range(_LEAST_SQUARES_STEPS):
            log_ns, derivatives = self._derivatives(pairs)
            error, gradient, curvature = pairs.errors(log_ns), self._pull() / 15, np.zeros((size, size))
            for config in range(self._shape[0]):
                mine, places = pairs.config == config, self._places(config)
                weighted = derivatives[mine].T * pairs.weight[mine]
                curvature[np.ix_(places, places)] += weighted @ derivatives[mine] / total
                gradient[places] += weighted @ error[mine] / total
            for number in range(self._shape[1]):
                places = np.arange(number, self._own_numbers, self._shape[1])
                curvature[np.ix_(places, places)] += _OWN / 15 / len(self._sweep.cases) * self._beyond_traits
            damping = np.diag(1e-3 * np.diag(curvature) + 1e-6)
            self._move(np.clip(np.linalg.solve(curvature + damping, gradient), -0.7, 0.7))

    def _regret_gradient(self, pairs: _Pairs) -> Array:
        log_ns, derivatives = self._derivatives(pairs)
        by_pair = 2 * _TIMES_WEIGHT * pairs.weight * pairs.errors(log_ns) / pairs.weight.sum()
        least = np.full(pairs.cases, np.inf)
        np.minimum.at(least, pairs.case, log_ns)
        share = np.exp((least[pairs.case] - log_ns) / _TIED)
        share /= pairs.by_case(share)[pairs.case]
        ratio = np.exp(pairs.log_times - pairs.log_best)
        mean = pairs.by_case(share * ratio)
        regret = np.log(mean)
        price = _REGRET_WEIGHT + _SQUARE_WEIGHT * regret + sum(weight * (regret > bound) for bound, weight in _BEYOND)
        price *= pairs.case_weight
        by_pair += price[pairs.case] * share * (1 - ratio / mean[pairs.case]) / _TIED
        too_little = np.maximum(0, pairs.log_best + np.log(_FAR) - log_ns) * ~pairs.is_near
        by_pair -= 2 * _FAR_WEIGHT * too_little / pairs.cases
        gradient = 2 * self._pull()
        for config in range(self._shape[0]):
            mine = pairs.config == config
            gradient[self._places(config)] += by_pair[mine] @ derivatives[mine]
        return gradient

    def to_regret(self, steps: int) -> None:
        """By Adam, with steps that become shorter."""
        mean = square = np.zeros_like(self._logs)
        for step in range(steps):
            if step % _ALIKE_EVERY == 0:
                expected = self._sweep.expected(*self.numbers())
                pairs = _Pairs(self._sweep, _is_near(self._sweep) | (expected < 1.35 * expected.min(axis=0)))
            gradient = self._regret_gradient(pairs)
            mean, square = 0.9 * mean + 0.1 * gradient, 0.98 * square + 0.02 * gradient**2
            rate = 0.005 * (1 + np.cos(np.pi * step / steps))
            direction = mean / (1 - 0.9 ** (step + 1)) / (np.sqrt(square / (1 - 0.98 ** (step + 1))) + 1e-9)
            self._move(rate * direction)

    def run(self, steps: int) -> tuple[Array, Array]:
        self.to_times()
        self.to_regret(steps)
        return self.numbers()


def polish(sweep: Sweep, of_configs: Array, of_gpus: Array) -> Array:
    """The configs' numbers after small steps of single ones, start, per_tile, per_k and per_k_mn, each of which makes
    the choice itself lose less; clusters, which few cases tell from their tiles, do not become cheaper."""
    weight = _gpu_weight(sweep) * _square_weight(sweep)
    cases = np.arange(len(sweep.cases), dtype=np.int32)
    expected = sweep.expected(of_configs, of_gpus)

    def loss() -> float:
        lost = sweep.regrets(expected.argmin(axis=0)) - 1
        price = lost + sum(times * np.maximum(0, lost - bound) for bound, times in _POLISH_BEYOND)
        return float(np.average(price, weights=weight))

    least = loss()
    clusters = _plain_tiles()
    for config in np.random.default_rng(0).permutation(len(of_configs)).tolist() * 2:
        for number, steps in _POLISH_STEPS.items():
            for step in steps:
                if config in clusters and (step < 0 or number not in (_START, _PER_TILE)):
                    continue
                before, ns = of_configs[config, number], expected[config].copy()
                of_configs[config, number] += step if number in (0, 1) else step * before
                found = model().expected_ns(np.full_like(cases, config), cases, sweep.as_array, of_configs, of_gpus)
                expected[config] = np.where(sweep.is_known[config], found, np.inf)
                if of_configs[config, number] > 0 and (now := loss()) < least - _POLISH_GAIN:
                    least = now
                else:
                    of_configs[config, number], expected[config] = before, ns
    return of_configs


def fit_unaligned(sweep: Sweep, of_configs: Array, of_gpus: Array) -> None:
    """Takes steps of unaligned_tile, by config, and of odd_columns, by GPU, as long as the choice loses less, and the
    expected times come nearer to the measured ones, less a part of what all configs of a case have in common. A
    cluster has its tile's."""
    cases = np.arange(len(sweep.cases), dtype=np.int32)
    pairs = _Pairs(sweep, _is_near(sweep))
    expected = sweep.expected(of_configs, of_gpus)

    def loss() -> float:
        lost = sweep.regrets(expected.argmin(axis=0)) - 1
        price = lost + sum(times * np.maximum(0, lost - bound) for bound, times in _POLISH_BEYOND)
        errors = pairs.errors(np.log(expected[pairs.config, pairs.case]))
        return float(price.mean() + _UNALIGNED_TIMES * np.average(errors**2, weights=pairs.weight))

    def step_along(numbers: Array, rows: Sequence[int], number: int, configs: Sequence[int], factor: float) -> None:
        nonlocal expected
        least = loss()
        for direction in (factor, 1 / factor):
            while True:
                before = expected.copy()
                numbers[rows, number] *= direction
                for config in configs:
                    of = np.full_like(cases, config)
                    found = model().expected_ns(of, cases, sweep.as_array, of_configs, of_gpus)
                    expected[config] = np.where(sweep.is_known[config], found, np.inf)
                if (now := loss()) >= least - _POLISH_GAIN / 10:
                    numbers[rows, number] /= direction
                    expected = before
                    break
                least = now

    known = [config for config in range(len(of_configs)) if sweep.is_known[config].any()]
    clusters = _plain_tiles()
    alike = {
        config: [config, *(cluster for cluster in clusters if clusters[cluster] == config)]
        for config in known
        if config not in clusters
    }
    for factor in _UNALIGNED_STEPS:
        for configs in alike.values():
            step_along(of_configs, configs, _UNALIGNED_TILE, configs, factor)
        for gpu in set(sweep.as_array["gpu"].tolist()):
            step_along(of_gpus, [gpu], _ODD_COLUMNS, known, factor)


def read_without_judged(paths: Sequence[Path]) -> Sweep:
    """The sweeps' cases without those that tune_regret.py judges the choice by."""
    judged = {(case.layout, *case.shape) for case in linear_cases() + rectangles()}
    sweep = Sweep.read(paths)
    return sweep.some([(case.layout, *case.shape) not in judged for case in sweep.cases])


def _halves(paths: Sequence[Path]) -> tuple[Sweep, Sweep]:
    """Every other case, of a case in several files of a GPU the last one."""
    sweep = read_without_judged(paths)
    first = np.arange(len(sweep.cases)) % 2 == 0
    return sweep.some(first), sweep.some(~first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweeps", type=Path, nargs="+", help="CSVs of matmul.py --rows, of one GPU or several")
    parser.add_argument("--steps", type=int, default=300, help="of the fit's second part (default 300)")
    parser.add_argument("--halves", action="store_true", help="fit to half of the cases, judge by the other, and swap")
    parser.add_argument("--write", action="store_true", help="fit, and write tables.h and cost_numbers.h")
    parser.add_argument("--unaligned", action="store_true", help="the same, of outputs that TMA cannot write alone")
    arguments = parser.parse_args()
    sweep = read_without_judged(arguments.sweeps)
    report("as it is", sweep.lost(sweep.chosen()))
    if arguments.halves:
        halves = _halves(arguments.sweeps)
        for title, mine, other in (("first", halves[0], halves[1]), ("second", halves[1], halves[0])):
            numbers = Fit(mine).run(arguments.steps)
            for words, half in ((f"fitted to the {title} half, there", mine), ("in the other one", other)):
                report(words, half.lost(half.expected(*numbers).argmin(axis=0)))
    if arguments.unaligned:
        numbers = model().numbers()
        fit_unaligned(sweep, *numbers)
        write_numbers(*numbers)
        report("fitted", sweep.lost(sweep.expected(*numbers).argmin(axis=0)))
    if arguments.write:
        of_configs, of_gpus = Fit(sweep).run(arguments.steps)
        logs = np.log(polish(sweep, of_configs, of_gpus))
        tie_clusters(logs)
        numbers = np.exp(logs), of_gpus
        hold_clusters_back(*numbers)
        write_numbers(*numbers)
        report("fitted", sweep.lost(sweep.expected(*numbers).argmin(axis=0)))


if __name__ == "__main__":
    main()
