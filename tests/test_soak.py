"""The soak test: two thousand calls of it find nothing, its cases can be called again, and it ends as it should."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
import soak_workers
from benchmark_files import HEAD_KEYS, ROOT, run

OPS = (
    *("matmul", "matmul.out", "matmul.backward", "block_scaled_matmul", "block_scaled_matmul.out"),
    *("quantize", "dequantize", "pack_scales", "unpack_scales"),
)
SOAK = [sys.executable, str(ROOT / "tests" / "soak")]
ON_THE_CPU = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
NOTHING_FOUND = "0 mismatches, 0 writes outside, 0 unexpected errors, 0 bad calls accepted"


def assert_nothing_found(output: str, least_calls: int) -> None:
    last = [line for line in output.splitlines() if line.startswith("soak: ")]
    assert len(last) == 1, output
    assert NOTHING_FOUND in last[0], output
    assert int(re.findall(r"soak: ([\d,]+) calls", last[0])[0].replace(",", "")) >= least_calls
    for op in OPS:
        assert re.search(rf"^{re.escape(op)} +[1-9]", output, re.MULTILINE), f"no call of {op}"
    assert "refused" in output


class TestRuns:
    def test_two_thousand_random_calls_find_nothing(self, tmp_path: pathlib.Path) -> None:
        path = tmp_path / "soak.txt"
        command = [*SOAK, "--seconds", "20", "--calls", "2000", "--processes", "2", "--out", str(path)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, env=ON_THE_CPU)
        assert result.returncode == 0, result.stdout + result.stderr
        assert_nothing_found(result.stdout, least_calls=200)
        written = path.read_text()
        assert {line[2:].split(":")[0] for line in written.splitlines() if line.startswith("# ")} >= HEAD_KEYS
        assert str(tmp_path) not in written, "the report names no folder of this machine"
        assert written.endswith(result.stdout[: result.stdout.index("report: ")])

    @pytest.mark.gpu
    def test_twenty_seconds_on_the_gpu_find_nothing(self) -> None:
        command = [*SOAK, "--seconds", "20", "--processes", "2"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
        assert result.returncode == 0, result.stdout + result.stderr
        assert_nothing_found(result.stdout, least_calls=200)
        assert "on cuda" in result.stdout

    def test_ctrl_c_tells_what_was_counted_and_leaves_no_process(self) -> None:
        """As a terminal has it: every process of the group gets the signal."""
        command = [*SOAK, "--seconds", "600", "--processes", "2"]
        started = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=ON_THE_CPU,
            start_new_session=True,
        )
        try:
            assert started.stderr is not None
            first = started.stderr.readline()
            assert re.match(r"[\d,]+ calls in", first), first
            os.killpg(started.pid, signal.SIGINT)
            output, errors = started.communicate(timeout=60)
            assert started.returncode == 130, output + errors
            assert "stopped by Ctrl-C" in output
            assert re.search(rf"^soak: [1-9].*{NOTHING_FOUND}$", output, re.MULTILINE), output
            assert "Traceback" not in errors
            assert_group_ends(started.pid)
        finally:
            if started.poll() is None:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()

    @pytest.mark.parametrize(
        "arguments",
        [("--seconds", "0"), ("--ops", "matmul,matmull"), ("--replay", "1:2"), ("--processes", "0"), ("--calls", "-1")],
        ids=" ".join,
    )
    def test_nonsense_is_refused(
        self, arguments: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from soak import __main__ as soak

        monkeypatch.setattr(sys, "argv", ["tests/soak", *arguments])
        with pytest.raises(SystemExit) as exit_:
            soak.main()
        assert exit_.value.code == 2
        assert arguments[0] in capsys.readouterr().err


def assert_group_ends(group: int) -> None:
    """multiprocessing's own helper ends a moment after its parent."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("a process is left")


