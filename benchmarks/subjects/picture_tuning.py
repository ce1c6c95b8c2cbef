"""The picture of the choice of a kernel: what the library's own choice loses, and what tuning wins back. From
tune_regret.csv."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.common.times import geometric_mean
from benchmarks.report.picture import DistributionPanel, Picture, Values, caption_of, machine
from benchmarks.subjects.bars_tune import SETS

Row = dict[str, str]


def _values(rows: list[Row], over: str, under: str, extreme: str) -> tuple[Values, ...]:
    """Of each set, one time over the other in every case; `extreme` says which end is the worst."""
    found = []
    for place, (name, words) in enumerate(SETS.items()):
        ratios = tuple(sorted(float(row[over]) / float(row[under]) for row in rows if row["set"] == name))
        if ratios:
            worst = ratios[-1] if extreme == "highest" else ratios[0]
            label = f"{words}: mean {geometric_mean(ratios):.3f}, {extreme} {worst:.3f}"
            found.append(Values(label, f"part{place}", ratios))
    return tuple(found)


def tune_regret_picture(results: Path) -> Picture | None:
    """Of both sets of shapes, as far as they are there."""
    source = results / "tune_regret.csv"
    if not source.exists():
        return None
    head, rows = read_csv(source)
    regret, gain = _values(rows, "default_us", "best_us", "highest"), _values(rows, "again_us", "tuned_us", "lowest")
    if not regret:
        return None
    counts = {words: sum(row["set"] == name for row in rows) for name, words in SETS.items()}
    cases = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
    notes = [
        f"Every step of a curve is a case: {cases}. Left: right of the line at 1 another kernel is faster than the one "
        "that the library chooses. Right: a run of its own; right of 1 the tuned one is faster, in the shade slower.",
        f"Timing: {head.get('timing', '')}.",
    ]
    return Picture(
        "tune_regret",
        f"The choice of a kernel and the best there is, {', '.join(sorted({row['dtype'] for row in rows}))}, "
        f"{machine(head)}",
        caption_of({source.name: head}, notes),
        (
            DistributionPanel("Time of the default choice over the best kernel's", "default / best", regret),
            DistributionPanel("Time of the default choice over the tuned one's", "default / tuned", gain),
        ),
        ((0, 1),),
        (3.0,),
    )
