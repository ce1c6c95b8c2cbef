"""Training steps of small layers and of a Llama of transformers, beside the same modules of torch.

    python -m benchmarks.measure.training --csv training_models.csv
    python -m benchmarks.measure.training --cases layer --ways eager,graph

`layer`: a linear layer with bias and relu in bfloat16. forward: the call alone, of parameters that require gradients;
step: forward and backward, gradients of parameters and input made anew. `llama`: forward with the loss, backward, and
a step of AdamW (fused), of 125M parameters in bfloat16, whose linear layers `convert(model, None)` has replaced.

Ways: eager; compile, torch.compile; graph, a CUDA graph of the eager call, of layers alone. The figure is wall-clock
time: calls in a row, as many as take some milliseconds, then the GPU is waited for; providers in turns, the median. So
where the host takes longer than the GPU it is the host's time.
"""

from __future__ import annotations

import copy
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor, nn

import tileon_ops
from benchmarks.common.command import command_line, some_of, tabulate

COLUMNS = ("model", "rows", "pass", "way", "provider", "median_us")
CASES, WAYS = ("layer", "llama"), ("eager", "compile", "graph")
LAYERS = ((64, 64, 64), (256, 1024, 1024))  # rows, in, out
BATCHES = ((8, 1024), (1, 128))  # rows of tokens
_LLAMA = {
    "llama_125m": {
        "vocab_size": 32000,
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
    },
    "small_llama": {
        "vocab_size": 256,
        "hidden_size": 64,
        "intermediate_size": 192,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    },
}
_BATCH_SECONDS = 0.01  # of calls in a row
_MOST_CALLS = 200  # far below the launch queue

Call = Callable[[], object]
Modules = dict[str, nn.Module]  # by provider


def layer_modules(wide_in: int, wide_out: int, device: torch.device) -> Modules:
    """With the same parameters."""
    where: dict[str, Any] = {"device": device, "dtype": torch.bfloat16}
    linear = nn.Linear(wide_in, wide_out, **where)
    ours = tileon_ops.Linear.from_linear(copy.deepcopy(linear), activation="relu")
    return {"tileon": ours, "torch": nn.Sequential(linear, nn.ReLU())}


def layer_call(module: Callable[[Tensor], Tensor], which: str, x: Tensor, leaves: Sequence[Tensor]) -> Call:
    grad = torch.ones_like(module(x))

    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        module(x).backward(grad)

    return step if which == "step" else partial(module, x)


def llama_modules(name: str, device: torch.device) -> Modules:
    """Random weights, the same in both."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**_LLAMA[name], bos_token_id=None, eos_token_id=None, use_cache=False)
    with device:
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    return {"tileon": tileon_ops.convert(copy.deepcopy(model), None), "torch": model}


def llama_call(model: Any, tokens: Tensor, *, compiled: bool) -> Call:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def loss_of(tokens: Tensor) -> Tensor:
        loss: Tensor = model(input_ids=tokens, labels=tokens).loss
        return loss

    forward = torch.compile(loss_of, dynamic=False) if compiled else loss_of

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        forward(tokens).backward()
        optimizer.step()

    return step


def graph_of(call: Call) -> Call:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    replay: Call = graph.replay
    return replay


def times(calls: dict[str, Call], device: torch.device, seconds: float) -> dict[str, float]:
    """Median microseconds of one call, by provider."""

    def timed(call: Call, count: int) -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        for _ in range(count):
            call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return (time.perf_counter() - start) / count

    for call in calls.values():
        timed(call, 3)  # compiles and warms
    slowest = max(timed(call, 5) for call in calls.values())
    count = max(1, min(_MOST_CALLS, round(_BATCH_SECONDS / slowest)))
    shuffle, samples = random.Random(0), {name: list[float]() for name in calls}
    for _ in range(max(7, int(seconds / (len(calls) * count * slowest)))):
        for name in shuffle.sample(list(calls), len(calls)):
            samples[name].append(timed(calls[name], count))
    return {name: 1e6 * statistics.median(values) for name, values in samples.items()}


def layer_cases(ways: Sequence[str], device: torch.device) -> Iterator[tuple[str, str, str, str, dict[str, Call]]]:
    for rows, wide_in, wide_out in LAYERS:
        modules = layer_modules(wide_in, wide_out, device)
        for way in ways:
            for which in ("forward", "step"):
                calls = {}
                for provider, module in modules.items():
                    torch.compiler.reset()
                    x = torch.randn(rows, wide_in, device=device, dtype=torch.bfloat16, requires_grad=True)
                    called = torch.compile(module, fullgraph=True, dynamic=False) if way == "compile" else module
                    call = layer_call(called, which, x, [x, *module.parameters()])
                    calls[provider] = graph_of(call) if way == "graph" else call
                yield f"linear_{wide_out}x{wide_in}", str(rows), which, way, calls


def llama_cases(ways: Sequence[str], device: torch.device) -> Iterator[tuple[str, str, str, str, dict[str, Call]]]:
    name = "llama_125m" if device.type == "cuda" else "small_llama"
    modules = llama_modules(name, device)
    for way in (way for way in ways if way != "graph"):
        for batch in BATCHES if device.type == "cuda" else BATCHES[1:]:
            tokens = torch.randint(_LLAMA[name]["vocab_size"], batch, device=device)
            torch.compiler.reset()
            calls = {
                provider: llama_call(module, tokens, compiled=way == "compile") for provider, module in modules.items()
            }
            yield name, f"{batch[0]}x{batch[1]}", "step", way, calls


def main() -> int:
    parser = command_line(__doc__, seconds=1.5)
    some_of(parser, "--cases", CASES)
    some_of(parser, "--ways", WAYS)
    arguments = parser.parse_args()
    device: torch.device = arguments.device
    ways = [way for way in arguments.ways if way != "graph" or device.type == "cuda"]
    makers = {"layer": layer_cases, "llama": llama_cases}
    words = f"perf_counter, calls in a row, {device.type} idle before and after, providers in turns"
    rows = (
        [*case, provider, f"{us:.2f}"]
        for maker in arguments.cases
        for *case, calls in makers[maker](ways, device)
        for provider, us in times(calls, device, arguments.seconds).items()
    )
    return tabulate(arguments.csv, COLUMNS, rows, words, timing=words, transformers=transformers.__version__)


if __name__ == "__main__":
    raise SystemExit(main())
