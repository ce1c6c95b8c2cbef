"""The marks of block-scaled products: see bars.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.times import Key, Times, ratios_of_all, read_times
from benchmarks.report.target import Bar, worst_bar

BLOCK_SCALED_FORMATS = ("mxfp8", "mxfp4", "mixed", "nvfp4")
KINDS = ("normal", "tutorial")  # of data: block_scaled_problems.py
SQUARES = (8192, 4096, 2048)

NO_TRITON = "Triton does not compile it"  # nvfp4, on a GPU without the instruction
_OVER_TRITON = 3.0

# The rival's time over ours, at least: format, kind of data, squares.
_OVER_DEQUANTIZE: tuple[tuple[str, str, tuple[int, ...], float], ...] = (
    ("mxfp4", "normal", (8192, 4096), 1.80),
    ("mxfp4", "normal", (2048,), 1.40),
    ("mxfp4", "tutorial", SQUARES, 1.10),
    *(
        (name, data, sizes, least)
        for name in ("mixed", "mxfp8", "nvfp4")
        for data in KINDS
        for sizes, least in (((8192, 4096), 1.03), ((2048,), 1.10))
    ),
)
_FAST_OVER_DEQUANTIZE = 1.50  # mxfp4 with fast_accum, the tutorial's data

_SWEEP_K = (1024, 2048, 4096, 16384)  # at m = n = 8192: their rates are held against that of k = 8192
_SWEEP_SHARE = 0.75

_FEW_ROWS = (("mxfp4", 16, 18.0), ("nvfp4", 16, 20.0), ("mxfp4", 64, 28.0))  # m against n = k = 8192; microseconds


def _square(name: str, size: int) -> Key:
    return Key(name, "NT", size, size, size, "none")


def _squares_bar(
    times: Times, name: str, data: str, sizes: tuple[int, ...], least: float, *, over: str, under: str
) -> Bar:
    words = {"torch_dequantize": "dequantize", "triton": "Triton", "tileon": "ours", "tileon_fast": "ours fast"}
    shown = ", ".join(str(size) for size in sizes)
    found = ratios_of_all(times, over, under, [_square(name, size) for size in sizes])
    return worst_bar(f"{name} {data} {shown}, {words[over]} / {words[under]}", found, least)


def _sweep_bar(times: Times, name: str) -> Bar:
    """Rates over the rate at k = 8192, m = n = 8192."""
    what = f"{name} normal 8192 x 8192 x k, rate over that of k = 8192"
    asked = f"each >= {_SWEEP_SHARE:.2f} from k = {_SWEEP_K[0]}"
    by_k = {k: times.get(Key(name, "NT", 8192, 8192, k, "none"), {}).get("tileon") for k in (*_SWEEP_K, 8192)}
    rates = {k: k / us for k, us in by_k.items() if us is not None}  # m and n are one everywhere
    if len(rates) < len(by_k):
        return Bar(what, asked, "", None)
    shares = {k: rates[k] / rates[8192] for k in _SWEEP_K}
    worst = min(shares, key=lambda k: shares[k])
    below = ", ".join(f"{k} {share:.3f}" for k, share in shares.items() if share < _SWEEP_SHARE)
    return Bar(what, asked, below or f"worst {shares[worst]:.3f} at {worst}", not below)


def _few_rows_bar(times: Times, name: str, rows: int, most: float) -> Bar:
    what, asked = f"{name} {rows}x8192x8192 by graph replay, cold weights", f"<= {most:.0f} us"
    by = times.get(Key(name, "NT", rows, 8192, 8192, "none"), {})
    if "tileon_graph" not in by:
        return Bar(what, asked, "", None)
    ours, rival = by["tileon_graph"], by.get("torch_bf16_graph")
    against = f" (cuBLAS on bfloat16 weights: {rival:.1f} us)" if rival is not None else ""
    return Bar(what, asked, f"{ours:.1f} us{against}", ours <= most)


def hopper_block_scaled_bars(results: Path) -> list[Bar]:
    """Of Hopper's kernels; nothing while there is no block_scaled_matmul.csv."""
    source = results / "block_scaled_matmul.csv"
    if not source.exists():
        return []
    times = {data: read_times(source, data)[1] for data in KINDS}
    bars = [
        _squares_bar(times[data], name, data, sizes, least, over="torch_dequantize", under="tileon")
        for name, data, sizes, least in _OVER_DEQUANTIZE
    ]
    bars.append(
        _squares_bar(
            times["tutorial"],
            "mxfp4",
            "tutorial",
            SQUARES,
            _FAST_OVER_DEQUANTIZE,
            over="torch_dequantize",
            under="tileon_fast",
        )
    )
    for name in BLOCK_SCALED_FORMATS:
        for data in KINDS:
            bar = _squares_bar(times[data], name, data, SQUARES, _OVER_TRITON, over="triton", under="tileon")
            if bar.holds is None and name == "nvfp4":
                bar = Bar(bar.what, bar.asked, NO_TRITON, None, no_peer=True)
            bars.append(bar)
    bars += [_sweep_bar(times["normal"], name) for name in BLOCK_SCALED_FORMATS]
    return bars + [_few_rows_bar(times["normal"], name, rows, most) for name, rows, most in _FEW_ROWS]


def block_scaled_bars(results: Path) -> list[Bar]:
    """Of the kernels for every GPU, at 8192; nothing while there is no block_scaled_portable.csv."""
    source = results / "block_scaled_portable.csv"
    if not source.exists():
        return []
    times, least, bars = read_times(source)[1], 1.20, []
    for name in BLOCK_SCALED_FORMATS:
        what, asked = f"{name} 8192 square, Triton / ours", f">= {least:.2f}"
        by = times.get(Key(name, "NT", 8192, 8192, 8192, "none"), {})
        if {"triton", "tileon"} <= by.keys():
            ratio = by["triton"] / by["tileon"]
            figure = f"{ratio:.2f} ({by['tileon']:.0f} us, Triton's {by['triton']:.0f} us)"
            bars.append(Bar(what, asked, figure, ratio >= least))
        elif name == "nvfp4":
            bars.append(Bar(what, asked, NO_TRITON, None, no_peer=True))
        else:
            bars.append(Bar(what, asked, "", None))
    return bars
