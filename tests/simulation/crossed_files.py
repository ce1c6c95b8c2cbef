"""Which files of csrc a call crosses: those of which a line runs between the call and its result.

python tests/simulation/crossed_files.py [--jobs N] [--write] builds the simulated library with gcov's counters in
build/simulation/lines, makes each call of CALLS in a process of its own, as the first of that process, and prints its
files with the number of their lines that ran; --write keeps that in crossed_files.csv. What runs when the library is
loaded does not count. The build is not optimized, so that what a compiler would inline counts too; what it computes
itself, as constants, does not. Of csrc/cuda/ptx the files count by which the machine's stand. It takes what library.py
needs, and gcov.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RECORD = HERE / "crossed_files.csv"
COLUMNS = ("call", "file", "lines")

# How many a reader has to open for a call, at most. It may only become less: 32 is wanted. It was 31 and 32, until the
# cost model's numbers and tables and the choices that are remembered became files of their own.
MAX_FILES = {"bfloat16": 37, "mxfp4": 39}

BEGIN = """
import ctypes, os, sys, torch, tileon_ops
from tileon_ops._rules.configs import config_of
library = ctypes.CDLL(os.environ["TILEON_LIBRARY"])
library.simulation_begin(ctypes.c_uint64(0))
"""
# The problems are smaller than those that they stand for, and the same kernels take them.
CALLS = {
    # as 4096 x 4096 x 4096
    "bfloat16": """
a, b = torch.ones(1024, 768, dtype=torch.bfloat16), torch.ones(768, 4096, dtype=torch.bfloat16)
call = lambda: torch.ops.tileon.matmul(a, b)
""",
    # as 16 x 4096 x 4096, both operands as `quantize` makes them
    "mxfp4": """
def ones(rows, k):
    data = torch.full((rows, k // 2), 0x22, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    scales = torch.full(((rows + 127) // 128, k // 128, 32, 4, 4), 127, dtype=torch.uint8)
    return data, scales.view(torch.float8_e8m0fnu)
(a, scale_a), (b, scale_b) = ones(16, 512), ones(512, 512)
call = lambda: torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b)
""",
}
END = """
library.simulation_begin_lines()
result = call()
library.simulation_end_lines()
assert (result == a.numel() // a.shape[0] * (2 if a.itemsize == 1 else 1)).all()
config = config_of(torch.ops.tileon._last_kernel())
print(config.backend, config.family)
"""
KERNELS = {"bfloat16": "sm90 cooperative", "mxfp4": "sm90 small_m"}

Lines = dict[str, set[int]]  # by file


def add_lines(report: str, trees: Iterable[pathlib.Path], lines: Lines) -> None:
    """Adds the lines that ran, by gcov's JSON of one object, of files that stand in one of the trees."""
    for text in report.splitlines():
        for file in json.loads(text)["files"]:
            path = pathlib.Path(file["file"])
            for tree in trees:
                if path.is_relative_to(tree):
                    ran = {line["line_number"] for line in file["lines"] if line["count"] > 0}
                    if ran:
                        lines[str(path.relative_to(tree))] |= ran


def report_of(counters: pathlib.Path) -> str:
    command = ["gcov", "--json-format", "--stdout", counters.name]
    return subprocess.run(command, cwd=counters.parent, capture_output=True, text=True, check=True).stdout


def crossed(call: str, library: pathlib.Path, jobs: int) -> tuple[str, Lines]:
    """The kernel that ran, and the lines."""
    out = library.parents[1]
    for counters in (out / "objects").glob("*.gcda"):
        counters.unlink()
    with tempfile.TemporaryDirectory() as scratch:
        program = pathlib.Path(scratch) / "call.py"
        program.write_text(BEGIN + CALLS[call] + END)
        result = subprocess.run(
            [sys.executable, str(program)],
            env={**os.environ, "TILEON_LIBRARY": str(library), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
    if result.returncode != 0:
        sys.exit(f"crossed_files.py: {call}:\n{result.stdout}{result.stderr}")
    lines: Lines = defaultdict(set)
    with ThreadPoolExecutor(jobs) as pool:
        for report in pool.map(report_of, sorted((out / "objects").glob("*.gcda"))):
            add_lines(report, (out / "csrc", out / "library"), lines)
    return result.stdout.split("\n")[0], lines


def write_record(path: pathlib.Path, counts: dict[str, dict[str, int]]) -> None:
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(COLUMNS)
        rows.writerows((call, name, number) for call, files in counts.items() for name, number in files.items())


def read_record(path: pathlib.Path) -> dict[str, dict[str, int]]:
    """By call and file, the number of lines."""
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            counts[row["call"]][row["file"]] = int(row["lines"])
    return dict(counts)


def main() -> None:
    import library

    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--csrc", type=pathlib.Path, default=ROOT / "csrc")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "simulation" / "lines")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help=f"write {RECORD.name}")
    arguments = parser.parse_args()
    built = library.build_library(
        arguments.csrc.resolve(), arguments.out.resolve(), arguments.jobs, library.build.LINES
    )
    counts = {}
    for call in CALLS:
        kernel, lines = crossed(call, built, arguments.jobs)
        if kernel != KERNELS[call]:
            sys.exit(f"crossed_files.py: {call} ran {kernel}")
        counts[call] = {name: len(lines[name]) for name in sorted(lines)}
        print(f"{call}: {len(lines)} files, {sum(counts[call].values())} lines, {kernel}")
        for name, number in counts[call].items():
            print(f"{number:6} {name}")
    if arguments.write:
        write_record(RECORD, counts)


if __name__ == "__main__":
    main()
