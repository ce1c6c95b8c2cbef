"""The tables of float16 and bfloat16 against their peers, from matmul.csv and sweep.csv. See result_tables.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.times import Key, Ratios, Times, ratios, read_times
from benchmarks.report.markdown import not_met, source_line, table
from benchmarks.report.targets import (
    GRAPH_RANGES,
    LAYOUTS_16,
    OTHER_LAYOUTS_16,
    fused,
    graph_ratios,
    linear,
    matmul_bars,
    plain,
)

_SHOWN_SQUARES = (256, 512, 1024, 2048, 4096, 8192)
_LEVEL = 0.02  # ratios this near to 1 are called level: another run may say otherwise


def _mean(found: Ratios | None) -> str:
    return f"{found.mean:.2f}" if found else ""


def _time(times: Times, key: Key, provider: str) -> float | None:
    return times.get(key, {}).get(provider)


def _rates(times: Times) -> list[str]:
    columns = [(dtype, provider) for dtype in ("float16", "bfloat16") for provider in ("tileon", "torch", "triton")]
    rows = []
    for size in _SHOWN_SQUARES:
        cells = []
        for dtype, provider in columns:
            time = _time(times, Key(dtype, "NN", size, size, size, "none"), provider)
            cells.append(f"{2.0 * size**3 / time * 1e-6:.0f}" if time else "")
        rows.append([str(size), *cells])
    head = ["m = n = k", *(f"{dtype} {provider}" for dtype, provider in columns)]
    return ["TFLOP/s, NN:", "", *table(head, rows, 1), ""]


def _squares(times: Times) -> list[str]:
    rows = []
    for dtype, layout in LAYOUTS_16 + OTHER_LAYOUTS_16:
        torch = ratios(times, "torch", "tileon", plain(dtype, layout))
        triton = ratios(times, "triton", "tileon", plain(dtype, layout))
        if torch is None:
            continue
        values = torch.by_case.values()
        faster, slower = sum(value > 1 + _LEVEL for value in values), sum(value < 1 - _LEVEL for value in values)
        counts = [str(count) for count in (faster, len(values) - faster - slower, slower)]
        lowest = ", ".join(f"{ratio:.2f} at {key.m}" for key, ratio in torch.lowest(3))
        rows.append([f"{dtype} {layout}", f"{torch.mean:.3f}", *counts, lowest, _mean(triton)])
    head = ["squares", "torch / tileon", "faster", "level", "slower", "lowest", "triton / tileon"]
    return [
        "The peer's time over ours (above 1 ours is faster), in geometric mean over the squares; at how many of them "
        f"ours is faster than torch, within {100 * _LEVEL:.0f} % of it, and slower; and the three worst sizes:",
        "",
        *table(head, rows, 1),
        "",
    ]


def _graphs(times: Times) -> list[str]:
    sizes = sorted({key.m for key, by in times.items() if "tileon_graph" in by})
    if not sizes:
        return []
    rows = []
    for size in sizes:
        cells = [str(size)]
        for layout in ("NN", "NT"):
            key = Key("float16", layout, size, size, size, "none")
            pair = [_time(times, key, provider) for provider in ("tileon_graph", "torch_graph")]
            cells += [f"{time:.2f}" if time else "" for time in pair]
            cells.append(_mean(graph_ratios(times, layout, size, size)))
        rows.append(cells)
    for first, last, _ in GRAPH_RANGES:
        means = [_mean(graph_ratios(times, layout, first, last)) for layout in ("NN", "NT")]
        rows.append([f"mean of {first} to {last}", "", "", means[0], "", "", means[1]])
    columns = [f"{layout} {what}" for layout in ("NN", "NT") for what in ("tileon", "torch", "torch / tileon")]
    return [
        "Microseconds of a float16 square by CUDA-graph replay, back to back with warm operands:",
        "",
        *table(["m = n = k", *columns], rows, 1),
        "",
    ]


def _fused(times: Times) -> list[str]:
    rows = [
        [
            f"{case.key.dtype} {case.key.shape}",
            *(f"{time:.1f}" for time in (case.plain, case.ours)),
            f"{100 * (case.over_plain - 1):+.1f} %",
            f"{case.torch:.1f}",
            f"{case.against_torch:.2f}",
        ]
        for case in fused(times)
    ]
    if not rows:
        return []
    head = ["squares, NN", "tileon, plain", "tileon, fused", "fused over plain", "torch", "torch / tileon"]
    return ["Microseconds with `bias` and `leaky_relu`; torch takes two kernels:", "", *table(head, rows, 1), ""]


def linear_lines(times: Times, dtype: str = "bfloat16") -> list[str]:
    """Ratios of the linear layers, by rows and weight; nothing where none was measured."""
    found = linear(times, dtype)
    if found is None:
        return []
    weights = list(dict.fromkeys((key.n, key.k) for key in found.by_case))
    rows = []
    for m in sorted({key.m for key in found.by_case}):
        shapes = [Key(dtype, "NT", m, n, k, "none") for n, k in weights]
        rows.append([str(m), *(f"{found.by_case[key]:.2f}" if key in found.by_case else "" for key in shapes)])
    key, worst = found.worst
    return [
        f"Linear layers in {dtype} (NT), torch's time over ours by rows of `a` and n x k of the weight: "
        f"{found.mean:.3f} in geometric mean, at worst {worst:.3f} ({key.m} rows, {key.n} x {key.k}):",
        "",
        *table(["rows", *(f"{n} x {k}" for n, k in weights)], rows, 1),
        "",
    ]


def peers_part(results: Path) -> list[str]:
    """Everything, or nothing while there is no matmul.csv."""
    source = results / "matmul.csv"
    if not source.exists():
        return []
    head, times = read_times(source)
    parts = (_rates, _squares, _graphs, _fused, linear_lines)
    lines = [line for part in parts for line in part(times)]
    timing = f"float16 and bfloat16 against their peers: {head.get('timing', '')}. No size is treated specially."
    return [timing, "", *lines, *not_met(matmul_bars(results)), source_line(source, head)]
