"""Products with scales that are not two block-scaled operands: the table of scaled_operands.csv."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import geometric_mean

from benchmarks.common.markdown import page_part, table
from benchmarks.common.result_file import of_file, read_csv

SOURCE = "scaled_operands.csv"
_ROWS = ((1, 16), (17, 64), (65, 128), (129, 512), (513, 8192))  # of a, from and to
# A column's figures are the second provider's time over the first one's.
_COMPARED = (
    ("tileon", "torch_bf16"),
    ("tileon_fast", "torch_bf16"),
    ("tileon", "torch"),
    ("tileon_fast", "torch_fast"),
)


def _said(quotients: list[float]) -> str:
    return f"{geometric_mean(quotients):.2f} ({min(quotients):.2f})" if quotients else ""


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """Geometric means and worst cases by dtype and by rows of a."""
    times: dict[str, dict[tuple[int, str, str], dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in read_csv(source)[1]:
        times[row["dtype"]][int(row["m"]), row["n"], row["k"]][row["provider"]] = float(row["median_us"])

    def quotients(cases: Iterable[dict[str, float]], ours: str, theirs: str) -> list[float]:
        return [by[theirs] / by[ours] for by in cases if {ours, theirs} <= by.keys()]

    lines = [
        [f"`{dtype}`", f"{first} to {last}", *(_said(quotients(mine, *pair)) for pair in _COMPARED)]
        for dtype, by_shape in times.items()
        for first, last in _ROWS
        if (mine := [by for (m, _, _), by in by_shape.items() if first <= m <= last])
    ]
    words = (
        "Time of torch over tileon's, geometric mean over (n, k) and rows, in parentheses the worst case. torch "
        "multiplies 16-bit operands (`bf16`), or by the same scales (`scaled`: scaled_mm, _int_mm); `fast` is "
        "`fast_accum`, which lets mxfp8 and mixed be folded:"
    )
    columns = ["operands", "rows of a", "bf16", "bf16, fast", "scaled", "scaled, both fast"]
    return page_part(source, table(words, columns, lines, 2))
