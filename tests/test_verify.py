"""`verify`, its command line, and the log of kernels."""

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
        for kind in ("bfloat16*nvfp4", "float16*mxfp8", "bfloat16*int8_row", "float16*float8_e5m2_1x128"):
            assert re.search(rf"weight alone scaled .*{re.escape(kind)} .*pass$", text, re.MULTILINE), kind
        for kind in ("float8_e4m3fn_1x128*float8_e4m3fn_128x128", "float8_e4m3fn_tensor", "int8_row"):
            assert re.search(rf"global scale a row.* {re.escape(kind)} .*pass$", text, re.MULTILINE), kind
        assert re.search("cpu_(aten|tiles)" if device.type == "cpu" else "sm", text)

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


class TestLog:
    def test_the_log_names_problem_and_kernel(self) -> None:
        program = (
            "import torch, tileon_ops\na = torch.ones(99, 90)\n"
            "torch.ops.tileon.matmul(a, a.t(), activation='leaky_relu')"
        )
        lines = [line for line in run("-c", program, TILEON_LOG="1").stderr.splitlines() if line.startswith("tileon: ")]
        assert lines == ["tileon: matmul batch=1 m=99 n=99 k=90 float32->float32 leaky_relu cpu_aten"]
        assert "tileon: " not in run("-c", program).stderr

    def test_build_info_has_its_keys(self) -> None:
        pairs = dict(line.split(": ", 1) for line in torch.ops.tileon._build_info().strip().splitlines())
        assert {"version", "cuda", "archs", "torch", "target"} <= pairs.keys()
        assert pairs["target"] == "2.11"
