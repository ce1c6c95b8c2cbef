"""Which config computes one product fastest, and whether it beats the library's own choice.

All configs that the library may choose run once. Those that came near the quickest are measured against each other and
against the library's choice, in two rounds, the second with the best few alone. A config is taken only where it was
faster than that choice in both, by more than what the clock cannot tell apart: so what is tuned is not slower.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tileon_ops.tune.cache import DEFAULT, Choice
from tileon_ops.tune.timing import Arm, Clock, Samples, warm

SECONDS = 0.4  # for one problem, unless told

# Shares of a problem's seconds: warming at most, and the rounds. The first looks take the rest.
_WARMING, _FIRST, _SECOND = 0.25, 0.4, 0.25
_MIN_ROUNDS, _MAX_ROUNDS = 5, 300
_LOOKS = 2  # runs of each config before the hopeless ones are left out
_HOPELESS = 1.3  # times the quickest one's, and what a launch may be off by in so few runs:
_HOPELESS_SLACK = 1e-6
# One run that takes so much longer, and so many seconds, is not looked at twice.
_DREARY, _DREARY_SECONDS = 4.0, 2e-3
_FINALISTS = 3
_MARGIN = 0.01  # of the default's time, or
# Seconds: two runs of one pair of configs differ by as much, in products that are little but a launch.
_RESOLUTION = 0.2e-6


@dataclass(frozen=True)
class Call:
    """One call of `torch.ops.tileon.<op>`, with all of its arguments."""

    op: str  # matmul or block_scaled_matmul
    tensors: tuple[Tensor | None, ...]
    options: Mapping[str, Any]

    @property
    def device(self) -> torch.device:
        first = self.tensors[0]
        assert first is not None
        return first.device

    def problem(self) -> str:
        """The text that names it.

        Raises:
            RuntimeError: the op's own, for arguments that it refuses.
        """
        return str(self._ask("problem"))

    def run(self) -> Tensor:
        """As the user calls it."""
        result: Tensor = getattr(torch.ops.tileon, self.op)(*self.tensors, **self.options)
        return result

    def rows(self) -> dict[str, Callable[[], object]]:
        """The configs that the library may choose, by name. Each keeps the accuracy that the call asks for."""
        lines = (line.split() for line in self._ask("candidates").splitlines())
        return {name: self._row(int(index)) for index, name in lines}

    def _ask(self, what: str) -> str:
        answer: str = getattr(torch.ops.tileon, f"_{self.op}_{what}")(*self.tensors, **self.options)
        return answer

    def _row(self, index: int) -> Callable[[], object]:
        op = getattr(torch.ops.tileon, f"_{self.op}_with_config")
        options = {name: value for name, value in self.options.items() if name != "fast_accum"}
        return lambda: op(*self.tensors, config=index, **options)


@dataclass(frozen=True)
class Measured:
    """The choice, and what it rests on: median microseconds of the second round, by config. The library's own choice
    is there as DEFAULT, and not by its config's name again."""

    choice: Choice
    finals: dict[str, float]


def measure(call: Call, clock: Clock, seconds: float = SECONDS) -> Measured:
    """Measures every config for the call, in about so many seconds. For its problem the library's own choice is set.

    Raises:
        RuntimeError: what the op raises, or running out of memory.
    """
    call.run()  # what a first call sets up
    default = str(torch.ops.tileon._last_kernel())
    rows = {name: run for name, run in call.rows().items() if name != default}
    return compare(default, {DEFAULT: call.run, **rows}, clock, seconds)


def compare(default: str, runs: Mapping[str, Callable[[], object]], clock: Clock, seconds: float) -> Measured:
    """As `measure`, for runs by name. The library's choice is among them as DEFAULT; `default` is its kernel."""
    shuffle = random.Random(0)
    arms = {name: Arm(run) for name, run in runs.items()}
    arms = _near(_first_runs(clock, arms, shuffle), arms, _DREARY, _DREARY_SECONDS)
    looks = clock.measure(arms, _LOOKS, shuffle)
    arms = _near({name: min(values) for name, values in looks.items()}, arms, _HOPELESS, _HOPELESS_SLACK)
    round_seconds = warm(clock, arms, shuffle, _WARMING * seconds)

    first = _medians(clock.measure(arms, _rounds(_FIRST * seconds, round_seconds), shuffle))
    finalists = sorted(arms, key=lambda name: (name != DEFAULT, first[name]))[: 1 + _FINALISTS]
    arms = {name: arms[name] for name in finalists}
    second = _medians(
        clock.measure(arms, _rounds(_SECOND * seconds, round_seconds * len(finalists) / len(first)), shuffle)
    )

    faster = [name for name in finalists if all(_beats(found, name) for found in (first, second))]
    best = min(faster, key=second.__getitem__, default=DEFAULT)
    microseconds = {name: 1e6 * value for name, value in second.items()}
    choice = Choice(row=best, us=microseconds[best], default=default, default_us=microseconds[DEFAULT])
    return Measured(choice, microseconds)


def _beats(seconds: Mapping[str, float], name: str) -> bool:
    """Whether it is faster than the default beyond noise."""
    default = seconds[DEFAULT]
    return default - seconds[name] > max(_MARGIN * default, _RESOLUTION)


def _first_runs(clock: Clock, arms: Mapping[str, Arm], shuffle: random.Random) -> dict[str, float]:
    """Seconds of one run of each arm, in its turn: kernels are loaded, and no slow one is run twice for nothing."""
    return {name: clock.measure({name: arm}, 1, shuffle)[name][0] for name, arm in arms.items()}


def _near(seconds: Mapping[str, float], arms: Mapping[str, Arm], factor: float, slack: float) -> dict[str, Arm]:
    """The arms within `factor` of the quickest and `slack` seconds, and the default."""
    limit = factor * min(seconds.values()) + slack
    return {name: arm for name, arm in arms.items() if name == DEFAULT or seconds[name] <= limit}


def _rounds(seconds: float, round_seconds: float) -> int:
    return max(_MIN_ROUNDS, min(_MAX_ROUNDS, int(seconds / round_seconds)))


def _medians(samples: Samples) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in samples.items()}
