"""Block-scaled products: the targets, comparisons and tables of block_scaled_matmul.csv, by Hopper's kernels, and of
block_scaled_portable.csv, by those for every GPU. What is measured: block_scaled_presets.py."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks.common.block_scaled_cases import DATA
from benchmarks.common.markdown import not_met, rates, ratio, source_line, table
from benchmarks.common.result_file import of_file
from benchmarks.common.target import Target, each_target, worst_target
from benchmarks.common.times import Key, Times, ratios_of_all, read_times, square
from benchmarks.subjects.block_scaled_presets import HOPPER_SQUARES
from benchmarks.subjects.block_scaled_rows import (
    CUBLAS,
    FORMATS,
    SOURCE,
    by_rows_lines,
    few_rows_lines,
    more_rows_lines,
)

PORTABLE = "block_scaled_portable.csv"
PROVIDER_WORDS = {
    "tileon": "tileon",
    "tileon_fast": "tileon, `fast_accum`",
    "triton": "Triton",
    "torch_dequantize": "dequantize, cuBLAS",
    "torch_bf16": CUBLAS,
}
_RIVALS = ("triton", "torch_dequantize")
_PEER_SENTENCE = (
    "Triton is one kernel with `tl.dot_scaled`; the other peer turns each operand into bfloat16 by one kernel of "
    "`torch.compile` and has cuBLAS multiply them, bfloat16 out"
)
_NO_TRITON = "Triton does not compile it"  # nvfp4, on a GPU without the instruction
_OVER_TRITON, _PORTABLE_OVER_TRITON = 3.0, 1.20

# The rival's time over ours, at least: format, kind of data, squares.
_OVER_DEQUANTIZE: tuple[tuple[str, str, tuple[int, ...], float], ...] = (
    ("mxfp4", "normal", (8192, 4096), 1.80),
    ("mxfp4", "normal", (2048,), 1.40),
    ("mxfp4", "tutorial", HOPPER_SQUARES, 1.10),
    *(
        (name, data, sizes, least)
        for name in ("mixed", "mxfp8", "nvfp4")
        for data in DATA
        for sizes, least in (((8192, 4096), 1.03), ((2048,), 1.10))
    ),
)
_FAST_OVER_DEQUANTIZE = 1.50  # mxfp4 with fast_accum, the tutorial's data

_SWEEP_K = (1024, 2048, 4096, 16384)  # at m = n = 8192: their rates are held against that of k = 8192
_SWEEP_SHARE = 0.75

_FEW_ROWS = (("mxfp4", 16, 18.0), ("nvfp4", 16, 20.0), ("mxfp4", 64, 28.0))  # m against n = k = 8192; microseconds


# Targets.


def _squares_target(
    times: Times, name: str, data: str, sizes: tuple[int, ...], least: float, *, over: str, under: str = "tileon"
) -> Target:
    words = {"torch_dequantize": "dequantize", "triton": "Triton", "tileon": "ours", "tileon_fast": "ours fast"}
    found = ratios_of_all(times, over, under, [square(name, "NT", size) for size in sizes])
    what = f"{name} {data} {', '.join(map(str, sizes))}, {words[over]} / {words[under]}"
    return worst_target(what, found, least)


def _sweep_target(times: Times, name: str) -> Target:
    """Rates over the rate at k = 8192, m = n = 8192."""
    by_k = {k: times.get(Key(name, "NT", 8192, 8192, k, "none"), {}).get("tileon") for k in (*_SWEEP_K, 8192)}
    rate = {k: k / us for k, us in by_k.items() if us is not None}  # m and n are one everywhere
    shares = [(str(k), rate[k] / rate[8192]) for k in _SWEEP_K] if len(rate) == len(by_k) else []
    return each_target(
        f"{name} normal 8192 x 8192 x k, rate over that of k = 8192",
        f"each >= {_SWEEP_SHARE:.2f} from k = {_SWEEP_K[0]}",
        shares,
        lambda share: share >= _SWEEP_SHARE,
    )


def _few_rows_target(times: Times, name: str, rows: int, most: float) -> Target:
    what, asked = f"{name} {rows}x8192x8192 by graph replay, cold weights", f"<= {most:.0f} us"
    by = times.get(Key(name, "NT", rows, 8192, 8192, "none"), {})
    if "tileon_graph" not in by:
        return Target(what, asked)
    ours, rival = by["tileon_graph"], by.get("torch_bf16_graph")
    against = f" (cuBLAS on bfloat16 weights: {rival:.1f} us)" if rival is not None else ""
    return Target(what, asked, f"{ours:.1f} us{against}", ours <= most)


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """Of Hopper's kernels."""
    times = {data: read_times(source, data)[1] for data in DATA}
    found = [
        _squares_target(times[data], name, data, sizes, least, over="torch_dequantize")
        for name, data, sizes, least in _OVER_DEQUANTIZE
    ]
    fast = ("mxfp4", "tutorial", HOPPER_SQUARES, _FAST_OVER_DEQUANTIZE)
    found.append(_squares_target(times["tutorial"], *fast, over="torch_dequantize", under="tileon_fast"))
    for name in FORMATS:
        for data in DATA:
            one = _squares_target(times[data], name, data, HOPPER_SQUARES, _OVER_TRITON, over="triton")
            no_peer = one.holds is None and name == "nvfp4"
            found.append(Target(one.what, one.asked, _NO_TRITON, no_peer=True) if no_peer else one)
    found += [_sweep_target(times["normal"], name) for name in FORMATS]
    return found + [_few_rows_target(times["normal"], name, rows, most) for name, rows, most in _FEW_ROWS]


