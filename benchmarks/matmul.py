"""Measures `torch.ops.tileon.matmul` against its peers: `python benchmarks/matmul.py --help`.

    python benchmarks/matmul.py --sizes 256,1024:4096:512 --dtype bfloat16 --layout NN,NT --csv out.csv --plot out.png
    python benchmarks/matmul.py --shapes 1x4096x4096 --activation bias+leaky_relu
    python benchmarks/matmul.py --preset hopper --dtype float16 --layout TN,TT --providers tileon,torch

--rows measures our product and rows of the tile table, as `tileon:<row>`, with the kernel that ran in a last column.
The cost models are fitted to such sweeps, and the choice is judged by them (fit/sweep_cases.py, report/targets.py):

    python benchmarks/matmul.py --preset random --rows sm90 --cases 0:820 --csv random.csv      # some of them
    python benchmarks/matmul.py --rows . --shapes 2304x2304x2304,64x4096x4096 --dtype bfloat16 --layout NT

The file and its columns: measure/products.py; the fixed sets: subjects/.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the top of the tree

from benchmarks.common.cases import DTYPE_NAMES, EPILOGUES, LAYOUTS, Case, Work, square_cases
from benchmarks.common.command import some_of
from benchmarks.fit.sweep_cases import SETS
from benchmarks.measure.peers.providers import PROVIDERS
from benchmarks.measure.products import product_parser, run
from benchmarks.subjects import float32, fp8, portable, squares16

# Above this size a launch takes far longer than its gap, and a graph says nothing that events do not.
GRAPH_LIMIT = 1024


def _demo(device: torch.device) -> list[Case]:
    """A few squares, as large as the machine does quickly."""
    if device.type != "cuda":
        return square_cases([256, 512, 1024], ["float32"], ["NN"], ["none", "bias+leaky_relu"])
    plain = square_cases([512, 1024, 2048, 4096], ["float16", "float32"], ["NN"])
    return plain + square_cases([4096], ["float16"], ["NN"], ["bias+leaky_relu"])


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


def parser_of() -> argparse.ArgumentParser:
    parser = product_parser(__doc__, PROVIDERS, f"tileon,torch,triton, and graphs up to {GRAPH_LIMIT}")
    words = "a fixed set of cases, narrowed by --dtype, --layout and --activation"
    parser.add_argument("--preset", choices=PRESETS, help=words)
    parser.add_argument("--sizes", type=parse_sizes, help="m = n = k: 256,512 or START:STOP:STEP (512,1024,2048)")
    some_of(parser, "--dtype", DTYPE_NAMES, "float32; of a preset all", None)
    some_of(parser, "--layout", LAYOUTS, "NN; of a preset all", None)
    parser.add_argument(
        *("--activation", "--epilogue"),
        type=lambda text: [*EPILOGUES] if text == "all" else text.split(","),
        help=f"bias, an activation or bias+<activation>, or several, or all: {','.join(EPILOGUES)} (default none)",
    )
    some = "BEGIN:END, some of them"
    parser.add_argument("--cases", type=lambda text: slice(*map(int, text.split(":"))), default=slice(None), help=some)
    parser.add_argument("--rows", help="regular expression: these rows of the tile table as well (needs a GPU)")
    parser.add_argument("--hopeless", type=float, default=3.0, help="leave rows out beyond this factor (default 3)")
    return parser


def _work(arguments: argparse.Namespace) -> list[Work]:
    """The cases, each with its providers; a ValueError says what is wrong with the arguments."""
    if arguments.rows is not None and arguments.device.type != "cuda":
        raise ValueError("--rows needs a GPU: the tile table is the GPU's")
    if arguments.preset:
        given = {"dtype": arguments.dtype, "layout": arguments.layout, "epilogue": arguments.activation}
        chosen = {field: names for field, names in given.items() if names}
        work = preset_work(arguments.preset, arguments.device)
        work = [item for item in work if all(getattr(item.case, field) in names for field, names in chosen.items())]
    else:
        kinds = (arguments.dtype or ["float32"], arguments.layout or ["NN"], arguments.activation or ["none"])
        sizes = arguments.sizes or ([] if arguments.shapes else [512, 1024, 2048])
        work = [Work(case) for case in square_cases(sizes, *kinds)]
        for dtype, layout, epilogue in itertools.product(*kinds):
            work += [Work(Case(dtype, layout, m, n, k, epilogue)) for m, n, k in arguments.shapes or []]
    return [replace(item, providers=_providers(item, arguments)) for item in work[arguments.cases]]


def _providers(work: Work, arguments: argparse.Namespace) -> tuple[str, ...]:
    if arguments.rows is not None:
        return ("tileon",)
    if arguments.providers or work.providers:
        return tuple(arguments.providers or work.providers or ())
    graphs = ("tileon_graph", "torch_graph") if max(work.case.shape) <= GRAPH_LIMIT else ()
    return ("tileon", "torch", "triton", *graphs)


def _words(arguments: argparse.Namespace, work: list[Work]) -> str:
    words = "normal random data" + ("; fp8 operands, float16 out" if any(item.case.is_fp8 for item in work) else "")
    return words + ("; _graph: CUDA-graph replay, warm L2" if arguments.device.type == "cuda" else "")


def main() -> int:
    return run(parser_of(), _work, _words)


if __name__ == "__main__":
    sys.exit(main())
