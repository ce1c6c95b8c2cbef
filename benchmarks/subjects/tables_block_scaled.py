"""The tables of block-scaled products and of quantization. See result_tables.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.common.times import Key, Times, read_times
from benchmarks.report.markdown import not_met, source_line, table
from benchmarks.report.target import Bar
from benchmarks.report.targets import quantize_bars
from benchmarks.subjects.bars_block_scaled import (
    BLOCK_SCALED_FORMATS,
    KINDS,
    block_scaled_bars,
    hopper_block_scaled_bars,
)
from benchmarks.subjects.bars_block_scaled_accuracy import block_scaled_accuracy_bars
from benchmarks.subjects.tables_block_scaled_rows import CUBLAS, SOURCE, few_rows_lines, more_rows_lines

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

Shape = tuple[int, int, int]  # m, n, k


def _rate(by: dict[str, float], provider: str, shape: Shape) -> str:
    m, n, k = shape
    return f"{2.0 * m * n * k / by[provider] * 1e-6:.0f}" if provider in by else ""


def _rates(by: dict[str, float], providers: tuple[str, ...], shape: Shape) -> list[str]:
    """TFLOP/s of the providers, and how many times the rivals' rates ours is."""
    against = [f"{by[who] / by['tileon']:.2f}" if who in by else "" for who in _RIVALS]
    return [*(_rate(by, who, shape) for who in providers), *against]


def _columns(providers: tuple[str, ...]) -> list[str]:
    return [*(PROVIDER_WORDS[who] for who in providers), *(f"tileon / {PROVIDER_WORDS[who]}" for who in _RIVALS)]


def _of(times: Times, name: str, shape: Shape) -> dict[str, float]:
    return times.get(Key(name, "NT", *shape, "none"), {})


def _products(source: Path) -> list[str]:
    head, times = read_times(source)
    providers = ("tileon", *_RIVALS)
    rows = []
    for name in BLOCK_SCALED_FORMATS:
        for m, n, k in dict.fromkeys((key.m, key.n, key.k) for key in times):
            by = _of(times, name, (m, n, k))
            if "tileon" in by:
                rows.append([name, f"{m} x {n} x {k}", *_rates(by, providers, (m, n, k))])
    return [
        f"By the portable kernels, TFLOP/s, float16 out ({head.get('timing', '')}). {_PEER_SENTENCE}:",
        "",
        *table(["format", "m x n x k", *_columns(providers)], rows, 2),
        "",
        *_nothing_to_compare(block_scaled_bars(source.parent)),
        *not_met(block_scaled_bars(source.parent)),
        source_line(source, head),
    ]


def _hopper(source: Path) -> list[str]:
    head, providers = read_times(source)[0], tuple(PROVIDER_WORDS)
    of_kind = {data: read_times(source, data)[1] for data in KINDS}
    rows = []
    for name in BLOCK_SCALED_FORMATS:
        for data, times in of_kind.items():
            sizes = sorted((key.m for key in times if key.dtype == name and key.is_square), reverse=True)
            for size in sizes:
                by = _of(times, name, (size,) * 3)
                if "tileon" in by:
                    rows.append([name, data, str(size), *_rates(by, providers, (size,) * 3)])
    bars = hopper_block_scaled_bars(source.parent)
    return [
        f"By Hopper's kernels, TFLOP/s, float16 out ({head.get('timing', '')}). {_PEER_SENTENCE}. `cuBLAS on bfloat16` "
        "multiplies operands that were dequantized beforehand:",
        "",
        *table(["format", "data", "m = n = k", *_columns(providers)], rows, 2),
        "",
        *_sweep(of_kind["normal"]),
        *few_rows_lines(of_kind["normal"]),
        *more_rows_lines(of_kind["normal"]),
        *_nothing_to_compare(bars),
        *not_met(bars),
        source_line(source, head),
    ]


