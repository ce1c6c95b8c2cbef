"""The Hopper choice has its cost model twice, in C++, which chooses, and in Python, which fits it: they agree."""

from __future__ import annotations

import pathlib
import random
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

np = pytest.importorskip("numpy")
import fit_hopper  # noqa: E402
from summary import Key  # noqa: E402

COMPILER = shutil.which("g++") or shutil.which("clang++")
SM_COUNT = 132

# Reads "m n k a_transposed b_transposed" a line, and prints the chosen row's name.
PROGRAM = """
#include <cstdio>
#include "cuda/sm90/choice.h"
using namespace tileon;

int main() {
  long m, n, k;
  int a_transposed, b_transposed;
  while (std::scanf("%ld %ld %ld %d %d", &m, &n, &k, &a_transposed, &b_transposed) == 5) {
    GemmProblem problem;
    problem.m = m;
    problem.n = n;
    problem.k = k;
    problem.dtype = problem.out_dtype = DType::kBFloat16;
    void* data = reinterpret_cast<void*>(4096);
    problem.a = a_transposed ? Operand{data, 1, m, 0} : Operand{data, k, 1, 0};
    problem.b = b_transposed ? Operand{data, k, 1, 0} : Operand{data, 1, n, 0};
    const int row = sm90::choose(problem, {90, 132, 227 * 1024});
    std::puts(row < 0 ? "none" : sm90::kRows[row].name);
  }
}
"""


def random_cases(count: int) -> list[Key]:
    """Sizes that are multiples of 8 and above 8, so that every layout is one that TMA reads as the letters say."""
    draw = random.Random(0)
    sizes = lambda: 8 * round(2 ** draw.uniform(1, 11))  # noqa: E731
    return [
        Key("bfloat16", draw.choice(["NN", "NT", "TN", "TT"]), sizes(), sizes(), sizes(), "none") for _ in range(count)
    ]


def test_every_row_of_the_table_is_read() -> None:
    text = (ROOT / "csrc" / "cuda" / "sm90" / "config.h").read_text()
    rows = fit_hopper.read_table()
    assert len(rows) == text.count('{"sm90_') > 20
    assert all(min(row.numbers) >= 0 and row.numbers[-1] > 0 for row in rows)


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here")
def test_cpp_and_python_choose_the_same_row(tmp_path: pathlib.Path) -> None:
    source, binary = tmp_path / "choose.cpp", tmp_path / "choose"
    source.write_text(PROGRAM)
    subprocess.run([COMPILER, "-std=c++17", "-O1", f"-I{ROOT / 'csrc'}", str(source), "-o", str(binary)], check=True)
    cases = random_cases(400)
    lines = "".join(f"{c.m} {c.n} {c.k} {int(c.layout[0] == 'T')} {int(c.layout[1] == 'T')}\n" for c in cases)
    printed = subprocess.run([str(binary)], input=lines, capture_output=True, text=True, check=True).stdout.split()

    table = fit_hopper.read_table()
    expected = fit_hopper.expected_ns(table, cases, SM_COUNT)
    for column, (case, chosen) in enumerate(zip(cases, printed, strict=True)):
        costs = dict(zip((row.name for row in table), expected[:, column], strict=True))
        assert costs[chosen] <= min(costs.values()) * (1 + 1e-6), f"{case}: C++ takes {chosen}"
