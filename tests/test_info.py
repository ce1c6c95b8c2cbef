"""`python -m tileon_ops.info`: what it says, and that nothing broken keeps it from saying the rest."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
import torch
from package_copies import ROOT, package_in, run

import tileon_ops
from tileon_ops import info
from tileon_ops._rules import configs
from tileon_ops.info import doctor

KEYS = {
    "package": {"version", "path", "is_source_tree"},
    "python": {"version", "executable", "platform", "machine", "libc", "free_threaded"},
    "torch": {"version", "path", "cuda", "hip", "cxx11_abi", "debug", "failure"},
    "cuda": {
        *("driver", "driver_cuda", "driver_problem", "toolkit", "toolkit_path", "visible_devices"),
        *("usable_by_torch", "torch_problem", "gpus"),
    },
    "library": {
        *("path", "exists", "loads", "failure", "version", "cuda", "targets", "torch", "stable_abi", "watchdog"),
        *("sources", "rows_of_hopper", "rows_portable", "gpus"),
    },
    "backends": {"calls"},
    "variables": {
        *("TILEON_LIBRARY", "TILEON_HOPPER", "TILEON_PDL", "TILEON_LOG", "TILEON_TUNE", "TILEON_CACHE_DIR"),
        "TILEON_CPU_VECTORS",
        "TILEON_BATCH_INVARIANT",
        *("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_LAUNCH_BLOCKING", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"),
    },
    "tuning_cache": {"path", "exists", "writable", "entries", "files", "failure"},
    "copies": {"on_path", "installed", "mapped"},
}


def document(*arguments: str, **options: Any) -> dict[str, Any]:
    result = run("-m", "tileon_ops.info", "--json", *arguments, **options)
    found: dict[str, Any] = json.loads(result.stdout)
    assert result.returncode == (0 if found["usable"] else 1), result.stderr
    return found


def check_keys(found: dict[str, Any]) -> None:
    """Every key is there, and no other: programs read them."""
    assert found.keys() == {"schema", "usable", "problems", *KEYS}
    for section, keys in KEYS.items():
        assert found[section].keys() == {*keys, "error"}, section
    for problem in found["problems"]:
        assert problem.keys() == {"level", "what", "do"}
        assert problem["level"] in ("error", "warning")
        assert problem["what"].endswith((".", "?"))
        assert problem["do"]


def whats(found: dict[str, Any]) -> str:
    return "\n".join(problem["what"] for problem in found["problems"])


def section(look: Any, name: str = "any", **empty: Any) -> doctor.Section:
    return doctor.Section(name, empty, look)


@pytest.fixture(scope="module")
def here() -> dict[str, Any]:
    """What the command says of this machine."""
    return document()


class TestJson:
    def test_has_its_keys(self, here: dict[str, Any]) -> None:
        check_keys(here)
        assert [here[name]["error"] for name in KEYS] == [None] * len(KEYS)

    def test_keys_stand_in_the_documentation(self) -> None:
        for name, keys in KEYS.items():
            text = info.__doc__ or ""
            assert name in text
            for key in keys if name != "variables" else ():
                assert re.search(rf"\b{key}\b", text), (name, key)

    def test_says_what_is_here(self, here: dict[str, Any]) -> None:
        assert here["usable"] is True
        assert here["package"]["version"] == tileon_ops.__version__
        assert here["torch"]["version"] == torch.__version__
        assert here["torch"]["cuda"] == torch.version.cuda
        assert here["python"]["executable"] == sys.executable
        assert here["library"]["loads"] is True
        assert here["library"]["stable_abi"] == "2.11"
        assert here["cuda"]["usable_by_torch"] == torch.cuda.is_available()

    def test_counts_the_rows_of_both_tables(self, here: dict[str, Any]) -> None:
        backends = [config.backend for config in (*configs.dense(), *configs.block_scaled())]
        assert here["library"]["rows_of_hopper"] == backends.count("sm90")
        assert here["library"]["rows_portable"] == backends.count("sm80")

    def test_has_a_kernel_for_every_op_and_dtype(self, here: dict[str, Any]) -> None:
        kernels = {(call["op"], call["dtype"]): call["kernel"] for call in here["backends"]["calls"]}
        for dtype in ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"):
            assert kernels["matmul", dtype], dtype
        weights = ("bfloat16*mxfp8", "bfloat16*nvfp4", "bfloat16*int8_row", "bfloat16*float8_e4m3fn_128x128")
        float32 = ("float8_e4m3fn_row", "float8_e4m3fn_1x128*float8_e4m3fn_128x128", "float8_e5m2_row", "int8_row")
        for form in ("mxfp8", "mxfp4", "mixed", "nvfp4", *weights, *float32):
            assert kernels["block_scaled_matmul", form], form
        for form in ("mxfp8", "mxfp4", "nvfp4"):
            assert kernels["quantize", form]
            assert kernels["dequantize", form]
        cpu = [call for call in here["backends"]["calls"] if call["device"] == "cpu"]
        assert {call["why_not_faster"] for call in cpu} == {"CPU tensors: tiles in plain C++, and ATen"}

    @pytest.mark.gpu
    def test_says_why_odd_strides_take_another_kernel(self, here: dict[str, Any]) -> None:
        calls = {
            (call["dtype"], call["operands"]): call for call in here["backends"]["calls"] if call["device"] != "cpu"
        }
        for dtype in ("float16", "bfloat16"):
            aligned, odd = calls[dtype, "aligned"], calls[dtype, "odd strides"]
            assert configs.config_of(aligned["kernel"]) is not None
            assert "copied" not in aligned["kernel"]
            of_odd = configs.config_of(odd["kernel"])
            assert of_odd is not None
            assert of_odd.backend == "sm80" or "copied" in odd["kernel"]
            assert odd["why_not_faster"]

    @pytest.mark.gpu
    def test_names_the_switch_that_leaves_hoppers_kernels_out(self, here: dict[str, Any]) -> None:
        if here["cuda"]["gpus"][0]["capability"] != "9.0" or not here["library"]["rows_of_hopper"]:
            pytest.skip("needs Hopper and its kernels")
        calls = document(TILEON_HOPPER="0")["backends"]["calls"]
        reasons = {call["why_not_faster"] for call in calls if call["dtype"] == "bfloat16" and call["device"] != "cpu"}
        assert reasons == {"TILEON_HOPPER=0"}

    def test_is_the_same_from_python(self, here: dict[str, Any]) -> None:
        found = info.report()
        check_keys(found)
        assert found["library"] == here["library"]


class TestText:
    def test_has_every_section_and_the_problems_last(self) -> None:
        result = run("-m", "tileon_ops.info")
        assert result.returncode == 0, result.stderr
        titles = re.findall(r"^== (.*)$", result.stdout, re.MULTILINE)
        assert titles == [name.replace("_", " ") for name in KEYS] + ["problems"]
        for word in (torch.__version__, "_C.so", "cpu_aten", "not set: the package's own library"):
            assert word in result.stdout
        assert "not shown" not in result.stdout

    def test_shows_the_variables_that_are_set(self) -> None:
        result = run("-mtileon_ops.info", TILEON_PDL="0")
        assert re.search(r"^TILEON_PDL: +0$", result.stdout, re.MULTILINE), result.stdout

    def test_a_reader_that_stops_reading_gets_no_traceback(self) -> None:
        command = f"{sys.executable} -m tileon_ops.info | head -1"
        result = subprocess.run(
            ["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120, env={**os.environ}
        )
        assert result.stdout == "== package\n"
        assert result.stderr == ""

    def test_a_reader_of_an_explanation_that_stops_reading_gets_no_traceback(self) -> None:
        """The reader has ended before anything is written. A library for the CPU alone explains nothing."""
        script = "from tileon_ops.info import __main__ as m; m.explain = print; m.main(['--explain', '8x8x8'])"
        command = f'{sys.executable} -c "{script}" | true'
        result = subprocess.run(
            ["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=120, env={**os.environ}
        )
        assert (result.stdout, result.stderr) == ("", "")


class TestExplanation:
    @staticmethod
    def expected(n: int) -> tuple[str, dict[str, float]]:
        """What is chosen for 448 x 6312 by 6312 x n in bfloat16, NT, and the nanoseconds expected of each candidate."""
        a, b = torch.empty(448, 6312, dtype=torch.bfloat16), torch.empty(n, 6312, dtype=torch.bfloat16).t()
        try:
            chosen, *others = torch.ops.tileon._explain_matmul(a, b).splitlines()
        except (NotImplementedError, RuntimeError):
            pytest.skip("a library for the CPU alone explains nothing")
        return chosen, {line.split()[0]: float(line.split()[1]) for line in others}

    def test_the_chosen_candidate_is_the_cheapest(self) -> None:
        chosen, expected = self.expected(416)
        assert chosen == f"chosen {min(expected, key=lambda name: expected[name])}"

    def test_is_of_an_output_without_gaps(self) -> None:
        """Whose rows of 416 elements are stored by TMA, those of 415 one by one: more than a hundredth is between."""
        aligned, odd = self.expected(416)[1], self.expected(415)[1]
        assert all(odd[name] > 1.01 * aligned[name] for name in ("sm90_cluster4x2_64x96x64", "sm90_gemm_64x64x128"))


class TestBroken:
    """Each breaks one thing; the rest is still said."""

    def torch_that(self, folder: pathlib.Path, does: str) -> dict[str, Any]:
        """What is said where `import torch` runs this."""
        (folder / "fake" / "torch").mkdir(parents=True)
        (folder / "fake" / "torch" / "__init__.py").write_text(does)
        found = document(path=f"{folder / 'fake'}:{ROOT}")
        check_keys(found)
        assert found["usable"] is False
        assert found["package"]["version"] == tileon_ops.__version__
        assert found["library"]["cuda"] is not None  # by its record
        return found

    def test_a_library_that_is_missing(self, tmp_path: pathlib.Path) -> None:
        found = document(path=package_in(tmp_path))
        check_keys(found)
        assert (found["usable"], found["library"]["exists"]) == (False, False)
        assert "tileon_ops is not built" in whats(found)
        assert found["torch"]["version"] == torch.__version__

    @pytest.mark.parametrize("flags", [["-um", "tileon_ops.info"], ["-umtileon_ops.info"]], ids=" ".join)
    def test_among_other_flags_of_python(self, tmp_path: pathlib.Path, flags: list[str]) -> None:
        """The package's own import, which fails, is left out there too."""
        result = run(*flags, path=package_in(tmp_path))
        assert result.returncode == 1
        assert "error: tileon_ops is not built" in result.stdout
        assert "Traceback" not in result.stderr

    def test_a_library_that_is_none(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "_C.so").write_text("not a library")
        result = run("-m", "tileon_ops.info", TILEON_LIBRARY=str(tmp_path / "_C.so"))
        assert result.returncode == 1
        assert "Traceback" not in result.stdout + result.stderr
        assert re.search(r"^error: .*it is no library.* TILEON_LIBRARY names it\.", result.stdout, re.MULTILINE)

    def test_a_torch_that_cannot_be_imported(self, tmp_path: pathlib.Path) -> None:
        found = self.torch_that(tmp_path, "raise ImportError('libcudart.so.13: cannot open shared object file')")
        assert "`import torch` fails: ImportError: libcudart.so.13: cannot open" in whats(found)

    def test_a_torch_that_crashes(self, tmp_path: pathlib.Path) -> None:
        found = self.torch_that(tmp_path, "print('noise')\nimport os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
        assert found["torch"]["error"] == "the process died of SIGSEGV here"

    def test_a_torch_that_ends_the_process(self, tmp_path: pathlib.Path) -> None:
        found = self.torch_that(tmp_path, "import os\nos._exit(3)")
        assert found["torch"]["error"] == "the process ended here, with exit status 3"

    def test_a_folder_of_torchs_name(self, tmp_path: pathlib.Path) -> None:
        found = self.torch_that(tmp_path, "")
        assert "`torch` is not PyTorch here" in whats(found)

    def test_no_torch_at_all(self) -> None:
        program = (
            "import runpy, sys\n"
            f"sys.path[:] = [{str(ROOT)!r}, *(entry for entry in sys.path if 'site-packages' not in entry)]\n"
            "sys.argv = ['-m', '--json']\nsys.orig_argv = ['python', '-m', 'tileon_ops.info']\n"
            "runpy.run_module('tileon_ops.info', run_name='__main__', alter_sys=True)\n"
        )
        result = run("-S", "-c", program, path="")
        found = json.loads(result.stdout)
        check_keys(found)
        assert result.returncode == 1
        assert f"{sys.executable} has no torch." in whats(found)

    def test_a_package_that_fails_behind_its_library(self, tmp_path: pathlib.Path) -> None:
        package = package_in(tmp_path, with_library=True)
        (package / "tileon_ops" / "nn" / "linear.py").write_text("raise NotImplementedError('broken')\n")
        found = document(path=package)
        check_keys(found)
        assert "`import tileon_ops` fails: NotImplementedError: broken." in whats(found)

    def test_a_record_of_another_library(self, tmp_path: pathlib.Path) -> None:
        package = package_in(tmp_path, with_library=True)
        record = json.loads((package / "tileon_ops" / "_C.json").read_text())
        (package / "tileon_ops" / "_C.json").write_text(json.dumps({**record, "library": "0"}))
        assert "is not the file that its _C.json describes" in whats(document(path=package))

    def test_a_variable_that_there_is_not(self) -> None:
        found = whats(document(TILEON_HOPER="0", TILEON_PDL="off", TILEON_COMMIT="abc", TILEON_TEST_LIMIT="60"))
        assert re.findall(r"TILEON_(\w+) is no variable of tileon_ops\.", found) == ["HOPER"]
        assert "TILEON_PDL='off' is neither 0 nor 1." in found


class TestSections:
    """A section that fails or never ends costs its own answer alone."""

    @staticmethod
    def good(examination: doctor.Examination) -> None:
        examination.facts["seen"] = sorted(examination.earlier)

    @staticmethod
    def apart(*sections: doctor.Section, seconds: float = 60) -> dict[str, doctor.Answer]:
        """The answers, by name."""
        return {answer.name: answer for answer in doctor.examine_apart(list(sections), seconds)}

    def test_what_was_found_before_an_error_is_kept(self) -> None:
        def look(examination: doctor.Examination) -> None:
            examination.facts["first"] = 1
            raise ValueError("broken")

        answer = doctor.examine(section(look, first=None, second=None), {})
        assert answer.facts == {"first": 1, "second": None, "error": "ValueError: broken"}
        assert answer.problems[0].level == "error"

    def test_what_json_cannot_hold_is_an_error(self) -> None:
        def look(examination: doctor.Examination) -> None:
            examination.facts["first"] = pathlib.Path("/x")

        answer = doctor.examine(section(look, first=None), {})
        assert answer.facts["first"] == "/x"
        assert "TypeError" in answer.facts["error"]

    def test_one_that_dies_is_named_and_the_others_go_on(self) -> None:
        def die(_: doctor.Examination) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        answers = self.apart(section(self.good, "a"), section(die, "b", key=None), section(self.good, "c"))
        assert answers["b"].facts == {"key": None, "error": "the process died of SIGKILL here"}
        assert answers["c"].facts == {"seen": ["a", "b"], "error": None}

    def test_one_that_does_not_end_is_given_up(self) -> None:
        def hang(_: doctor.Examination) -> None:
            time.sleep(600)

        answers = self.apart(section(hang, "a"), section(self.good, "b"), seconds=0.5)
        assert "did not end within" in answers["a"].facts["error"]
        assert answers["b"].facts["error"] is None

    def test_where_no_process_can_be_started_it_looks_by_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fork() -> int:
            raise OSError("Resource temporarily unavailable")

        monkeypatch.setattr(os, "fork", fork)
        answers = self.apart(section(self.good, "a"), section(self.good, "b"))
        assert answers["b"].facts == {"seen": ["a"], "error": None}
