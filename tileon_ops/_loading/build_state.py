"""Does the library in this tree come from these sources? Python's own modules alone: the build loads this by its path.

`_C.json` lies beside `_C.so` and says what it was built from and for. A pair made elsewhere is as good as one made
here: only the sources have to match, not the compiler or the torch that built it. The watchdog build is a pair of its
own, beside the package and never in it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
LIBRARY = PACKAGE / "_C.so"
RECORD = PACKAGE / "_C.json"
WATCHDOG_LIBRARY = PACKAGE.parent / "build" / "watchdog" / "tileon_ops" / "_C.so"

_SOURCE_SUFFIXES = {".h", ".cuh", ".cpp", ".cu"}
_BUILD = ("setup.py", ".ci/build_ext.py")  # what decides how the sources are compiled


@dataclass(frozen=True)
class BuildRecord:
    """What `_C.json` holds."""

    sources: str  # sha256 of csrc/, setup.py and .ci/build_ext.py
    library: str  # sha256 of _C.so
    version: str
    cuda: str  # nvcc's version, "none" in a library for the CPU alone
    targets: list[str]  # "8.0", ..., "8.0+PTX"; "9.0a" stands for 9.0 with Hopper's own kernels
    torch: str  # built against
    watchdog: bool = False  # the kernels fault where they would wait for ever


def source_hash(root: Path) -> str:
    """sha256 over the names and contents of every file that goes into the library."""
    files = [path for path in (root / "csrc").rglob("*") if path.suffix in _SOURCE_SUFFIXES]
    total = hashlib.sha256()
    for path in sorted([*files, *(root / name for name in _BUILD)]):
        total.update(path.relative_to(root).as_posix().encode() + b"\0")
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def record_of(library: Path) -> Path:
    """Where the record of this library is."""
    return library.with_suffix(".json")


def read_record(path: Path = RECORD) -> BuildRecord | None:
    """The record, or None where there is none that can be read."""
    try:
        return BuildRecord(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def write_record(record: BuildRecord, path: Path = RECORD) -> None:
    path.write_text(json.dumps(asdict(record), indent=2) + "\n")


def plain(target: str) -> str:
    """The target without the letter of architecture-specific code: "9.0a" is "9.0"."""
    return target.replace("a", "").replace("f", "")


def serves(built: list[str], target: str) -> bool:
    """Whether a library built for `built` is good for the target that was asked for.

    9.0a alone is code of another kind (Hopper's kernels); every other letter asks for what the plain target has.
    """
    return target in built or (target != "9.0a" and plain(target) in map(plain, built))


def why_rebuild(
    root: Path, *, cuda: bool, cpu_only: bool, targets: list[str] | None, watchdog: bool = False
) -> str | None:
    """Why the library in the tree will not do; None where it will.

    Args:
        root: of the tree, where csrc/ and setup.py are.
        cuda: a CUDA build is possible here. A library without CUDA is then stale; one with CUDA never is.
        cpu_only: a library for the CPU alone was asked for by name.
        targets: the GPUs asked for by name, None where nobody did.
        watchdog: it is about the watchdog build, not about the package's library.
    """
    library = WATCHDOG_LIBRARY if watchdog else LIBRARY
    if not library.exists():
        return "there is no _C.so"
    record = read_record(record_of(library))
    if record is None:
        return "_C.so has no _C.json that says where it comes from"
    if record.sources != source_hash(root):
        return "the sources have changed"
    if record.library != file_hash(library):
        return "_C.so is not the file that _C.json describes"
    if record.watchdog != watchdog:
        return f"_C.so is built {'with' if record.watchdog else 'without'} the watchdog"
    if cpu_only and record.cuda != "none":
        return "a library for the CPU alone is asked for"
    if cuda and record.cuda == "none":
        return "_C.so is for the CPU alone, and nvcc is here"
    lacking = [target for target in targets or [] if not serves(record.targets, target)]
    if cuda and lacking:
        return f"_C.so is for {' '.join(record.targets)}, asked for is {' '.join(lacking)} as well"
    return None
