"""README's tables of block-scaled products and of quantization: see readme_tables.py."""

from __future__ import annotations

from pathlib import Path

from bars import BLOCK_SCALED_FORMATS, Bar, block_scaled_bars, quantize_bars
from readme_format import not_met, source_line, table
from result_file import read_csv
from summary import Key, read_times

_PEER_WORDS = {"triton": "Triton", "torch_dequantize": "dequantize, cuBLAS"}


def _products(source: Path) -> list[str]:
    head, times = read_times(source)
    shapes = list(dict.fromkeys((key.m, key.n, key.k) for key in times))
    rows = []
    for name in BLOCK_SCALED_FORMATS:
        for m, n, k in shapes:
            by = times.get(Key(name, "NT", m, n, k, "none"), {})
            if "tileon" not in by:
                continue
            rates = [f"{2.0 * m * n * k / by[who] * 1e-6:.0f}" if who in by else "" for who in ("tileon", *_PEER_WORDS)]
            against = [f"{by[who] / by['tileon']:.2f}" if who in by else "" for who in _PEER_WORDS]
            rows.append([name, f"{m} x {n} x {k}", *rates, *against])
    columns = ["format", "m x n x k", "tileon", *_PEER_WORDS.values()]
    columns += [f"tileon / {words}" for words in _PEER_WORDS.values()]
    return [
        f"TFLOP/s, float16 out ({head.get('timing', '')}). Triton is one kernel with `tl.dot_scaled`; the other peer "
        "turns each operand into bfloat16 by one kernel of `torch.compile` and has cuBLAS multiply them, bfloat16 out:",
        "",
        *table(columns, rows, 2),
        "",
        *_nothing_to_compare(block_scaled_bars(source.parent)),
        *not_met(block_scaled_bars(source.parent)),
        source_line(source, head),
    ]


def _nothing_to_compare(bars: list[Bar]) -> list[str]:
    """Why a peer's column is empty for a whole format."""
    lines = [f"{bar.what.split()[0]}: {bar.figure}." for bar in bars if bar.no_peer]
    return [" ".join(lines), ""] if lines else []


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


def block_scaled_part(results: Path) -> list[str]:
    """The section, or nothing while there is neither block_scaled_portable.csv nor quantize.csv."""
    makers = {"block_scaled_portable.csv": _products, "quantize.csv": _quantize}
    parts = [make(results / name) for name, make in makers.items() if (results / name).exists()]
    if not parts:
        return []
    lines = ["### Block-scaled products", ""]
    for part in parts:
        lines += [*part, ""]
    return lines[:-1]
