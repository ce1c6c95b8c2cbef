"""The regret of the library's choice: the cases, the figures of a case, the file, and the targets made of it."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import pytest
import torch
from benchmark_files import HEAD, HEAD_KEYS, read
from simulated_tuning import DEVICE, FASTER, SimulatedTuning, simulated

from benchmarks.common.cases import Case, make_operands
from benchmarks.common.stages import RANDOM_SWEEPS
from benchmarks.fit.sweep_cases import SETS
from benchmarks.measure import tune_regret
from benchmarks.measure.tune_regret import linear_cases, rectangles
from benchmarks.report.targets import all_targets
from benchmarks.subjects.tuning import targets
from tileon_ops.tune.cache import DEFAULT

__all__ = ["simulated"]  # the fixture

COLUMNS = "set,dtype,layout,m,n,k,default,default_us,best,best_us,regret,tuned,again_us,tuned_us"


class TestCases:
    def test_rectangles_are_those_of_their_seed(self) -> None:
        cases = rectangles()
        assert len(cases) == len(set(cases)) == 200
        assert cases == rectangles(300)[:200]
        assert cases != rectangles(seed=1)

    def test_rectangles_are_spread_and_mostly_aligned(self) -> None:
        cases = rectangles()
        for name in ("m", "n", "k"):
            sizes = sorted(getattr(case, name) for case in cases)
            assert 8 <= sizes[0] < 16
            assert 4096 < sizes[-1] <= 8192
            assert 128 < sizes[100] < 512, "evenly on a logarithmic scale, large products left out"
        odd = [case for case in cases if any(size % 8 for size in (case.m, case.n, case.k))]
        assert 20 <= len(odd) <= 40
        assert {case.layout for case in cases} == {"NN", "NT", "TN", "TT"}
        assert {case.dtype for case in cases} == {"bfloat16"}

    def test_the_choice_is_not_fitted_to_the_layers_that_it_is_judged_by(self) -> None:
        fitted = {(case.m, case.n, case.k) for case in SETS["random"]()}
        assert len(fitted) > 800
        assert not fitted & {(case.m, case.n, case.k) for case in linear_cases()}

    def test_the_files_of_the_random_sweep_have_each_of_its_cases_once(self) -> None:
        parts = [range(begin, end) for begin, end, _ in RANDOM_SWEEPS.values()]
        drawn = SETS["random"]()
        assert [case for part in parts for case in part] == list(range(len(drawn)))

    def test_linear_layers_are_of_hidden_sizes_from_2048_to_8192_and_1_to_8192_rows(self) -> None:
        cases = linear_cases()
        assert {case.layout for case in cases} == {"NT"}
        assert {min(case.n, case.k) for case in cases} >= {2048, 4096, 8192}
        assert (min(case.m for case in cases), max(case.m for case in cases)) == (1, 8192)

    def test_they_cost_a_gpu_at_most_150_s(self) -> None:
        """0.3 s of measuring a case, and 0.15 s of what comes before it."""
        assert 0.45 * (len(linear_cases()) + len(rectangles())) <= 150


def on_the_cpu(case: Any, device: torch.device) -> Any:
    return make_operands(case, torch.device("cpu"))


class TestMeasuring:
    def test_the_op_is_timed_again_with_and_without_what_was_found(
        self, simulated: SimulatedTuning, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        problem = "matmul bfloat16->bfloat16 1x64x96x128 a=k b=k out=rows plain"
        rows: list[str] = []
        simulated.clock.meanwhile = lambda: rows.append(simulated.row(problem))
        monkeypatch.setattr(tune_regret, "make_operands", on_the_cpu)
        monkeypatch.setattr(tune_regret, "clock_of", lambda device: simulated.clock)
        found = tune_regret.measure(Case("bfloat16", "NT", 64, 96, 128), DEVICE, 0.01)
        assert (found.best, found.tuned) == (FASTER, FASTER)
        assert (found.default_us, found.best_us, found.again_us, found.tuned_us) == pytest.approx((20, 10, 20, 10))
        assert found.regret == pytest.approx(1)
        assert set(rows) == {DEFAULT}, "while it is tuned"
        assert simulated.row(problem) == "", "nothing stays set"
        assert not simulated.folder.exists(), "nor in a cache"

    def test_where_the_default_is_best_there_is_no_regret_and_nothing_more_to_time(
        self, simulated: SimulatedTuning, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        simulated.clock.seconds = {DEFAULT: 1e-5, FASTER: 1.1e-5}
        monkeypatch.setattr(tune_regret, "make_operands", on_the_cpu)
        monkeypatch.setattr(tune_regret, "clock_of", lambda device: pytest.fail("timed again"))
        found = tune_regret.measure(Case("bfloat16", "NN", 64, 96, 128), DEVICE, 0.01)
        assert (found.best, found.tuned, found.regret) == (found.default, DEFAULT, 0.0)
        assert found.again_us == found.tuned_us == found.default_us


class TestFile:
    def test_a_row_for_each_case_and_a_failure_stops_no_other(
        self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def made_up(case: Case, device: torch.device, seconds: float) -> tune_regret.Regret:
            if case.m == 2:
                raise RuntimeError("no memory")
            return tune_regret.Regret("row_x", 11.0, "row_y", 10.0, 0.1, "row_y", 11.0, 10.0)

        path = tmp_path / "out.csv"
        cases = [Case("bfloat16", "NT", m, 8, 8) for m in (1, 2, 3)]
        monkeypatch.setattr(tune_regret, "measure", made_up)
        assert tune_regret.run({"linear": cases}, torch.device("cpu"), 0.1, path, "3 made up") == 1
        head, rows = read(path)
        assert head.keys() >= HEAD_KEYS
        assert head["random"] == "3 made up"
        assert ",".join(rows[0]) == COLUMNS
        assert [row["m"] for row in rows] == ["1", "3"]
        assert rows[0]["regret"] == "0.1000"
        out = capsys.readouterr().out
        assert "NT 2x8x8 failed: no memory" in out

    @pytest.mark.parametrize(
        ("arguments", "error"), [(("--sets", "linear"), "unrecognized arguments"), ((), "this needs a GPU")]
    )
    def test_nonsense_and_a_machine_without_a_gpu_are_refused(
        self,
        arguments: tuple[str, ...],
        error: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(sys, "argv", ["tune_regret.py", *arguments])
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(SystemExit) as ended:
            tune_regret.main()
        assert ended.value.code == 2
        assert error in capsys.readouterr().err


def line(name: str, m: int, default_us: float, best_us: float, again_us: float, tuned_us: float) -> str:
    regret = default_us / best_us - 1
    return f"{name},bfloat16,NT,{m},8,8,row_x,{default_us},row_y,{best_us},{regret:.4f},row_y,{again_us},{tuned_us}"


class TestBars:
    def verdicts(self, folder: pathlib.Path, *lines: str) -> dict[tuple[str, str], tuple[str, str]]:
        (folder / "tune_regret.csv").write_text(HEAD + "\n".join([COLUMNS, *lines]) + "\n")
        return {(target.what, target.asked): (target.verdict, target.figure) for target in targets(folder)}

    def test_nothing_of_a_file_that_is_not_there(self, tmp_path: pathlib.Path) -> None:
        assert targets(tmp_path) == []

    def test_at_the_limits_they_hold(self, tmp_path: pathlib.Path) -> None:
        found = self.verdicts(
            tmp_path,
            line("linear", 1, 101.9, 100, 100, 102),
            line("random", 1, 108, 100, 100, 90),
            *(line("random", m, 100, 100, 100, 100) for m in range(2, 8)),
        )
        assert {verdict for verdict, _ in found.values()} == {"holds"}
        assert found["default choice, linear layers, regret", "mean <= 2%"][1] == "1.90% over 1"
        assert found["default choice, random rectangles, regret", "each <= 8%"][1] == (
            "0 beyond, worst 8.0% at NT 1x8x8: row_x, best row_y"
        )
        assert found["tuned, time over the default's", "each <= 1.02"][1] == "worst 1.020 at NT 1x8x8"

    def test_beyond_the_limits_they_do_not(self, tmp_path: pathlib.Path) -> None:
        found = self.verdicts(tmp_path, line("linear", 1, 108.1, 100, 100, 102.1), line("random", 1, 102.1, 100, 1, 1))
        verdicts = {key: verdict for key, (verdict, _) in found.items()}
        assert verdicts == {
            ("default choice, linear layers, regret", "mean <= 2%"): "DOES NOT HOLD",
            ("default choice, linear layers, regret", "each <= 8%"): "DOES NOT HOLD",
            ("default choice, random rectangles, regret", "mean <= 2%"): "DOES NOT HOLD",
            ("default choice, random rectangles, regret", "each <= 8%"): "holds",
            ("tuned, time over the default's", "each <= 1.02"): "DOES NOT HOLD",
        }

    def test_a_set_that_is_missing_is_not_measured(self, tmp_path: pathlib.Path) -> None:
        found = self.verdicts(tmp_path, line("linear", 1, 100, 100, 100, 100))
        assert [verdict for verdict, _ in found.values()] == ["holds", "holds", "not measured", "not measured", "holds"]
        assert {verdict for verdict, _ in self.verdicts(tmp_path).values()} == {"not measured"}

    def test_all_targets_have_them(self, tmp_path: pathlib.Path) -> None:
        self.verdicts(tmp_path, line("linear", 1, 100, 100, 100, 100))
        assert any(target.what == "tuned, time over the default's" for target in all_targets(tmp_path))
