"""The tuner without a GPU: two of one model that share a cache folder, and a clock whose times are made up.

What names a problem and what holds the rows that were set is the library's own, which needs no GPU for either.
"""

from __future__ import annotations

import contextlib
import importlib
import pathlib
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch

from tileon_ops.tune import cache, timing, tuned_configs
from tileon_ops.tune.cache import DEFAULT, CacheFile, Choice, Identity
from tileon_ops.tune.measurement import Call
from tileon_ops.tune.problems import Product
from tileon_ops.tune.timing import Arm, Samples

GPU = "Made-up GPU 9000"
DEVICE = torch.device("cuda", 1)  # a name alone: nothing is put there
CHOSEN = "sm80_mma_64x64x64"  # by the library itself; a name that the table has, where it has any
FASTER = "sm80_mma_16x128x64"

# One product, and the names of its problem in two layouts.
SHAPE = (64, 96, 128)
NN = "matmul bfloat16->bfloat16 1x64x96x128 a=k b=mn out=rows plain"
NT = "matmul bfloat16->bfloat16 1x64x96x128 a=k b=k out=rows plain"

tune_module = importlib.import_module("tileon_ops.tune.tuning")


def load() -> None:
    """As the choice does at a GPU's first product."""
    torch.ops.tileon._load_tuned_configs(DEVICE.index)


@dataclass
class FakeClock:
    """Says of each arm the seconds given, in turn; it runs the arms as a clock does."""

    seconds: Mapping[str, float | list[float]]
    rounds: dict[str, int] = field(default_factory=dict)  # by arm, so far
    meanwhile: Callable[[], None] = lambda: None

    def measure(self, arms: Mapping[str, Arm], rounds: int, shuffle: random.Random) -> Samples:
        samples: Samples = {}
        self.meanwhile()
        for name, arm in arms.items():
            arm.run()
            times = self.seconds[name]
            done = self.rounds.get(name, 0)
            self.rounds[name] = done + rounds
            samples[name] = [
                times[min(done + i, len(times) - 1)] if isinstance(times, list) else times for i in range(rounds)
            ]
        return samples


@dataclass
class SimulatedTuning:
    folder: pathlib.Path
    clock: FakeClock
    measured: list[str] = field(default_factory=list)  # problems, in order

    @property
    def identity(self) -> Identity:
        return tuned_configs.identity(DEVICE.index)

    @property
    def file(self) -> CacheFile:
        return CacheFile(self.folder, self.identity)

    def row(self, problem: str, device: int = DEVICE.index) -> str:
        """What is set."""
        row: str = torch.ops.tileon._tuned_config(device, problem)
        return row

    def forget(self) -> None:
        """As in a new process."""
        tuned_configs.forget()
        cache._warned.clear()

    def first_product(self, *shape: int) -> str:
        """What the choice does at the first product of a problem with TILEON_TUNE=1; returns the problem."""
        m, n, k = shape
        a, b = torch.ones(m, k), torch.ones(k, n)
        tuned_configs._tune_matmul(a, b, None, "none", 0.01, None, False, False)
        return str(torch.ops.tileon._matmul_problem(a, b))


@pytest.fixture
def simulated(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedTuning]:
    """One row is twice as fast as the library's choice, unless the clock is told otherwise."""
    folder = tmp_path / "cache"
    clock = FakeClock({DEFAULT: 2e-5, FASTER: 1e-5})
    here = SimulatedTuning(folder, clock)
    properties = SimpleNamespace(name=GPU, major=9, minor=0, multi_processor_count=7)

    def rows(call: Call) -> dict[str, Callable[[], object]]:
        here.measured.append(call.problem())
        return {name: lambda: None for name in clock.seconds if name != DEFAULT}

    monkeypatch.setenv("TILEON_CACHE_DIR", str(folder))
    monkeypatch.delenv("TILEON_TUNE", raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(timing, "clock_of", lambda device: clock)
    monkeypatch.setattr(tuned_configs, "_names", lambda: {CHOSEN, FASTER})
    monkeypatch.setattr(tune_module, "_gpu", lambda device: DEVICE)
    monkeypatch.setattr(Call, "device", DEVICE)
    monkeypatch.setattr(Call, "rows", rows)
    call = Product.call
    monkeypatch.setattr(Product, "call", lambda product, device: call(product, CPU))
    tuned_configs.library_parts.cache_clear()
    here.forget()
    yield here
    here.forget()
    tuned_configs.library_parts.cache_clear()


CPU = torch.device("cpu")


def choice(row: str = FASTER, us: float = 10.0) -> Choice:
    return Choice(row=row, us=us, default=CHOSEN, default_us=20.0)
