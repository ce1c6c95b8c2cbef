"""The GPU's tests on a simulated GPU: the whole library, its kernels compiled for the CPU (simulation/library.py)."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from simulated_gpu import SELECTION, SMALLEST_COUNT

ROOT = pathlib.Path(__file__).resolve().parent.parent
CUDA = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "include" / "cuda_runtime.h"


@pytest.fixture(scope="module")
def library() -> pathlib.Path:
    """Built where it is stale, which takes some minutes."""
    compiler = os.environ.get("CXX", "g++").split()[0]
    if shutil.which(compiler) is None or not CUDA.exists():
        pytest.skip(f"needs {compiler} and the headers of the CUDA toolkit")
    build = [sys.executable, str(ROOT / "tests" / "simulation" / "library.py")]
    result = subprocess.run(build, capture_output=True, text=True, timeout=1800)
    assert result.returncode == 0, result.stdout + result.stderr
    return pathlib.Path(result.stdout.splitlines()[-1])


def test_the_gpu_tests_of_the_selection_pass(library: pathlib.Path) -> None:
    """Every row of every table in every layout, the choice, copies, epilogues, strides and extremes."""
    options = ["-q", "-m", "gpu", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command = [sys.executable, "-m", "pytest", *options, *SELECTION]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TILEON_", "PYTEST_"))}
    environment |= {"TILEON_LIBRARY": str(library), "TILEON_SIMULATED_SIZES": "few", "TILEON_TEST_LIMIT": "900"}
    result = subprocess.run(
        command,
        cwd=ROOT / "tests",
        env={**environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    passed = re.search(r"(\d+) passed", result.stdout)
    assert passed is not None, result.stdout[-2000:]
    assert int(passed[1]) >= SMALLEST_COUNT, result.stdout[-2000:]
