"""An MLP split over several GPUs against the same MLP on one.

    python -m benchmarks.measure.parallel --csv parallel.csv

The MLP is Linear(features, hidden), gelu_tanh, Linear(hidden, features), both with bias, of normal random numbers; by
default as wide as Llama 70B's. The first layer is split by columns, the second by rows (ColwiseParallel,
RowwiseParallel). `tileon` has the activation in the first product's kernel, `torch` in a module of its own.

A process for each device starts from here. One device is measured by the first process while the others wait. Rounds
follow each other without waiting, the providers in a new random order in each. A round's time is that of the slowest
device, by CUDA events (on the CPU gloo and `time.perf_counter`); the figure is the median. What a split MLP computes is
checked against the whole one first.

Direction: `forward` (no gradients are recorded) or `forward_backward` (gradients of the input and all parameters).
tflops: of all devices together. speedup: the same provider's time on one device over this one's.
"""

# mypy: allow-untyped-calls
# (torch.cuda's events and torch.multiprocessing.spawn have no annotations)

from __future__ import annotations

import argparse
import copy
import math
import os
import random
import statistics
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.multiprocessing.spawn import spawn

import tileon_ops
from benchmarks.common.cases import TORCH_DTYPES, Shape
from benchmarks.common.command import command_line, parse_shapes, tabulate

COLUMNS = (
    *("op", "dtype", "m", "features", "hidden", "activation", "direction", "provider", "devices"),
    *("median_us", "tflops", "speedup"),
)
PROVIDERS = ("tileon", "torch")
ACTIVATION = "gelu_tanh"
DIRECTIONS = ("forward", "forward_backward")
_WARMUP_ROUNDS = 5


def make_mlp(provider: str, features: int, hidden: int, device: torch.device, dtype: torch.dtype) -> nn.Sequential:
    """Layers "up" and "down" of normal random weights, the same for each provider and on each device."""
    where: dict[str, Any] = {"device": device, "dtype": dtype}
    up: nn.Module = nn.Linear(features, hidden, **where)
    layers = {"up": up, "activation": nn.GELU(approximate="tanh"), "down": nn.Linear(hidden, features, **where)}
    if provider == "tileon":
        up = tileon_ops.Linear(features, hidden, activation=ACTIVATION, **where)
        layers = {"up": up, "down": tileon_ops.Linear(hidden, features, **where)}
    mlp = nn.Sequential(OrderedDict(layers))
    generator = torch.Generator(device).manual_seed(0)
    with torch.no_grad():
        for parameter in mlp.parameters():
            parameter.normal_(std=parameter.shape[-1] ** -0.5, generator=generator)
    return mlp


def _use(tensor: Tensor) -> None:
    """Makes the stream wait for what DTensor returns before it is reduced, as whoever reads it next would."""
    tensor.detach()[0, :1].clone()


def _round(mlp: nn.Module, x: Tensor, direction: str) -> None:
    with torch.set_grad_enabled(direction == "forward_backward"):
        output = mlp(x)
        _use(output)
    if direction == "forward_backward":
        output.backward(x.detach())  # of the output's shape, and as random
        assert x.grad is not None
        _use(x.grad)
        x.grad = None
        mlp.zero_grad()


def _seconds(runs: Mapping[str, Callable[[], None]], device: torch.device, rounds: int) -> dict[str, list[float]]:
    """Seconds of every counted round on this device, by provider. Every process goes through the same order."""
    shuffle, on_gpu = random.Random(0), device.type == "cuda"
    marks: dict[str, list[tuple[Any, Any]]] = {name: [] for name in runs}

    def mark() -> Any:
        if not on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    for _ in range(_WARMUP_ROUNDS + rounds):
        for name in shuffle.sample(list(runs), len(runs)):
            start = mark()
            runs[name]()
            marks[name].append((start, mark()))
    if on_gpu:
        torch.cuda.synchronize(device)
    return {
        name: [start.elapsed_time(end) * 1e-3 if on_gpu else end - start for start, end in pairs[_WARMUP_ROUNDS:]]
        for name, pairs in marks.items()
    }


def _check(provider: str, split: nn.Module, whole: nn.Module, x: Tensor) -> None:
    """Raises where the split MLP's output is not the whole one's, to the rounding of what is added up."""
    with torch.no_grad():
        actual, expected = split(x), whole(x)
    error = float((actual - expected).abs().max() / expected.abs().max())
    if not error <= 8 * torch.finfo(x.dtype).eps:
        raise RuntimeError(f"{provider}: the split MLP differs from the whole one by {error:.2g} of the largest output")


