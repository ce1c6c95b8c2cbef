"""What the library's choice of a row loses against the best row, and what tuning wins back:
`python -m benchmarks.measure.tune_regret --csv tune_regret.csv` on a GPU.

Two sets of bfloat16 products. `linear`: layers of models with hidden sizes from 2048 to 8192, 1 to 8192 rows. `random`:
rectangles of a seed, in the four layouts in turn; sizes are spread evenly on a logarithmic scale from 8 to 8192, all
three rounded to multiples of 8 or, in about 15 % of the cases, to whole numbers, which TMA mostly cannot read.

Each case is tuned (tileon_ops/tune/) in two rounds. `default_us` and `best_us` are medians of the second, so that
neither profits from luck in the first; regret is what the first has over the second. Then the op itself is timed once
more, interleaved: as the library chooses (`again_us`) and with what tuning chose (`tuned_us`); the same figure where it
chose the default. About 0.4 s of a GPU's time a case.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.common.cases import LAYOUTS, Case, drawn, make_operands
from benchmarks.common.command import command_line, finish, for_each, gpu_arguments
from benchmarks.common.result_file import CsvWriter
from tileon_ops.tune import tuned_configs
from tileon_ops.tune.cache import DEFAULT
from tileon_ops.tune.measurement import Call
from tileon_ops.tune.timing import Arm, clock_of

# n, k of a linear layer's weight: attention and MLP of models by hidden size.
WEIGHTS = (
    *((2048, 2048), (8192, 2048), (2048, 8192)),
    *((9216, 3072), (3072, 8192)),
    *((6144, 4096), (28672, 4096), (4096, 14336)),
    *((13824, 5120), (10240, 8192), (8192, 28672)),
)
ROWS = (1, 8, 16, 64, 128, 256, 512, 2048, 8192)
RECTANGLES = 200
_LARGEST = 2**38  # m * n * k of a rectangle: about a millisecond
_ANY_SIZES = 0.15  # share of the rectangles whose sizes are not multiples of 8

_MEASURING = 0.7  # of a case's seconds; the rest is for the op itself, default and tuned
_AGAIN_ROUNDS = (7, 100)  # at least, at most


def linear_cases() -> list[Case]:
    return [Case("bfloat16", "NT", m, n, k) for n, k in WEIGHTS for m in ROWS]


def rectangles(count: int = RECTANGLES, seed: int = 0) -> list[Case]:
    def one(draw: random.Random, number: int) -> Case:
        step = 1 if draw.random() < _ANY_SIZES else 8
        m, n, k = (step * round(2 ** draw.uniform(3, 13) / step) for _ in range(3))
        return Case("bfloat16", LAYOUTS[number % len(LAYOUTS)], m, n, k)

    return drawn(count, seed, _LARGEST, one)


class Regret(NamedTuple):
    """Of one case, in the order of the columns; times in microseconds."""

    default: str
    default_us: float
    best: str
    best_us: float
    regret: float
    tuned: str
    again_us: float
    tuned_us: float


def measure(case: Case, device: torch.device, seconds: float) -> Regret:
    """Tunes the case in this process alone, and times the op with and without what was found."""
    operands, index = make_operands(case, device), device.index
    call = Call("matmul", (operands.a, operands.b, None), {"activation": "none"})
    problem = call.problem()

    def op_with(row: str) -> Callable[[], object]:
        def run() -> object:
            torch.ops.tileon._set_tuned_config(index, problem, row)
            return call.run()

        return run

    with tuned_configs.measuring(index):
        found = tuned_configs.measure(call, index, _MEASURING * seconds)
        choice, finals = found.choice, found.finals
        again = tuned = choice.default_us
        if not choice.is_default:
            arms = {row: Arm(op_with(row)) for row in (DEFAULT, choice.row)}
            round_seconds = 1e-6 * (choice.us + choice.default_us) + 1e-4  # and the overwriting of L2
            least, most = _AGAIN_ROUNDS
            rounds = max(least, min(most, int((1 - _MEASURING) * seconds / round_seconds)))
            samples = clock_of(device).measure(arms, rounds, random.Random(1))
            again, tuned = (1e6 * statistics.median(samples[row]) for row in (DEFAULT, choice.row))
        torch.ops.tileon._set_tuned_config(index, problem, "")
    best = min(finals, key=finals.__getitem__)
    default_us, best_us = finals[DEFAULT], finals[best]
    best = choice.default if best == DEFAULT else best
    return Regret(choice.default, default_us, best, best_us, default_us / best_us - 1, choice.row, again, tuned)


COLUMNS = ("set", "dtype", "layout", "m", "n", "k", *Regret._fields)


def run(sets: dict[str, list[Case]], device: torch.device, seconds: float, csv: Path | None, words: str) -> int:
    """Measures all cases of the sets; those that fail do not stop the others."""
    timing = f"CUDA events, cold L2, interleaved rows, about {seconds:g} s a case, normal random data"

    def one(item: tuple[str, Case]) -> list[str]:
        name, case = item
        found = measure(case, device, seconds)
        texts = found._asdict() | {name: f"{us:.2f}" for name, us in found._asdict().items() if name.endswith("_us")}
        figures = (texts | {"regret": f"{found.regret:.4f}"}).values()
        writer.write([name, case.dtype, case.layout, *case.shape, *figures])
        times = f"{found.default} {found.default_us:.2f} us, best {found.best} {found.best_us:.2f} us"
        return [f"{name} {case.layout} {case.size}: {times}"]

    items = [(name, case) for name, cases in sets.items() for case in cases]
    writer = CsvWriter(csv, COLUMNS, {"timing": timing, "random": words})
    with torch.inference_mode():
        failed = for_each(items, lambda item: f"{item[1].layout} {item[1].size}", one)
    finish(timing, csv)
    return 1 if failed else 0


def main() -> int:
    parser = command_line(__doc__, device=False, seconds=0.3)
    parser.add_argument("--rectangles", type=int, default=RECTANGLES, help="how many are drawn (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the drawing (%(default)s)")
    arguments = gpu_arguments(parser)
    sets = {"linear": linear_cases(), "random": rectangles(arguments.rectangles, arguments.seed)}
    device = torch.device("cuda", torch.cuda.current_device())
    return run(sets, device, arguments.seconds, arguments.csv, f"{arguments.rectangles} of seed {arguments.seed}")


if __name__ == "__main__":
    raise SystemExit(main())
