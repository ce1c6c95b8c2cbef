"""The library's choice of a row and tuning: targets and tables of sweep.csv and tune_regret.csv."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.cases import Case
from benchmarks.common.markdown import part as page_part
from benchmarks.common.markdown import table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Target, each_target
from benchmarks.common.times import geometric_mean, read_row_times

SOURCE, SWEEP = "tune_regret.csv", "sweep.csv"

_MEAN_REGRET, WORST_REGRET = 0.02, 0.08  # of the default choice over the best row
_TUNED_SLACK = 1.02  # time as tuned over the default's, in a run of its own: two medians of one row differ by as much
_SETS = {"linear": "linear layers", "random": "random rectangles"}
_LOADS_ROW = "sm90_gemm_64x32x128"  # of the tile table: 64 rows, of which x fills some
_LOADS_WEIGHT = (4096, 14336)  # n, k

Row = dict[str, str]


def choice_targets(results: Path) -> list[Target]:
    """What today's choice loses in the sweep, of the 16-bit types."""
    from benchmarks.fit.cost_model import losses  # takes numpy, which measuring does without

    sweep = results / SWEEP
    found = losses(sweep) if sweep.exists() else []
    mine = [loss for loss in found if loss.key.dtype in ("float16", "bfloat16")]
    what = "choice of the row over the best row"
    if not mine:
        return [Target(what, "mean <= 3 %"), Target(what, "each <= 10 %")]
    mean, worst = geometric_mean(loss.ratio for loss in mine), max(mine, key=lambda loss: loss.ratio)
    over = sum(loss.ratio > 1.10 for loss in mine)
    place = f"{worst.key.dtype} {worst.key.layout} {worst.key.short}: {worst.chosen}, best {worst.best}"
    return [
        Target(what, "mean <= 3 %", f"{100 * (mean - 1):.2f} % over {len(mine)}", mean <= 1.03),
        Target(what, "each <= 10 %", f"{over} beyond, worst {100 * (worst.ratio - 1):.1f} % at {place}", not over),
    ]


def _name(row: Row) -> str:
    return f"{row['layout']} {row['m']}x{row['n']}x{row['k']}"


def _over(row: Row, over: str, under: str) -> float:
    return float(row[f"{over}_us"]) / float(row[f"{under}_us"])


def _of_sets(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each set, by its words."""
    return {words: [row for row in rows if row["set"] == name] for name, words in _SETS.items()}


def _regret(rows: list[Row]) -> tuple[float, float, Row, int]:
    """Of at least one row: what the choice loses in mean, at worst and where, and how many lose much."""
    ratios = [_over(row, "default", "best") for row in rows]
    worst, where = max(zip(ratios, rows, strict=True), key=lambda item: item[0])
    return geometric_mean(ratios) - 1, worst - 1, where, sum(ratio > 1 + WORST_REGRET for ratio in ratios)


def _set_targets(what: str, rows: list[Row]) -> list[Target]:
    title, asked = f"default choice, {what}, regret", (f"mean <= {_MEAN_REGRET:.0%}", f"each <= {WORST_REGRET:.0%}")
    if not rows:
        return [Target(title, ask) for ask in asked]
    mean, worst, where, over = _regret(rows)
    place = f"{_name(where)}: {where['default']}, best {where['best']}"
    return [
        Target(title, asked[0], f"{mean:.2%} over {len(rows)}", mean <= _MEAN_REGRET),
        Target(title, asked[1], f"{over} beyond, worst {worst:.1%} at {place}", not over),
    ]


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """The regret of the default choice by set, and that tuning makes nothing slower."""
    rows = read_csv(source)[1]
    found = [target for what, mine in _of_sets(rows).items() for target in _set_targets(what, mine)]
    tuned = [(_name(row), _over(row, "tuned", "again")) for row in rows]
    return [*found, each_target("tuned, time over the default's", tuned, _TUNED_SLACK, most=True)]


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """What the choice loses, and what tuning wins back."""
    head, rows = read_csv(source)
    lines = []
    for what, mine in _of_sets(rows).items():
        if mine:
            mean, worst, where, over = _regret(mine)
            won = geometric_mean(_over(row, "again", "tuned") for row in mine) - 1
            figures = [str(len(mine)), f"{mean:.2%}", f"{worst:.1%} ({_name(where)})", str(over), f"{won:.2%}"]
            lines.append([what, *figures])
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
