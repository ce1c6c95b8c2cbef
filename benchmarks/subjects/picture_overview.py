"""The picture of everything: one row of dots for each kind of work, the peer's time over ours in every case measured.

From every result file of the folder that holds a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.common.times import Key, Times, ratios, read_times
from benchmarks.report.picture import DotPanel, DotRow, Picture, caption_of, machine
from benchmarks.subjects.bars_block_scaled import KINDS
from benchmarks.subjects.comparisons import (
    Comparison,
    float32_comparisons,
    fp8_comparisons,
    matmul_comparisons,
    portable_comparisons,
)
from benchmarks.subjects.picture_training import host_ratios, layer_ratios, parallel_ratios
from benchmarks.subjects.tables_awkward import SOURCE as AWKWARD_OUTPUTS
from benchmarks.subjects.tables_awkward import other_outputs_comparison, vocabulary_comparison
from benchmarks.subjects.tables_training import HOST_FUNCTIONS

_READING = (
    "A dot is a case: the peer's time divided by tileon's. Right of 1 tileon is faster, left of it (shaded) the peer. "
    "The black mark is the geometric mean; at the right it stands in figures, with the range and the number of cases. "
    "16-bit is float16 and bfloat16; NN is a @ b of row-major operands, NT x @ weight.t(), a linear layer."
)
_TRITON = "triton"

# Of block-scaled formats, by words: the format and the kinds of data. What mxfp4 becomes, and so how fast it is,
# depends on the data: int8 takes normal ones, bfloat16 the tutorial's. The others become bfloat16 with either.
_BLOCK_SCALED: dict[str, tuple[str, tuple[str, ...]]] = {
    "mxfp8": ("mxfp8", KINDS),
    "mxfp4, normal data": ("mxfp4", ("normal",)),
    "mxfp4, tutorial data": ("mxfp4", ("tutorial",)),
    "mixed": ("mixed", KINDS),
    "nvfp4": ("nvfp4", KINDS),
}


def _row(label: str, style: str, values: Iterable[float], heading: str = "") -> DotRow:
    return DotRow(label, ((style, tuple(values)),), heading)


def _rows(comparisons: list[Comparison]) -> list[DotRow]:
    """Those of README's table: the same words, but for the peer, which has a column there."""
    return [
        _row(
            one.words.replace("`", "") + (", against Triton" if one.peer == _TRITON else ""),
            one.peer,
            one.found.by_case.values(),
        )
        for one in comparisons
    ]


def _among(times: Times, over: str, under: str, among: Callable[[Key], bool]) -> list[float]:
    found = ratios(times, over, under, among)
    return list(found.by_case.values()) if found else []


def _graphs_row(times: Times, layout: str) -> DotRow:
    found = _among(times, "torch_graph", "tileon_graph", lambda key: key.layout == layout)
    return _row(f"float16 squares, {layout}, CUDA graphs", "torch", found)


def _matmul_rows(source: Path) -> list[DotRow]:
    _, times = read_times(source)
    return [*_rows(matmul_comparisons(times)), *(_graphs_row(times, layout) for layout in ("NN", "NT"))]


def _outputs_rows(source: Path) -> list[DotRow]:
    return _rows(vocabulary_comparison(source.parent) + other_outputs_comparison(source.parent))


def _awkward_rows(source: Path) -> list[DotRow]:
    """The GPU's time alone: what the host costs stands in a row of its own. Without the cases that have a file of
    their own, where that is there."""
    outputs = source.with_name(AWKWARD_OUTPUTS)
    elsewhere = {row["case"] for row in read_csv(outputs)[1]} if outputs.exists() else set()
    times: dict[tuple[str, ...], dict[str, float]] = {}
    for row in read_csv(source)[1]:
        if row["mode"] == "graph" and row["case"] not in elsewhere:
            case = tuple(row[column] for column in ("dtype", "case", "m", "n", "k"))
            times.setdefault(case, {})[row["provider"]] = float(row["median_us"])
    found = [by["torch"] / by["tileon"] for by in times.values() if {"torch", "tileon"} <= by.keys()]
    return [_row("bfloat16, unaligned or strided operands", "torch", found)]


def _portable_rows(source: Path) -> list[DotRow]:
    """Without float32, where float32.csv says what the library's choice of a kernel does with it."""
    float32 = not source.with_name("float32.csv").exists()
    return _rows(portable_comparisons(read_times(source)[1], float32=float32))


def _of_file(compare: Callable[[Times], list[Comparison]], source: Path) -> list[DotRow]:
    return _rows(compare(read_times(source)[1]))


