"""tileon_ops.tune and the shell's command, with simulated GPUs and times."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch
from simulated_tuning import CHOSEN, FASTER, NN, NT, SHAPE, SimulatedTuning, load, simulated, tune_module

import tileon_ops
from tileon_ops._rules import configs
from tileon_ops.tune import __main__ as tune_command
from tileon_ops.tune import cache
from tileon_ops.tune.cache import DEFAULT

__all__ = ["simulated"]  # the fixture

ROOT = pathlib.Path(__file__).resolve().parent.parent


class TestTune:
    def test_what_is_faster_runs_from_now_on_and_in_later_processes(self, simulated: SimulatedTuning) -> None:
        report = tileon_ops.tune([SHAPE])
        assert [one.problem for one in report] == simulated.measured == [NN, NT]
        for one in report:
            assert (one.row, one.us, one.default_us, one.measured) == (FASTER, 10.0, 20.0, True)
            assert one.gain == 1.0
            assert simulated.row(one.problem) == FASTER
            assert simulated.row(one.problem, device=0) == FASTER, "the other GPU is of the same model"
        simulated.forget()
        assert simulated.row(NN) == ""
        load()
        assert simulated.row(NN) == simulated.row(NT) == FASTER
        assert simulated.measured == [NN, NT], "nothing more"

    def test_where_nothing_is_faster_the_choice_stays_and_that_is_known(self, simulated: SimulatedTuning) -> None:
        simulated.clock.seconds = {DEFAULT: 1e-5, FASTER: 1e-5}
        (one,) = tileon_ops.tune([SHAPE], layouts="NN")
        assert (one.row, one.gain) == (DEFAULT, 0.0)
        assert simulated.row(NN) == ""
        simulated.forget()
        (one,) = tileon_ops.tune([SHAPE], layouts="NN")
        assert not one.measured
        assert simulated.measured == [NN]

    def test_what_is_known_is_measured_again_only_with_force(self, simulated: SimulatedTuning) -> None:
        tileon_ops.tune([SHAPE], layouts="NN")
        simulated.clock.seconds = {DEFAULT: 2e-5, CHOSEN: 1e-5}
        (one,) = tileon_ops.tune([SHAPE], layouts="NN")
        assert (one.row, one.measured) == (FASTER, False)
        (one,) = tileon_ops.tune([SHAPE], layouts="NN", force=True)
        assert (one.row, one.measured) == (CHOSEN, True)
        assert simulated.row(NN) == CHOSEN
        simulated.forget()
        load()
        assert simulated.row(NN) == CHOSEN

    def test_while_it_measures_the_library_chooses_by_itself(self, simulated: SimulatedTuning) -> None:
        tileon_ops.tune([SHAPE], layouts="NN")
        rows = set()
        simulated.clock.meanwhile = lambda: rows.add(simulated.row(NN))
        tileon_ops.tune([SHAPE], layouts="NN", force=True)
        assert rows == {DEFAULT}

    def test_under_autocast_what_is_measured_is_not_cast(self, simulated: SimulatedTuning) -> None:
        states = set()
        simulated.clock.meanwhile = lambda: states.add(torch.is_autocast_enabled("cuda"))
        before = torch.is_autocast_enabled("cuda")
        torch.set_autocast_enabled("cuda", True)
        try:
            tileon_ops.tune([SHAPE], "float32", layouts="NN")
            assert torch.is_autocast_enabled("cuda")
        finally:
            torch.set_autocast_enabled("cuda", before)
        assert states == {False}

    def test_a_failure_is_raised_and_leaves_what_was_set(self, simulated: SimulatedTuning) -> None:
        tileon_ops.tune([SHAPE], layouts="NN")

        def fail() -> None:
            raise torch.OutOfMemoryError("no memory")

        simulated.clock.meanwhile = fail
        with pytest.raises(torch.OutOfMemoryError, match="no memory"):
            tileon_ops.tune([SHAPE], layouts="NN", force=True)
        assert simulated.row(NN) == FASTER

    def test_problems_that_are_one_are_measured_once(self, simulated: SimulatedTuning) -> None:
        """With one row of `a`, its layouts are the same."""
        report = tileon_ops.tune([(1, 96, 128)], layouts=("NN", "TN", "NN"), force=True)
        assert len(report) == len(simulated.measured) == 1

    def test_without_a_cache_folder_it_tunes_this_process(
        self, simulated: SimulatedTuning, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cache, "directory", lambda: None)
        report = tileon_ops.tune([SHAPE], layouts="NN")
        assert report.cache is None
        assert "in this process alone" in str(report)
        assert simulated.row(NN) == FASTER

    def test_where_the_cache_cannot_be_written_it_tunes_this_process(self, simulated: SimulatedTuning) -> None:
        simulated.folder.write_text("a file in the folder's place")
        with pytest.warns(UserWarning, match="not kept beyond this process") as caught:
            tileon_ops.tune([SHAPE])
        assert len(caught) == 1
        assert simulated.row(NN) == simulated.row(NT) == FASTER

    def test_the_report_is_a_table(self, simulated: SimulatedTuning) -> None:
        tileon_ops.tune([SHAPE], layouts="NT")
        report = tileon_ops.tune([SHAPE])
        lines = str(report).splitlines()
        assert lines[0].split() == ["problem", "default", "us", "fastest", "us", "gain"]
        assert lines[1].startswith(NN)
        assert lines[1].endswith(f"20.0  {FASTER}  10.0  100.0 %")
        assert lines[2].endswith("known")
        assert lines[3] == (f"2 of 2 problems are faster tuned, on Made-up GPU 9000; kept in {simulated.file.path}")

    def test_a_bar_is_shown_on_a_terminal_alone(
        self, simulated: SimulatedTuning, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        tileon_ops.tune([SHAPE], layouts="NN")
        assert capsys.readouterr() == ("", "")
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        tileon_ops.tune([SHAPE], layouts="NN", progress=False)
        assert capsys.readouterr() == ("", "")
        tileon_ops.tune([SHAPE], layouts="NN")
        shown = capsys.readouterr().err
        assert "0/1 bfloat16 NN 64x96x128" in shown
        assert shown.endswith("\r\033[K"), "and is taken away"


class TestProducts:
    """What is measured for which arguments."""

    def problems(self, simulated: SimulatedTuning, *arguments: object, **options: object) -> list[str]:
        return [one.problem for one in tileon_ops.tune(*arguments, **options)]  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("dtype", "named"),
        [
            ("float16", "float16->float16"),
            (torch.float32, "float32->float32"),
            ("tf32", "tf32->float32"),
            ("torch.float64", "float64->float64"),
            (torch.float8_e4m3fn, "float8_e4m3fn->float16"),
            ("float8_e5m2*float8_e4m3fn", "float8_e5m2*float8_e4m3fn->float16"),
            ("float8_e5m2*float8_e5m2", "float8_e5m2->float16"),
        ],
    )
    def test_dtypes(self, simulated: SimulatedTuning, dtype: object, named: str) -> None:
        assert self.problems(simulated, [SHAPE], dtype, layouts="NT") == [
            f"matmul {named} 1x64x96x128 a=k b=k out=rows plain"
        ]

    @pytest.mark.parametrize(
        ("layout", "lie"), [("NN", "a=k b=mn"), ("NT", "a=k b=k"), ("TN", "a=mn b=mn"), ("TT", "a=mn b=k")]
    )
    def test_layouts(self, simulated: SimulatedTuning, layout: str, lie: str) -> None:
        (problem,) = self.problems(simulated, [SHAPE], layouts=layout)
        assert f" {lie} " in problem

    @pytest.mark.parametrize("fmt", ["mxfp8", "mxfp4", "mixed", "nvfp4"])
    def test_formats(self, simulated: SimulatedTuning, fmt: str) -> None:
        """Given alone, they are all that is measured."""
        assert self.problems(simulated, [SHAPE], formats=fmt, out_dtype="bfloat16", bias=True) == [
            f"block_scaled_matmul {fmt}->bfloat16 64x96x128 scales=packed out=rows plain"
        ]

    @pytest.mark.parametrize(
        "fmt",
        [
            *("int8_row", "int8_row*int8_tensor", "float8_e4m3fn_tensor", "float8_e5m2_row"),
            "float8_e4m3fn_1x128*float8_e4m3fn_128x128",
            *("bfloat16*mxfp8", "bfloat16*mxfp4", "float16*nvfp4", "float16*int8_row", "bfloat16*float8_e5m2_128x128"),
        ],
    )
    def test_formats_of_float32_scales_and_of_a_16_bit_a(self, simulated: SimulatedTuning, fmt: str) -> None:
        shape = (256, 384, 256)  # of several blocks of 128
        (problem,) = self.problems(simulated, [shape], formats=fmt, bias=True)
        default = fmt.partition("*")[0] if fmt.startswith(("bfloat16", "float16")) else "float16"
        assert problem == f"block_scaled_matmul {fmt}->{default} 256x384x256 a=k b=k out=rows plain"

    def test_one_kind_has_one_name(self, simulated: SimulatedTuning) -> None:
        found = self.problems(simulated, [SHAPE], formats=["int8_row*int8_row", "int8_row"])
        assert found == ["block_scaled_matmul int8_row->float16 64x96x128 a=k b=k out=rows plain"]
        assert self.problems(simulated, [(64, 96, 100)], formats="float16*int8_row")  # any k

    def test_every_combination(self, simulated: SimulatedTuning) -> None:
        shapes = [SHAPE, (3, 64, 96, 128)]
        found = self.problems(simulated, shapes, ["bfloat16", "float16"])
        assert len(found) == len(set(found)) == 2 * 2 * 2
        assert sum(" 3x64x96x128 " in problem for problem in found) == 4
        assert self.problems(simulated, [SHAPE], "bfloat16", formats=["mxfp8", "nvfp4"], layouts="NN")[1:] == [
            f"block_scaled_matmul {fmt}->float16 64x96x128 scales=packed out=rows plain" for fmt in ("mxfp8", "nvfp4")
        ]

    def test_options_of_the_call(self, simulated: SimulatedTuning) -> None:
        (problem,) = self.problems(
            simulated, [SHAPE], "float8_e4m3fn", layouts="NT", activation="gelu", out_dtype=torch.float32,
            fast_accum=True, bias=True,
        )  # fmt: skip
        assert problem == "matmul float8_e4m3fn->float32 fast 1x64x96x128 a=k b=k out=rows costly"

    @pytest.mark.parametrize(
        ("arguments", "options", "text"),
        [
            ((5,), {}, "`shapes` must be several of"),
            (([],), {}, "there is nothing to measure"),
            (([SHAPE], ()), {}, "there is nothing to measure"),
            (
                ([(1, 2)],),
                {},
                r"each of `shapes` must be \(m, n, k\) or \(batch, m, n, k\), of positive integers, got \(1, 2\)",
            ),
            ((SHAPE,), {}, "each of `shapes` must be .*, got 64"),
            (([(1, 2, 0)],), {}, "each of `shapes` must be"),
            (([(1, 2, 3.0)],), {}, "each of `shapes` must be"),
            (([(1, 2, True)],), {}, "each of `shapes` must be"),
            ((["1x2x3"],), {}, "each of `shapes` must be"),
            (([SHAPE], "int8"), {}, "`dtypes` must be among float16, .*, got 'int8'"),
            (([SHAPE], "mxfp8"), {}, ".*got 'mxfp8': formats with scales go into `formats`"),
            (([SHAPE], "bfloat16*int8_row"), {}, ".*got 'bfloat16.int8_row': formats with scales go into `formats`"),
            (([SHAPE], "float16*bfloat16"), {}, "`dtypes` must be among"),
            (([SHAPE],), {"layouts": "NX"}, "`layouts` must be among NN, NT, TN, TT, got 'NX'"),
            *(
                (
                    ([SHAPE],),
                    {"formats": name},
                    f"`formats` must be among mxfp8, mxfp4, mixed, nvfp4, .*got '{re.escape(name)}'",
                )
                for name in ("mxfp6", "int8_1x128", "int8_row*mxfp8", "float32*mxfp8", "float16", "mxfp8*nvfp4")
            ),
            (([(3, 64, 96, 128)],), {"formats": "mxfp8"}, r"each of `shapes` must be \(m, n, k\), of"),
            (([(64, 96, 48)],), {"formats": "mxfp8"}, "k must be a multiple of 32 for mxfp8, got 48"),
            (([(64, 96, 8)],), {"formats": "float16*nvfp4"}, "k must be a multiple of 16 for float16.nvfp4, got 8"),
            (([SHAPE],), {"activation": "elu"}, "matmul: `activation` must be one of none, .*elu"),
            (([SHAPE], "float64"), {"out_dtype": torch.float16}, "matmul: .*float64"),
            (([SHAPE],), {"out_dtype": "float17"}, "`out_dtype` must be a dtype, got 'float17'"),
            (([SHAPE],), {"out_dtype": 16}, "`out_dtype` must be a dtype, got 16"),
            (([SHAPE],), {"seconds": 0}, "`seconds` must be positive, got 0"),
        ],
        ids=str,
    )
    def test_what_does_not_fit_is_refused_before_anything_is_measured(
        self, simulated: SimulatedTuning, arguments: tuple[object, ...], options: dict[str, object], text: str
    ) -> None:
        with pytest.raises(RuntimeError, match=f"^tune: {text}"):
            tileon_ops.tune(*arguments, **options)  # type: ignore[arg-type]
        assert simulated.measured == []
        assert not simulated.folder.exists()


class TestDevice:
    def refused(self, device: object = None) -> str:
        with pytest.raises(RuntimeError) as caught:
            tileon_ops.tune([SHAPE], device=device)  # type: ignore[arg-type]
        return str(caught.value)

    def test_the_cpu_is_refused(self) -> None:
        assert self.refused("cpu") == "tune: `device` must be a GPU, got cpu"

    def test_a_machine_without_a_gpu_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(configs, "dense", lambda: [object()])
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        assert self.refused() == "tune: needs a GPU, and torch can use none here"

    def test_a_library_for_the_cpu_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(configs, "dense", list)
        assert self.refused().startswith("tune: this library was built for the CPU alone")

    def test_a_gpu_that_is_not_there_and_a_captured_graph_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(configs, "dense", lambda: [object()])
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        assert self.refused(2) == "tune: `device` is cuda:2, and torch can use 2 GPUs here"
        assert self.refused() == "tune: cannot measure while a CUDA graph is captured"


class TestShell:
    def main(self, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["tune", *arguments])
        return tune_command.main()

    def test_it_tunes_shows_and_clears(
        self, simulated: SimulatedTuning, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        options = ["--shapes", "64x96x128,3x64x96x128", "--dtype", "bfloat16,float16", "--layout", "NN"]
        assert self.main(monkeypatch, *options) == 0
        assert "4 of 4 problems are faster tuned" in capsys.readouterr().out
        assert len(simulated.measured) == 4
        assert self.main(monkeypatch, "--shapes", "64x96x128", "--format", "mxfp8", "--force", "--fast-accum") == 0
        assert "block_scaled_matmul mxfp8->float16 fast" in capsys.readouterr().out

        (simulated.folder / "tuned-x.json").write_text("{")
        assert self.main(monkeypatch, "--show") == 0
        shown = capsys.readouterr().out
        assert f"tuning cache: {simulated.folder}, 2 files" in shown
        assert "Made-up GPU 9000, 7 multiprocessors; of this library" in shown
        assert NN in shown
        assert "cannot be read" in shown

        assert self.main(monkeypatch, "--clear") == 0
        assert capsys.readouterr().out == f"2 files removed from {simulated.folder}\n"
        assert simulated.row(NN) == ""
        assert self.main(monkeypatch, "--show") == 0
        assert "0 files" in capsys.readouterr().out

    @pytest.mark.parametrize("arguments", [(), ("--shapes", "12"), ("--shapes", "axbxc")], ids=str)
    def test_nonsense_is_refused(
        self, simulated: SimulatedTuning, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...],
        capsys: pytest.CaptureFixture[str],
    ) -> None:  # fmt: skip
        try:
            status: object = self.main(monkeypatch, *arguments)
        except SystemExit as ended:
            status = ended.code
        assert status in (1, 2)
        assert "shapes" in capsys.readouterr().err
        assert simulated.measured == []

    def test_as_a_module_and_as_a_function_without_a_warning(self, tmp_path: pathlib.Path) -> None:
        environment = {**os.environ, "TILEON_CACHE_DIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
        program = "import tileon_ops.tune; import tileon_ops; assert tileon_ops.tune.__name__ == 'tune'"
        for arguments in (["-m", "tileon_ops.tune", "--show"], ["-c", program]):
            done = subprocess.run(
                [sys.executable, "-W", "error::RuntimeWarning", *arguments],
                capture_output=True, text=True, timeout=120, cwd=ROOT, env=environment,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            assert done.stderr == ""


def test_the_file_is_json_with_what_it_is_of(simulated: SimulatedTuning) -> None:
    tileon_ops.tune([SHAPE], layouts="NN")
    document = json.loads(simulated.file.path.read_text())
    assert document["gpu"] == {"name": "Made-up GPU 9000", "capability": "9.0", "multiprocessors": 7}
    assert document["library"]["version"] == tileon_ops.__version__
    assert list(document["problems"]) == [NN]


def test_the_function_is_the_modules() -> None:
    assert tileon_ops.tune is tune_module.tune
