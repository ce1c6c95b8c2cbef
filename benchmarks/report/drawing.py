"""Draws a picture (common/picture.py) with matplotlib: the same file for the same content and the same matplotlib."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.picture import KEY_NAME, DotPanel, DotRow, LinePanel, Picture
from benchmarks.common.times import geometric_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 10.0  # inches: at the width of a README 9 points are still 9 pixels or more
DPI = 130
_CAPTION_LETTERS = 180  # of a line at 7 points

_RC: Any = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": "#999999",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 9,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
}

# The colours of Okabe and Ito, which the colour-blind can tell apart, each with a marker of its own. Ours are blue.
_BLUE, _SKY, _VERMILION, _ORANGE, _GREEN, _PURPLE, _BLACK, _GREY = (
    "#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#CC79A7", "#222222", "#777777",
)  # fmt: skip
STYLES: dict[str, tuple[str, str]] = {
    "tileon": (_BLUE, "o"),
    "tileon_fast": (_SKY, "^"),
    "torch": (_VERMILION, "s"),
    "torch_fast": (_ORANGE, "v"),
    "torch_dequantize": (_VERMILION, "s"),
    "torch_bf16": (_BLACK, "x"),
    "triton": (_GREEN, "D"),
    "part0": (_BLUE, "o"),
    "part1": (_ORANGE, "s"),
    "part2": (_GREEN, "D"),
    "part3": (_PURPLE, "^"),
    "part4": (_BLACK, "v"),
    "key": (_BLACK, "o"),  # of a line in a legend that stands for several series
}
_LOSS_SHADE = "#F3E3DB"  # behind the side of 1 where the peer is faster

_LEGEND_POINTS = 600  # of axes as wide as the picture, or little more
_HANDLE_POINTS = 29  # what a mark and the gaps around it take, at the legend's size

# Ticks of an axis of ratios: the first of these that puts enough of them on it.
_RATIO_TICKS: tuple[tuple[float, ...], ...] = (
    (0.125, 0.25, 0.5, 1, 2, 4, 8, 16),
    (0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10),
    (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3),
    tuple(step / 10 for step in range(5, 20)),
    tuple(step / 20 for step in range(15, 30)),
)
_FEWEST_TICKS = 4

_COLUMNS = {"mean": 1.015, "range": 1.09, "cases": 1.235}  # beside the rows, as fractions of the axes' width
_BESIDE: dict[str, Any] = {
    "xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8.5, "annotation_clip": False,
}  # fmt: skip
_STAGGER = (0.0, -0.2, 0.2)  # heights of dots that follow each other, so that fewer hide each other


def _style(name: str) -> tuple[str, str]:
    return STYLES.get(name, (_GREY, "o"))


def _ratio_axis(axis: Any, limits: tuple[float, float]) -> None:
    from matplotlib.ticker import NullLocator

    for ticks in _RATIO_TICKS:
        shown = [tick for tick in ticks if limits[0] <= tick <= limits[1]]
        if len(shown) >= _FEWEST_TICKS:
            break
    axis.set_ticks(shown, [f"{tick:g}" for tick in shown])
    axis.set_minor_locator(NullLocator())


def _columns_that_fit(axes: Axes, words: list[str]) -> int:
    """All in one line if they fit above the axes, else as many as would if each were as long as the longest."""
    from matplotlib import rcParams
    from matplotlib.textpath import TextPath

    place = axes.get_subplotspec()
    room = _LEGEND_POINTS * (len(place.colspan) / place.get_gridspec().ncols if place is not None else 1.0)
    size = rcParams["legend.fontsize"]
    lengths = [TextPath((0, 0), text, size=size).get_extents().width + _HANDLE_POINTS for text in words]
    return len(words) if sum(lengths) <= room else max(1, int(room / max(lengths)))


def _legend_above(axes: Axes, title: str, handles: list[Any], words: list[str]) -> None:
    """The legend between the title and the axes, where it hides no point."""
    columns = _columns_that_fit(axes, words)
    legend = axes.legend(
        handles, words, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False, borderaxespad=0.1,
        borderpad=0.2, handlelength=1.8, columnspacing=1.0, labelspacing=0.25,
    )  # fmt: skip
    legend.set_in_layout(False)  # the title's distance makes room for it
    axes.set_title(title, pad=6 + 13 * -(-len(words) // columns))


def _draw_lines(axes: Axes, panel: LinePanel) -> None:
    axes.set_xscale("log", base=2)
    values = [y for series in panel.series for y in series.ys]
    limits = (min(1.0, *values) / 1.03, max(1.0, *values) * 1.03) if panel.ratios else (0.0, 1.05 * max(values))
    if panel.ratios:
        axes.set_yscale("log")
    axes.set_ylim(*limits)
    for series in panel.series:
        colour, marker = _style(series.style)
        inside = "white" if series.hollow else colour
        label = series.label or "_nolegend_"
        axes.plot(series.xs, series.ys, series.line, color=colour, marker=marker, markerfacecolor=inside, label=label)
    if panel.ratios:
        axes.axhspan(limits[0], 1, color=_LOSS_SHADE, linewidth=0, zorder=0)
        axes.axhline(1, color=_BLACK, linewidth=1.6, zorder=1.5)
        _ratio_axis(axes.yaxis, limits)
    axes.set_xticks(panel.x_ticks, [str(tick) for tick in panel.x_ticks])
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    _legend_above(axes, panel.title, *axes.get_legend_handles_labels())


def _draw_dots(axes: Axes, panel: DotPanel) -> None:
    from matplotlib.lines import Line2D

    values = [value for row in panel.rows for value in row.values]
    limits = (min(0.95, *values) / 1.06, max(1.05, *values) * 1.06)
    axes.set_xscale("log")
    axes.axvspan(limits[0], 1, color=_LOSS_SHADE, linewidth=0, zorder=0)
    axes.axvline(1, color=_BLACK, linewidth=1.6, zorder=1.5)
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
    axes.set_xlim(*limits)
    _ratio_axis(axes.xaxis, limits)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(panel.x_label)
    for words, place in _COLUMNS.items():
        axes.annotate(words, (place, -1.05), **_BESIDE, color=_GREY)
    marks = [Line2D([], [], color=_style(name)[0], marker=_style(name)[1], linestyle="") for name, _ in panel.legend]
    _legend_above(axes, "", marks, [words for _, words in panel.legend])


def _draw_row(axes: Axes, row: DotRow, y: float) -> None:
    """Its dots, its mean, and the figures beside it."""
    colour, marker = _style(row.style)
    heights = [y + _STAGGER[place % len(_STAGGER)] for place in range(len(row.values))]
    edge = 1.0 if marker == "x" else 0.0
    axes.scatter(sorted(row.values), heights, s=13, color=colour, marker=marker, alpha=0.6, linewidths=edge, zorder=3)
    mean = geometric_mean(row.values)
    axes.plot([mean, mean], [y - 0.42, y + 0.42], color=_BLACK, linewidth=2.2, zorder=4)
    texts = (f"{mean:.2f}", f"{min(row.values):.2f} to {max(row.values):.2f}", str(len(row.values)))
    for place, text in zip(_COLUMNS.values(), texts, strict=True):
        axes.annotate(text, (place, y), **_BESIDE)


@contextmanager
def _own_style() -> Iterator[None]:
    """Whatever the user's own settings are. It must hold while a figure is saved, too."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield


