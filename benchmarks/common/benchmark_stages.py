"""The stages of evidence.py that run the demo and the benchmarks. The scripts write their own files."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.steps import PYTHON, Outcome, Stage, Step, script, write_outputs


def _demo_steps(out: Path) -> list[Step]:
    def files(name: str) -> list[str]:
        return ["--csv", str(out / "logs" / f"{name}.csv"), "--plot", str(out / "logs" / f"{name}.png")]

    demo = ["--preset", "demo", "--seconds", "0.2"]
    return [
        Step("verify", [PYTHON, "-m", "tileon_ops"], 15),
        Step("demo", script("matmul.py", *demo, *files("demo")), 25),
        Step("demo_block_scaled", script("block_scaled_matmul.py", *demo, *files("demo_block_scaled")), 40),
    ]


def _write_demo(out: Path, outcomes: list[Outcome]) -> None:
    write_outputs(out / "demo.txt", outcomes)


def _write_bars(out: Path, outcomes: list[Outcome]) -> None:
    write_outputs(out / "bars.txt", outcomes)


_PORTABLE_KERNELS = {"TILEON_HOPPER": "0"}  # them alone, where there are others too


def _portable_steps(out: Path) -> list[Step]:
    files = ["--csv", str(out / "portable.csv")]
    limits = ["--seconds", "0.4", "--warmup-seconds", "0.8"]
    return [Step("portable", script("matmul.py", "--preset", "portable", *limits, *files), 100, _PORTABLE_KERNELS)]


def _accuracy_steps(out: Path) -> list[Step]:
    return [Step("accuracy", script("measure.accuracy", "--csv", str(out / "accuracy.csv")), 20)]


def _host_steps(out: Path) -> list[Step]:
    return [Step("host", script("measure.host", "--csv", str(out / "host.csv")), 45)]


def _layer_steps(out: Path) -> list[Step]:
    return [Step("layer", script("measure.layer", "--csv", str(out / "layer.csv")), 120)]


def _parallel_steps(out: Path) -> list[Step]:
    return [Step("parallel", script("measure.parallel", "--csv", str(out / "parallel.csv")), 100)]


def _awkward_steps(out: Path) -> list[Step]:
    outputs = ["--cases", "n50257,n588_out,odd_size", "--csv", str(out / "awkward_outputs.csv")]
    return [
        Step("awkward", script("measure.unaligned", "--csv", str(out / "awkward.csv")), 90),
        Step("awkward_outputs", script("measure.unaligned", *outputs), 40),
    ]


def _random_shapes_steps(out: Path) -> list[Step]:
    limits = ["--count", "210", "--seconds", "0.1", "--warmup-seconds", "0.1"]
    return [
        Step("random_shapes", script("measure.random_shapes", *limits, "--csv", str(out / "random_shapes.csv")), 400)
    ]


def _write_random_shapes(out: Path, outcomes: list[Outcome]) -> None:
    write_outputs(out / "random_shapes.txt", outcomes)


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


def _sweep_steps(out: Path) -> list[Step]:
    steps = [Step("sweep", script("fit.sweep", "--csv", str(out / "sweep.csv")), 300)]
    for name, (begin, end, seconds) in RANDOM_SWEEPS.items():
        files = ["--cases", f"{begin}:{end}", "--csv", str(out / f"{name}.csv")]
        steps.append(Step(name, script("fit.sweep", *_RANDOM_OPTIONS.split(), *files), seconds))
    files = ["--csv", str(out / "sweep_float32.csv")]
    return [*steps, Step("sweep_float32", script("fit.sweep", *_FLOAT32_OPTIONS.split(), *files), 240)]


def _tune_regret_steps(out: Path) -> list[Step]:
    return [Step("tune_regret", script("measure.tune_regret", "--csv", str(out / "tune_regret.csv")), 240)]


def _matmul_steps(out: Path) -> list[Step]:
    files = ["--csv", str(out / "matmul.csv")]
    limits = ["--seconds", "0.3", "--warmup-seconds", "0.3"]
    return [Step("matmul", script("matmul.py", "--preset", "hopper", *limits, *files), 330)]


def _float32_steps(out: Path) -> list[Step]:
    files = ["--csv", str(out / "float32.csv")]
    limits = ["--seconds", "0.3", "--warmup-seconds", "0.3"]
    return [Step("float32", script("matmul.py", "--preset", "float32", *limits, *files), 150)]


def _fp8_steps(out: Path) -> list[Step]:
    files = ["--csv", str(out / "fp8.csv")]
    limits = ["--seconds", "0.4", "--warmup-seconds", "0.4"]
    return [Step("fp8", script("matmul.py", "--preset", "fp8", *limits, *files), 150)]


def _block_scaled_steps(out: Path) -> list[Step]:
    files = ["--csv", str(out / "block_scaled_matmul.csv")]
    limits = ["--seconds", "0.3", "--warmup-seconds", "0.3"]
    command = script("block_scaled_matmul.py", "--preset", "hopper", *limits, *files)
    return [Step("block_scaled", command, 240)]  # about half of it is compiling the peers: block_scaled_presets.py


def _block_scaled_portable_steps(out: Path) -> list[Step]:
    files = ["--csv", str(out / "block_scaled_portable.csv")]
    limits = ["--seconds", "0.4", "--warmup-seconds", "0.8"]
    command = script("block_scaled_matmul.py", "--preset", "portable", *limits, *files)
    return [Step("block_scaled_portable", command, 240, _PORTABLE_KERNELS)]  # compiling the peers is most of it


def _block_scaled_accuracy_steps(out: Path) -> list[Step]:
    command = script("measure.block_scaled_accuracy", "--csv", str(out / "block_scaled_accuracy.csv"))
    return [Step("block_scaled_accuracy", command, 40)]


def _rare_numbers_steps(out: Path) -> list[Step]:
    return [Step("rare_numbers", script("measure.rare_numbers", "--csv", str(out / "rare_numbers.csv")), 60)]


def _quantize_steps(out: Path) -> list[Step]:
    return [Step("quantize", script("measure.quantize", "--csv", str(out / "quantize.csv")), 40)]


def _bars_steps(out: Path) -> list[Step]:
    return [Step("bars", script("report.targets", "--results", str(out)), 20)]


def _pictures_steps(out: Path) -> list[Step]:
    return [Step("pictures", script("report.pictures", "--results", str(out)), 60)]


# Bars and pictures last: they read the others' files.
BENCHMARK_STAGES: dict[str, Stage] = {
    "demo": Stage(_demo_steps, _write_demo),
    "portable": Stage(_portable_steps, None),
    "accuracy": Stage(_accuracy_steps, None),
    "host": Stage(_host_steps, None),
    "layer": Stage(_layer_steps, None),
    "parallel": Stage(_parallel_steps, None, by_default=False),  # takes more than one GPU
    "awkward": Stage(_awkward_steps, None),
    "random_shapes": Stage(_random_shapes_steps, _write_random_shapes),
    "sweep": Stage(_sweep_steps, None, by_default=False),
    "tune_regret": Stage(_tune_regret_steps, None, by_default=False),
    "matmul": Stage(_matmul_steps, None),
    "float32": Stage(_float32_steps, None),
    "fp8": Stage(_fp8_steps, None),
    "block_scaled": Stage(_block_scaled_steps, None),
    "block_scaled_portable": Stage(_block_scaled_portable_steps, None),
    "block_scaled_accuracy": Stage(_block_scaled_accuracy_steps, None),
    "rare_numbers": Stage(_rare_numbers_steps, None),
    "quantize": Stage(_quantize_steps, None),
    "bars": Stage(_bars_steps, _write_bars),
    "pictures": Stage(_pictures_steps, None),
}
