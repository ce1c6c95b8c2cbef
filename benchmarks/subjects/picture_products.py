"""The pictures of single products: time of each peer over ours, by size. From matmul.csv, fp8.csv and
block_scaled_matmul.csv."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.common.times import Key, Ratios, Times, ratios, read_times
from benchmarks.report.picture import (
    DotPanel,
    DotRow,
    LinePanel,
    Picture,
    Series,
    caption_of,
    limits_around,
    machine,
    powers_of_two,
    with_mean,
)
from benchmarks.report.targets import LAYOUTS_16, linear, plain
from benchmarks.subjects.bars_block_scaled import BLOCK_SCALED_FORMATS, KINDS
from benchmarks.subjects.bars_fp8 import ACCUMULATIONS, OFFERED_BY_TORCH

RATIO = "peer's time / tileon's"
READING = "Above the line at 1 tileon is faster, below it the peer; means are geometric."
_PEERS = {"torch": "torch (cuBLAS)", "triton": "Triton"}
_BLOCK_SCALED_PEERS = {
    "torch_dequantize": "dequantize, then cuBLAS",
    "triton": "Triton's tl.dot_scaled",
    "torch_bf16": "cuBLAS on bfloat16 operands",
}


def _over(found: Ratios, label: str, style: str, along: str = "m") -> Series:
    """Ratios as a series over m (or k), with their mean in its label."""
    points = sorted((float(getattr(key, along)), ratio) for key, ratio in found.by_case.items())
    xs, ys = zip(*points, strict=True)
    return Series(with_mean(label, ys), style, xs, ys)


def _panel(title: str, x_label: str, series: list[Series], limits: tuple[float, float]) -> LinePanel:
    ticks = powers_of_two(x for one in series for x in one.xs)
    return LinePanel(title, x_label, RATIO, tuple(series), ticks, limits)


def _heights(series: list[list[Series]]) -> tuple[float, float]:
    """Limits that several panels share."""
    return limits_around(y for panel in series for one in panel for y in one.ys)


def _linear_series(times: Times) -> list[Series]:
    found = linear(times)
    if found is None:
        return []
    weights = sorted({(key.n, key.k) for key in found.by_case}, key=lambda shape: shape[0] * shape[1])
    series = []
    for place, (n, k) in enumerate(weights):
        mine = Ratios({key: ratio for key, ratio in found.by_case.items() if (key.n, key.k) == (n, k)})
        series.append(_over(mine, f"{n} x {k}", f"part{place}"))
    return series


def matmul_picture(results: Path) -> Picture | None:
    """float16 and bfloat16 against torch and Triton."""
    source = results / "matmul.csv"
    if not source.exists():
        return None
    head, times = read_times(source)
    squares: dict[str, list[Series]] = {}
    for dtype, majors in LAYOUTS_16:
        peers = [(who, ratios(times, who, "tileon", plain(dtype, majors))) for who in _PEERS]
        found = [_over(by_case, _PEERS[who], who) for who, by_case in peers if by_case]
        if found:
            squares[f"{dtype} {majors}, squares"] = found
    limits = _heights(list(squares.values()))
    panels = [_panel(title, "m = n = k", series, limits) for title, series in squares.items()]
    layout: list[tuple[int, ...]] = [tuple(range(at, min(at + 2, len(panels)))) for at in range(0, len(panels), 2)]
    heights = [2.4] * len(layout)
    layers = _linear_series(times)
    if layers:
        title = "bfloat16 NT, linear layers against torch (cuBLAS), by n x k of the weight"
        layout.append((len(panels),))
        heights.append(2.6)
        panels.append(_panel(title, "m (rows of the activations)", layers, _heights([layers])))
    if not panels:
        return None
    return Picture(
        "matmul",
        f"matmul in 16 bits: time of its peers over tileon's, {machine(head)}",
        caption_of({source.name: head}, [READING, f"Timing: {head.get('timing', '')}."]),
        tuple(panels),
        tuple(layout),
        tuple(heights),
    )


def fp8_picture(results: Path) -> Picture | None:
    """fp8 against torch._scaled_mm, each accumulation against its counterpart."""
    source = results / "fp8.csv"
    if not source.exists():
        return None
    head, times = read_times(source)
    words = {"precise": "precise accumulation", "fast": "fast accumulation (fast_accum)"}
    by_title: dict[str, list[Series]] = {}
    for name, (ours, peer) in ACCUMULATIONS.items():
        for place, pairing in enumerate(OFFERED_BY_TORCH):
            found = ratios(times, peer, ours, plain(pairing, "NT"))
            if found:
                label = pairing if "x" in pairing else f"{pairing}x{pairing}"
                by_title.setdefault(words[name], []).append(_over(found, label, f"part{place}"))
    if not by_title:
        return None
    limits = _heights(list(by_title.values()))
    panels = [_panel(title, "m = n = k", series, limits) for title, series in by_title.items()]
    notes = [f"{READING} torch offers no product of e5m2 and e5m2.", f"Timing: {head.get('timing', '')}."]
    return Picture(
        "fp8",
        f"matmul in fp8, NT: time of torch._scaled_mm (cuBLASLt) over tileon's, {machine(head)}",
        caption_of({source.name: head}, notes),
        tuple(panels),
        (tuple(range(len(panels))),),
        (3.0,),
    )


def _squares_rows(source: Path) -> tuple[DotRow, ...]:
    rows = []
    times = {data: read_times(source, data)[1] for data in KINDS}
    for name in BLOCK_SCALED_FORMATS:
        for data in KINDS:
            groups = []
            for peer in _BLOCK_SCALED_PEERS:
                found = ratios(times[data], peer, "tileon", plain(name, "NT"))
                if found:
                    groups.append((peer, tuple(ratio for _, ratio in sorted(found.by_case.items()))))
            if groups:
                rows.append(DotRow(f"{name}, {data} data", tuple(groups)))
    return tuple(rows)


def _few_rows(times: Times) -> list[Series]:
    """Of each format, over m, against weights of 8192 x 8192 that are bfloat16: by graph replay; from 128 rows on by
    events, and there with a prepared weight as well: by a private op, which no layer uses today."""
    kinds = (
        ("torch_bf16_graph", "tileon_graph", "-"),
        ("torch_bf16", "tileon", "-"),
        ("torch_bf16", "tileon_prepared", "--"),
    )
    series = []
    for place, name in enumerate(BLOCK_SCALED_FORMATS):
        label = name
        for peer, ours, line in kinds:

            def wanted(key: Key, name: str = name) -> bool:
                return key.dtype == name and (key.n, key.k) == (8192, 8192) and key.m < 8192

            found = ratios(times, peer, ours, wanted)
            if found:
                points = _over(found, "", f"part{place}")
                series.append(replace(points, label=label, line=line, hollow=line == "--"))
                label = ""  # a format is in the legend once
    if any(one.hollow for one in series):
        series.append(Series("prepared weight", "key", (), (), "--", hollow=True))
    return series


def _by_k(times: Times) -> list[Series]:
    """Of each format, at m = n = 8192, against the same product of bfloat16 operands."""
    series = []
    for place, name in enumerate(BLOCK_SCALED_FORMATS):

        def wanted(key: Key, name: str = name) -> bool:
            return (key.dtype, key.m, key.n) == (name, 8192, 8192)

        found = ratios(times, "torch_bf16", "tileon", wanted)
        if found:
            series.append(_over(found, name, f"part{place}", "k"))
    return series


def block_scaled_picture(results: Path) -> Picture | None:
    """The block-scaled formats against dequantization, Triton, and cuBLAS on bfloat16."""
    source = results / "block_scaled_matmul.csv"
    if not source.exists():
        return None
    head, _ = read_csv(source)
    rows = _squares_rows(source)
    times = read_times(source, "normal")[1]
    panels: list[DotPanel | LinePanel] = []
    layout: list[tuple[int, ...]] = []
    if rows:
        styles = {style for row in rows for style, _ in row.groups}
        legend = tuple((style, words) for style, words in _BLOCK_SCALED_PEERS.items() if style in styles)
        panels.append(DotPanel("squares", RATIO, rows, legend))
        layout.append((0,))
    below = [
        ("m = n = 8192, against cuBLAS on bfloat16", "k", _by_k(times)),
        ("n = k = 8192, against cuBLAS on bfloat16", "m (rows of a)", _few_rows(times)),
    ]
    found_below = [one for one in below if one[2]]
    layout += [tuple(range(len(panels), len(panels) + len(found_below)))] if found_below else []
    panels += [_panel(title, x_label, series, _heights([series])) for title, x_label, series in found_below]
    if not panels:
        return None
    notes = (
        "Right of the line at 1, or above it, tileon is faster, in the shade the peer; means are geometric. The larger "
        "the square (2048, 4096, 8192), the larger its mark. Dequantize: either operand into bfloat16 by a kernel of "
        "torch.compile. Below: normal data, up to 64 rows by CUDA-graph replay; dashed with a prepared weight, by a "
        "private op that no layer uses today."
    )
    return Picture(
        "block_scaled",
        f"block_scaled_matmul: time of its peers over tileon's, {machine(head)}",
        caption_of({source.name: head}, [notes, f"Timing: {head.get('timing', '')}."]),
        tuple(panels),
        tuple(layout),
        tuple([3.4] * len(rows[:1]) + [2.8] * len(found_below[:1])),
    )
