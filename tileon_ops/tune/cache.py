"""The files that remember what tuning found, one for each model of GPU and build of the library.

`$TILEON_CACHE_DIR`, else `$XDG_CACHE_HOME/tileon_ops`, else `~/.cache/tileon_ops` holds them. A file is JSON:

    {"schema": 1, "gpu": {...}, "library": {...}, "problems": {problem: {"row": ..., "us": ..., ...}}}

Its name is made of GPU and library, and it says both inside; what is of another GPU or library is ignored. A file is
never changed in place: whoever adds to it holds a lock, reads what others have added, and puts a new file in its place.
So readers need no lock and see a whole file, and of several writers none loses what another found.

Nothing here raises: a file that cannot be read or written costs one warning, and tuning goes on in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import reprlib
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tileon_ops.tune.whole_files import TEMPORARY, locked, replace

SCHEMA = 1  # of the files; raised where an older version could not make sense of a newer one's

LOCK_SECONDS = 10.0  # to wait for other writers, each of which takes milliseconds
_KEPT_FILES, _KEPT_DAYS = 8, 30  # files beyond both are removed when a new one is made
_UNFINISHED_DAYS = 1  # after which the writer of a temporary file is not alive, whatever a shared disk's clock says
_PREFIX = "tuned-"


DEFAULT = "default"  # in place of a config: what the library chooses by itself


@dataclass(frozen=True)
class Choice:
    """What was measured of one problem, by median times in microseconds."""

    row: str  # the fastest config, or DEFAULT where none is faster than the library's choice
    us: float
    default: str  # the kernel that the library chooses by itself, "sm90_gemm_128x256x64 (a copied)"
    default_us: float

    @property
    def is_default(self) -> bool:
        return self.row == DEFAULT

    @property
    def gain(self) -> float:
        """How much faster than the default: 0.05 is 5 %."""
        return self.default_us / self.us - 1


@dataclass(frozen=True)
class Identity:
    """What times depend on. The driver is not of it: it hardly changes what compiled kernels take."""

    gpu: str
    capability: str  # "9.0"
    multiprocessors: int  # a part of a GPU (MIG) has fewer
    version: str
    sources: str  # hash of the sources that the library was built from; "" where that is not known
    cuda: str  # nvcc's version
    switches: str = ""  # of the environment, that change which kernels run: "TILEON_HOPPER=0"

    @property
    def file_name(self) -> str:
        text = json.dumps([SCHEMA, asdict(self)], sort_keys=True)
        slug = re.sub(r"[^a-z0-9]+", "_", self.gpu.lower()).strip("_")[:40]
        return f"{_PREFIX}{slug}-{self.version}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"

    def parts(self) -> dict[str, dict[str, Any]]:
        """As a file has them."""
        whole = asdict(self)
        gpu = {name: whole.pop(name) for name in ("gpu", "capability", "multiprocessors")}
        return {"gpu": {"name": gpu.pop("gpu"), **gpu}, "library": whole}


def directory() -> Path | None:
    """Where the files are; None where there is no home directory to put them in."""
    own = os.environ.get("TILEON_CACHE_DIR")
    if own:
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # others are to be ignored, by the XDG specification
        return Path(base) / "tileon_ops"
    try:
        return Path.home() / ".cache" / "tileon_ops"
    except RuntimeError:
        return None


_warned: set[str] = set()


def warn_once(kind: str, text: str) -> None:
    """One warning of a kind in a process. It stays a warning where warnings are errors: a call is never broken."""
    if kind not in _warned:
        _warned.add(kind)
        with contextlib.suppress(Warning):
            warnings.warn(f"tileon_ops: {text}", stacklevel=2)


class _CorruptError(ValueError):
    """The file is not what this module writes."""


class _NewerError(OSError):
    """The file is of a later schema."""


def _number(value: object) -> float:
    """A time that float64 holds. JSON's numbers may be NaN, infinite, or integers of thousands of digits, which can be
    compared to a float and not converted to one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= sys.float_info.max:
        raise _CorruptError(f"{reprlib.repr(value)} is no time")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise _CorruptError(f"{reprlib.repr(value)} is no name of a row")
    return value


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _CorruptError(f"{type(value).__name__} where an object belongs")
    return value


def _choice(value: object) -> Choice:
    entry = _object(value)
    return Choice(
        row=_text(entry.get("row")),
        us=_number(entry.get("us")),
        default=_text(entry.get("default")),
        default_us=_number(entry.get("default_us")),
    )


