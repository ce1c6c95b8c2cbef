"""Time that the host spends on one eager call of a 64 x 64 product: `python -m benchmarks.measure.host --csv out.csv`.

So small a product leaves the GPU idle, and what is timed is checks, dispatch and launch. Calls are timed in batches
with `time.perf_counter` (the GPU is waited for between batches, outside the timing), the providers interleaved, and
the median batch is taken. On a CPU the arithmetic is in the figure too.

Columns: op,state,provider,median_us. State: `inference_mode`; `grad_unneeded` (grad mode is on, no operand requires a
gradient); `grad_recorded` (both do). Provider: `tileon` is torch.ops.tileon.matmul, `tileon_python`
tileon_ops.matmul, `torch` torch.matmul.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch

import tileon_ops
from benchmarks.common.cases import TORCH_DTYPES
from benchmarks.common.command import command_line, finish
from benchmarks.common.result_file import CsvWriter

SIZE = 64
COLUMNS = ("op", "state", "provider", "median_us")

# State: (context, whether the operands require gradients).
_STATES: dict[str, tuple[Callable[[], AbstractContextManager[object]], bool]] = {
    "inference_mode": (torch.inference_mode, False),
    "grad_unneeded": (nullcontext, False),
    "grad_recorded": (nullcontext, True),
}


def measure(state: str, device: torch.device, dtype: torch.dtype, *, calls: int, batches: int) -> dict[str, float]:
    """Median host time of one call in microseconds, by provider."""
    context, requires_grad = _STATES[state]
    a = torch.randn(SIZE, SIZE, device=device).to(dtype).requires_grad_(requires_grad)
    b = torch.randn(SIZE, SIZE, device=device).to(dtype).requires_grad_(requires_grad)
    functions: dict[str, Callable[..., object]] = {
        "tileon": torch.ops.tileon.matmul,
        "tileon_python": tileon_ops.matmul,
        "torch": torch.matmul,
    }
    times: dict[str, list[float]] = {name: [] for name in functions}
    shuffle = random.Random(0)
    with context():
        for batch in range(batches + 5):  # the first five warm up
            for name in shuffle.sample(list(functions), len(functions)):
                function = functions[name]
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
                start = time.perf_counter()
                for _ in range(calls):
                    function(a, b)
                seconds = time.perf_counter() - start
                if batch >= 5:
                    times[name].append(seconds / calls)
    return {name: statistics.median(values) * 1e6 for name, values in times.items()}


def main() -> int:
    parser = command_line(__doc__)
    parser.add_argument(
        "--dtype", default="float16" if torch.cuda.is_available() else "float32", choices=[*TORCH_DTYPES]
    )
    parser.add_argument("--calls", type=int, default=200, help="in one batch (default 200, far below the launch queue)")
    parser.add_argument("--batches", type=int, default=200, help="for each provider (default 200)")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)

    setting = f"{SIZE}x{SIZE}x{SIZE} {arguments.dtype} on {device.type}, median of {arguments.batches} batches of "
    setting += f"{arguments.calls} calls"
    table = [["op", "state", "provider", "median us", "against torch"]]
    with CsvWriter(arguments.csv, COLUMNS, {"timing": setting}) as writer:
        for state in _STATES:
            dtype = TORCH_DTYPES[arguments.dtype]
            medians = measure(state, device, dtype, calls=arguments.calls, batches=arguments.batches)
            for provider, microseconds in medians.items():
                writer.write(["matmul", state, provider, f"{microseconds:.3f}"])
                ratio = f"{medians['torch'] / microseconds:.2f}"
                table.append(["matmul", state, provider, f"{microseconds:.3f}", ratio])
    finish(table, setting, arguments.csv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
