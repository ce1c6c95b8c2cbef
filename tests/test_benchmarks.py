"""Smoke: the benchmark's command line runs on the CPU and writes the promised format."""

from __future__ import annotations

import csv
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ["op", "dtype", "layout", "m", "n", "k", "epilogue", "provider", "median_us", "tflops"]
HEAD_KEYS = {"date", "commit", "gpu", "driver", "torch", "cuda", "command"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(ROOT / "benchmarks" / "matmul.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, env=environment)


def read(path: pathlib.Path) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The head as a dict and the rows of a result file."""
    lines = path.read_text().splitlines()
    head = [line for line in lines if line.startswith("#")]
    assert lines[: len(head)] == head, "`# key: value` lines stand first"
    pairs = (line.removeprefix("# ").split(": ", 1) for line in head)
    return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs}, list(csv.DictReader(lines[len(head) :]))


def test_writes_the_promised_csv(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.csv"
    result = run(
        "--sizes", "16,32", "--dtype", "float32", "--layout", "NN,TT", "--activation", "none,bias+leaky_relu",
        "--providers", "tileon,torch", "--seconds", "0.01", "--csv", str(path),
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    head, rows = read(path)
    assert head.keys() >= HEAD_KEYS
    assert list(rows[0]) == COLUMNS
    assert len(rows) == 2 * 2 * 2 * 2
    for row in rows:
        assert row["op"] == "matmul"
        assert row["dtype"] == "float32"
        assert row["layout"] in ("NN", "TT")
        assert row["m"] == row["n"] == row["k"]
        assert row["m"] in ("16", "32")
        assert row["epilogue"] in ("none", "bias+leaky_relu")
        assert row["provider"] in ("tileon", "torch")
        microseconds, size = float(row["median_us"]), int(row["m"])
        assert microseconds > 0
        assert float(row["tflops"]) == pytest.approx(2 * size**3 / microseconds / 1e6, rel=0.02)


def test_the_head_names_no_folder_of_this_machine(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.csv"
    assert run("--sizes", "16", "--seconds", "0.01", "--csv", str(path)).returncode == 0
    head, _ = read(path)
    assert str(tmp_path) not in str(head)
    assert str(ROOT) not in str(head)


@pytest.mark.parametrize("arguments", [("--sizes", "8", "--dtype", "int3"), ("--no-such-option",)], ids=str)
def test_nonsense_is_refused(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).returncode != 0


def test_help_names_the_fixed_options() -> None:
    text = run("--help").stdout
    for option in ("--sizes", "--dtype", "--layout", "--activation", "--csv", "--plot"):
        assert option in text
