"""Times products that nobody chose against torch: `python -m benchmarks.measure.random_shapes --csv out.csv`.

    python -m benchmarks.measure.random_shapes                        # other products at every run; the seed is printed
    python -m benchmarks.measure.random_shapes --seed 7 --count 300   # the same ones again
    python -m benchmarks.measure.random_shapes --groups fp8,batch --largest 2048
    python -m benchmarks.measure.random_shapes --dtypes float32,nvfp4 --dry-run

Sizes from 1 to 16384, alignment, layout, dtype, batch and epilogue are drawn from a seed (random_shapes_draw.py), which
the CSV's head has: with it and the same options the same products are drawn. torch is user_call of peers/providers.py.
The columns are those of products.py, and batch, 1 where the operands are 2-D. What is printed at the end, torch's time
over ours by group and alignment, is made of these rows alone.
"""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import torch

from benchmarks.common.cases import Case, Operands, Work
from benchmarks.common.command import command_line, some_of
from benchmarks.common.result_file import aligned
from benchmarks.common.times import times_of
from benchmarks.common.timing import Arm
from benchmarks.measure.peers.providers import Call, tileon_call, user_call
from benchmarks.measure.products import list_work, measure
from benchmarks.measure.random_shapes_draw import ALL_DTYPES, Bounds, chosen_groups, draw
from benchmarks.subjects.random_shapes import GROUPS, LEVEL, summary

PROVIDERS: dict[str, Callable[[Case, Operands], Call]] = {"tileon": tileon_call, "torch": user_call}

# By default no product is beyond these. On a GPU operands and result are at most 2 GiB or a 32nd of its memory: the
# float32 numbers that operands are rounded from, and torch's bfloat16 copies, lie beside them. A product is at most
# that of squares of 8192, which is 16 ms of float32 or float64 at an H200's peak (66.9 TFLOP/s). On a CPU, where half
# precision is slow, torch's too, it is at most that of squares of 256.
_GPU_LARGEST, _GPU_BYTES, _GPU_MEMORY_SHARE, _GPU_FLOPS = 16384, 2 << 30, 32, 2 * 8192**3
_CPU_BOUNDS = Bounds(largest=256, bytes=16 << 20, flops=2 * 256**3)


def _parser() -> argparse.ArgumentParser:
    parser = command_line(__doc__, seconds=0.2, warmup=0.2)
    parser.add_argument("--count", type=int, default=60, help="products (default 60)")
    parser.add_argument("--seed", type=int, help="of the draw (default: another one at every run)")
    some_of(parser, "--groups", GROUPS)
    some_of(parser, "--dtypes", ALL_DTYPES)
    parser.set_defaults(dtypes=None)  # all that the device has
    parser.add_argument("--largest", type=int, help=f"size (default {_GPU_LARGEST}; of a CPU 256)")
    parser.add_argument("--dry-run", action="store_true", help="list the products and about what they cost")
    return parser


def _bounds(arguments: argparse.Namespace) -> Bounds:
    """The device's, but for the largest size that the command line names."""
    bounds = _CPU_BOUNDS
    if arguments.device.type == "cuda":
        share = torch.cuda.get_device_properties(arguments.device).total_memory // _GPU_MEMORY_SHARE
        bounds = Bounds(_GPU_LARGEST, min(_GPU_BYTES, share), _GPU_FLOPS)
    return replace(bounds, largest=arguments.largest or bounds.largest)


def _groups(arguments: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    """What is drawn from: every dtype that the device has, where the command line does not name them."""
    dtypes = arguments.dtypes or [name for name in ALL_DTYPES if name != "tf32" or arguments.device.type == "cuda"]
    chosen = chosen_groups(arguments.groups, dtypes)
    if not chosen:
        raise ValueError(f"nothing is of groups {','.join(arguments.groups)} and of dtypes {','.join(dtypes)}")
    return chosen


def summary_text(rows: Iterable[Mapping[str, str]]) -> str:
    """The table for the terminal, of the rows of a file, with what its columns are."""
    words = f"torch's time over tileon's: geometric mean, share of the cases below {LEVEL}, and the worst case"
    return f"{words}\n{aligned(summary(times_of(rows)))}"


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    seed = secrets.randbelow(2**32) if arguments.seed is None else arguments.seed
    try:
        cases = draw(seed, arguments.count, _bounds(arguments), _groups(arguments))
    except ValueError as error:
        parser.error(str(error))
    print(f"seed {seed}", flush=True)
    work = [Work(case, tuple(PROVIDERS)) for case in cases]
    if arguments.dry_run:
        list_work(work, arguments)
        return 0

    def make_arm(provider: str, case: Case, operands: Operands) -> Arm:
        return Arm(PROVIDERS[provider](case, operands))

    words = "normal random data, quantized for block-scaled formats"
    failed, rows = measure(work, arguments, words, columns=("batch",), head={"seed": str(seed)}, make_arm=make_arm)
    print(f"\n{summary_text(rows)}\nseed {seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
