"""Whether two builds of the library answer the same calls alike: what they choose, copy and compute, bit by bit.

python tests/simulation/compare_calls.py BEFORE/_C.so AFTER/_C.so [--calls N] [--seed S] [--gpu h200|a100]

Either is a library of library.py (simulation), for a change of host code alone. Calls are drawn by a seed: both
products, every dtype and format, layouts, batches, unaligned operands, epilogues and outputs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import random
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
DENSE = ("float16", "bfloat16", "float32", "tf32", "float64", "float8_e4m3fn", "float8_e5m2")
ACTIVATIONS = ("none", "relu", "leaky_relu", "gelu", "silu")
SIZES = (1, 2, 7, 8, 16, 33, 64, 65, 96, 128, 160, 200, 256, 330)


def answers(calls: int, seed: int) -> None:
    """A line for each call: what it was, which kernel ran after which copies, and the bits of its result."""
    sys.path[:0] = [str(TESTS.parent), str(TESTS)]
    import simulated_gpu
    import torch

    import tileon_ops  # noqa: F401

    simulated_gpu.install()
    draw = random.Random(seed)
    torch.manual_seed(seed)

    def numbers(rows: int, columns: int, batch: int, dtype: torch.dtype) -> torch.Tensor:
        shape = (batch, rows, columns) if batch > 1 else (rows, columns)
        return (torch.randint(-4, 5, shape) / 2).to(dtype)

    def matrix(rows: int, columns: int, batch: int, dtype: torch.dtype) -> torch.Tensor:
        """As it is, transposed, or cut out of a wider one."""
        form = draw.choice(("rows", "rows", "columns", "columns", "odd", "apart"))
        if form == "columns":
            return numbers(columns, rows, batch, dtype).transpose(-1, -2)
        if form == "odd":
            return numbers(rows, columns + 3, batch, dtype)[..., 1 : columns + 1]
        if form == "apart":
            return numbers(rows, columns * 2, batch, dtype)[..., ::2]
        return numbers(rows, columns, batch, dtype)

    def epilogue(n: int, dtype: torch.dtype) -> tuple[torch.Tensor | None, dict[str, object]]:
        bias = numbers(1, n, 1, dtype)[0] if draw.random() < 0.4 else None
        return bias, {"activation": draw.choice(ACTIVATIONS)}

    for number in range(calls):
        m, n = draw.choice(SIZES), draw.choice(SIZES)
        if draw.random() < 0.6:
            kind = draw.choice(DENSE)
            dtype = torch.float32 if kind == "tf32" else getattr(torch, kind)
            b_dtype = torch.float8_e4m3fn if kind == "float8_e5m2" and draw.random() < 0.5 else dtype
            k, batch = draw.choice((*SIZES, 0, 1030, 4100)), draw.choice((1, 1, 1, 2, 3))
            m, n = (min(m, 65), min(n, 65)) if k > 1000 else (m, n)
            a, b = matrix(m, k, batch, dtype), matrix(k, n, draw.choice((1, batch)), b_dtype)
            out = torch.float16 if dtype.itemsize == 1 else dtype
            bias, options = epilogue(n, out)
            what = f"matmul {kind} {tuple(a.shape)} {a.stride()} {tuple(b.shape)} {b.stride()}"
            result = torch.ops.tileon.matmul(
                a, b, bias, allow_tf32=kind == "tf32", fast_accum=draw.random() < 0.5, **options
            )
        else:
            fmt = draw.choice(("mxfp8", "mxfp4", "nvfp4"))
            k = 32 * draw.choice((1, 2, 4, 5, 8, 33))
            a, scale_a = torch.ops.tileon.quantize(numbers(m, k, 1, torch.float32), fmt)
            other = "mxfp4" if fmt == "mxfp8" and draw.random() < 0.3 else fmt
            b, scale_b = torch.ops.tileon.quantize(numbers(n, k, 1, torch.float32), other)
            if draw.random() < 0.2:
                a = torch.cat([a, a[:, :1]], 1)[:, 1:] if draw.random() < 0.5 else a.t().contiguous().t()
            out = draw.choice((torch.float16, torch.bfloat16, torch.float32))
            bias, options = epilogue(n, out)
            what = f"block_scaled_matmul {fmt} x {other} {m} x {n} x {k} {a.stride()}"
            result = torch.ops.tileon.block_scaled_matmul(
                a, b, scale_a, scale_b, bias, out_dtype=out, fast_accum=draw.random() < 0.5, **options
            )
        bits = hashlib.sha256(result.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:16]
        print(f"{number} {what}: {torch.ops.tileon._last_kernel()} {bits}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="*", help="two of them")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gpu", default="h200")
    arguments = parser.parse_args()
    if not arguments.libraries:  # as a process of its own, for the library that TILEON_LIBRARY names
        answers(arguments.calls, arguments.seed)
        return 0
    command = [sys.executable, __file__, "--calls", str(arguments.calls), "--seed", str(arguments.seed)]
    running = [
        subprocess.Popen(
            command,
            env=os.environ
            | {
                "TILEON_LIBRARY": str(pathlib.Path(path).resolve()),
                "TILEON_SIMULATED_GPU": arguments.gpu,
                "TILEON_TUNE": "0",
                "OMP_NUM_THREADS": "1",
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for path in arguments.libraries
    ]
    before, after = (process.communicate()[0].splitlines() for process in running)
    differing = [pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]]
    for pair in differing[:20]:
        print("before {}\nafter  {}".format(*pair))
    complete = len(before) == len(after) == arguments.calls
    print(f"{len(after)} calls, {len(differing)} of them otherwise" + ("" if complete else f"; before {len(before)}"))
    return 0 if complete and not differing else 1


if __name__ == "__main__":
    sys.exit(main())
