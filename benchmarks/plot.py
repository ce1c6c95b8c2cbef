"""Draws a file of matmul.py: `python benchmarks/plot.py benchmarks/results/h200/portable.csv [picture.png]`.

Rate over size, one panel for each dtype and layout, for the plain product of square matrices; where the file holds
other epilogues at the largest size, a panel of bars for the first dtype that does. The head of the CSV is the caption.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from result_file import portable_path, read_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = dict[str, str]

_COLOURS = {"tileon": "tab:blue", "torch": "tab:orange", "triton": "tab:green"}
_EXTRA_COLOURS = ("tab:red", "tab:purple", "tab:brown", "tab:pink", "tab:gray", "tab:olive", "tab:cyan")
_PANELS_ACROSS = 3


def _colours(rows: list[Row]) -> dict[str, str]:
    """A colour for each provider, in the order of the file; a provider and its graph share one."""
    providers = dict.fromkeys(row["provider"] for row in rows)
    extra = itertools.cycle(_EXTRA_COLOURS)
    return {name: _COLOURS.get(name.removesuffix("_graph")) or next(extra) for name in providers}


def _draw_sizes(axes: Axes, rows: list[Row]) -> None:
    for provider, colour in _colours(rows).items():
        points = sorted((int(row["m"]), float(row["tflops"])) for row in rows if row["provider"] == provider)
        sizes, rates = zip(*points, strict=True)
        line = "--" if provider.endswith("_graph") else "-"
        axes.plot(sizes, rates, line, marker="o", markersize=3, label=provider, color=colour)
    sizes_all = sorted({int(row["m"]) for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes_all if len(sizes_all) <= 8 else [s for s in sizes_all if s & (s - 1) == 0])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
    axes.set_xlabel("m = n = k")


def _draw_epilogues(axes: Axes, rows: list[Row]) -> None:
    epilogues = list(dict.fromkeys(row["epilogue"] for row in rows))
    colours = _colours(rows)
    width = 0.8 / len(colours)
    for place, (provider, colour) in enumerate(colours.items()):
        rates = {row["epilogue"]: float(row["tflops"]) for row in rows if row["provider"] == provider}
        where = [index + (place - (len(colours) - 1) / 2) * width for index in range(len(epilogues))]
        heights = [rates.get(epilogue, 0.0) for epilogue in epilogues]
        axes.bar(where, heights, width, label=provider, color=colour)
    axes.set_xticks(range(len(epilogues)), epilogues, fontsize="small", rotation=15)


def draw(source: Path, target: Path) -> None:
    """Draws the CSV `source` into the PNG `target`.

    Raises:
        ImportError: without matplotlib.
        ValueError: for a file that holds nothing to be drawn.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    head, rows = read_csv(source)
    if not rows:
        raise ValueError(f"{portable_path(source)} holds no measurement")
    squares = [row for row in rows if row["m"] == row["n"] == row["k"]]
    panels: list[tuple[str, list[Row]]] = []  # rate over size
    bars: list[tuple[str, list[Row]]] = []  # by epilogue
    for dtype, layout in dict.fromkeys((row["dtype"], row["layout"]) for row in squares):
        mine = [row for row in squares if (row["dtype"], row["layout"]) == (dtype, layout)]
        plain = [row for row in mine if row["epilogue"] == "none"]
        if len({row["m"] for row in plain}) > 1:
            panels.append((f"{dtype} {layout}", plain))
        largest = max(int(row["m"]) for row in mine)
        fused = [row for row in mine if int(row["m"]) == largest and not row["provider"].endswith("_graph")]
        if len({row["epilogue"] for row in fused}) > 1:
            bars.append((f"{dtype} {layout}, {largest}, by epilogue", fused))
    if not panels and not bars:
        raise ValueError(f"{portable_path(source)} holds neither several sizes nor several epilogues of one dtype")
    lines = len(panels)
    panels += bars[:1]

    across = min(_PANELS_ACROSS, len(panels))
    down = -(-len(panels) // across)
    figure, grid = plt.subplots(down, across, figsize=(5 * across, 3.4 * down), squeeze=False, layout="constrained")
    for place, (title, panel_rows) in enumerate(panels):
        axes = grid.flat[place]
        (_draw_sizes if place < lines else _draw_epilogues)(axes, panel_rows)
        axes.set_title(title, fontsize="medium")
        axes.set_ylabel("TFLOP/s")
        axes.set_ylim(0, 1.25 * max(float(row["tflops"]) for row in panel_rows))  # the legend stands above the figures
        axes.grid(alpha=0.3)
        axes.legend(fontsize="x-small", loc="upper left", ncols=3)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    machine = head.get("gpu", "none") if head.get("gpu", "none") != "none" else head.get("cpu", "CPU")
    figure.suptitle(
        f"{machine}, torch {head.get('torch')}, {head.get('date')}, commit {head.get('commit', '')[:12]}\n"
        f"{head.get('command')}",
        fontsize="small",
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=110)
    plt.close(figure)


def draw_if_possible(source: Path, target: Path) -> bool:
    """`draw`, or one line that says why not; returns whether there is a picture."""
    try:
        draw(source, target)
    except ImportError:
        print("no plot: this Python has no matplotlib")
        return False
    except ValueError as error:
        print(f"no plot: {error}")
        return False
    print(f"plot: {portable_path(target)}")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=Path, help="a result file of matmul.py")
    parser.add_argument("png", type=Path, nargs="?", help="the picture (default: beside the CSV)")
    arguments = parser.parse_args()
    return 0 if draw_if_possible(arguments.csv, arguments.png or arguments.csv.with_suffix(".png")) else 1


if __name__ == "__main__":
    sys.exit(main())
