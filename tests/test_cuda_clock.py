"""The clock by which kernels are compared on a GPU, on a made-up one: what it waits for.

While a thread captures a CUDA graph, a wait for the whole device by any other thread ends the capture.
"""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
import torch

from tileon_ops.tune import timing
from tileon_ops.tune.timing import Arm, CudaClock


class _Event:
    def record(self) -> None:
        pass

    def elapsed_time(self, end: _Event) -> float:
        return 0.5


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the clock waits for, with torch.cuda's parts replaced by ones that need no GPU."""
    waited: list[str] = []

    def stream(device: torch.device) -> SimpleNamespace:
        return SimpleNamespace(synchronize=lambda: waited.append(f"the current stream of {device}"))

    monkeypatch.setattr(torch.cuda, "current_stream", stream)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: waited.append(f"all of {device}"))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: None)
    monkeypatch.setattr(timing, "_event", _Event)
    return waited


def test_it_waits_for_its_stream_alone(waits: list[str]) -> None:
    clock = CudaClock.__new__(CudaClock)
    clock._device = torch.device("cuda:1")
    clock._flush = torch.empty(8, dtype=torch.int8)
    clock._host_seconds = clock._gpu_seconds = 0.0
    runs: list[str] = []
    arms = {name: Arm(lambda name=name: runs.append(name)) for name in ("a", "b")}  # type: ignore[misc]
    samples = clock.measure(arms, 3, random.Random(0))
    assert {name: len(seconds) for name, seconds in samples.items()} == {"a": 3, "b": 3}
    assert samples["a"] == [0.5e-3] * 3
    assert len(runs) == 6
    assert waits == ["the current stream of cuda:1"]
