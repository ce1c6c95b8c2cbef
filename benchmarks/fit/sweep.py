"""Measures every row of the tile table at every benchmark size, on a GPU.

    python -m benchmarks.fit.sweep --csv sweep.csv
    python -m benchmarks.fit.sweep --rows sm90 --dtype float16 --layout NN            # narrowed
    python -m benchmarks.fit.sweep --preset random --rows sm90 --csv random.csv       # shapes drawn from a seed
    python -m benchmarks.fit.sweep --preset random --rows sm90 --cases 0:820 --csv random.csv      # some of them
    python -m benchmarks.fit.sweep --preset float32_rows --rows "bf16x6|simt|sm80_few" --csv sweep_float32.csv   # GPU
    python -m benchmarks.fit.sweep --shapes 2304x2304x2304,64x4096x4096 --dtype bfloat16 --layout NT

The cost models are fitted to it, and the choice is judged by it (common/times.py, report/targets.py). The CSV has the
columns of matmul.py and `kernel`, what ran: for provider `tileon:<row>` the row, for `tileon` the one that the op chose
by itself. Rows that take more than --hopeless times the best one's time in a first look are left out there. How it is
timed: common/timing.py.
"""

from __future__ import annotations

import argparse
import re
import sys

import torch

from benchmarks.common.cases import COLUMNS as MATMUL_COLUMNS
from benchmarks.common.cases import Case, make_operands
from benchmarks.common.command import command_line, finish, for_each, parse_names, parse_shapes
from benchmarks.common.result_file import CsvWriter
from benchmarks.common.timing import Arm, Timing, time_arms
from benchmarks.fit.sweep_cases import SETS
from benchmarks.measure.peers.providers import config_arms, tileon_call

COLUMNS = (*MATMUL_COLUMNS, "kernel")


def measure(case: Case, device: torch.device, arguments: argparse.Namespace) -> tuple[dict[str, Timing], str]:
    """Timings of the op and of every row, by provider, and the kernel of the op's choice."""
    torch.set_float32_matmul_precision("high" if case.allow_tf32 else "highest")
    operands = make_operands(case, device)
    call = tileon_call(case, operands)
    call()
    chosen = torch.ops.tileon._last_kernel()
    rows = config_arms(case, operands, None).items()
    wanted = {name: arm for name, arm in rows if re.search(arguments.rows, name.removeprefix("tileon:"))}
    timings = time_arms(
        {"tileon": Arm(call)} | wanted,
        device,
        seconds=arguments.seconds,
        warmup_seconds=arguments.warmup_seconds,
        max_rounds=60,
        hopeless=arguments.hopeless,
        keep=("tileon", f"tileon:{chosen}"),
    )
    return timings, chosen


def _cases(arguments: argparse.Namespace) -> list[Case]:
    dtypes, layouts = arguments.dtype, arguments.layout
    if arguments.shapes:
        kinds = [(dtype, layout) for dtype in dtypes or ["float16"] for layout in layouts or ["NN"]]
        return [Case(*kind, *shape) for kind in kinds for shape in arguments.shapes]
    cases = [case for case in SETS[arguments.preset]() if not dtypes or case.dtype in dtypes]
    return [case for case in cases if not layouts or case.layout in layouts]


def _slice(text: str) -> slice:
    begin, end = text.split(":")
    return slice(int(begin), int(end))


def _parser() -> argparse.ArgumentParser:
    parser = command_line(__doc__, device=False, seconds=0.35, warmup=0.15)
    parser.add_argument("--preset", default="sweep", choices=SETS, help="set of cases (default sweep)")
    parser.add_argument("--shapes", type=parse_shapes, help="MxNxK[,MxNxK...] in place of the fixed set")
    parser.add_argument("--dtype", type=parse_names, help="some of the set's (of --shapes: float16)")
    parser.add_argument("--layout", type=parse_names, help="some of the set's (of --shapes: NN)")
    parser.add_argument("--cases", type=_slice, default=slice(None), help="BEGIN:END, some of the set: on several GPUs")
    parser.add_argument("--rows", default="", help="regular expression: these rows of the table alone")
    parser.add_argument("--hopeless", type=float, default=3.0, help="leave rows out beyond this factor (default 3)")
    return parser


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU: the tile table is the GPU's")
    try:
        cases = _cases(arguments)[arguments.cases]
    except ValueError as error:
        parser.error(str(error))
    words = (
        f"CUDA events, cold L2, interleaved rows, median of about {arguments.seconds:g} s a case, normal random data"
    )

    def one(case: Case) -> list[str]:
        timings, chosen = measure(case, torch.device("cuda"), arguments)
        for provider, timing in timings.items():
            kernel = chosen if provider == "tileon" else provider.removeprefix("tileon:")
            writer.write([*case.cells(provider, timing.median_us), kernel])
        best = min(timings, key=lambda provider: timings[provider].median_us)
        ours = f"{len(timings)} arms, {chosen} {timings['tileon'].median_us:.2f} us"
        return [f"{case}: {ours}, best {best.removeprefix('tileon:')} {timings[best].median_us:.2f} us"]

    with torch.inference_mode(), CsvWriter(arguments.csv, COLUMNS, {"timing": words}) as writer:
        failed = for_each(cases, str, one)
    finish(words, arguments.csv)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
