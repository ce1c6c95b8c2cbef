"""Block-scaled products by rows of `a`, and what mxfp4 becomes: tables of block_scaled_matmul.csv."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.common.markdown import rates, ratio, source_line, table
from benchmarks.common.result_file import of_file
from benchmarks.common.times import Key, Times, read_times, square
from benchmarks.subjects.block_scaled_presets import HOPPER_SQUARES

FORMATS = ("mxfp8", "mxfp4", "mixed", "nvfp4")  # in the order of the tables
SOURCE = "block_scaled_matmul.csv"
CUBLAS = "cuBLAS on bfloat16"
_WEIGHT = 8192  # n and k of the weight that most of the file's cases have
_PREPARED = "tileon, prepared weight"
_PREPARED_SENTENCE = (
    "A prepared weight is that of the private op `_block_scaled_matmul_prepared`, which no layer uses today"
)

# What mxfp4 becomes (docs/block_scaled_on_hopper.md): data, provider, words.
_FORMS = (
    ("normal", "tileon", "mxfp4, normal: int8"),
    ("normal", "tileon_fast", "mxfp4, normal, `fast_accum`: int8, by the tile of e5m2"),
    ("tutorial", "tileon", "mxfp4, tutorial: bfloat16"),
    ("tutorial", "tileon_fast", "mxfp4, tutorial, `fast_accum`: e5m2"),
)


def _product(name: str, rows: int) -> Key:
    """Of so many rows and the weight of 8192 x 8192."""
    return Key(name, "NT", rows, _WEIGHT, _WEIGHT, "none")


def _pair(by: dict[str, float]) -> tuple[float, float] | None:
    """Our time and cuBLAS's: by graph replay where the file has that, else by events."""
    for suffix in ("_graph", ""):
        ours, cublas = f"tileon{suffix}", f"torch_bf16{suffix}"
        if {ours, cublas} <= by.keys():
            return by[ours], by[cublas]
    return None


def few_rows_lines(times: Times) -> list[str]:
    """Microseconds by graph replay, where a file has such cases."""
    rows = []
    for name in FORMATS:
        for key, by in times.items():
            if key.dtype == name and {"tileon_graph", "torch_bf16_graph"} <= by.keys():
                figures = [f"{by[who]:.1f}" for who in ("tileon_graph", "torch_bf16_graph")]
                over = ratio(by, "torch_bf16_graph", "tileon_graph")
                rows.append([name, f"{key.n} x {key.k}", str(key.m), *figures, over])
    if not rows:
        return []
    columns = ["format", "weight, n x k", "rows", "tileon", CUBLAS, f"{CUBLAS} / tileon"]
    return [
        "Few rows of `a`: microseconds by CUDA-graph replay, over weights that have left L2, normal data. The last "
        "column is cuBLAS's time over ours:",
        "",
        *table(columns, rows, 2),
        "",
    ]


def more_rows_lines(times: Times) -> list[str]:
    """Microseconds of the products that were measured with a prepared weight as well, where a file has such cases."""
    rows = []
    for name in FORMATS:
        for key, by in times.items():
            if key.dtype == name and {"tileon", "tileon_prepared", "torch_bf16"} <= by.keys():
                figures = [f"{by[who]:.1f}" for who in ("tileon", "tileon_prepared", "torch_bf16")]
                over = [ratio(by, "torch_bf16", who) for who in ("tileon", "tileon_prepared")]
                rows.append([name, f"{key.n} x {key.k}", str(key.m), *figures, *over])
    if not rows:
        return []
    columns = ["format", "weight, n x k", "rows", "tileon", _PREPARED, CUBLAS]
    columns += [f"{CUBLAS} / tileon", f"{CUBLAS} / prepared"]
    return [
        f"More rows of `a`: microseconds, normal data; the last columns are cuBLAS's time over ours. "
        f"{_PREPARED_SENTENCE}:",
        "",
        *table(columns, rows, 2),
        "",
    ]


