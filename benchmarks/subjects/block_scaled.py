"""Block-scaled products: cases, targets, comparisons and the figure of block_scaled_matmul.csv, by Hopper's kernels,
and of block_scaled_portable.csv, by those for every GPU. The tables: block_scaled_tables.py.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import torch

from benchmarks.common.cases import DATA, Case, Shape, Work
from benchmarks.common.picture import LinePanel, Picture, Series, caption_of, machines, ratio_series
from benchmarks.common.result_file import of_file
from benchmarks.common.target import Asked, Target, each_target, targets_of
from benchmarks.common.times import Comparison, Times, Which, quotients, read_times, square

SOURCE, PORTABLE = "block_scaled_matmul.csv", "block_scaled_portable.csv"
FORMATS = ("mxfp8", "mxfp4", "mixed", "nvfp4")  # in the order of the tables
PRESETS = ("demo", "portable", "hopper")
PEERS = ("tileon", "triton", "torch_dequantize")
GRAPHS, EVENTS = ("tileon_graph", "torch_bf16_graph"), ("tileon", "torch_bf16")  # few rows, and from 128 on
EVERYBODY = ("tileon", "tileon_fast", "triton", "torch_dequantize", "torch_bf16")

SQUARES = (8192, 4096, 2048)
WEIGHT = 8192  # n and k of the weight that most cases with few rows have; m and n of the sweep over k
SWEEP_K = (512, 1024, 2048, 4096, 16384)  # 8192 is one of the squares
PREPARED_ROWS = (128, 256, 512, 1024)  # of a, against that weight
PREPARED_FORMATS = ("mxfp4", "nvfp4", "mxfp8")
FEW_ROWS: tuple[tuple[str, Shape], ...] = (
    *((name, (rows, WEIGHT, WEIGHT)) for name in ("mxfp4", "nvfp4") for rows in (1, 16, 64)),
    *((name, (16, WEIGHT, WEIGHT)) for name in ("mixed", "mxfp8")),
    *(("mxfp4", (16, n, k)) for n, k in ((14336, 4096), (4096, 14336))),  # linear layers of a large model
)
_PORTABLE: tuple[Shape, ...] = ((8192,) * 3, (4096,) * 3, (2048,) * 3, (8192, 8192, 512), (8192, 8192, 2048))
_DEMO_SQUARES = {"cuda": (1024, 2048, 4096, 8192), "cpu": (32, 64, 128)}


def works(
    formats: Collection[str], shapes: Collection[Shape], data: str = "tutorial", providers: tuple[str, ...] = PEERS
) -> list[Work]:
    """Every combination, format by format."""
    return [Work(Case(name, "NT", *shape, data=data), providers) for name in formats for shape in shapes]


def preset_work(name: str, device: torch.device) -> list[Work]:
    """The work of a preset: `demo`, our op alone at squares; `portable`, every format against its peers; `hopper`,
    every format in both kinds of data, exact and fast, against every peer; then normal data against cuBLAS on 16 bits
    alone: over k, by rows against a weight that was prepared beforehand, and few rows by CUDA-graph replay."""
    if name == "demo":
        return works(FORMATS, [(size,) * 3 for size in _DEMO_SQUARES[device.type]], providers=("tileon",))
    if name == "portable":
        return works(FORMATS, _PORTABLE)
    squares: list[Shape] = [(size, size, size) for size in SQUARES]
    rows: list[Shape] = [(m, WEIGHT, WEIGHT) for m in PREPARED_ROWS]
    work = [item for name in FORMATS for data in DATA for item in works([name], squares, data, EVERYBODY)]
    work += works(FORMATS, [(WEIGHT, WEIGHT, k) for k in SWEEP_K], "normal", EVENTS)
    work += works(PREPARED_FORMATS, rows, "normal", ("tileon", "tileon_prepared", "torch_bf16"))
    for name, shape in FEW_ROWS:
        work += works([name], [shape], "normal", GRAPHS)
    return work


# Targets.

_NO_TRITON = "Triton does not compile it"  # nvfp4, on a GPU without the instruction
_LARGE = (8192, 4096)
_SHARE_K, _SHARE = (1024, 2048, 4096, 16384), 0.75  # of the rate at k = 8192, m = n = 8192
_FEW_ROWS_US = (("mxfp4", 16, 18.0), ("nvfp4", 16, 20.0), ("mxfp4", 64, 28.0))  # m against n = k = 8192; at most


def _asked(name: str, data: str, sizes: Collection[int], bound: float, over: str, under: str = "tileon") -> Asked:
    peer, ours = "Triton" if over == "triton" else "dequantize", "ours fast" if under == "tileon_fast" else "ours"
    what = f"{name} {data} {', '.join(map(str, sizes))}, {peer} / {ours}"
    no_peer = _NO_TRITON if (name, over) == ("nvfp4", "triton") else ""
    return Asked(what, [square(name, "NT", size) for size in sizes], None, bound, over, under, no_peer)


# By kind of data. mxfp4 of normal data is int8 inside, of the tutorial's bfloat16 or, with fast_accum, e5m2.
_ASKED = [
    ("normal", _asked("mxfp4", "normal", _LARGE, 1.80, "torch_dequantize")),
    ("normal", _asked("mxfp4", "normal", (2048,), 1.40, "torch_dequantize")),
    ("tutorial", _asked("mxfp4", "tutorial", SQUARES, 1.10, "torch_dequantize")),
    *(
        (data, _asked(name, data, sizes, bound, "torch_dequantize"))
        for name in ("mixed", "mxfp8", "nvfp4")
        for data in DATA
        for sizes, bound in ((_LARGE, 1.03), ((2048,), 1.10))
    ),
    ("tutorial", _asked("mxfp4", "tutorial", SQUARES, 1.50, "torch_dequantize", "tileon_fast")),
    *((data, _asked(name, data, SQUARES, 3.00, "triton")) for name in FORMATS for data in DATA),
]
_PORTABLE_ASKED = [
    _asked(name, "tutorial", SQUARES[:1], 1.20, "triton")._replace(what=f"{name} 8192 square, Triton / ours")
    for name in FORMATS
]


def _share_target(times: Times, name: str) -> Target:
    by_k = {k: times.get(Case(name, "NT", WEIGHT, WEIGHT, k), {}).get("tileon") for k in (*_SHARE_K, WEIGHT)}
    rate = {k: k / us for k, us in by_k.items() if us is not None}  # m and n are one everywhere
    shares = [(str(k), rate[k] / rate[WEIGHT]) for k in _SHARE_K] if len(rate) == len(by_k) else []
    what = f"{name} normal 8192 x 8192 x k, rate over that of k = 8192"
    return each_target(what, shares, _SHARE, f"{{:.2f}} from k = {_SHARE_K[0]}")


def _few_rows_target(times: Times, name: str, rows: int, bound: float) -> Target:
    what, asked = f"{name} {rows}x8192x8192 by graph replay, cold weights", f"<= {bound:.0f} us"
    ours, rival = map(times.get(Case(name, "NT", rows, WEIGHT, WEIGHT), {}).get, GRAPHS)
    if ours is None:
        return Target(what, asked)
    against = f" (cuBLAS on bfloat16 weights: {rival:.1f} us)" if rival is not None else ""
    return Target(what, asked, f"{ours:.1f} us{against}", ours <= bound)


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """Of Hopper's kernels."""
    times = {data: read_times(source, data)[1] for data in DATA}
    found = [target for data, asked in _ASKED for target in targets_of(times[data], [asked])]
    found += [_share_target(times["normal"], name) for name in FORMATS]
    return found + [_few_rows_target(times["normal"], *row) for row in _FEW_ROWS_US]


