"""Outputs whose rows begin anywhere, from awkward_outputs.csv. See result_tables.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.common.times import Key, Ratios
from benchmarks.report.markdown import source_line, table
from benchmarks.subjects.comparisons import Comparison

SOURCE = "awkward_outputs.csv"
_VOCABULARY = "n50257"
_WORDS = {
    _VOCABULARY: "the last layer of GPT-2",
    "n588_out": "588 columns",
    "odd_size": "all sizes odd, operands copied",
}


def _microseconds(results: Path) -> dict[tuple[str, Key], dict[str, float]]:
    """Of the GPU alone, by case and provider."""
    found: dict[tuple[str, Key], dict[str, float]] = {}
    for row in read_csv(results / SOURCE)[1]:
        if row["mode"] == "graph":
            layout = "NN" if row["case"] == "odd_size" else "NT"
            key = Key(row["dtype"], layout, int(row["m"]), int(row["n"]), int(row["k"]), "none")
            found.setdefault((row["case"], key), {})[row["provider"]] = float(row["median_us"])
    return found


def _ratios(results: Path, wanted: Callable[[str], bool]) -> Ratios | None:
    by_case = {
        key: by["torch"] / by["tileon"]
        for (case, key), by in _microseconds(results).items()
        if wanted(case) and {"torch", "tileon"} <= by.keys()
    }
    return Ratios(by_case) if by_case else None


def vocabulary_comparison(results: Path) -> list[Comparison]:
    """torch's time over ours for the last layer of GPT-2; nothing where none was measured."""
    found = _ratios(results, lambda case: case == _VOCABULARY)
    return [Comparison("bfloat16 layer of 50257 columns, NT, GPU time", "torch", found)] if found else []


def other_outputs_comparison(results: Path) -> list[Comparison]:
    """The same of the file's other cases."""
    found = _ratios(results, lambda case: case != _VOCABULARY)
    return [Comparison("bfloat16, 588 columns or odd sizes, GPU time", "torch", found)] if found else []


def awkward_outputs_part(results: Path) -> list[str]:
    """Everything, or nothing while there is no awkward_outputs.csv."""
    if not (results / SOURCE).exists():
        return []
    lines = [
        [_WORDS[case], key.shape, f"{by['tileon']:.1f}", f"{by['torch']:.1f}", f"{by['torch'] / by['tileon']:.2f}"]
        for (case, key), by in _microseconds(results).items()
    ]
    head = read_csv(results / SOURCE)[0]
    return [
        "Microseconds of the GPU, bfloat16:",
        "",
        *table(["product", "m x n x k", "tileon", "torch", "torch / tileon"], lines, 2),
        "",
        source_line(results / SOURCE, head),
    ]
