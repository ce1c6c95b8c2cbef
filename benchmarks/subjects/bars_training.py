"""The marks of training, of the host's time and of several GPUs: see bars.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.report.target import Bar

# Of the time of one eager call, ours over torch's in the same state, at most; by state and provider.
HOST_LIMITS = {
    ("inference_mode", "tileon"): 0.90,
    ("grad_unneeded", "tileon"): 1.15,
    ("grad_unneeded", "tileon_python"): 1.00,
    ("grad_recorded", "tileon"): 1.50,
}
LAYER_LIMITS = {"torch": ("tileon", 0.97), "torch_compile": ("tileon_compile", 1.00)}  # by the peer
REPLAY_LIMIT = 1.02  # CUDA graphs of torch.compile over the kernel alone
LEAST_SPEEDUP = 1.60  # of two GPUs
BAR_ACTIVATION = "leaky_relu"


def _at_most(what: str, ours: float | None, peer: float | None, limit: float) -> Bar:
    asked = f"<= {limit:.2f}"
    if ours is None or peer is None:
        return Bar(what, asked, "", None)
    return Bar(what, asked, f"{ours / peer:.3f} ({ours:.1f} / {peer:.1f} us)", ours / peer <= limit)


def _host_bars(source: Path) -> list[Bar]:
    times = {(row["state"], row["provider"]): float(row["median_us"]) for row in read_csv(source)[1]}
    return [
        _at_most(
            f"host time, {state}, {provider} / torch", times.get((state, provider)), times.get((state, "torch")), to
        )
        for (state, provider), to in HOST_LIMITS.items()
    ]


def _layer_bars(source: Path) -> list[Bar]:
    times = {
        (row["pass"], row["provider"]): float(row["median_us"])
        for row in read_csv(source)[1]
        if row["activation"] == BAR_ACTIVATION
    }
    bars = [
        _at_most(
            f"linear layer, forward + backward, {ours} / {peer}",
            times.get(("forward_backward", ours)),
            times.get(("forward_backward", peer)),
            limit,
        )
        for peer, (ours, limit) in LAYER_LIMITS.items()
    ]
    replay, kernel = (times.get(("replay", provider)) for provider in ("reduce_overhead_fixed", "kernel"))
    return [
        *bars,
        _at_most("linear layer, reduce-overhead, x in place / the kernel", replay, kernel, REPLAY_LIMIT),
    ]


def _parallel_bars(source: Path) -> list[Bar]:
    bars = []
    for row in read_csv(source)[1]:
        if row["provider"] == "tileon" and row["devices"] == "2":
            speedup = float(row["speedup"])
            what = f"MLP of m = {row['m']} on 2 GPUs over 1, {row['direction']}"
            bars.append(Bar(what, f">= {LEAST_SPEEDUP:.2f}", f"{speedup:.3f}", speedup >= LEAST_SPEEDUP))
    return bars


def training_bars(results: Path) -> list[Bar]:
    """Nothing of a file that is not there."""
    makers = {"host.csv": _host_bars, "layer.csv": _layer_bars, "parallel.csv": _parallel_bars}
    return [bar for name, make in makers.items() if (results / name).exists() for bar in make(results / name)]
