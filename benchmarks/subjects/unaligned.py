"""Unaligned operands and outputs against torch: comparisons and table of awkward.csv and awkward_outputs.csv."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.common.cases import Case
from benchmarks.common.markdown import microseconds, page_part, ratio, table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.times import By, Comparison, by_provider, quotients

SOURCE, OUTPUTS = "awkward.csv", "awkward_outputs.csv"
_VOCABULARY = "n50257"
_WORDS = {
    _VOCABULARY: "the last layer of GPT-2",
    "n588_out": "588 columns",
    "odd_size": "all sizes odd, operands copied",
}


def _gpu_times(source: Path) -> dict[tuple[str, Case], By]:
    """By case and product, the GPU's time alone: what the host costs is in host.csv."""
    rows = [row for row in read_csv(source)[1] if row["mode"] == "graph"]
    found = by_provider(rows, "case", "dtype", "m", "n", "k")
    return {
        (case, Case(dtype, "NN" if case == "odd_size" else "NT", int(m), int(n), int(k))): by
        for (case, dtype, m, n, k), by in found.items()
    }


def _compared(source: Path, words: str, which: Callable[[str], bool], *, alone: bool = True) -> list[Comparison]:
    """torch's time over ours, of these cases; nothing where none was measured."""
    ratios = quotients(_gpu_times(source)).items()
    return Comparison.of(words, [(key, ratio) for (case, key), ratio in ratios if which(case)], alone=alone)


@of_file(SOURCE)
def operand_comparisons(source: Path) -> list[Comparison]:
    """Of the overview; without the cases that have a file of their own, where that is there."""
    outputs = source.with_name(OUTPUTS)
    elsewhere = {row["case"] for row in read_csv(outputs)[1]} if outputs.exists() else set()
    return _compared(source, "bfloat16, unaligned or strided operands", lambda case: case not in elsewhere)


@of_file(OUTPUTS)
def comparisons(source: Path) -> list[Comparison]:
    """The last layer of GPT-2, and of the overview alone the file's other cases."""
    words = "bfloat16 layer of 50257 columns, NT, GPU time", "bfloat16, 588 columns or odd sizes, GPU time"
    found = _compared(source, words[0], lambda case: case == _VOCABULARY, alone=False)
    return found + _compared(source, words[1], lambda case: case != _VOCABULARY)


@of_file(OUTPUTS)
def part(source: Path) -> list[str]:
    """Outputs whose rows begin anywhere."""
    rows = [
        [_WORDS[case], key.short, *microseconds(by, ("tileon", "torch")), ratio(by, "torch")]
        for (case, key), by in _gpu_times(source).items()
    ]
    columns = ["product", "m x n x k", "tileon", "torch", "torch / tileon"]
    return page_part(source, table("Microseconds of the GPU, bfloat16:", columns, rows, 2))
