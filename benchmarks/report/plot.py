"""Draws one file of matmul.py or block_scaled_matmul.py: `python -m benchmarks.report.plot <file>.csv [picture.png]`.

A line of panels for each dtype, layout and kind of data: rates of the plain products over size, and beside them each
peer's time over ours. The size is m of square matrices, or k at the same m and n. The head of the CSV is the caption.
The pictures of a whole folder of results are those of pictures.py.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common.cases import DATA
from benchmarks.common.picture import LinePanel, Picture, Series, caption_of, draw, machines, ratio_series
from benchmarks.common.result_file import portable_path, read_csv
from benchmarks.common.times import Times, read_times


def _panels(title: str, along: str, words: str, times: Times) -> tuple[LinePanel, ...]:
    """Rates of every provider, and what each peer takes over ours; a provider and its graph share a style."""
    providers = list(dict.fromkeys(who for by in times.values() for who in by))
    names = list(dict.fromkeys(who.partition("_graph")[0] for who in providers))
    rates: list[Series] = []
    ratios: list[Series] = []
    for who in providers:
        name, graph, _ = who.partition("_graph")
        style, dashed = names.index(name), bool(graph)
        points = sorted((getattr(key, along), key.tflops(by[who])) for key, by in times.items() if who in by)
        xs, ys = zip(*points, strict=True)
        rates.append(Series(who, style, xs, ys, dashed))
        if name != "tileon":
            ratios += ratio_series(times, f"{who}: {{mean}}", style, along, f"tileon{graph}", who, dashed=dashed)
    found = LinePanel(title, words, tuple(rates), "TFLOP/s")
    return (found, LinePanel(title, words, tuple(ratios))) if ratios else (found,)


def _sweeps(times: Times) -> Iterator[tuple[str, str, Times]]:
    """Of one group, what the size is, the words for it, and the products of several sizes."""
    squares = times.where(lambda key: key.is_square)
    if len(squares) > 1:
        yield "m", "m = n = k", squares
    for m, n in dict.fromkeys((key.m, key.n) for key in times):
        mine = Times((key, by) for key, by in times.items() if (key.m, key.n) == (m, n))
        points = Counter(who for by in mine.values() for who in by)
        swept = {key: {who: us for who, us in by.items() if points[who] > 1} for key, by in mine.items()}
        mine = Times((key, by) for key, by in swept.items() if by)
        if len(mine) > 1:
            yield "k", f"k (m = {m}, n = {n})", mine


def picture_of(source: Path) -> Picture:
    """The picture of one file; a ValueError where it holds nothing to be drawn."""
    head, rows = read_csv(source)
    lines = []
    for data in DATA if "data" in (rows or [{}])[0] else (None,):
        times = read_times(source, data)[1].where(lambda key: key.epilogue == "none")
        for kind in dict.fromkeys((key.dtype, key.layout) for key in times):
            title = " ".join(kind) + (f", {data} data" if data else "")
            mine = Times((key, by) for key, by in times.items() if (key.dtype, key.layout) == kind)
            lines += [_panels(title, *sweep) for sweep in _sweeps(mine)]
    if not lines:
        raise ValueError(f"{portable_path(source)} holds no plain product of several sizes")
    notes = [f"Timing: {head.get('timing', '')}.", head.get("command", "")]
    title = f"{rows[0]['op']}, {machines([head])}"
    return Picture(source.stem, title, caption_of({source.name: head}, notes), tuple(lines))


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
    raise SystemExit(main())
