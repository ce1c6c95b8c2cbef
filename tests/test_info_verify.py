"""`verify`, `info` and the two command lines."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch

import tileon_ops

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, **environment},
    )


class TestVerify:
    def test_prints_a_table_of_passes_and_returns_true(
        self, device: torch.device, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert tileon_ops.verify(device) is True
        text = capsys.readouterr().out
        assert len(re.findall(r"\bpass\b", text)) >= 12
        assert "FAIL" not in text
        for word in ("float16", "bfloat16", "float32", "float64", "leaky_relu", "bias"):
            assert word in text, word
        assert ("cpu_aten" if device.type == "cpu" else "sm") in text

    def test_a_wrong_result_is_a_fail(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """torch's side is spoilt by one hundredth of its largest element: the table must say FAIL, and verify False."""
        honest = torch.matmul

        def spoilt(*arguments: object, **options: object) -> torch.Tensor:
            result = honest(*arguments, **options)  # type: ignore[arg-type]
            return result + 0.5 * result.abs().max()

        monkeypatch.setattr(torch, "matmul", spoilt)
        assert tileon_ops.verify("cpu") is False
        assert "FAIL" in capsys.readouterr().out

    def test_from_the_shell(self) -> None:
        result = run("-m", "tileon_ops")
        assert result.returncode == 0, result.stdout + result.stderr
        assert "pass" in result.stdout
        assert "FAIL" not in result.stdout


class TestInfo:
    def test_says_what_is_here(self) -> None:
        result = run("-m", "tileon_ops.info")
        assert result.returncode == 0, result.stderr
        for word in (torch.__version__, "_C.so", "CUDA", "GPU"):
            assert word.lower() in result.stdout.lower(), word
        for dtype in ("float16", "bfloat16", "float32", "float64"):
            assert dtype in result.stdout
        for variable in ("TILEON_LIBRARY", "TILEON_HOPPER", "TILEON_PDL", "TILEON_LOG"):
            assert variable in result.stdout
        assert "failed" not in result.stdout

    def test_says_whether_hoppers_kernels_are_there(self) -> None:
        rows = sum(" sm90_" in line for line in torch.ops.tileon._matmul_configs().splitlines())
        answer = re.search(r"^Hopper's kernels: +(.*)$", run("-m", "tileon_ops.info").stdout, re.MULTILINE)
        assert answer is not None
        assert answer[1] == (f"{rows} rows" if rows else "not in this library")

    @pytest.mark.gpu
    def test_says_which_kernel_takes_odd_strides(self) -> None:
        """Hopper's own kernels cannot read them, so the answer differs from that for an aligned product."""
        text = run("-m", "tileon_ops.info").stdout
        for dtype in ("float16", "bfloat16"):
            aligned, odd = re.findall(rf"^matmul {dtype} on cuda.*: +(\w.*)$", text, re.MULTILINE)
            assert aligned.startswith("sm"), text
            assert odd.startswith("sm"), text
            assert "copied" not in aligned
            assert not odd.startswith("sm90_") or "copied" in odd

    def test_does_not_raise_without_a_library(self, tmp_path: pathlib.Path) -> None:
        """In a copy of the package without `_C.so` it says what is missing, in place of a traceback."""
        package = tmp_path / "tileon_ops"
        package.mkdir()
        for source in (ROOT / "tileon_ops").glob("*.py"):
            (package / source.name).write_text(source.read_text())
        result = subprocess.run(
            [sys.executable, "-m", "tileon_ops.info"],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path), "TILEON_LIBRARY": ""},
        )
        assert result.returncode == 0, result.stderr
        assert "Traceback" not in result.stdout + result.stderr
        assert "_C.so" in result.stdout

    def test_a_missing_library_is_a_clear_import_error(self, tmp_path: pathlib.Path) -> None:
        package = tmp_path / "tileon_ops"
        package.mkdir()
        for source in (ROOT / "tileon_ops").glob("*.py"):
            (package / source.name).write_text(source.read_text())
        program = (
            "try:\n    import tileon_ops\n    tileon_ops.matmul\n"
            "except ImportError as error:\n    print('ImportError:', error)\n"
        )
        result = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=300,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path), "TILEON_LIBRARY": ""},
        )
        assert re.search(r"ImportError:.*_C\.so", result.stdout, re.DOTALL), result.stdout + result.stderr

    def test_shows_the_variables_that_are_set(self) -> None:
        result = run("-m", "tileon_ops.info", TILEON_PDL="0")
        assert re.search(r"TILEON_PDL: +0$", result.stdout, re.MULTILINE), result.stdout

    def test_the_log_names_problem_and_kernel(self) -> None:
        program = (
            "import torch, tileon_ops\na = torch.ones(2, 3)\ntorch.ops.tileon.matmul(a, a.t(), activation='leaky_relu')"
        )
        lines = [line for line in run("-c", program, TILEON_LOG="1").stderr.splitlines() if line.startswith("tileon: ")]
        assert lines == ["tileon: matmul batch=1 m=2 n=2 k=3 float32->float32 leaky_relu cpu_aten"]
        assert "tileon: " not in run("-c", program).stderr

    def test_build_info_has_its_keys(self) -> None:
        pairs = dict(line.split(": ", 1) for line in torch.ops.tileon._build_info().strip().splitlines())
        assert {"version", "cuda", "archs", "torch", "target"} <= pairs.keys()
        assert pairs["target"] == "2.11"


class TestNamedLibrary:
    """TILEON_LIBRARY names another `_C.so`: the watchdog build's, for one."""

    IMPORT = "try:\n    import tileon_ops\nexcept ImportError as error:\n    print('ImportError:', error)\n"

    def test_is_loaded_in_place_of_the_packages(self, tmp_path: pathlib.Path) -> None:
        for name in ("_C.so", "_C.json"):
            (tmp_path / name).write_bytes((ROOT / "tileon_ops" / name).read_bytes())
        program = "import pathlib, tileon_ops; print(pathlib.Path('/proc/self/maps').read_text())"
        result = run("-c", program, TILEON_LIBRARY=str(tmp_path / "_C.so"))
        assert result.returncode == 0, result.stderr
        assert str(tmp_path / "_C.so") in result.stdout
        assert str(ROOT / "tileon_ops" / "_C.so") not in result.stdout
        assert str(tmp_path / "_C.so") in run("-m", "tileon_ops.info", TILEON_LIBRARY=str(tmp_path / "_C.so")).stdout

    def test_that_is_missing_is_a_clear_import_error(self, tmp_path: pathlib.Path) -> None:
        result = run("-c", self.IMPORT, TILEON_LIBRARY=str(tmp_path / "_C.so"))
        assert f"ImportError: TILEON_LIBRARY names {tmp_path / '_C.so'}, and there is no such file" in result.stdout

    def test_that_is_broken_is_a_clear_import_error(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "_C.so").write_text("not a library")
        result = run("-c", self.IMPORT, TILEON_LIBRARY=str(tmp_path / "_C.so"))
        assert f"ImportError: tileon_ops could not load {tmp_path / '_C.so'}" in result.stdout
        assert "TILEON_LIBRARY names it" in result.stdout

    def test_that_has_none_of_the_ops_is_a_clear_import_error(self) -> None:
        other = pathlib.Path(torch.__file__).parent / "lib" / "libc10.so"
        result = run("-c", self.IMPORT, TILEON_LIBRARY=str(other))
        assert "it is another library, which has none of the ops" in result.stdout
