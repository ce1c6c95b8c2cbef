"""Checks and measures `torch.ops.tileon.block_scaled_matmul`: `python benchmarks/block_scaled_matmul.py --help`.

    python benchmarks/block_scaled_matmul.py --format nvfp4 -K 512                # only checks the format's results
    python benchmarks/block_scaled_matmul.py --format mxfp4 --K_range 512 8192 --K_step 512 --bench
    python benchmarks/block_scaled_matmul.py --format mxfp8,mixed --shapes 16x8192x8192 --csv out.csv --plot out.png

Every format and kind of data in question is checked first, against a float32 product of the dequantized operands, and
nothing is measured where one is wrong. --bench then goes through K at fixed m and n; --shapes and --preset measure
without it. The dtype of the file (measure/products.py) is the format, a last column has the kind of data (cases.py).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the top of the tree

from benchmarks.common.cases import DATA, FORMATS, Case, Shape, Work, make_operands
from benchmarks.common.command import some_of
from benchmarks.measure.peers.providers import BLOCK_SCALED_PROVIDERS, tileon_call
from benchmarks.measure.products import product_parser, run
from benchmarks.subjects.block_scaled import PEERS, PRESETS, preset_work, works

TOLERANCE = 1e-3  # absolute and relative: the one that Triton's tutorial uses
_SIZES = {"cuda": 8192, "cpu": 128}  # m and n of a sweep over K; m, n and k of the check
_DATA_WORDS = {"normal": "normal random data, quantized", "tutorial": "random elements, scales uniform in (0, 1)"}


def _parser() -> argparse.ArgumentParser:
    parser = product_parser(__doc__, BLOCK_SCALED_PROVIDERS, ",".join(PEERS))
    some_of(parser, "--format", FORMATS, "nvfp4; of a preset all", None)
    parser.add_argument("-K", type=int, default=512, help="a single K (default 512)")
    parser.add_argument("--K_range", type=int, nargs=2, metavar=("LO", "HI"), help="instead: K from LO to HI inclusive")
    parser.add_argument("--K_step", type=int, default=512, metavar="S", help="... in steps of S (default 512)")
    words = f"measure at these K, m = n = {_SIZES['cuda']} ({_SIZES['cpu']} on a CPU)"
    parser.add_argument("--bench", action="store_true", help=words)
    parser.add_argument("--preset", choices=PRESETS, help="measure a fixed set of cases, of these formats alone")
    parser.add_argument("--data", choices=DATA, default="tutorial", help="without a preset (default tutorial)")
    return parser


def _shapes(arguments: argparse.Namespace) -> list[Shape]:
    """What is to be measured without a preset; nothing where only a check was asked for."""
    if arguments.shapes:
        return arguments.shapes
    first, last = arguments.K_range or (arguments.K, arguments.K)
    if first > last or arguments.K_step < 1:
        raise ValueError(f"--K_range {first} {last} --K_step {arguments.K_step} holds no K")
    size = _SIZES[arguments.device.type]
    shapes = [(size, size, k) for k in range(first, last + 1, arguments.K_step)]
    return shapes if arguments.bench else []


def _kinds(arguments: argparse.Namespace, work: list[Work]) -> list[str]:
    """Of data, in the cases or in the check alone."""
    return list(dict.fromkeys(item.case.data for item in work)) or [arguments.data]


def _work(arguments: argparse.Namespace) -> list[Work]:
    """The cases with their providers; a ValueError says what is wrong with the arguments."""
    formats = arguments.format = arguments.format or (list(FORMATS) if arguments.preset else ["nvfp4"])
    if arguments.preset:
        work = [item for item in preset_work(arguments.preset, arguments.device) if item.case.dtype in formats]
    else:
        work = works(formats, _shapes(arguments), arguments.data)
    if arguments.csv and not work:
        raise ValueError("--csv writes what is measured: give --bench, --shapes or --preset too")
    return [replace(item, providers=tuple(arguments.providers or item.providers or ())) for item in work]


def check(case: Case, device: torch.device) -> float:
    """The largest difference between our product and the float32 product of the dequantized operands; an AssertionError
    beyond TOLERANCE."""
    operands = make_operands(case, device)
    ours = tileon_call(case, operands)().to(torch.float32)
    a, b = operands.dequantized(torch.float32)
    expected = torch.matmul(a, b.t())
    torch.testing.assert_close(ours, expected, atol=TOLERANCE, rtol=TOLERANCE)
    return float((ours - expected).abs().max())


def _is_right(arguments: argparse.Namespace, work: list[Work]) -> bool:
    torch.set_float32_matmul_precision("highest")  # the reference is no TF32 product
    sizes, good = (_SIZES[arguments.device.type],) * 3, True
    kinds = [(name, data) for name in arguments.format for data in _kinds(arguments, work)]
    for case in (Case(name, "NT", *sizes, data=data) for name, data in kinds):
        try:
            difference = check(case, arguments.device)
            said = f"agrees with dequantization and a float32 product (largest difference {difference:.2g})"
        except AssertionError as error:
            good, said = False, f"WRONG\n{error}"
        print(f"{case}: {said}", flush=True)
    return good


def _words(arguments: argparse.Namespace, work: list[Work]) -> str:
    """On which data, for the head of the file."""
    kinds = _kinds(arguments, work)
    data = [f"{kind}: {_DATA_WORDS[kind]}" for kind in kinds] if len(kinds) > 1 else [_DATA_WORDS[kinds[0]]]
    on_gpu = arguments.device.type == "cuda"
    return "; ".join(data) + ("; _graph: CUDA-graph replay over rotated operands, cold L2" if on_gpu else "")


def main() -> int:
    return run(_parser(), _work, _words, is_right=_is_right, columns=("data",))


if __name__ == "__main__":
    sys.exit(main())
