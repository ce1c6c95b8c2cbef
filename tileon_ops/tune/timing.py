"""The clocks by which kernels are compared: for the tuner, and for benchmarks/common/timing.py.

Runs of the "arms", the ways of computing the same thing, are interleaved, in a new random order every round, so that a
drift of clocks or temperature meets all alike. On a GPU every run starts with a cold L2 (a buffer of twice its size is
overwritten before it), is timed by CUDA events, and is queued behind a spin long enough that no gap of the host's lands
between two events. On a CPU it is `time.perf_counter` with warm caches.
"""

# mypy: allow-untyped-calls
# (torch.cuda's events, streams and spin have no annotations)

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

_SPIN_CYCLES_PER_SECOND = 2.0e9  # no GPU's clock is much above: a spin is never shorter than asked
# Queued before the GPU is waited for. A run is a few entries of the launch queue, which holds 1024.
_ROUNDS_PER_BLOCK = 10
_RUNS_PER_BLOCK = 120
_SETTLED = 0.005  # two windows of warming that differ by less are the same
_WINDOW_SECONDS = 0.05  # of warming between two looks


@dataclass(frozen=True)
class Arm:
    """One way of computing: `run` does `launches` of the thing being timed.

    A `warm` arm is timed right after a run of its own, not from a cold L2.
    """

    run: Callable[[], object]
    launches: int = 1
    warm: bool = False


Samples = dict[str, list[float]]  # seconds of one run, by arm


class Clock(Protocol):
    """What times runs of several arms against each other."""

    def measure(self, arms: Mapping[str, Arm], rounds: int, shuffle: random.Random) -> Samples:
        """So many runs of each arm."""


class CpuClock:
    def measure(self, arms: Mapping[str, Arm], rounds: int, shuffle: random.Random) -> Samples:
        samples: Samples = {name: [] for name in arms}
        for _ in range(rounds):
            for name in shuffle.sample(list(arms), len(arms)):
                start = time.perf_counter()
                arms[name].run()
                samples[name].append(time.perf_counter() - start)
        return samples


class CudaClock:
    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._flush = torch.empty(2 * l2_bytes(device), dtype=torch.int8, device=device)
        self._host_seconds = 1e-3  # of queueing one round; measured as we go
        self._gpu_seconds = 0.0  # of running it

    def measure(self, arms: Mapping[str, Arm], rounds: int, shuffle: random.Random) -> Samples:
        samples: Samples = {name: [] for name in arms}
        while rounds > 0:
            block = min(rounds, _ROUNDS_PER_BLOCK, max(1, _RUNS_PER_BLOCK // len(arms)))
            rounds -= block
            for name, seconds in self._measure_block(arms, block, shuffle):
                samples[name].append(seconds)
        return samples

    def _measure_block(self, arms: Mapping[str, Arm], rounds: int, shuffle: random.Random) -> list[tuple[str, float]]:
        # The head start lets the host queue one round ahead, and stay ahead where it is slower than the GPU.
        behind = max(0.0, self._host_seconds - self._gpu_seconds)
        self._spin(1.5 * self._host_seconds + behind * rounds)
        events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
        first = _event()
        first.record()
        queueing = time.perf_counter()
        for _ in range(rounds):
            for name in shuffle.sample(list(arms), len(arms)):
                start, end = _event(), _event()
                if arms[name].warm:
                    arms[name].run()
                else:
                    self._flush.zero_()
                start.record()
                arms[name].run()
                end.record()
                events.append((name, start, end))
        self._host_seconds = (time.perf_counter() - queueing) / rounds
        # the stream, not the device: another thread may be capturing a graph on it, which waiting for all would end
        torch.cuda.current_stream(self._device).synchronize()
        self._gpu_seconds = first.elapsed_time(events[-1][2]) * 1e-3 / rounds
        return [(name, start.elapsed_time(end) * 1e-3) for name, start, end in events]

    def _spin(self, seconds: float) -> None:
        torch.cuda._sleep(int(seconds * _SPIN_CYCLES_PER_SECOND))


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def l2_bytes(device: torch.device) -> int:
    """Size of the GPU's L2 cache in bytes."""
    return int(torch.cuda.get_device_properties(device).L2_cache_size)


def clock_of(device: torch.device) -> Clock:
    """The clock for what runs on this device, and on its current stream."""
    return CudaClock(device) if device.type == "cuda" else CpuClock()


def warm(clock: Clock, arms: Mapping[str, Arm], shuffle: random.Random, cap: float) -> float:
    """Runs the arms until their times settle or `cap` seconds are over; returns the seconds that a round takes."""
    begin = time.perf_counter()
    rounds, before, settled = 1, float("inf"), 0
    while True:
        start = time.perf_counter()
        samples = clock.measure(arms, rounds, shuffle)
        now = time.perf_counter()
        round_seconds = (now - start) / rounds
        total = sum(statistics.median(values) for values in samples.values())
        settled = settled + 1 if abs(total - before) <= _SETTLED * before else 0
        before = total
        if settled >= 2 or now - begin + rounds * round_seconds > cap:
            return round_seconds
        rounds = max(1, min(100, int(_WINDOW_SECONDS / round_seconds)))
