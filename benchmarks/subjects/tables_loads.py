"""What tiles cost that reach beyond an operand, from sweep.csv: docs/dense_on_hopper.md. See result_tables.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.common.times import Key, read_row_times
from benchmarks.report.markdown import source_line, table

_ROW = "sm90_gemm_64x32x128"  # of the tile table: 64 rows, of which x fills some
_WEIGHT = (4096, 14336)  # n, k


def tile_loads_part(results: Path) -> list[str]:
    """Microseconds of one row of the tile table by rows of x; nothing while there is no sweep.csv with such cases."""
    source = results / "sweep.csv"
    if not source.exists():
        return []
    times = read_row_times(source, (_ROW,))
    found = sorted(
        (key.m, by[_ROW])
        for key, by in times.items()
        if key == Key("bfloat16", "NT", key.m, *_WEIGHT, "none") and key.m <= 64
    )
    if not found:
        return []
    return [
        *table(["rows of x", *(str(rows) for rows, _ in found)], [["us", *(f"{us:.1f}" for _, us in found)]], 1),
        "",
        source_line(source, read_csv(source)[0]),
    ]
