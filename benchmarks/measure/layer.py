"""A linear layer with bias and activation, forward and backward: `python -m benchmarks.measure.layer --csv layer.csv`.

y = activation(x @ weight^T + bias), with x (m, k) and weight (n, k), is timed in three passes: `forward`, where a
gradient is recorded; `forward_backward`; and `replay`, the forward pass in inference by CUDA graphs, on a GPU alone.

Providers: `tileon` is tileon_ops.matmul, `torch` F.linear and its activation, both eager, `<either>_compile` the same
under torch.compile. Of `replay`: `kernel` is the op alone in a CUDA graph, `reduce_overhead` torch.compile's mode of
that name, which copies x into the graph's own memory first, `reduce_overhead_fixed` the same with an x that is marked
as staying where it is, which the graph reads there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import tileon_ops
from benchmarks.common.cases import ACTIVATIONS, SLOPE, TORCH_DTYPES, Shape
from benchmarks.common.command import command_line, parse_shapes, some_of, tabulate
from benchmarks.common.timing import Arm, clock_words, cold_graph_arm, time_arms

COLUMNS = ("dtype", "m", "n", "k", "activation", "pass", "provider", "median_us", "spread", "samples")
PASSES = ("forward", "forward_backward", "replay")

Layer = Callable[[Tensor, Tensor, Tensor], Tensor]


class Tensors(NamedTuple):
    x: Tensor  # (m, k)
    weight: Tensor  # (n, k)
    bias: Tensor  # (n,)
    grad: Tensor  # (m, n), of the output

    def step(self, layer: Layer) -> None:
        """Forward and backward, each with gradients of its own."""
        leaves = (self.x, self.weight, self.bias)
        for leaf in leaves:
            leaf.grad = None
        layer(*leaves).backward(self.grad)


def make_tensors(shape: Shape, dtype: torch.dtype, device: torch.device, *, requires_grad: bool) -> Tensors:
    """Random normal ones."""
    m, n, k = shape
    generator = torch.Generator(device).manual_seed(0)
    sizes = ((m, k), (n, k), (n,), (m, n))
    x, weight, bias, grad = (torch.randn(*size, device=device, generator=generator).to(dtype) for size in sizes)
    for leaf in (x, weight, bias):
        leaf.requires_grad_(requires_grad)
    return Tensors(x, weight, bias, grad)


def layers(activation: str) -> tuple[Layer, Layer]:
    """Ours and torch's."""

    def ours(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return tileon_ops.matmul(x, weight.t(), bias, activation=activation, slope=SLOPE)

    def torchs(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return tileon_ops._rules.activations.activate(F.linear(x, weight, bias), activation, SLOPE)

    return ours, torchs


def training_arms(activation: str, which: str, tensors: Tensors) -> dict[str, Arm]:
    ours, torchs = layers(activation)
    providers = {
        "tileon": ours,
        "torch": torchs,
        "tileon_compile": torch.compile(ours, fullgraph=True),
        "torch_compile": torch.compile(torchs, fullgraph=True),
    }
    if which == "forward_backward":
        return {name: Arm(partial(tensors.step, layer)) for name, layer in providers.items()}
    return {name: Arm(partial(layer, *tensors[:3])) for name, layer in providers.items()}


def replay_arms(activation: str, tensors: Tensors) -> dict[str, Arm]:
    """Of a module: its parameters keep their addresses, so that graphs read them where they are."""
    n, k = tensors.weight.shape
    layer = tileon_ops.Linear(k, n, activation=activation, slope=SLOPE, device="cuda", dtype=tensors.x.dtype)
    with torch.no_grad():
        layer.weight.copy_(tensors.weight)
        layer.bias.copy_(tensors.bias)

    # Two functions, since torch.compile keeps what it makes by their code.
    def copying(x: Tensor) -> Tensor:
        return layer(x)

    def in_place(x: Tensor) -> Tensor:
        return layer(x)

    def replay(function: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], object]:
        fast = torch.compile(function, mode="reduce-overhead", fullgraph=True)

        def run() -> object:
            with torch.inference_mode():
                torch.compiler.cudagraph_mark_step_begin()
                return fast(x)

        # A compilation out of a cache does not know which inputs keep their address.
        with torch._inductor.config.patch(force_disable_caches=True):
            for _ in range(3):  # compiles, records, replays
                run()
        return run

    fixed = tensors.x.clone()
    torch._dynamo.mark_static_address(fixed)
    with torch.inference_mode():
        kernel = cold_graph_arm([lambda: layer(tensors.x)])
    return {
        "kernel": kernel,
        "reduce_overhead": Arm(replay(copying, tensors.x)),
        "reduce_overhead_fixed": Arm(replay(in_place, fixed)),
    }


def measure(
    shape: Shape, activation: str, which: str, dtype: torch.dtype, device: torch.device, seconds: float
) -> Iterator[list[str]]:
    """Rows of the table from `provider` on."""
    torch.compiler.reset()
    if which == "replay":
        if device.type != "cuda":
            return
        arms = replay_arms(activation, make_tensors(shape, dtype, device, requires_grad=False))
    else:
        arms = training_arms(activation, which, make_tensors(shape, dtype, device, requires_grad=True))
    for name, timing in time_arms(arms, device, seconds=seconds, warmup_seconds=seconds).items():
        yield [name, f"{timing.median_us:.2f}", f"{timing.spread:.4f}", str(timing.samples)]


def main() -> int:
    parser = command_line(__doc__, seconds=1.0)
    parser.add_argument("--shapes", type=parse_shapes, default="4096x14336x4096", help="MxNxK,... (%(default)s)")
    parser.add_argument("--dtype", default="bfloat16", choices=[*TORCH_DTYPES])
    some_of(parser, "--activations", ACTIVATIONS, *["leaky_relu,gelu"] * 2)
    some_of(parser, "--passes", PASSES)
    arguments = parser.parse_args()
    device, dtype = arguments.device, TORCH_DTYPES[arguments.dtype]
    rows = (
        [arguments.dtype, *shape, activation, which, *figures]
        for shape, activation, which in itertools.product(arguments.shapes, arguments.activations, arguments.passes)
        for figures in measure(shape, activation, which, dtype, device, arguments.seconds)
    )
    return tabulate(arguments.csv, COLUMNS, rows, clock_words(device), timing=clock_words(device))


if __name__ == "__main__":
    raise SystemExit(main())
