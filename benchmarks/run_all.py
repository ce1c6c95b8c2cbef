"""Everything that is claimed of a GPU, run again: `make evidence`, or `python benchmarks/evidence.py --help`.

Runs the suite and the sanitizers, each in several processes side by side, then the soak test, the demo and the
benchmarks one after another, all of them with a time limit, and writes the result files of benchmarks/results/<gpu>/.
Needs a built tree, a Python with torch, pytest, hypothesis and matplotlib, and compute-sanitizer; neither a network nor
git. A failed stage does not stop the others; the exit status is 0 only if all passed.

Full logs stand in <out>/logs, which git ignores.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the top of the tree

from benchmarks.common.benchmark_stages import BENCHMARK_STAGES
from benchmarks.common.commit import ROOT, commit
from benchmarks.common.result_file import aligned, gpu_name, header, portable_path
from benchmarks.common.steps import (
    BENCHMARKS,
    LEFT_OUT,
    PYTHON,
    TIMED_OUT,
    UNPROVEN,
    Outcome,
    Stage,
    Step,
    bare,
    script,
)

# The suite.

_PASSED = r"\b[1-9]\d* passed"


_WATCHDOG = ROOT / "build" / "watchdog" / "tileon_ops" / "_C.so"
_HOPPER_TESTS = (
    "test_config_rows.py",
    "test_block_scaled_rows.py",
    "test_hopper_rows.py",
    "test_hopper_few_rows.py",
    "test_hopper_float32.py",
    "test_dependent_launch.py",
    "test_choice.py",
)


# How files of tests begin that compile the simulated GPU, for minutes; no hardware has a part in them.
_SIMULATION = "test_simulat"

# Side by side, each with two threads: the references are computed on the CPU.
_TEST_PROCESSES = max(8, (os.cpu_count() or 1) // 2)
_FEW_THREADS = {"OMP_NUM_THREADS": "2"}


def _test_steps(out: Path) -> list[Step]:
    """The suite in several processes, a share of its files each, and Hopper's tests with the watchdog library, where a
    kernel that would hang ends with an error."""
    pytest = [PYTHON, "-m", "pytest", "-q", "--durations=3"]
    files = sorted(path.name for path in (ROOT / "tests").glob("test_*.py") if not path.name.startswith(_SIMULATION))
    steps = []
    for number in range(_TEST_PROCESSES):
        share = [f"tests/{name}" for name in files[number::_TEST_PROCESSES]]
        steps.append(Step(f"tests_{number + 1}", [*pytest, *share], 400, _FEW_THREADS, (_PASSED,)))
    if _WATCHDOG.exists():
        tests = [f"tests/{name}" for name in _HOPPER_TESTS]
        library = {**_FEW_THREADS, "TILEON_LIBRARY": _WATCHDOG.relative_to(ROOT).as_posix()}
        steps.append(Step("watchdog", [*pytest, *tests, "-k", "not sm80"], 400, library, (_PASSED,)))
    return steps


def _last_lines(output: str, count: int) -> str:
    lines = [line.rstrip() for line in output.strip().splitlines()]
    return "\n".join(lines[-count:]) + "\n"


_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")


def _write_tests(out: Path, outcomes: list[Outcome]) -> None:
    parts, totals = [header()], dict.fromkeys(("passed", "failed", "error", "skipped"), 0)
    for outcome in outcomes:
        lines = [line.strip("= ") for line in outcome.output.splitlines()]
        last = next((line for line in reversed(lines) if _COUNTS.search(line)), "no counts were printed")
        trouble = [line for line in lines if line.startswith(("FAILED", "ERROR"))][:20]
        left_out = [line for line in lines if line.startswith("left out:")]
        parts.append("\n".join([f"$ {outcome.step.shown()}   ({outcome.verdict})", *trouble, *left_out, last]) + "\n")
        if outcome.step.name != "watchdog":
            for count, what in _COUNT.findall(last):
                totals[what.removesuffix("s")] = totals.get(what.removesuffix("s"), 0) + int(count)
    counts = ", ".join(f"{count} {what}" for what, count in totals.items() if count or what == "passed")
    seconds = max(outcome.seconds for outcome in outcomes)
    parts.append(f"The suite, all its processes together:\n{counts} in {seconds:.1f}s\n")
    (out / "tests.txt").write_text("\n".join(parts))


# The sanitizers, over the reduced set that `pytest -m sanitizer` selects.


def _find_sanitizer() -> str | None:
    """compute-sanitizer on PATH, else where a toolkit or a profiler's package puts it."""
    found = shutil.which("compute-sanitizer")
    if found:
        return found
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [Path(home) / part for home in homes if home for part in ("bin", "compute-sanitizer")]
    candidates = [place / "compute-sanitizer" for place in places]
    if Path("/opt/nvidia").is_dir():
        candidates += sorted(Path("/opt/nvidia").glob("**/compute-sanitizer"))
    return next((str(path) for path in candidates if path.is_file() and os.access(path, os.X_OK)), None)


