"""Times every config at random products of two operands with block scales: a GPU is needed.

    python -m benchmarks.measure.block_scaled_random --seconds 95 --seed 7 --csv block_scaled_random.csv

The formats come in turn; m and n are spread evenly on a logarithmic scale, from 1 to 1024 in seven of ten products,
else to 8192, and multiples of 8 in every other; k is a multiple of the format's block from 16 or 32 to 16384. Scales
are packed, the output is bfloat16, nothing is rounded more than the format asks for (no fast_accum).

Each config runs three times. Those within 1.7 times of the fastest are in the file, and the one that the library chose,
with the median of nine more runs. `chosen` marks it. What the choice loses: tests/test_block_scaled_choice.py.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator

import torch

from benchmarks.common.cases import FORMATS
from benchmarks.common.command import command_line, gpu_arguments, tabulate
from benchmarks.common.timing import clock_words
from tileon_ops.tune.measurement import Call
from tileon_ops.tune.timing import Arm, Clock, clock_of

COLUMNS = ("format", "m", "n", "k", "config", "us", "chosen")
QUANTIZED = {  # a and b as what, of each format in turn
    "mxfp8": ("mxfp8", "mxfp8"),
    "mxfp4": ("mxfp4", "mxfp4"),
    "mixed": ("mxfp8", "mxfp4"),
    "nvfp4": ("nvfp4", "nvfp4"),
}
_MOST_PRODUCTS = 3e10
_NEAR = 1.7  # times the fastest config
_LOOKS, _RUNS = 2, 9


def shapes(seed: int) -> Iterator[tuple[str, int, int, int]]:
    """Format, m, n and k, without an end."""
    draw, formats = random.Random(seed), list(QUANTIZED)
    count = 0
    while True:
        format = formats[count % len(formats)]
        small = draw.random() < 0.7
        m, n = (round(2 ** draw.uniform(0, 10 if small else 13)) for _ in range(2))
        if draw.random() < 0.5:
            m, n = (-(-size // 8) * 8 for size in (m, n))
        block = FORMATS[format].vec
        k = block * max(1, round(2 ** draw.uniform(4, 14) / block))
        if m * n * k <= _MOST_PRODUCTS:
            count += 1
            yield format, m, n, k


def measure(format: str, m: int, n: int, k: int, clock: Clock) -> Iterator[list[object]]:
    """Rows of the table."""
    shuffle = random.Random(1)
    (a, scale_a), (b, scale_b) = (
        torch.ops.tileon.quantize(torch.randn(rows, k, device="cuda"), of)
        for rows, of in zip((m, n), QUANTIZED[format], strict=True)
    )
    options = {"out_dtype": torch.bfloat16, "fast_accum": False}
    call = Call("block_scaled_matmul", (a, b, scale_a, scale_b, None, None), options)
    call.run()
    chosen = torch.ops.tileon._last_kernel()
    arms = {config: Arm(run) for config, run in call.rows().items()}
    clock.measure(arms, 1, shuffle)
    looks = {config: min(times) for config, times in clock.measure(arms, _LOOKS, shuffle).items()}
    near = _NEAR * min(looks.values())
    kept = {config: arm for config, arm in arms.items() if looks[config] <= near or config == chosen}
    for config, times in clock.measure(kept, _RUNS, shuffle).items():
        yield [format, m, n, k, config, f"{1e6 * statistics.median(times):.2f}", int(config == chosen)]


def main() -> int:
    parser = command_line(__doc__, device=False)
    parser.add_argument("--seconds", type=float, default=95.0, help="for how long (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the drawing (default %(default)s)")
    arguments = gpu_arguments(parser)
    device = torch.device("cuda", torch.cuda.current_device())

    def rows() -> Iterator[list[object]]:
        end = time.monotonic() + arguments.seconds
        with torch.inference_mode():
            for shape in shapes(arguments.seed):
                if time.monotonic() > end:
                    return
                yield from measure(*shape, clock_of(device))

    words = f"{clock_words(device)}, interleaved arms, normal data"
    return tabulate(arguments.csv, COLUMNS, rows(), words, timing=words)


if __name__ == "__main__":
    raise SystemExit(main())
