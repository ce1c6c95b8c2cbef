"""What a picture shows, as plain data: panels of series, a title, a caption. Neither matplotlib nor torch is needed.

A picture is made of result files by a function, drawn by report/drawing.py, and known by its content key: a hash of
everything that is drawn. The key is stored in the PNG, so that a picture that no longer shows what its files say can be
told without drawing it again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.times import geometric_mean

RATIO = "peer's time / tileon's"  # what an axis of ratios shows
Head = Mapping[str, str]


@dataclass(frozen=True)
class Series:
    """Points of one kind. `style` is a place in drawing.py's colours and markers; a series without a label is not in
    the legend."""

    label: str
    style: int
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    line: str = "-"  # as matplotlib names it
    hollow: bool = False


@dataclass(frozen=True)
class LinePanel:
    """Series over a size, on a logarithmic axis. Of ratios the other axis is logarithmic too, with a line at 1."""

    title: str
    x_label: str
    series: tuple[Series, ...]
    y_label: str = RATIO


@dataclass(frozen=True)
class DotRow:
    """The ratios of a kind of work on one line; `heading` stands above it where it begins a part."""

    label: str
    peer: str
    values: tuple[float, ...]
    heading: str = ""


@dataclass(frozen=True)
class DotPanel:
    """Rows of ratios, wins to the right of the line at 1 and losses to its left; a row's mean, range and count stand
    at its end."""

    rows: tuple[DotRow, ...]


@dataclass(frozen=True)
class Picture:
    """`rows` of panels, one above the other."""

    name: str
    title: str
    caption: tuple[str, ...]
    rows: tuple[tuple[LinePanel | DotPanel, ...], ...]

    @property
    def key(self) -> str:
        """Quotients of two times are the same on every machine, to the last bit, and so is what is written of them."""
        return hashlib.sha256(repr(self).encode()).hexdigest()

    def is_shown_by(self, png: Path) -> bool:
        """Whether the file is there and holds the key."""
        return png.exists() and self.key.encode() in png.read_bytes()


def with_mean(label: str, values: Iterable[float]) -> str:
    """A legend's words for a series of ratios."""
    return f"{label}: mean {geometric_mean(values):.2f}"


def machines(heads: Iterable[Head]) -> str:
    """The GPU's name, or that of the CPU where there is none."""
    gpus = ((head, head.get("gpu", "none")) for head in heads)
    return ", ".join(sorted({gpu if gpu != "none" else head.get("cpu", "CPU") for head, gpu in gpus}))


def caption_of(heads: Mapping[str, Head], notes: Sequence[str] = ()) -> tuple[str, ...]:
    """The notes, and where the figures are from: one line of what the files share, one for each commit. Heads are by
    file name."""
    shared = [machines(heads.values())]
    for field in ("driver", "torch", "triton"):
        words = {head.get(field, "none") for head in heads.values()} - {"none"}
        shared += [f"{field} {', '.join(sorted(words))}"] if words else []
    by_commit: dict[str, list[str]] = {}
    for name, head in heads.items():
        commit = f"commit {head.get('commit', '')[:12]}, {head.get('date', '').split(' ')[0]}."
        by_commit.setdefault(commit, []).append(name)
    return (*notes, f"{', '.join(shared)}.", *(f"{', '.join(names)}: {commit}" for commit, names in by_commit.items()))
