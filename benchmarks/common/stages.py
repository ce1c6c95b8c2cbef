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
        settings = [f"{key}={value}" for key, value in self.environment.items()]
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
        words = {0: "passed", LEFT_OUT: "not run", UNPROVEN: "FAILED (no clean summary)"}
        words[TIMED_OUT] = f"over its {self.step.seconds} s"
        return words.get(self.status, f"FAILED ({self.status})")


@dataclass(frozen=True)
class Stage:
    """Steps that belong together, for the folder of the results, and the function that writes their result file from
    the outcomes, if they do not write it themselves."""

    steps: Callable[[Path], list[Step]]
    write: Callable[[Path, list[Outcome]], None] | None = None
    by_default: bool = True
    side_by_side: int = 1  # so many steps at a time, where they claim nothing about time


def bare(program: str) -> str:
    """The program without its folder; our own Python as it is, which a command line shows as `python`."""
    return PYTHON if program == PYTHON else Path(program).name


def write_outputs(path: Path, outcomes: list[Outcome]) -> None:
    """A result file of what the steps printed."""
    parts = (f"\n$ {one.step.shown()}   ({one.verdict})\n{one.output.strip()}\n" for one in outcomes)
    path.write_text("".join([header(), *parts]))


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
_OF_ROWS = "--rows sm90 --seconds 0.1 --warmup-seconds 0.04 --hopeless 1.5"
_RANDOM = f"matmul.py --preset random {_OF_ROWS} --cases"
_FLOAT32_ROWS = "matmul.py --preset float32_rows --rows bf16x6|simt|sm80_few --seconds 0.1 --warmup-seconds 0.04"


def _command(words: str) -> list[str]:
    """`matmul.py ...` and what else is a command by its path, or a module of benchmarks, as `measure.host ...`."""
    name, *options = words.split()
    script = [str(BENCHMARKS / name)] if name.endswith(".py") else ["-m", f"benchmarks.{name}"]
    return [PYTHON, *script, *options]


def _files(*rows: tuple[str, str, int], **environment: str) -> Callable[[Path], list[Step]]:
    """A step for each file, command and limit in seconds; a command writes `<file>.csv`."""
    return lambda out: [
        Step(file, [*_command(words), "--csv", str(out / f"{file}.csv")], seconds, environment)
        for file, words, seconds in rows
    ]


def _printed(file: str, steps: Callable[[Path], list[Step]]) -> Stage:
    """Steps whose output goes into this file."""
    return Stage(steps, lambda out, outcomes: write_outputs(out / file, outcomes))


def _report(name: str, seconds: int) -> Callable[[Path], list[Step]]:
    """A script of report/ that reads the others' files."""
    return lambda out: [Step(name, [*_command(f"report.{name}"), "--results", str(out)], seconds)]


def _soak_steps(out: Path) -> list[Step]:
    """Random calls of every op, which write their own file."""
    limits = ["--seconds", "120", "--processes", "8", "--seed", "1"]
    command = [PYTHON, str(ROOT / "tests" / "soak"), *limits, "--out", str(out / "soak.txt")]
    return [Step("soak", command, 200, proofs=(r"\nsoak: [1-9][\d,]* calls",))]


def _demo_steps(out: Path) -> list[Step]:
    found = [Step("verify", [PYTHON, "-m", "tileon_ops"], 15)]
    for name, script, seconds in (("demo", "matmul.py", 25), ("demo_block_scaled", "block_scaled_matmul.py", 40)):
        files = ["--csv", str(out / "logs" / f"{name}.csv"), "--plot", str(out / "logs" / f"{name}.png")]
        found.append(Step(name, [*_command(f"{script} --preset demo --seconds 0.2"), *files], seconds))
    return found


