"""What the tests of the pictures share: the committed results, and made-up ones."""

from __future__ import annotations

import csv
import pathlib
import shutil
from typing import Any

from benchmark_files import COLUMNS, HEAD, ROOT, csv_line

RESULTS = ROOT / "benchmarks" / "results" / "h200"
NAMES = ("overview", "roofline", "block_scaled")  # those whose axes all have legends
SQUARES = {256: 0.5, 1024: 1.25, 4096: 2.0}  # torch's time over ours, of the made-up file
OURS_US = 10.0


def picture(name: str, results: pathlib.Path = RESULTS) -> Any:
    from benchmarks.report.pictures import MAKERS

    return next(maker for maker in MAKERS if maker.name == name).make(results)


def rows_of(name: str) -> list[dict[str, str]]:
    lines = [line for line in (RESULTS / name).read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def write_matmul(folder: pathlib.Path, gpu: str = "NVIDIA H200") -> pathlib.Path:
    """Squares of float16 NN, where torch takes what SQUARES says."""
    lines = [
        csv_line("matmul", "float16", "NN", (size, size, size), "none", provider, time)
        for size, ratio in SQUARES.items()
        for provider, time in (("tileon", OURS_US), ("torch", OURS_US * ratio))
    ]
    path = folder / "matmul.csv"
    path.write_text(HEAD.replace("a GPU", gpu) + "\n".join([",".join(COLUMNS), *lines]) + "\n")
    return path


def write_tune_regret(folder: pathlib.Path) -> pathlib.Path:
    """Two linear layers and a rectangle."""
    columns = "set,dtype,layout,m,n,k,default,default_us,best,best_us,regret,tuned,again_us,tuned_us"
    lines = [
        "linear,bfloat16,NT,1,8,8,x,10.0,x,10.0,0.0,y,20.0,10.0",
        "linear,bfloat16,NT,2,8,8,x,10.0,y,8.0,0.25,y,10.0,20.0",
        "random,bfloat16,NN,3,8,8,x,10.0,x,10.0,0.0,default,10.0,10.0",
    ]
    path = folder / "tune_regret.csv"
    path.write_text(HEAD + "\n".join([columns, *lines]) + "\n")
    return path


def copy_results(folder: pathlib.Path, *names: str) -> None:
    """Result files, and pictures if they are named."""
    for name in names:
        shutil.copy(RESULTS / name, folder)
