"""Operands that no 16-byte load and no TMA can read: where a copy pays.

    python -m benchmarks.measure.unaligned --csv out.csv

Provider `gather` reads them element by element (the table's gather row, a portable kernel), `copied` copies what needs
it by torch, then takes the op, `tileon` is what the op does by itself, `torch` torch.matmul. Mode `graph` is the GPU's
time alone, by CUDA-graph replay; mode `eager` the time from call to call, host included, with the launch queue kept
full. csrc/cuda/dispatch/plan.h weighs the two. Needs a GPU.

Cases: `odd`, rows of size + 1 elements, of which the first size are used, in both operands; `odd_b`, in b alone;
`step_a`, every other column of a; `odd_size`, contiguous, m = n = k odd; `k588`, a linear layer of 588 features (NT),
both operands; `k588_a`, the same with a row-major b (NN), which can be read; `n588_b`, 588 columns of a row-major b;
`n588_out`, of the output alone (NT). The last four are square but for the 588. `n50257`: the last layer of GPT-2, 768
features to so many columns (NT); only where it is asked for.
"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Iterator

import torch

from benchmarks.common.command import command_line, gpu_arguments, some_of, tabulate
from benchmarks.common.timing import cold_graph_arm, time_arms
from benchmarks.measure.peers.providers import Call
from tileon_ops._rules import configs

COLUMNS = ("op", "dtype", "case", "m", "n", "k", "provider", "mode", "median_us")
LENGTH = 588  # of 16-bit elements: 73.5 times 16 bytes
VOCABULARY, FEATURES = 50257, 768
CASES: dict[str, tuple[int, ...]] = {  # sizes by case
    **dict.fromkeys(("odd", "odd_b", "step_a"), (*range(32, 257, 32), 320, 384, 512, 1024, 2048)),
    "odd_size": (255, 511, 1023, 2047, 4095),
    **dict.fromkeys(("k588", "k588_a", "n588_b", "n588_out"), (64, 128, 256, 512, 1024, 2048, 4096)),
    "n50257": (1, 16, 64, 256, 1024, 4096),
}
_LINEAR = ("k588", "n588_out", "n50257")  # NT
GATHER_LIMIT = 1024**3  # products beyond it only cost time there
_VECTOR_BYTES = 16


def operands(case: str, size: int, dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """a and b; see the head of this file."""

    def normal(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, device=device).to(dtype)

    if case.startswith("odd") and case != "odd_size":
        odd_b = normal(size, size + 1)[:, :size]
        return normal(size, size) if case == "odd_b" else normal(size, size + 1)[:, :size], odd_b
    k = {"k588": LENGTH, "k588_a": LENGTH, "n50257": FEATURES}.get(case, size)
    n = {"n588_b": LENGTH, "n588_out": LENGTH, "n50257": VOCABULARY}.get(case, size)
    a = normal(size, 2 * size)[:, ::2] if case == "step_a" else normal(size, k)
    return a, normal(n, k).t() if case in _LINEAR else normal(k, n)


def readable(matrix: torch.Tensor) -> bool:
    """Whether 16-byte loads fit: adjacent along one dimension, and lines that start at multiples of 16 bytes."""
    small, large = sorted(matrix.stride())
    return small == 1 and large * matrix.element_size() % _VECTOR_BYTES == 0 and matrix.data_ptr() % _VECTOR_BYTES == 0


def aligned_copy(matrix: torch.Tensor) -> torch.Tensor:
    """The same matrix, its lines along the same dimension, each at a multiple of 16 bytes."""
    if matrix.stride(0) < matrix.stride(1):
        return aligned_copy(matrix.t()).t()
    per_vector = _VECTOR_BYTES // matrix.element_size()
    pitch = -(-matrix.shape[1] // per_vector) * per_vector
    return matrix.new_empty(matrix.shape[0], pitch)[:, : matrix.shape[1]].copy_(matrix)


def calls(a: torch.Tensor, b: torch.Tensor) -> dict[str, Call]:
    """The providers that this pair of operands has."""
    matmul, with_row = torch.ops.tileon.matmul, torch.ops.tileon._matmul_with_config
    found: dict[str, Call] = {"tileon": lambda: matmul(a, b), "torch": lambda: torch.matmul(a, b)}
    fine_a, fine_b = readable(a), readable(b)
    if not (fine_a and fine_b):
        found["copied"] = lambda: matmul(a if fine_a else aligned_copy(a), b if fine_b else aligned_copy(b))
    if a.shape[0] * a.shape[1] * b.shape[1] <= GATHER_LIMIT:
        dtype = str(a.dtype).removeprefix("torch.")
        gathers = [config for config in configs.dense() if config.family == "mma_gather"]
        gather = next(config.index for config in gathers if dtype in config.operands)
        found["gather"] = lambda: with_row(a, b, config=gather)
    return found


def eager_us(call: Call, repeats: int = 100, batches: int = 7) -> float:
    """Median microseconds from call to call."""

    def batch() -> None:
        for _ in range(repeats):
            call()
        torch.cuda.synchronize()

    return statistics.median(timeit.repeat(batch, number=1, repeat=batches + 1)[1:]) / repeats * 1e6  # the first warms


def measure(providers: dict[str, Call], device: torch.device) -> dict[str, dict[str, float]]:
    """Microseconds by provider, by mode."""
    graphs = {name: cold_graph_arm([call] * 8) for name, call in providers.items()}
    timings = time_arms(graphs, device, seconds=0.03, warmup_seconds=0.05)
    return {
        "graph": {name: timing.median_us for name, timing in timings.items()},
        "eager": {name: eager_us(call) for name, call in providers.items()},
    }


@torch.inference_mode()
def _rows(case: str, size: int) -> Iterator[list[object]]:
    device = torch.device("cuda")
    a, b = operands(case, size, torch.bfloat16, device)
    for mode, medians in measure(calls(a, b), device).items():
        for name, us in medians.items():
            yield ["matmul", "bfloat16", case, a.shape[0], b.shape[1], a.shape[1], name, mode, f"{us:.2f}"]


def main() -> int:
    parser = command_line(__doc__, device=False)
    some_of(parser, "--cases", CASES, "all but n50257", ",".join(case for case in CASES if case != "n50257"))
    arguments = gpu_arguments(parser)
    rows = (row for name in arguments.cases for size in CASES[name] for row in _rows(name, size))
    return tabulate(arguments.csv, COLUMNS, rows, timing="medians, normal random data")


if __name__ == "__main__":
    raise SystemExit(main())
