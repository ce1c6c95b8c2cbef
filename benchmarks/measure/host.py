"""Time that the host spends on one eager call of a 64 x 64 product: `python -m benchmarks.measure.host --csv host.csv`.

So small a product leaves the GPU idle, and what is timed is checks, dispatch and launch. Calls are timed in batches
with `time.perf_counter` (the GPU is waited for between batches, outside the timing), the providers interleaved, and
the median batch is taken. On a CPU the arithmetic is in the figure too. State: `inference_mode`; `grad_unneeded` (grad
mode is on, no operand requires a gradient); `grad_recorded` (both do).
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch

import tileon_ops
from benchmarks.common.cases import TORCH_DTYPES
from benchmarks.common.command import command_line, tabulate

SIZE = 64
COLUMNS = ("op", "state", "provider", "median_us")
_WARMUP_BATCHES = 5

# State: (context, whether the operands require gradients).
_STATES: dict[str, tuple[Callable[[], AbstractContextManager[object]], bool]] = {
    "inference_mode": (torch.inference_mode, False),
    "grad_unneeded": (nullcontext, False),
    "grad_recorded": (nullcontext, True),
}


def measure(state: str, device: torch.device, dtype: torch.dtype, *, calls: int, batches: int) -> dict[str, float]:
    """Median host time of one call in microseconds, by provider."""
    context, requires_grad = _STATES[state]
    a, b = (torch.randn(SIZE, SIZE, device=device).to(dtype).requires_grad_(requires_grad) for _ in range(2))
    functions: dict[str, Callable[..., object]] = {
        "tileon": torch.ops.tileon.matmul,
        "tileon_python": tileon_ops.matmul,
        "torch": torch.matmul,
    }
    times: dict[str, list[float]] = {name: [] for name in functions}
    shuffle = random.Random(0)
    with context():
        for _ in range(_WARMUP_BATCHES + batches):
            for name in shuffle.sample(list(functions), len(functions)):
                function = functions[name]
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
                start = time.perf_counter()
                for _ in range(calls):
                    function(a, b)
                times[name].append((time.perf_counter() - start) / calls)
    return {name: statistics.median(values[_WARMUP_BATCHES:]) * 1e6 for name, values in times.items()}


def main() -> int:
    parser = command_line(__doc__)
    default = "float16" if torch.cuda.is_available() else "float32"
    parser.add_argument("--dtype", default=default, choices=[*TORCH_DTYPES])
    parser.add_argument("--calls", type=int, default=200, help="in one batch (default 200, far below the launch queue)")
    parser.add_argument("--batches", type=int, default=200, help="for each provider (default 200)")
    arguments = parser.parse_args()
    device, calls, batches = arguments.device, arguments.calls, arguments.batches
    words = f"{SIZE}x{SIZE}x{SIZE} {arguments.dtype} on {device.type}, median of {batches} batches of {calls} calls"
    rows = (
        ["matmul", state, provider, f"{us:.3f}"]
        for state in _STATES
        for provider, us in measure(state, device, TORCH_DTYPES[arguments.dtype], calls=calls, batches=batches).items()
    )
    return tabulate(arguments.csv, COLUMNS, rows, words, timing=words)


if __name__ == "__main__":
    raise SystemExit(main())