def _by_format(source: Path, words: str, style: str, peer: str, among: Callable[[Key], bool]) -> list[DotRow]:
    """A row for each format, and for each kind of data on which the format's speed depends."""
    times = {data: read_times(source, data)[1] for data in KINDS}
    rows = []
    for label, (name, kinds) in _BLOCK_SCALED.items():

        def mine(key: Key, name: str = name) -> bool:
            return key.dtype == name and among(key)

        rows.append(
            _row(
                f"{label}: {words}",
                style,
                [ratio for data in kinds for ratio in _among(times[data], peer, "tileon", mine)],
            )
        )
    return rows


def _dequantize_rows(source: Path) -> list[DotRow]:
    return _by_format(source, "squares", "torch", "torch_dequantize", lambda key: key.is_square)


def _bfloat16_rows(source: Path) -> list[DotRow]:
    """By rows of `a`: each format apart where some are faster than bfloat16 and others slower."""
    peer, normal = "torch_bf16", read_times(source, "normal")[1]
    few = _among(normal, f"{peer}_graph", "tileon_graph", lambda key: not key.is_square)
    return [
        _row("all formats: 1 to 64 rows", peer, few),
        *_by_format(source, "128 to 1024 rows", peer, peer, lambda key: key.m <= 1024 < key.n),
        *_by_format(source, "2048 to 8192 rows", peer, peer, lambda key: key.m >= 2048),
    ]


def _triton_rows(source: Path) -> list[DotRow]:
    rows = _by_format(source, "squares", _TRITON, _TRITON, lambda key: key.is_square)
    return [_row("mxfp8, mxfp4, mixed: squares", _TRITON, [ratio for row in rows for ratio in row.values])]


def _layer_rows(source: Path) -> list[DotRow]:
    found = layer_ratios(source)
    words = {"forward": "linear layer, forward", "forward_backward": "linear layer, forward + backward"}
    return [
        _row(words[which], "torch", [ratio for (_, its, _), ratio in found.items() if its == which]) for which in words
    ]


def _parallel_rows(source: Path) -> list[DotRow]:
    return [_row("MLP on 1 and 2 GPUs", "torch", parallel_ratios(source).values())]


def _host_rows(source: Path) -> list[DotRow]:
    found = host_ratios(source)
    return [
        _row(f"host time of {function}", "torch", [ratio for (_, ours), ratio in found.items() if ours == who])
        for who, function in HOST_FUNCTIONS.items()
        if who != "torch"
    ]


_BLOCK_SCALED_FILE = "block_scaled_matmul.csv"
_GROUPS: tuple[tuple[str, tuple[tuple[str, Callable[[Path], list[DotRow]]], ...]], ...] = (
    (
        "matmul",
        (
            ("matmul.csv", _matmul_rows),
            ("awkward.csv", _awkward_rows),
            (AWKWARD_OUTPUTS, _outputs_rows),
            ("float32.csv", partial(_of_file, float32_comparisons)),
            ("portable.csv", _portable_rows),
        ),
    ),
    ("matmul of fp8, against torch._scaled_mm", (("fp8.csv", partial(_of_file, fp8_comparisons)),)),
    ("block-scaled, against dequantize, cuBLAS", ((_BLOCK_SCALED_FILE, _dequantize_rows),)),
    ("block-scaled, against cuBLAS on bfloat16", ((_BLOCK_SCALED_FILE, _bfloat16_rows),)),
    ("block-scaled, against Triton's dot_scaled", ((_BLOCK_SCALED_FILE, _triton_rows),)),
    (
        "training and calls",
        (("layer.csv", _layer_rows), ("parallel.csv", _parallel_rows), ("host.csv", _host_rows)),
    ),
)
SOURCES = tuple(dict.fromkeys(name for _, makers in _GROUPS for name, _ in makers))


def overview_picture(results: Path) -> Picture | None:
    """Of whatever files are there."""
    rows: list[DotRow] = []
    heads = {}
    for heading, makers in _GROUPS:
        for name, make in makers:
            source = results / name
            found = [row for row in make(source) if row.values] if source.exists() else []
            if found:
                heads[name] = read_csv(source)[0]
            for row in found:
                rows.append(DotRow(row.label, row.groups, heading))
                heading = ""  # above the group's first row alone
    if not rows:
        return None
    words = {
        "torch": "torch (cuBLAS)",
        "torch_bf16": "cuBLAS on bfloat16",
        "triton": "Triton",
    }
    styles = {style for row in rows for style, _ in row.groups}
    legend = tuple((style, text) for style, text in words.items() if style in styles)
    machines = sorted({machine(head) for head in heads.values()})
    return Picture(
        "overview",
        f"Time of each peer over tileon's, {', '.join(machines)}: all kinds of work",
        caption_of(heads, [_READING, "Each CSV's head has its command, dtypes and timing."]),
        (DotPanel("", "peer's time / tileon's", tuple(rows), legend, means=True),),
        ((0,),),
        (0.222 * (len(rows) + len([row for row in rows if row.heading])) + 0.6,),
    )
