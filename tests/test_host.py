"""Compiles and runs the host tests: the formulas that decide an index or a choice, without a GPU and without torch."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = sorted((ROOT / "tests" / "host").glob("*.cpp"))
COMPILER = shutil.which("g++") or shutil.which("clang++")


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_host_program(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    binary = tmp_path / program.stem
    command = [
        COMPILER,
        "-std=c++20",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-I",
        str(ROOT / "csrc"),
        "-I",
        str(ROOT / "tests" / "host" / "fake_cuda"),
        str(program),
        "-o",
        str(binary),
    ]
    compiled = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert compiled.returncode == 0, compiled.stderr
    result = subprocess.run([str(binary)], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr


def test_there_are_host_programs() -> None:
    assert PROGRAMS
