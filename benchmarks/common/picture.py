"""Pictures: what one shows, as plain data, panels of series with a title and a caption, and how it is drawn.

A picture is known by its content key, a hash of everything that is drawn, which its PNG holds. Only the drawing needs
matplotlib; the same content and the same matplotlib give the same file.
"""

from __future__ import annotations

import hashlib
import io
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from benchmarks.common.times import Times

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RATIO = "peer's time / tileon's"  # what an axis of ratios shows
Head = Mapping[str, str]


@dataclass(frozen=True)
class Series:
    """Points of one kind. `style` is a place in the colours and markers; a series without a label is not in
    the legend."""

    label: str
    style: int
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    dashed: bool = False  # and its markers hollow


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


def ratio_series(
    times: Times, label: str, style: int, along: str, ours: str, peer: str, *, dashed: bool = False
) -> list[Series]:
    """A peer's time over ours, over m or k; nothing where no case has both. The label may have a `{mean}`."""
    found = times.ratios(lambda _: True, peer, ours)
    if found is None:
        return []
    xs, ys = zip(*sorted((float(getattr(key, along)), ratio) for key, ratio in found.by_case.items()), strict=True)
    return [Series(label.format(mean=f"mean {found.mean:.2f}"), style, xs, ys, dashed)]


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


# Drawing.

WIDTH = 10.0  # inches: at the width of a README 9 points are still 9 pixels or more
DPI = 130
_CAPTION_LETTERS = 180  # of a line at 7 points
_LINES_HEIGHT, _DOT_ROW_HEIGHT = 2.8, 0.222  # inches

_RC: Any = {
    "axes.edgecolor": "#999999",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "font.size": 9,
    "grid.color": "#DDDDDD",
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
}

# The colours of Okabe and Ito, which the colour-blind can tell apart, each with a marker of its own.
_BLACK, _GREY = "#222222", "#777777"
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", _BLACK)
_MARKERS = "osD^vPo"
# Of an overview's rows, by the peer: colour, marker, words of the legend.
_PEERS = {
    "torch": ("#D55E00", "s", "torch (cuBLAS)"),
    "torch_bf16": (_BLACK, "x", "cuBLAS on bfloat16"),
    "triton": ("#009E73", "D", "Triton"),
}
_LOSS_SHADE = "#F3E3DB"  # behind the side of 1 where the peer is faster

# Ticks of an axis of ratios: the first of these that puts enough of them on it.
_RATIO_TICKS: tuple[tuple[float, ...], ...] = (
    (0.125, 0.25, 0.5, 1, 2, 4, 8, 16),
    (0.3, 0.5, 0.7, 1, 1.5, 2, 3),
    (0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.6, 1.8, 2),
    tuple(step / 20 for step in range(15, 30)),
)
_FEWEST_TICKS = 4
_SHORT = 17  # letters of a label: three columns of them are as wide as half of the picture
_MANY_SIZES = 8  # beyond, only powers of two have ticks

_COLUMNS = {"mean": 1.015, "range": 1.09, "cases": 1.245}  # beside the rows, as fractions of the axes' width
_BESIDE: dict[str, Any] = {
    "xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8.5, "annotation_clip": False,
}  # fmt: skip
_STAGGER = (0.0, -0.2, 0.2)  # heights of dots that follow each other, so that fewer hide each other


def _ratio_axis(axes: Axes, letter: str, low: float, high: float) -> None:
    """The x or the y axis: logarithmic, shaded where the peer is faster, with a line at 1."""
    from matplotlib.ticker import NullLocator

    across, axis = ("v", axes.xaxis) if letter == "x" else ("h", axes.yaxis)
    getattr(axes, f"set_{letter}scale")("log")
    getattr(axes, f"ax{across}span")(low, 1, color=_LOSS_SHADE, linewidth=0, zorder=0)
    getattr(axes, f"ax{across}line")(1, color=_BLACK, linewidth=1.6, zorder=1.5)
    getattr(axes, f"set_{letter}lim")(low, high)
    for ticks in _RATIO_TICKS:
        shown = [tick for tick in ticks if low <= tick <= high]
        if len(shown) >= _FEWEST_TICKS:
            break
    axis.set_ticks(shown, [f"{tick:g}" for tick in shown])
    axis.set_minor_locator(NullLocator())


