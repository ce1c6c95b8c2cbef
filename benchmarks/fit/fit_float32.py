"""Fits the cost model of Hopper's float32 rows to a sweep, and says what the choice loses.

    python -m benchmarks.fit.sweep --preset float32_rows --rows "bf16x6|simt|sm80_few" --csv sweep_float32.csv   # GPU
    python -m benchmarks.fit.fit_float32 benchmarks/results/h200/sweep_float32.csv.xz                        # anywhere

Prints each row's three numbers and the constants as csrc/cuda/sm90/heuristics/bf16x6.h wants them, and the regret of
choosing by them: the time of what is chosen over that of the best row, among these rows and the portable ones. The
model is `choose_float32` of bf16x6.h with `largest_bound_ns` of cost.h. Numbers stay near those of bf16x6.h where the
sweep does not tell them apart.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.common.times import Key, Times, geometric_mean, read_row_times
from benchmarks.fit.fit_portable import LAUNCH_NS, read_table

CONFIG = Path(__file__).resolve().parents[2] / "csrc" / "cuda" / "sm90" / "float32" / "bf16x6.h"
PANEL, PLANES, FEW_ROWS = 64, 3, 8
L2_BYTES_PER_NS = 20000.0  # kLargestL2BytesPerNs of cost.h
_ROW = re.compile(
    r'\{"(?P<name>\w+)",\s*\{Family::\w+,\s*(?P<m>\d+),\s*(?P<n>\d+),[^}]*\},\s*(?P<splits>\d+), \d+,'
    r"\s*(?P<start>[\d.]+)f,\s*(?P<per_tile>[\d.]+)f,\s*(?P<per_k>[\d.]+)f,\s*[\d.]+f,\s*(?P<bytes_per_ns>[\d.]+)f\}"
)
_CONSTANTS = {  # of bf16x6.h, in the order in which the model takes them
    "decompose": ("kDecomposeBytesPerNs",),
    "store": ("kSingleStores",),
    "portable": ("kPortableStartNs", "kPortableNsPerK", "kPortableProductsPerNs", "kFewRowsBytesPerNs"),
}
_OF_ROW = ("start", "per_tile", "per_k")
_PULL = {"start": 0.002, "per_tile": 0.001}  # towards the numbers of bf16x6.h


@dataclass(frozen=True)
class Row:
    """A row of the table, and the cost model's numbers."""

    name: str
    tile_m: int
    tile_n: int
    splits: int
    bytes_per_ns: float
    numbers: dict[str, float]

    def counts(self, case: Key, sm_count: int) -> tuple[float, ...]:
        """Waves of tiles, k of the decomposed operands, what decomposing moves, the bounds of memory and L2, and
        whether columns are stored one by one."""
        tiles = math.ceil(case.m / self.tile_m) * math.ceil(case.n / self.tile_n)
        slots = (sm_count if self.splits <= 2 else sm_count * 10 // 11) // self.splits
        k = math.ceil(case.k / PANEL) * PANEL * PLANES
        decomposed = (case.m + case.n) * case.k * (4 + 2.0 * PLANES)
        memory = ((case.m + case.n) * k * 2.0 + 4.0 * case.m * case.n) / self.bytes_per_ns
        delivery = tiles * (self.tile_m + self.tile_n) * k * 2.0 / L2_BYTES_PER_NS
        single = case.n % 2 == 1 and self.splits == 1
        return math.ceil(tiles / slots), k, decomposed, max(memory, delivery), float(single)


Numbers = dict[str, Tensor]  # logarithms: of _OF_ROW one for each row, and those of _CONSTANTS


def read_config() -> tuple[list[Row], dict[str, list[float]]]:
    """The table, and the constants."""
    text = CONFIG.read_text()
    rows = [
        Row(
            match["name"],
            int(match["m"]),
            int(match["n"]),
            int(match["splits"]),
            float(match["bytes_per_ns"]),
            {field: float(match[field]) for field in _OF_ROW},
        )
        for match in _ROW.finditer(text)
    ]
    found = dict(re.findall(r"constexpr double (k\w+) = ([\d.]+);", text))
    return rows, {field: [float(found[name]) for name in names] for field, names in _CONSTANTS.items()}


def expected_ns(numbers: Numbers, row: Tensor, counts: Tensor) -> Tensor:
    """Of one case and row each: `row` its number, `counts` Row.counts."""
    waves, k, decomposed, other_bounds, single = counts.unbind(1)
    start, per_tile, per_k = (numbers[field].exp()[row] for field in _OF_ROW)
    stored = torch.where(single > 0, numbers["store"].exp(), 1.0)
    bound = torch.maximum(waves * (stored * per_tile + per_k * k), other_bounds)
    return start + decomposed / numbers["decompose"].exp() + bound


def portable_ns(numbers: Numbers, cases: list[Key]) -> Tensor:
    """What the fastest portable row is expected to take."""
    k = torch.tensor([float(case.k) for case in cases], dtype=torch.float64)
    products = torch.tensor([float(case.m) * case.n * case.k for case in cases], dtype=torch.float64)
    # What reads b once for every few rows, where both operands lie along k and rows begin at multiples of 16 bytes.
    once = torch.tensor(
        [
            math.ceil(case.m / FEW_ROWS) * 4.0 * case.n * case.k if case.layout == "NT" and case.k % 4 == 0 else 1e15
            for case in cases
        ],
        dtype=torch.float64,
    )
    start, per_k, rate, few_rows_rate = numbers["portable"].exp()
    return start + torch.minimum(torch.maximum(per_k * k, products / rate), once / few_rows_rate)


def fit(before: Numbers, expected: Callable[[Numbers], Tensor], times: Tensor) -> Numbers:
    """Least squares of the relative error."""
    numbers = {field: values.clone().requires_grad_() for field, values in before.items()}
    optimizer = torch.optim.Adam(numbers.values(), lr=0.02)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1500, gamma=0.2)
    for _ in range(3000):
        optimizer.zero_grad()
        error = (expected(numbers).log() - times.log()).square().mean()
        pull = sum(pull * (numbers[field] - before[field]).square().mean() for field, pull in _PULL.items())
        (error + pull).backward()
        optimizer.step()
        schedule.step()
    return {field: values.detach() for field, values in numbers.items()}


