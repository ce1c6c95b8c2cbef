"""fp8 products against `torch._scaled_mm`: the cases of fp8.csv, their targets, and the table."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.cases import FP8_PAIRINGS, Work, square_cases
from benchmarks.common.markdown import page_part, rates, ratio, table
from benchmarks.common.result_file import of_file
from benchmarks.common.target import Asked, Target, mean_target, targets_of
from benchmarks.common.times import Comparison, Ratios, Times, read_times, square, squares

SOURCE = "fp8.csv"
OFFERED_BY_TORCH = ("e4m3", "e4m3xe5m2", "e5m2xe4m3")
PAIRINGS = (*OFFERED_BY_TORCH, "e5m2")
SQUARES = tuple(range(1024, 8193, 512))
OTHER_LAYOUT_SQUARES = (2048, 4096, 8192)
ACCUMULATIONS = {"precise": ("tileon", "torch"), "fast": ("tileon_fast", "torch_fast")}  # ours, torch's

_OVER_TORCH = 1.00  # torch's time over ours, at least
_OVER_E4M3 = 0.97  # the time of e4m3 over that of e5m2, at least: rates within 3 %
_SHOWN_SQUARES = (1024, 2048, 4096, 8192)
_KEYS = {name: [square(name, "NT", size) for size in SQUARES] for name in PAIRINGS}


def work() -> list[Work]:
    """Squares, most of them NT: torch takes operands that are contiguous along k alone. Size by size: pairings are held
    against each other, and a drift of clocks meets neighbours alike. What torch offers: measure/peers/providers.py."""
    providers = ("tileon", "tileon_fast", "torch", "torch_fast")
    kinds = [("NT", SQUARES), *((layout, OTHER_LAYOUT_SQUARES) for layout in ("NN", "TT", "TN"))]
    groups = (square_cases([size], [*FP8_PAIRINGS], [layout]) for layout, sizes in kinds for size in sizes)
    return [Work(case, providers) for group in groups for case in group]


def _e4m3_over_e5m2(times: Times, ours: str) -> Ratios | None:
    """Our time of e4m3 over that of e5m2, at the sizes that have both; None where none has."""
    found = Times()
    for e4m3, e5m2 in zip(_KEYS["e4m3"], _KEYS["e5m2"], strict=True):
        found[e5m2] = {key.dtype: times[key][ours] for key in (e4m3, e5m2) if ours in times.get(key, {})}
    return found.ratios(lambda _: True, "e4m3", "e5m2")


@of_file(SOURCE)
def targets(source: Path) -> list[Target]:
    """Means against torch, and of one pairing against another."""
    times = read_times(source)[1]
    asked = [
        Asked(f"{name} NT squares, {how}, torch / ours", _KEYS[name], _OVER_TORCH, over=peer, under=ours)
        for name in OFFERED_BY_TORCH
        for how, (ours, peer) in ACCUMULATIONS.items()
    ]
    return targets_of(times, asked) + [
        mean_target(f"NT squares, {how}, ours of e4m3 / e5m2", _e4m3_over_e5m2(times, ours), _OVER_E4M3)
        for how, (ours, _) in ACCUMULATIONS.items()
    ]


@of_file(SOURCE)
def comparisons(source: Path) -> list[Comparison]:
    """Each accumulation against its counterpart in `torch._scaled_mm`."""
    times, mine = read_times(source)[1], squares(OFFERED_BY_TORCH, "NT")
    words = {"precise": "fp8 squares, NT", "fast": "fp8 squares, NT, `fast_accum`"}
    return [one for how, (ours, peer) in ACCUMULATIONS.items() for one in times.compared(words[how], mine, peer, ours)]


def _rows(times: Times, name: str) -> list[list[str]]:
    rows, pairs = [], ACCUMULATIONS.values()
    for size in _SHOWN_SQUARES:
        key = square(name, "NT", size)
        by = times.get(key, {})
        if by:
            cells = [cell for ours, peer in pairs for cell in (*rates(times, key, (ours, peer)), ratio(by, peer, ours))]
            rows.append([name, str(size), *cells])
    means = [times.ratios(_KEYS[name], peer, ours) for ours, peer in pairs]
    if any(means):
        cells = [cell for found in means for cell in ("", "", f"{found.mean:.3f}" if found else "")]
        rows.append([name, f"mean of {SQUARES[0]} to {SQUARES[-1]}", *cells])
    return rows


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    head, times = read_times(source)
    pairs = [[who.replace("_", " ") for who in pair] for pair in ACCUMULATIONS.values()]
    columns = [column for ours, peer in pairs for column in (ours, peer, f"{ours} / {peer}")]
    words = (
        f"fp8 products, TFLOP/s, NT, by the dtypes of `a` x `b` ({head.get('timing', '')}). torch is "
        "`torch._scaled_mm`, which does not multiply e5m2 by e5m2; fast is `fast_accum`, or `use_fast_accum`. "
        f"The means are geometric, over {len(SQUARES)} sizes:"
    )
    rows = [row for name in PAIRINGS for row in _rows(times, name)]
    return page_part(source, table(words, ["fp8", "m = n = k", *columns], rows), targets(source.parent))
