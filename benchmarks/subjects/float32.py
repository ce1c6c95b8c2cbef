"""float32 products without TF32 against torch: the cases of float32.csv, their targets, and the tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.common.cases import Case, Work
from benchmarks.common.cases import squares as square_cases
from benchmarks.common.markdown import not_met, rates, ratio, source_line, table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Target, each_target, mean_target, worst_target
from benchmarks.common.times import (
    Comparison,
    Key,
    Times,
    compared,
    plain,
    ratios,
    ratios_of_all,
    read_times,
    square,
    squares_over_torch,
)
from benchmarks.subjects.squares16 import EPILOGUE_SQUARES, linear_lines

SOURCE = "float32.csv"
SQUARES = (*range(256, 4097, 256), 8192)
LINEAR_ROWS = (1, 16, 64, 128, 512, 2048, 8192)
WEIGHTS = ((768, 768), (3072, 768), (768, 3072), (4096, 4096), (14336, 4096))  # n, k
GRADIENTS = ((768, 768, 8192), (3072, 768, 8192), (4096, 4096, 8192), (512, 512, 16384))  # of weights: k is rows

_LAYOUTS = ("NN", "NT")
_FIRST_SQUARE, _FIRST_ROWS = 768, 512  # of the targets: smaller products may stay with the portable kernels
_SQUARES_MEAN, _SQUARES_EACH, _LAYERS_MEAN = 1.80, 1.10, 1.50  # torch's time over ours, at least
_ERROR = 1.05  # our error over torch's, at most
_SHOWN_SQUARES = (256, 512, 768, 1024, 2048, 4096, 8192)
_PROVIDERS = ("tileon", "torch")
_COLUMNS = (*_PROVIDERS, "tileon / torch")


def layer_cases() -> list[Case]:
    """Linear layers, NT, and gradients of weights, TN."""
    layers = [Case("float32", "NT", m, n, k) for n, k in WEIGHTS for m in LINEAR_ROWS]
    return layers + [Case("float32", "TN", *shape) for shape in GRADIENTS]


def work() -> list[Work]:
    """Squares, NN and NT; TN, TT and a fused epilogue from 1024; and the layers."""
    dtype = ["float32"]
    cases = (
        square_cases(SQUARES, dtype, _LAYOUTS, ["none"])
        + square_cases((1024, 2048, 4096), dtype, ["TN", "TT"], ["none"])
        + square_cases(EPILOGUE_SQUARES, dtype, ["NN"], ["bias+leaky_relu"])
        + layer_cases()
    )
    return [Work(case, _PROVIDERS) for case in cases]


# Targets: of all cases of a kind, or not measured.


def square_keys(layout: str) -> list[Key]:
    return [square("float32", layout, size) for size in SQUARES if size >= _FIRST_SQUARE]


def layer_keys() -> list[Key]:
    return [Key("float32", "NT", m, n, k, "none") for n, k in WEIGHTS for m in LINEAR_ROWS if m >= _FIRST_ROWS]


def gradient_keys() -> list[Key]:
    return [Key("float32", "TN", *shape, "none") for shape in GRADIENTS]


def _error_target(source: Path) -> Target:
    """The root mean square error against float64, at every shape."""
    errors: dict[str, dict[str, float]] = {}
    for row in read_csv(source)[1] if source.exists() else []:
        if row["dtype"] == "float32":
            shape = f"{row['m']}x{row['n']}x{row['k']}"
            errors.setdefault(shape, {})[row["provider"]] = float(row["rms_error"])
    whole = all({"tileon", "torch"} <= by.keys() for by in errors.values())
    found = [(shape, by["tileon"] / by["torch"]) for shape, by in errors.items()] if whole else []
    found.sort(key=lambda item: (item[1], item[0]), reverse=True)
    asked = f"each <= {_ERROR:.2f}"
    return each_target("float32 rms error, ours / torch", asked, found, lambda over: over <= _ERROR, worst=max)


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """Of float32.csv, and of float32's errors in accuracy.csv."""
    times = read_times(source)[1]
    found = []
    for layout in _LAYOUTS:
        over = ratios_of_all(times, "torch", "tileon", square_keys(layout))
        name = f"float32 {layout} squares from {_FIRST_SQUARE}, torch / ours"
        found += [mean_target(name, over, _SQUARES_MEAN), worst_target(name, over, _SQUARES_EACH)]
    kinds = {f"linear layers from {_FIRST_ROWS} rows": layer_keys(), "gradients of weights": gradient_keys()}
    for words, keys in kinds.items():
        over = ratios_of_all(times, "torch", "tileon", keys)
        found.append(mean_target(f"float32 {words}, torch / ours", over, _LAYERS_MEAN))
    return [*found, _error_target(source.with_name("accuracy.csv"))]


def comparisons(times: Times) -> list[Comparison]:
    """Of README's table and the overview: the kernels that the library chooses."""
    return compared(
        times,
        *squares_over_torch("float32", ("float32",)),
        ("float32 linear layers, NT", "torch", "tileon", plain("float32", "NT", squares=False)),
        ("float32 weight gradients, TN", "torch", "tileon", plain("float32", "TN", squares=False)),
    )


# Tables.


def _rates(times: Times, key: Key) -> list[str]:
    """Ours, torch's, and how many times torch's ours is."""
    by = times.get(key, {})
    return [*rates(key, by, _PROVIDERS, 1), ratio(by, "torch")]


def _squares(times: Times) -> list[str]:
    rows = []
    for size in _SHOWN_SQUARES:
        keys = [square("float32", layout, size) for layout in _LAYOUTS]
        rows.append([str(size), *(cell for key in keys for cell in _rates(times, key))])
    columns = [f"{layout} {column}" for layout in _LAYOUTS for column in _COLUMNS]
    return table(["m = n = k", *columns], [row for row in rows if any(row[1:])], 1)


def _means(times: Times) -> list[str]:
    def large(layout: str) -> Callable[[Key], bool]:
        mine = plain("float32", layout)
        return lambda key: mine(key) and key.m >= _FIRST_SQUARE

    sets: dict[str, Callable[[Key], bool]] = {
        **{f"{layout}, from {_FIRST_SQUARE} on": large(layout) for layout in _LAYOUTS},
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


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """The page's part."""
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
        *not_met(targets(source.parent)),
        source_line(source, head),
    ]


@of_file("accuracy.csv")
def accuracy_part(source: Path) -> list[str]:
    """Errors of the float32 product against float64."""
    head, rows = read_csv(source)
    found: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows:
        if row["dtype"] == "float32":
            found.setdefault(f"{row['m']} x {row['n']} x {row['k']}", {})[row["provider"]] = row
    lines = [
        [shape, *(by[name][error] for error in ("max_error", "rms_error") for name in _PROVIDERS)]
        for shape, by in found.items()
        if set(_PROVIDERS) <= by.keys()
    ]
    columns = ["m x n x k", "tileon, max", "torch, max", "tileon, rms", "torch, rms"]
    words = "Error of the float32 product (no TF32) against float64:"
    return [words, "", *table(columns, lines, 1), "", source_line(source, head)]