def losses(
    expected: dict[Key, dict[str, float]], portable: dict[Key, float], times: Times, other_times: Times, sm_count: int
) -> dict[Key, float]:
    """The time of what is chosen over the best, in cases where the portable rows were measured too."""
    table = read_table()
    found = {}
    for case, others in other_times.items():
        chosen = min(expected[case], key=expected[case].__getitem__)
        if expected[case][chosen] > portable[case]:
            chosen = min(others, key=lambda name: table[name].expected_ns(case, sm_count))
        both = times[case] | others
        found[case] = both[chosen] / min(both.values())
    return found


def _nanoseconds(path: Path, rows: Collection[str]) -> Times:
    return {case: {row: 1e3 * us for row, us in by.items()} for case, by in read_row_times(path, rows).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path, help="CSV of benchmarks/fit/sweep.py")
    parser.add_argument("--sm-count", type=int, default=132, help="of the GPU of the sweep (default 132, an H200)")
    arguments = parser.parse_args()
    rows, constants = read_config()
    names = {row.name: number for number, row in enumerate(rows)}
    times = _nanoseconds(arguments.sweep, names)
    other_times = {case: by for case, by in _nanoseconds(arguments.sweep, read_table()).items() if case in times}
    measured = [(case, name) for case, by_row in times.items() for name in by_row]
    row = torch.tensor([names[name] for _, name in measured])
    counts = torch.tensor(
        [rows[names[name]].counts(case, arguments.sm_count) for case, name in measured], dtype=torch.float64
    )
    of_rows = torch.tensor([times[case][name] for case, name in measured], dtype=torch.float64)
    cases = list(other_times)
    of_portable = torch.tensor([min(other_times[case].values()) for case in cases], dtype=torch.float64)

    def logarithms(values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64).log()

    before = {field: logarithms([each.numbers[field] for each in rows]) for field in _OF_ROW}
    before |= {field: logarithms(values) for field, values in constants.items()}

    def expected(numbers: Numbers) -> Tensor:
        return torch.cat([expected_ns(numbers, row, counts), portable_ns(numbers, cases)])

    fitted = fit(before, expected, torch.cat([of_rows, of_portable]) - LAUNCH_NS)
    for number, each in enumerate(rows):
        start, per_tile, per_k = (fitted[field][number].exp().item() for field in _OF_ROW)
        print(f"{each.name:34} {start:7.1f}f, {per_tile:8.1f}f, {per_k:8.4f}f")
    for field, constant_names in _CONSTANTS.items():
        for name, value in zip(constant_names, fitted[field].exp().tolist(), strict=True):
            print(f"{name} = {value:.2f}")
    for title, numbers in (("bf16x6.h", before), ("fitted", fitted)):
        modelled = expected_ns(numbers, row, counts)
        by_case: dict[Key, dict[str, float]] = {}
        for (case, name), ns in zip(measured, modelled.tolist(), strict=True):
            by_case.setdefault(case, {})[name] = ns
        of_others = dict(zip(cases, portable_ns(numbers, cases).tolist(), strict=True))
        found = losses(by_case, of_others, times, other_times, arguments.sm_count)
        worst = max(found, key=found.__getitem__)
        off = (modelled.log() - (of_rows - LAUNCH_NS).log()).square().mean().sqrt().item()
        mean, beyond = geometric_mean(found.values()), sum(loss > 1.08 for loss in found.values())
        print(
            f"{title:9} {100 * off:.1f} % off; regret {100 * (mean - 1):.2f} % in mean over {len(found)} cases, "
            f"{100 * (found[worst] - 1):.1f} % at worst ({worst}), {beyond} beyond 8 %"
        )


if __name__ == "__main__":
    main()