def _sweep(times: Times) -> list[str]:
    """Rates over k, where a file has several at the same m and n."""
    mine = [key for key in times if key.m == key.n and "tileon" in times[key]]
    sizes = [key.m for key in mine if not key.is_square]
    if not sizes:
        return []
    size = max(sizes)
    all_k = sorted({key.k for key in mine if key.m == size})
    rows = []
    for name in BLOCK_SCALED_FORMATS:
        for who in ("tileon", "torch_bf16"):
            cells = [_rate(_of(times, name, (size, size, k)), who, (size, size, k)) for k in all_k]
            if any(cells):
                rows.append([name, PROVIDER_WORDS[who], *cells])
    columns = ["format", "", *(f"k = {k}" for k in all_k)]
    return [f"TFLOP/s over k, m = n = {size}, normal data:", "", *table(columns, rows, 2), ""]


def _nothing_to_compare(bars: list[Bar]) -> list[str]:
    """Why a peer's column is empty for a whole format."""
    lines = dict.fromkeys(f"{bar.what.split()[0]}: {bar.figure}." for bar in bars if bar.no_peer)
    return [" ".join(lines), ""] if lines else []


def _accuracy(source: Path) -> list[str]:
    head, found = read_csv(source)
    by_case: dict[tuple[str, str, str], dict[str, str]] = {}
    for row in found:
        db = float(row["sqnr_db"])
        case = (row["format"], row["data"], f"{row['m']} x {row['n']} x {row['k']}")
        by_case.setdefault(case, {})[row["provider"]] = "exact" if db == math.inf else f"{db:.1f}"
    providers = [who for who in PROVIDER_WORDS if any(who in by for by in by_case.values())]
    rows = [
        [*case, *(by.get(who, "") for who in providers)]
        for name in BLOCK_SCALED_FORMATS
        for case, by in by_case.items()
        if case[0] == name
    ]
    return [
        "How near the products come to float64: signal to noise in dB, float32 out. The operands count as they are, so "
        "what quantizing them lost is not in it:",
        "",
        *table(["format", "data", "m x n x k", *(PROVIDER_WORDS[who] for who in providers)], rows, 3),
        "",
        *not_met(block_scaled_accuracy_bars(source.parent)),
        source_line(source, head),
    ]


def _quantize(source: Path) -> list[str]:
    """Of the largest tensor in the file."""
    head, rows = read_csv(source)
    m, k = max(((int(row["m"]), int(row["k"])) for row in rows), key=lambda shape: shape[0] * shape[1])
    mine = [row for row in rows if (int(row["m"]), int(row["k"])) == (m, k)]
    formats = list(dict.fromkeys(row["format"] for row in mine if row["provider"] == "tileon"))
    found = {(row["op"], row["format"]): row for row in mine}
    lines = []
    for op in dict.fromkeys(row["op"] for row in mine if row["provider"] == "tileon"):
        cells = []
        for name in formats:
            row = found.get((op, name))
            cells += [f"{float(row['median_us']):.1f}", f"{float(row['tb_s']):.2f}"] if row else ["", ""]
        lines.append([f"`{op}`", *cells])
    copies = [row for row in mine if row["provider"] == "copy"]
    said = "".join(f"; torch's copy of that tensor: {float(row['median_us']):.1f} us" for row in copies)
    said += "".join(f", {float(row['tb_s']):.2f} TB/s" for row in copies)
    return [
        f"Microseconds, and TB/s read and written, for a bfloat16 tensor of {m} x {k}{said}. `pack_scales` and "
        "`unpack_scales` move its scales alone:",
        "",
        *table(["op", *(f"{name} {unit}" for name in formats for unit in ("us", "TB/s"))], lines, 1),
        "",
        *not_met(quantize_bars(source.parent)),
        source_line(source, head),
    ]


def _part(name: str, make: Callable[[Path], list[str]]) -> Callable[[Path], list[str]]:
    """A part of one file: nothing while there is no such file."""
    return lambda results: make(results / name) if (results / name).exists() else []


hopper_part = _part(SOURCE, _hopper)
block_scaled_accuracy_part = _part("block_scaled_accuracy.csv", _accuracy)
block_scaled_portable_part = _part("block_scaled_portable.csv", _products)
quantize_part = _part("quantize.csv", _quantize)
