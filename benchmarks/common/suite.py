"""The stages of run_all.py that prove rather than measure: the suite, and the sanitizers over a part of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from benchmarks.common.commit import ROOT
from benchmarks.common.result_file import header
from benchmarks.common.stages import PYTHON, Outcome, Stage, Step

# The suite.

_PASSED = r"\b[1-9]\d* passed"
_WATCHDOG = ROOT / "build" / "watchdog" / "tileon_ops" / "_C.so"
_HOPPER_TESTS = (
    *("test_config_rows.py", "test_block_scaled_rows.py", "test_hopper_rows.py", "test_hopper_few_rows.py"),
    *(
        "test_hopper_weight_only.py",
        "test_hopper_float32_scaled_weight.py",
        "test_hopper_block_weights.py",
        "test_scaled_codes.py",
        "test_hopper_float32.py",
        "test_dependent_launch.py",
        "test_choice.py",
    ),
)

# How files of tests begin that compile the simulated GPU, for minutes; no hardware has a part in them.
_SIMULATION = "test_simulat"

# Side by side, each with two threads: the references are computed on the CPU. Files differ in what they take, so there
# are twice as many shares as processes.
_TEST_PROCESSES = max(8, (os.cpu_count() or 1) - 2)
_TEST_SHARES = 2 * _TEST_PROCESSES
_FEW_THREADS = {"OMP_NUM_THREADS": "2"}


def _test_steps(out: Path) -> list[Step]:
    """The suite in several processes, a share of its files each, and Hopper's tests with the watchdog library, where a
    kernel that would hang ends with an error."""
    pytest = [PYTHON, "-m", "pytest", "-q", "--durations=3"]
    files = sorted(path.name for path in (ROOT / "tests").glob("test_*.py") if not path.name.startswith(_SIMULATION))
    steps = []
    for number in range(_TEST_SHARES):
        share = [f"tests/{name}" for name in files[number::_TEST_SHARES]]
        steps.append(Step(f"tests_{number + 1}", [*pytest, *share], 400, _FEW_THREADS, (_PASSED,)))
    if _WATCHDOG.exists():
        tests = [f"tests/{name}" for name in _HOPPER_TESTS]
        library = {**_FEW_THREADS, "TILEON_LIBRARY": _WATCHDOG.relative_to(ROOT).as_posix()}
        steps.append(Step("watchdog", [*pytest, *tests, "-k", "not sm80"], 400, library, (_PASSED,)))
    return steps


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
    seconds = sum(outcome.seconds for outcome in outcomes)
    parts.append(f"The suite, all its processes together:\n{counts} in {seconds:.1f}s, their times added\n")
    (out / "tests.txt").write_text("\n".join(parts))


# The sanitizers, over the reduced set that `pytest -m sanitizer` selects.


def _find_sanitizer() -> str | None:
    """compute-sanitizer on PATH, else where a toolkit or a profiler's package puts it."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    places = [f"{home}/{part}" for home in homes if home for part in ("bin", "compute-sanitizer")]
    places += [str(path.parent) for path in sorted(Path("/opt/nvidia").glob("**/compute-sanitizer"))]
    return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=os.pathsep.join(places))


# The caching allocator hands out pieces of large blocks, and a read past a tensor's end would land in a neighbour's
# piece unseen: with it off each tensor is an allocation that memcheck knows the end of.
_NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
_CLEAN = r"ERROR SUMMARY: 0 errors"
# Only reads by kernels count: initcheck has thousands of reports of a copy, by which a test reads back what a kernel
# wrote through TMA; with backtraces it goes through half of its tests in 500 seconds, without in less than a minute.
_NO_KERNEL_READS = r"(?s)\A(?!.*Uninitialized __\w+__ memory read).*ERROR SUMMARY"
_EXIT = ["--error-exitcode", "99"]
# Seconds, environment, what proves that it is clean, options of the tool and of pytest.
_TOOLS: dict[str, tuple[int, dict[str, str], str, list[str], list[str]]] = {
    "memcheck": (240, _NO_CACHE, _CLEAN, _EXIT, []),
    "racecheck": (300, {}, r"RACECHECK SUMMARY: 0 hazards", _EXIT, []),
    "synccheck": (240, {}, _CLEAN, _EXIT, []),
    # It does not see what TMA writes, and takes Hopper's outputs for memory that nothing wrote.
    "initcheck": (
        *(300, {"TILEON_HOPPER": "0"}, _NO_KERNEL_READS),
        *(["--show-backtrace", "no", "--print-limit", "1000000"], ["-k", "not sm90 and not hopper"]),
    ),
}


def _sanitizer_steps(out: Path) -> list[Step]:
    program, steps = _find_sanitizer() or "compute-sanitizer", []
    for tool, (seconds, environment, clean, options, only) in _TOOLS.items():
        command = [program, "--tool", tool, *options, PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        steps.append(Step(tool, [*command, "-m", "sanitizer", *only], seconds, environment, (_PASSED, clean)))
    return steps


# Lines that count: pytest's last, and the sanitizer's own.
_SUMMARY = re.compile("(ERROR|RACECHECK) SUMMARY|Internal Sanitizer Error|Target application|Device not supported")
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
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search("^Version.*$", said, re.MULTILINE)
    return version[0] if version else "unknown"


# Steps of one stage that run together count once.
SUITE_STAGES = {
    "tests": Stage(_test_steps, _write_tests, side_by_side=_TEST_PROCESSES),
    "sanitizers": Stage(_sanitizer_steps, _write_sanitizers, side_by_side=len(_TOOLS)),
}
