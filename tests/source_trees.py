"""Copies of the source tree, and builds in them."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "tileon_ops" / "_C.so"
RECORD = ROOT / "tileon_ops" / "_C.json"


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} here")
    return path


def output(*command: str, **options: object) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)  # type: ignore[call-overload]
    assert result.returncode == 0, result.stdout + result.stderr
    return str(result.stdout)


def why_rebuild(tree: pathlib.Path) -> str:
    """What the tree's own record says of its library: "None" where it comes from the tree's sources."""
    program = (
        "import importlib.util, pathlib, sys\n"
        "root = pathlib.Path.cwd()\n"
        "spec = importlib.util.spec_from_file_location('state', root / 'tileon_ops' / '_loading' / 'build_state.py')\n"
        "state = importlib.util.module_from_spec(spec)\n"
        "sys.modules['state'] = state\n"
        "spec.loader.exec_module(state)\n"
        "print(state.why_rebuild(root, cuda=False, cpu_only=False, targets=None))\n"
    )
    return output(sys.executable, "-c", program, cwd=tree).strip()


def built_copy(target: pathlib.Path) -> pathlib.Path:
    """A copy of the tree with its library; a library that is not of these sources would be rebuilt, for minutes."""
    tree = copy_of_the_tree(target, with_library=True)
    reason = why_rebuild(tree)
    if reason != "None":
        pytest.fail(f"the library under test must be built first: {reason}")
    return tree


def copy_of_the_tree(target: pathlib.Path, *, with_library: bool) -> pathlib.Path:
    """What a checkout holds, and the built pair if asked for."""
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        if (ROOT / name).is_file():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    left_out = shutil.ignore_patterns("__pycache__", "results", "*.png", *([] if with_library else ["_C.*"]))
    for name in ("csrc", "tileon_ops", "tests", "benchmarks", "examples", ".ci"):
        shutil.copytree(ROOT / name, target / name, ignore=left_out)
    return target


def build_in(tree: pathlib.Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, **environment},
    )


def quick_compiler(folder: pathlib.Path) -> str:
    """A compiler for CXX that does not optimize: of the CPU's library it takes half a minute of one core."""
    path = folder / "cxx"
    path.write_text(f'#!/bin/sh\nexec {tool("c++")} "$@" -O0\n')
    path.chmod(0o755)
    return str(path)


def same_build_again() -> dict[str, str]:
    """What asks for the library that is there: one for the CPU alone stays so only if that is asked for."""
    return {"TILEON_CPU_ONLY": "1"} if json.loads(RECORD.read_text())["cuda"] == "none" else {}
