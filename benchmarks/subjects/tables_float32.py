"""The tables of float32 products without TF32, from float32.csv. See result_tables.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.common.times import Key, Times, ratios, read_times
from benchmarks.report.markdown import not_met, source_line, table
from benchmarks.report.targets import plain
from benchmarks.subjects.bars_float32 import SQUARES, float32_bars
from benchmarks.subjects.tables_matmul import linear_lines

_SHOWN_SQUARES = (256, 512, 768, 1024, 2048, 4096, 8192)
_PROVIDERS = ("tileon", "torch")
_COLUMNS = (*_PROVIDERS, "tileon / torch")


def _rates(times: Times, key: Key) -> list[str]:
    """Ours, torch's, and how many times torch's ours is."""
    by = times.get(key, {})
    flops = 2e-6 * key.m * key.n * key.k
    cells = [f"{flops / by[who]:.1f}" if who in by else "" for who in _PROVIDERS]
    return [*cells, f"{by['torch'] / by['tileon']:.2f}" if set(_PROVIDERS) <= by.keys() else ""]


def _squares(times: Times) -> list[str]:
    rows = []
    for size in _SHOWN_SQUARES:
        keys = [Key("float32", layout, size, size, size, "none") for layout in ("NN", "NT")]
        rows.append([str(size), *(cell for key in keys for cell in _rates(times, key))])
    columns = [f"{layout} {column}" for layout in ("NN", "NT") for column in _COLUMNS]
    return table(["m = n = k", *columns], [row for row in rows if any(row[1:])], 1)


def _means(times: Times) -> list[str]:
    first = SQUARES[0]

    def large(layout: str) -> Callable[[Key], bool]:
        square = plain("float32", layout)
        return lambda key: square(key) and key.m >= first

    sets: dict[str, Callable[[Key], bool]] = {
        **{f"{layout}, from {first} on": large(layout) for layout in ("NN", "NT")},
        **{layout: plain("float32", layout) for layout in ("TN", "TT")},
        "NN, `bias` and `leaky_relu`": lambda key: key.epilogue == "bias+leaky_relu",
    }
    rows = []
    for what, among in sets.items():
        found = ratios(times, "torch", "tileon", among)
        if found is not None:
            key, worst = found.worst
            rows.append([what, str(len(found.by_case)), f"{found.mean:.2f}", f"{worst:.2f} at {key.shape}"])
    return ["torch's time over ours, in geometric mean:", "", *table(["squares", "cases", "mean", "worst"], rows, 1)]


def _gradients(times: Times) -> list[str]:
    found = ratios(times, "torch", "tileon", plain("float32", "TN", squares=False))
    if found is None:
        return []
    rows = [[key.shape, *_rates(times, key)] for key in found.by_case]
    words = f"Gradients of weights (TN), TFLOP/s; torch's time over ours {found.mean:.2f} in geometric mean:"
    return [words, "", *table(["m x n x k", *_COLUMNS], rows, 1), ""]


def float32_part(results: Path) -> list[str]:
    """Everything, or nothing while there is no float32.csv."""
    source = results / "float32.csv"
    if not source.exists():
        return []
    head, times = read_times(source)
    return [
        "float32 without TF32, by the library's choice of a kernel, against torch (cuBLAS), TFLOP/s "
        f"({head.get('timing', '')}):",
        "",
        *_squares(times),
        "",
        *_means(times),
        "",
        *linear_lines(times, "float32"),
        *_gradients(times),
        *not_met(float32_bars(results)),
        source_line(source, head),
    ]