# The caching allocator hands out pieces of large blocks, and a read past a tensor's end would land in a neighbour's
# piece unseen: with it off each tensor is an allocation that memcheck knows the end of.
_NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
_CLEAN = r"ERROR SUMMARY: 0 errors"
_TOOLS: dict[str, tuple[int, dict[str, str], str]] = {
    "memcheck": (200, _NO_CACHE, _CLEAN),
    "racecheck": (240, {}, r"RACECHECK SUMMARY: 0 hazards"),
    "synccheck": (200, {}, _CLEAN),
}


def _sanitizer_steps(out: Path) -> list[Step]:
    program = _find_sanitizer() or "compute-sanitizer"
    suite = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "sanitizer"]
    return [
        Step(
            tool,
            [program, "--tool", tool, "--error-exitcode", "99", *suite],
            seconds,
            environment,
            (_PASSED, clean),
        )
        for tool, (seconds, environment, clean) in _TOOLS.items()
    ]


# Lines that count: pytest's last, and the sanitizer's own.
_SUMMARY = re.compile(
    r"ERROR SUMMARY|RACECHECK SUMMARY|Internal Sanitizer Error|Target application|Device not supported"
)
_COUNTS = re.compile(r"\d+ (passed|failed|errors?|skipped|deselected)\b.* in [\d.]+s")


def _write_sanitizers(out: Path, outcomes: list[Outcome]) -> None:
    parts = [header(extra={"sanitizer": _sanitizer_version()})]
    for outcome in outcomes:
        lines = outcome.output.splitlines()
        counts = [line.strip("= ") for line in lines if _COUNTS.search(line)][-1:]
        summary = [line.strip("= ") for line in lines if _SUMMARY.search(line)]
        parts.append(f"\n{outcome.step.name}: {outcome.verdict}, {outcome.seconds:.0f} s\n$ {outcome.step.shown()}\n")
        parts += [f"{line}\n" for line in counts + summary[-3:]] or ["no summary was printed\n"]
    (out / "sanitizer.txt").write_text("".join(parts))


def _sanitizer_version() -> str:
    program = _find_sanitizer()
    if program is None:
        return "compute-sanitizer was not found"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    versions = [line for line in done.stdout.splitlines() if line.startswith("Version")]
    return versions[0] if versions else "unknown"


# Random calls of every op, which write their own file.


def _soak_steps(out: Path) -> list[Step]:
    limits = ["--seconds", "120", "--processes", "8", "--seed", "1"]
    command = script("soak.py", *limits, "--out", str(out / "soak.txt"))
    return [Step("soak", command, 200, proofs=(r"\nsoak: [1-9][\d,]* calls",))]


# Steps of one stage that run together count once.
STAGES: dict[str, Stage] = {
    "tests": Stage(_test_steps, _write_tests, together=True),
    "sanitizers": Stage(_sanitizer_steps, _write_sanitizers, together=True),
    "soak": Stage(_soak_steps, None),
    **BENCHMARK_STAGES,
}


