"""What a picture shows, as plain data: panels of series, a title, a caption. Neither matplotlib nor torch is needed.

A picture is made of result files by a function, drawn by report/drawing.py, and known by its content key: a hash of
everything that is drawn. The key is stored in the PNG, so that a picture that no longer shows what its files say can be
told without drawing it again.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.times import geometric_mean

KEY_NAME = "tileon-content"  # of the text in the PNG that holds the key
RATIO = "peer's time / tileon's"  # what an axis of ratios shows
_DIGITS = 6  # of a number in the key: a logarithm's last bits may differ between machines


@dataclass(frozen=True)
class Series:
    """Points of one kind. `style` is a name in drawing.py's table of colours and markers; a series without a label is
    not in the legend."""

    label: str
    style: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    line: str = "-"  # as matplotlib names it
    hollow: bool = False


@dataclass(frozen=True)
class LinePanel:
    """Series over a size, on a logarithmic axis. With `ratios` the other axis is logarithmic too, with a line at 1."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_ticks: tuple[int, ...]
    ratios: bool = True


@dataclass(frozen=True)
class DotRow:
    """The ratios of a kind of work on one line; `heading` stands above it where it begins a part."""

    label: str
    style: str
    values: tuple[float, ...]
    heading: str = ""


@dataclass(frozen=True)
class DotPanel:
    """Rows of ratios, wins to the right of the line at 1 and losses to its left; a row's mean, range and count stand
    at its end."""

    x_label: str
    rows: tuple[DotRow, ...]
    legend: tuple[tuple[str, str], ...]  # style, words


@dataclass(frozen=True)
class Picture:
    """`rows` of panels, one above the other; `heights` are theirs, in inches."""

    name: str
    title: str
    caption: tuple[str, ...]
    rows: tuple[tuple[LinePanel | DotPanel, ...], ...]
    heights: tuple[float, ...]

    @property
    def key(self) -> str:
        return hashlib.sha256(json.dumps(_rounded(asdict(self)), sort_keys=True).encode()).hexdigest()


def _rounded(value: Any) -> Any:
    """The same with every number as text."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return f"{value:.{_DIGITS}g}" if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def stored_key(png: Path) -> str | None:
    """The content key in a PNG; None where the file has none or is no PNG."""
    data = png.read_bytes()
    at = 8  # behind the signature; then chunks of length, type, body, checksum
    while at + 12 <= len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        name, _, text = data[at + 8 : at + 8 + length].partition(b"\0")
        if kind == b"tEXt" and name.decode("latin-1") == KEY_NAME:
            return text.decode("latin-1")
        at += 12 + length
    return None


def with_mean(label: str, values: Iterable[float]) -> str:
    """A legend's words for a series of ratios."""
    return f"{label}: mean {geometric_mean(values):.2f}"


def powers_of_two(values: Iterable[float]) -> tuple[int, ...]:
    """Ticks from the first to the last value."""
    found = list(values)
    return tuple(2**power for power in range(math.ceil(math.log2(min(found))), math.floor(math.log2(max(found))) + 1))


Head = Mapping[str, str]


def machine(head: Head) -> str:
    """The GPU's name, or that of the CPU where there is none."""
    gpu = head.get("gpu", "none")
    return gpu if gpu != "none" else head.get("cpu", "CPU")


def caption_of(heads: Mapping[str, Head], notes: Sequence[str] = ()) -> tuple[str, ...]:
    """Where the figures are from: the notes, one line of what the files share, one for each commit.

    Args:
        heads: by file name, of the files that the picture was made of.
        notes: what else a reader must know.
    """
    shared = []
    for field in ("driver", "torch", "triton"):
        words = sorted({head[field] for head in heads.values() if head.get(field, "none") != "none"})
        if words:
            shared.append(f"{field} {', '.join(words)}")
    machines = sorted({machine(head) for head in heads.values()})
    by_commit: dict[tuple[str, str], list[str]] = {}
    for name, head in heads.items():
        by_commit.setdefault((head.get("commit", "")[:12], head.get("date", "").split(" ")[0]), []).append(name)
    lines = [", ".join([*machines, *shared]) + "."]
    lines += [f"{', '.join(names)}: commit {commit}, {date}." for (commit, date), names in by_commit.items()]
    if len(heads) == 1:
        (head,) = heads.values()
        lines[-1] += f" {head.get('command', '')}"
    return (*notes, *lines)
