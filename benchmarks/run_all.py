"""Everything that is claimed of a GPU, run again: `make evidence`, or `python benchmarks/run_all.py --help`.

Suite and sanitizers run in several processes side by side, then the soak test, the demo and the benchmarks one after
another, all with a time limit. The result files go to benchmarks/results/<gpu>/, full logs to logs/ there, which git
ignores. A failed stage does not stop the others; the exit status is 0 only if all passed (docs/evidence.md).
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the top of the tree

from benchmarks.common.commit import ROOT, commit
from benchmarks.common.result_file import RESULTS, aligned, gpu_name, portable_path
from benchmarks.common.stages import BENCHMARK_STAGES, LEFT_OUT, TIMED_OUT, UNPROVEN, Outcome, Stage, Step, bare
from benchmarks.common.suite import SUITE_STAGES

STAGES: dict[str, Stage] = {**SUITE_STAGES, **BENCHMARK_STAGES}


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
            where: dict[str, Any] = {"cwd": ROOT, "env": os.environ | step.environment, "start_new_session": True}
            process = subprocess.Popen(step.command, stdout=sink, stderr=subprocess.STDOUT, **where)
            try:
                status = process.wait(timeout=step.seconds)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                status = TIMED_OUT
    except OSError as error:
        status = LEFT_OUT
        log.write_text(f"{bare(step.command[0])} cannot be run: {error.strerror}\n")
    output = _without_paths(log.read_text(errors="replace"))
    if status == 0 and not all(re.search(proof, output) for proof in step.proofs):
        status = UNPROVEN
    outcome = Outcome(step, status, time.monotonic() - begin, output)
    print(f"   {step.name}: {outcome.verdict}, {outcome.seconds:.0f} s", flush=True)
    if status != 0:
        print(*(f"   | {line.rstrip()}" for line in output.strip().splitlines()[-15:]), sep="\n", flush=True)
    return outcome


def default_out() -> Path:
    """benchmarks/results/h200 on an H200, else results/<the GPU's name in small letters>, or results/cpu."""
    name = gpu_name()
    folder = "cpu" if name == "none" else re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return RESULTS if "H200" in name else RESULTS.with_name(folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    left_out = ", ".join(name for name, stage in STAGES.items() if not stage.by_default)
    parser.add_argument("--stages", help=f"some of {','.join(STAGES)}, or all (default: all but {left_out})")
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
        with ThreadPoolExecutor(STAGES[name].side_by_side) as pool:
            outcomes = list(pool.map(lambda step: _run(step, out), limited))
        if (write := STAGES[name].write) is not None:
            write(out, outcomes)
        good = good and all(outcome.status == 0 for outcome in outcomes)
        table += [[name, outcome.step.name, outcome.verdict, f"{outcome.seconds:.0f}"] for outcome in outcomes]
    print(f"\n{aligned(table)}\nresults in {portable_path(out)}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
