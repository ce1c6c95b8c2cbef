"""What a NaN or a tiny scale costs a block-scaled product: `python -m benchmarks.measure.rare_numbers --csv out.csv`.

A product of normal numbers is timed clean, and with one rare number in one row of `a` or of `b`: a NaN code (of e4m3),
a NaN scale, a scale byte of 2 (2^-125: with e4m3, numbers that bfloat16 does not hold), and a scale byte of 254 over
normal numbers. `over_clean` is the time over the clean product's: a rare number should cost its row, not the call.
Needs a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from benchmarks.common.cases import FORMATS, Case, Operands, make_operands
from benchmarks.common.command import command_line, gpu_arguments, tabulate
from benchmarks.common.timing import Arm, clock_words, time_arms

COLUMNS = ("op", "format", "m", "n", "k", "rare", "median_us", "over_clean")
ROWS = (1, 8, 16, 64, 128, 256, 1024)
SIZE = 8192  # n and k

_E4M3_NAN, _E8M0_NAN, _TINY, _LARGE = 0x7F, 0xFF, 2, 254


def _with_byte(operands: Operands, field: str, row: int, column: int, byte: int) -> Operands:
    changed = getattr(operands, field).clone()
    changed.view(torch.uint8)[row, column] = byte
    return replace(operands, **{field: changed})


def variants(case: Case, operands: Operands) -> dict[str, Operands]:
    """The clean operands, and those with one rare number, by name."""
    made = {"clean": operands}
    for side, element in (("a", FORMATS[case.dtype].a), ("b", FORMATS[case.dtype].b)):
        if element == "e4m3":
            made[f"{side}_nan_code"] = _with_byte(operands, side, 0, 40, _E4M3_NAN)
        for name, byte in (("nan", _E8M0_NAN), ("tiny", _TINY), ("large", _LARGE)):
            made[f"{side}_{name}_scale"] = _with_byte(operands, f"scale_{side}", 0, 1, byte)
    return made


def _call(operands: Operands) -> Callable[[], torch.Tensor]:
    a, b, (scale_a, scale_b), e8m0 = operands.a, operands.b, operands.scales, torch.float8_e8m0fnu
    return lambda: torch.ops.tileon.block_scaled_matmul(a, b, scale_a.view(e8m0), scale_b.view(e8m0))


@torch.inference_mode()
def _rows(case: Case, device: torch.device, seconds: float) -> Iterator[list[object]]:
    arms = {what: Arm(_call(made)) for what, made in variants(case, make_operands(case, device)).items()}
    timings = time_arms(arms, device, seconds=seconds, warmup_seconds=0.2)
    for what, timing in timings.items():
        over = timing.median_us / timings["clean"].median_us
        yield [case.op, case.dtype, *case.shape, what, f"{timing.median_us:.2f}", f"{over:.3f}"]


def main() -> int:
    parser = command_line(__doc__, device=False, seconds=0.3)
    arguments, device = gpu_arguments(parser), torch.device("cuda")
    cases = [Case(name, "NT", m, SIZE, SIZE) for name in ("mxfp8", "mixed", "mxfp4") for m in ROWS]
    rows = (row for case in cases for row in _rows(case, device, arguments.seconds))
    return tabulate(arguments.csv, COLUMNS, rows, timing=clock_words(device))


if __name__ == "__main__":
    raise SystemExit(main())
