"""quantize, dequantize and the packing of scales: targets and table of quantize.csv."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.gpu_roofs import GPU_ROOFS
from benchmarks.common.markdown import not_met, source_line, table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Target

SOURCE = "quantize.csv"
_COPY_TB_S = GPU_ROOFS["NVIDIA H200"].copy_tb_s  # read and written by a large copy
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
    for op in ("quantize", "dequantize"):
        for name in ("mxfp8", "mxfp4", "nvfp4"):
            what, rate = f"{op} {name} 8192 x 8192", rates.get((op, name))
            if rate is None:
                found.append(Target(what, asked))
            else:
                share = rate / _COPY_TB_S
                found.append(Target(what, asked, f"{100 * share:.0f} % ({rate:.2f} TB/s)", share >= _COPY_SHARE))
    return found


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """Of the largest tensor in the file."""
    head, rows = read_csv(source)
    m, k = max(((int(row["m"]), int(row["k"])) for row in rows), key=lambda shape: shape[0] * shape[1])
    mine = [row for row in rows if (int(row["m"]), int(row["k"])) == (m, k)]
    ours = {(row["op"], row["format"]): row for row in mine if row["provider"] == "tileon"}
    formats, lines = list(dict.fromkeys(name for _, name in ours)), []
    for op in dict.fromkeys(op for op, _ in ours):
        cells = []
        for name in formats:
            row = ours.get((op, name))
            cells += [f"{float(row['median_us']):.1f}", f"{float(row['tb_s']):.2f}"] if row else ["", ""]
        lines.append([f"`{op}`", *cells])
    said = "".join(
        f"; torch's copy of that tensor: {float(row['median_us']):.1f} us, {float(row['tb_s']):.2f} TB/s"
        for row in mine
        if row["provider"] == "copy"
    )
    return [
        f"Microseconds, and TB/s read and written, for a bfloat16 tensor of {m} x {k}{said}. `pack_scales` and "
        "`unpack_scales` move its scales alone:",
        "",
        *table(["op", *(f"{name} {unit}" for name in formats for unit in ("us", "TB/s"))], lines, 1),
        "",
        *not_met(targets(source.parent)),
        source_line(source, head),
    ]
