"""Linear layers of every format: the table of layers.csv."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean

from benchmarks.common.markdown import page_part, table
from benchmarks.common.result_file import of_file, read_csv

SOURCE = "layers.csv"
_ROWS = ((1, 32), (33, 128), (129, 384), (385, 1024), (1025, 8192))  # of the input, from and to
_LARGE = 4096  # n and k from which a weight is a large one


def _said(quotients: list[float]) -> str:
    return f"{geometric_mean(quotients):.2f} ({min(quotients):.2f})" if quotients else ""


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """Geometric means and worst cases by format, by what is quantized, and by rows."""
    times: dict[tuple[str, str], dict[tuple[int, int, int], dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in read_csv(source)[1]:
        shape = int(row["m"]), int(row["n"]), int(row["k"])
        times[row["format"], row["weight_only"]][shape][row["provider"]] = float(row["median_us"])
    lines = []
    for (format, weight_only), by_shape in times.items():
        for is_large in (True, False):
            mine = {shape: by for shape, by in by_shape.items() if (min(shape[1:]) >= _LARGE) == is_large}
            if not mine:
                continue
            said = [
                _said([by["torch_bf16"] / by["tileon"] for (m, _, _), by in mine.items() if first <= m <= last])
                for first, last in _ROWS
            ]
            weights = ", ".join(dict.fromkeys(f"{n} x {k}" for _, n, k in mine))
            what = "weights" if weight_only == "True" else "both"
            lines.append([format, what, weights, *said])
    words = (
        "Time of torch.nn.Linear in bfloat16 over the converted layer's, by rows of the input: geometric mean, in "
        "parentheses the worst case. What quantizing the input takes is counted:"
    )
    columns = ["format", "quantized", "weights, n x k", *(f"{first} to {last} rows" for first, last in _ROWS)]
    return page_part(source, table(words, columns, lines, 3))
