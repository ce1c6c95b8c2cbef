"""What the choice of a row loses and what tuning wins back, from tune_regret.csv. See result_tables.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.common.times import geometric_mean
from benchmarks.report.markdown import not_met, source_line, table
from benchmarks.subjects.bars_tune import SETS, WORST_REGRET, tune_bars


def _figures(rows: list[dict[str, str]]) -> list[str]:
    """Mean and worst of what the choice loses, how many lose much, and the mean of what tuning wins."""
    regrets = [float(row["default_us"]) / float(row["best_us"]) - 1 for row in rows]
    worst, where = max(zip(regrets, rows, strict=True), key=lambda item: item[0])
    won = geometric_mean(float(row["again_us"]) / float(row["tuned_us"]) for row in rows) - 1
    mean = geometric_mean(1 + regret for regret in regrets) - 1
    case = f"{where['layout']} {where['m']}x{where['n']}x{where['k']}"
    over = sum(regret > WORST_REGRET for regret in regrets)
    return [str(len(rows)), f"{mean:.2%}", f"{worst:.1%} ({case})", str(over), f"{won:.2%}"]


def tune_part(results: Path) -> list[str]:
    """Everything, or nothing while there is no tune_regret.csv."""
    source = results / "tune_regret.csv"
    if not source.exists():
        return []
    head, rows = read_csv(source)
    of_set = {what: [row for row in rows if row["set"] == name] for name, what in SETS.items()}
    lines = [[what, *_figures(mine)] for what, mine in of_set.items() if mine]
    columns = ["products", "cases", "lost in mean", "at worst", f"over {WORST_REGRET:.0%}", "won by tuning, in mean"]
    return [
        f"The choice's time over that of the best row, and the choice's over that as tuned ({head.get('timing', '')}):",
        "",
        *table(columns, lines, 1),
        "",
        *not_met(tune_bars(results)),
        source_line(source, head),
    ]
