"""quantize, dequantize and the packing of scales: targets and table of quantize.csv."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.markdown import part as page_part
from benchmarks.common.markdown import table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Target

SOURCE = "quantize.csv"
_COPY_TB_S = 4.29  # read and written by a large copy, on an H200; its data sheet has 4.8 of memory bandwidth
_COPY_SHARE = 0.70  # of that, for what only moves bytes


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """Bandwidth on 8192 x 8192."""
    rates = {
        (row["op"], row["format"]): float(row["tb_s"])
        for row in read_csv(source)[1]
        if row["m"] == row["k"] == "8192" and row["provider"] == "tileon"
    }
    asked, found = f">= {100 * _COPY_SHARE:.0f} % of {_COPY_TB_S} TB/s", []
    for op, name in [(op, name) for op in ("quantize", "dequantize") for name in ("mxfp8", "mxfp4", "nvfp4")]:
        what, rate = f"{op} {name} 8192 x 8192", rates.get((op, name))
        share = (rate or 0) / _COPY_TB_S
        figure = f"{100 * share:.0f} % ({rate:.2f} TB/s)" if rate else ""
        found.append(Target(what, asked, figure, share >= _COPY_SHARE if rate else None))
    return found


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """Of the largest tensor in the file."""
    rows = read_csv(source)[1]
    m, k = max(((int(row["m"]), int(row["k"])) for row in rows), key=lambda shape: shape[0] * shape[1])
    mine = {(row["op"], row["format"]): row for row in rows if (row["m"], row["k"]) == (str(m), str(k))}
    figures = {what: [f"{float(row['median_us']):.1f}", f"{float(row['tb_s']):.2f}"] for what, row in mine.items()}
    copied = figures.pop(("copy", "bfloat16"), None)
    formats = list(dict.fromkeys(name for _, name in figures))
    lines = [
        [f"`{op}`", *(cell for name in formats for cell in figures.get((op, name), ["", ""]))]
        for op in dict.fromkeys(op for op, _ in figures)
    ]
    said = f"; torch's copy of that tensor: {copied[0]} us, {copied[1]} TB/s" if copied else ""
    words = (
        f"Microseconds, and TB/s read and written, for a bfloat16 tensor of {m} x {k}{said}. `pack_scales` and "
        "`unpack_scales` move its scales alone:"
    )
    columns = ["op", *(f"{name} {unit}" for name in formats for unit in ("us", "TB/s"))]
    return page_part(source, table(words, columns, lines), targets(source.parent))
