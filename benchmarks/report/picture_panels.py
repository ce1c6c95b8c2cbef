"""Draws the panels of a picture (picture.py) on matplotlib's axes: colours and marks, and a function for each kind."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from benchmarks.common.picture import DistributionPanel, DotPanel, DotRow, LinePanel, Panel, RoofPanel
from benchmarks.common.times import geometric_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The colours of Okabe and Ito, which the colour-blind can tell apart, each with a marker of its own. Ours are blue.
_BLUE, _SKY, _VERMILION, _ORANGE, _GREEN, _PURPLE, _BLACK, _GREY = (
    "#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#CC79A7", "#222222", "#777777",
)  # fmt: skip
_STYLES: dict[str, tuple[str, str]] = {
    "tileon": (_BLUE, "o"),
    "tileon_fast": (_SKY, "^"),
    "tileon_python": (_SKY, "^"),
    "tileon_compile": (_SKY, "^"),
    "torch": (_VERMILION, "s"),
    "torch_fast": (_ORANGE, "v"),
    "torch_compile": (_ORANGE, "v"),
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


def _ratio_axis(axis: Any, limits: tuple[float, float]) -> None:
    from matplotlib.ticker import NullLocator

    for ticks in _RATIO_TICKS:
        shown = [tick for tick in ticks if limits[0] <= tick <= limits[1]]
        if len(shown) >= _FEWEST_TICKS:
            break
    axis.set_ticks(shown, [f"{tick:g}" for tick in shown])
    axis.set_minor_locator(NullLocator())


def _style(name: str) -> tuple[str, str]:
    return _STYLES.get(name, (_GREY, "o"))


def _columns_that_fit(axes: Axes, words: list[str]) -> int:
    """All in one line if they fit above the axes, else as many as would if each were as long as the longest."""
    from matplotlib import rcParams
    from matplotlib.textpath import TextPath

    place = axes.get_subplotspec()
    room = _LEGEND_POINTS * (len(place.colspan) / place.get_gridspec().ncols if place is not None else 1.0)
    size = rcParams["legend.fontsize"]
    lengths = [TextPath((0, 0), text, size=size).get_extents().width + _HANDLE_POINTS for text in words]
    return len(words) if sum(lengths) <= room else max(1, int(room / max(lengths)))


def _legend_above(axes: Axes, title: str, handles: list[Any] | None = None, words: list[str] | None = None) -> None:
    """The legend between the title and the axes, where it hides no point."""
    if handles is None or words is None:
        handles, words = axes.get_legend_handles_labels()
    columns = _columns_that_fit(axes, words)
    legend = axes.legend(
        handles, words, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, frameon=False, borderaxespad=0.1,
        borderpad=0.2, handlelength=1.8, columnspacing=1.0, labelspacing=0.25,
    )  # fmt: skip
    legend.set_in_layout(False)  # the title's distance makes room for it
    axes.set_title(title, pad=6 + 13 * -(-len(words) // columns))


def _draw_lines(axes: Axes, panel: LinePanel) -> None:
    axes.set_xscale("log", base=2)
    if panel.ratios:
        axes.set_yscale("log")
    axes.set_ylim(*panel.y_limits)
    for series in panel.series:
        colour, marker = _style(series.style)
        inside = "white" if series.hollow else colour
        label = series.label or "_nolegend_"
        axes.plot(series.xs, series.ys, series.line, color=colour, marker=marker, markerfacecolor=inside, label=label)
    if panel.ratios:
        axes.axhspan(panel.y_limits[0], 1, color=_LOSS_SHADE, linewidth=0, zorder=0)
        axes.axhline(1, color=_BLACK, linewidth=1.6, zorder=1.5)
        _ratio_axis(axes.yaxis, panel.y_limits)
    axes.set_xticks(panel.x_ticks, [str(tick) for tick in panel.x_ticks])
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    _legend_above(axes, panel.title)


def _draw_dots(axes: Axes, panel: DotPanel) -> None:
    values = [value for row in panel.rows for value in row.values]
    limits = (min(0.95, *values) / 1.06, max(1.05, *values) * 1.06)
    axes.set_xscale("log")
    axes.axvspan(limits[0], 1, color=_LOSS_SHADE, linewidth=0, zorder=0)
    axes.axvline(1, color=_BLACK, linewidth=1.6, zorder=1.5)
    labels, y = [], 0.0
    for row in panel.rows:
        if row.heading:
            labels.append((y, row.heading, "bold"))
            y += 1.0
        labels.append((y, row.label, "normal"))
        (_draw_row if panel.means else _draw_groups)(axes, row, y)
        y += 1.0
    axes.set_yticks([at for at, _, _ in labels], [label for _, label, _ in labels])
    for text, (_, _, weight) in zip(axes.get_yticklabels(), labels, strict=True):
        text.set_fontweight(weight)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y - 0.3, -0.7)
    axes.set_xlim(*limits)
    _ratio_axis(axes.xaxis, limits)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(panel.x_label)
    if panel.means:
        for place, words in zip(_COLUMNS, ("mean", "range", "cases"), strict=True):
            axes.annotate(words, (place, -1.05), **_BESIDE, color=_GREY)
    _dot_legend(axes, panel)


_COLUMNS = (1.015, 1.09, 1.235)  # of the figures beside the rows, as fractions of the axes' width
_BESIDE: dict[str, Any] = {
    "xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8.5, "annotation_clip": False,
}  # fmt: skip
_STAGGER = (0.0, -0.2, 0.2)  # heights of dots that follow each other, so that fewer hide each other


def _draw_row(axes: Axes, row: DotRow, y: float) -> None:
    """Its dots, its mean, and the figures beside it."""
    for style, group in row.groups:
        colour, marker = _style(style)
        heights = [y + _STAGGER[place % len(_STAGGER)] for place in range(len(group))]
        edge = 1.0 if marker == "x" else 0.0
        axes.scatter(sorted(group), heights, s=13, color=colour, marker=marker, alpha=0.6, linewidths=edge, zorder=3)
    values, mean = row.values, geometric_mean(row.values)
    axes.plot([mean, mean], [y - 0.42, y + 0.42], color=_BLACK, linewidth=2.2, zorder=4)
    texts = (f"{mean:.2f}", f"{min(values):.2f} to {max(values):.2f}", str(len(values)))
    for place, text in zip(_COLUMNS, texts, strict=True):
        axes.annotate(text, (place, y), **_BESIDE)


def _draw_groups(axes: Axes, row: DotRow, y: float) -> None:
    for place, (style, values) in enumerate(row.groups):
        colour, marker = _style(style)
        at = y + (place - (len(row.groups) - 1) / 2) * 0.24
        sizes = [12 + 14 * step for step in range(len(values))]
        edge = 1.3 if marker == "x" else 0.0
        axes.scatter(values, [at] * len(values), s=sizes, color=colour, marker=marker, linewidths=edge, zorder=3)


def _dot_legend(axes: Axes, panel: DotPanel) -> None:
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], color=_style(name)[0], marker=_style(name)[1], linestyle="") for name, _ in panel.legend]
    _legend_above(axes, panel.title, marks, [words for _, words in panel.legend])


def _draw_distribution(axes: Axes, panel: DistributionPanel) -> None:
    from matplotlib.ticker import PercentFormatter

    values = [value for series in panel.series for value in series.values]
    room = 0.05 * max(0.02, max(1.0, *values) - min(1.0, *values))
    low, high = min(1.0, *values) - room, max(1.0, *values) + room
    axes.axvspan(low, 1, color=_LOSS_SHADE, linewidth=0, zorder=0)
    axes.axvline(1, color=_BLACK, linewidth=1.6, zorder=1.5)
    for series in panel.series:
        axes.ecdf(series.values, label=series.label, color=_style(series.style)[0], linewidth=2)
    axes.set_xlim(low, high)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel("share of the cases")
    _legend_above(axes, panel.title)


def _power_of_ten(value: float) -> float:
    """The last one that is not above the value."""
    return float(10.0 ** math.floor(math.log10(value)))


def _draw_roof(axes: Axes, panel: RoofPanel) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    xs = [x for series in panel.series for x in series.xs]
    first_knee = min(roof.peak for roof in panel.roofs) / panel.memory_tb_s
    low, high = min(min(xs) / 1.5, _power_of_ten(first_knee)), max(xs) * 1.5
    axes.set_xscale("log")
    axes.set_yscale("log")
    for roof in panel.roofs:
        corners = (low, roof.peak / panel.memory_tb_s, high)
        axes.plot(corners, [panel.bound(x, roof) for x in corners], color=_BLACK, linewidth=1.4, zorder=2)
        if roof.sustained is not None:
            axes.plot([roof.sustained / panel.memory_tb_s, high], [roof.sustained] * 2, ":", color=_BLACK)
        axes.annotate(roof.label, (1.01, roof.peak), **_BESIDE)
    for series in panel.series:
        colour, marker = _style(series.style)
        inside, size = ("none", 5) if series.hollow else (colour, 4)
        axes.plot(
            series.xs, series.ys, marker, color=colour, markerfacecolor=inside, markersize=size, label=series.label
        )
    lowest = _power_of_ten(min(y for series in panel.series for y in series.ys))
    axes.set_xlim(low, high)
    axes.set_ylim(lowest, max(roof.peak for roof in panel.roofs) * 1.5)
    start, above = max(low, lowest / panel.memory_tb_s) * 1.2, panel.memory_tb_s * 1.2
    along = math.degrees(math.atan(above))  # the slope as the axes have it there: both are logarithmic
    axes.text(
        start, start * above, f"{panel.memory_tb_s:g} TB/s", fontsize=8, rotation=along, rotation_mode="anchor",
        transform_rotates_text=True,
    )  # fmt: skip
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(base=10))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("operations per byte of operands and result")
    axes.set_ylabel("TFLOP/s")
    axes.legend(loc="lower right")


_DRAW: dict[type, Any] = {
    LinePanel: _draw_lines,
    DotPanel: _draw_dots,
    DistributionPanel: _draw_distribution,
    RoofPanel: _draw_roof,
}


def draw_panel(axes: Axes, panel: Panel) -> None:
    """Title, legend, axes and everything on them."""
    axes.set_title(panel.title)
    _DRAW[type(panel)](axes, panel)
