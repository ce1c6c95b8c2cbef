"""Times products that nobody chose against torch: `python -m benchmarks.measure.random_shapes --csv out.csv`.

    python -m benchmarks.measure.random_shapes                        # other products at every run; the seed is printed
    python -m benchmarks.measure.random_shapes --seed 7 --count 300   # the same ones again
    python -m benchmarks.measure.random_shapes --groups fp8,batch --largest 2048
    python -m benchmarks.measure.random_shapes --dtypes float32,nvfp4 --dry-run

Sizes from 1 to 16384, alignment, layout, dtype, batch and epilogue are drawn from a seed (random_shapes_draw.py), which
the CSV's head has: with it and the same options the same products are drawn. torch is user_call of peers/providers.py.
The columns are those of products.py, and batch, 1 where the operands are 2-D. What is printed at the end, torch's time
over ours by group and class, is made of these rows alone.
"""

from __future__ import annotations

import argparse
import itertools
import math
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import geometric_mean

import torch

from benchmarks.common.cases import Case, Operands, Work
from benchmarks.common.command import at_least, command_line, some_of
from benchmarks.common.result_file import aligned
from benchmarks.common.timing import Arm
from benchmarks.measure.peers.providers import Call, tileon_call, user_call
from benchmarks.measure.products import list_work, measure
from benchmarks.measure.random_shapes_draw import ALL_DTYPES, GROUPS, Bounds, chosen_groups, draw, group_of, is_aligned

PROVIDERS: dict[str, Callable[[Case, Operands], Call]] = {"tileon": tileon_call, "torch": user_call}

# By default no product is beyond these. On a GPU operands and result are at most 2 GiB or a 32nd of its memory: the
# float32 numbers that operands are rounded from, and torch's bfloat16 copies, lie beside them. A product is at most
# that of squares of 8192, which is 16 ms of float32 or float64 at an H200's peak (66.9 TFLOP/s). On a CPU, where half
# precision is slow, torch's too, it is at most that of squares of 256.
_GPU_LARGEST, _GPU_BYTES, _GPU_MEMORY_SHARE, _GPU_FLOPS = 16384, 2 << 30, 32, 2 * 8192**3
_CPU_BOUNDS = Bounds(largest=256, bytes=16 << 20, flops=2 * 256**3)


def _parser() -> argparse.ArgumentParser:
    parser = command_line(__doc__, seconds=0.2, warmup=0.2)
    parser.add_argument("--count", type=at_least(1), default=60, help="products (default 60)")
    parser.add_argument("--seed", type=at_least(0), help="of the draw (default: another one at every run)")
    some_of(parser, "--groups", GROUPS)
    some_of(parser, "--dtypes", ALL_DTYPES)
    parser.set_defaults(dtypes=None)  # all that the device has
    parser.add_argument("--largest", type=at_least(1), help=f"size (default {_GPU_LARGEST}; of a CPU 256)")
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
    """What is drawn from: every dtype that the device has, where the command line does not name them.

    Raises:
        ValueError: there is nothing.
    """
    dtypes = arguments.dtypes or [name for name in ALL_DTYPES if name != "tf32" or arguments.device.type == "cuda"]
    chosen = chosen_groups(arguments.groups, dtypes)
    if not chosen:
        raise ValueError(f"nothing is of groups {','.join(arguments.groups)} and of dtypes {','.join(dtypes)}")
    return chosen


# What is printed at the end. A class is whether operands and result are aligned (random_shapes_draw.py), how many
# numbers the result has, and how long k is: a small result with a long k occupies few of a GPU's multiprocessors,
# unless k is split among them.

LEVEL = 0.97  # cases are counted in which torch's time over ours is below it
_OUTPUTS = {"<= 2^16": 2**16, "<= 2^20": 2**20, "> 2^20": math.inf}  # numbers in the result, at most
_LENGTHS = {"< 512": 512, "< 2048": 2048, ">= 2048": math.inf}  # of k, below
_ALIGNMENTS = ("aligned", "unaligned")

_CLASSES: tuple[tuple[str, str, str], ...] = (  # alignment, outputs, k
    ("all", "all", "all"),
    *((alignment, "all", "all") for alignment in _ALIGNMENTS),
    *((alignment, outputs, k) for alignment in _ALIGNMENTS for outputs in _OUTPUTS for k in _LENGTHS),
)
HEAD = ("group", "alignment", "outputs", "k", "cases", "mean", f"below {LEVEL}", "worst", "at")

Compared = tuple[Case, float]  # torch's time over ours: above 1 ours is faster


def comparisons(rows: Iterable[Mapping[str, str]]) -> list[Compared]:
    """Of the rows of a file, in its order; a product that one of the two lacks is left out."""
    found: list[tuple[Case, dict[str, float]]] = []
    for row in rows:
        shape = (int(row["m"]), int(row["n"]), int(row["k"]))
        case = Case(row["dtype"], row["layout"], *shape, row["epilogue"], int(row["batch"]))
        if not found or found[-1][0] != case or row["provider"] in found[-1][1]:
            found.append((case, {}))
        found[-1][1][row["provider"]] = float(row["median_us"])
    return [(case, by["torch"] / by["tileon"]) for case, by in found if by.keys() >= {"tileon", "torch"}]


def summary(compared: Iterable[Compared]) -> list[list[str]]:
    """The table, its head first: each group that occurs, as a whole, by alignment and by class; then all groups
    together in the same way, where there are several."""
    lines: dict[tuple[str, ...], list[Compared]] = {}
    for case, ratio in compared:
        alignment = _ALIGNMENTS[0] if is_aligned(case) else _ALIGNMENTS[1]
        outputs = next(name for name, limit in _OUTPUTS.items() if case.batch * case.m * case.n <= limit)
        length = next(name for name, limit in _LENGTHS.items() if case.k < limit)
        classes = (("all", "all", "all"), (alignment, "all", "all"), (alignment, outputs, length))
        for group, names in itertools.product((group_of(case), "all"), classes):
            lines.setdefault((group, *names), []).append((case, ratio))
    table, several = [[*HEAD]], len({group for group, *_ in lines}) > 2
    for line in ((group, *names) for group in (*GROUPS, *["all"] * several) for names in _CLASSES):
        if line in lines:
            ratios = [ratio for _, ratio in lines[line]]
            below = sum(ratio < LEVEL for ratio in ratios) / len(ratios)
            case, worst = min(lines[line], key=lambda item: item[1])
            figures = [str(len(ratios)), f"{geometric_mean(ratios):.3f}", f"{100 * below:.0f} %", f"{worst:.2f}"]
            table.append([*line, *figures, str(case)])
    return table


def summary_text(compared: Sequence[Compared]) -> str:
    """The table for the terminal, with what its columns are."""
    if not compared:
        return "no product has figures of both providers"
    words = f"torch's time over tileon's: geometric mean, share of the cases below {LEVEL}, and the worst case"
    return f"{words}\n{aligned(summary(compared))}"


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
    print(f"\n{summary_text(comparisons(rows))}\nseed {seed}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
