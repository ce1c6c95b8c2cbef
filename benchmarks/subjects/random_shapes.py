"""Products that nobody chose against torch: groups, summary, targets, and the tables of random_shapes.csv and
random_shapes_other.csv.xz."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean

from benchmarks.common.cases import DTYPE_NAMES, FORMATS, FP8_PAIRINGS, Case
from benchmarks.common.markdown import page_part, table
from benchmarks.common.result_file import of_file
from benchmarks.common.target import Target, mean_target
from benchmarks.common.times import Comparison, Ratios, Times, quotients, read_times

SOURCE, OTHER = "random_shapes.csv", "random_shapes_other.csv.xz"  # of 16 bits, and of the others

ALIGNMENT = 8  # elements: 16 bytes, one vector load, of the 16-bit dtypes
LEVEL = 0.97  # cases are counted in which torch's time over ours is below it
HEAD = ("group", "alignment", "cases", "mean", f"below {LEVEL}", "worst", "at")

# What is drawn equally often, and summed up together. A batch is of any dtype that needs no scales.
GROUPS: dict[str, tuple[str, ...]] = {
    "16-bit": ("float16", "bfloat16"),
    "float32": ("float32",),
    "tf32": ("tf32",),
    "float64": ("float64",),
    "fp8": tuple(FP8_PAIRINGS),
    "batch": DTYPE_NAMES,
    "block-scaled": tuple(FORMATS),
}
_LEAST = {  # torch's time over ours: the mean, and each
    "16-bit": (1.08, 0.85),
    "float32": (1.3, 0.8),
    "tf32": (1.0, 0.8),
    "float64": (1.0, 0.8),
    "fp8": (1.1, 0.8),
    "batch": (1.05, 0.85),
    "block-scaled": (1.3, 0.9),
}
_WORDS = {"16-bit": "16 bits", "tf32": "float32, TF32 allowed", "batch": "batches of any dtype"}  # else its name


def group_of(case: Case) -> str:
    if case.batch > 1:
        return "batch"
    return next(group for group, dtypes in GROUPS.items() if case.dtype in dtypes)


def line_sizes(layout: str) -> set[str]:
    """Which of m, n and k are lengths of lines in memory: of a, of b and of the row-major result."""
    return {"k" if layout[0] == "N" else "m", "n" if layout[1] == "N" else "k", "n"}


def is_aligned(case: Case) -> bool:
    """Whether every line of a, b and the result is a multiple of 8 elements long."""
    return all(getattr(case, name) % ALIGNMENT == 0 for name in line_sizes(case.layout))


def summary(times: Times) -> list[list[str]]:
    """The table of torch's time over ours, its head first: each group that occurs, as a whole and by whether operands
    and result are aligned; then all groups together in the same way."""
    lines: dict[tuple[str, str], list[tuple[Case, float]]] = {}
    for case, ratio in quotients(times).items():
        alignment = "aligned" if is_aligned(case) else "unaligned"
        for line in itertools.product((group_of(case), "all"), (alignment, "all")):
            lines.setdefault(line, []).append((case, ratio))
    found = [[*HEAD]]
    for line in itertools.product((*GROUPS, "all"), ("all", "aligned", "unaligned")):
        if line in lines:
            found.append([*line, *_figures(lines[line])])
    return found


def _figures(cases: Sequence[tuple[Case, float]]) -> list[str]:
    ratios = [ratio for _, ratio in cases]
    below = sum(ratio < LEVEL for ratio in ratios) / len(ratios)
    case, worst = min(cases, key=lambda item: item[1])
    return [str(len(ratios)), f"{geometric_mean(ratios):.3f}", f"{100 * below:.0f} %", f"{worst:.2f}", str(case)]


def _by_group(source: Path) -> dict[str, dict[Case, float]]:
    """torch's time over ours, of each group that occurs."""
    ratios = quotients(read_times(source)[1]).items()
    groups = {name: {case: ratio for case, ratio in ratios if group_of(case) == name} for name in GROUPS}
    return {name: found for name, found in groups.items() if found}


def _name(group: str) -> str:
    return f"random products, {_WORDS.get(group, group)}"


def _comparisons(source: Path) -> list[Comparison]:
    return [one for group, found in _by_group(source).items() for one in Comparison.of(_name(group), found.items())]


def _targets(source: Path) -> list[Target]:
    targets = []
    for group, found in _by_group(source).items():
        what, (mean, each) = f"{_name(group)}, torch / ours", _LEAST[group]
        below = sum(ratio < each for ratio in found.values())
        case, worst = min(found.items(), key=lambda item: item[1])
        targets.append(mean_target(what, Ratios(found), mean))
        targets.append(Target(what, f"each >= {each:.2f}", f"{below} below, worst {worst:.3f} at {case}", not below))
    return targets


comparisons, other_comparisons = of_file(SOURCE)(_comparisons), of_file(OTHER)(_comparisons)
targets, other_targets = of_file(SOURCE)(_targets), of_file(OTHER)(_targets)


def part(results: Path) -> list[str]:
    """A table for each file that is there, without the line that sums up all groups."""
    lines: list[str] = []
    for source in (results / name for name in (SOURCE, OTHER)):
        if source.exists():
            head, times = read_times(source)
            rows = [row for row in summary(times)[1:] if row[0] != "all"]
            lines += ["", *page_part(source, table(f"Seed {head['seed']}:", HEAD, rows, 2), _targets(source))]
    return lines[1:]
