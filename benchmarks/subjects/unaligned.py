"""Unaligned operands and outputs against torch: comparisons and table of awkward.csv and awkward_outputs.csv."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.markdown import ratio, source_line, table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.times import Comparison, Key, Ratios, by_provider

SOURCE, OUTPUTS = "awkward.csv", "awkward_outputs.csv"
_VOCABULARY = "n50257"
_WORDS = {
    _VOCABULARY: "the last layer of GPT-2",
    "n588_out": "588 columns",
    "odd_size": "all sizes odd, operands copied",
}

Found = dict[tuple[str, Key], dict[str, float]]  # case, product: microseconds by provider


def _gpu_times(source: Path) -> Found:
    """The GPU's time alone: what the host costs is in host.csv."""
    rows = [row for row in read_csv(source)[1] if row["mode"] == "graph"]
    found = by_provider(rows, "case", "dtype", "m", "n", "k")
    return {
        (case, Key(dtype, "NN" if case == "odd_size" else "NT", int(m), int(n), int(k), "none")): by
        for (case, dtype, m, n, k), by in found.items()
    }


def _comparison(words: str, found: Found) -> list[Comparison]:
    """torch's time over ours; nothing where none was measured."""
    by_case = {key: by["torch"] / by["tileon"] for (_, key), by in found.items() if {"torch", "tileon"} <= by.keys()}
    return [Comparison(words, "torch", Ratios(by_case))] if by_case else []


@of_file(OUTPUTS)
def vocabulary_comparison(source: Path) -> list[Comparison]:
    """The last layer of GPT-2: of README's table and the overview."""
    found = {case: by for case, by in _gpu_times(source).items() if case[0] == _VOCABULARY}
    return _comparison("bfloat16 layer of 50257 columns, NT, GPU time", found)


@of_file(OUTPUTS)
def other_outputs_comparison(source: Path) -> list[Comparison]:
    """The file's other cases, of the overview."""
    found = {case: by for case, by in _gpu_times(source).items() if case[0] != _VOCABULARY}
    return _comparison("bfloat16, 588 columns or odd sizes, GPU time", found)


@of_file(SOURCE)
def operand_ratios(source: Path) -> list[float]:
    """torch's time over ours; without the cases that have a file of their own, where that is there."""
    outputs = source.with_name(OUTPUTS)
    elsewhere = {row["case"] for row in read_csv(outputs)[1]} if outputs.exists() else set()
    found = [by for (case, _), by in _gpu_times(source).items() if case not in elsewhere]
    return [by["torch"] / by["tileon"] for by in found if {"torch", "tileon"} <= by.keys()]


@of_file(OUTPUTS)
def part(source: Path) -> list[str]:
    """Outputs whose rows begin anywhere."""
    lines = [
        [_WORDS[case], key.shape, f"{by['tileon']:.1f}", f"{by['torch']:.1f}", ratio(by, "torch")]
        for (case, key), by in _gpu_times(source).items()
    ]
    return [
        "Microseconds of the GPU, bfloat16:",
        "",
        *table(["product", "m x n x k", "tileon", "torch", "torch / tileon"], lines, 2),
        "",
        source_line(source, read_csv(source)[0]),
    ]
