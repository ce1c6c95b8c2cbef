"""Times linear layers of every format, converted, beside torch.nn.Linear in bfloat16: a GPU is needed.

    python -m benchmarks.measure.layers --csv layers.csv
    python -m benchmarks.measure.layers --formats mxfp4 --quantized both --rows 64,512 --weights 8192x8192

The layer is `BlockScaledLinear` without a bias, of a random weight (n, k); the input is normal, (m, k), in bfloat16.
Where both operands are quantized, the input's quantization is part of the time.

Providers: `tileon`, the converted layer; `torch_bf16`, torch.nn.Linear. Each is timed by a call of its own, whose host
time counts where it is longer than the kernels. Up to --graph-rows rows `tileon_graph` and `torch_bf16_graph` too, a
CUDA graph that goes round so many layers that each has left L2.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import nn

import tileon_ops
from benchmarks.common.command import command_line, gpu_arguments, parse_sizes, some_of, tabulate
from benchmarks.common.timing import Arm, clock_words, cold_graph_arm, cold_sets, time_arms

COLUMNS = ("format", "weight_only", "m", "n", "k", "provider", "median_us")
# What is quantized, and in which formats.
QUANTIZED = {
    "weights": ("mxfp4", "nvfp4", "mxfp8", "fp8_row", "int8_row"),
    "both": ("mxfp4", "mxfp8", "mixed", "fp8_row", "int8_row", "nvfp4"),
}
ROWS = (1, 4, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 4096, 8192)
WEIGHTS = ((8192, 8192), (14336, 4096), (4096, 14336), (5120, 8192), (2880, 2880))  # n, k
GRAPH_ROWS = 64

Layers = dict[str, nn.Module]  # by provider


def make_layers(format: str, weight_only: bool, n: int, k: int, device: torch.device) -> Layers:
    plain = nn.Linear(k, n, bias=False, device=device, dtype=torch.bfloat16)
    return {
        "tileon": tileon_ops.BlockScaledLinear.from_linear(plain, format, weight_only=weight_only),
        "torch_bf16": plain,
    }


def _nbytes(layer: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in (*layer.parameters(), *layer.buffers()))


def arms_of(sets: Sequence[Layers], x: torch.Tensor, with_graphs: bool) -> dict[str, Arm]:
    """Of layers whose weights differ in nothing but where they lie: the first is called, graphs go round them all."""
    arms = {provider: Arm(partial(layer, x)) for provider, layer in sets[0].items()}
    for provider in sets[0] if with_graphs else ():
        count = cold_sets(_nbytes(sets[0][provider]), x.device)
        arms[f"{provider}_graph"] = cold_graph_arm([partial(layers[provider], x) for layers in sets[:count]])
    return arms


class Measured(NamedTuple):
    """What is measured of each format and weight: rows of the input, up to how many by graphs too, and for how long."""

    rows: Sequence[int]
    graph_rows: int
    seconds: float
    warmup_seconds: float


def measure(format: str, weight_only: bool, n: int, k: int, measured: Measured) -> Iterator[list[object]]:
    """Rows of the table, of one format and weight."""
    device = torch.device("cuda", torch.cuda.current_device())
    rows, graph_rows = measured.rows, measured.graph_rows
    sets = [make_layers(format, weight_only, n, k, device)]
    if min(rows) <= graph_rows:
        count = max(cold_sets(_nbytes(layer), device) for layer in sets[0].values())
        sets += [copy.deepcopy(sets[0]) for _ in range(count - 1)]
    for m in rows:
        x = torch.randn(m, k, device=device, dtype=torch.bfloat16)
        arms = arms_of(sets, x, m <= graph_rows)
        times = time_arms(arms, device, seconds=measured.seconds, warmup_seconds=measured.warmup_seconds)
        for provider, timing in times.items():
            yield [format, weight_only, m, n, k, provider, f"{timing.median_us:.2f}"]


def main() -> int:
    parser = command_line(__doc__, device=False, seconds=0.2, warmup=0.1)
    some_of(parser, "--formats", dict.fromkeys(format for formats in QUANTIZED.values() for format in formats))
    some_of(parser, "--quantized", QUANTIZED)
    parser.add_argument("--rows", type=lambda text: [int(m) for m in text.split(",")], default=ROWS, help="M,...")
    parser.add_argument("--weights", type=lambda text: parse_sizes(text, "NxK"), default=WEIGHTS, help="NxK,...")
    parser.add_argument("--graph-rows", type=int, default=GRAPH_ROWS, help="default %(default)s")
    arguments = gpu_arguments(parser)

    def rows() -> Iterator[list[object]]:
        limits = arguments.rows, arguments.graph_rows, arguments.seconds, arguments.warmup_seconds
        with torch.inference_mode():
            for what in arguments.quantized:
                for format in (format for format in QUANTIZED[what] if format in arguments.formats):
                    for n, k in arguments.weights:
                        yield from measure(format, what == "weights", n, k, Measured(*limits))

    words = f"{clock_words(torch.device('cuda'))}, interleaved arms, normal data"
    return tabulate(arguments.csv, COLUMNS, rows(), words, timing=words)


if __name__ == "__main__":
    raise SystemExit(main())
