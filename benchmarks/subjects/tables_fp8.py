"""The table of fp8 products, from fp8.csv. See result_tables.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.times import Times, read_times
from benchmarks.report.markdown import not_met, source_line, table
from benchmarks.subjects.bars_fp8 import ACCUMULATIONS, PAIRINGS, SQUARES, fp8_bars, over_torch, square

_SHOWN_SQUARES = (1024, 2048, 4096, 8192)


def _rates(by: dict[str, float], size: int, ours: str, peer: str) -> list[str]:
    """Both rates, and how many times the peer's ours is."""
    cells = [f"{2.0 * size**3 / by[who] * 1e-6:.0f}" if who in by else "" for who in (ours, peer)]
    return [*cells, f"{by[peer] / by[ours]:.2f}" if {ours, peer} <= by.keys() else ""]


def _rows(times: Times, name: str) -> list[list[str]]:
    rows = []
    for size in _SHOWN_SQUARES:
        by = times.get(square(name, size), {})
        if by:
            cells = [cell for pair in ACCUMULATIONS.values() for cell in _rates(by, size, *pair)]
            rows.append([name, str(size), *cells])
    means = [over_torch(times, name, accumulation) for accumulation in ACCUMULATIONS]
    if any(means):
        cells = [cell for found in means for cell in ("", "", f"{found.mean:.3f}" if found else "")]
        rows.append([name, f"mean of {SQUARES[0]} to {SQUARES[-1]}", *cells])
    return rows


def fp8_part(results: Path) -> list[str]:
    """Everything, or nothing while there is no fp8.csv."""
    source = results / "fp8.csv"
    if not source.exists():
        return []
    head, times = read_times(source)
    pairs = [[who.replace("_", " ") for who in pair] for pair in ACCUMULATIONS.values()]
    columns = [column for ours, peer in pairs for column in (ours, peer, f"{ours} / {peer}")]
    rows = [row for name in PAIRINGS for row in _rows(times, name)]
    return [
        f"fp8 products, TFLOP/s, NT, by the dtypes of `a` x `b` ({head.get('timing', '')}). torch is "
        "`torch._scaled_mm`, which does not multiply e5m2 by e5m2; fast is `fast_accum`, or `use_fast_accum`. "
        f"The means are geometric, over {len(SQUARES)} sizes:",
        "",
        *table(["fp8", "m = n = k", *columns], rows, 1),
        "",
        *not_met(fp8_bars(results)),
        source_line(source, head),
    ]
