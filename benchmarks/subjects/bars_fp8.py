"""The marks of fp8 products: see bars.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.times import Key, Ratios, Times, ratios_of_all, read_times
from benchmarks.report.target import Bar, mean_bar

OFFERED_BY_TORCH = ("e4m3", "e4m3xe5m2", "e5m2xe4m3")
PAIRINGS = (*OFFERED_BY_TORCH, "e5m2")
SQUARES = tuple(range(1024, 8193, 512))
ACCUMULATIONS = {"precise": ("tileon", "torch"), "fast": ("tileon_fast", "torch_fast")}  # ours, torch's

_OVER_TORCH = 1.00  # torch's time over ours, at least
_OVER_E4M3 = 0.97  # the time of e4m3 over that of e5m2, at least: rates within 3 %


def square(name: str, size: int) -> Key:
    return Key(name, "NT", size, size, size, "none")


def over_torch(times: Times, name: str, accumulation: str) -> Ratios | None:
    """torch's time over ours; None unless every size has both."""
    ours, peer = ACCUMULATIONS[accumulation]
    return ratios_of_all(times, peer, ours, [square(name, size) for size in SQUARES])


def e4m3_over_e5m2(times: Times, accumulation: str) -> Ratios | None:
    """Our time of e4m3 over that of e5m2, at the sizes that have both; None where none has."""
    ours, _ = ACCUMULATIONS[accumulation]
    found = {}
    for size in SQUARES:
        e4m3, e5m2 = (times.get(square(name, size), {}).get(ours) for name in ("e4m3", "e5m2"))
        if e4m3 is not None and e5m2 is not None:
            found[square("e5m2", size)] = e4m3 / e5m2
    return Ratios(found) if found else None


def fp8_bars(results: Path) -> list[Bar]:
    """Nothing while there is no fp8.csv."""
    source = results / "fp8.csv"
    if not source.exists():
        return []
    times = read_times(source)[1]
    bars = [
        mean_bar(f"{name} NT squares, {accumulation}, torch / ours", over_torch(times, name, accumulation), _OVER_TORCH)
        for name in OFFERED_BY_TORCH
        for accumulation in ACCUMULATIONS
    ]
    return bars + [
        mean_bar(f"NT squares, {accumulation}, ours of e4m3 / e5m2", e4m3_over_e5m2(times, accumulation), _OVER_E4M3)
        for accumulation in ACCUMULATIONS
    ]
