"""What batch invariance costs on a GPU: the target and the table of batch_invariant.csv."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean

from benchmarks.common.markdown import page_part, table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Target

SOURCE = "batch_invariant.csv"
_MOST = 1.05  # in the mean of a dtype


def _ratios(rows: list[dict[str, str]]) -> dict[str, dict[int, list[float]]]:
    """Of the times with the setting over those without, by dtype and number of rows."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["dtype"]][int(row["m"])].append(float(row["invariant_us"]) / float(row["free_us"]))
    return found


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    found = []
    for dtype, by_rows in _ratios(read_csv(source)[1]).items():
        ratios = [ratio for of_rows in by_rows.values() for ratio in of_rows]
        mean, worst = geometric_mean(ratios), max(ratios)
        figure = f"{mean:.3f}, worst {worst:.3f}"
        found.append(Target(f"batch invariant over free, {dtype}", f"mean <= {_MOST:.2f}", figure, mean <= _MOST))
    return found


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """A row for each dtype, a column for each number of rows."""
    head, rows = read_csv(source)
    found = _ratios(rows)
    columns = sorted({m for by_rows in found.values() for m in by_rows})
    lines = [
        [dtype, *(f"{geometric_mean(by_rows[m]):.2f} ({max(by_rows[m]):.2f})" if m in by_rows else "" for m in columns)]
        for dtype, by_rows in found.items()
    ]
    weights = len({(row["n"], row["k"]) for row in rows})
    words = (
        f"Time of a batch-invariant linear layer over that of one which is not, in the mean of {weights} weights (at "
        f"worst), by rows of the input, {head['timing']}:"
    )
    return page_part(source, table(words, ["operands", *map(str, columns)], lines, 1))
