"""The engine of the commands that time products: cases with their providers in, printed lines and a CSV out.

The CSV's columns are op,dtype,layout,m,n,k,epilogue,provider,median_us,tflops, and what a command has besides; the rate
counts the product's operations alone. How it is timed: timing.py; who the providers are: peers/providers.py.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.common.cases import COLUMNS, Case, Operands, Work, make_operands
from benchmarks.common.command import command_line, finish, for_each, parse_shapes, some_of
from benchmarks.common.result_file import CsvWriter
from benchmarks.common.timing import Arm, Timing, clock_words, time_arms
from benchmarks.measure.peers.providers import NotOffered, arm, config_arms
from benchmarks.report.plot import draw_if_possible

_SETUP_SECONDS = 0.1  # of a case besides warming and timing: operands and first calls, but for compilation
_ROW_ROUNDS = 60  # at most, where rows of the tile table are timed: there are dozens of them

MakeArm = Callable[[str, Case, Operands], Arm]


def product_parser(doc: str | None, providers: Sequence[str], default: str) -> argparse.ArgumentParser:
    """With the options of every command whose cases are chosen: matmul.py and block_scaled_matmul.py."""
    parser = command_line(doc, seconds=0.5, warmup=1.0)
    parser.add_argument("--shapes", type=parse_shapes, help="MxNxK[,MxNxK...]: measure these")
    some_of(parser, "--providers", providers, f"{default}; of a preset each case's own", None)
    parser.add_argument("--dry-run", action="store_true", help="list the cases and about what they cost, run nothing")
    parser.add_argument("--plot", type=Path, help="draw the figures here (needs --csv and matplotlib)")
    return parser


def list_work(work: Sequence[Work], arguments: argparse.Namespace) -> None:
    """What --dry-run prints."""
    seconds = len(work) * (arguments.seconds + arguments.warmup_seconds + _SETUP_SECONDS)
    print(f"{len(work)} cases, about {seconds:.0f} s on a GPU, but for what has to be compiled")
    for item in work:
        print(f"{item.case!s:<29} {', '.join(item.providers or ())}")


def _time(
    item: Work, arguments: argparse.Namespace, make_arm: MakeArm, rows: str | None
) -> tuple[dict[str, Timing], list[str], str]:
    """Timings by provider, why the others are missing, and the kernel that the op chose; operands and graphs are gone
    when it returns. NotOffered where no provider computes the case."""
    case, missing, keep = item.case, [], ["tileon"]
    arms: dict[str, Arm] = {}
    torch.set_float32_matmul_precision("high" if case.dtype == "tf32" else "highest")
    operands = make_operands(case, arguments.device)
    for provider in item.providers or ():
        try:
            arms[provider] = make_arm(provider, case, operands)
        except NotOffered as error:
            missing.append(f"{provider}: {error}")
    if not arms:
        raise NotOffered("; ".join(missing))
    limits: dict[str, Any] = {"seconds": arguments.seconds, "warmup_seconds": arguments.warmup_seconds}
    if rows is not None:
        arms["tileon"].run()
        keep.append(f"tileon:{torch.ops.tileon._last_kernel()}")
        found = config_arms(case, operands).items()
        arms |= {name: row for name, row in found if re.search(rows, name.removeprefix("tileon:"))}
        limits |= {"max_rounds": _ROW_ROUNDS, "hopeless": arguments.hopeless, "keep": keep}
    return time_arms(arms, arguments.device, **limits), missing, keep[-1].removeprefix("tileon:")


def measure(
    work: Sequence[Work],
    arguments: argparse.Namespace,
    words: str,
    *,
    columns: Sequence[str] = (),
    head: Mapping[str, str] | None = None,
    make_arm: MakeArm = arm,
    rows: str | None = None,
) -> tuple[int, list[dict[str, str]]]:
    """Measures, prints and writes all cases, and draws what was asked for; returns how many failed, and the rows.
    `words` say on which data; `columns` stand behind those that every file has: fields of a case, and with `rows`
    `kernel`, what ran. `rows` is a regular expression: these rows of the tile table are timed too, as `tileon:<row>`,
    but for those that take more than `arguments.hopeless` times the best one's time in a first look."""
    timing = (
        f"{clock_words(arguments.device)}, interleaved arms, median of about {arguments.seconds:g} s a case, {words}"
    )
    columns = (*COLUMNS, *columns)
    said: set[str] = set()  # why a provider is missing, once

    def one(item: Work) -> list[str]:
        case, lines = item.case, []
        timings, missing, chosen = _time(item, arguments, make_arm, rows)
        quickest = min(timings, key=lambda provider: timings[provider].median_us)
        for provider, timing in timings.items():
            us, kernel = timing.median_us, chosen if provider == "tileon" else provider.removeprefix("tileon:")
            extra = [kernel if name == "kernel" else getattr(case, name) for name in columns[len(COLUMNS) :]]
            writer.write([*case.cells(provider, us), *extra])
            line = f"{case!s:<29} {provider:<17} {us * 1e-3:10.4f} ms {case.tflops(us):10.4g} TFLOP/s"
            over = f", {timings['torch'].median_us / us:.2f} times torch's rate" if "torch" in timings else ""
            if rows is None or provider in ("tileon", quickest):
                lines.append(f"{line}   spread {100 * timing.spread:.1f} %{over}")
        new = [reason for reason in missing if reason not in said]
        said.update(new)
        return lines + [f"{case}  {reason}" for reason in new]

    writer = CsvWriter(arguments.csv, columns, {"timing": timing, **(head or {})})
    with torch.inference_mode():
        failed = for_each(work, lambda item: str(item.case), one)
    finish(timing, arguments.csv)
    if getattr(arguments, "plot", None):
        draw_if_possible(arguments.csv, arguments.plot)
    return failed, [dict(zip(columns, row, strict=True)) for row in writer.written[1:]]


def run(
    parser: argparse.ArgumentParser,
    work_of: Callable[[argparse.Namespace], list[Work]],
    words_of: Callable[[argparse.Namespace, list[Work]], str],
    *,
    is_right: Callable[[argparse.Namespace, list[Work]], bool] = lambda *_: True,
    columns: Sequence[str] = (),
) -> int:
    """A command of `product_parser`: its exit status. `work_of` gives the cases with their providers, and says by a
    ValueError what is wrong with the arguments; `is_right` looks at results before anything is measured."""
    arguments = parser.parse_args()
    rows = getattr(arguments, "rows", None)
    if arguments.plot and not arguments.csv:
        parser.error("--plot draws what --csv writes: give both")
    try:
        work = work_of(arguments)
    except ValueError as error:
        parser.error(str(error))
    if arguments.dry_run:
        list_work(work, arguments)
        return 0
    with torch.inference_mode():
        if not is_right(arguments, work):
            return 1
    if not work:
        return 0
    columns = (*columns, *(["kernel"] if rows is not None else []))
    failed, _ = measure(work, arguments, words_of(arguments, work), columns=columns, rows=rows)
    return 1 if failed else 0
