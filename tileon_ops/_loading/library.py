"""Finds and loads `_C.so`, or says in one ImportError what was built, what is here and what to do."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

import torch

from tileon_ops._loading import elf
from tileon_ops._loading.build_state import LIBRARY, read_record, record_of

OLDEST_TORCH = (2, 11)
_BUILD_AGAIN = "Build it again here, in the source tree: `python setup.py build_ext --inplace --force`."
_OTHERWISE = "Without that variable the package's own library loads."


class LibraryError(ImportError):
    """The library cannot be loaded: `what` is wrong, and what to `do`."""

    def __init__(self, what: str, do: str) -> None:
        super().__init__(f"{what} {do}")
        self.what = what
        self.do = do


def torch_version() -> tuple[int, ...]:
    """The first two numbers of it."""
    return tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])


def path() -> Path:
    """The file to load: the package's own `_C.so`, or the one that TILEON_LIBRARY names."""
    named = os.environ.get("TILEON_LIBRARY")
    return Path(named).absolute() if named else LIBRARY


def here() -> str:
    """What the library must get on with."""
    cuda = f"CUDA {torch.version.cuda}" if torch.version.cuda else "no CUDA"
    return f"torch {torch.__version__} with {cuda}, on {platform.system()} {platform.machine()}"


def _missing(library: Path) -> LibraryError:
    if library != LIBRARY:
        return LibraryError(f"TILEON_LIBRARY names {library}, and there is no such file.", _OTHERWISE)
    return LibraryError(
        f"tileon_ops is not built: there is no {library}.",
        "In the source tree `make library` builds it. Otherwise install a wheel, or, where the package is installed "
        "already, start Python in another folder than this one, which comes first.",
    )


def _built(library: Path) -> str:
    record = read_record(record_of(library))
    if record is None:
        return "It does not say what it was built for (no _C.json)."
    kind = "the CPU alone" if record.cuda == "none" else f"CUDA {record.cuda} ({' '.join(record.targets)})"
    return f"It was built for {kind} with torch {record.torch}."


def _meaning(error: str) -> str:
    """What the loader's words mean, where they leave that open."""
    symbol = re.search(r"undefined symbol: (\w+)", error)
    if symbol:
        return f"No library in this process has `{symbol[1]}`, which a torch that it was built for has. "
    system = re.search(r"version `((?:GLIBC|CXXABI)[\w.]+)' not found", error)
    if system:
        return f"It was built on a newer system, whose C or C++ library has {system[1]}. "
    return ""


def _advice(library: Path, error: str) -> str:
    if "libtorch_cuda" in error:
        return (
            "A library built with CUDA needs a torch built with CUDA: install one, or build again here with "
            "TILEON_CPU_ONLY=1."
        )
    if library != LIBRARY:
        return f"TILEON_LIBRARY names it. {_OTHERWISE}"
    return _BUILD_AGAIN


def _not_loaded(library: Path, error: str) -> LibraryError:
    error = error.removeprefix(f"{library}: ").rstrip(".")
    return LibraryError(
        f"tileon_ops could not load {library}: {error}. {_meaning(error)}{_built(library)} Here is {here()}.",
        f"{_advice(library, error)} `python -m tileon_ops.info` says more.",
    )


def mapped() -> list[str]:
    """The files that are mapped into this process; none where that cannot be known."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    return list(dict.fromkeys(line.split(maxsplit=5)[5] for line in lines if line.count("/")))


def _is_registered() -> bool:
    return hasattr(torch.ops.tileon, "_build_info")


def load() -> None:
    """Registers the ops with torch.

    Raises:
        LibraryError: an ImportError, with what was built, what is here, and what to do.
    """
    if torch_version() < OLDEST_TORCH:
        oldest = f"{OLDEST_TORCH[0]}.{OLDEST_TORCH[1]}"
        raise LibraryError(
            f"tileon_ops needs torch {oldest} or newer; this is {here()}.",
            f"Install one: pip install 'torch>={oldest}'.",
        )
    library = path()
    if not library.is_file():
        raise _missing(library)
    if _is_registered() and str(library.resolve()) not in mapped():  # a second copy would end the process
        others = [file for file in mapped() if Path(file).name == LIBRARY.name]
        raise LibraryError(
            f"tileon_ops cannot load {library}: another library has registered the ops in this process, "
            f"{' and '.join(others) or 'an unknown one'}.",
            "Load one alone.",
        )
    try:
        complaint = elf.complaint(library)
    except OSError as error:
        raise _not_loaded(library, str(error)) from None
    if complaint is not None:
        raise _not_loaded(library, f"it {complaint}")
    try:
        torch.ops.load_library(str(library))
    except OSError as error:  # torch puts words of its own before the loader's, which are in ours
        raise _not_loaded(library, str(error.__cause__ or error)) from None
    if not _is_registered():
        raise _not_loaded(library, "it is another library, which has none of the ops")
