"""What the tests of the pictures share: the committed results, and made-up ones."""

from __future__ import annotations

import csv
import pathlib
import shutil
from typing import Any

from benchmark_files import COLUMNS, HEAD, ROOT, csv_line

from benchmarks.report.pictures import MAKERS

RESULTS = ROOT / "benchmarks" / "results" / "h200"
NAMES = ("overview", "block_scaled")
SQUARES = {256: 0.5, 1024: 1.25, 4096: 2.0}  # torch's time over ours, of the made-up file
OURS_US = 10.0


def picture(name: str, results: pathlib.Path = RESULTS) -> Any:
    _, make = MAKERS[name]
    return make(results)


def panels(name: str, results: pathlib.Path = RESULTS) -> list[Any]:
    return [panel for row in picture(name, results).rows for panel in row]


def rows_of(name: str) -> list[dict[str, str]]:
    lines = [line for line in (RESULTS / name).read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def write_matmul(folder: pathlib.Path) -> pathlib.Path:
    """Squares of float16 NN, where torch takes what SQUARES says."""
    lines = [
        csv_line("matmul", "float16", "NN", (size, size, size), "none", provider, time)
        for size, ratio in SQUARES.items()
        for provider, time in (("tileon", OURS_US), ("torch", OURS_US * ratio))
    ]
    path = folder / "matmul.csv"
    path.write_text(HEAD + "\n".join([",".join(COLUMNS), *lines]) + "\n")
    return path


def copy_results(folder: pathlib.Path, *names: str) -> None:
    """Result files, and pictures if they are named."""
    for name in names:
        shutil.copy(RESULTS / name, folder)