def _runs(measured: list[int], slower: list[int]) -> str:
    """Those numbers of rows where cuBLAS is faster, each unbroken run of measured ones by its first and last."""
    runs: list[list[int]] = []
    for place, rows in enumerate(measured):
        if rows not in slower:
            continue
        if runs and place > 0 and measured[place - 1] == runs[-1][-1]:
            runs[-1].append(rows)
        else:
            runs.append([rows])
    return " and ".join(f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def by_rows_lines(times: Times) -> list[str]:
    """cuBLAS's time over ours by rows of `a`, and where it is the faster one; nothing where none was measured."""
    found = {
        (key.dtype, key.m): pair[1] / pair[0]
        for key, by in times.items()
        if key == _product(key.dtype, key.m)
        for pair in [_pair(by)]
        if pair is not None
    }
    if not found:
        return []
    numbers = sorted({rows for _, rows in found})
    lines, slower = [], []
    for name in FORMATS:
        measured = [rows for rows in numbers if (name, rows) in found]
        if measured:
            lines.append([name, *(f"{found[name, m]:.2f}" if (name, m) in found else "" for m in numbers)])
            runs = _runs(measured, [rows for rows in measured if found[name, rows] < 1])
            slower += [f"{name} at {runs} rows"] if runs else []
    said = f" Below 1 cuBLAS is the faster one: {', '.join(slower)}." if slower else ""
    return [
        "",
        f"By rows of `a`: the time of {CUBLAS} operands over ours, with a weight of {_WEIGHT} x {_WEIGHT}, normal "
        f"data, up to 64 rows by CUDA-graph replay.{said}",
        "",
        *table(["format", *(f"{rows} rows" if rows > 1 else "1 row" for rows in numbers)], lines, 1),
    ]


def _few_rows(times: Times) -> list[str]:
    """Of every format with the weight of 8192 x 8192, side by side."""
    timed = {
        key: (by["tileon_graph"], by["torch_bf16_graph"])
        for key, by in times.items()
        if {"tileon_graph", "torch_bf16_graph"} <= by.keys() and key == _product(key.dtype, key.m)
    }
    numbers = sorted({key.m for key in timed})
    lines = []
    for name in FORMATS:
        pairs = [timed.get(_product(name, rows)) for rows in numbers]
        if any(pairs):
            lines.append([name, *(f"{us:.1f}" if pair else "" for pair in pairs for us in (pair or ("", "")))])
    words = [f"{rows} row{'s' if rows > 1 else ''}" for rows in numbers]
    return [
        f"Microseconds by CUDA-graph replay over weights that have left L2, n = k = {_WEIGHT}, normal data; beside "
        f"ours the time of {CUBLAS} operands:",
        "",
        *table(["format", *(column for word in words for column in (word, "cuBLAS"))], lines, 1),
        "",
    ]


def _forms(source: Path) -> list[str]:
    """TFLOP/s of mxfp4 on squares, by what its operands become; in brackets dequantization and cuBLAS."""
    lines = []
    for data, provider, words in _FORMS:
        times, cells = read_times(source, data)[1], []
        for key in (square("mxfp4", "NT", size) for size in HOPPER_SQUARES):
            ours, peer = rates(key, times.get(key, {}), (provider, "torch_dequantize"))
            cells.append(f"{ours} ({peer})" if ours and peer else "")
        lines.append([words, *cells])
    return [
        "TFLOP/s at m = n = k, preparing included; in brackets a compiled dequantization and cuBLAS in the same run. "
        "The tutorial's data do not fit int8:",
        "",
        *table(["format, data: form", *(str(size) for size in HOPPER_SQUARES)], lines, 1),
        "",
    ]


def _page_part(lines_of: Callable[[Path], list[str]]) -> Callable[[Path], list[str]]:
    """A part with the sentence of where it is from."""
    return of_file(SOURCE)(lambda source: [*lines_of(source), source_line(source, read_times(source)[0])])


few_rows_part = _page_part(lambda source: _few_rows(read_times(source, "normal")[1]))
prepared_part = _page_part(lambda source: more_rows_lines(read_times(source, "normal")[1]))
forms_part = _page_part(_forms)
