"""The library's choice of a row and tuning: targets, tables and the figure of sweep.csv and tune_regret.csv."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.markdown import not_met, source_line, table
from benchmarks.common.picture import DistributionPanel, Picture, Values, caption_of, machine
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Target
from benchmarks.common.times import Key, geometric_mean, losses, read_row_times

SOURCE, SWEEP = "tune_regret.csv", "sweep.csv"

_MEAN_REGRET, WORST_REGRET = 0.02, 0.08  # of the default choice over the best row
_TUNED_SLACK = 1.02  # time as tuned over the default's, in a run of its own: two medians of one row differ by as much
_SETS = {"linear": "linear layers", "random": "random rectangles"}
_LOADS_ROW = "sm90_gemm_64x32x128"  # of the tile table: 64 rows, of which x fills some
_LOADS_WEIGHT = (4096, 14336)  # n, k

Row = dict[str, str]


def choice_targets(results: Path) -> list[Target]:
    """What the choice loses in the sweep, of the 16-bit types: today's where the file has the table's rows, else that
    which was recorded."""
    from benchmarks.fit.sweep_times import losses_of_table  # takes numpy, which measuring does without

    sweep = results / SWEEP
    found = (losses_of_table(sweep) or losses(sweep)) if sweep.exists() else []
    mine = [loss for loss in found if loss.key.dtype in ("float16", "bfloat16")]
    what = "choice of the row over the best row"
    if not mine:
        return [Target(what, "mean <= 3 %"), Target(what, "each <= 10 %")]
    mean, worst = geometric_mean(loss.ratio for loss in mine), max(mine, key=lambda loss: loss.ratio)
    over = sum(loss.ratio > 1.10 for loss in mine)
    place = f"{worst.key.dtype} {worst.key.layout} {worst.key.shape}: {worst.chosen}, best {worst.best}"
    return [
        Target(what, "mean <= 3 %", f"{100 * (mean - 1):.2f} % over {len(mine)}", mean <= 1.03),
        Target(what, "each <= 10 %", f"{over} beyond, worst {100 * (worst.ratio - 1):.1f} % at {place}", not over),
    ]


def _name(row: Row) -> str:
    return f"{row['layout']} {row['m']}x{row['n']}x{row['k']}"


def _over(row: Row, over: str, under: str) -> float:
    return float(row[f"{over}_us"]) / float(row[f"{under}_us"])


def _set_targets(what: str, rows: list[Row]) -> list[Target]:
    title, asked = f"default choice, {what}, regret", (f"mean <= {_MEAN_REGRET:.0%}", f"each <= {WORST_REGRET:.0%}")
    if not rows:
        return [Target(title, ask) for ask in asked]
    ratios = [_over(row, "default", "best") for row in rows]
    mean, (highest, worst) = geometric_mean(ratios) - 1, max(zip(ratios, rows, strict=True), key=lambda item: item[0])
    over = sum(ratio > 1 + WORST_REGRET for ratio in ratios)
    place = f"{_name(worst)}: {worst['default']}, best {worst['best']}"
    return [
        Target(title, asked[0], f"{mean:.2%} over {len(rows)}", mean <= _MEAN_REGRET),
        Target(title, asked[1], f"{over} beyond, worst {highest - 1:.1%} at {place}", not over),
    ]


def _of_sets(rows: list[Row]) -> dict[str, list[Row]]:
    """The rows of each set, by its words."""
    return {words: [row for row in rows if row["set"] == name] for name, words in _SETS.items()}


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """The regret of the default choice by set, and that tuning makes nothing slower."""
    rows = read_csv(source)[1]
    found = [target for what, mine in _of_sets(rows).items() for target in _set_targets(what, mine)]
    what, asked = "tuned, time over the default's", f"each <= {_TUNED_SLACK:.2f}"
    if not rows:
        return [*found, Target(what, asked)]
    worst = max(rows, key=lambda row: _over(row, "tuned", "again"))
    ratio = _over(worst, "tuned", "again")
    return [*found, Target(what, asked, f"worst {ratio:.3f} at {_name(worst)}", ratio <= _TUNED_SLACK)]


def _figures(rows: list[Row]) -> list[str]:
    """Mean and worst of what the choice loses, how many lose much, and the mean of what tuning wins."""
    regrets = [_over(row, "default", "best") - 1 for row in rows]
    worst, where = max(zip(regrets, rows, strict=True), key=lambda item: item[0])
    won = geometric_mean(_over(row, "again", "tuned") for row in rows) - 1
    mean = geometric_mean(1 + regret for regret in regrets) - 1
    over = sum(regret > WORST_REGRET for regret in regrets)
    return [str(len(rows)), f"{mean:.2%}", f"{worst:.1%} ({_name(where)})", str(over), f"{won:.2%}"]


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """What the choice loses, and what tuning wins back."""
    head, rows = read_csv(source)
    lines = [[what, *_figures(mine)] for what, mine in _of_sets(rows).items() if mine]
    columns = ["products", "cases", "lost in mean", "at worst", f"over {WORST_REGRET:.0%}", "won by tuning, in mean"]
    return [
        f"The choice's time over that of the best row, and the choice's over that as tuned ({head.get('timing', '')}):",
        "",
        *table(columns, lines, 1),
        "",
        *not_met(targets(source.parent)),
        source_line(source, head),
    ]


@of_file(SWEEP)
def tile_loads_part(source: Path) -> list[str]:
    """What tiles cost that reach beyond an operand: microseconds of one row of the tile table by rows of x."""
    times = read_row_times(source, (_LOADS_ROW,))
    found = sorted(
        (key.m, by[_LOADS_ROW])
        for key, by in times.items()
        if key == Key("bfloat16", "NT", key.m, *_LOADS_WEIGHT, "none") and key.m <= 64
    )
    if not found:
        return []
    lines = table(["rows of x", *(str(rows) for rows, _ in found)], [["us", *(f"{us:.1f}" for _, us in found)]], 1)
    return [*lines, "", source_line(source, read_csv(source)[0])]


def _values(rows: list[Row], over: str, under: str, extreme: str) -> tuple[Values, ...]:
    """Of each set, one time over the other in every case; `extreme` says which end is the worst."""
    found = []
    for place, (words, mine) in enumerate(_of_sets(rows).items()):
        ratios = tuple(sorted(_over(row, over, under) for row in mine))
        if ratios:
            worst = ratios[-1] if extreme == "highest" else ratios[0]
            label = f"{words}: mean {geometric_mean(ratios):.3f}, {extreme} {worst:.3f}"
            found.append(Values(label, f"part{place}", ratios))
    return tuple(found)


def figure(results: Path) -> Picture | None:
    """The distribution of what the choice loses and of what tuning wins, of both sets as far as they are there."""
    source = results / SOURCE
    head, rows = read_csv(source) if source.exists() else ({}, [])
    regret, gain = _values(rows, "default", "best", "highest"), _values(rows, "again", "tuned", "lowest")
    if not regret:
        return None
    cases = ", ".join(f"{len(mine)} {words}" for words, mine in _of_sets(rows).items() if mine)
    notes = [
        f"Every step of a curve is a case: {cases}. Left: right of the line at 1 another kernel is faster than the one "
        "that the library chooses. Right: a run of its own; right of 1 the tuned one is faster, in the shade slower.",
        f"Timing: {head.get('timing', '')}.",
    ]
    dtypes = ", ".join(sorted({row["dtype"] for row in rows}))
    return Picture(
        "tune_regret",
        f"The choice of a kernel and the best there is, {dtypes}, {machine(head)}",
        caption_of({source.name: head}, notes),
        (
            DistributionPanel("Time of the default choice over the best kernel's", "default / best", regret),
            DistributionPanel("Time of the default choice over the tuned one's", "default / tuned", gain),
        ),
        ((0, 1),),
        (3.0,),
    )
