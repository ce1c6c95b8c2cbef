"""What random_shapes.py prints of a file's rows: torch's time over ours, by group and class.

A class is whether operands and result are aligned (random_shapes_draw.py), how many numbers the result has, and how
long k is: a small result with a long k occupies few of a GPU's multiprocessors, unless k is split among them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.result_file import aligned as as_table
from benchmarks.measure.random_shapes_draw import GROUPS, Product

LEVEL = 0.97  # cases are counted in which torch's time over ours is below it
_OUTPUTS = ((2**16, "<= 2^16"), (2**20, "<= 2^20"), (math.inf, "> 2^20"))  # numbers in the result
_LENGTHS = ((512, "< 512"), (2048, "< 2048"), (math.inf, ">= 2048"))  # of k
_ALIGNMENTS = ("aligned", "unaligned")

Class = tuple[str, str, str]  # alignment, outputs, k
_CLASSES: tuple[Class, ...] = (
    ("all", "all", "all"),
    *((alignment, "all", "all") for alignment in _ALIGNMENTS),
    *((alignment, outputs, k) for alignment in _ALIGNMENTS for _, outputs in _OUTPUTS for _, k in _LENGTHS),
)
HEAD = ("group", "alignment", "outputs", "k", "cases", "mean", f"below {LEVEL}", "worst", "at")


@dataclass(frozen=True)
class Comparison:
    """A product, and torch's time over ours: above 1 ours is faster."""

    product: Product
    ratio: float

    @property
    def alignment(self) -> str:
        return _ALIGNMENTS[0] if self.product.is_aligned else _ALIGNMENTS[1]

    @property
    def outputs(self) -> str:
        return next(name for limit, name in _OUTPUTS if self.product.outputs <= limit)

    @property
    def length(self) -> str:
        return next(name for limit, name in _LENGTHS if self.product.k < limit)


def comparisons(rows: Iterable[Mapping[str, str]]) -> list[Comparison]:
    """Of the rows of a file, in its order; a product that one of the two lacks is left out."""
    found: list[tuple[Product, dict[str, float]]] = []
    for row in rows:
        shape = (int(row["m"]), int(row["n"]), int(row["k"]))
        product = Product(row["dtype"], row["layout"], *shape, row["epilogue"], int(row["batch"]))
        if not found or found[-1][0] != product or row["provider"] in found[-1][1]:
            found.append((product, {}))
        found[-1][1][row["provider"]] = float(row["median_us"])
    return [
        Comparison(product, times["torch"] / times["tileon"])
        for product, times in found
        if times.keys() >= {"tileon", "torch"}
    ]


def summary(compared: Sequence[Comparison]) -> list[list[str]]:
    """The table, its head first: each group that occurs, as a whole, by alignment and by class; then all groups
    together in the same way."""
    table = [[*HEAD]]
    groups = [name for name in GROUPS if any(item.product.group == name for item in compared)]
    for group in groups:
        table += _group_lines(group, [item for item in compared if item.product.group == group])
    if len(groups) > 1:
        table += _group_lines("all", compared)
    return table


def _group_lines(group: str, compared: Sequence[Comparison]) -> list[list[str]]:
    """A line for each class that has a case."""
    of_class: dict[Class, list[Comparison]] = {}
    for item in compared:
        narrowest = (item.alignment, item.outputs, item.length)
        for name in (("all", "all", "all"), (item.alignment, "all", "all"), narrowest):
            of_class.setdefault(name, []).append(item)
    return [[group, *name, *_figures(of_class[name])] for name in _CLASSES if name in of_class]


def _figures(compared: Sequence[Comparison]) -> list[str]:
    """Of one class, at least one case."""
    mean = statistics.geometric_mean(item.ratio for item in compared)
    below = sum(item.ratio < LEVEL for item in compared) / len(compared)
    worst = min(compared, key=lambda item: item.ratio)
    return [str(len(compared)), f"{mean:.3f}", f"{100 * below:.0f} %", f"{worst.ratio:.2f}", str(worst.product)]


def summary_text(compared: Sequence[Comparison]) -> str:
    """The table for the terminal, with what its columns are."""
    if not compared:
        return "no product has figures of both providers"
    words = f"torch's time over tileon's: geometric mean, share of the cases below {LEVEL}, and the worst case"
    return f"{words}\n{as_table(summary(compared))}"
