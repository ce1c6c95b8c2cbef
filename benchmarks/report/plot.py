"""Draws one file of matmul.py or block_scaled_matmul.py: `python -m benchmarks.report.plot <file>.csv [picture.png]`.

A line of panels for each dtype, layout and kind of data: rates over size, and beside them each peer's time over ours.
The size is m of square matrices, or k at the same m and n. Products of one size with several epilogues become a panel
of ratios. The head of the CSV is the caption. The pictures of a whole folder of results are those of pictures.py.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common.picture import (
    DotPanel,
    DotRow,
    LinePanel,
    Picture,
    Series,
    caption_of,
    limits_around,
    machine,
    with_mean,
)
from benchmarks.common.result_file import portable_path, read_csv

Row = dict[str, str]

_KNOWN = ("tileon", "tileon_fast", "torch", "torch_fast", "torch_dequantize", "torch_bf16", "triton")
_OURS = "tileon"
_MANY = 8  # sizes; from here on only powers of two have ticks


def _styles(rows: list[Row]) -> dict[str, str]:
    """A style for each provider, in the order of the file; a provider and its graph share one."""
    parts = itertools.cycle(f"part{place}" for place in range(1, 5))
    plain = dict.fromkeys(row["provider"].partition("_graph")[0] for row in rows)
    return {name: name if name in _KNOWN else next(parts) for name in plain}


def _ticks(sizes: list[int]) -> tuple[int, ...]:
    return tuple(size for size in sizes if len(sizes) <= _MANY or size & (size - 1) == 0)


def _series(rows: list[Row], along: str) -> tuple[list[Series], list[Series]]:
    """Rates of every provider, and what each peer takes over ours."""
    times: dict[str, dict[int, float]] = {}
    rates: dict[str, dict[int, float]] = {}
    for row in rows:
        times.setdefault(row["provider"], {})[int(row[along])] = float(row["median_us"])
        rates.setdefault(row["provider"], {})[int(row[along])] = float(row["tflops"])
    styles, drawn, ratios = _styles(rows), [], []
    for provider in times:
        name, graph, _ = provider.partition("_graph")
        line, hollow = ("--", True) if graph else ("-", False)
        sizes = tuple(sorted(times[provider]))
        ys = tuple(rates[provider][size] for size in sizes)
        drawn.append(Series(provider, styles[name], sizes, ys, line, hollow))
        ours = times.get(_OURS + graph, {})
        both = tuple(size for size in sizes if size in ours)
        if name != _OURS and both:
            found = tuple(times[provider][size] / ours[size] for size in both)
            ratios.append(Series(with_mean(provider, found), styles[name], both, found, line, hollow))
    return drawn, ratios


def _sweeps(rows: list[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Of one group, what the size is, the words for it, and the plain products of several sizes."""
    plain = [row for row in rows if row["epilogue"] == "none"]
    squares = [row for row in plain if row["m"] == row["n"] == row["k"]]
    if len({row["m"] for row in squares}) > 1:
        yield "m", "m = n = k", squares
    for m, n in dict.fromkeys((row["m"], row["n"]) for row in plain):
        mine = [row for row in plain if (row["m"], row["n"]) == (m, n)]
        points = Counter(row["provider"] for row in mine)
        mine = [row for row in mine if points[row["provider"]] > 1]
        if len({row["k"] for row in mine}) > 1:
            yield "k", f"k (m = {m}, n = {n})", mine


def _lines(title: str, along: str, words: str, rows: list[Row]) -> list[LinePanel]:
    rates, ratios = _series(rows, along)
    ticks = _ticks(sorted({int(row[along]) for row in rows}))
    limits = (0.0, 1.05 * max(y for one in rates for y in one.ys))
    panels = [LinePanel(title, words, "TFLOP/s", tuple(rates), ticks, limits, ratios=False)]
    if ratios:
        around = limits_around(y for one in ratios for y in one.ys)
        panels.append(LinePanel(title, words, "peer's time / tileon's", tuple(ratios), ticks, around))
    return panels


def _epilogues(title: str, rows: list[Row]) -> list[DotPanel]:
    """Ratios by epilogue, of the largest square that has several."""
    by_size: dict[int, dict[str, dict[str, float]]] = {}
    for row in rows:
        if row["m"] == row["n"] == row["k"]:
            cell = by_size.setdefault(int(row["m"]), {}).setdefault(row["epilogue"], {})
            cell[row["provider"]] = float(row["median_us"])
    sizes = [size for size, found in by_size.items() if len(found) > 1]
    if not sizes:
        return []
    styles, lines = _styles(rows), []
    for epilogue, by in by_size[max(sizes)].items():
        peers = [name for name in by if name != _OURS and _OURS in by and "_graph" not in name]
        groups = tuple((styles[name], (by[name] / by[_OURS],)) for name in peers)
        lines += [DotRow(epilogue, groups)] if groups else []
    shown = {style for line in lines for style, _ in line.groups}
    legend = tuple((style, name) for name, style in styles.items() if style in shown)
    words = f"{title}, {max(sizes)} square, by epilogue"
    return [DotPanel(words, "peer's time / tileon's", tuple(lines), legend)] if lines else []


def picture_of(source: Path) -> Picture:
    """The picture of one file.

    Raises:
        ValueError: for a file that holds nothing to be drawn.
    """
    head, rows = read_csv(source)
    if not rows:
        raise ValueError(f"{portable_path(source)} holds no measurement")
    lines: list[list[LinePanel] | list[DotPanel]] = []
    for dtype, layout, data in dict.fromkeys((row["dtype"], row["layout"], row.get("data", "")) for row in rows):
        mine = [row for row in rows if (row["dtype"], row["layout"], row.get("data", "")) == (dtype, layout, data)]
        title = f"{dtype} {layout}" + (f", {data} data" if data else "")
        lines += [_lines(title, *sweep) for sweep in _sweeps(mine)]
        if epilogues := _epilogues(title, mine):
            lines.append(epilogues)
    if not lines:
        raise ValueError(f"{portable_path(source)} holds neither several sizes nor several epilogues of one dtype")
    places, layout_rows = itertools.count(), []
    for panels in lines:
        layout_rows.append(tuple(next(places) for _ in panels))
    heights = tuple(1.0 + 0.35 * len(one[0].rows) if isinstance(one[0], DotPanel) else 2.6 for one in lines)
    return Picture(
        source.stem,
        f"{rows[0]['op']}, {machine(head)}",
        caption_of({source.name: head}, [f"Timing: {head.get('timing', '')}."]),
        tuple(panel for panels in lines for panel in panels),
        tuple(layout_rows),
        heights,
    )


def draw(source: Path, target: Path) -> None:
    """Draws the CSV `source` into the PNG `target`.

    Raises:
        ImportError: without matplotlib.
        ValueError: for a file that holds nothing to be drawn.
    """
    from benchmarks.report.picture_drawing import draw as draw_picture

    draw_picture(picture_of(source), target)


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
