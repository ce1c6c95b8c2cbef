"""Markdown of the measured parts. See result_tables.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.commit import ROOT
from benchmarks.report.target import Bar


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
    """The path from the top of the tree; `filled` of result_tables.py makes it one from the page's folder."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def not_met(bars: list[Bar]) -> list[str]:
    """The marks of bars.py that the figures miss, as a list with a sentence before it."""
    missed = [f"- {bar.what}, {bar.asked}: {bar.figure}" for bar in bars if bar.holds is False]
    if not missed:
        return []
    return ["What these figures fall short of (`python benchmarks/bars.py` has every mark):", "", *missed, ""]
