"""Draws one file of matmul.py or block_scaled_matmul.py: `python -m benchmarks.report.plot <file>.csv [picture.png]`.

A line of panels for each dtype, layout and kind of data: rates of the plain products over size, and beside them each
peer's time over ours. The size is m of square matrices, or k at the same m and n. The head of the CSV is the caption.
The pictures of a whole folder of results are those of pictures.py.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common.picture import RATIO, LinePanel, Picture, Series, caption_of, machine, with_mean
from benchmarks.common.result_file import portable_path, read_csv
from benchmarks.report.drawing import STYLES

Row = dict[str, str]

_OURS = "tileon"
_MANY = 8  # sizes; from here on only powers of two have ticks


def _ticks(sizes: list[int]) -> tuple[int, ...]:
    return tuple(size for size in sizes if len(sizes) <= _MANY or size & (size - 1) == 0)


def _panels(title: str, along: str, words: str, rows: list[Row]) -> tuple[LinePanel, ...]:
    """Rates of every provider, and what each peer takes over ours; a provider and its graph share a style."""
    points: dict[str, dict[int, Row]] = {}
    for row in rows:
        points.setdefault(row["provider"], {})[int(row[along])] = row
    others = itertools.cycle(f"part{place}" for place in range(1, 5))
    names = dict.fromkeys(provider.partition("_graph")[0] for provider in points)
    styles, rates, ratios = {name: name if name in STYLES else next(others) for name in names}, [], []
    for provider, by_size in points.items():
        name, graph, _ = provider.partition("_graph")
        line, hollow = ("--", True) if graph else ("-", False)
        sizes = tuple(sorted(by_size))
        rate = tuple(float(by_size[size]["tflops"]) for size in sizes)
        rates.append(Series(provider, styles[name], sizes, rate, line, hollow))
        ours = points.get(_OURS + graph, {})
        both = tuple(size for size in sizes if size in ours)
        if name != _OURS and both:
            over = tuple(float(by_size[size]["median_us"]) / float(ours[size]["median_us"]) for size in both)
            ratios.append(Series(with_mean(provider, over), styles[name], both, over, line, hollow))
    ticks = _ticks(sorted({int(row[along]) for row in rows}))
    found = [LinePanel(title, words, "TFLOP/s", tuple(rates), ticks, ratios=False)]
    return (*found, LinePanel(title, words, RATIO, tuple(ratios), ticks)) if ratios else tuple(found)


def _sweeps(rows: list[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Of one group, what the size is, the words for it, and the products of several sizes."""
    squares = [row for row in rows if row["m"] == row["n"] == row["k"]]
    if len({row["m"] for row in squares}) > 1:
        yield "m", "m = n = k", squares
    for m, n in dict.fromkeys((row["m"], row["n"]) for row in rows):
        mine = [row for row in rows if (row["m"], row["n"]) == (m, n)]
        points = Counter(row["provider"] for row in mine)
        mine = [row for row in mine if points[row["provider"]] > 1]
        if len({row["k"] for row in mine}) > 1:
            yield "k", f"k (m = {m}, n = {n})", mine


def picture_of(source: Path) -> Picture:
    """The picture of one file.

    Raises:
        ValueError: for a file that holds nothing to be drawn.
    """
    head, rows = read_csv(source)
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row["epilogue"] == "none":
            groups.setdefault((row["dtype"], row["layout"], row.get("data", "")), []).append(row)
    lines = [
        _panels(f"{dtype} {layout}" + (f", {data} data" if data else ""), *sweep)
        for (dtype, layout, data), mine in groups.items()
        for sweep in _sweeps(mine)
    ]
    if not lines:
        raise ValueError(f"{portable_path(source)} holds no plain product of several sizes")
    caption = caption_of({source.name: head}, [f"Timing: {head.get('timing', '')}."])
    title = f"{rows[0]['op']}, {machine(head)}"
    return Picture(source.stem, title, caption, tuple(lines), (2.6,) * len(lines))


def draw(source: Path, target: Path) -> None:
    """Draws the CSV `source` into the PNG `target`.

    Raises:
        ImportError: without matplotlib.
        ValueError: for a file that holds nothing to be drawn.
    """
    from benchmarks.report.drawing import draw as draw_picture

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
