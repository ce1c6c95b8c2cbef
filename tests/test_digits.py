"""examples/digits.py: what training by this package's layers and converting them costs in accuracy."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys
from types import ModuleType

import pytest
import torch

pytest.importorskip("sklearn", reason="needs scikit-learn")

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "examples" / "digits.py"
LOST_AT_MOST = {"tileon_ops.Linear": 0.5, "mxfp8": 1.0, "mxfp4": 3.0, "mixed": 3.0, "nvfp4": 3.0}  # points
SIZE_AT_MOST = {"tileon_ops.Linear": 1.0, "mxfp8": 0.3, "mxfp4": 0.16, "mixed": 0.16, "nvfp4": 0.16}  # of torch's


pytestmark = pytest.mark.usefixtures("one_thread")  # as the program has it


@pytest.fixture(scope="module")
def digits() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits_example", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(5))
def test_every_layer_keeps_the_accuracy_in_fewer_bytes(digits: ModuleType, device: torch.device, seed: int) -> None:
    results = digits.run(seed, device)
    base = results.pop("torch.nn.Linear")
    assert base.accuracy > 95.0
    assert set(results) == set(LOST_AT_MOST)
    for name, result in results.items():
        assert result.accuracy >= base.accuracy - LOST_AT_MOST[name], name
        assert result.size <= base.size * SIZE_AT_MOST[name], name


def test_the_program_prints_a_line_for_each_model() -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--device", "cpu"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    names = ["torch.nn.Linear", *LOST_AT_MOST]
    assert [line[0] for line in lines[-len(names) :]] == names
    assert all(line[1].endswith("%") and line[3].isdigit() for line in lines[-len(names) :])
