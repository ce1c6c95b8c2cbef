"""What run_all.py is made of: a step is a process, a stage is steps with the result file that they write."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common.commit import ROOT
from benchmarks.common.result_file import header, portable_command

PYTHON = sys.executable
BENCHMARKS = ROOT / "benchmarks"
TIMED_OUT = 124  # as timeout(1) says it
LEFT_OUT = 127
UNPROVEN = -1


@dataclass(frozen=True)
class Step:
    """One process: its command line, its limit in seconds, what its environment has besides ours, and patterns that
    must all be found in what it prints: an exit status of 0 alone does not prove that anything ran."""

    name: str
    command: list[str]
    seconds: int
    environment: dict[str, str] = field(default_factory=dict)
    proofs: tuple[str, ...] = ()

    def shown(self) -> str:
        """The command as it is recorded: typed at the top of the tree, without this machine's paths."""
        settings = [f"{key}={value}" for key, value in self.environment.items() if key != "TILEON_COMMIT"]
        return " ".join([*settings, portable_command([bare(self.command[0]), *self.command[1:]])])


@dataclass(frozen=True)
class Outcome:
    """What became of a step: exit status, wall time, and everything it printed."""

    step: Step
    status: int
    seconds: float
    output: str

    @property
    def verdict(self) -> str:
        if self.status == TIMED_OUT:
            return f"over its {self.step.seconds} s"
        if self.status == LEFT_OUT:
            return "not run"
        if self.status == UNPROVEN:
            return "FAILED (no clean summary)"
        return "passed" if self.status == 0 else f"FAILED ({self.status})"


@dataclass(frozen=True)
class Stage:
    """Steps that belong together, and the function that writes their result file from the outcomes, if they do not
    write it themselves."""

    steps: Callable[[Path], list[Step]]
    write: Callable[[Path, list[Outcome]], None] | None
    by_default: bool = True
    side_by_side: int = 1  # so many steps at a time, where they claim nothing about time


def bare(program: str) -> str:
    """The program without its folder; our own Python as it is, which a command line shows as `python`."""
    return PYTHON if program == PYTHON else Path(program).name


def script(name: str, *arguments: str) -> list[str]:
    """The command line of `matmul.py` and what else is a command by its path, or of a module, as `measure.host`."""
    words = [str(BENCHMARKS / name)] if name.endswith(".py") else ["-m", f"benchmarks.{name}"]
    return [PYTHON, *words, *arguments]


def write_outputs(path: Path, outcomes: list[Outcome]) -> None:
    """A result file of what the steps printed."""
    parts = [header()]
    for outcome in outcomes:
        parts.append(f"\n$ {outcome.step.shown()}   ({outcome.verdict})\n{outcome.output.strip()}\n")
    path.write_text("".join(parts))