class TestReplay:
    def test_a_case_is_the_same_whenever_it_is_drawn(self) -> None:
        import torch
        from soak.cases import draw_case

        for index in range(60):
            first, second = draw_case(3, 1, index), draw_case(3, 1, index)
            assert first is not None
            assert second is not None
            assert first.described() == second.described()
            for (_, left), (_, right) in zip(first.call.operands(), second.call.operands(), strict=True):
                assert torch.equal(left.storage, right.storage)
        described = {draw_case(*name).described() for name in ((3, 1, 0), (3, 1, 1), (3, 0, 0), (4, 1, 0))}  # type: ignore[union-attr]
        assert len(described) == 4

    def test_which_ops_run_changes_no_case(self) -> None:
        from soak.cases import draw_case

        for index in range(40):
            whole = draw_case(1, 0, index)
            alone = draw_case(1, 0, index, frozenset({"quantize"}))
            assert whole is not None
            if whole.call.op == "quantize":
                assert alone is not None
                assert alone.described() == whole.described()
            else:
                assert alone is None

    def test_a_report_names_the_command_that_finds_it_again(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from soak import __main__ as soak
        from soak import run
        from soak.cases import draw_case
        from soak.tally import Name, report_of

        index = next(at for at in range(1000) if is_good(draw_case(1, 0, at), "dequantize"))
        case = draw_case(1, 0, index)
        assert case is not None
        sound = run.function_of
        monkeypatch.setattr(
            run, "function_of", lambda call: lambda *values, **options: -sound(call)(*values, **options)
        )
        verdict = run.run_case(case, soak.torch.device("cpu"))
        report = str(report_of(Name(1, 0, index), "cpu", case, verdict))
        command = report.splitlines()[-1].removeprefix("again: python ")
        assert command == f"tests/soak --replay 1:0:{index} --device cpu"
        assert "mismatches: result: " in report

        monkeypatch.setattr(sys, "argv", command.split())
        assert soak.main() == 1
        assert capsys.readouterr().out.strip() == report[: report.index("again: ")].strip()
        monkeypatch.setattr(run, "function_of", sound)
        assert soak.main() == 0
        assert "nothing is wrong" in capsys.readouterr().out


def is_good(case: Any, op: str) -> bool:
    """A call of the op with a result that is not empty and not its own negative."""
    if case is None or case.flaw is not None or case.call.op != op:
        return False
    values = case.wanted(None)["result"].expected
    return bool(((values != 0) & ~values.isnan()).any())


class TestProcesses:
    def plan(self, **changed: Any) -> Any:
        from soak.processes import Plan

        whole = {"seed": 1, "processes": 2, "device": "cpu", "ops": frozenset(OPS), "seconds": None, "calls": None}
        return Plan(**{**whole, **changed})

    def test_one_that_dies_and_one_that_hangs_are_findings_of_their_cases(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from soak import processes
        from soak.cases import draw_case

        monkeypatch.setattr(processes, "_HUNG_SECONDS", 1.0)
        told: list[Any] = []
        soak = processes.Soak(self.plan(), told.append, lambda tally, seconds: None, soak_workers.dies_or_hangs)
        outcome = soak.run()
        assert outcome.tally.calls["matmul", "float32"] == 2, "what they had counted is kept"
        assert outcome.tally.findings == {"unexpected errors": 2}
        assert not outcome.interrupted
        texts = sorted(str(report) for report in outcome.reports)
        assert len(texts) == len(told) == 2
        for process, why in ((0, "exit status -9"), (1, "in this case for 1 s")):
            case = draw_case(1, process, soak_workers.INDEX)
            assert case is not None
            assert case.described() in texts[process]
            assert why in texts[process]
            assert f"--replay 1:{process}:{soak_workers.INDEX}" in texts[process]

    def test_calls_are_shared_out(self) -> None:
        plan = self.plan(processes=3, calls=10)
        assert [plan.share(process) for process in range(3)] == [4, 3, 3]

    def test_a_process_makes_its_share_and_tells_it(self) -> None:
        from soak import processes

        pipe, current = FakePipe(), FakeNumber()
        processes.work(self.plan(calls=25), 1, pipe, current)
        last = pipe.sent[-1]
        assert last.is_last
        assert last.tally.total == 12
        assert not last.tally.findings
        assert current.value >= 11

    def test_a_process_stops_when_it_is_told_to(self) -> None:
        from soak import processes

        pipe = FakePipe(stop_after=3)
        processes.work(self.plan(), 0, pipe, FakeNumber())
        assert pipe.sent[-1].is_last
        assert pipe.sent[-1].tally.total == 3

    def test_a_lost_gpu_ends_its_process_and_reports_are_limited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from soak import processes
        from soak.run import ERROR, Finding, Verdict

        bad = Verdict((Finding(ERROR, "made up"),))
        monkeypatch.setattr(processes, "run_case", lambda case, device: bad)
        monkeypatch.setattr(processes, "_REPORTS", 5)
        pipe = FakePipe()
        processes.work(self.plan(calls=20), 0, pipe, FakeNumber())
        assert pipe.sent[-1].tally.findings[ERROR] == 10
        assert sum(len(message.reports) for message in pipe.sent) == 5

        lost = Verdict(bad.findings, device_is_lost=True)
        monkeypatch.setattr(processes, "run_case", lambda case, device: lost)
        processes.work(self.plan(calls=20), 0, pipe, FakeNumber())
        assert pipe.sent[-1].tally.findings[ERROR] == 1


class FakeNumber:
    value = -1


class FakePipe:
    """Keeps what is sent; asks to stop when it has been looked at so often."""

    def __init__(self, stop_after: int = 10**9) -> None:
        self.sent: list[Any] = []
        self._left = stop_after

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def poll(self) -> bool:
        self._left -= 1
        return self._left < 0


def test_run_all_has_the_stage() -> None:
    listed = [line.split(maxsplit=3) for line in run("--list", script="run_all.py").stdout.splitlines()]
    (mine,) = (line for line in listed if line[:1] == ["soak"])
    assert "tests/soak --seconds 120 --processes 8 --seed 1 --out" in mine[-1]
    assert mine[-1].endswith("soak.txt")
    assert [line[0] for line in listed].index("soak") < [line[0] for line in listed].index("demo")
