"""What matmul.py and block_scaled_matmul.py share: their options, and how cases are measured, printed and written."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from benchmarks.common.cases import Case, Work, make_operands
from benchmarks.common.command import finish, for_each, parse_shapes, some_of
from benchmarks.common.result_file import CsvWriter
from benchmarks.common.timing import Arm, time_arms
from benchmarks.measure.peers.providers import NotOffered, arm, config_arms
from benchmarks.report.plot import draw_if_possible

# Seconds of a case besides its timing: operands and first calls, and what a provider takes before it can be timed:
# Triton's trying of its configurations, a call of torch.compile, the capture of a graph over operand sets of its own.
_SETUP = {True: 0.2, False: 0.1}  # whether it is block-scaled
_PROVIDER_SETUP = {"triton": 0.5, "torch_dequantize": 0.5}
_GRAPH_SETUP = 0.3
_COMPILATION = {"triton": 10.0, "torch_dequantize": 6.0}  # of block-scaled peers, by the host, once for each format


def add_options(parser: argparse.ArgumentParser, providers: Sequence[str], default: str) -> None:
    """The options of both commands, beside those of `command_line`."""
    parser.add_argument("--shapes", type=parse_shapes, help="MxNxK[,MxNxK...]: measure these")
    some_of(parser, "--providers", providers, f"{default}; of a preset each case's own", None)
    parser.add_argument("--dry-run", action="store_true", help="list the cases and about what they cost, run nothing")
    parser.add_argument("--plot", type=Path, help="draw the figures here (needs --csv and matplotlib)")


def refuse_plot_alone(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if arguments.plot and not arguments.csv:
        parser.error("--plot draws what --csv writes: give both")


def expected_seconds(work: Sequence[Work], seconds: float) -> tuple[float, float]:
    """About what a machine with a GPU takes for it all: with the GPU, warming in full, and compiling the peers.

    Args:
        work: what is measured; every case has its providers.
        seconds: of warming and timing one case.
    """
    gpu, compiled = 0.0, set()
    for item in work:
        case = item.case
        for name in item.providers or ():
            is_offered = case.dtype != "nvfp4" and (case.is_block_scaled or case.layout == "NN")
            if name != "triton" or is_offered:
                gpu += _GRAPH_SETUP if "_graph" in name else _PROVIDER_SETUP.get(name, 0.0)
                compiled |= {(case.dtype, name)} if case.is_block_scaled and name in _COMPILATION else set()
        gpu += seconds + _SETUP[case.is_block_scaled]
    return gpu, sum(_COMPILATION[name] for _, name in compiled)


def list_work(work: Sequence[Work], name: Callable[[Case], str], arguments: argparse.Namespace) -> None:
    """What --dry-run prints."""
    gpu, compilation = expected_seconds(work, arguments.seconds + arguments.warmup_seconds)
    print(f"{len(work)} cases, about {gpu:.0f} s on a GPU, and {compilation:.0f} s of compiling the peers before them")
    for item in work:
        print(f"{name(item.case):<29} {', '.join(item.providers or ())}")


def _arms(work: Work, device: torch.device, config: str | None) -> tuple[dict[str, Arm], list[str]]:
    """The arms by provider, and why the others are missing."""
    operands = make_operands(work.case, device)
    arms: dict[str, Arm] = {}
    missing = []
    for provider in work.providers or ():
        try:
            arms[provider] = arm(provider, work.case, operands)
        except NotOffered as error:
            missing.append(f"{provider}: {error}")
    if config is not None:
        indices = None if config == "all" else [int(index) for index in config.split(",")]
        arms |= config_arms(work.case, operands, indices)
    return arms, missing


def measure(
    work: Sequence[Work],
    device: torch.device,
    arguments: argparse.Namespace,
    *,
    name: Callable[[Case], str],
    words: str,
    columns: Sequence[str],
    cells: Callable[[Case, str, float], list[str]],
    config: str | None = None,
) -> int:
    """Measures, prints and writes all cases, and draws what was asked for; returns the exit status.

    Args:
        work: every case has its providers.
        device: where.
        arguments: of the options above.
        name: of a case.
        words: how it is timed, for the head of the file.
        columns: of the file.
        cells: a row of the file, by case, provider and microseconds.
        config: rows of the tile table that are measured too: all, or indices with commas.
    """

    def one(item: Work) -> list[str]:
        """The arms, and with them operands and graphs, are gone when it returns."""
        case = item.case
        torch.set_float32_matmul_precision("high" if case.allow_tf32 else "highest")
        arms, missing = _arms(item, device, config)
        timings = time_arms(arms, device, seconds=arguments.seconds, warmup_seconds=arguments.warmup_seconds)
        lines = []
        for provider, timing in timings.items():
            us = timing.median_us
            writer.write(cells(case, provider, us))
            line = f"{name(case):<29} {provider:<17} {us * 1e-3:10.4f} ms {case.tflops(us):10.4g} TFLOP/s"
            over = f", {timings['torch'].median_us / us:.2f} times torch's rate" if "torch" in timings else ""
            lines.append(f"{line}   spread {100 * timing.spread:.1f} %{over}")
        new = [line for line in missing if line not in said]
        said.update(new)
        return lines + [f"{name(case)}  {line}" for line in new]

    said: set[str] = set()  # why a provider is missing, once

    with torch.inference_mode(), CsvWriter(arguments.csv, columns, {"timing": words}) as writer:
        failed = for_each(work, lambda item: name(item.case), one)
    finish(words, arguments.csv)
    if arguments.plot:
        draw_if_possible(arguments.csv, arguments.plot)
    return 1 if failed else 0
