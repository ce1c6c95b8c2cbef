"""The picture of everything: one row of dots for each kind of work, the peer's time over ours in every case measured.

From every result file of the folder that holds a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from bars import fused, linear, plain
from bars_block_scaled import BLOCK_SCALED_FORMATS, KINDS
from bars_fp8 import ACCUMULATIONS, OFFERED_BY_TORCH
from picture import DotPanel, DotRow, Picture, caption_of, machine
from picture_training import host_ratios, layer_ratios, parallel_ratios
from result_file import read_csv
from summary import Key, Times, ratios, read_times

_READING = (
    "A dot is a case: the peer's time divided by tileon's. Right of 1 tileon is faster, left of it (shaded) the peer. "
    "The black mark is the geometric mean; at the right it stands in figures, with the range and the number of cases."
)
_TRITON = "triton"


def _row(label: str, style: str, values: Iterable[float], heading: str = "") -> DotRow:
    return DotRow(label, ((style, tuple(values)),), heading)


def _among(times: Times, over: str, under: str, among: Callable[[Key], bool]) -> list[float]:
    found = ratios(times, over, under, among)
    return list(found.by_case.values()) if found else []


def _squares(times: Times, over: str, under: str, dtypes: Iterable[str], layouts: str) -> list[float]:
    """Of these dtypes and layouts."""
    return [
        ratio
        for dtype in dtypes
        for layout in layouts.split()
        for ratio in _among(times, over, under, plain(dtype, layout))
    ]


def _matmul_rows(source: Path) -> list[DotRow]:
    _, times = read_times(source)
    layers = linear(times)
    both = ("float16", "bfloat16")
    graphs = _squares(times, "torch_graph", "tileon_graph", ["float16"], "NN NT")
    return [
        _row("float16 squares, NN and NT", "torch", _squares(times, "torch", "tileon", ["float16"], "NN NT")),
        _row("bfloat16 squares, NN and NT", "torch", _squares(times, "torch", "tileon", ["bfloat16"], "NN NT")),
        _row("16-bit squares, TN and TT", "torch", _squares(times, "torch", "tileon", both, "TN TT")),
        _row("float16 squares, CUDA graphs", "torch", graphs),
        _row("16-bit squares, bias + leaky_relu", "torch", [case.against_torch for case in fused(times)]),
        _row("bfloat16 linear layers, 1 to 8192 rows", "torch", layers.by_case.values() if layers else []),
        _row("16-bit squares NN, against Triton", _TRITON, _squares(times, "triton", "tileon", both, "NN")),
    ]


def _awkward_rows(source: Path) -> list[DotRow]:
    """The GPU's time alone: what the host costs stands in a row of its own."""
    times: dict[tuple[str, ...], dict[str, float]] = {}
    for row in read_csv(source)[1]:
        if row["mode"] == "graph":
            case = tuple(row[column] for column in ("dtype", "case", "m", "n", "k"))
            times.setdefault(case, {})[row["provider"]] = float(row["median_us"])
    found = [by["torch"] / by["tileon"] for by in times.values() if {"torch", "tileon"} <= by.keys()]
    return [_row("bfloat16, unaligned or strided operands", "torch", found)]


def _float32_rows(source: Path) -> list[DotRow]:
    _, times = read_times(source)
    layers = linear(times, "float32")
    fused_squares = _among(times, "torch", "tileon", lambda key: key.epilogue == "bias+leaky_relu")
    gradients = _among(times, "torch", "tileon", plain("float32", "TN", squares=False))
    return [
        _row("float32 squares, NN and NT", "torch", _squares(times, "torch", "tileon", ["float32"], "NN NT")),
        _row("float32 squares, TN and TT", "torch", _squares(times, "torch", "tileon", ["float32"], "TN TT")),
        _row("float32 squares, bias + leaky_relu", "torch", fused_squares),
        _row("float32 linear layers, 1 to 8192 rows", "torch", layers.by_case.values() if layers else []),
        _row("float32 gradients of weights", "torch", gradients),
    ]


def _portable_rows(source: Path) -> list[DotRow]:
    """The dtypes that Hopper's own kernels do not take: not float32, where float32.csv says what they do with it."""
    _, times = read_times(source)
    words = {"float32": "float32 squares", "tf32": "float32 squares, TF32 allowed", "float64": "float64 squares"}
    if source.with_name("float32.csv").exists():
        del words["float32"]
    return [_row(words[name], "torch", _squares(times, "torch", "tileon", [name], "NN")) for name in words]


def _fp8_rows(source: Path) -> list[DotRow]:
    _, times = read_times(source)
    rows = []
    for name, (ours, peer) in ACCUMULATIONS.items():
        label = f"fp8 squares, {name} accumulation"
        rows.append(_row(label, "torch", _squares(times, peer, ours, OFFERED_BY_TORCH, "NT")))
    return rows


def _block_scaled_rows(source: Path) -> list[DotRow]:
    by_kind = [read_times(source, data)[1] for data in KINDS]
    normal = by_kind[0]

    def squares(peer: str, names: Iterable[str]) -> list[float]:
        return [ratio for times in by_kind for ratio in _squares(times, peer, "tileon", names, "NT")]

    rows = [
        _row(f"{name} squares, against dequantize, cuBLAS", "torch", squares("torch_dequantize", [name]))
        for name in BLOCK_SCALED_FORMATS
    ]
    few = _among(normal, "torch_bf16_graph", "tileon_graph", lambda key: not key.is_square)
    large = [ratio for times in by_kind for ratio in _among(times, "torch_bf16", "tileon", lambda key: key.m >= 2048)]
    more = _among(normal, "torch_bf16", "tileon", lambda key: key.m <= 1024 < key.n)
    return [
        *rows,
        _row("large products, against cuBLAS on bfloat16", "torch_bf16", large),
        _row("1 to 64 rows, against bfloat16 weights", "torch_bf16", few),
        _row("128 to 1024 rows, against bfloat16 weights", "torch_bf16", more),
        _row("all squares, against Triton's dot_scaled", _TRITON, squares("triton", BLOCK_SCALED_FORMATS)),
    ]


def _layer_rows(source: Path) -> list[DotRow]:
    found = layer_ratios(source)
    words = {"forward": "linear layer, forward", "forward_backward": "linear layer, forward + backward"}
    return [
        _row(words[which], "torch", [ratio for (_, its, _), ratio in found.items() if its == which]) for which in words
    ]


def _parallel_rows(source: Path) -> list[DotRow]:
    return [_row("MLP on 1 and 2 GPUs", "torch", parallel_ratios(source).values())]


def _host_rows(source: Path) -> list[DotRow]:
    return [_row("host time of one call", "torch", host_ratios(source).values())]


_GROUPS: tuple[tuple[str, tuple[tuple[str, Callable[[Path], list[DotRow]]], ...]], ...] = (
    (
        "matmul",
        (
            ("matmul.csv", _matmul_rows),
            ("awkward.csv", _awkward_rows),
            ("float32.csv", _float32_rows),
            ("portable.csv", _portable_rows),
        ),
    ),
    ("fp8, against torch._scaled_mm", (("fp8.csv", _fp8_rows),)),
    ("block_scaled_matmul", (("block_scaled_matmul.csv", _block_scaled_rows),)),
    (
        "training and calls",
        (("layer.csv", _layer_rows), ("parallel.csv", _parallel_rows), ("host.csv", _host_rows)),
    ),
)
SOURCES = tuple(name for _, makers in _GROUPS for name, _ in makers)


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
        (0.235 * (len(rows) + len([row for row in rows if row.heading])) + 0.6,),
    )
