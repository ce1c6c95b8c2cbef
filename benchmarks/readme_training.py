"""README's tables of training and of several GPUs: see readme_tables.py."""

from __future__ import annotations

from pathlib import Path

from readme_format import source_line, table
from result_file import read_csv

_PASSES = {"forward": "forward", "forward_backward": "forward + backward"}


def layer_part(results: Path) -> list[str]:
    """A linear layer with its activation, forward and backward."""
    source = results / "layer.csv"
    if not source.exists():
        return []
    head, rows = read_csv(source)
    times: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        times.setdefault((row["activation"], row["pass"]), {})[row["provider"]] = float(row["median_us"])
    lines = []
    for (activation, which), by in times.items():
        if which not in _PASSES:
            continue
        cells = [f"{by[name]:.0f}" for name in ("tileon", "torch", "tileon_compile", "torch_compile")]
        lines.append([activation, _PASSES[which], *cells, f"{by['tileon'] / by['torch']:.2f}"])
    shape = f"{rows[0]['m']}x{rows[0]['n']}x{rows[0]['k']} (m x n x k) {rows[0]['dtype']}"
    columns = ["activation", "passes", "tileon", "torch", "tileon, compiled", "torch, compiled", "tileon / torch"]
    return [
        f"Microseconds of a linear layer with bias and activation in training, {shape}, {head.get('timing', '')}:",
        "",
        *table(columns, lines, 2),
        "",
        source_line(source, head),
    ]


def parallel_part(results: Path) -> list[str]:
    """An MLP split over two GPUs against the whole one on one."""
    source = results / "parallel.csv"
    if not source.exists():
        return []
    head, rows = read_csv(source)
    lines = [
        [
            f"{row['features']} -> {row['hidden']} -> {row['features']}, m = {row['m']}",
            _PASSES[row["direction"]],
            row["provider"],
            row["devices"],
            f"{float(row['median_us']) / 1000:.2f}",
            f"{float(row['speedup']):.2f}",
        ]
        for row in rows
    ]
    return [
        f"An MLP ({rows[0]['dtype']}, {rows[0]['activation']}), the first layer split by columns, the second by rows, "
        f"on {head.get('devices', '')}: milliseconds, and how many times as fast as the same on one:",
        "",
        *table(["layers", "passes", "provider", "GPUs", "ms", "speed-up"], lines, 3),
        "",
        source_line(source, head),
    ]
