"""Markdown of the measured parts of the pages (report/pages.py): lines, from the folder of the results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.common.cases import Case
from benchmarks.common.commit import ROOT
from benchmarks.common.result_file import read_csv
from benchmarks.common.target import Target
from benchmarks.common.times import By


def table(words: str, head: Sequence[str], rows: Sequence[Sequence[str]], figures_from: int = 1) -> list[str]:
    """A sentence, which may be empty, a table, and an empty line; nothing without rows. From the column `figures_from`
    on it is flush right; rows that have nothing there are left out."""
    rows = [row for row in rows if any(row[figures_from:])]
    if not rows:
        return []
    rule = ["---" if column < figures_from else "---:" for column in range(len(head))]
    return [*([words, ""] if words else []), *(f"| {' | '.join(row)} |" for row in (head, rule, *rows)), ""]


def page_part(source: Path, lines: Iterable[str], targets: Iterable[Target] = ()) -> list[str]:
    """A page's part: its lines, the targets that its figures miss, and the sentence that makes it reproducible."""
    head, found = read_csv(source)[0], [*lines]
    missed = [f"- {target.what}, {target.asked}: {target.figure}" for target in targets if target.holds is False]
    if missed:
        words = "What these figures fall short of (`python -m benchmarks.report.targets` has every target):"
        found += [words, "", *missed, ""]
    machine = f"{head['gpu']}, driver {head['driver']}, torch {head['torch']}, {head['date'].split()[0]}"
    measured = f"{machine}, commit `{head['commit'][:12]}`, `{head['command']}`"
    if "older rows" in head:  # whose commits the head names, where a file has been measured anew in part
        older = re.sub(r"\b([0-9a-f]{12})[0-9a-f]{28}\b", r"`\1`", head["older rows"])
        measured += f"; older rows: {older}"
    return [*found, f"{measured}: [{source.name}]({link(source)})."]


def link(path: Path) -> str:
    """The path from the top of the tree; `filled` of report/pages.py makes it one from the page's folder."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def rates(times: Mapping[Case, By], key: Case, providers: Iterable[str], digits: int = 0) -> list[str]:
    """TFLOP/s of each provider in a case; empty where it was not measured."""
    by = times.get(key, {})
    return [f"{key.tflops(by[who]):.{digits}f}" if who in by else "" for who in providers]


def microseconds(by: By, providers: Iterable[str], digits: int = 1) -> list[str]:
    """Microseconds of each provider; empty where it was not measured."""
    return [f"{by[who]:.{digits}f}" if who in by else "" for who in providers]


def ratio(by: By, over: str, under: str = "tileon") -> str:
    """A provider's time over another's; empty unless both were measured."""
    return f"{by[over] / by[under]:.2f}" if {over, under} <= by.keys() else ""
