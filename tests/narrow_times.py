"""Times the narrow configs on a GPU beside the choice and torch: `PYTHONPATH=. python tests/narrow_times.py --csv CSV`.

The model in csrc/cuda/common/narrow.h was fitted to this (benchmarks/results/h200/narrow.csv.xz). (m, k) @ (k, n) of
few columns n. The first letter of a layout is that of a; T: adjacent along m. torch multiplies bfloat16 for fp8.
"""

from __future__ import annotations

import argparse
import csv
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

import tileon_ops
from benchmarks.common.timing import Arm, time_arms
from tileon_ops._rules.configs import dense

DEVICE = torch.device("cuda")
NARROW = [row for row in dense() if row.family == "narrow"]
MOST_BYTES = 1 << 28
DTYPES = (torch.bfloat16, torch.float8_e4m3fn, torch.float32, torch.float64)


class Case(NamedTuple):
    batch: int
    m: int
    n: int
    k: int
    dtype: torch.dtype
    layout: str


def cases() -> Iterator[Case]:
    sizes = itertools.product((64, 512, 4096, 16384, 65536), (1, 2, 4, 8, 16), (1, 8, 64, 512, 4096, 32768))
    for (m, n, k), dtype, layout, batch in itertools.product(sizes, DTYPES, ("NT", "TT"), (1, 16)):
        if batch * m * k * dtype.itemsize <= MOST_BYTES:
            yield Case(batch, m, n, k, dtype, layout)


def operands(case: Case) -> list[torch.Tensor]:
    wide = torch.bfloat16 if case.dtype.itemsize < 2 else case.dtype
    made = []
    for (rows, columns), letter in zip(((case.m, case.k), (case.k, case.n)), case.layout, strict=True):
        shape = (case.batch, columns, rows) if letter == "T" else (case.batch, rows, columns)
        drawn = torch.empty(shape, device=DEVICE, dtype=wide).uniform_(-1, 1)
        made.append(drawn.transpose(1, 2) if letter == "T" else drawn)
    return made


def measured(case: Case) -> dict[str, object]:
    wide = operands(case)
    a, b = (x.to(case.dtype) for x in wide)
    arms = {"ours": Arm(lambda: torch.ops.tileon.matmul(a, b)), "torch": Arm(lambda: torch.bmm(*wide))}
    for row in NARROW:
        index = row.index
        arms[f"narrow_{row.tile[0]}"] = Arm(lambda i=index: torch.ops.tileon._matmul_with_config(a, b, config=i))
    times = time_arms(arms, DEVICE, seconds=0.012 * len(arms), warmup_seconds=0.012, min_rounds=5, max_rounds=40)
    torch.ops.tileon.matmul(a, b)
    line: dict[str, object] = {**case._asdict(), "dtype": str(case.dtype).removeprefix("torch.")}
    line |= {f"{name}_us": round(time.median_us, 2) for name, time in times.items()}
    return line | {"chosen": tileon_ops.last_kernel()}


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, required=True)
    arguments = parser.parse_args()
    with arguments.csv.open("w", newline="") as file:
        print(f"# gpu: {torch.cuda.get_device_name()}", file=file)
        out = csv.writer(file, lineterminator="\n")
        for number, line in enumerate(map(measured, cases())):
            if number == 0:
                out.writerow(line)
            out.writerow(line.values())


if __name__ == "__main__":
    main()
