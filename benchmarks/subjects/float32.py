"""float32 products without TF32 against torch: the cases of float32.csv, their targets, and the tables."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.cases import Case, Work, square_cases
from benchmarks.common.markdown import page_part, rates, ratio, table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Asked, Target, each_target, targets_of
from benchmarks.common.times import Comparison, Times, read_times, rectangles, square
from benchmarks.subjects.squares16 import EPILOGUE_SQUARES, linear_table

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
        square_cases(SQUARES, dtype, _LAYOUTS)
        + square_cases((1024, 2048, 4096), dtype, ["TN", "TT"])
        + square_cases(EPILOGUE_SQUARES, dtype, ["NN"], ["bias+leaky_relu"])
        + layer_cases()
    )
    return [Work(case, _PROVIDERS) for case in cases]


# Targets: of all cases of a kind, or not measured.

SQUARE_KEYS = {
    layout: [square("float32", layout, size) for size in SQUARES if size >= _FIRST_SQUARE] for layout in _LAYOUTS
}
LAYER_KEYS = [Case("float32", "NT", m, n, k) for n, k in WEIGHTS for m in LINEAR_ROWS if m >= _FIRST_ROWS]
GRADIENT_KEYS = [Case("float32", "TN", *shape) for shape in GRADIENTS]
_ASKED = [
    *(
        Asked(f"float32 {layout} squares from {_FIRST_SQUARE}, torch / ours", keys, _SQUARES_MEAN, _SQUARES_EACH)
        for layout, keys in SQUARE_KEYS.items()
    ),
    Asked(f"float32 linear layers from {_FIRST_ROWS} rows, torch / ours", LAYER_KEYS, _LAYERS_MEAN),
    Asked("float32 gradients of weights, torch / ours", GRADIENT_KEYS, _LAYERS_MEAN),
]


def _error_rows(source: Path) -> dict[str, dict[str, dict[str, str]]]:
    """Of accuracy.csv, what float32 has, by shape and provider."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for row in read_csv(source)[1] if source.exists() else []:
        if row["dtype"] == "float32":
            found.setdefault(f"{row['m']} x {row['n']} x {row['k']}", {})[row["provider"]] = row
    return found


def _error_target(source: Path) -> Target:
    """The root mean square error against float64, at every shape."""
    errors, found = _error_rows(source), []
    if all({*_PROVIDERS} <= by.keys() for by in errors.values()):
        for shape, by in errors.items():
            ours, torch = (float(by[who]["rms_error"]) for who in _PROVIDERS)
            found.append((shape.replace(" ", ""), ours / torch))
    found.sort(key=lambda item: (item[1], item[0]), reverse=True)
    return each_target("float32 rms error, ours / torch", found, _ERROR, most=True)


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """Of float32.csv, and of float32's errors in accuracy.csv."""
    return [*targets_of(read_times(source)[1], _ASKED), _error_target(source.with_name("accuracy.csv"))]


@of_file(SOURCE)
def comparisons(source: Path) -> list[Comparison]:
    """Of the kernels that the library chooses."""
    times = read_times(source)[1]
    return [
        *times.compared_squares("float32", ("float32",)),
        *times.compared("float32 linear layers, NT", rectangles("float32", "NT")),
        *times.compared("float32 weight gradients, TN", rectangles("float32", "TN")),
    ]


# Tables.


def _rates(times: Times, key: Case) -> list[str]:
    """Ours, torch's, and how many times torch's ours is."""
    return [*rates(times, key, _PROVIDERS, 1), ratio(times.get(key, {}), "torch")]


def _square_table(times: Times) -> list[str]:
    rows = [
        [str(size), *(cell for layout in _LAYOUTS for cell in _rates(times, square("float32", layout, size)))]
        for size in _SHOWN_SQUARES
    ]
    columns = [f"{layout} {column}" for layout in _LAYOUTS for column in _COLUMNS]
    return table("", ["m = n = k", *columns], rows)


def _gradient_table(times: Times) -> list[str]:
    found = times.ratios(rectangles("float32", "TN"))
    if found is None:
        return []
    words = f"Gradients of weights (TN), TFLOP/s; torch's time over ours {found.mean:.2f} in geometric mean:"
    return table(words, ["m x n x k", *_COLUMNS], [[key.short, *_rates(times, key)] for key in found.by_case])


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    head, times = read_times(source)
    words = (
        "float32 without TF32, by the library's choice of a kernel, against torch (cuBLAS), TFLOP/s "
        f"({head.get('timing', '')}):"
    )
    means = [[one.words, *one.cells] for one in comparisons(source.parent)]
    mean_table = table("torch's time over ours, in geometric mean:", ["product", "cases", "mean", "worst"], means)
    lines = [words, "", *_square_table(times), *mean_table, *linear_table(times, "float32"), *_gradient_table(times)]
    return page_part(source, lines, targets(source.parent))


@of_file("accuracy.csv")
def accuracy_part(source: Path) -> list[str]:
    """Errors of the float32 product against float64."""
    rows = [
        [shape, *(by[who][error] for error in ("max_error", "rms_error") for who in _PROVIDERS)]
        for shape, by in _error_rows(source).items()
        if {*_PROVIDERS} <= by.keys()
    ]
    columns = ["m x n x k", "tileon, max", "torch, max", "tileon, rms", "torch, rms"]
    return page_part(source, table("Error of the float32 product (no TF32) against float64:", columns, rows))
