"""What README shows: a row for each kind of product, losses included. See result_tables.py.

docs/measured.md has every figure with the command and the commit that it is from.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from bars import fused, linear, plain
from bars_block_scaled import BLOCK_SCALED_FORMATS, KINDS
from bars_fp8 import ACCUMULATIONS, OFFERED_BY_TORCH, over_torch
from result_file import read_csv
from summary import Key, Ratios, Times, ratios, read_times
from tables_awkward import SOURCE as AWKWARD_OUTPUTS
from tables_awkward import vocabulary_ratios
from tables_block_scaled import PROVIDER_WORDS
from tables_format import table
from tables_portable import DTYPE_WORDS, SIZE
from tables_training import STATE_WORDS

_BLOCK_SCALED_SIZE = 8192  # m = n = k
_BLOCK_SCALED_ROWS = [*((name, "normal") for name in BLOCK_SCALED_FORMATS), ("mxfp4", "tutorial")]
_FP8_WORDS = {"precise": "squares of fp8", "fast": "squares of fp8, `fast_accum`"}
_STATES = ("grad_unneeded", "grad_recorded")


def _row(what: str, peer: str, found: Ratios | None) -> list[list[str]]:
    """The line of a peer's times over ours; none where nothing was measured."""
    if found is None:
        return []
    key, worst = found.worst
    count, mean = len(found.by_case), f"{found.mean:.2f}"
    return [[what, peer, str(count), mean, f"{worst:.2f}" + (f" ({key.dtype} {key.shape})" if count > 1 else "")]]


def _together(groups: list[Ratios | None]) -> Ratios | None:
    by_case = {key: ratio for found in groups if found for key, ratio in found.by_case.items()}
    return Ratios(by_case) if by_case else None


def _matmul_rows(times: Times) -> list[list[str]]:
    rows = []
    for peer in ("torch", "triton"):
        squares = [ratios(times, peer, "tileon", plain(dtype, "NN")) for dtype in ("float16", "bfloat16")]
        rows += _row("squares of float16 and bfloat16", peer.replace("triton", "Triton"), _together(squares))
    rows += _row("linear layers of bfloat16", "torch", linear(times))
    with_bias = {case.key: case.against_torch for case in fused(times)}
    return rows + _row("squares with bias and leaky_relu", "torch", Ratios(with_bias) if with_bias else None)


def _fp8_rows(times: Times) -> list[list[str]]:
    rows = []
    for accumulation in ACCUMULATIONS:
        pairings = [over_torch(times, name, accumulation) for name in OFFERED_BY_TORCH]
        rows += _row(_FP8_WORDS[accumulation], "`torch._scaled_mm`", _together(pairings))
    return rows


def _float32_rows(times: Times) -> list[list[str]]:
    squares = [ratios(times, "torch", "tileon", plain("float32", layout)) for layout in ("NN", "NT")]
    gradients = ratios(times, "torch", "tileon", plain("float32", "TN", squares=False))
    return [
        *_row("squares of float32", "torch", _together(squares)),
        *_row("linear layers of float32", "torch", linear(times, "float32")),
        *_row("weight gradients of float32", "torch", gradients),
    ]


def _portable_rows(times: Times, dtypes: tuple[str, ...]) -> list[list[str]]:
    size = int(SIZE)
    rows = []
    for dtype in dtypes:
        key = Key(dtype, "NN", size, size, size, "none")
        found = ratios({key: times.get(key, {})}, "torch", "tileon", lambda _: True)
        rows += _row(f"{DTYPE_WORDS.get(dtype, dtype)}, {SIZE}", "torch", found)
    return rows


def _layer_rows(source: Path) -> list[list[str]]:
    times: dict[tuple[str, str], dict[str, float]] = {}
    for row in read_csv(source)[1]:
        times.setdefault((row["activation"], row["pass"]), {})[row["provider"]] = float(row["median_us"])
    return [
        [f"a layer with {activation}, forward and backward", "torch", "1", ratio, ratio]
        for (activation, which), by in times.items()
        if which == "forward_backward" and {"torch", "tileon"} <= by.keys()
        for ratio in [f"{by['torch'] / by['tileon']:.2f}"]
    ]


def _host_rows(source: Path) -> list[list[str]]:
    times: dict[str, dict[str, float]] = {}
    for row in read_csv(source)[1]:
        times.setdefault(row["state"], {})[row["provider"]] = float(row["median_us"])
    return [
        [f"host time of a call, {STATE_WORDS[state]}", "torch", "1", ratio, ratio]
        for state in _STATES
        for by in [times.get(state, {})]
        if {"torch", "tileon_python"} <= by.keys()
        for ratio in [f"{by['torch'] / by['tileon_python']:.2f}"]
    ]


def headline_part(results: Path) -> list[str]:
    """A peer's time over ours, one line for each kind of product; nothing while nothing was measured."""
    float32 = () if (results / "float32.csv").exists() else ("float32",)  # where it is, that file says more
    of_times: dict[str, Callable[[Times], list[list[str]]]] = {
        "matmul.csv": _matmul_rows,
        "fp8.csv": _fp8_rows,
        "float32.csv": _float32_rows,
        "portable.csv": partial(_portable_rows, dtypes=(*float32, "tf32", "float64")),
    }
    rows, heads = [], []
    for name, make in of_times.items():
        if (results / name).exists():
            head, times = read_times(results / name)
            heads.append(head)
            rows += make(times)
    if (results / AWKWARD_OUTPUTS).exists():
        heads.append(read_csv(results / AWKWARD_OUTPUTS)[0])
        rows += _row("a vocabulary of 50257, GPU time", "torch", vocabulary_ratios(results))
    for name, read in {"layer.csv": _layer_rows, "host.csv": _host_rows}.items():
        if (results / name).exists():
            heads.append(read_csv(results / name)[0])
            rows += read(results / name)
    if not rows:
        return []
    machine = " and ".join(dict.fromkeys(f"{head['gpu']}, torch {head['torch']}" for head in heads))
    return [
        f"One {machine}. The peer's time over ours, in geometric mean over the cases: above 1 ours is faster, below 1 "
        "the peer.",
        "",
        *table(["product", "peer", "cases", "mean", "worst"], rows, 2),
    ]


def block_scaled_headline_part(results: Path) -> list[str]:
    """Rates of every format on large squares; nothing while there is no block_scaled_matmul.csv."""
    source = results / "block_scaled_matmul.csv"
    if not source.exists():
        return []
    rows = []
    of_kind = {data: read_times(source, data)[1] for data in KINDS}
    for name, data in _BLOCK_SCALED_ROWS:
        size = _BLOCK_SCALED_SIZE
        by = of_kind[data].get(Key(name, "NT", size, size, size, "none"), {})
        if "tileon" in by:
            flops = 2.0 * size**3 * 1e-6
            rates = [f"{flops / by[who]:.0f}" if who in by else "" for who in PROVIDER_WORDS]
            rows.append([name, data, *rates])
    return [
        f"Block-scaled products, TFLOP/s at m = n = k = {_BLOCK_SCALED_SIZE}, of normal random data; mxfp4 of random "
        "scales too (tutorial), which its route by int8 does not take. Triton is one kernel with `tl.dot_scaled`; the "
        "last column multiplies operands that were dequantized beforehand:",
        "",
        *table(["format", "data", *PROVIDER_WORDS.values()], rows, 2),
    ]
