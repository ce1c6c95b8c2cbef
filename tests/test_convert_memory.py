"""`tileon_ops.convert` in the memory of the model and one layer: the process's largest, as the kernel counted it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 2**20
LAYER = 32 * MIB  # of 8 in the model

CONVERSION = """
import sys
import torch
from torch import nn
import tileon_ops

def status(field):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))

format = sys.argv[1]
tileon_ops.convert(nn.Sequential(nn.Linear(64, 64)), format)  # what the first call alone loads
with torch.no_grad():
    model = nn.Sequential(*(nn.Linear(4096, 2048, bias=False) for _ in range(8)))
before = status("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the largest size is counted anew
tileon_ops.convert(model, format)
print(status("VmHWM") - before, status("VmRSS") - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("format", ["mxfp8", "mxfp4", "mixed", "nvfp4"])
def test_takes_no_more_than_a_layer_beside_the_model(format: str) -> None:
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("the largest size of a process is Linux's to tell")
    done = subprocess.run(
        [sys.executable, "-c", CONVERSION, format],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": str(MIB)},  # freed tensors go back to the system at once
    )
    assert done.returncode == 0, done.stderr
    largest, afterwards = map(int, done.stdout.split())
    assert largest < LAYER + 8 * MIB
    assert afterwards < -4 * LAYER
