"""Measures `torch.ops.tileon.matmul` against its peers: `python benchmarks/matmul.py --help`.

    python benchmarks/matmul.py --sizes 256,1024:4096:512 --dtype bfloat16 --layout NN,NT --csv out.csv --plot out.png
    python benchmarks/matmul.py --shapes 1x4096x4096 --activation bias+leaky_relu
    python benchmarks/matmul.py --sizes 2048 --config all            # every row of the tile table
    python benchmarks/matmul.py --preset hopper                      # the set of results/<gpu>/matmul.csv
    python benchmarks/matmul.py --preset fp8                         # that of fp8.csv; a dtype is a pairing, a x b
    python benchmarks/matmul.py --preset float32                     # that of float32.csv
    python benchmarks/matmul.py --preset hopper --dtype float16 --layout TN,TT --providers tileon,torch

The CSV's columns are op,dtype,layout,m,n,k,epilogue,provider,median_us,tflops; the rate counts the product's
operations alone. How it is timed: timing.py; who the providers are: peers/dense.py; the fixed sets: subjects/.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.common.cases import DTYPE_NAMES, EPILOGUES, LAYOUTS, Case, Work, make_operands, squares
from benchmarks.common.command import parse_names, parse_shapes
from benchmarks.common.result_file import CsvWriter, aligned, portable_path
from benchmarks.common.timing import Arm, Timing, clock_words, time_arms
from benchmarks.fit.sweep_cases import SETS
from benchmarks.measure.peers.dense import PROVIDERS, NotOffered, arm, config_arms
from benchmarks.report.plot import draw_if_possible
from benchmarks.subjects import float32, fp8, portable, squares16

COLUMNS = ("op", "dtype", "layout", "m", "n", "k", "epilogue", "provider", "median_us", "tflops")

# Above this size a launch takes far longer than its gap, and a graph says nothing that events do not.
GRAPH_LIMIT = 1024

# Seconds of a case besides its timing: operands and first calls, the capture of a graph, Triton's trying of its rows.
_SETUP_SECONDS, _GRAPH_SECONDS, _TRITON_SECONDS = 0.1, 0.2, 0.5


def _demo(device: torch.device) -> list[Case]:
    """A few squares, as large as the machine does quickly."""
    if device.type != "cuda":
        return squares([256, 512, 1024], ["float32"], ["NN"], ["none", "bias+leaky_relu"])
    plain = squares([512, 1024, 2048, 4096], ["float16", "float32"], ["NN"], ["none"])
    return plain + squares([4096], ["float16"], ["NN"], ["bias+leaky_relu"])


_SUBJECTS = {"portable": portable.work, "hopper": squares16.work, "fp8": fp8.work, "float32": float32.work}
PRESETS = ("demo", *_SUBJECTS, *SETS)


def preset_work(name: str, device: torch.device) -> list[Work]:
    """The fixed set of that name: the demo's, a result file's, or one of fit/sweep_cases.py."""
    if name in _SUBJECTS:
        return _SUBJECTS[name]()
    return [Work(case) for case in (_demo(device) if name == "demo" else SETS[name]())]


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_argument_group("what is measured")
    what.add_argument(
        "--preset", choices=PRESETS, help="a fixed set of cases, narrowed by --dtype, --layout and --activation"
    )
    what.add_argument("--sizes", type=parse_sizes, help="m = n = k: 256,512 or START:STOP:STEP (default 512,1024,2048)")
    what.add_argument("--shapes", type=parse_shapes, help="MxNxK[,MxNxK...], instead of or beside --sizes")
    what.add_argument("--dtype", type=parse_names, help=f"some of {','.join(DTYPE_NAMES)}, or all (default float32)")
    what.add_argument("--layout", type=parse_names, help=f"some of {','.join(LAYOUTS)}, or all (default NN)")
    what.add_argument(
        "--activation",
        "--epilogue",
        type=parse_names,
        help=f"bias, an activation or bias+<activation>, or several, or all: {','.join(EPILOGUES)} (default none)",
    )
    what.add_argument(
        "--providers",
        type=parse_names,
        help=f"some of {','.join(PROVIDERS)} (default: tileon, torch and triton, and graphs up to {GRAPH_LIMIT})",
    )
    what.add_argument("--config", help="rows of the tile table as well: all, or indices with commas")
    what.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    how = parser.add_argument_group("how")
    how.add_argument("--seconds", type=float, default=0.5, help="timed part of one case, all providers (default 0.5)")
    how.add_argument("--warmup-seconds", type=float, default=1.0, help="cap on warming for one case (default 1)")
    how.add_argument("--dry-run", action="store_true", help="list the cases and about what they cost, run nothing")
    how.add_argument("--csv", type=Path, help="write the figures here")
    how.add_argument("--plot", type=Path, help="draw them here (needs --csv and matplotlib)")
    return parser


def _named(given: list[str] | None, every: Sequence[str], default: str) -> list[str]:
    return [default] if given is None else [*every] if given == ["all"] else given


def _work(arguments: argparse.Namespace, device: torch.device) -> list[Work]:
    if arguments.preset:
        chosen = [
            (set(given), field)
            for field, given in (
                ("dtype", arguments.dtype),
                ("layout", arguments.layout),
                ("epilogue", arguments.activation),
            )
            if given not in (None, ["all"])
        ]
        work = preset_work(arguments.preset, device)
        return [item for item in work if all(getattr(item.case, field) in names for names, field in chosen)]
    dtypes = _named(arguments.dtype, DTYPE_NAMES, "float32")
    layouts = _named(arguments.layout, LAYOUTS, "NN")
    epilogues = _named(arguments.activation, EPILOGUES, "none")
    sizes = arguments.sizes or ([] if arguments.shapes else [512, 1024, 2048])
    shapes = [
        Case(dtype, layout, m, n, k, epilogue)
        for dtype in dtypes
        for layout in layouts
        for epilogue in epilogues
        for m, n, k in arguments.shapes or []
    ]
    return [Work(case) for case in squares(sizes, dtypes, layouts, epilogues) + shapes]


def _wanted(work: Work, providers: list[str] | None) -> Sequence[str]:
    if providers:
        return providers
    if work.providers:
        return work.providers
    small = max(work.case.m, work.case.n, work.case.k) <= GRAPH_LIMIT
    return ["tileon", "torch", "triton", *(["tileon_graph", "torch_graph"] if small else [])]


def _expected_seconds(work: list[Work], arguments: argparse.Namespace) -> float:
    """About what a GPU takes for it all, warming in full."""
    total = 0.0
    for item in work:
        wanted = _wanted(item, arguments.providers)
        graphs = sum("_graph" in name for name in wanted)
        triton = item.case.layout == "NN" and any(name.startswith("triton") for name in wanted)
        total += arguments.seconds + arguments.warmup_seconds + _SETUP_SECONDS
        total += graphs * _GRAPH_SECONDS + triton * _TRITON_SECONDS
    return total


def _arms(case: Case, device: torch.device, wanted: Sequence[str], config: str | None) -> dict[str, Arm]:
    operands = make_operands(case, device)
    arms: dict[str, Arm] = {}
    for provider in wanted:
        try:
            arms[provider] = arm(provider, case, operands)
        except NotOffered:
            continue
    if config is not None:
        arms |= config_arms(case, operands, None if config == "all" else [int(index) for index in config.split(",")])
    return arms


def _measure(work: Work, device: torch.device, arguments: argparse.Namespace) -> dict[str, Timing]:
    """The arms, and with them operands and graphs, are gone when it returns."""
    torch.set_float32_matmul_precision("high" if work.case.allow_tf32 else "highest")
    arms = _arms(work.case, device, _wanted(work, arguments.providers), arguments.config)
    return time_arms(arms, device, seconds=arguments.seconds, warmup_seconds=arguments.warmup_seconds)


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
        work = _work(arguments, device)
    except ValueError as error:
        parser.error(str(error))
    if device.type == "cuda" or arguments.dry_run:
        print(f"{len(work)} cases, about {_expected_seconds(work, arguments):.0f} s on a GPU", flush=True)

    graphs = "; _graph: CUDA-graph replay, warm L2" if device.type == "cuda" else ""
    timing_line = f"{clock_words(device)}, interleaved arms, median of about {arguments.seconds:g} s a case, "
    fp8_out = {str(item.case.out_dtype).removeprefix("torch.") for item in work if item.case.is_fp8}
    out = "".join(f"; fp8 operands, {name} out" for name in fp8_out)
    timing_line += f"normal random data{out}{graphs}"
    head = ["dtype", "layout", "m x n x k", "epilogue", "provider", "median us", "TFLOP/s", "against torch", "spread"]
    table, failed = [head], 0
    with (
        torch.inference_mode(),
        CsvWriter(None if arguments.dry_run else arguments.csv, COLUMNS, {"timing": timing_line}) as writer,
    ):
        for done, item in enumerate(work, start=1):
            case = item.case
            name = f"{case.dtype} {case.layout} {case.m}x{case.n}x{case.k} {case.epilogue}"
            print(f"[{done}/{len(work)}] {name}", flush=True)
            if arguments.dry_run:
                print(f"  {', '.join(_wanted(item, arguments.providers))}")
                continue
            try:
                _report(case, _measure(item, device, arguments), writer, table)
            except RuntimeError as error:  # the other cases are still worth measuring
                failed += 1
                print(f"  failed: {error}", flush=True)
    if arguments.dry_run:
        return 0
    print(f"\n{aligned(table)}\n\n{timing_line}")
    if arguments.csv:
        print(f"figures: {portable_path(arguments.csv)}")
        if arguments.plot:
            draw_if_possible(arguments.csv, arguments.plot)
    if failed:
        print(f"{failed} of {len(work)} cases failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
