"""The marks of the library's choice of a row and of tuning, from tune_regret.csv: see bars.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.common.times import geometric_mean
from benchmarks.report.target import Bar

MEAN_REGRET, WORST_REGRET = 0.02, 0.08  # of the default choice over the best row
TUNED_SLACK = 1.02  # time as tuned over the default's, in a run of its own: two medians of one row differ by as much

SETS = {"linear": "linear layers", "random": "random rectangles"}


def _name(row: dict[str, str]) -> str:
    return f"{row['layout']} {row['m']}x{row['n']}x{row['k']}"


def _set_bars(what: str, rows: list[dict[str, str]]) -> list[Bar]:
    title, asked = f"default choice, {what}, regret", (f"mean <= {MEAN_REGRET:.0%}", f"each <= {WORST_REGRET:.0%}")
    if not rows:
        return [Bar(title, ask, "", None) for ask in asked]
    ratios = [float(row["default_us"]) / float(row["best_us"]) for row in rows]
    mean, worst = geometric_mean(ratios) - 1, max(zip(ratios, rows, strict=True), key=lambda item: item[0])
    over = sum(ratio > 1 + WORST_REGRET for ratio in ratios)
    place = f"{_name(worst[1])}: {worst[1]['default']}, best {worst[1]['best']}"
    return [
        Bar(title, asked[0], f"{mean:.2%} over {len(rows)}", mean <= MEAN_REGRET),
        Bar(title, asked[1], f"{over} beyond, worst {worst[0] - 1:.1%} at {place}", not over),
    ]


def tune_bars(results: Path) -> list[Bar]:
    """Nothing while there is no tune_regret.csv."""
    source = results / "tune_regret.csv"
    if not source.exists():
        return []
    rows = read_csv(source)[1]
    bars = [bar for name, what in SETS.items() for bar in _set_bars(what, [row for row in rows if row["set"] == name])]
    what, asked = "tuned, time over the default's", f"each <= {TUNED_SLACK:.2f}"
    if not rows:
        return [*bars, Bar(what, asked, "", None)]
    ratio, worst = max(
        ((float(row["tuned_us"]) / float(row["again_us"]), row) for row in rows), key=lambda item: item[0]
    )
    return [*bars, Bar(what, asked, f"worst {ratio:.3f} at {_name(worst)}", ratio <= TUNED_SLACK)]
