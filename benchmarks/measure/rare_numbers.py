"""What one NaN or one tiny scale costs a block-scaled product.

    python -m benchmarks.measure.rare_numbers --csv out.csv

A product of normal numbers is timed clean, and with one rare number in one row of `a` or of `b`: a NaN code (of e4m3),
a NaN scale, a scale byte of 2 (2^-125: with e4m3, numbers that bfloat16 does not hold), and a scale byte of 254 over
normal numbers. `over_clean` is the time over the clean product's, interleaved with it (timing.py). A rare number should
cost its row, not the call: one user's NaN must not stall the batch that it was put into. Needs a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

import tileon_ops  # noqa: F401  (registers torch.ops.tileon)
from benchmarks.common.block_scaled_cases import FORMATS, BlockScaledCase, BlockScaledOperands, make_operands
from benchmarks.common.command import command_line, finish
from benchmarks.common.result_file import CsvWriter
from benchmarks.common.timing import Arm, clock_words, time_arms

COLUMNS = ("op", "format", "m", "n", "k", "rare", "median_us", "over_clean")
ROWS = (1, 8, 16, 64, 128, 256, 1024)
SIZE = 8192

_E4M3_NAN, _E8M0_NAN, _TINY, _LARGE = 0x7F, 0xFF, 2, 254


def _with_code(operands: BlockScaledOperands, side: str) -> BlockScaledOperands:
    codes = getattr(operands, side).clone()
    codes.view(torch.uint8)[0, 40] = _E4M3_NAN
    return replace(operands, **{side: codes})


def _with_scale(operands: BlockScaledOperands, side: str, byte: int) -> BlockScaledOperands:
    scales = getattr(operands, f"scale_{side}").clone()
    scales[0, 1] = byte
    return replace(operands, **{f"scale_{side}": scales})


def variants(case: BlockScaledCase, operands: BlockScaledOperands) -> dict[str, BlockScaledOperands]:
    """The clean operands, and those with one rare number, by name."""
    made = {"clean": operands}
    for side, element in (("a", FORMATS[case.format].a), ("b", FORMATS[case.format].b)):
        if element == "e4m3":
            made[f"{side}_nan_code"] = _with_code(operands, side)
        made[f"{side}_nan_scale"] = _with_scale(operands, side, _E8M0_NAN)
        made[f"{side}_tiny_scale"] = _with_scale(operands, side, _TINY)
        made[f"{side}_large_scale"] = _with_scale(operands, side, _LARGE)
    return made


def _call(operands: BlockScaledOperands) -> Callable[[], torch.Tensor]:
    a, b, scale_a, scale_b = operands.a, operands.b, operands.scale_a, operands.scale_b
    e8m0 = torch.float8_e8m0fnu
    return lambda: torch.ops.tileon.block_scaled_matmul(a, b, scale_a.view(e8m0), scale_b.view(e8m0))


def main() -> None:
    parser = command_line(__doc__, device=False)
    parser.add_argument("--formats", default="mxfp8,mixed,mxfp4")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--size", type=int, default=SIZE, help=f"n and k (default {SIZE})")
    parser.add_argument("--seconds", type=float, default=0.3, help="timed part of one case (default 0.3)")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU")
    device = torch.device("cuda")
    table = [list(COLUMNS[1:])]
    with torch.inference_mode(), CsvWriter(arguments.csv, COLUMNS, {"timing": clock_words(device)}) as writer:
        for name in arguments.formats.split(","):
            for m in map(int, arguments.rows.split(",")):
                case = BlockScaledCase(name, m, arguments.size, arguments.size, "normal")
                arms = {what: Arm(_call(x)) for what, x in variants(case, make_operands(case, device)).items()}
                timings = time_arms(arms, device, seconds=arguments.seconds, warmup_seconds=0.2)
                for what, timing in timings.items():
                    over = timing.median_us / timings["clean"].median_us
                    cells = [name, *map(str, (m, case.n, case.k)), what, f"{timing.median_us:.2f}", f"{over:.3f}"]
                    writer.write(["block_scaled_matmul", *cells])
                    table.append(cells)
    finish(table, "", arguments.csv)


if __name__ == "__main__":
    main()
