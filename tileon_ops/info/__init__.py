"""What is here: torch, CUDA, GPUs, what the library was built for, which kernels the ops take, and what is wrong.

    python -m tileon_ops.info            # for people; the last section says what to do
    python -m tileon_ops.info --json     # for programs

never raises, whatever is broken: what cannot be found out is said in its place, and what ends the process ends only a
child of it. The exit status is 0 where `import tileon_ops` works and 1 where it does not.

The JSON is one object. Its keys are fixed, and all are there whatever fails; a later version may add some. A section's
own "error" is null unless something unforeseen ended it; what is not known is null, or empty.

    schema         1
    usable         whether `import tileon_ops` works
    package        version, path, is_source_tree
    python         version, executable, platform, machine, libc, free_threaded
    torch          version, path, cuda, hip, cxx11_abi, debug; failure: why it cannot be imported
    cuda           driver, driver_cuda (the newest that it knows), driver_problem, toolkit (nvcc), toolkit_path,
                   visible_devices, usable_by_torch, torch_problem;
                   gpus: a list of index, name, capability, memory_gib, found_by
    library        path, exists, loads, failure, version, cuda ("none": for the CPU alone), targets, torch (which built
                   it), stable_abi (the oldest torch), watchdog, sources, rows_of_hopper, rows_portable (of the tile
                   tables); gpus: a list of index, image (which of the targets that GPU runs)
    backends       calls: a list of op, dtype, device, operands, kernel, why_not_faster, failure
    variables      the environment variables that matter, null where not set
    tuning_cache   path, exists, writable, entries (used here), failure;
                   files: a list of path, entries, gpu, version, state, failure
    copies         on_path and installed: for tileon_ops and torch a list of path, version (installed: editable);
                   mapped: libraries of the process, by name
    problems       a list of level ("error" or "warning"), what, do
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from tileon_ops.info import doctor
from tileon_ops.info.backends import BACKENDS
from tileon_ops.info.copies import COPIES
from tileon_ops.info.cuda import CUDA
from tileon_ops.info.library import LIBRARY
from tileon_ops.info.settings import CACHE, OWN, VARIABLES
from tileon_ops.info.versions import PACKAGE_SECTION, PYTHON, TORCH

SCHEMA = 1
SECTIONS = [PACKAGE_SECTION, PYTHON, TORCH, CUDA, LIBRARY, BACKENDS, VARIABLES, CACHE, COPIES]

_WIDTH = 38  # of the first column


def _document(answers: Iterable[doctor.Answer]) -> dict[str, Any]:
    """What `--json` prints."""
    document: dict[str, Any] = {"schema": SCHEMA, "usable": False}
    problems = []
    for answer in answers:
        document[answer.name] = answer.facts
        problems += [asdict(problem) for problem in answer.problems]
    return {**document, "usable": document["library"]["loads"], "problems": problems}


def report() -> dict[str, Any]:
    """The object that `--json` prints, looked for in this process. It raises nothing; a section that fails says so."""
    return _document(doctor.examine_here(SECTIONS, {}))


def _line(key: str, value: object) -> str:
    return f"{key + ':':{_WIDTH}}{value}"


def _or_none(value: object, otherwise: str) -> str:
    return otherwise if value is None or value == "" else str(value)


def _package_lines(facts: doctor.Facts) -> Iterator[str]:
    yield _line("tileon_ops", f"{facts['version']} in {facts['path']}")


def _python_lines(facts: doctor.Facts) -> Iterator[str]:
    yield _line("Python", f"{facts['version']} on {facts['platform']}, {facts['executable']}")


def _torch_lines(facts: doctor.Facts) -> Iterator[str]:
    if facts["failure"] is not None:
        yield _line("torch", f"cannot be used: {facts['failure']}")
    if facts["version"] is not None:
        yield _line("torch", f"{facts['version']} in {facts['path']}")
        yield _line("torch's CUDA", facts["cuda"] or "none: a torch for the CPU alone")
        yield _line("torch's C++ ABI", "the new one" if facts["cxx11_abi"] else "the one before C++11")


def _cuda_lines(facts: doctor.Facts) -> Iterator[str]:
    if not facts["gpus"]:
        yield _line("GPU", "none found")
    for gpu in facts["gpus"]:
        capability = f", compute capability {gpu['capability']}" if gpu["capability"] else ""
        memory = f", {gpu['memory_gib']:.0f} GiB" if gpu["memory_gib"] else ""
        unused = "" if facts["usable_by_torch"] else f" (found by {gpu['found_by']}; torch cannot use it)"
        yield _line(f"GPU {gpu['index']}", f"{gpu['name']}{capability}{memory}{unused}")
    newest = f", for CUDA up to {facts['driver_cuda']}" if facts["driver_cuda"] else ""
    yield _line("GPU driver", f"{facts['driver'] or 'none found'}{newest}")
    toolkit = (
        f"{facts['toolkit']}, {facts['toolkit_path']}" if facts["toolkit"] else "none found (only a build needs it)"
    )
    yield _line("CUDA toolkit", toolkit)


def _library_lines(facts: doctor.Facts) -> Iterator[str]:
    yield _line("library", f"{facts['path']}{'' if facts['loads'] else ' does not load'}")
    if facts["failure"] is not None:
        yield _line("library's failure", facts["failure"])
    if facts["cuda"] is not None:
        targets = f" for {' '.join(facts['targets'])}" if facts["targets"] else ""
        built = "the CPU alone" if facts["cuda"] == "none" else f"CUDA {facts['cuda']}{targets}"
        yield _line("built: version", facts["version"])
        yield _line("built: for", built)
        yield _line("built: with torch", f"{facts['torch']}, for {_or_none(facts['stable_abi'], '2.11')} and newer")
        yield _line("built: watchdog", "yes" if facts["watchdog"] else "no")
        yield _line("built: from sources", _or_none(facts["sources"], "that nobody knows: there is no _C.json"))
    if facts["loads"]:
        rows = facts["rows_of_hopper"] + facts["rows_portable"]
        hopper = facts["rows_of_hopper"]
        yield _line("tile tables", f"{rows} rows" if rows else "empty: a library for the CPU alone")
        yield _line("Hopper's kernels", f"{hopper} rows" if hopper else "not in this library")
    for gpu in facts["gpus"]:
        yield _line(f"GPU {gpu['index']} runs", f"code for {gpu['image']}" if gpu["image"] else "none of the library")


def _backend_lines(facts: doctor.Facts) -> Iterator[str]:
    for call in facts["calls"]:
        operands = "" if call["operands"] == "aligned" else f", {call['operands']}"
        why = f"  ({call['why_not_faster']})" if call["why_not_faster"] else ""
        answer = f"fails: {call['failure']}" if call["failure"] else f"{call['kernel']}{why}"
        yield _line(f"{call['op']} {call['dtype']} on {call['device']}{operands}", answer)


def _variable_lines(facts: doctor.Facts) -> Iterator[str]:
    for name, value in facts.items():
        if name in OWN:
            yield _line(name, value or f"not set: {OWN[name]}")
        elif value is not None and name != "error":
            yield _line(name, value)


def _cache_lines(facts: doctor.Facts) -> Iterator[str]:
    kind = "" if facts["exists"] else ", not there yet"
    kind += "" if facts["writable"] else ", not writable"
    yield _line("tuning cache", f"{facts['path']}{kind}" if facts["path"] else _or_none(facts["failure"], "none"))
    for file in facts["files"]:
        yield _line("tuning cache", f"{file['entries'] or 0} problems, {file['gpu']}, {file['state']}: {file['path']}")


def _copies_lines(facts: doctor.Facts) -> Iterator[str]:
    for package, installed in facts["installed"].items():
        for one in installed:
            editable = f", editable: {one['editable']}" if one["editable"] else ""
            yield _line(f"installed {package}", f"{one['version']} in {one['path']}{editable}")
        for one in facts["on_path"][package][1:]:
            yield _line(f"another {package}", f"{_or_none(one['version'], 'of unknown version')} in {one['path']}")


_LINES = {
    "package": _package_lines,
    "python": _python_lines,
    "torch": _torch_lines,
    "cuda": _cuda_lines,
    "library": _library_lines,
    "backends": _backend_lines,
    "variables": _variable_lines,
    "tuning_cache": _cache_lines,
    "copies": _copies_lines,
}


def _printed(answers: Iterable[doctor.Answer]) -> Iterator[doctor.Answer]:
    """The same answers, each printed as it comes, and the problems at the end."""
    problems = []
    for answer in answers:
        print(f"== {answer.name.replace('_', ' ')}", flush=True)
        try:
            for line in _LINES[answer.name](answer.facts):
                print(line, flush=True)
        except (KeyError, TypeError) as error:  # the section ended half-way
            print(_line("not shown", doctor.described(error)), flush=True)
        problems += answer.problems
        if answer.facts["error"] is not None:
            print(_line("nothing more is known", answer.facts["error"]), flush=True)
        yield answer
    print("== problems")
    for problem in problems:
        print(f"{problem.level}: {problem.what} {problem.do}")
    if not problems:
        print("none found")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Prints the report; 0 where `import tileon_ops` works, else 1."""
    parser = argparse.ArgumentParser("python -m tileon_ops.info", description="What is here, and what is wrong.")
    parser.add_argument("--json", action="store_true", help="one JSON object; its keys are in the module's docstring")
    as_json = parser.parse_args(arguments).json
    if isinstance(sys.stdout, io.TextIOWrapper):  # paths may hold what the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    answers = doctor.examine_apart(SECTIONS)
    try:
        document = _document(answers if as_json else _printed(answers))
        if as_json:
            print(json.dumps(document, indent=2), flush=True)
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for Python's own flush at exit
        return 1
    return 0 if document["usable"] else 1


if __name__ == "__main__":
    sys.exit(main())
