"""What the benchmarks' tests share: running a script on the CPU, and reading and making up result files."""

from __future__ import annotations

import csv
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCHMARKS = ROOT / "benchmarks"
COLUMNS = ["op", "dtype", "layout", "m", "n", "k", "epilogue", "provider", "median_us", "tflops"]
HEAD_KEYS = {"date", "commit", "gpu", "driver", "torch", "cuda", "command"}

# Of a made-up result file.
HEAD = """# date: 2026-01-01 00:00 UTC
# commit: 0123456789abcdef
# gpu: a GPU
# driver: 1.2
# torch: 2.11
# command: python benchmarks/matmul.py --preset hopper
# timing: made up
"""


def run(*arguments: str, script: str = "matmul.py") -> subprocess.CompletedProcess[str]:
    """A command at the top of benchmarks/ by its path, one in a folder of it as a module."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    module = ["-m", f"benchmarks.{script.removesuffix('.py').replace('/', '.')}"]
    name = module if "/" in script else [str(BENCHMARKS / script)]
    return subprocess.run(
        [sys.executable, *name, *arguments], capture_output=True, text=True, timeout=300, cwd=ROOT, env=environment
    )


def read(path: pathlib.Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The head as a dict and the rows of a result file."""
    lines = path.read_text().splitlines()
    head = [line for line in lines if line.startswith("#")]
    assert lines[: len(head)] == head, "`# key: value` lines stand first"
    pairs = (line.removeprefix("# ").split(": ", 1) for line in head)
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}, list(csv.DictReader(lines[len(head) :]))


def csv_line(
    op: str, dtype: str, layout: str, shape: tuple[int, int, int], epilogue: str, provider: str, time_us: float
) -> str:
    """A row of matmul.py or block_scaled_matmul.py."""
    m, n, k = shape
    figures = f"{time_us:.3f},{2 * m * n * k / time_us * 1e-6:.4g}"
    return f"{op},{dtype},{layout},{m},{n},{k},{epilogue},{provider},{figures}"
