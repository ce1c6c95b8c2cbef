"""Markdown of the measured parts of the pages (report/pages.py): lines, from the folder of the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.common.commit import ROOT
from benchmarks.common.target import Target
from benchmarks.common.times import Key


def table(head: list[str], rows: list[list[str]], figures_from: int) -> list[str]:
    """Markdown, the columns from `figures_from` on flush right."""
    rule = ["---" if column < figures_from else "---:" for column in range(len(head))]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)]


def source_line(path: Path, head: dict[str, str]) -> str:
    """The sentence that makes a table reproducible."""
    return (
        f"{head['gpu']}, driver {head['driver']}, torch {head['torch']}, {head['date'].split()[0]}, "
        f"commit `{head['commit'][:12]}`, `{head['command']}`: [{path.name}]({link(path)})."
    )


def link(path: Path) -> str:
    """The path from the top of the tree; `filled` of report/pages.py makes it one from the page's folder."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def not_met(targets: Iterable[Target]) -> list[str]:
    """The targets that the figures miss, as a list with a sentence before it."""
    missed = [f"- {target.what}, {target.asked}: {target.figure}" for target in targets if target.holds is False]
    if not missed:
        return []
    return [
        "What these figures fall short of (`python -m benchmarks.report.targets` has every target):",
        "",
        *missed,
        "",
    ]


def rates(key: Key, by: Mapping[str, float], providers: Iterable[str], digits: int = 0) -> list[str]:
    """TFLOP/s of each provider; empty where it was not measured."""
    return [f"{key.tflops(by[who]):.{digits}f}" if who in by else "" for who in providers]


def ratio(by: Mapping[str, float], over: str, under: str = "tileon") -> str:
    """A provider's time over another's; empty unless both were measured."""
    return f"{by[over] / by[under]:.2f}" if {over, under} <= by.keys() else ""