@of_file(PORTABLE)
def portable_targets(source: Path) -> list[Target]:
    """Of the kernels for every GPU, at 8192."""
    return targets_of(read_times(source)[1], _PORTABLE_ASKED)


# Comparisons of the overview. What mxfp4 becomes, and so how fast it is, depends on the data: int8 takes normal ones,
# bfloat16 the tutorial's. The others become bfloat16 with either.

_KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "mxfp8": ("mxfp8", DATA),
    "mxfp4, normal data": ("mxfp4", ("normal",)),
    "mxfp4, tutorial data": ("mxfp4", ("tutorial",)),
    "mixed": ("mixed", DATA),
    "nvfp4": ("nvfp4", DATA),
}


def _by_kind(source: Path, words: str, peer: str, which: Which, style: str = "") -> list[Comparison]:
    """One for each format, and for each kind of data on which the format's speed depends."""
    times, found = {data: read_times(source, data)[1].where(which) for data in DATA}, []
    for label, (name, kinds) in _KINDS.items():
        ratios = [item for data in kinds for item in quotients(times[data], peer).items() if item[0].dtype == name]
        found += Comparison.of(f"{label}: {words}", ratios, style or peer)
    return found


@of_file(SOURCE)
def over_dequantize(source: Path) -> list[Comparison]:
    return _by_kind(source, "squares", "torch_dequantize", lambda key: key.is_square, "torch")


