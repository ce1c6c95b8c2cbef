"""quantize, dequantize and the packing of scales: targets and table of quantize.csv."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.markdown import page_part, table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Target, each_target, limit_target

SOURCE = "quantize.csv"
_COPY_TB_S = 4.29  # read and written by a large copy, on an H200; its data sheet has 4.8 of memory bandwidth
_COPY_SHARE = 0.70  # of that, for what only moves bytes
_ROWS, _MOST_TIMES = "nvfp4 rows", 1.5  # which reads a row to its end before it writes; its time over that of nvfp4


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """Bandwidth on 8192 x 8192."""
    found: dict[str, list[tuple[str, float]]] = {"quantize": [], "dequantize": []}
    for row in read_csv(source)[1]:
        if row["op"] in found and row["m"] == row["k"] == "8192" and row["format"] != _ROWS:
            found[row["op"]].append((row["format"], float(row["tb_s"])))
    words, bound = f"{{:.2f}} TB/s, {_COPY_SHARE:.0%} of a copy's", _COPY_SHARE * _COPY_TB_S
    moved = [each_target(f"{op} 8192 x 8192", rates, bound, words, words="{:.2f} TB/s") for op, rates in found.items()]
    return [*moved, *_of_rows(source)]


def _of_rows(source: Path) -> list[Target]:
    rows = [row for row in read_csv(source)[1] if row["op"] == "quantize" and row["m"] == row["k"] == "8192"]
    us = {row["format"]: float(row["median_us"]) for row in rows}
    if _ROWS not in us:  # the file is older
        return []
    return [limit_target(f"quantize 8192 x 8192, {_ROWS} / nvfp4", us[_ROWS], us.get("nvfp4"), _MOST_TIMES)]


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