@of_file(PORTABLE)
def portable_targets(source: Path) -> list[Target]:
    """Of the kernels for every GPU, at 8192."""
    times, found = read_times(source)[1], []
    for name in FORMATS:
        what, asked = f"{name} 8192 square, Triton / ours", f">= {_PORTABLE_OVER_TRITON:.2f}"
        by = times.get(square(name, "NT", 8192), {})
        if {"triton", "tileon"} <= by.keys():
            over = by["triton"] / by["tileon"]
            figure = f"{over:.2f} ({by['tileon']:.0f} us, Triton's {by['triton']:.0f} us)"
            found.append(Target(what, asked, figure, over >= _PORTABLE_OVER_TRITON))
        else:
            no_peer = name == "nvfp4"
            found.append(Target(what, asked, _NO_TRITON if no_peer else "", no_peer=no_peer))
    return found


# Tables.


def _cells(key: Key, by: dict[str, float], providers: Iterable[str]) -> list[str]:
    """TFLOP/s of the providers, and how many times the rivals' rates ours is."""
    return [*rates(key, by, providers), *(ratio(by, who) for who in _RIVALS)]


def _columns(providers: Iterable[str]) -> list[str]:
    return [*(PROVIDER_WORDS[who] for who in providers), *(f"tileon / {PROVIDER_WORDS[who]}" for who in _RIVALS)]


def _nothing_to_compare(found: list[Target]) -> list[str]:
    """Why a peer's column is empty for a whole format."""
    lines = dict.fromkeys(f"{target.what.split()[0]}: {target.figure}." for target in found if target.no_peer)
    return [" ".join(lines), ""] if lines else []


@of_file(PORTABLE)
def portable_part(source: Path) -> list[str]:
    """Every product of the file."""
    head, times = read_times(source)
    providers, rows, found = ("tileon", *_RIVALS), [], portable_targets(source.parent)
    for name in FORMATS:
        for m, n, k in dict.fromkeys((key.m, key.n, key.k) for key in times):
            key = Key(name, "NT", m, n, k, "none")
            if "tileon" in times.get(key, {}):
                rows.append([name, f"{m} x {n} x {k}", *_cells(key, times[key], providers)])
    return [
        f"By the portable kernels, TFLOP/s, float16 out ({head.get('timing', '')}). {_PEER_SENTENCE}:",
        "",
        *table(["format", "m x n x k", *_columns(providers)], rows, 2),
        "",
        *_nothing_to_compare(found),
        *not_met(found),
        source_line(source, head),
    ]


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """Squares in both kinds of data, rates over k, and few and more rows of `a`."""
    head, found = read_times(source)[0], targets(source.parent)
    of_kind = {data: read_times(source, data)[1] for data in DATA}
    rows = []
    for name in FORMATS:
        for data, times in of_kind.items():
            keys = sorted((key for key in times if key.dtype == name and key.is_square), reverse=True)
            rows += [
                [name, data, str(key.m), *_cells(key, times[key], PROVIDER_WORDS)]
                for key in keys
                if "tileon" in times[key]
            ]
    return [
        f"By Hopper's kernels, TFLOP/s, float16 out ({head.get('timing', '')}). {_PEER_SENTENCE}. `cuBLAS on bfloat16` "
        "multiplies operands that were dequantized beforehand:",
        "",
        *table(["format", "data", "m = n = k", *_columns(PROVIDER_WORDS)], rows, 2),
        "",
        *_sweep_lines(of_kind["normal"]),
        *few_rows_lines(of_kind["normal"]),
        *more_rows_lines(of_kind["normal"]),
        *_nothing_to_compare(found),
        *not_met(found),
        source_line(source, head),
    ]


def _sweep_lines(times: Times) -> list[str]:
    """Rates over k, where a file has several at the same m and n."""
    mine = [key for key in times if key.m == key.n and "tileon" in times[key]]
    sizes = [key.m for key in mine if not key.is_square]
    if not sizes:
        return []
    size, rows = max(sizes), []
    all_k = sorted({key.k for key in mine if key.m == size})
    for name in FORMATS:
        keys = [Key(name, "NT", size, size, k, "none") for k in all_k]
        for who in ("tileon", "torch_bf16"):
            cells = [cell for key in keys for cell in rates(key, times.get(key, {}), (who,))]
            if any(cells):
                rows.append([name, PROVIDER_WORDS[who], *cells])
    columns = ["format", "", *(f"k = {k}" for k in all_k)]
    return [f"TFLOP/s over k, m = n = {size}, normal data:", "", *table(columns, rows, 2), ""]


@of_file(SOURCE)
def headline_part(source: Path) -> list[str]:
    """What README shows: rates of every format on large squares, and by rows of `a`."""
    rows, size = [], HOPPER_SQUARES[0]
    of_kind = {data: read_times(source, data)[1] for data in DATA}
    for name, data in [*((name, "normal") for name in FORMATS), ("mxfp4", "tutorial")]:
        key = square(name, "NT", size)
        if "tileon" in of_kind[data].get(key, {}):
            rows.append([name, data, *rates(key, of_kind[data][key], PROVIDER_WORDS)])
    return [
        f"Block-scaled products, TFLOP/s at m = n = k = {size}, of normal random data; mxfp4 of random "
        "scales too (tutorial), which its route by int8 does not take. Triton is one kernel with `tl.dot_scaled`; the "
        "last column multiplies operands that were dequantized beforehand:",
        "",
        *table(["format", "data", *PROVIDER_WORDS.values()], rows, 2),
        *by_rows_lines(of_kind["normal"]),
    ]
