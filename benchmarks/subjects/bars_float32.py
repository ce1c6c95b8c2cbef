"""The marks of float32 products without TF32: see bars.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.common.times import Key, Ratios, Times, ratios_of_all, read_times
from benchmarks.report.target import Bar, mean_bar, worst_bar

SQUARES = (*range(768, 4097, 256), 8192)  # smaller ones may stay with the portable kernels
LAYOUTS = ("NN", "NT")
LINEAR_ROWS = (512, 2048, 8192)
WEIGHTS = ((768, 768), (3072, 768), (768, 3072), (4096, 4096), (14336, 4096))  # n, k
GRADIENTS = ((768, 768, 8192), (3072, 768, 8192), (4096, 4096, 8192), (512, 512, 16384))  # m, n, k

_SQUARES_MEAN, _SQUARES_EACH, _LAYERS_MEAN = 1.80, 1.10, 1.50  # torch's time over ours, at least
_ERROR = 1.05  # our error over torch's, at most


def squares(layout: str) -> list[Key]:
    return [Key("float32", layout, size, size, size, "none") for size in SQUARES]


def layers() -> list[Key]:
    return [Key("float32", "NT", m, n, k, "none") for n, k in WEIGHTS for m in LINEAR_ROWS]


def gradients() -> list[Key]:
    return [Key("float32", "TN", *shape, "none") for shape in GRADIENTS]


def over_torch(times: Times, keys: list[Key]) -> Ratios | None:
    """torch's time over ours; None unless every case has both."""
    return ratios_of_all(times, "torch", "tileon", keys)


def _error_bar(source: Path) -> Bar:
    """The root mean square error against float64, at every shape."""
    errors: dict[str, dict[str, float]] = {}
    for row in read_csv(source)[1] if source.exists() else []:
        if row["dtype"] == "float32":
            shape = f"{row['m']}x{row['n']}x{row['k']}"
            errors.setdefault(shape, {})[row["provider"]] = float(row["rms_error"])
    what, asked = "float32 rms error, ours / torch", f"each <= {_ERROR:.2f}"
    if not errors or not all({"tileon", "torch"} <= by.keys() for by in errors.values()):
        return Bar(what, asked, "", None)
    found = sorted(((by["tileon"] / by["torch"], shape) for shape, by in errors.items()), reverse=True)
    beyond = ", ".join(f"{shape} {ratio:.3f}" for ratio, shape in found if ratio > _ERROR)
    return Bar(what, asked, beyond or f"worst {found[0][0]:.3f} at {found[0][1]}", not beyond)


def float32_bars(results: Path) -> list[Bar]:
    """Nothing while there is no float32.csv."""
    source = results / "float32.csv"
    if not source.exists():
        return []
    times = read_times(source)[1]
    bars = []
    for layout in LAYOUTS:
        found, name = over_torch(times, squares(layout)), f"float32 {layout} squares from {SQUARES[0]}, torch / ours"
        bars += [mean_bar(name, found, _SQUARES_MEAN), worst_bar(name, found, _SQUARES_EACH)]
    large = f"float32 linear layers from {LINEAR_ROWS[0]} rows, torch / ours"
    return [
        *bars,
        mean_bar(large, over_torch(times, layers()), _LAYERS_MEAN),
        mean_bar("float32 gradients of weights, torch / ours", over_torch(times, gradients()), _LAYERS_MEAN),
        _error_bar(results / "accuracy.csv"),
    ]
