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
import cost_model  # noqa: E402
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
    rows = cost_model.read_table()
    assert len(rows) == text.count('{"sm90_') > 20
    assert all(min(row.numbers) > 0 for row in rows)
    assert len(cost_model.read_constants()) == len(cost_model.CONSTANTS)


def test_written_numbers_are_read_again(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("config.h", "choice.h"):
        (tmp_path / name).write_text((cost_model.SM90 / name).read_text())
    rows, numbers = cost_model.read_table(), np.arange(1.0, 1 + 6 * len(cost_model.read_table())).reshape(-1, 6)
    monkeypatch.setattr(cost_model, "SM90", tmp_path)
    constants = tuple(1.25 * number for number in range(1, 1 + len(cost_model.CONSTANTS)))
    cost_model.write(rows, numbers, constants)
    again = cost_model.read_table()
    assert [row.numbers for row in again] == [tuple(values) for values in numbers]
    assert [row.name for row in again] == [row.name for row in rows]
    assert cost_model.read_constants() == constants


def test_a_fit_to_times_that_follow_the_model_chooses_as_they_say() -> None:
    table, cases = cost_model.read_table(), random_cases(100)
    times = cost_model.expected_ns(table, cases, SM_COUNT) / 1e3
    rows = {
        case: dict(zip((row.name for row in table), column, strict=True))
        for case, column in zip(cases, times.T, strict=True)
    }
    sweep = fit_hopper.Sweep(rows, table, SM_COUNT)
    assert sweep.regrets(np.array([row.numbers for row in table]), cost_model.read_constants()).max() < 1 + 1e-9
    regrets = sweep.regrets(*fit_hopper.Fit(sweep).run(150))
    assert np.log(regrets).mean() < 0.02


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here")
def test_cpp_and_python_choose_the_same_row(tmp_path: pathlib.Path) -> None:
    source, binary = tmp_path / "choose.cpp", tmp_path / "choose"
    source.write_text(PROGRAM)
    subprocess.run([COMPILER, "-std=c++20", "-O1", f"-I{ROOT / 'csrc'}", str(source), "-o", str(binary)], check=True)
    cases = random_cases(400)
    lines = "".join(f"{c.m} {c.n} {c.k} {int(c.layout[0] == 'T')} {int(c.layout[1] == 'T')}\n" for c in cases)
    printed = subprocess.run([str(binary)], input=lines, capture_output=True, text=True, check=True).stdout.split()

    table = cost_model.read_table()
    expected = cost_model.expected_ns(table, cases, SM_COUNT)
    for column, (case, chosen) in enumerate(zip(cases, printed, strict=True)):
        costs = dict(zip((row.name for row in table), expected[:, column], strict=True))
        assert costs[chosen] <= min(costs.values()) * (1 + 1e-6), f"{case}: C++ takes {chosen}"
