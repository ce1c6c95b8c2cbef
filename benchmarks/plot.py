"""Draws a file of matmul.py or block_scaled_matmul.py: `python benchmarks/plot.py <file>.csv [picture.png]`.

Rate over size, one panel for each dtype, layout and kind of data, for the plain product of square matrices; where a
dtype has no several squares but several k at the same m and n, rate over k, and where it has squares and many such k,
both. Where a file has many sizes (matmul.csv), a strip under
each panel shows the peers' time over ours, and layouts with fewer sizes are left to the tables; where it has few
(portable.csv) and other epilogues at the largest size, a panel of bars follows for the first dtype that does. The head
of the CSV is the caption.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from result_file import portable_path, read_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, str]
Panel = tuple[str, list[Row]]  # title, and what is drawn

_COLOURS = {
    "tileon": "tab:blue",
    "tileon_fast": "tab:cyan",
    "torch": "tab:orange",
    "torch_dequantize": "tab:orange",
    "torch_bf16": "tab:red",
    "torch_fast": "tab:red",
    "triton": "tab:green",
}
_EXTRA_COLOURS = ("tab:purple", "tab:brown", "tab:pink", "tab:gray", "tab:olive")
_PANELS_ACROSS = 3
_MANY_SIZES = 16  # from here on differences are too small to be seen in the rates
_MANY_K = 4  # from here on they are a panel of their own beside the squares'


def _colours(rows: list[Row]) -> dict[str, str]:
    """A colour for each provider, in the order of the file; a provider and its graph share one."""
    providers = dict.fromkeys(row["provider"] for row in rows)
    extra = itertools.cycle(_EXTRA_COLOURS)
    return {name: _COLOURS.get(name.partition("_graph")[0]) or next(extra) for name in providers}


def _along(rows: list[Row]) -> str:
    """The column that is a panel's size: m of squares, or k at fixed m and n."""
    return "m" if len({row["m"] for row in rows}) > 1 else "k"


def _sizes(rows: list[Row]) -> list[int]:
    along = _along(rows)
    return sorted({int(row[along]) for row in rows})


def _size_axis(axes: Axes, rows: list[Row]) -> None:
    sizes = _sizes(rows)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes if len(sizes) <= 8 else [size for size in sizes if size & (size - 1) == 0])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0f}")
    axes.set_xlabel("m = n = k" if _along(rows) == "m" else "k")


def _draw_sizes(axes: Axes, rows: list[Row]) -> None:
    along = _along(rows)
    for provider, colour in _colours(rows).items():
        points = sorted((int(row[along]), float(row["tflops"])) for row in rows if row["provider"] == provider)
        sizes, rates = zip(*points, strict=True)
        line = "--" if "_graph" in provider else "-"
        axes.plot(sizes, rates, line, marker="o", markersize=3, label=provider, color=colour)
    _size_axis(axes, rows)


def _draw_ratios(axes: Axes, rows: list[Row]) -> None:
    """Each peer's time over ours: above 1 we are faster."""
    along = _along(rows)
    times = {(row["provider"], int(row[along])): float(row["median_us"]) for row in rows}
    for provider, colour in _colours(rows).items():
        points = sorted(
            (size, time / times["tileon", size])
            for (name, size), time in times.items()
            if name == provider != "tileon" and ("tileon", size) in times
        )
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", markersize=2, color=colour)
    axes.axhline(1.0, color=_COLOURS["tileon"], linewidth=1)
    _size_axis(axes, rows)
    axes.set_ylabel("time / tileon's", fontsize="small")
    axes.grid(alpha=0.3)


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


def _dress(axes: Axes, title: str, rows: list[Row]) -> None:
    axes.set_title(title, fontsize="medium")
    axes.set_ylabel("TFLOP/s")
    axes.set_ylim(0, 1.25 * max(float(row["tflops"]) for row in rows))  # the legend stands above the figures
    axes.grid(alpha=0.3)
    axes.legend(fontsize="x-small", loc="upper left", ncols=3)


