"""Training, several GPUs and the host's time: targets and tables of layer.csv, training_models.csv, parallel.csv and
host.csv."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.markdown import microseconds, page_part, ratio, table
from benchmarks.common.result_file import of_file, read_csv
from benchmarks.common.target import Target, limit_target
from benchmarks.common.times import Comparison, by_provider, quotients

LAYER, MODELS, PARALLEL, HOST = "layer.csv", "training_models.csv", "parallel.csv", "host.csv"

# Of the time of one eager call, ours over torch's in the same state, at most; by state and provider.
_HOST_LIMITS = {
    ("inference_mode", "tileon"): 0.90,
    ("grad_unneeded", "tileon"): 1.15,
    ("grad_unneeded", "tileon_python"): 1.00,
    ("grad_recorded", "tileon"): 1.50,
}
_LAYER_LIMITS = {"torch": ("tileon", 0.97), "torch_compile": ("tileon_compile", 1.00)}  # by the peer
# Of the time of a training step, or of a layer's forward pass, ours over torch's, at most: of layers by pass and way,
# of the Llama by rows and way.
_SMALL_LAYER_LIMITS = {("forward", "eager"): 1.2, ("step", "eager"): 1.3}
_LLAMA_LIMITS = {("8x1024", "eager"): 1 / 0.98, ("1x128", "eager"): 1 / 0.92}
_COMPILED_LAYER, _COMPILED_LLAMA = 1.0, 1 / 1.03
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
HOST_FUNCTIONS = {"tileon": "torch.ops.tileon.matmul", "tileon_python": "tileon_ops.matmul", "torch": "torch.matmul"}
_OURS = ("tileon", "tileon_python")


# Targets.


@of_file(HOST)
def _host_targets(source: Path) -> list[Target]:
    found = by_provider(read_csv(source)[1], "state")
    return [
        limit_target(f"host time, {state}, {ours} / torch", by.get(ours), by.get("torch"), limit)
        for (state, ours), limit in _HOST_LIMITS.items()
        for by in [found.get((state,), {})]
    ]


@of_file(LAYER)
def _layer_targets(source: Path) -> list[Target]:
    by_pass = by_provider(read_csv(source)[1], "activation", "pass")
    step, replay = (by_pass.get((_TARGET_ACTIVATION, which), {}) for which in ("forward_backward", "replay"))
    found = [
        limit_target(f"linear layer, forward + backward, {ours} / {peer}", step.get(ours), step.get(peer), limit)
        for peer, (ours, limit) in _LAYER_LIMITS.items()
    ]
    what = "linear layer, reduce-overhead, x in place / the kernel"
    return [*found, limit_target(what, replay.get("reduce_overhead_fixed"), replay.get("kernel"), _REPLAY_LIMIT)]


@of_file(MODELS)
def _model_targets(source: Path) -> list[Target]:
    """Of small layers and of a Llama."""
    found = []
    for (model, rows, which, way), by in by_provider(read_csv(source)[1], "model", "rows", "pass", "way").items():
        if model.startswith("linear"):
            limit = _SMALL_LAYER_LIMITS.get((which, way), _COMPILED_LAYER)
        else:
            limit = _LLAMA_LIMITS.get((rows, way), _COMPILED_LLAMA)
        what = f"{model}, {rows} rows, {which}, {way}, tileon / torch"
        found.append(limit_target(what, by.get("tileon"), by.get("torch"), limit))
    return found


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
    makers = (_host_targets, _layer_targets, _model_targets, _parallel_targets)
    return [target for make in makers for target in make(results)]


# Comparisons of the overview, and lines of README's table, which has them one by one.


@of_file(LAYER)
def layer_comparisons(source: Path) -> list[Comparison]:
    """By pass: eager against eager, compiled against compiled."""
    found, lines = by_provider(read_csv(source)[1], "pass", "activation"), []
    for which, words in PASSES.items():
        mine = {key: by for key, by in found.items() if key[0] == which}
        over = [quotients(mine, peer, ours) for peer, (ours, _) in _LAYER_LIMITS.items()]
        ratios = [(key, by[key]) for key in mine for by in over if key in by]
        lines += Comparison.of(f"linear layer, {words}", ratios, alone=True)
    return lines


@of_file(PARALLEL)
def parallel_comparisons(source: Path) -> list[Comparison]:
    """Over m, direction and number of devices."""
    found = by_provider(read_csv(source)[1], "m", "direction", "devices")
    return Comparison.of("MLP on 1 and 2 GPUs", quotients(found).items(), alone=True)


@of_file(HOST)
def host_comparisons(source: Path) -> list[Comparison]:
    """In each state, by our provider."""
    found = by_provider(read_csv(source)[1], "state")
    over = {f"host time of {HOST_FUNCTIONS[ours]}": quotients(found, "torch", ours) for ours in _OURS}
    return [one for words, ratios in over.items() for one in Comparison.of(words, ratios.items(), alone=True)]


@of_file(LAYER)
def layer_headline(source: Path) -> list[list[str]]:
    ratios = quotients(by_provider(read_csv(source)[1], "activation", "pass"))
    return [
        [f"a layer with {activation}, forward and backward", "torch", "1", *[f"{over:.2f}"] * 2]
        for (activation, which), over in ratios.items()
        if which == "forward_backward"
    ]


@of_file(HOST)
def host_headline(source: Path) -> list[list[str]]:
    """Each state that takes gradients, by the op itself and by the function over it."""
    return [
        [f"host time of `{HOST_FUNCTIONS[ours]}`, {STATES[state]}", "torch", "1", *[ratio(by, "torch", ours)] * 2]
        for (state,), by in by_provider(read_csv(source)[1], "state").items()
        for ours in _OURS
        if state != "inference_mode" and {"torch", ours} <= by.keys()
    ]


# Tables.


@of_file(LAYER)
def layer_part(source: Path) -> list[str]:
    """A linear layer with its activation, forward and backward."""
    head, rows = read_csv(source)
    providers = ("tileon", "torch", "tileon_compile", "torch_compile")
    lines = [
        [activation, PASSES[which], *microseconds(by, providers, 0), ratio(by, "torch")]
        for (activation, which), by in by_provider(rows, "activation", "pass").items()
        if which in PASSES
    ]
    shape = f"{rows[0]['m']}x{rows[0]['n']}x{rows[0]['k']} (m x n x k) {rows[0]['dtype']}"
    words = f"Microseconds of a linear layer with bias and activation in training, {shape}, {head.get('timing', '')}:"
    columns = ["activation", "passes", "tileon", "torch", "tileon, compiled", "torch, compiled", "torch / tileon"]
    return page_part(source, table(words, columns, lines, 2))


@of_file(MODELS)
def models_part(source: Path) -> list[str]:
    """Small layers and a Llama in training."""
    head, rows = read_csv(source)
    lines = [
        [model.replace("_", " "), size, which, way, *microseconds(by, ("tileon", "torch"), 1), ratio(by, "torch")]
        for (model, size, which, way), by in by_provider(rows, "model", "rows", "pass", "way").items()
    ]
    words = f"Microseconds of a layer's forward pass and of a training step, {head['timing']}:"
    return page_part(source, table(words, ["model", "rows", "", "way", "tileon", "torch", "torch / tileon"], lines, 4))


@of_file(PARALLEL)
def parallel_part(source: Path) -> list[str]:
    """An MLP split over two GPUs against the whole one on one."""
    head, rows = read_csv(source)
    lines = [
        [
            f"{row['features']} -> {row['hidden']} -> {row['features']}, m = {row['m']}",
            *(PASSES[row["direction"]], row["provider"], row["devices"]),
            f"{float(row['median_us']) / 1000:.2f}",
            f"{float(row['speedup']):.2f}",
        ]
        for row in rows
    ]
    words = (
        f"An MLP ({rows[0]['dtype']}, {rows[0]['activation']}), the first layer split by columns, the second by rows, "
        f"on {head.get('devices', '')}: milliseconds, and how many times as fast as the same on one:"
    )
    return page_part(source, table(words, ["layers", "passes", "provider", "GPUs", "ms", "speed-up"], lines, 3))


@of_file(HOST)
def host_part(source: Path) -> list[str]:
    """Host time of one eager call."""
    head, rows = read_csv(source)
    found = by_provider(rows, "state").items()
    lines = [[STATES.get(state, state), *microseconds(by, HOST_FUNCTIONS)] for (state,), by in found]
    words = f"Microseconds of host time for one eager call ({head.get('timing', '')}):"
    return page_part(source, table(words, ["state", *(f"`{name}`" for name in HOST_FUNCTIONS.values())], lines))
