"""What random_shapes.py prints of a file's rows: torch's time over ours, by group and class.

A class is whether operands and result are aligned (random_shapes_draw.py), how many numbers the result has, and how
long k is: a small result with a long k occupies few of a GPU's multiprocessors, unless k is split among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from benchmarks.common.cases import Case
from benchmarks.common.result_file import aligned as as_table
from benchmarks.common.times import geometric_mean
from benchmarks.measure.random_shapes_draw import GROUPS, group_of, is_aligned

LEVEL = 0.97  # cases are counted in which torch's time over ours is below it
_OUTPUTS = {"<= 2^16": 2**16, "<= 2^20": 2**20, "> 2^20": math.inf}  # numbers in the result, at most
_LENGTHS = {"< 512": 512, "< 2048": 2048, ">= 2048": math.inf}  # of k, below
_ALIGNMENTS = ("aligned", "unaligned")

Class = tuple[str, str, str]  # alignment, outputs, k
_CLASSES: tuple[Class, ...] = (
    ("all", "all", "all"),
    *((alignment, "all", "all") for alignment in _ALIGNMENTS),
    *((alignment, outputs, k) for alignment in _ALIGNMENTS for outputs in _OUTPUTS for k in _LENGTHS),
)
HEAD = ("group", "alignment", "outputs", "k", "cases", "mean", f"below {LEVEL}", "worst", "at")

Compared = tuple[Case, float]  # torch's time over ours: above 1 ours is faster


def comparisons(rows: Iterable[Mapping[str, str]]) -> list[Compared]:
    """Of the rows of a file, in its order; a product that one of the two lacks is left out."""
    found: list[tuple[Case, dict[str, float]]] = []
    for row in rows:
        shape = (int(row["m"]), int(row["n"]), int(row["k"]))
        case = Case(row["dtype"], row["layout"], *shape, row["epilogue"], int(row["batch"]))
        if not found or found[-1][0] != case or row["provider"] in found[-1][1]:
            found.append((case, {}))
        found[-1][1][row["provider"]] = float(row["median_us"])
    return [(case, by["torch"] / by["tileon"]) for case, by in found if by.keys() >= {"tileon", "torch"}]


def _classes(case: Case) -> tuple[Class, ...]:
    """The classes that the product belongs to, the widest first."""
    alignment = _ALIGNMENTS[0] if is_aligned(case) else _ALIGNMENTS[1]
    outputs = next(name for name, limit in _OUTPUTS.items() if case.batch * case.m * case.n <= limit)
    length = next(name for name, limit in _LENGTHS.items() if case.k < limit)
    return ("all", "all", "all"), (alignment, "all", "all"), (alignment, outputs, length)


def summary(compared: Sequence[Compared]) -> list[list[str]]:
    """The table, its head first: each group that occurs, as a whole, by alignment and by class; then all groups
    together in the same way."""
    of_group = {group: [item for item in compared if group_of(item[0]) == group] for group in GROUPS}
    groups = {group: items for group, items in of_group.items() if items}
    if len(groups) > 1:
        groups["all"] = list(compared)
    return [[*HEAD], *(line for group, items in groups.items() for line in _group_lines(group, items))]


def _group_lines(group: str, compared: Sequence[Compared]) -> list[list[str]]:
    """A line for each class that has a case."""
    of_class: dict[Class, list[Compared]] = {}
    for item in compared:
        for name in _classes(item[0]):
            of_class.setdefault(name, []).append(item)
    return [[group, *name, *_figures(of_class[name])] for name in _CLASSES if name in of_class]


def _figures(compared: Sequence[Compared]) -> list[str]:
    """Of one class, at least one case."""
    ratios = [ratio for _, ratio in compared]
    below = sum(ratio < LEVEL for ratio in ratios) / len(ratios)
    case, worst = min(compared, key=lambda item: item[1])
    return [str(len(ratios)), f"{geometric_mean(ratios):.3f}", f"{100 * below:.0f} %", f"{worst:.2f}", str(case)]


def summary_text(compared: Sequence[Compared]) -> str:
    """The table for the terminal, with what its columns are."""
    if not compared:
        return "no product has figures of both providers"
    words = f"torch's time over tileon's: geometric mean, share of the cases below {LEVEL}, and the worst case"
    return f"{words}\n{as_table(summary(compared))}"
