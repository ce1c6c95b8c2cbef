"""Draws a picture (picture.py) with matplotlib: the same file for the same content and the same matplotlib."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.picture import KEY_NAME, Picture
from benchmarks.report.picture_panels import draw_panel

if TYPE_CHECKING:
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
    "legend.framealpha": 0.9,
    "legend.edgecolor": "#CCCCCC",
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
}


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
        mosaic: Any = [[index for index in row for _ in range(_repeats(picture, row))] for row in picture.layout]
        axes_by_panel = figure.subplot_mosaic(mosaic, height_ratios=picture.heights)
        for index, panel in enumerate(picture.panels):
            draw_panel(axes_by_panel[index], panel)
        figure.suptitle(picture.title, x=0.01, ha="left", weight="bold", fontsize=12)
        caption = [line for part in picture.caption for line in textwrap.wrap(part, _CAPTION_LETTERS)]
        figure.supxlabel("\n".join(caption), x=0.01, ha="left", fontsize=7, color="#555555")
        figure.draw_without_rendering()
    return figure


def _repeats(picture: Picture, row: tuple[int, ...]) -> int:
    """How often each panel of a row stands in the mosaic, so that all rows are as long."""
    longest = 1
    for other in {len(one) for one in picture.layout}:
        longest *= other
    return longest // len(row)


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
