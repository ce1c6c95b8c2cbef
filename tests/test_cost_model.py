"""The Hopper choice has its cost model and its correction twice, in C++, which chooses, and in Python, which fits them:
they agree."""

from __future__ import annotations

import dataclasses
import pathlib
import random
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent

np = pytest.importorskip("numpy")
from benchmarks.common.times import Key  # noqa: E402
from benchmarks.fit import correction, cost_model, fit_hopper  # noqa: E402

COMPILER = shutil.which("g++") or shutil.which("clang++")
SM_COUNT = 132

# Reads "m n k a_transposed b_transposed" a line, and prints the times that the model expects of all rows, and the row
# that is chosen.
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
    problem.out = {data, n, 1, 0};
    const sm90::Work work(problem);
    const sm90::Correction correction(problem, work, 132);
    for (int row = 0; row < sm90::kRowCount; ++row) {
      const sm90::Cost cost = sm90::cost_of(sm90::kRows[row], problem, work, 132);
      std::printf("%.9g %.9g ", cost.ns(), std::exp(correction.log_ns(row, cost)));
    }
    std::printf("%d\\n", sm90::choose(problem, {90, 132, 227 * 1024}));
  }
}
"""


def random_cases(count: int) -> list[Key]:
    """Sizes that are multiples of 8 and above 8, so that every layout is one that TMA reads as the letters say; where
    the layout allows it, some outputs that TMA cannot write."""
    draw = random.Random(0)
    sizes = lambda: 8 * round(2 ** draw.uniform(1, 11))  # noqa: E731
    cases = []
    for _ in range(count):
        layout, m, n, k = draw.choice(["NN", "NT", "TN", "TT"]), sizes(), sizes(), sizes()
        ragged = layout[1] == "T" and draw.random() < 0.3
        cases.append(Key("bfloat16", layout, m, n + 3 if ragged else n, k, "none"))
    return cases


def test_every_row_of_the_table_is_read() -> None:
    text = (ROOT / "csrc" / "cuda" / "sm90" / "config.h").read_text()
    rows = cost_model.read_table()
    assert len(rows) == text.count('{"sm90_') > 20
    assert all(min(row.numbers) > 0 for row in rows)
    assert len(cost_model.read_constants()) == len(cost_model.CONSTANTS)


def test_written_numbers_are_read_again(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("config.h", "cost.h"):
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
def test_cpp_and_python_have_the_same_times_and_choose_the_same_row(tmp_path: pathlib.Path) -> None:
    source, binary = tmp_path / "choose.cpp", tmp_path / "choose"
    source.write_text(PROGRAM)
    subprocess.run([COMPILER, "-std=c++20", "-O1", f"-I{ROOT / 'csrc'}", str(source), "-o", str(binary)], check=True)
    cases = random_cases(400)
    lines = "".join(f"{c.m} {c.n} {c.k} {int(c.layout[0] == 'T')} {int(c.layout[1] == 'T')}\n" for c in cases)
    printed = subprocess.run([str(binary)], input=lines, capture_output=True, text=True, check=True).stdout
    numbers = np.array([[float(number) for number in line.split()] for line in printed.splitlines()])

    table = cost_model.read_table()
    expected = cost_model.expected_ns(table, cases, SM_COUNT)
    np.testing.assert_allclose(numbers[:, 0:-1:2].T, expected, rtol=1e-6)
    corrected = correction.corrected_ns(table, cases, SM_COUNT)
    looked_at = np.isfinite(corrected)
    np.testing.assert_allclose(numbers[:, 1:-1:2].T[looked_at], corrected[looked_at], rtol=1e-4)  # C++ has floats
    chosen = corrected[numbers[:, -1].astype(int), np.arange(len(cases))]
    assert (chosen <= corrected.min(axis=0) * (1 + 1e-4)).all()


def test_the_correction_is_of_the_tables_rows() -> None:
    assert correction.rows_of_network() == [row.name for row in cost_model.read_table()]


def test_a_correction_of_nothing_leaves_the_model_as_it_is() -> None:
    cases = random_cases(5)
    network = correction.Network.of_nothing(len(cost_model.read_table()))
    of_cost = np.ones((len(cost_model.read_table()), len(cases), len(correction.COST_FEATURES)))
    assert not network.corrections(correction.problem_features(cases), of_cost).any()


def test_a_written_correction_is_read_again(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = correction.read_network()
    monkeypatch.setattr(correction, "NUMBERS", tmp_path / "correction_numbers.h")
    correction.write_network(network, cost_model.read_table())
    again = correction.read_network()
    for field in dataclasses.fields(network):
        np.testing.assert_array_equal(getattr(again, field.name), getattr(network, field.name))


def test_the_correction_is_not_fitted_to_shapes_that_the_choice_is_judged_by(tmp_path: pathlib.Path) -> None:
    from benchmarks.fit import fit_correction
    from benchmarks.measure.tune_regret import linear_cases, rectangles

    judged = linear_cases()[3], rectangles()[0], rectangles()[7]
    columns = "op,dtype,layout,m,n,k,epilogue,provider,median_us,tflops,kernel"
    row = cost_model.read_table()[0].name
    lines = [
        f"matmul,bfloat16,{layout},{m},{n},{k},none,tileon:{row},10,1,{row}"
        for layout, m, n, k in [*((c.layout, c.m, c.n, c.k) for c in judged), ("NT", 72, 88, 104)]
    ]
    (tmp_path / "sweep.csv").write_text("\n".join([columns, *lines]) + "\n")
    sweep = fit_correction.read_without_judged([tmp_path / "sweep.csv"], cost_model.read_table(), SM_COUNT)
    assert [case.shape for case in sweep.cases] == ["72x88x104"]


def test_a_correction_is_learned_from_times_that_differ_from_the_model() -> None:
    """Where every row of one family takes a fifth longer than the model says, and no other."""
    from benchmarks.fit import fit_correction

    table, cases = cost_model.read_table(), random_cases(150)
    slow = np.array([[1.2 if row.family == "Gemm" else 1.0] for row in table])
    times = cost_model.expected_ns(table, cases, SM_COUNT) * slow / 1e3
    names = [row.name for row in table]
    sweep = fit_hopper.Sweep(
        {case: dict(zip(names, column, strict=True)) for case, column in zip(cases, times.T, strict=True)},
        table,
        SM_COUNT,
    )
    fit = fit_correction.Fit(sweep)
    network = fit.run(np.arange(100), 200)
    before = sweep.chosen(np.array([row.numbers for row in table]), cost_model.read_constants())
    of_model, of_fit = (
        np.log(sweep.times[rows, np.arange(150)] / sweep.best)[100:].mean() for rows in (before, fit.chosen(network))
    )
    assert of_model > 0.03
    assert of_fit < of_model / 3