def _sweeps(rows: list[Row], title: str, least: int) -> list[Panel]:
    """The plain products with at least so many k at the same m and n, by the providers that have several."""
    panels: list[Panel] = []
    for m, n in dict.fromkeys((row["m"], row["n"]) for row in rows):
        mine = [row for row in rows if (row["m"], row["n"], row["epilogue"]) == (m, n, "none")]
        points = Counter(row["provider"] for row in mine)
        mine = [row for row in mine if points[row["provider"]] > 1]
        if len(_sizes(mine)) >= least:
            panels.append((f"{title}, m = {m}, n = {n}", mine))
    return panels


def _group(row: Row) -> tuple[str, str, str]:
    """Dtype, layout, and the kind of data, of which only block_scaled_matmul.py has several."""
    return row["dtype"], row["layout"], row.get("data", "")


def _panels(rows: list[Row]) -> tuple[list[Panel], list[Panel]]:
    """Rate over size, and bars by epilogue."""
    lines: list[Panel] = []
    bars: list[Panel] = []
    for dtype, layout, data in dict.fromkeys(_group(row) for row in rows):
        every = [row for row in rows if _group(row) == (dtype, layout, data)]
        title = f"{dtype} {layout}" + (f", {data} data" if data else "")
        mine = [row for row in every if row["m"] == row["n"] == row["k"]]
        plain = [row for row in mine if row["epilogue"] == "none"]
        squares = [(title, plain)] if len(_sizes(plain)) > 1 else []
        lines += squares + _sweeps(every, title, _MANY_K if squares else 2)
        if not mine:
            continue
        largest = max(int(row["m"]) for row in mine)
        fused = [row for row in mine if int(row["m"]) == largest and "_graph" not in row["provider"]]
        if len({row["epilogue"] for row in fused}) > 1:
            bars.append((f"{title}, {largest}, by epilogue", fused))
    return lines, bars[:1]


def _figure_of_rates(lines: list[Panel], bars: list[Panel]) -> Figure:
    import matplotlib.pyplot as plt

    panels = lines + bars
    across = min(_PANELS_ACROSS, len(panels))
    down = -(-len(panels) // across)
    figure, grid = plt.subplots(down, across, figsize=(5 * across, 3.4 * down), squeeze=False, layout="constrained")
    for place, (title, rows) in enumerate(panels):
        axes = grid.flat[place]
        (_draw_sizes if place < len(lines) else _draw_epilogues)(axes, rows)
        _dress(axes, title, rows)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    return figure


def _figure_of_ratios(panels: list[Panel]) -> Figure:
    import matplotlib.pyplot as plt

    across = min(2, len(panels))
    down = -(-len(panels) // across)
    figure, grid = plt.subplots(
        2 * down,
        across,
        figsize=(6.5 * across, 5 * down),
        squeeze=False,
        layout="constrained",
        height_ratios=[3, 1.6] * down,
        sharey="row",
    )
    for place, (title, rows) in enumerate(panels):
        eager = [row for row in rows if "_graph" not in row["provider"]]
        above, below = grid[2 * (place // across), place % across], grid[2 * (place // across) + 1, place % across]
        _draw_sizes(above, eager)
        _dress(above, title, eager)
        above.set_xlabel("")
        _draw_ratios(below, eager)
    for place in range(len(panels), down * across):
        grid[2 * (place // across), place % across].set_visible(False)
        grid[2 * (place // across) + 1, place % across].set_visible(False)
    return figure


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
    lines, bars = _panels(rows)
    if not lines and not bars:
        raise ValueError(f"{portable_path(source)} holds neither several sizes nor several epilogues of one dtype")
    many = [(title, mine) for title, mine in lines if len(_sizes(mine)) >= _MANY_SIZES]
    figure = _figure_of_ratios(many) if many else _figure_of_rates(lines, bars)
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
    parser.add_argument("csv", type=Path, help="a result file of matmul.py or block_scaled_matmul.py")
    parser.add_argument("png", type=Path, nargs="?", help="the picture (default: beside the CSV)")
    arguments = parser.parse_args()
    return 0 if draw_if_possible(arguments.csv, arguments.png or arguments.csv.with_suffix(".png")) else 1


if __name__ == "__main__":
    sys.exit(main())
