"""An MLP split over several GPUs against the same MLP on one.

    python -m benchmarks.measure.parallel --csv parallel.csv

The MLP is Linear(features, hidden), gelu_tanh, Linear(hidden, features), both with bias, its weights and input
normal random. Over N devices the first layer is split by columns, the second by rows (ColwiseParallel,
RowwiseParallel): one all-reduce of (m, features) forward and one backward. The default widths, 8192 and 28672, are
those of Llama 70B's MLP. Providers: `tileon` is tileon_ops.Linear with the activation in the first product's kernel;
`torch` is torch.nn.Linear and the activation's own module.

A process for each device starts from here. One device is measured by the first process while the others wait. Rounds
follow each other without waiting (the providers in a new random order in each), the first ones uncounted. A round's
time is that of the slowest device, by CUDA events; the figure is the median. Where a round takes less on the GPU than
its calls on the host, it is the host's time. What a split MLP computes is checked against the whole one first. On the
CPU it is gloo and `time.perf_counter`.

Columns: op,dtype,m,features,hidden,activation,direction,provider,devices,median_us,tflops,speedup. Direction: `forward`
(no gradients are recorded) or `forward_backward` (gradients of the input and all parameters).
tflops: of all devices together. speedup: the same provider's time on one device over this one's.
"""

# mypy: allow-untyped-calls
# (torch.cuda's events and torch.multiprocessing.spawn have no annotations)

from __future__ import annotations

import argparse
import copy
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.multiprocessing.spawn import spawn

import tileon_ops
from benchmarks.common.cases import TORCH_DTYPES
from benchmarks.common.command import command_line, finish, some_of
from benchmarks.common.result_file import CsvWriter

COLUMNS = ("op", "dtype", "m", "features", "hidden", "activation", "direction", "provider", "devices", "median_us",
           "tflops", "speedup")  # fmt: skip
PROVIDERS = ("tileon", "torch")
ACTIVATION = "gelu_tanh"
DIRECTIONS = ("forward", "forward_backward")
_WARMUP_ROUNDS = 5


@dataclass(frozen=True)
class Size:
    m: int
    features: int
    hidden: int

    def tflops(self, direction: str, microseconds: float) -> float:
        """A product is 2 m n k operations; each of the two layers is one forward and two more backward."""
        products = 2 if direction == "forward" else 6
        return products * 2.0 * self.m * self.features * self.hidden / microseconds * 1e-6


def parse_sizes(text: str) -> list[Size]:
    """M, of the default widths, or MxFEATURESxHIDDEN; several with commas between."""
    sizes = []
    for part in text.split(","):
        numbers = [int(number) for number in part.split("x")]
        if len(numbers) not in (1, 3) or min(numbers) < 1:
            raise argparse.ArgumentTypeError(f"a size is M or MxFEATURESxHIDDEN, got {part!r}")
        sizes.append(Size(*(numbers if len(numbers) == 3 else (numbers[0], 8192, 28672))))
    return sizes


def make_mlp(provider: str, size: Size, device: torch.device, dtype: torch.dtype) -> nn.Sequential:
    """Layers "up" and "down" of normal random weights, the same for each provider and on each device."""
    mlp = nn.Sequential()
    if provider == "tileon":
        up = tileon_ops.Linear(size.features, size.hidden, activation=ACTIVATION, device=device, dtype=dtype)
        mlp.add_module("up", up)
        mlp.add_module("down", tileon_ops.Linear(size.hidden, size.features, device=device, dtype=dtype))
    else:
        mlp.add_module("up", nn.Linear(size.features, size.hidden, device=device, dtype=dtype))
        mlp.add_module("activation", nn.GELU(approximate="tanh"))
        mlp.add_module("down", nn.Linear(size.hidden, size.features, device=device, dtype=dtype))
    generator = torch.Generator(device).manual_seed(0)
    with torch.no_grad():
        for parameter in mlp.parameters():
            parameter.normal_(std=parameter.shape[-1] ** -0.5, generator=generator)
    return mlp


def _use(tensor: Tensor) -> None:
    """Makes the stream wait for what DTensor returns before it is reduced, as whoever reads it next would."""
    tensor.detach()[0, :1].clone()


def _round_of(mlp: nn.Module, x: Tensor, direction: str) -> Callable[[], None]:
    def forward() -> None:
        with torch.no_grad():
            _use(mlp(x))

    def forward_backward() -> None:
        output = mlp(x)
        _use(output)
        output.backward(x.detach())  # of the output's shape, and as random
        assert x.grad is not None
        _use(x.grad)
        x.grad = None
        mlp.zero_grad()

    return forward if direction == "forward" else forward_backward


