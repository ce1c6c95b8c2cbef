"""Measures scaled products on the CPU against torch's bfloat16 linear layer.

    python -m benchmarks.measure.cpu_products --threads 1 --csv out.csv
    python -m benchmarks.measure.cpu_products --rows 1,16 --size 4096x14336

x is (m, k), the weight (n, k), normal random data. `weight_only`: bfloat16 x, a quantized weight; `both`: x has been
quantized before, the product alone is measured. The output is bfloat16. All arms of a number of rows take turns; speed
is torch's time over the arm's.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch

from benchmarks.common.command import command_line, parse_sizes, tabulate
from benchmarks.common.timing import Arm, time_arms

COLUMNS = ("operands", "format", "m", "n", "k", "threads", "median_us", "speed", "provider")
FORMATS = ("mxfp8", "mxfp4", "nvfp4", "int8_row", "fp8_row")
PAIRS = (*((name, name) for name in FORMATS), ("mxfp8", "mxfp4"))  # the last is called mixed
BFLOAT16 = torch.bfloat16
TORCH = "torch bfloat16"


def _arms(m: int, n: int, k: int) -> dict[str, Arm]:
    """By operands and format, torch's layer first."""
    ops = torch.ops.tileon
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(rows, k, generator=generator) for rows in (m, n))
    wide_x, wide_weight = x.to(BFLOAT16), weight.to(BFLOAT16)
    of_x, of_weight = ({name: ops.quantize(values, name) for name in FORMATS} for values in (x, weight))

    def product(*operands: torch.Tensor | None) -> Arm:
        return Arm(lambda: ops.block_scaled_matmul(*operands, out_dtype=BFLOAT16))

    arms = {TORCH: Arm(lambda: torch.nn.functional.linear(wide_x, wide_weight))}
    for name, (codes, scale) in of_weight.items():
        arms[f"weight_only {name}"] = product(wide_x, codes, None, scale)
    for x_name, name in PAIRS:
        (x_codes, x_scale), (codes, scale) = of_x[x_name], of_weight[name]
        arms[f"both {name if x_name == name else 'mixed'}"] = product(x_codes, codes, x_scale, scale)
    return arms


@torch.inference_mode()
def _rows(m: int, n: int, k: int, arguments: argparse.Namespace) -> Iterator[list[object]]:
    limits = {"seconds": arguments.seconds, "warmup_seconds": arguments.warmup_seconds}
    timings = time_arms(_arms(m, n, k), torch.device("cpu"), **limits)
    for what, timing in timings.items():
        figures = [f"{timing.median_us:.1f}", f"{timings[TORCH].median_us / timing.median_us:.3f}"]
        provider = "torch" if what == TORCH else "tileon"
        yield [*what.split(), m, n, k, torch.get_num_threads(), *figures, provider]


def main() -> int:
    parser = command_line(__doc__, device=False, seconds=20.0, warmup=2.0)
    parser.add_argument("--threads", type=int, default=1, help="of torch's (default 1)")
    rows_help = "m[,m...] (default 1,16,256)"
    parser.add_argument("--rows", type=lambda text: [*map(int, text.split(","))], default=[1, 16, 256], help=rows_help)
    size_help = "NxK of the weight (default 2048x2048)"
    parser.add_argument("--size", type=lambda text: parse_sizes(text, "NxK"), default=[(2048, 2048)], help=size_help)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    timing = (
        f"perf_counter, {arguments.threads} threads, interleaved arms, median of about {arguments.seconds:g} s a shape"
    )
    rows = (row for n, k in arguments.size for m in arguments.rows for row in _rows(m, n, k, arguments))
    return tabulate(arguments.csv, COLUMNS, rows, timing, timing=timing)


if __name__ == "__main__":
    raise SystemExit(main())
