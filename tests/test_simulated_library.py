"""The GPU's tests on a simulated GPU: the whole library, its kernels compiled for the CPU (simulation/library.py)."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest
from simulated_gpu import SELECTION, SMALLEST_COUNT

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIMULATION = ROOT / "tests" / "simulation"
sys.path.insert(0, str(SIMULATION))

import build as simulation_build  # noqa: E402


@pytest.fixture(scope="module")
def library() -> pathlib.Path:
    """Built where it is stale, which takes some minutes."""
    reason = simulation_build.why_not()
    if reason is not None:
        pytest.skip(reason)
    build = [sys.executable, str(SIMULATION / "library.py")]
    result = subprocess.run(build, capture_output=True, text=True, timeout=1800)
    assert result.returncode == 0, result.stdout + result.stderr
    return pathlib.Path(result.stdout.splitlines()[-1])


@pytest.mark.parametrize("gpu", SELECTION)
def test_the_gpu_tests_of_the_selection_pass(library: pathlib.Path, gpu: str) -> None:
    """Every row of every table in every layout, the choice, copies, epilogues, strides and extremes."""
    options = ["-q", "-m", "gpu", "-p", "no:cacheprovider", "-p", "no:xdist"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TILEON_", "PYTEST_"))}
    environment |= {"TILEON_LIBRARY": str(library), "TILEON_SIMULATED_GPU": gpu, "TILEON_SIMULATED_SIZES": "few"}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *SELECTION[gpu]],
        cwd=ROOT / "tests",
        env={**environment, "TILEON_TEST_LIMIT": "900", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert result.returncode == 0, result.stdout[-5000:] + result.stderr[-2000:]
    passed = re.search(r"(\d+) passed", result.stdout)
    assert passed is not None, result.stdout[-2000:]
    assert int(passed[1]) >= SMALLEST_COUNT[gpu], result.stdout[-2000:]
