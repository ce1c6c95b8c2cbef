"""Training, several GPUs and the host's time: targets and tables of layer.csv, parallel.csv and host.csv."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.markdown import ratio, source_line, table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Target, limit_target
from benchmarks.common.times import by_provider

LAYER, PARALLEL, HOST = "layer.csv", "parallel.csv", "host.csv"

# Of the time of one eager call, ours over torch's in the same state, at most; by state and provider.
_HOST_LIMITS = {
    ("inference_mode", "tileon"): 0.90,
    ("grad_unneeded", "tileon"): 1.15,
    ("grad_unneeded", "tileon_python"): 1.00,
    ("grad_recorded", "tileon"): 1.50,
}
_LAYER_LIMITS = {"torch": ("tileon", 0.97), "torch_compile": ("tileon_compile", 1.00)}  # by the peer
_REPLAY_LIMIT = 1.02  # CUDA graphs of torch.compile over the kernel alone
_LEAST_SPEEDUP = 1.60  # of two GPUs
_TARGET_ACTIVATION = "leaky_relu"

PASSES = {"forward": "forward", "forward_backward": "forward + backward"}
STATES = {
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

Cell = dict[str, float]  # microseconds by provider


# Targets.


@of_file(HOST)
def _host_targets(source: Path) -> list[Target]:
    times = by_provider(read_csv(source)[1], "state")

    def target(state: str, provider: str, limit: float) -> Target:
        by = times.get((state,), {})
        return limit_target(f"host time, {state}, {provider} / torch", by.get(provider), by.get("torch"), limit)

    return [target(state, provider, limit) for (state, provider), limit in _HOST_LIMITS.items()]


@of_file(LAYER)
def _layer_targets(source: Path) -> list[Target]:
    times = by_provider(read_csv(source)[1], "activation", "pass")
    step, replay = (times.get((_TARGET_ACTIVATION, which), {}) for which in ("forward_backward", "replay"))
    found = [
        limit_target(f"linear layer, forward + backward, {ours} / {peer}", step.get(ours), step.get(peer), limit)
        for peer, (ours, limit) in _LAYER_LIMITS.items()
    ]
    what = "linear layer, reduce-overhead, x in place / the kernel"
    return [*found, limit_target(what, replay.get("reduce_overhead_fixed"), replay.get("kernel"), _REPLAY_LIMIT)]


@of_file(PARALLEL)
def _parallel_targets(source: Path) -> list[Target]:
    found = []
    for row in read_csv(source)[1]:
        if row["provider"] == "tileon" and row["devices"] == "2":
            speedup = float(row["speedup"])
            what = f"MLP of m = {row['m']} on 2 GPUs over 1, {row['direction']}"
            found.append(Target(what, f">= {_LEAST_SPEEDUP:.2f}", f"{speedup:.3f}", speedup >= _LEAST_SPEEDUP))
    return found


def targets(results: Path) -> list[Target]:
    """Of the files that are there."""
    return _host_targets(results) + _layer_targets(results) + _parallel_targets(results)


# Ratios: torch's time over ours.


def layer_ratios(source: Path) -> dict[tuple[str, ...], list[float]]:
    """By activation and pass: eager against eager, compiled against compiled."""
    return {
        case: [by[peer] / by[ours] for peer, (ours, _) in _LAYER_LIMITS.items() if {ours, peer} <= by.keys()]
        for case, by in by_provider(read_csv(source)[1], "activation", "pass").items()
        if case[1] in PASSES
    }


def parallel_ratios(source: Path) -> list[float]:
    """By m, direction and number of devices."""
    found = by_provider(read_csv(source)[1], "m", "direction", "devices")
    return [by["torch"] / by["tileon"] for by in found.values() if {"torch", "tileon"} <= by.keys()]


def host_ratios(source: Path) -> dict[str, list[float]]:
    """torch.matmul's host time over ours in each state, by our provider."""
    found = by_provider(read_csv(source)[1], "state").values()
    return {
        ours: [by["torch"] / by[ours] for by in found if {"torch", ours} <= by.keys()]
        for ours in HOST_FUNCTIONS
        if ours != "torch"
    }


# Tables.


@of_file(LAYER)
def layer_headline(source: Path) -> list[list[str]]:
    """Lines of README's table."""
    return [
        [f"a layer with {activation}, forward and backward", "torch", "1", *[ratio(by, "torch")] * 2]
        for (activation, which), by in by_provider(read_csv(source)[1], "activation", "pass").items()
        if which == "forward_backward" and {"torch", "tileon"} <= by.keys()
    ]


@of_file(HOST)
def host_headline(source: Path) -> list[list[str]]:
    """Lines of README's table: each state that takes gradients, by the op itself and by the function over it."""
    times = by_provider(read_csv(source)[1], "state")
    return [
        [f"host time of `{function}`, {STATES[state]}", "torch", "1", *[ratio(by, "torch", ours)] * 2]
        for state in ("grad_unneeded", "grad_recorded")
        for by in [times.get((state,), {})]
        for ours, function in HOST_FUNCTIONS.items()
        if ours != "torch" and {"torch", ours} <= by.keys()
    ]


@of_file(LAYER)
def layer_part(source: Path) -> list[str]:
    """A linear layer with its activation, forward and backward."""
    head, rows = read_csv(source)
    lines = []
    for (activation, which), by in by_provider(rows, "activation", "pass").items():
        if which in PASSES:
            cells = [f"{by[name]:.0f}" for name in ("tileon", "torch", "tileon_compile", "torch_compile")]
            lines.append([activation, PASSES[which], *cells, ratio(by, "torch")])
    shape = f"{rows[0]['m']}x{rows[0]['n']}x{rows[0]['k']} (m x n x k) {rows[0]['dtype']}"
    columns = ["activation", "passes", "tileon", "torch", "tileon, compiled", "torch, compiled", "torch / tileon"]
    return [
        f"Microseconds of a linear layer with bias and activation in training, {shape}, {head.get('timing', '')}:",
        "",
        *table(columns, lines, 2),
        "",
        source_line(source, head),
    ]


@of_file(PARALLEL)
def parallel_part(source: Path) -> list[str]:
    """An MLP split over two GPUs against the whole one on one."""
    head, rows = read_csv(source)
    lines = [
        [
            f"{row['features']} -> {row['hidden']} -> {row['features']}, m = {row['m']}",
            PASSES[row["direction"]],
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


@of_file(HOST)
def host_part(source: Path) -> list[str]:
    """Host time of one eager call."""
    head, rows = read_csv(source)
    lines = [
        [STATES.get(state, state), *(f"{by[name]:.1f}" if name in by else "" for name in HOST_FUNCTIONS)]
        for (state,), by in by_provider(rows, "state").items()
    ]
    return [
        f"Microseconds of host time for one eager call ({head.get('timing', '')}):",
        "",
        *table(["state", *(f"`{name}`" for name in HOST_FUNCTIONS.values())], lines, 1),
        "",
        source_line(source, head),
    ]
