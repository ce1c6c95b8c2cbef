"""The tables of training, of several GPUs and of the host's time. See result_tables.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.report.markdown import source_line, table

STATE_WORDS = {
    "inference_mode": "`torch.inference_mode`",
    "grad_unneeded": "grad mode, nothing requires a gradient",
    "grad_recorded": "a gradient is recorded",
}
# What makes the call, by the name that the file has for it.
HOST_FUNCTIONS = {
    "tileon": "torch.ops.tileon.matmul",
    "tileon_python": "tileon_ops.matmul",
    "torch": "torch.matmul",
}
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
        lines.append([activation, _PASSES[which], *cells, f"{by['torch'] / by['tileon']:.2f}"])
    shape = f"{rows[0]['m']}x{rows[0]['n']}x{rows[0]['k']} (m x n x k) {rows[0]['dtype']}"
    columns = ["activation", "passes", "tileon", "torch", "tileon, compiled", "torch, compiled", "torch / tileon"]
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


def host_part(results: Path) -> list[str]:
    """Host time of one eager call."""
    source = results / "host.csv"
    if not source.exists():
        return []
    head, rows = read_csv(source)
    times: dict[str, dict[str, str]] = {}
    for row in rows:
        times.setdefault(row["state"], {})[row["provider"]] = f"{float(row['median_us']):.1f}"
    lines = [
        [STATE_WORDS.get(state, state), *(by.get(name, "") for name in HOST_FUNCTIONS)] for state, by in times.items()
    ]
    return [
        f"Microseconds of host time for one eager call ({head.get('timing', '')}):",
        "",
        *table(["state", *(f"`{name}`" for name in HOST_FUNCTIONS.values())], lines, 1),
        "",
        source_line(source, head),
    ]
