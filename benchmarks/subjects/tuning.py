"""The library's choice of a row and tuning: targets and tables of sweep.csv.xz and tune_regret.csv."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import geometric_mean

from benchmarks.common.cases import Case
from benchmarks.common.markdown import page_part, table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Target, each_target
from benchmarks.common.times import read_row_times

SOURCE, SWEEP = "tune_regret.csv", "sweep.csv.xz"

_MEAN_REGRET, WORST_REGRET = 0.02, 0.08  # of the default choice over the best row
_TUNED_SLACK = 1.02  # time as tuned over the default's, in a run of its own: two medians of one row differ by as much
_SETS = {"linear": "linear layers", "random": "random rectangles"}
_LOADS_ROW = "sm90_gemm_64x32x128"  # of the tile table: 64 rows, of which x fills some
_LOADS_WEIGHT = (4096, 14336)  # n, k

Row = dict[str, str]


def _regret_targets(what: str, lost: list[tuple[float, str]], most: tuple[float, float]) -> list[Target]:
    """The mean and each of what is lost, as a share, by ratios with their places; not measured without any."""
    asked = [f"{word} <= {bound:.0%}" for word, bound in zip(("mean", "each"), most, strict=True)]
    if not lost:
        return [Target(what, words) for words in asked]
    mean, (worst, place) = geometric_mean(ratio for ratio, _ in lost), max(lost, key=lambda item: item[0])
    over = sum(ratio > 1 + most[1] for ratio, _ in lost)
    return [
        Target(what, asked[0], f"{mean - 1:.2%} over {len(lost)}", mean <= 1 + most[0]),
        Target(what, asked[1], f"{over} beyond, worst {worst - 1:.1%} at {place}", not over),
    ]


def choice_targets(results: Path) -> list[Target]:
    """What today's choice loses in the sweep, of the 16-bit types."""
    from benchmarks.fit.cost_model import Sweep  # takes numpy, which measuring does without

    lost = []
    if (results / SWEEP).exists():
        sweep = Sweep.read([results / SWEEP])
        chosen, best = sweep.chosen(), sweep.times.argmin(axis=0)
        for case, mine, other, ratio in zip(sweep.cases, chosen, best, sweep.regrets(chosen), strict=True):
            if math.isnan(ratio):  # a config that is younger than the sweep
                continue
            words = f"{case.dtype} {case.layout} {case.short}: {sweep.configs[mine]}, best {sweep.configs[other]}"
            lost += [(float(ratio), words)] if case.dtype in ("float16", "bfloat16") else []
    return _regret_targets("choice of the row over the best row", lost, (0.03, 0.10))


def _name(row: Row) -> str:
    return f"{row['layout']} {row['m']}x{row['n']}x{row['k']}"


def _over(row: Row, over: str, under: str) -> float:
    return float(row[f"{over}_us"]) / float(row[f"{under}_us"])


def _of_sets(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each set, by its words."""
    return {words: [row for row in rows if row["set"] == name] for name, words in _SETS.items()}


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """The regret of the default choice by set, and that tuning makes nothing slower."""
    rows, found = read_csv(source)[1], []
    for what, mine in _of_sets(rows).items():
        places = [f"{_name(row)}: {row['default']}, best {row['best']}" for row in mine]
        lost = [(_over(row, "default", "best"), place) for row, place in zip(mine, places, strict=True)]
        found += _regret_targets(f"default choice, {what}, regret", lost, (_MEAN_REGRET, WORST_REGRET))
    tuned = [(_name(row), _over(row, "tuned", "again")) for row in rows]
    return [*found, each_target("tuned, time over the default's", tuned, _TUNED_SLACK, most=True)]


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """What the choice loses, and what tuning wins back."""
    head, rows = read_csv(source)
    lines = []
    for what, mine in _of_sets(rows).items():
        ratios = {_name(row): _over(row, "default", "best") for row in mine}
        if mine:
            where, over = max(ratios, key=lambda name: ratios[name]), sum(r > 1 + WORST_REGRET for r in ratios.values())
            lost = [f"{geometric_mean(ratios.values()) - 1:.2%}", f"{ratios[where] - 1:.1%} ({where})", str(over)]
            won = geometric_mean(_over(row, "again", "tuned") for row in mine) - 1
            lines.append([what, str(len(mine)), *lost, f"{won:.2%}"])
    columns = ["products", "cases", "lost in mean", "at worst", f"over {WORST_REGRET:.0%}", "won by tuning, in mean"]
    timing = head.get("timing", "")
    words = f"The choice's time over that of the best row, and the choice's over that as tuned ({timing}):"
    return page_part(source, table(words, columns, lines), targets(source.parent))


@of_file(SWEEP)
def tile_loads_part(source: Path) -> list[str]:
    """What tiles cost that reach beyond an operand: microseconds of one row of the tile table by rows of x."""
    found = sorted(
        (key.m, by[_LOADS_ROW])
        for key, by in read_row_times(source, (_LOADS_ROW,)).items()
        if key == Case("bfloat16", "NT", key.m, *_LOADS_WEIGHT) and key.m <= 64
    )
    head, cells = ["rows of x", *(str(rows) for rows, _ in found)], ["us", *(f"{us:.1f}" for _, us in found)]
    return page_part(source, table("", head, [cells])) if found else []
