"""The tables of float32 and float64: rates of the portable kernels and errors of float32. See result_tables.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.report.markdown import source_line, table

_SIZE = "4096"  # m = n = k of the table

_DTYPE_WORDS = {"tf32": "float32, TF32 allowed"}
_DTYPE_ORDER = ("bfloat16", "float16", "float32", "tf32", "float64")


def speed_part(results: Path) -> list[str]:
    """TFLOP/s at 4096 x 4096 x 4096, NN, by dtype and epilogue; of float16 and bfloat16 matmul.csv says more."""
    source = results / "portable.csv"
    if not source.exists():
        return []
    head, rows = read_csv(source)
    if (results / "matmul.csv").exists():
        rows = [row for row in rows if row["dtype"] not in ("float16", "bfloat16")]
    rates: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        if row["layout"] == "NN" and row["m"] == row["n"] == row["k"] == _SIZE:
            rates.setdefault((row["dtype"], row["epilogue"]), {})[row["provider"]] = float(row["tflops"])
    lines = []
    for dtype, epilogue in sorted(rates, key=lambda key: _DTYPE_ORDER.index(key[0])):  # stable: epilogues as measured
        rate = rates[dtype, epilogue]
        cells = [f"{rate[name]:.1f}" if name in rate else "" for name in ("tileon", "torch", "triton")]
        ratio = f"{rate['tileon'] / rate['torch']:.2f}" if {"tileon", "torch"} <= rate.keys() else ""
        lines.append([_DTYPE_WORDS.get(dtype, dtype), f"`{epilogue}`", *cells, ratio])
    columns = ["dtype", "epilogue", "tileon", "torch", "triton", "tileon / torch"]
    return [
        "By the portable kernels, on which float32 runs elsewhere than on Hopper, TFLOP/s at "
        f"m = n = k = {_SIZE}, NN, {head.get('timing', '')}:",
        "",
        *table(columns, lines, 2),
        "",
        source_line(source, head),
    ]


def accuracy_part(results: Path) -> list[str]:
    """Errors of the float32 product against float64."""
    source = results / "accuracy.csv"
    if not source.exists():
        return []
    head, rows = read_csv(source)
    found: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows:
        if row["dtype"] == "float32":
            found.setdefault(f"{row['m']} x {row['n']} x {row['k']}", {})[row["provider"]] = row
    lines = [
        [shape, *(by[name][error] for error in ("max_error", "rms_error") for name in ("tileon", "torch"))]
        for shape, by in found.items()
        if {"tileon", "torch"} <= by.keys()
    ]
    columns = ["m x n x k", "tileon, max", "torch, max", "tileon, rms", "torch, rms"]
    return [
        "Error of the float32 product (no TF32) against float64:",
        "",
        *table(columns, lines, 1),
        "",
        source_line(source, head),
    ]