def measure(size: Shape, arguments: argparse.Namespace, device: torch.device) -> dict[tuple[str, str, int], float]:
    """Median microseconds by direction, provider and number of devices. All processes call it together."""
    (m, features, hidden), dtype = size, TORCH_DTYPES[arguments.dtype]
    mesh = init_device_mesh(device.type, (arguments.devices,))
    generator = torch.Generator(device).manual_seed(1)
    x = torch.randn(m, features, generator=generator, device=device, dtype=dtype).requires_grad_()
    whole = {name: make_mlp(name, features, hidden, device, dtype) for name in PROVIDERS}
    split = {}
    for name, mlp in whole.items():
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        split[name] = parallelize_module(copy.deepcopy(mlp), mesh, plan)
        _check(name, split[name], mlp, x)

    medians: dict[tuple[str, str, int], float] = {}
    for direction in DIRECTIONS:
        runs = {name: partial(_round, mlp, x, direction) for name, mlp in whole.items()}
        if dist.get_rank() == 0:
            for name, values in _seconds(runs, device, arguments.rounds).items():
                medians[direction, name, 1] = statistics.median(values) * 1e6
        dist.all_reduce(torch.zeros(1))  # waits for all; of the CPU: no GPU is kept busy by waiting
        runs = {name: partial(_round, mlp, x, direction) for name, mlp in split.items()}
        for name, values in _seconds(runs, device, arguments.rounds).items():
            slowest = torch.tensor(values, dtype=torch.float64)  # of each round, on the device that took longest
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            medians[direction, name, arguments.devices] = statistics.median(slowest.tolist()) * 1e6
    return medians


def _rows(arguments: argparse.Namespace, device: torch.device) -> Iterator[list[object]]:
    for size in arguments.sizes:
        medians, products = measure(size, arguments, device), 2.0 * math.prod(size)
        for (direction, provider, devices), us in medians.items():
            # A product is 2 m n k operations; each of the two layers is one forward and two more backward.
            tflops = products * (2 if direction == "forward" else 6) / us * 1e-6
            figures = [f"{us:.3f}", f"{tflops:.4g}", f"{medians[direction, provider, 1] / us:.3f}"]
            yield ["mlp", arguments.dtype, *size, ACTIVATION, direction, provider, devices, *figures]


def _report(arguments: argparse.Namespace, device: torch.device) -> None:
    """Measures every size; the first process writes and prints."""
    if dist.get_rank() > 0:
        for size in arguments.sizes:
            measure(size, arguments, device)
        return
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU process"
    head = {
        "devices": f"{arguments.devices} x {kind}",
        "timing": f"median of {arguments.rounds} rounds, each that of the slowest device",
        "nccl": f"NCCL_NVLS_ENABLE={os.environ['NCCL_NVLS_ENABLE']}",
    }
    words = f"{head['devices']}, {head['timing']}"
    tabulate(arguments.csv, COLUMNS, _rows(arguments, device), words, **head)


def _process(rank: int, arguments: argparse.Namespace, store: str) -> None:
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # NVLink multicast is not everywhere; the figures do without
    device = torch.device("cuda", rank) if arguments.device == "cuda" else torch.device("cpu")
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=arguments.devices)
    try:
        _report(arguments, device)
    finally:
        dist.destroy_process_group()
    # Nothing is left to do. Now and then a thread that torch has left ends the process by SIGABRT while the interpreter
    # is taken down, and the run would count as failed.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main() -> int:
    gpus = torch.cuda.device_count()
    parser = command_line(__doc__, device=False)
    words = "m x features x hidden, several with commas (default %(default)s)"
    parser.add_argument("--sizes", type=parse_shapes, default="8192x8192x28672", help=words)
    parser.add_argument("--dtype", default="bfloat16", choices=[*TORCH_DTYPES])
    parser.add_argument("--device", default="cuda" if gpus else "cpu", choices=("cuda", "cpu"))
    parser.add_argument("--devices", type=int, default=gpus or 2, help="over how many to split (default: all GPUs)")
    parser.add_argument("--rounds", type=int, default=30, help=f"counted, after {_WARMUP_ROUNDS} (default 30)")
    arguments = parser.parse_args()
    if arguments.devices < 2 or (arguments.device == "cuda" and arguments.devices > gpus):
        parser.error(f"--devices {arguments.devices}: it takes two or more, and there are {gpus} GPUs here")
    with tempfile.TemporaryDirectory() as folder:
        # A process for each device, which never returns anything: the first one prints and writes.
        spawn(_process, (arguments, f"{folder}/store"), nprocs=arguments.devices)
    return 0


if __name__ == "__main__":
    sys.exit(main())