def _seconds(runs: dict[str, Callable[[], None]], device: torch.device, rounds: int) -> dict[str, list[float]]:
    """Seconds of every counted round on this device, by provider. Every process goes through the same order."""
    shuffle = random.Random(0)
    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in runs}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    for _ in range(_WARMUP_ROUNDS + rounds):
        for name in shuffle.sample(list(runs), len(runs)):
            if device.type == "cuda":
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                runs[name]()
                end.record()
                events[name].append((start, end))
            else:
                begin = time.perf_counter()
                runs[name]()
                seconds[name].append(time.perf_counter() - begin)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        seconds = {name: [start.elapsed_time(end) * 1e-3 for start, end in pairs] for name, pairs in events.items()}
    return {name: values[_WARMUP_ROUNDS:] for name, values in seconds.items()}


def _wait_for_all() -> None:
    dist.all_reduce(torch.zeros(1))  # of the CPU: no GPU is kept busy by waiting


def _slowest(values: list[float]) -> list[float]:
    """Each round's time on the device that took longest."""
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return tensor.tolist()


def _check(provider: str, split: nn.Module, whole: nn.Module, x: Tensor) -> None:
    """Raises where the split MLP's output is not the whole one's, to the rounding of what is added up."""
    with torch.no_grad():
        actual, expected = split(x), whole(x)
    error = float((actual - expected).abs().max() / expected.abs().max())
    if not error <= 8 * torch.finfo(x.dtype).eps:
        raise RuntimeError(f"{provider}: the split MLP differs from the whole one by {error:.2g} of the largest output")


def measure(size: Size, arguments: argparse.Namespace, device: torch.device) -> dict[tuple[str, str, int], float]:
    """Median microseconds by direction, provider and number of devices. All processes call it together."""
    dtype = TORCH_DTYPES[arguments.dtype]
    mesh = init_device_mesh(device.type, (arguments.devices,))
    generator = torch.Generator(device).manual_seed(1)
    x = torch.randn(size.m, size.features, generator=generator, device=device, dtype=dtype).requires_grad_()
    whole = {name: make_mlp(name, size, device, dtype) for name in arguments.providers}
    split = {}
    for name, mlp in whole.items():
        plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        split[name] = parallelize_module(copy.deepcopy(mlp), mesh, plan)
        _check(name, split[name], mlp, x)

    medians: dict[tuple[str, str, int], float] = {}
    for direction in DIRECTIONS:
        runs = {name: _round_of(mlp, x, direction) for name, mlp in whole.items()}
        if dist.get_rank() == 0:
            for name, values in _seconds(runs, device, arguments.rounds).items():
                medians[direction, name, 1] = statistics.median(values) * 1e6
        _wait_for_all()
        runs = {name: _round_of(mlp, x, direction) for name, mlp in split.items()}
        for name, values in _seconds(runs, device, arguments.rounds).items():
            medians[direction, name, arguments.devices] = statistics.median(_slowest(values)) * 1e6
        _wait_for_all()
    return medians


def _report(arguments: argparse.Namespace, device: torch.device) -> None:
    """Measures every size; the first process writes and prints."""
    is_first = dist.get_rank() == 0
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU process"
    extra = {
        "devices": f"{arguments.devices} x {kind}",
        "timing": f"median of {arguments.rounds} rounds, each that of the slowest device",
        "nccl": f"NCCL_NVLS_ENABLE={os.environ['NCCL_NVLS_ENABLE']}",
    }
    with CsvWriter(arguments.csv if is_first else None, COLUMNS, extra) as writer:
        for size in arguments.sizes:
            medians = measure(size, arguments, device)
            for (direction, provider, devices), median in medians.items() if is_first else ():
                figures = [f"{median:.3f}", f"{size.tflops(direction, median):.4g}"]
                figures.append(f"{medians[direction, provider, 1] / median:.3f}")
                of_size = (size.m, size.features, size.hidden)
                case = [arguments.dtype, *of_size, ACTIVATION, direction, provider, devices]
                writer.write(["mlp", *case, *figures])
    if is_first:
        finish(f"{extra['devices']}, {extra['timing']}", arguments.csv, writer)


def _process(rank: int, arguments: argparse.Namespace, store: str) -> None:
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")  # NVLink multicast is not everywhere; the figures do without
    device = torch.device("cuda", rank) if arguments.device == "cuda" else torch.device("cpu")
    backend = "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
        backend = "cpu:gloo,cuda:nccl"
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
    parser.add_argument("--sizes", type=parse_sizes, default="8192", help="M or MxFEATURESxHIDDEN,... (default 8192)")
    parser.add_argument("--dtype", default="bfloat16", choices=[*TORCH_DTYPES])
    some_of(parser, "--providers", PROVIDERS)
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