def _document(text: str) -> dict[str, Any]:
    try:
        document = _object(json.loads(text))
    except RecursionError as error:
        raise _CorruptError("nested too deeply") from error
    schema = document.get("schema")
    if isinstance(schema, bool) or not isinstance(schema, int):
        raise _CorruptError("it has no schema")
    if schema > SCHEMA:
        raise _NewerError(f"its schema is {schema}, and this version knows {SCHEMA}")
    return document


def parse(text: str, identity: Identity) -> dict[str, Choice]:
    """The choices by problem: none where the file is of another GPU, library or older schema.

    Raises:
        ValueError: where it is not such a file.
        OSError: where its schema is newer.
    """
    document = _document(text)
    parts = identity.parts()
    if document["schema"] < SCHEMA or any(document.get(name) != part for name, part in parts.items()):
        return {}
    return _choices(document)


def _choices(document: dict[str, Any]) -> dict[str, Choice]:
    return {problem: _choice(entry) for problem, entry in _object(document.get("problems")).items()}


def read_any(path: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Choice]]:
    """The file's GPU, library and choices, whichever they are.

    Raises:
        OSError, ValueError: where it cannot be read.
    """
    document = _document(path.read_text(encoding="utf-8"))
    return _object(document.get("gpu")), _object(document.get("library")), _choices(document)


def files(folder: Path) -> list[Path]:
    """Those of every GPU and library, the one written last first."""

    def written(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:  # removed meanwhile
            return 0.0

    try:
        return sorted(folder.glob(f"{_PREFIX}*.json"), key=written, reverse=True)
    except OSError:
        return []


def _prune(folder: Path) -> None:
    """Removes files of other libraries that nobody has written for long, and what a crashed writer left. That goes by
    age: on a file system without locks, another writer may be at work here."""
    left = folder.glob(f"{_PREFIX}*{TEMPORARY}")
    for paths, days in ((files(folder)[_KEPT_FILES:], _KEPT_DAYS), (left, _UNFINISHED_DAYS)):
        for path in paths:
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - days * 24 * 3600:
                    path.unlink()


# Folders whose lock somebody held for LOCK_SECONDS: a merge is part of a product, which waits for that once.
_held_too_long: set[Path] = set()


@contextlib.contextmanager
def _locked_for_merge(folder: Path) -> Iterator[None]:
    with contextlib.ExitStack() as lock:
        try:
            lock.enter_context(locked(folder, 0.0 if folder in _held_too_long else LOCK_SECONDS))
        except TimeoutError:
            _held_too_long.add(folder)
            raise
        yield


class CacheFile:
    """The file of one GPU and library."""

    def __init__(self, folder: Path, identity: Identity) -> None:
        self.identity = identity
        self.path = folder / identity.file_name

    def read(self) -> dict[str, Choice]:
        """The choices by problem; none, and one warning, where the file cannot be read."""
        try:
            return parse(self.path.read_text(encoding="utf-8"), self.identity)
        except (FileNotFoundError, NotADirectoryError, _NewerError):
            return {}
        except (OSError, ValueError) as error:
            warn_once(f"read {self.path}", f"the tuning cache {self.path} is ignored: {_reason(error)}")
            return {}

    def merge(self, found: Mapping[str, Choice]) -> bool:
        """Adds to the file, or replaces in it; False, and one warning, where that is not possible."""
        folder = self.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _locked_for_merge(folder):
                is_new = not self.path.exists()
                problems = {**self._present(), **found}
                document = {
                    "schema": SCHEMA,
                    **self.identity.parts(),
                    "problems": {problem: asdict(choice) for problem, choice in sorted(problems.items())},
                }
                replace(self.path, json.dumps(document, indent=1) + "\n")
                if is_new:
                    _prune(folder)
        except OSError as error:
            warn_once(
                f"write {folder}", f"what tuning found is not kept beyond this process, in {folder}: {_reason(error)}"
            )
            return False
        return True

    def _present(self) -> dict[str, Choice]:
        """What a new file keeps of the one that is there: nothing of a corrupt one. One that cannot be read, or that a
        newer version wrote, is not replaced: OSError."""
        try:
            return parse(self.path.read_text(encoding="utf-8"), self.identity)
        except (FileNotFoundError, ValueError):
            return {}


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else f"{error}" or type(error).__name__


def clear(folder: Path) -> int:
    """Removes the files of every GPU and library; returns how many there were.

    Raises:
        OSError: where that is not possible.
    """
    if not folder.is_dir():
        return 0
    with locked(folder, LOCK_SECONDS):
        found = files(folder)
        for path in found:
            path.unlink(missing_ok=True)
    return len(found)
