"""Whole models and their linear layers alone: the table of models.csv."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from benchmarks.common.markdown import page_part, table
from benchmarks.common.result_file import of_file, read_csv

SOURCE = "models.csv"


def _against(by: dict[str, dict[str, str]]) -> str:
    ours, theirs = (float(by[provider]["ms"]) for provider in ("tileon", "torch_bf16"))
    return f"{ours:.2f} / {theirs:.2f} ({theirs / ours:.2f})"


@of_file(SOURCE)
def lines(source: Path) -> list[str]:
    """A row for each format and what is quantized, a column for each phase."""
    found: dict[tuple[str, str], dict[str, dict[str, dict[str, str]]]] = defaultdict(lambda: defaultdict(dict))
    for row in read_csv(source)[1]:
        found[row["format"], row["weight_only"]][row["phase"]][row["provider"]] = row
    phases = list(dict.fromkeys(phase for by in found.values() for phase in by))
    rows = []
    for (format, weight_only), by in found.items():
        sizes = next(iter(by.values()))
        share = int(sizes["tileon"]["bytes"]) / int(sizes["torch_bf16"]["bytes"])
        what = "weights" if weight_only == "True" else "both"
        rows.append([format, what, f"{share:.0%}", *(_against(by[phase]) if phase in by else "" for phase in phases)])
    return table("", ["format", "quantized", "bytes", *(phase.replace("_", " ") for phase in phases)], rows, 2)


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    head, rows = read_csv(source)
    words = (
        f"Milliseconds of tileon's {rows[0]['model']} / of the same in bfloat16 (the second over the first); bytes of "
        f"the whole model, of bfloat16's. {head['timing']}:"
    )
    return page_part(source, [words, "", *lines(source.parent)])
