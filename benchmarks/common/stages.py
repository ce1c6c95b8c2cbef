"""What run_all.py is made of: a step is a process, a stage is steps with the result file that they write.

Here too: the stages of the soak test, the demo and the benchmarks. Those of the suite are in suite.py.
"""

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
    write: Callable[[Path, list[Outcome]], None] | None = None
    by_default: bool = True
    side_by_side: int = 1  # so many steps at a time, where they claim nothing about time


def bare(program: str) -> str:
    """The program without its folder; our own Python as it is, which a command line shows as `python`."""
    return PYTHON if program == PYTHON else Path(program).name


def write_outputs(path: Path, outcomes: list[Outcome]) -> None:
    """A result file of what the steps printed."""
    parts = [header()]
    for outcome in outcomes:
        parts.append(f"\n$ {outcome.step.shown()}   ({outcome.verdict})\n{outcome.output.strip()}\n")
    path.write_text("".join(parts))


# The benchmarks.

# The random cases of each file, and seconds: fit_hopper.py takes what the last file has of a case.
RANDOM_SWEEPS = {
    "sweep_random": (0, 820, 330),
    "sweep_random_2": (820, 1142, 150),
    "sweep_random_3": (1142, 1463, 150),
    "sweep_random_4": (1463, 3320, 380),
    "sweep_random_5": (3320, 5254, 380),
    "sweep_random_6": (5254, 5854, 180),
    "sweep_random_7": (5854, 6910, 240),
    "sweep_random_8": (6910, 8549, 340),
}
_RANDOM_OPTIONS = "fit.sweep --preset random --rows sm90 --seconds 0.1 --warmup-seconds 0.04 --hopeless 1.5"
_FLOAT32_OPTIONS = "--preset float32_rows --rows bf16x6|simt|sm80_few --seconds 0.1 --warmup-seconds 0.04 --hopeless 3"
_BLOCK_SCALED = "block_scaled_matmul.py"  # about half of its time is compiling the peers
_PORTABLE_KERNELS = {"TILEON_HOPPER": "0"}  # them alone, where there are others too


def _command(words: str) -> list[str]:
    """`matmul.py ...` and what else is a command by its path, or a module of benchmarks, as `measure.host ...`."""
    name, *options = words.split()
    script = [str(BENCHMARKS / name)] if name.endswith(".py") else ["-m", f"benchmarks.{name}"]
    return [PYTHON, *script, *options]


def _measured(*rows: tuple[str, str, int], environment: dict[str, str] | None = None) -> Callable[[Path], list[Step]]:
    """A step for each file, command and limit in seconds; a command writes `<file>.csv`."""
    return lambda out: [
        Step(file, [*_command(words), "--csv", str(out / f"{file}.csv")], seconds, environment or {})
        for file, words, seconds in rows
    ]


def _reported(name: str, seconds: int) -> Callable[[Path], list[Step]]:
    """A script of report/ that reads the others' files."""
    return lambda out: [Step(name, [*_command(f"report.{name}"), "--results", str(out)], seconds)]


def _printed(file: str) -> Callable[[Path, list[Outcome]], None]:
    """What writes the steps' output into this file."""
    return lambda out, outcomes: write_outputs(out / file, outcomes)


def _soak_steps(out: Path) -> list[Step]:
    """Random calls of every op, which write their own file."""
    limits = ["--seconds", "120", "--processes", "8", "--seed", "1"]
    command = [PYTHON, str(ROOT / "tests" / "soak"), *limits, "--out", str(out / "soak.txt")]
    return [Step("soak", command, 200, proofs=(r"\nsoak: [1-9][\d,]* calls",))]


def _demo_steps(out: Path) -> list[Step]:
    found = [Step("verify", [PYTHON, "-m", "tileon_ops"], 15)]
    for name, script, seconds in (("demo", "matmul.py", 25), ("demo_block_scaled", _BLOCK_SCALED, 40)):
        files = ["--csv", str(out / "logs" / f"{name}.csv"), "--plot", str(out / "logs" / f"{name}.png")]
        found.append(Step(name, [*_command(f"{script} --preset demo --seconds 0.2"), *files], seconds))
    return found


def _preset(
    file: str, words: str, seconds: int, of_case: str, warmup: str, environment: dict[str, str] | None = None
) -> Stage:
    command = f"{words} --seconds {of_case} --warmup-seconds {warmup}"
    return Stage(_measured((file, command, seconds), environment=environment))


_SWEEPS = (
    ("sweep", "fit.sweep", 300),
    *((name, f"{_RANDOM_OPTIONS} --cases {first}:{end}", limit) for name, (first, end, limit) in RANDOM_SWEEPS.items()),
    ("sweep_float32", f"fit.sweep {_FLOAT32_OPTIONS}", 240),
)
_UNALIGNED = (
    ("awkward", "measure.unaligned", 90),
    ("awkward_outputs", "measure.unaligned --cases n50257,n588_out,odd_size", 40),
)
_RANDOM_SHAPES = "measure.random_shapes --count 210 --seconds 0.1 --warmup-seconds 0.1"

# Targets and pictures last: they read the others' files.
BENCHMARK_STAGES: dict[str, Stage] = {
    "soak": Stage(_soak_steps),
    "demo": Stage(_demo_steps, _printed("demo.txt")),
    "portable": _preset("portable", "matmul.py --preset portable", 100, "0.4", "0.8", _PORTABLE_KERNELS),
    "accuracy": Stage(_measured(("accuracy", "measure.accuracy", 20))),
    "host": Stage(_measured(("host", "measure.host", 45))),
    "layer": Stage(_measured(("layer", "measure.layer", 120))),
    "parallel": Stage(_measured(("parallel", "measure.parallel", 100)), by_default=False),  # more than one GPU
    "unaligned": Stage(_measured(*_UNALIGNED)),
    "random_shapes": Stage(_measured(("random_shapes", _RANDOM_SHAPES, 400)), _printed("random_shapes.txt")),
    "sweep": Stage(_measured(*_SWEEPS), by_default=False),
    "tune_regret": Stage(_measured(("tune_regret", "measure.tune_regret", 240)), by_default=False),
    "matmul": _preset("matmul", "matmul.py --preset hopper", 330, "0.3", "0.3"),
    "float32": _preset("float32", "matmul.py --preset float32", 150, "0.3", "0.3"),
    "fp8": _preset("fp8", "matmul.py --preset fp8", 150, "0.4", "0.4"),
    "block_scaled": _preset("block_scaled_matmul", f"{_BLOCK_SCALED} --preset hopper", 240, "0.3", "0.3"),
    "block_scaled_portable": _preset(
        "block_scaled_portable", f"{_BLOCK_SCALED} --preset portable", 240, "0.4", "0.8", _PORTABLE_KERNELS
    ),
    "block_scaled_accuracy": Stage(_measured(("block_scaled_accuracy", "measure.block_scaled_accuracy", 40))),
    "rare_numbers": Stage(_measured(("rare_numbers", "measure.rare_numbers", 60))),
    "quantize": Stage(_measured(("quantize", "measure.quantize", 40))),
    "targets": Stage(_reported("targets", 20), _printed("targets.txt")),
    "pictures": Stage(_reported("pictures", 60)),
}
