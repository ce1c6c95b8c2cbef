"""fp8 products against `torch._scaled_mm`: the cases of fp8.csv, their targets, and the table."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.cases import FP8_PAIRINGS, Case, Work
from benchmarks.common.markdown import not_met, rates, ratio, source_line, table
from benchmarks.common.result_file import of_file
from benchmarks.common.target import Target, mean_target
from benchmarks.common.times import (
    Comparison,
    Ratios,
    Times,
    among_squares,
    compared,
    ratios_of_all,
    read_times,
    square,
)

SOURCE = "fp8.csv"
OFFERED_BY_TORCH = ("e4m3", "e4m3xe5m2", "e5m2xe4m3")
PAIRINGS = (*OFFERED_BY_TORCH, "e5m2")
SQUARES = tuple(range(1024, 8193, 512))
ACCUMULATIONS = {"precise": ("tileon", "torch"), "fast": ("tileon_fast", "torch_fast")}  # ours, torch's

_OVER_TORCH = 1.00  # torch's time over ours, at least
_OVER_E4M3 = 0.97  # the time of e4m3 over that of e5m2, at least: rates within 3 %
_SHOWN_SQUARES = (1024, 2048, 4096, 8192)


def work() -> list[Work]:
    """Squares, NT: torch and wgmma take operands that are contiguous along k. Size by size: pairings are held against
    each other, and a drift of clocks meets neighbours alike. torch has what it offers: measure/peers/dense.py."""
    providers = ("tileon", "tileon_fast", "torch", "torch_fast")
    return [Work(Case(name, "NT", size, size, size), providers) for size in SQUARES for name in FP8_PAIRINGS]


def _over_torch(times: Times, name: str, accumulation: str) -> Ratios | None:
    """torch's time over ours; None unless every size has both."""
    ours, peer = ACCUMULATIONS[accumulation]
    return ratios_of_all(times, peer, ours, [square(name, "NT", size) for size in SQUARES])


def _e4m3_over_e5m2(times: Times, accumulation: str) -> Ratios | None:
    """Our time of e4m3 over that of e5m2, at the sizes that have both; None where none has."""
    ours, _ = ACCUMULATIONS[accumulation]
    found = {}
    for size in SQUARES:
        e4m3, e5m2 = (times.get(square(name, "NT", size), {}).get(ours) for name in ("e4m3", "e5m2"))
        if e4m3 is not None and e5m2 is not None:
            found[square("e5m2", "NT", size)] = e4m3 / e5m2
    return Ratios(found) if found else None


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """Means against torch, and of one pairing against another."""
    times = read_times(source)[1]
    found = [
        mean_target(f"{name} NT squares, {how}, torch / ours", _over_torch(times, name, how), _OVER_TORCH)
        for name in OFFERED_BY_TORCH
        for how in ACCUMULATIONS
    ]
    return found + [
        mean_target(f"NT squares, {how}, ours of e4m3 / e5m2", _e4m3_over_e5m2(times, how), _OVER_E4M3)
        for how in ACCUMULATIONS
    ]


def comparisons(times: Times) -> list[Comparison]:
    """Of README's table and the overview: each accumulation against its counterpart in `torch._scaled_mm`."""
    words = {"precise": "fp8 squares, NT", "fast": "fp8 squares, NT, `fast_accum`"}
    mine = among_squares(OFFERED_BY_TORCH, "NT")
    found = []
    for name, (ours, peer) in ACCUMULATIONS.items():
        found += [Comparison(words[name], "torch", one.found) for one in compared(times, ("", peer, ours, mine))]
    return found


def _rows(times: Times, name: str) -> list[list[str]]:
    rows = []
    for size in _SHOWN_SQUARES:
        key = square(name, "NT", size)
        by = times.get(key, {})
        if by:
            pairs = ACCUMULATIONS.values()
            cells = [cell for ours, peer in pairs for cell in (*rates(key, by, (ours, peer)), ratio(by, peer, ours))]
            rows.append([name, str(size), *cells])
    means = [_over_torch(times, name, accumulation) for accumulation in ACCUMULATIONS]
    if any(means):
        cells = [cell for found in means for cell in ("", "", f"{found.mean:.3f}" if found else "")]
        rows.append([name, f"mean of {SQUARES[0]} to {SQUARES[-1]}", *cells])
    return rows


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """The page's part."""
    head, times = read_times(source)
    pairs = [[who.replace("_", " ") for who in pair] for pair in ACCUMULATIONS.values()]
    columns = [column for ours, peer in pairs for column in (ours, peer, f"{ours} / {peer}")]
    return [
        f"fp8 products, TFLOP/s, NT, by the dtypes of `a` x `b` ({head.get('timing', '')}). torch is "
        "`torch._scaled_mm`, which does not multiply e5m2 by e5m2; fast is `fast_accum`, or `use_fast_accum`. "
        f"The means are geometric, over {len(SQUARES)} sizes:",
        "",
        *table(["fp8", "m = n = k", *columns], [row for name in PAIRINGS for row in _rows(times, name)], 1),
        "",
        *not_met(targets(source.parent)),
        source_line(source, head),
    ]
