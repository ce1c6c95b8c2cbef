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
and data, the kind of data (cases.py). b holds n rows of k: layout NT. How it is timed: timing.py; who the providers
are: peers/providers.py; the fixed sets: subjects/block_scaled.py.
"""

from __future__ import annotations

import argparse
import sys

import torch

from benchmarks.common.cases import COLUMNS as MATMUL_COLUMNS
from benchmarks.common.cases import DATA, FORMATS, Case, Shape, Work, dequantized, make_operands
from benchmarks.common.command import command_line, some_of
from benchmarks.common.timing import clock_words
from benchmarks.measure.peers.providers import BLOCK_SCALED_PROVIDERS, tileon_call
from benchmarks.measure.products import add_options, list_work, measure, refuse_plot_alone
from benchmarks.subjects.block_scaled import PEERS, PRESETS, preset_work, works

COLUMNS = (*MATMUL_COLUMNS, "data")
TOLERANCE = 1e-3  # absolute and relative: the one that Triton's tutorial uses
_GPU_SIZE, _CPU_SIZE = 8192, 128  # m and n of a sweep over K; m, n and k of the check
_DATA_WORDS = {"normal": "normal random data, quantized", "tutorial": "random elements, scales uniform in (0, 1)"}


def _fixed_size(device: torch.device) -> int:
    return _GPU_SIZE if device.type == "cuda" else _CPU_SIZE


def _name(case: Case) -> str:
    return f"{case.dtype} {case.size}" + (" normal" if case.data == "normal" else "")


def _parser() -> argparse.ArgumentParser:
    parser = command_line(__doc__, seconds=0.5, warmup=1.0)
    some_of(parser, "--format", FORMATS, "nvfp4; of a preset all", None)
    parser.add_argument("-K", type=int, default=512, help="a single K (default 512)")
    parser.add_argument("--K_range", type=int, nargs=2, metavar=("LO", "HI"), help="instead: K from LO to HI inclusive")
    parser.add_argument("--K_step", type=int, default=512, metavar="S", help="... in steps of S (default 512)")
    parser.add_argument(
        "--bench", action="store_true", help=f"measure at these K, m = n = {_GPU_SIZE} ({_CPU_SIZE} on a CPU)"
    )
    parser.add_argument("--preset", choices=PRESETS, help="measure a fixed set of cases, of these formats alone")
    parser.add_argument("--data", choices=DATA, default="tutorial", help="without a preset (default tutorial)")
    add_options(parser, BLOCK_SCALED_PROVIDERS, ",".join(PEERS))
    return parser


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


def _work(arguments: argparse.Namespace, device: torch.device, formats: list[str]) -> list[Work]:
    """The cases with their providers.

    Raises:
        ValueError: a range of K that holds nothing, or a size that a format does not have.
    """
    if arguments.preset:
        work = [item for item in preset_work(arguments.preset, device) if item.case.dtype in formats]
    else:
        work = works(formats, _shapes(arguments, device), arguments.data)
    return [Work(item.case, tuple(arguments.providers)) for item in work] if arguments.providers else work


def check(case: Case, device: torch.device) -> float:
    """The largest difference between our product and the float32 product of the dequantized operands.

    Raises:
        AssertionError: beyond TOLERANCE.
    """
    operands = make_operands(case, device)
    ours = tileon_call(case, operands)().to(torch.float32)
    scale_a, scale_b = operands.scales
    a, b = dequantized(operands.a, scale_a, torch.float32), dequantized(operands.b, scale_b, torch.float32)
    expected = torch.matmul(a, b.t())
    torch.testing.assert_close(ours, expected, atol=TOLERANCE, rtol=TOLERANCE)
    return float((ours - expected).abs().max())


def _all_right(formats: list[str], kinds: list[str], device: torch.device) -> bool:
    torch.set_float32_matmul_precision("highest")  # the reference is no TF32 product
    size, good = _fixed_size(device), True
    for case in (Case(name, "NT", size, size, size, data=data) for name in formats for data in kinds):
        try:
            difference = check(case, device)
        except AssertionError as error:
            good = False
            print(f"{_name(case)}: WRONG\n{error}", flush=True)
        else:
            said = f"agrees with dequantization and a float32 product (largest difference {difference:.2g})"
            print(f"{_name(case)}: {said}", flush=True)
    return good


def _timing_words(work: list[Work], kinds: list[str], device: torch.device, seconds: float) -> str:
    """How it was timed and on which data, for the head of the file."""
    data = [f"{kind}: {_DATA_WORDS[kind]}" for kind in kinds] if len(kinds) > 1 else [_DATA_WORDS[kinds[0]]]
    words = f"{clock_words(device)}, interleaved arms, median of about {seconds:g} s a case, {'; '.join(data)}"
    graphs = device.type == "cuda" and any("_graph" in name for item in work for name in item.providers or ())
    return words + ("; _graph: CUDA-graph replay over rotated operands, cold L2" if graphs else "")


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    refuse_plot_alone(parser, arguments)
    formats = arguments.format or (list(FORMATS) if arguments.preset else ["nvfp4"])
    try:
        work = _work(arguments, device, formats)
    except ValueError as error:
        parser.error(str(error))
    if arguments.csv and not work:
        parser.error("--csv writes what is measured: give --bench, --shapes or --preset too")

    if arguments.dry_run:
        list_work(work, _name, arguments)
        return 0
    kinds = list(dict.fromkeys(item.case.data for item in work)) or [arguments.data]
    with torch.inference_mode():
        if not _all_right(formats, kinds, device):
            return 1
    if not work:
        return 0

    def cells(case: Case, provider: str, microseconds: float) -> list[str]:
        return [*case.cells(provider, microseconds), case.data]

    words = _timing_words(work, kinds, device, arguments.seconds)
    return measure(work, device, arguments, name=_name, words=words, columns=COLUMNS, cells=cells)


if __name__ == "__main__":
    sys.exit(main())