def figure_of(picture: Picture) -> Figure:
    """The figure, laid out, without a window and without a place among pyplot's figures."""
    from matplotlib.figure import Figure

    with _own_style():
        figure = Figure(figsize=(WIDTH, sum(picture.heights) + 1.0), layout="constrained")
        columns = math.lcm(*(len(row) for row in picture.rows))
        grid = figure.add_gridspec(len(picture.rows), columns, height_ratios=picture.heights)
        for place, row in enumerate(picture.rows):
            width = columns // len(row)
            for number, panel in enumerate(row):
                axes = figure.add_subplot(grid[place, number * width : (number + 1) * width])
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
    """Writes the PNG, with its content key.

    Raises:
        ImportError: without matplotlib.
    """
    from PIL import Image, PngImagePlugin  # matplotlib needs it too

    buffer = io.BytesIO()
    with _own_style():
        figure_of(picture).savefig(buffer, dpi=DPI, format="png")
    texts = PngImagePlugin.PngInfo()  # in place of matplotlib's own, which has its version
    texts.add_text("Title", picture.title)
    texts.add_text(KEY_NAME, picture.key)
    target.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(buffer) as image:  # few colours: a palette is a third of the size
        image.convert("RGB").quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
            target, format="PNG", optimize=True, pnginfo=texts
        )