@of_file(SOURCE)
def over_bfloat16(source: Path) -> list[Comparison]:
    """By rows of `a`: each format apart where some are faster than bfloat16 and others slower."""
    peer, normal = "torch_bf16", read_times(source, "normal")[1]
    few = quotients(normal.where(lambda key: not key.is_square), *reversed(GRAPHS)).items()
    return [
        *Comparison.of("all formats: 1 to 64 rows", few, peer),
        *_by_kind(source, "128 to 1024 rows", peer, lambda key: key.m <= 1024 < key.n),
        *_by_kind(source, "2048 to 8192 rows", peer, lambda key: key.m >= 2048),
    ]


@of_file(SOURCE)
def over_triton(source: Path) -> list[Comparison]:
    found = _by_kind(source, "squares", "triton", lambda key: key.is_square)
    return Comparison.of("mxfp8, mxfp4, mixed: squares", [item for one in found for item in one.ratios], "triton")


# The figure: against cuBLAS on bfloat16 operands, over k and over the rows of a.


def figure(results: Path) -> Picture | None:
    """Of each format, over k at m = n = 8192; and over m with weights of 8192 x 8192 that are bfloat16: by graph
    replay; from 128 rows on by events, and there with a prepared weight as well, by a private op that no layer uses."""
    source = results / SOURCE
    head, times = read_times(source, "normal") if source.exists() else ({}, Times())
    by_k: list[Series] = []
    by_rows: list[Series] = []
    for style, name in enumerate(FORMATS):
        mine = Times((key, by) for key, by in times.items() if key.dtype == name)
        all_k = mine.where(lambda key: key.m == key.n == WEIGHT)
        by_k += ratio_series(all_k, f"{name}: {{mean}}", style, "k", *EVENTS)
        rows, label = mine.where(lambda key: key.m < key.n == key.k == WEIGHT), name
        for pair in (GRAPHS, EVENTS, ("tileon_prepared", "torch_bf16")):
            found = ratio_series(rows, label, style, "m", *pair, dashed=pair[0] == "tileon_prepared")
            by_rows += found
            label = "" if found else label  # a format is in the legend once
    if any(one.dashed for one in by_rows):
        by_rows.append(Series("prepared weight", -1, (), (), dashed=True))
    panels = tuple(
        LinePanel(f"{title}, against cuBLAS on bfloat16", x_label, tuple(series))
        for title, x_label, series in (("m = n = 8192", "k", by_k), ("n = k = 8192", "m (rows of a)", by_rows))
        if series
    )
    notes = (
        "Above the line at 1 tileon is faster, in the shade cuBLAS on bfloat16 operands; means are geometric. Normal "
        "data, up to 64 rows by CUDA-graph replay; dashed with a prepared weight, by a private op that no layer uses "
        "today. The other peers: overview.png."
    )
    title = f"block_scaled_matmul: time of cuBLAS on bfloat16 over tileon's, {machines([head])}"
    caption = caption_of({source.name: head}, [notes, f"Timing: {head.get('timing', '')}."])
    return Picture("block_scaled", title, caption, (panels,)) if panels else None
