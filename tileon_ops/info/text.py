"""The report for people: a few lines a section, printed as its answer comes, and the problems at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from tileon_ops.info.doctor import Answer, Facts, described
from tileon_ops.info.settings import OWN

_WIDTH = 38  # of the first column


def _line(key: str, value: object) -> str:
    return f"{key + ':':{_WIDTH}}{value}"


def _or_none(value: object, otherwise: str) -> str:
    return otherwise if value is None or value == "" else str(value)


def _package_lines(facts: Facts) -> Iterator[str]:
    yield _line("tileon_ops", f"{facts['version']} in {facts['path']}")


def _python_lines(facts: Facts) -> Iterator[str]:
    yield _line("Python", f"{facts['version']} on {facts['platform']}, {facts['executable']}")


def _torch_lines(facts: Facts) -> Iterator[str]:
    if facts["failure"] is not None:
        yield _line("torch", f"cannot be used: {facts['failure']}")
    if facts["version"] is not None:
        yield _line("torch", f"{facts['version']} in {facts['path']}")
        yield _line("torch's CUDA", facts["cuda"] or "none: a torch for the CPU alone")
        yield _line("torch's C++ ABI", "the new one" if facts["cxx11_abi"] else "the one before C++11")


def _cuda_lines(facts: Facts) -> Iterator[str]:
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


def _library_lines(facts: Facts) -> Iterator[str]:
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


def _backend_lines(facts: Facts) -> Iterator[str]:
    for call in facts["calls"]:
        operands = "" if call["operands"] == "aligned" else f", {call['operands']}"
        why = f"  ({call['why_not_faster']})" if call["why_not_faster"] else ""
        answer = f"fails: {call['failure']}" if call["failure"] else f"{call['kernel']}{why}"
        yield _line(f"{call['op']} {call['dtype']} on {call['device']}{operands}", answer)


def _variable_lines(facts: Facts) -> Iterator[str]:
    for name, value in facts.items():
        if name in OWN:
            yield _line(name, value or f"not set: {OWN[name]}")
        elif value is not None and name != "error":
            yield _line(name, value)


def _cache_lines(facts: Facts) -> Iterator[str]:
    kind = "" if facts["exists"] else ", not there yet"
    kind += "" if facts["writable"] else ", not writable"
    yield _line("tuning cache", f"{facts['path']}{kind}" if facts["path"] else _or_none(facts["failure"], "none"))
    for file in facts["files"]:
        yield _line("tuning cache", f"{file['entries'] or 0} problems, {file['gpu']}, {file['state']}: {file['path']}")


def _copies_lines(facts: Facts) -> Iterator[str]:
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


def printed(answers: Iterable[Answer]) -> Iterator[Answer]:
    """Hands on the answers, each printed as it comes; the problems are printed at the end."""
    problems = []
    for answer in answers:
        print(f"== {answer.name.replace('_', ' ')}", flush=True)
        try:
            for line in _LINES[answer.name](answer.facts):
                print(line, flush=True)
        except (KeyError, TypeError) as error:  # the section ended half-way
            print(_line("not shown", described(error)), flush=True)
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
