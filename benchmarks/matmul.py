"""Measures `torch.ops.tileon.matmul` against its peers: `python benchmarks/matmul.py --help`.

    python benchmarks/matmul.py --sizes 256,1024:4096:512 --dtype bfloat16 --layout NN,NT --csv out.csv --plot out.png
    python benchmarks/matmul.py --shapes 1x4096x4096 --activation bias+leaky_relu
    python benchmarks/matmul.py --sizes 2048 --config all            # every row of the tile table
    python benchmarks/matmul.py --preset portable                    # the set of results/<gpu>/portable.csv

The CSV's columns are op,dtype,layout,m,n,k,epilogue,provider,median_us,tflops; the rate counts the product's
operations alone. How it is timed: timing.py.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from plot import draw_if_possible
from problems import DTYPES, EPILOGUES, LAYOUTS, Case, make_operands
from providers import PROVIDERS, NotOffered, arm, config_arms
from result_file import CsvWriter, aligned, portable_path
from timing import Arm, Timing, time_arms

COLUMNS = ("op", "dtype", "layout", "m", "n", "k", "epilogue", "provider", "median_us", "tflops")

SWEEP_SHAPES = (
    *((size, size, size) for size in (128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)),
    *((rows, 4096, 4096) for rows in (1, 16, 64, 256)),
    *((8192, 1024, 1024), (4096, 64, 4096), (4096, 4096, 256), (256, 256, 16384), (1000, 1500, 2000)),
)

# Above this size a launch takes far longer than its gap, and a graph says nothing that events do not.
GRAPH_LIMIT = 1024


def squares(sizes: list[int], dtypes: list[str], layouts: list[str], epilogues: list[str]) -> list[Case]:
    """Every combination, m = n = k."""
    return [
        Case(dtype, layout, size, size, size, epilogue)
        for dtype in dtypes
        for layout in layouts
        for epilogue in epilogues
        for size in sizes
    ]


def preset_cases(name: str, device: torch.device) -> list[Case]:
    """The cases of a preset.

    demo: a few squares, as large as the machine does quickly.
    portable: squares of every dtype, and every epilogue and layout at 4096.
    sweep: what a cost model is fitted to, with `--config all` (fit_portable.py): squares, few rows, few columns, and
        short and long k, in every dtype, NN, and for the tensor cores' 16-bit types NT as well.
    squares: 256 to 4096 in steps of 128 and 8192, float16 and bfloat16, NN and NT.
    """
    if name == "demo" and device.type != "cuda":
        return squares([256, 512, 1024], ["float32"], ["NN"], ["none", "bias+leaky_relu"])
    if name == "demo":
        return squares([512, 1024, 2048, 4096], ["float16", "float32"], ["NN"], ["none"]) + squares(
            [4096], ["float16"], ["NN"], ["bias+leaky_relu"]
        )
    dtypes = ["bfloat16", "float16", "float32", "tf32", "float64"]
    if name == "sweep":
        return [
            Case(dtype, layout, m, n, k)
            for dtype in dtypes
            for layout in (["NN", "NT"] if dtype in ("bfloat16", "float16") else ["NN"])
            for m, n, k in SWEEP_SHAPES
        ]
    if name == "portable":
        return (
            squares([256, 512, 1024, 2048, 4096], dtypes, ["NN"], ["none"])
            + squares([4096], dtypes, ["NN"], ["leaky_relu", "bias", "bias+leaky_relu"])
            + squares([4096], ["bfloat16"], ["NT", "TN", "TT"], ["none"])
        )
    if name == "squares":
        return squares([*range(256, 4097, 128), 8192], ["float16", "bfloat16"], ["NN", "NT"], ["none"])
    raise ValueError(f"unknown preset {name!r}")


def parse_sizes(text: str) -> list[int]:
    """`256,512` or `START:STOP:STEP`, the stop included, in any mixture."""
    sizes: list[int] = []
    for part in text.split(","):
        numbers = [int(number) for number in part.split(":")]
        if len(numbers) == 3:
            sizes.extend(range(numbers[0], numbers[1] + 1, numbers[2]))
        elif len(numbers) == 1:
            sizes.extend(numbers)
        else:
            raise argparse.ArgumentTypeError(f"{part!r} is neither a size nor START:STOP:STEP")
    return sizes


def parse_shapes(text: str) -> list[tuple[int, int, int]]:
    """`MxNxK`, several with commas."""
    shapes = []
    for part in text.split(","):
        numbers = part.split("x")
        if len(numbers) != 3:
            raise argparse.ArgumentTypeError(f"{part!r} is not MxNxK")
        shapes.append((int(numbers[0]), int(numbers[1]), int(numbers[2])))
    return shapes


def _names(text: str) -> list[str]:
    return text.split(",")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_argument_group("what is measured")
    what.add_argument("--preset", choices=["demo", "portable", "sweep", "squares"], help="a fixed set of cases")
    what.add_argument("--sizes", type=parse_sizes, help="m = n = k: 256,512 or START:STOP:STEP (default 512,1024,2048)")
    what.add_argument("--shapes", type=parse_shapes, help="MxNxK[,MxNxK...], instead of or beside --sizes")
    what.add_argument("--dtype", type=_names, default=["float32"], help=f"some of {','.join(DTYPES)}, or all")
    what.add_argument("--layout", type=_names, default=["NN"], help=f"some of {','.join(LAYOUTS)}, or all")
    what.add_argument(
        "--activation",
        "--epilogue",
        type=_names,
        default=["none"],
        help=f"bias, an activation or bias+<activation>, several with commas; all is {','.join(EPILOGUES)}",
    )
    what.add_argument(
        "--providers",
        type=_names,
        help=f"some of {','.join(PROVIDERS)} (default: tileon, torch and triton, and graphs up to {GRAPH_LIMIT})",
    )
    what.add_argument("--config", help="rows of the tile table as well: all, or indices with commas")
    what.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    how = parser.add_argument_group("how")
    how.add_argument("--seconds", type=float, default=0.5, help="timed part of one case, all providers (default 0.5)")
    how.add_argument("--warmup-seconds", type=float, default=1.0, help="cap on warming for one case (default 1)")
    how.add_argument("--csv", type=Path, help="write the figures here")
    how.add_argument("--plot", type=Path, help="draw them here (needs --csv and matplotlib)")
    return parser


def _cases(arguments: argparse.Namespace, device: torch.device) -> list[Case]:
    if arguments.preset:
        return preset_cases(arguments.preset, device)
    dtypes = list(DTYPES) if arguments.dtype == ["all"] else arguments.dtype
    layouts = list(LAYOUTS) if arguments.layout == ["all"] else arguments.layout
    epilogues = list(EPILOGUES) if arguments.activation == ["all"] else arguments.activation
    sizes = arguments.sizes or ([] if arguments.shapes else [512, 1024, 2048])
    return squares(sizes, dtypes, layouts, epilogues) + [
        Case(dtype, layout, m, n, k, epilogue)
        for dtype in dtypes
        for layout in layouts
        for epilogue in epilogues
        for m, n, k in arguments.shapes or []
    ]


def _arms(case: Case, device: torch.device, providers: list[str] | None, config: str | None) -> dict[str, Arm]:
    operands = make_operands(case, device)
    small = max(case.m, case.n, case.k) <= GRAPH_LIMIT
    wanted = providers or ["tileon", "torch", "triton", *(["tileon_graph", "torch_graph"] if small else [])]
    arms: dict[str, Arm] = {}
    for provider in wanted:
        try:
            arms[provider] = arm(provider, case, operands)
        except NotOffered:
            continue
    if config is not None:
        arms |= config_arms(case, operands, None if config == "all" else [int(index) for index in config.split(",")])
    return arms


def _report(case: Case, timings: dict[str, Timing], writer: CsvWriter, table: list[list[str]]) -> None:
    for provider, timing in timings.items():
        rate = case.tflops(timing.median_us)
        shape = [str(case.m), str(case.n), str(case.k)]
        figures = [f"{timing.median_us:.2f}", f"{rate:.4g}"]
        writer.write(["matmul", case.dtype, case.layout, *shape, case.epilogue, provider, *figures])
        against = f"{timings['torch'].median_us / timing.median_us:.2f}" if "torch" in timings else ""
        row = [case.dtype, case.layout, "x".join(shape), case.epilogue, provider, *figures, against]
        table.append([*row, f"{100 * timing.spread:.1f} %"])


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.plot and not arguments.csv:
        parser.error("--plot draws what --csv writes: give both")
    device = torch.device(arguments.device)
    unknown = set(arguments.providers or []) - set(PROVIDERS)
    if unknown:
        parser.error(f"unknown provider {', '.join(sorted(unknown))}; there are {', '.join(PROVIDERS)}")
    try:
        cases = _cases(arguments, device)
    except ValueError as error:
        parser.error(str(error))

    clock = "CUDA events, cold L2" if device.type == "cuda" else "perf_counter, warm caches"
    timing_line = f"{clock}, interleaved arms, median of about {arguments.seconds:g} s a case, normal random data"
    head = ["dtype", "layout", "m x n x k", "epilogue", "provider", "median us", "TFLOP/s", "against torch", "spread"]
    table, failed = [head], 0
    with torch.inference_mode(), CsvWriter(arguments.csv, COLUMNS, {"timing": timing_line}) as writer:
        for done, case in enumerate(cases, start=1):
            print(
                f"[{done}/{len(cases)}] {case.dtype} {case.layout} {case.m}x{case.n}x{case.k} {case.epilogue}",
                flush=True,
            )
            torch.set_float32_matmul_precision("high" if case.allow_tf32 else "highest")
            try:
                arms = _arms(case, device, arguments.providers, arguments.config)
                limits = {"seconds": arguments.seconds, "warmup_seconds": arguments.warmup_seconds}
                _report(case, time_arms(arms, device, **limits), writer, table)
            except RuntimeError as error:  # the other cases are still worth measuring
                failed += 1
                print(f"  failed: {error}", flush=True)
    print(f"\n{aligned(table)}\n\n{timing_line}")
    if arguments.csv:
        print(f"figures: {portable_path(arguments.csv)}")
        if arguments.plot:
            draw_if_possible(arguments.csv, arguments.plot)
    if failed:
        print(f"{failed} of {len(cases)} cases failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
