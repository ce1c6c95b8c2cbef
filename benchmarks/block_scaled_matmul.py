"""Checks and measures `torch.ops.tileon.block_scaled_matmul`: `python benchmarks/block_scaled_matmul.py --help`.

    python benchmarks/block_scaled_matmul.py --format nvfp4 -K 512                # only checks the format's results
    python benchmarks/block_scaled_matmul.py --format mxfp4 --K_range 512 8192 --K_step 512 --bench
    python benchmarks/block_scaled_matmul.py --format mxfp8,mixed --shapes 16x8192x8192 --csv out.csv --plot out.png
    python benchmarks/block_scaled_matmul.py --preset portable      # the set of results/<gpu>/block_scaled_portable.csv

Every format in question is checked first, against a float32 product of the dequantized operands, and nothing is
measured where one is wrong. --bench then goes through K at fixed m and n; --shapes and --preset measure without it.

The CSV's columns are matmul.py's, op,dtype,layout,m,n,k,epilogue,provider,median_us,tflops, with the format as dtype. b
holds n rows of k: layout NT. How it is timed: timing.py; who the providers are: block_scaled_providers.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from block_scaled_problems import FORMATS, BlockScaledCase, dequantized, make_operands
from block_scaled_providers import PROVIDERS, block_scaled_arm, tileon_call
from matmul import COLUMNS
from plot import draw_if_possible
from presets import Shape, parse_shapes
from progress import Progress
from providers import NotOffered
from result_file import CsvWriter, portable_path
from timing import Arm, Timing, clock_words, time_arms

TOLERANCE = 1e-3  # absolute and relative: the one that Triton's tutorial uses
_GPU_SIZE, _CPU_SIZE = 8192, 128  # m and n of a sweep over K; m, n and k of the check

_PORTABLE: tuple[Shape, ...] = ((8192,) * 3, (4096,) * 3, (2048,) * 3, (8192, 8192, 512), (8192, 8192, 2048))
_GPU_DEMO: tuple[Shape, ...] = ((1024,) * 3, (2048,) * 3, (4096,) * 3, (8192,) * 3)
_CPU_DEMO: tuple[Shape, ...] = ((32,) * 3, (64,) * 3, (128,) * 3)


def _fixed_size(device: torch.device) -> int:
    return _GPU_SIZE if device.type == "cuda" else _CPU_SIZE


def _names(text: str) -> list[str]:
    return text.split(",")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_argument_group("what is checked and measured")
    what.add_argument(
        "--format", type=_names, help=f"some of {','.join(FORMATS)}, or all (default nvfp4; of a preset all)"
    )
    what.add_argument("-K", type=int, default=512, help="a single K (default 512)")
    what.add_argument("--K_range", type=int, nargs=2, metavar=("LO", "HI"), help="instead: K from LO to HI inclusive")
    what.add_argument("--K_step", type=int, default=512, metavar="S", help="... in steps of S (default 512)")
    what.add_argument(
        "--bench", action="store_true", help=f"measure at these K, m = n = {_GPU_SIZE} ({_CPU_SIZE} on a CPU)"
    )
    what.add_argument("--shapes", type=parse_shapes, help="MxNxK[,MxNxK...]: measure these instead")
    what.add_argument("--preset", choices=("demo", "portable"), help="measure a fixed set of shapes, in every format")
    what.add_argument(
        "--providers", type=_names, help=f"some of {','.join(PROVIDERS)} (default all; of the demo tileon)"
    )
    what.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    how = parser.add_argument_group("how")
    how.add_argument("--seconds", type=float, default=0.5, help="timed part of one case, all providers (default 0.5)")
    how.add_argument("--warmup-seconds", type=float, default=1.0, help="cap on warming for one case (default 1)")
    how.add_argument("--csv", type=Path, help="write the figures here")
    how.add_argument("--plot", type=Path, help="draw them here (needs --csv and matplotlib)")
    return parser


def _formats(arguments: argparse.Namespace) -> list[str]:
    if arguments.format is None:
        return list(FORMATS) if arguments.preset else ["nvfp4"]
    return list(FORMATS) if arguments.format == ["all"] else arguments.format


def _shapes(arguments: argparse.Namespace, device: torch.device) -> list[Shape]:
    """What is to be measured; nothing where only a check was asked for.

    Raises:
        ValueError: a range of K that holds nothing.
    """
    if arguments.preset == "portable":
        return list(_PORTABLE)
    if arguments.preset == "demo":
        return list(_GPU_DEMO if device.type == "cuda" else _CPU_DEMO)
    if arguments.shapes:
        return arguments.shapes
    first, last = arguments.K_range or (arguments.K, arguments.K)
    if first > last or arguments.K_step < 1:
        raise ValueError(f"--K_range {first} {last} --K_step {arguments.K_step} holds no K")
    size = _fixed_size(device)
    shapes = [(size, size, k) for k in range(first, last + 1, arguments.K_step)]
    return shapes if arguments.bench else []


def check(name: str, device: torch.device) -> float:
    """The largest difference between our product in this format and the float32 product of the dequantized operands.

    Raises:
        AssertionError: beyond TOLERANCE.
    """
    size = _fixed_size(device)
    case = BlockScaledCase(name, size, size, size)
    operands = make_operands(case, device)
    ours = tileon_call(case, operands)().to(torch.float32)
    a = dequantized(operands.a, operands.scale_a, torch.float32)
    b = dequantized(operands.b, operands.scale_b, torch.float32)
    expected = torch.matmul(a, b.t())
    torch.testing.assert_close(ours, expected, atol=TOLERANCE, rtol=TOLERANCE)
    return float((ours - expected).abs().max())


def _all_right(formats: list[str], device: torch.device) -> bool:
    torch.set_float32_matmul_precision("highest")  # the reference is no TF32 product
    size, good = _fixed_size(device), True
    for name in formats:
        try:
            difference = check(name, device)
        except AssertionError as error:
            good = False
            print(f"{name} {size}x{size}x{size}: WRONG\n{error}", flush=True)
        else:
            said = f"agrees with dequantization and a float32 product (largest difference {difference:.2g})"
            print(f"{name} {size}x{size}x{size}: {said}", flush=True)
    return good


def _arms(case: BlockScaledCase, device: torch.device, providers: list[str]) -> tuple[dict[str, Arm], list[str]]:
    """The arms by provider, and why the others are missing."""
    operands = make_operands(case, device)
    arms: dict[str, Arm] = {}
    missing = []
    for provider in providers:
        try:
            arms[provider] = block_scaled_arm(provider, case, operands)
        except NotOffered as error:
            missing.append(f"{case}  {provider}: {error}")
    return arms, missing


def _report(case: BlockScaledCase, timings: dict[str, Timing], writer: CsvWriter) -> None:
    for provider, timing in timings.items():
        rate = case.tflops(timing.median_us)
        shape = [str(case.m), str(case.n), str(case.k)]
        figures = [f"{timing.median_us:.2f}", f"{rate:.4g}"]
        writer.write(["block_scaled_matmul", case.format, "NT", *shape, "none", provider, *figures])
        milliseconds = timing.median_us * 1e-3
        line = f"{case!s:<24} {provider:<17} {milliseconds:10.4f} ms {rate:10.4g} TFLOP/s"
        print(f"{line}   spread {100 * timing.spread:.1f} %", flush=True)


def _measure(cases: list[BlockScaledCase], device: torch.device, arguments: argparse.Namespace) -> int:
    """Measures and reports all cases; returns how many failed."""
    words = f"{clock_words(device)}, interleaved arms, median of about {arguments.seconds:g} s a case, "
    words += "random elements, scales uniform in (0, 1)"
    providers = arguments.providers or (["tileon"] if arguments.preset == "demo" else list(PROVIDERS))
    progress, failed = Progress(len(cases)), 0
    with torch.inference_mode(), CsvWriter(arguments.csv, COLUMNS, {"timing": words}) as writer:
        for done, case in enumerate(cases):
            progress.show(done, str(case))
            try:
                arms, missing = _arms(case, device, providers)
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
        progress.show(len(cases), "done")
        progress.clear()
    print(f"\n{words}")
    if failed:
        print(f"{failed} of {len(cases)} cases failed")
    return failed


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
        cases = [BlockScaledCase(name, *shape) for name in formats for shape in _shapes(arguments, device)]
    except ValueError as error:
        parser.error(str(error))
    if arguments.csv and not cases:
        parser.error("--csv writes what is measured: give --bench, --shapes or --preset too")

    with torch.inference_mode():
        if not _all_right(formats, device):
            return 1
    if not cases:
        return 0
    failed = _measure(cases, device, arguments)
    if arguments.csv:
        print(f"figures: {portable_path(arguments.csv)}")
        if arguments.plot:
            draw_if_possible(arguments.csv, arguments.plot)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
