"""tileon_ops.Linear under parallelize_module, on two devices with a process each: gloo on the CPU, NCCL on GPUs."""

from __future__ import annotations

import pytest
import torch
from tensor_parallel_cases import CASES, run_all


@pytest.fixture(scope="module")
def outcomes(device: torch.device, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    if device.type == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    return run_all("nccl" if device.type == "cuda" else "gloo", tmp_path_factory.mktemp("two_devices"))


@pytest.mark.parametrize("claim", CASES)
def test_on_two_devices(outcomes: dict[str, str], claim: str) -> None:
    assert not outcomes[claim], outcomes[claim]
