"""The sections "variables" and "tuning_cache": what changes what runs, and what tuning left behind."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from tileon_ops._loading import build_state
from tileon_ops.info.doctor import Examination, Facts, Section, described

# The package's own, each read once a process, and what holds where it is not set.
OWN = {
    "TILEON_LIBRARY": "the package's own library",
    "TILEON_HOPPER": "Hopper's own kernels are chosen; 0 leaves the portable ones",
    "TILEON_PDL": "programmatic dependent launch is on; 0 turns it off",
    "TILEON_CPU_VECTORS": "the CPU's widest vectors: none wider than baseline, avx2, avx512, avx512_bf16 or amx",
    "TILEON_BATCH_INVARIANT": "a row's result may depend on how many others there are; 1 takes care that it does not",
    "TILEON_LOG": "no log; 1 prints the kernel of every call",
    "TILEON_TUNE": "what tuning found is used; 1 measures what it has not met, 0 leaves it alone",
    "TILEON_CACHE_DIR": "the tuning cache is in $XDG_CACHE_HOME/tileon_ops or ~/.cache/tileon_ops",
}

# The package's own that are read elsewhere: by the build, by the benchmarks and by the tests.
OWN_ELSEWHERE = (
    "TILEON_CPU_ONLY",
    "TILEON_WATCHDOG",
    "TILEON_COMMIT",
    "TILEON_TEST_LIMIT",
    "TILEON_SIMULATED_GPU",
    "TILEON_SIMULATED_PART",
    "TILEON_SIMULATED_SEED",
    "TILEON_SIMULATED_SIZES",
    "TILEON_SIMULATION_LIBRARY",
)

# Others' that change what is found or what runs.
OTHERS = ("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_LAUNCH_BLOCKING", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH")

_SWITCHES = {
    **dict.fromkeys(("TILEON_HOPPER", "TILEON_PDL", "TILEON_LOG", "TILEON_TUNE", "TILEON_BATCH_INVARIANT"), ("0", "1")),
    "TILEON_CPU_VECTORS": ("baseline", "avx2", "avx512", "avx512_bf16", "amx"),
}


def _look_at_variables(examination: Examination) -> None:
    examination.facts.update({name: os.environ.get(name) for name in (*OWN, *OTHERS)})
    for name, values in _SWITCHES.items():
        value = os.environ.get(name)
        if value and value not in values:
            offered = " nor ".join(values)
            examination.warning(f"{name}={value!r} is neither {offered}.", "Set it to one of them, or unset it.")
    known = (*OWN, *OWN_ELSEWHERE)
    for name in sorted(os.environ):
        if name.startswith("TILEON_") and name not in known:
            examination.warning(f"{name} is no variable of tileon_ops.", f"Is it one of {', '.join(known)}?")


def cache_file(path: Path, cache: Any, library: Facts, gpus: list[str]) -> Facts:
    """What one file of the tuning cache holds.

    Its "state" is one of: "used here"; "of another GPU" or "of another library", which is ignored here; "corrupt" or
    "unreadable", with "failure" saying why.

    Args:
        cache: the module that reads such files.
        library: what the files of this one say of it, "version" and "sources".
        gpus: the names of those that are here.
    """
    facts: Facts = {"path": str(path), "entries": None, "gpu": None, "version": None, "state": None, "failure": None}
    try:
        gpu, built, choices = cache.read_any(path)
    except (OSError, ValueError) as error:
        state = "unreadable" if isinstance(error, OSError) else "corrupt"
        return {**facts, "state": state, "failure": described(error)}
    facts.update(entries=len(choices), gpu=gpu.get("name"), version=built.get("version"))
    if any(built.get(key) != value for key, value in library.items()):
        facts["state"] = "of another library"
    else:
        facts["state"] = "used here" if facts["gpu"] in gpus else "of another GPU"
    return facts


def _is_writable(folder: Path) -> bool:
    """Whether a file can be put there, or the folder be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _look_at_cache(examination: Examination) -> None:
    facts = examination.facts
    try:
        cache: Any = importlib.import_module("tileon_ops.tune.cache")
    except ImportError as error:
        facts["failure"] = f"no tuner here: {error}"
        return
    folder = cache.directory()
    if folder is None:
        examination.warning("There is no home directory for the tuning cache.", "Set TILEON_CACHE_DIR to a folder.")
        return
    facts.update(path=str(folder), exists=folder.is_dir(), writable=_is_writable(folder))
    if not facts["writable"]:
        examination.warning(
            f"The tuning cache cannot be written: {folder}. What is tuned is lost with the process.",
            "Make that folder writable, or set TILEON_CACHE_DIR to another.",
        )
    record = build_state.read_record(build_state.record_of(Path(examination.known("library", "path") or "")))
    library = {"version": examination.known("library", "version"), "sources": record.sources if record else ""}
    gpus = [gpu["name"] for gpu in examination.known("cuda", "gpus") or []]
    for path in cache.files(folder):
        found = cache_file(path, cache, library, gpus)
        facts["files"].append(found)
        if found["failure"] is not None:
            examination.warning(
                f"The tuning cache {path} is {found['state']}: {found['failure']}. It is ignored.",
                "Remove the file, or make it readable; tune again.",
            )
    if os.environ.get("TILEON_TUNE") != "0":
        facts["entries"] = sum(found["entries"] for found in facts["files"] if found["state"] == "used here")


VARIABLES = Section("variables", dict.fromkeys((*OWN, *OTHERS)), _look_at_variables)

CACHE = Section(
    "tuning_cache",
    {"path": None, "exists": None, "writable": None, "entries": 0, "files": [], "failure": None},
    _look_at_cache,
)
