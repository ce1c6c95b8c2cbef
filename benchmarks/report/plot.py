"""Draws one file of matmul.py or block_scaled_matmul.py: `python -m benchmarks.report.plot <file>.csv [picture.png]`.

A line of panels for each dtype, layout and kind of data: rates of the plain products over size, and beside them each
peer's time over ours. The size is m of square matrices, or k at the same m and n. The head of the CSV is the caption.
The pictures of a whole folder of results are those of pictures.py.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common.picture import LinePanel, Picture, Series, caption_of, draw, machines, with_mean
from benchmarks.common.result_file import portable_path, read_csv

Row = dict[str, str]

_OURS = "tileon"


def _panels(title: str, along: str, words: str, rows: list[Row]) -> tuple[LinePanel, ...]:
    """Rates of every provider, and what each peer takes over ours; a provider and its graph share a style."""
    points: dict[str, dict[int, Row]] = {}
    for row in rows:
        points.setdefault(row["provider"], {})[int(row[along])] = row
    names = list(dict.fromkeys(provider.partition("_graph")[0] for provider in points))
    rates, ratios = [], []
    for provider, by_size in points.items():
        name, graph, _ = provider.partition("_graph")
        style, look = names.index(name), ("--", True) if graph else ("-", False)
        sizes, ours = tuple(sorted(by_size)), points.get(_OURS + graph, {})
        rates.append(Series(provider, style, sizes, tuple(float(by_size[size]["tflops"]) for size in sizes), *look))
        both = tuple(size for size in sizes if size in ours)
        if name != _OURS and both:
            over = tuple(float(by_size[size]["median_us"]) / float(ours[size]["median_us"]) for size in both)
            ratios.append(Series(with_mean(provider, over), style, both, over, *look))
    found = LinePanel(title, words, tuple(rates), "TFLOP/s")
    return (found, LinePanel(title, words, tuple(ratios))) if ratios else (found,)


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
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row["epilogue"] == "none":
            data = f", {row['data']} data" if row.get("data") else ""
            groups.setdefault(f"{row['dtype']} {row['layout']}{data}", []).append(row)
    lines = tuple(_panels(title, *sweep) for title, mine in groups.items() for sweep in _sweeps(mine))
    if not lines:
        raise ValueError(f"{portable_path(source)} holds no plain product of several sizes")
    notes = [f"Timing: {head.get('timing', '')}.", head.get("command", "")]
    return Picture(source.stem, f"{rows[0]['op']}, {machines([head])}", caption_of({source.name: head}, notes), lines)


def draw_if_possible(source: Path, target: Path) -> bool:
    """Draws the CSV `source` into the PNG `target`, or says in a line why not; returns whether there is a picture."""
    try:
        draw(picture_of(source), target)
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
