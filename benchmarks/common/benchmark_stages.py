"""The stages of run_all.py that run the demo and the benchmarks. The scripts write their own files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.common.steps import PYTHON, Outcome, Stage, Step, script, write_outputs

Env = Mapping[str, str]

_NOTHING: Env = {}
_PORTABLE_KERNELS = {"TILEON_HOPPER": "0"}  # them alone, where there are others too

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
_RANDOM_OPTIONS = "--preset random --rows sm90 --seconds 0.1 --warmup-seconds 0.04 --hopeless 1.5"
_FLOAT32_OPTIONS = "--preset float32_rows --rows bf16x6|simt|sm80_few --seconds 0.1 --warmup-seconds 0.04 --hopeless 3"


def _step(out: Path, file: str, name: str, seconds: int, options: str = "", environment: Env = _NOTHING) -> Step:
    """The script `name` (steps.py) with the options, which writes `<file>.csv`."""
    return Step(file, script(name, *options.split(), "--csv", str(out / f"{file}.csv")), seconds, dict(environment))


def _measured(
    file: str,
    name: str,
    seconds: int,
    options: str = "",
    environment: Env = _NOTHING,
    *,
    by_default: bool = True,
) -> Stage:
    """A stage of one such step."""
    return Stage(lambda out: [_step(out, file, name, seconds, options, environment)], None, by_default)


def _printed(file: str) -> Callable[[Path, list[Outcome]], None]:
    """What writes the steps' output into this file."""
    return lambda out, outcomes: write_outputs(out / file, outcomes)


def _demo_steps(out: Path) -> list[Step]:
    def demo(name: str, command: str, seconds: int) -> Step:
        files = ["--csv", str(out / "logs" / f"{name}.csv"), "--plot", str(out / "logs" / f"{name}.png")]
        return Step(name, script(command, "--preset", "demo", "--seconds", "0.2", *files), seconds)

    verify = Step("verify", [PYTHON, "-m", "tileon_ops"], 15)
    return [verify, demo("demo", "matmul.py", 25), demo("demo_block_scaled", "block_scaled_matmul.py", 40)]


def _unaligned_steps(out: Path) -> list[Step]:
    return [
        _step(out, "awkward", "measure.unaligned", 90),
        _step(out, "awkward_outputs", "measure.unaligned", 40, "--cases n50257,n588_out,odd_size"),
    ]


def _sweep_steps(out: Path) -> list[Step]:
    random = [
        _step(out, name, "fit.sweep", seconds, f"{_RANDOM_OPTIONS} --cases {begin}:{end}")
        for name, (begin, end, seconds) in RANDOM_SWEEPS.items()
    ]
    float32 = _step(out, "sweep_float32", "fit.sweep", 240, _FLOAT32_OPTIONS)
    return [_step(out, "sweep", "fit.sweep", 300), *random, float32]


def _random_shapes_steps(out: Path) -> list[Step]:
    options = "--count 210 --seconds 0.1 --warmup-seconds 0.1"
    return [_step(out, "random_shapes", "measure.random_shapes", 400, options)]


def _of_results(name: str, seconds: int) -> Callable[[Path], list[Step]]:
    """A script of report/ that reads the others' files."""
    return lambda out: [Step(name, script(f"report.{name}", "--results", str(out)), seconds)]


def _preset(
    file: str,
    name: str,
    preset: str,
    seconds: int,
    of_case: str,
    warmup: str,
    environment: Env = _NOTHING,
) -> Stage:
    options = f"--preset {preset} --seconds {of_case} --warmup-seconds {warmup}"
    return _measured(file, name, seconds, options, environment)


_BLOCK_SCALED = "block_scaled_matmul.py"  # about half of its time is compiling the peers: block_scaled_presets.py

# Targets and pictures last: they read the others' files.
BENCHMARK_STAGES: dict[str, Stage] = {
    "demo": Stage(_demo_steps, _printed("demo.txt")),
    "portable": _preset("portable", "matmul.py", "portable", 100, "0.4", "0.8", _PORTABLE_KERNELS),
    "accuracy": _measured("accuracy", "measure.accuracy", 20),
    "host": _measured("host", "measure.host", 45),
    "layer": _measured("layer", "measure.layer", 120),
    "parallel": _measured("parallel", "measure.parallel", 100, by_default=False),  # takes more than one GPU
    "unaligned": Stage(_unaligned_steps, None),
    "random_shapes": Stage(_random_shapes_steps, _printed("random_shapes.txt")),
    "sweep": Stage(_sweep_steps, None, by_default=False),
    "tune_regret": _measured("tune_regret", "measure.tune_regret", 240, by_default=False),
    "matmul": _preset("matmul", "matmul.py", "hopper", 330, "0.3", "0.3"),
    "float32": _preset("float32", "matmul.py", "float32", 150, "0.3", "0.3"),
    "fp8": _preset("fp8", "matmul.py", "fp8", 150, "0.4", "0.4"),
    "block_scaled": _preset("block_scaled_matmul", _BLOCK_SCALED, "hopper", 240, "0.3", "0.3"),
    "block_scaled_portable": _preset(
        "block_scaled_portable", _BLOCK_SCALED, "portable", 240, "0.4", "0.8", _PORTABLE_KERNELS
    ),
    "block_scaled_accuracy": _measured("block_scaled_accuracy", "measure.block_scaled_accuracy", 40),
    "rare_numbers": _measured("rare_numbers", "measure.rare_numbers", 60),
    "quantize": _measured("quantize", "measure.quantize", 40),
    "targets": Stage(_of_results("targets", 20), _printed("targets.txt")),
    "pictures": Stage(_of_results("pictures", 60), None),
}
