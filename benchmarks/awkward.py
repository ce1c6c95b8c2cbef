"""Operands that no 16-byte load fits: where a copy pays. `python benchmarks/awkward.py --csv awkward.csv` on a GPU.

A row-major operand with an odd row length, or with every other column, is either gathered element by element (the
table's gather row) or copied into an aligned buffer first. Provider `gather` is the first, `copied` the second (by
torch's copy, then the op), `tileon` what the op does by itself, `torch` torch.matmul. Mode `graph` is the GPU's time
alone, by CUDA-graph replay; mode `eager` is the time from call to call, host included, with the launch queue kept full.
`kCopyPaysFrom` in csrc/cuda/sm80/config.h rests on these figures.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from result_file import CsvWriter, aligned, portable_path
from timing import graph_arm, time_arms
from tree import tileon_ops  # noqa: F401

COLUMNS = ("op", "dtype", "case", "m", "n", "k", "provider", "mode", "median_us")
SIZES = (32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 1024, 2048)
GATHER_LIMIT = 1024  # beyond it the gather row only costs time

Call = Callable[[], torch.Tensor]


def operands(case: str, size: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """a and b, both size x size. `odd`: rows of size + 1 elements, of which the first size are used, in both.
    `odd_b`: in b alone. `step_a`: every other column of a."""

    def odd() -> torch.Tensor:
        return torch.randn(size, size + 1, device="cuda").to(dtype)[:, :size]

    plain = torch.randn(size, size, device="cuda").to(dtype)
    if case == "odd":
        return odd(), odd()
    if case == "odd_b":
        return plain, odd()
    return torch.randn(size, 2 * size, device="cuda").to(dtype)[:, ::2], plain


def gather_row() -> int:
    return next(int(line.split()[0]) for line in torch.ops.tileon._matmul_configs().splitlines() if "gather" in line)


def calls(a: torch.Tensor, b: torch.Tensor) -> dict[str, Call]:
    row, matmul = gather_row(), torch.ops.tileon.matmul
    found: dict[str, Call] = {
        "copied": lambda: matmul(a.contiguous(), b.contiguous()),
        "tileon": lambda: matmul(a, b),
        "torch": lambda: torch.matmul(a, b),
    }
    if a.shape[0] <= GATHER_LIMIT:
        found["gather"] = lambda: torch.ops.tileon._matmul_with_config(a, b, config=row)
    return found


def eager_us(call: Call, repeats: int = 100, batches: int = 7) -> float:
    """Median microseconds from call to call."""
    samples = []
    for batch in range(batches + 1):  # the first warms up
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        torch.cuda.synchronize()
        if batch > 0:
            samples.append((time.perf_counter() - start) / repeats)
    return statistics.median(samples) * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16"])
    parser.add_argument("--csv", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU")
    device, dtype = torch.device("cuda"), getattr(torch, arguments.dtype)
    names = ("gather", "copied", "tileon", "torch")
    table = [["case", "size", "mode", *names]]
    with torch.inference_mode(), CsvWriter(arguments.csv, COLUMNS, {"timing": "medians, normal random data"}) as writer:
        for case in ("odd", "odd_b", "step_a"):
            for size in SIZES:
                providers = calls(*operands(case, size, dtype))
                graphs = {name: graph_arm([call] * 8) for name, call in providers.items()}
                timings = time_arms(graphs, device, seconds=0.03, warmup_seconds=0.05)
                modes = {
                    "graph": {name: timing.median_us for name, timing in timings.items()},
                    "eager": {name: eager_us(call) for name, call in providers.items()},
                }
                for mode, medians in modes.items():
                    for name, microseconds in medians.items():
                        sizes = [str(size)] * 3
                        head = ["matmul", arguments.dtype, case, *sizes, name, mode]
                        writer.write([*head, f"{microseconds:.2f}"])
                    shown = [f"{medians[name]:.2f}" if name in medians else "" for name in names]
                    table.append([case, str(size), mode, *shown])
    print(aligned(table))
    if arguments.csv:
        print(f"figures: {portable_path(arguments.csv)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
