"""Measures `torch.ops.tileon.matmul` against its peers: `python benchmarks/matmul.py --help`.

    python benchmarks/matmul.py --sizes 256,1024:4096:512 --dtype bfloat16 --layout NN,NT --csv out.csv --plot out.png
    python benchmarks/matmul.py --shapes 1x4096x4096 --activation bias+leaky_relu
    python benchmarks/matmul.py --sizes 2048 --config all            # every row of the tile table
    python benchmarks/matmul.py --preset hopper                      # the set of results/<gpu>/matmul.csv
    python benchmarks/matmul.py --preset fp8                         # that of fp8.csv; a dtype is a pairing, a x b
    python benchmarks/matmul.py --preset float32                     # that of float32.csv
    python benchmarks/matmul.py --preset hopper --dtype float16 --layout TN,TT --providers tileon,torch

The CSV's columns are op,dtype,layout,m,n,k,epilogue,provider,median_us,tflops; the rate counts the product's
operations alone. How it is timed: timing.py; who the providers are: peers/providers.py; the fixed sets: subjects/.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

import torch

from benchmarks.common.cases import COLUMNS, DTYPE_NAMES, EPILOGUES, LAYOUTS, Case, Work, squares
from benchmarks.common.command import command_line, parse_names, some_of
from benchmarks.common.timing import clock_words
from benchmarks.fit.sweep_cases import SETS
from benchmarks.measure.peers.providers import PROVIDERS
from benchmarks.measure.products import add_options, list_work, measure, refuse_plot_alone
from benchmarks.subjects import float32, fp8, portable, squares16

# Above this size a launch takes far longer than its gap, and a graph says nothing that events do not.
GRAPH_LIMIT = 1024


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
        if len(numbers) not in (1, 3):
            raise argparse.ArgumentTypeError(f"{part!r} is neither a size nor START:STOP:STEP")
        sizes.extend(range(numbers[0], numbers[1] + 1, numbers[2]) if len(numbers) == 3 else numbers)
    return sizes


def _parser() -> argparse.ArgumentParser:
    parser = command_line(__doc__, seconds=0.5, warmup=1.0)
    parser.add_argument(
        "--preset", choices=PRESETS, help="a fixed set of cases, narrowed by --dtype, --layout and --activation"
    )
    parser.add_argument("--sizes", type=parse_sizes, help="m = n = k: 256,512 or START:STOP:STEP (512,1024,2048)")
    some_of(parser, "--dtype", DTYPE_NAMES, "float32; of a preset all", None)
    some_of(parser, "--layout", LAYOUTS, "NN; of a preset all", None)
    parser.add_argument(
        *("--activation", "--epilogue"),
        type=lambda text: [*EPILOGUES] if text == "all" else parse_names(text),
        help=f"bias, an activation or bias+<activation>, or several, or all: {','.join(EPILOGUES)} (default none)",
    )
    parser.add_argument("--config", help="rows of the tile table as well: all, or indices with commas")
    add_options(parser, PROVIDERS, f"tileon,torch,triton, and graphs up to {GRAPH_LIMIT}")
    return parser


def _work(arguments: argparse.Namespace, device: torch.device) -> list[Work]:
    """The cases, each with its providers.

    Raises:
        ValueError: a name that is none.
    """
    if arguments.preset:
        given = {"dtype": arguments.dtype, "layout": arguments.layout, "epilogue": arguments.activation}
        chosen = {field: names for field, names in given.items() if names}
        work = preset_work(arguments.preset, device)
        work = [item for item in work if all(getattr(item.case, field) in names for field, names in chosen.items())]
    else:
        dtypes, layouts = arguments.dtype or ["float32"], arguments.layout or ["NN"]
        epilogues = arguments.activation or ["none"]
        sizes = arguments.sizes or ([] if arguments.shapes else [512, 1024, 2048])
        cases = squares(sizes, dtypes, layouts, epilogues)
        kinds = [(dtype, layout, epilogue) for dtype in dtypes for layout in layouts for epilogue in epilogues]
        for dtype, layout, epilogue in kinds:
            cases += [Case(dtype, layout, m, n, k, epilogue) for m, n, k in arguments.shapes or []]
        work = [Work(case) for case in cases]
    return [replace(item, providers=_providers(item, arguments.providers)) for item in work]


def _providers(work: Work, given: list[str] | None) -> tuple[str, ...]:
    if given or work.providers:
        return tuple(given or work.providers or ())
    graphs = ("tileon_graph", "torch_graph") if max(work.case.shape) <= GRAPH_LIMIT else ()
    return ("tileon", "torch", "triton", *graphs)


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    refuse_plot_alone(parser, arguments)
    device = torch.device(arguments.device)
    try:
        work = _work(arguments, device)
    except ValueError as error:
        parser.error(str(error))
    if arguments.dry_run:
        list_work(work, str, arguments)
        return 0
    words = f"{clock_words(device)}, interleaved arms, median of about {arguments.seconds:g} s a case, "
    words += "normal random data" + ("; fp8 operands, float16 out" if any(item.case.is_fp8 for item in work) else "")
    words += "; _graph: CUDA-graph replay, warm L2" if device.type == "cuda" else ""

    return measure(
        work, device, arguments, name=str, words=words, columns=COLUMNS, cells=Case.cells, config=arguments.config
    )


if __name__ == "__main__":
    sys.exit(main())