def _without_paths(text: str) -> str:
    """The text with the places of tree, interpreter and home directory taken out."""
    places = {str(ROOT): ".", sys.prefix: "<python>", sys.base_prefix: "<python>", str(Path.home()): "~"}
    for place, short in sorted(places.items(), key=lambda item: -len(item[0])):
        text = text.replace(place, short) if len(place) > 1 else text
    return text


def _run(step: Step, out: Path) -> Outcome:
    """Runs one step with its limit; a step that goes over it is ended with every process that it started."""
    print(f"== {step.name} (at most {step.seconds} s): {step.shown()}", flush=True)
    log = out / "logs" / f"{step.name}.log"
    begin = time.monotonic()
    try:
        with log.open("wb") as sink:
            process = subprocess.Popen(
                step.command,
                cwd=ROOT,
                env=os.environ | step.environment,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(timeout=step.seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                status = TIMED_OUT
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
    except OSError as error:
        status = LEFT_OUT
        log.write_text(f"{bare(step.command[0])} cannot be run: {error.strerror}\n")
    output = _without_paths(log.read_text(errors="replace"))
    if status == 0 and not all(re.search(proof, output) for proof in step.proofs):
        status = UNPROVEN
    outcome = Outcome(step, status, time.monotonic() - begin, output)
    print(f"   {step.name}: {outcome.verdict}, {outcome.seconds:.0f} s", flush=True)
    if status != 0:
        print("   | " + _last_lines(output, 15).strip().replace("\n", "\n   | "), flush=True)
    return outcome


def default_out() -> Path:
    """benchmarks/results/h200 on an H200, else results/<the GPU's name in small letters>, or results/cpu."""
    name = gpu_name()
    if "H200" in name:
        folder = "h200"
    else:
        folder = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") if name != "none" else "cpu"
    return BENCHMARKS / "results" / folder


_LEFT_OUT = ", ".join(name for name, stage in STAGES.items() if not stage.by_default)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stages", help=f"some of {','.join(STAGES)}, or all (default: all but {_LEFT_OUT})")
    parser.add_argument("--out", type=Path, help="folder of the result files (default: benchmarks/results/<gpu>)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on every time limit, for a slower machine")
    parser.add_argument("--list", action="store_true", help="print the stages with commands and limits, run nothing")
    return parser


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    names = [name for name, stage in STAGES.items() if stage.by_default]
    if arguments.stages:
        names = list(STAGES) if arguments.stages == "all" else arguments.stages.split(",")
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        parser.error(f"unknown stage {', '.join(unknown)}; there are {', '.join(STAGES)}")

    out = (arguments.out or default_out()).resolve()
    steps = {name: STAGES[name].steps(out) for name in names}
    if arguments.list:
        rows = [[name, f"{step.seconds} s", step.shown()] for name in names for step in steps[name]]
        print(aligned([["stage", "limit", "command"], *rows]))
        return 0

    (out / "logs").mkdir(parents=True, exist_ok=True)
    os.environ["TILEON_COMMIT"] = commit()  # asked once: every file of one run names the same commit
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    print(f"commit {os.environ['TILEON_COMMIT']}, gpu {gpu_name()}, results in {portable_path(out)}", flush=True)
    table, good = [["stage", "step", "result", "seconds"]], True
    for name in names:
        limited = [replace(step, seconds=max(1, round(step.seconds * arguments.scale))) for step in steps[name]]
        with ThreadPoolExecutor(len(limited) if STAGES[name].together else 1) as pool:
            outcomes = list(pool.map(lambda step: _run(step, out), limited))
        writer = STAGES[name].write
        if writer is not None:
            writer(out, outcomes)
        for outcome in outcomes:
            good = good and outcome.status == 0
            table.append([name, outcome.step.name, outcome.verdict, f"{outcome.seconds:.0f}"])
    print(f"\n{aligned(table)}\nresults in {portable_path(out)}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