_SWEEPS = (
    ("sweep", "matmul.py --preset sweep --rows . --seconds 0.35 --warmup-seconds 0.15", 300),
    *((name, f"{_RANDOM} {first}:{end}", limit) for name, (first, end, limit) in RANDOM_SWEEPS.items()),
    ("sweep_rectangles", f"matmul.py --preset rectangles {_OF_ROWS}", 270),
    ("sweep_rectangles_2", f"matmul.py --preset rectangles_2 {_OF_ROWS}", 330),
    ("sweep_rectangles_3", f"matmul.py --preset rectangles_3 {_OF_ROWS}", 270),
    ("unseen_rectangles", f"matmul.py --preset unseen_rectangles {_OF_ROWS}", 90),
    ("sweep_float32", _FLOAT32_ROWS, 240),
)
_UNALIGNED = (
    ("awkward", "measure.unaligned", 90),
    ("awkward_outputs", "measure.unaligned --cases n50257,n588_out,odd_size", 40),
)
_RANDOM_SHAPES = ("random_shapes", "measure.random_shapes --count 210 --seconds 0.1 --warmup-seconds 0.1", 400)
_PORTABLE = "matmul.py --preset portable --seconds 0.4 --warmup-seconds 0.8"
_HOPPER = "matmul.py --preset hopper --seconds 0.3 --warmup-seconds 0.3"  # block-scaled: half of it compiles peers

# Targets and pictures last: they read the others' files.
BENCHMARK_STAGES: dict[str, Stage] = {
    "soak": Stage(_soak_steps),
    "demo": _printed("demo.txt", _demo_steps),
    "portable": Stage(_files(("portable", _PORTABLE, 100), TILEON_HOPPER="0")),
    "accuracy": Stage(_files(("accuracy", "measure.accuracy", 20))),
    "host": Stage(_files(("host", "measure.host", 45))),
    "layer": Stage(_files(("layer", "measure.layer", 120))),
    "training": Stage(_files(("training_models", "measure.training", 400))),
    "batch_invariant": Stage(_files(("batch_invariant", "measure.batch_invariant", 240))),
    "parallel": Stage(_files(("parallel", "measure.parallel", 100)), by_default=False),  # more than one GPU
    "unaligned": Stage(_files(*_UNALIGNED)),
    "random_shapes": _printed("random_shapes.txt", _files(_RANDOM_SHAPES)),
    "sweep": Stage(_files(*_SWEEPS), by_default=False),
    "tune_regret": Stage(_files(("tune_regret", "measure.tune_regret", 240)), by_default=False),
    "matmul": Stage(_files(("matmul", _HOPPER, 330))),
    "float32": Stage(_files(("float32", "matmul.py --preset float32 --seconds 0.3 --warmup-seconds 0.3", 150))),
    "fp8": Stage(_files(("fp8", "matmul.py --preset fp8 --seconds 0.4 --warmup-seconds 0.4", 150))),
    "block_scaled": Stage(_files(("block_scaled_matmul", f"block_scaled_{_HOPPER}", 240))),
    "block_scaled_portable": Stage(
        _files(("block_scaled_portable", f"block_scaled_{_PORTABLE}", 240), TILEON_HOPPER="0")
    ),
    "block_scaled_random": Stage(
        _files(("block_scaled_random", "measure.block_scaled_random --seed 7", 110)), by_default=False
    ),
    "block_scaled_accuracy": Stage(_files(("block_scaled_accuracy", "measure.block_scaled_accuracy", 40))),
    "rare_numbers": Stage(_files(("rare_numbers", "measure.rare_numbers", 60))),
    "scaled_operands": Stage(_files(("scaled_operands", "measure.scaled_operands", 240))),
    "quantize": Stage(_files(("quantize", "measure.quantize", 40))),
    "layers": Stage(_files(("layers", "measure.layers --seconds 0.06 --warmup-seconds 0.04", 200))),
    "models": Stage(_files(("models", "measure.models", 240))),
    "targets": _printed("targets.txt", _report("targets", 20)),
    "pictures": Stage(_report("pictures", 60)),
}
