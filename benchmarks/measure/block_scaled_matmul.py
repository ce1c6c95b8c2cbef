"""Checks and measures `torch.ops.tileon.block_scaled_matmul`: `python benchmarks/block_scaled_matmul.py --help`.

    python benchmarks/block_scaled_matmul.py --format nvfp4 -K 512                # only checks the format's results
    python benchmarks/block_scaled_matmul.py --format mxfp4 --K_range 512 8192 --K_step 512 --bench
    python benchmarks/block_scaled_matmul.py --format mxfp8,mixed --shapes 16x8192x8192 --csv out.csv --plot out.png
    python benchmarks/block_scaled_matmul.py --preset hopper        # the set of results/<gpu>/block_scaled_matmul.csv
    python benchmarks/block_scaled_matmul.py --preset portable      # the set of results/<gpu>/block_scaled_portable.csv

Every format and kind of data in question is checked first, against a float32 product of the dequantized operands, and
nothing is measured where one is wrong. --bench then goes through K at fixed m and n; --shapes and --preset measure
without it.

The CSV's columns are matmul.py's, op,dtype,layout,m,n,k,epilogue,provider,median_us,tflops, with the format as dtype,
and data, the kind of data (block_scaled_cases.py). b holds n rows of k: layout NT. How it is timed: timing.py; who
the providers are: peers/block_scaled.py; the fixed sets: block_scaled_presets.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from benchmarks.common.block_scaled_cases import DATA, FORMATS, BlockScaledCase, dequantized, make_operands
from benchmarks.common.cases import Shape
from benchmarks.common.command import parse_names, parse_shapes
from benchmarks.common.result_file import CsvWriter, portable_path
from benchmarks.common.timing import Arm, Timing, clock_words, time_arms
from benchmarks.measure.matmul import COLUMNS as MATMUL_COLUMNS
from benchmarks.measure.peers.block_scaled import PROVIDERS, block_scaled_arm, tileon_call
from benchmarks.measure.peers.dense import NotOffered
from benchmarks.report.plot import draw_if_possible
from benchmarks.subjects.block_scaled_presets import (
    PEERS,
    PRESETS,
    BlockScaledWork,
    expected_seconds,
    preset_work,
    works,
)
from tileon_ops.tune.progress import Progress

COLUMNS = (*MATMUL_COLUMNS, "data")
TOLERANCE = 1e-3  # absolute and relative: the one that Triton's tutorial uses
_GPU_SIZE, _CPU_SIZE = 8192, 128  # m and n of a sweep over K; m, n and k of the check
_DATA_WORDS = {
    "normal": "normal random data, quantized",
    "tutorial": "random elements, scales uniform in (0, 1)",
}


def _fixed_size(device: torch.device) -> int:
    return _GPU_SIZE if device.type == "cuda" else _CPU_SIZE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_argument_group("what is checked and measured")
    what.add_argument(
        "--format", type=parse_names, help=f"some of {','.join(FORMATS)}, or all (default nvfp4; of a preset all)"
    )
    what.add_argument("-K", type=int, default=512, help="a single K (default 512)")
    what.add_argument("--K_range", type=int, nargs=2, metavar=("LO", "HI"), help="instead: K from LO to HI inclusive")
    what.add_argument("--K_step", type=int, default=512, metavar="S", help="... in steps of S (default 512)")
    what.add_argument(
        "--bench", action="store_true", help=f"measure at these K, m = n = {_GPU_SIZE} ({_CPU_SIZE} on a CPU)"
    )
    what.add_argument("--shapes", type=parse_shapes, help="MxNxK[,MxNxK...]: measure these instead")
    what.add_argument("--preset", choices=PRESETS, help="measure a fixed set of cases, of these formats alone")
    what.add_argument("--data", choices=DATA, default="tutorial", help="without a preset (default tutorial)")
    what.add_argument(
        "--providers",
        type=parse_names,
        help=f"some of {','.join(PROVIDERS)} (default {','.join(PEERS)}; of a preset each case's own)",
    )
    what.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    how = parser.add_argument_group("how")
    how.add_argument("--seconds", type=float, default=0.5, help="timed part of one case, all providers (default 0.5)")
    how.add_argument("--warmup-seconds", type=float, default=1.0, help="cap on warming for one case (default 1)")
    how.add_argument("--dry-run", action="store_true", help="list the cases and about what they cost, run nothing")
    how.add_argument("--csv", type=Path, help="write the figures here")
    how.add_argument("--plot", type=Path, help="draw them here (needs --csv and matplotlib)")
    return parser


def _formats(arguments: argparse.Namespace) -> list[str]:
    if arguments.format is None:
        return list(FORMATS) if arguments.preset else ["nvfp4"]
    return list(FORMATS) if arguments.format == ["all"] else arguments.format


def _shapes(arguments: argparse.Namespace, device: torch.device) -> list[Shape]:
    """What is to be measured without a preset; nothing where only a check was asked for.

    Raises:
        ValueError: a range of K that holds nothing.
    """
    if arguments.shapes:
        return arguments.shapes
    first, last = arguments.K_range or (arguments.K, arguments.K)
    if first > last or arguments.K_step < 1:
        raise ValueError(f"--K_range {first} {last} --K_step {arguments.K_step} holds no K")
    size = _fixed_size(device)
    shapes = [(size, size, k) for k in range(first, last + 1, arguments.K_step)]
    return shapes if arguments.bench else []


def _work(arguments: argparse.Namespace, device: torch.device, formats: list[str]) -> list[BlockScaledWork]:
    """The cases with their providers.

    Raises:
        ValueError: a range of K that holds nothing, or a size that a format does not have.
    """
    if arguments.preset:
        work = [item for item in preset_work(arguments.preset, device) if item.case.format in formats]
    else:
        work = works(formats, _shapes(arguments, device), arguments.data)
    if arguments.providers:
        work = [BlockScaledWork(item.case, tuple(arguments.providers)) for item in work]
    return work


def check(case: BlockScaledCase, device: torch.device) -> float:
    """The largest difference between our product and the float32 product of the dequantized operands.

    Raises:
        AssertionError: beyond TOLERANCE.
    """
    operands = make_operands(case, device)
    ours = tileon_call(case, operands)().to(torch.float32)
    a = dequantized(operands.a, operands.scale_a, torch.float32)
    b = dequantized(operands.b, operands.scale_b, torch.float32)
    expected = torch.matmul(a, b.t())
    torch.testing.assert_close(ours, expected, atol=TOLERANCE, rtol=TOLERANCE)
    return float((ours - expected).abs().max())


def _all_right(formats: list[str], kinds: list[str], device: torch.device) -> bool:
    torch.set_float32_matmul_precision("highest")  # the reference is no TF32 product
    size, good = _fixed_size(device), True
    for case in (BlockScaledCase(name, size, size, size, data) for name in formats for data in kinds):
        try:
            difference = check(case, device)
        except AssertionError as error:
            good = False
            print(f"{case}: WRONG\n{error}", flush=True)
        else:
            said = f"agrees with dequantization and a float32 product (largest difference {difference:.2g})"
            print(f"{case}: {said}", flush=True)
    return good


def _arms(work: BlockScaledWork, device: torch.device) -> tuple[dict[str, Arm], list[str]]:
    """The arms by provider, and why the others are missing."""
    operands = make_operands(work.case, device)
    arms: dict[str, Arm] = {}
    missing = []
    for provider in work.providers:
        try:
            arms[provider] = block_scaled_arm(provider, work.case, operands)
        except NotOffered as error:
            missing.append(f"{work.case}  {provider}: {error}")
    return arms, missing


def _report(case: BlockScaledCase, timings: dict[str, Timing], writer: CsvWriter) -> None:
    for provider, timing in timings.items():
        rate = case.tflops(timing.median_us)
        shape = [str(case.m), str(case.n), str(case.k)]
        figures = [f"{timing.median_us:.2f}", f"{rate:.4g}"]
        writer.write(["block_scaled_matmul", case.format, "NT", *shape, "none", provider, *figures, case.data])
        milliseconds = timing.median_us * 1e-3
        line = f"{case!s:<29} {provider:<17} {milliseconds:10.4f} ms {rate:10.4g} TFLOP/s"
        print(f"{line}   spread {100 * timing.spread:.1f} %", flush=True)


def _kinds(work: list[BlockScaledWork], arguments: argparse.Namespace) -> list[str]:
    """The kinds of data, in the order of their cases."""
    return list(dict.fromkeys(item.case.data for item in work)) or [arguments.data]


def _timing_words(work: list[BlockScaledWork], device: torch.device, arguments: argparse.Namespace) -> str:
    """How it was timed and on which data, for the head of the file."""
    kinds = _kinds(work, arguments)
    data = [f"{kind}: {_DATA_WORDS[kind]}" for kind in kinds] if len(kinds) > 1 else [_DATA_WORDS[kinds[0]]]
    words = f"{clock_words(device)}, interleaved arms, median of about {arguments.seconds:g} s a case, "
    graphs = device.type == "cuda" and any("_graph" in name for item in work for name in item.providers)
    return words + "; ".join(data) + ("; _graph: CUDA-graph replay over rotated operands, cold L2" if graphs else "")


def _measure(work: list[BlockScaledWork], device: torch.device, arguments: argparse.Namespace) -> int:
    """Measures and reports all cases; returns how many failed."""
    words = _timing_words(work, device, arguments)
    progress, failed = Progress(len(work)), 0
    with torch.inference_mode(), CsvWriter(arguments.csv, COLUMNS, {"timing": words}) as writer:
        for done, item in enumerate(work):
            case = item.case
            progress.show(done, str(case))
            try:
                arms, missing = _arms(item, device)
                timings = time_arms(arms, device, seconds=arguments.seconds, warmup_seconds=arguments.warmup_seconds)
                del arms  # with the operands, before the next case makes its own
            except RuntimeError as error:  # the other cases are still worth measuring
                failed += 1
                progress.clear()
                print(f"{case}  failed: {error}", flush=True)
                continue
            progress.clear()
            _report(case, timings, writer)
            for line in missing:
                print(line, flush=True)
        progress.show(len(work), "done")
        progress.clear()
    print(f"\n{words}")
    if failed:
        print(f"{failed} of {len(work)} cases failed")
    return failed


def _list(work: list[BlockScaledWork], arguments: argparse.Namespace) -> None:
    gpu, compilation = expected_seconds(work, arguments.seconds + arguments.warmup_seconds)
    print(f"{len(work)} cases, about {gpu:.0f} s on a GPU, and {compilation:.0f} s of compiling the peers before them")
    for item in work:
        print(f"{item.case!s:<29} {', '.join(item.providers)}")


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    unknown = set(arguments.providers or []) - set(PROVIDERS)
    if unknown:
        parser.error(f"unknown provider {', '.join(sorted(unknown))}; there are {', '.join(PROVIDERS)}")
    if arguments.plot and not arguments.csv:
        parser.error("--plot draws what --csv writes: give both")
    formats = _formats(arguments)
    unknown = set(formats) - set(FORMATS)
    if unknown:
        parser.error(f"unknown format {', '.join(sorted(unknown))}; there are {', '.join(FORMATS)}")
    try:
        work = _work(arguments, device, formats)
    except ValueError as error:
        parser.error(str(error))
    if arguments.csv and not work:
        parser.error("--csv writes what is measured: give --bench, --shapes or --preset too")

    if arguments.dry_run:
        _list(work, arguments)
        return 0
    with torch.inference_mode():
        if not _all_right(formats, _kinds(work, arguments), device):
            return 1
    if not work:
        return 0
    failed = _measure(work, device, arguments)
    if arguments.csv:
        print(f"figures: {portable_path(arguments.csv)}")
        if arguments.plot:
            draw_if_possible(arguments.csv, arguments.plot)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
