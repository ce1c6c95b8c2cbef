"""The figure of the block-scaled formats: time of each peer over ours, from block_scaled_matmul.csv."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.common.block_scaled_cases import DATA
from benchmarks.common.picture import (
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
from benchmarks.common.result_file import read_csv
from benchmarks.common.times import Key, Ratios, Times, plain, ratios, read_times
from benchmarks.subjects.block_scaled_rows import FORMATS, SOURCE

_RATIO = "peer's time / tileon's"
_PEERS = {
    "torch_dequantize": "dequantize, then cuBLAS",
    "triton": "Triton's tl.dot_scaled",
    "torch_bf16": "cuBLAS on bfloat16 operands",
}


def _over(found: Ratios, label: str, style: str, along: str = "m") -> Series:
    """Ratios as a series over m (or k), with their mean in its label."""
    points = sorted((float(getattr(key, along)), ratio) for key, ratio in found.by_case.items())
    xs, ys = zip(*points, strict=True)
    return Series(with_mean(label, ys), style, xs, ys)


def _panel(title: str, x_label: str, series: list[Series]) -> LinePanel:
    limits = limits_around(y for one in series for y in one.ys)
    ticks = powers_of_two(x for one in series for x in one.xs)
    return LinePanel(title, x_label, _RATIO, tuple(series), ticks, limits)


def _squares_rows(source: Path) -> tuple[DotRow, ...]:
    rows = []
    times = {data: read_times(source, data)[1] for data in DATA}
    for name in FORMATS:
        for data in DATA:
            groups = []
            for peer in _PEERS:
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
    for place, name in enumerate(FORMATS):
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
    for place, name in enumerate(FORMATS):

        def wanted(key: Key, name: str = name) -> bool:
            return (key.dtype, key.m, key.n) == (name, 8192, 8192)

        found = ratios(times, "torch_bf16", "tileon", wanted)
        if found:
            series.append(_over(found, name, f"part{place}", "k"))
    return series


def figure(results: Path) -> Picture | None:
    """The block-scaled formats against dequantization, Triton, and cuBLAS on bfloat16."""
    source = results / SOURCE
    if not source.exists():
        return None
    head, _ = read_csv(source)
    rows = _squares_rows(source)
    times = read_times(source, "normal")[1]
    panels: list[DotPanel | LinePanel] = []
    layout: list[tuple[int, ...]] = []
    if rows:
        styles = {style for row in rows for style, _ in row.groups}
        legend = tuple((style, words) for style, words in _PEERS.items() if style in styles)
        panels.append(DotPanel("squares", _RATIO, rows, legend))
        layout.append((0,))
    below = [
        ("m = n = 8192, against cuBLAS on bfloat16", "k", _by_k(times)),
        ("n = k = 8192, against cuBLAS on bfloat16", "m (rows of a)", _few_rows(times)),
    ]
    found_below = [one for one in below if one[2]]
    layout += [tuple(range(len(panels), len(panels) + len(found_below)))] if found_below else []
    panels += [_panel(title, x_label, series) for title, x_label, series in found_below]
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