def _legend_above(axes: Axes, title: str, handles: list[Any], columns: int) -> None:
    """The legend between the title and the axes, where it hides no point."""
    legend = axes.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.1, labelspacing=0.25
    )
    legend.set_in_layout(False)  # the title's distance makes room for it
    axes.set_title(title, pad=8 + 13 * -(-len(handles) // columns))


def _draw_lines(axes: Axes, panel: LinePanel) -> None:
    axes.set_xscale("log", base=2)
    values, handles = [y for series in panel.series for y in series.ys], []
    for series in panel.series:
        colour, marker = _COLOURS[series.style % len(_COLOURS)], _MARKERS[series.style % len(_MARKERS)]
        line, inside = ("--", "white") if series.dashed else ("-", colour)
        look: dict[str, Any] = {"color": colour, "marker": marker, "markerfacecolor": inside, "label": series.label}
        drawn = axes.plot(series.xs, series.ys, line, **look)
        handles += drawn if series.label else []
    if panel.y_label == RATIO:
        _ratio_axis(axes, "y", min(1.0, *values) / 1.03, max(1.0, *values) * 1.03)
    else:
        axes.set_ylim(0, 1.05 * max(values))
    sizes = sorted({x for series in panel.series for x in series.xs})
    ticks = [size for size in sizes if len(sizes) <= _MANY_SIZES or math.log2(size).is_integer()]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    _legend_above(axes, panel.title, handles, 3 if max(len(series.label) for series in panel.series) < _SHORT else 2)


def _draw_dots(axes: Axes, panel: DotPanel) -> None:
    from matplotlib.lines import Line2D

    values = [value for row in panel.rows for value in row.values]
    _ratio_axis(axes, "x", min(0.95, *values) / 1.06, max(1.05, *values) * 1.06)
    labels = []
    for row in panel.rows:
        labels += [(row.heading, "bold")] if row.heading else []
        _draw_row(axes, row, len(labels))
        labels.append((row.label, "normal"))
    axes.set_yticks(range(len(labels)), [label for label, _ in labels])
    for text, (_, weight) in zip(axes.get_yticklabels(), labels, strict=True):
        text.set_fontweight(weight)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(labels) - 0.3, -0.7)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(RATIO)
    for words, place in _COLUMNS.items():
        axes.annotate(words, (place, -1.05), **_BESIDE, color=_GREY)
    shown = [style for peer, style in _PEERS.items() if peer in {row.peer for row in panel.rows}]
    marks = [Line2D([], [], color=colour, marker=mark, linestyle="", label=words) for colour, mark, words in shown]
    _legend_above(axes, "", marks, len(marks))


def _draw_row(axes: Axes, row: DotRow, y: float) -> None:
    """Its dots, its mean, and the figures beside it."""
    colour, marker, _ = _PEERS[row.peer]
    heights = [y + _STAGGER[place % len(_STAGGER)] for place in range(len(row.values))]
    edge = 1.0 if marker == "x" else 0.0
    axes.scatter(sorted(row.values), heights, s=13, color=colour, marker=marker, alpha=0.6, linewidths=edge, zorder=3)
    mean = geometric_mean(row.values)
    axes.plot([mean, mean], [y - 0.42, y + 0.42], color=_BLACK, linewidth=2.2, zorder=4)
    texts = (f"{mean:.2f}", f"{min(row.values):.2f} to {max(row.values):.2f}", str(len(row.values)))
    for place, text in zip(_COLUMNS.values(), texts, strict=True):
        axes.annotate(text, (place, y), **_BESIDE)


def _height(panel: LinePanel | DotPanel) -> float:
    if isinstance(panel, LinePanel):
        return _LINES_HEIGHT
    return _DOT_ROW_HEIGHT * (len(panel.rows) + sum(bool(row.heading) for row in panel.rows)) + 0.6


def figure_of(picture: Picture) -> Figure:
    """The figure, laid out, without a window and without a place among pyplot's figures."""
    from matplotlib import style
    from matplotlib.figure import Figure

    with style.context(_RC, after_reset=True):
        heights = [max(map(_height, row)) for row in picture.rows]
        figure = Figure(figsize=(WIDTH, sum(heights) + 1.0), layout="constrained")
        grid = figure.add_gridspec(len(picture.rows), 1, height_ratios=heights)
        for place, row in enumerate(picture.rows):
            for axes, panel in zip(grid[place].subgridspec(1, len(row)).subplots(squeeze=False)[0], row, strict=True):
                if isinstance(panel, LinePanel):
                    _draw_lines(axes, panel)
                else:
                    _draw_dots(axes, panel)
        figure.suptitle(picture.title, x=0.01, ha="left", weight="bold", fontsize=12)
        caption = [line for part in picture.caption for line in textwrap.wrap(part, _CAPTION_LETTERS)]
        figure.supxlabel("\n".join(caption), x=0.01, ha="left", fontsize=7, color="#555555")
        figure.draw_without_rendering()
    return figure


def draw(picture: Picture, target: Path) -> None:
    """Writes the PNG, with its content key; an ImportError without matplotlib."""
    from matplotlib import style
    from PIL import Image, PngImagePlugin  # matplotlib needs it too

    buffer = io.BytesIO()
    with style.context(_RC, after_reset=True):  # the user's own settings count for nothing
        figure_of(picture).savefig(buffer, dpi=DPI, format="png")
    texts = PngImagePlugin.PngInfo()  # in place of matplotlib's own, which has its version
    texts.add_text("Title", picture.title)
    texts.add_text("Comment", picture.key)
    few_colours = Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE)  # a third of the size
    target.parent.mkdir(parents=True, exist_ok=True)
    few_colours.save(target, format="PNG", optimize=True, pnginfo=texts)
