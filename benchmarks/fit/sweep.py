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
from pathlib import Path

import torch

from benchmarks.common.cases import Case, make_operands
from benchmarks.common.command import parse_shapes
from benchmarks.common.result_file import CsvWriter, portable_path
from benchmarks.common.times import geometric_mean, losses
from benchmarks.common.timing import Arm, Timing, time_arms
from benchmarks.fit.sweep_cases import SETS
from benchmarks.measure.peers.dense import config_arms, tileon_call

COLUMNS = (
    *("op", "dtype", "layout", "m", "n", "k", "epilogue", "provider", "median_us", "tflops"),
    "kernel",
)


def measure(case: Case, device: torch.device, arguments: argparse.Namespace) -> tuple[dict[str, Timing], str]:
    """Timings of the op and of every row, by provider, and the kernel of the op's choice."""
    torch.set_float32_matmul_precision("high" if case.allow_tf32 else "highest")
    operands = make_operands(case, device)
    call = tileon_call(case, operands)
    call()
    chosen = torch.ops.tileon._last_kernel()
    rows = config_arms(case, operands, None)
    arms = {"tileon": Arm(call)} | {
        name: arm for name, arm in rows.items() if re.search(arguments.rows, name.removeprefix("tileon:"))
    }
    timings = time_arms(
        arms,
        device,
        seconds=arguments.seconds,
        warmup_seconds=arguments.warmup_seconds,
        max_rounds=60,
        hopeless=arguments.hopeless,
        keep=("tileon", f"tileon:{chosen}"),
    )
    return timings, chosen


def _cases(arguments: argparse.Namespace) -> list[Case]:
    if arguments.shapes:
        dtypes, layouts = arguments.dtype or ["float16"], arguments.layout or ["NN"]
        return [Case(dtype, layout, *shape) for dtype in dtypes for layout in layouts for shape in arguments.shapes]
    return [
        case
        for case in SETS[arguments.preset]()
        if (not arguments.dtype or case.dtype in arguments.dtype)
        and (not arguments.layout or case.layout in arguments.layout)
    ]


def _report_choice(path: Path) -> None:
    found = losses(path)
    for title, prefix in (("Hopper", "sm90"), ("portable", "sm80")):
        mine = [loss for loss in found if loss.chosen.startswith(prefix)]
        if mine:
            mean, worst = geometric_mean(loss.ratio for loss in mine), max(mine, key=lambda loss: loss.ratio)
            print(
                f"{title} rows, as chosen in {len(mine)} cases: {100 * (mean - 1):.2f} % over the best in mean, "
                f"{100 * (worst.ratio - 1):.1f} % at worst ({worst.key.dtype} {worst.key.layout} {worst.key.shape}: "
                f"{worst.chosen}, best is {worst.best})"
            )


def _slice(text: str) -> slice:
    begin, end = text.split(":")
    return slice(int(begin), int(end))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="sweep", choices=SETS, help="set of cases (default sweep)")
    parser.add_argument("--shapes", type=parse_shapes, help="MxNxK[,MxNxK...] in place of the fixed set")
    parser.add_argument("--dtype", type=lambda text: text.split(","), help="some of the set's (of --shapes: float16)")
    parser.add_argument("--layout", type=lambda text: text.split(","), help="some of the set's (of --shapes: NN)")
    parser.add_argument("--cases", type=_slice, default=slice(None), help="BEGIN:END, some of the set: on several GPUs")
    parser.add_argument("--rows", default="", help="regular expression: these rows of the table alone")
    parser.add_argument("--hopeless", type=float, default=3.0, help="leave rows out beyond this factor (default 3)")
    parser.add_argument("--seconds", type=float, default=0.35, help="timed part of one case, all rows (default 0.35)")
    parser.add_argument("--warmup-seconds", type=float, default=0.15, help="cap on warming a case (default 0.15)")
    parser.add_argument("--csv", type=Path, help="write the figures here")
    return parser


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU: the tile table is the GPU's")
    device, failed = torch.device("cuda"), 0
    try:
        cases = _cases(arguments)[arguments.cases]
    except ValueError as error:
        parser.error(str(error))
    timing_line = (
        f"CUDA events, cold L2, interleaved rows, median of about {arguments.seconds:g} s a case, normal random data"
    )
    with torch.inference_mode(), CsvWriter(arguments.csv, COLUMNS, {"timing": timing_line}) as writer:
        for done, case in enumerate(cases, start=1):
            name = f"[{done}/{len(cases)}] {case.dtype} {case.layout} {case.m}x{case.n}x{case.k}"
            try:
                timings, chosen = measure(case, device, arguments)
            except RuntimeError as error:  # the other cases are still worth measuring
                failed += 1
                print(f"{name} failed: {error}", flush=True)
                continue
            for provider, timing in timings.items():
                kernel = chosen if provider == "tileon" else provider.removeprefix("tileon:")
                figures = [f"{timing.median_us:.2f}", f"{case.tflops(timing.median_us):.4g}"]
                shape = [str(case.m), str(case.n), str(case.k)]
                writer.write(["matmul", case.dtype, case.layout, *shape, case.epilogue, provider, *figures, kernel])
            best = min(timings, key=lambda provider: timings[provider].median_us)
            print(
                f"{name}: {len(timings)} arms, {chosen} {timings['tileon'].median_us:.2f} us, "
                f"best {best.removeprefix('tileon:')} {timings[best].median_us:.2f} us",
                flush=True,
            )
    if arguments.csv:
        print(f"figures: {portable_path(arguments.csv)}")
        _report_choice(arguments.csv)
    if failed:
        print(f"{failed} of {len(cases)} cases failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
