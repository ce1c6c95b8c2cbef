"""Finds and loads `_C.so`, or says in one ImportError what is missing and what to do."""

from __future__ import annotations

import os
import re
from pathlib import Path

import torch

from tileon_ops._build_state import LIBRARY, read_record, record_of

OLDEST_TORCH = (2, 11)
_OTHERWISE = "Without that variable the package's own library loads."


def torch_version() -> tuple[int, ...]:
    """The first two numbers of it."""
    return tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])


def path() -> Path:
    """The file to load: the package's own `_C.so`, or the one that TILEON_LIBRARY names."""
    named = os.environ.get("TILEON_LIBRARY")
    return Path(named).absolute() if named else LIBRARY


def _what_is_missing(library: Path) -> str:
    if library != LIBRARY:
        return f"TILEON_LIBRARY names {library}, and there is no such file. {_OTHERWISE}"
    return (
        f"tileon_ops is not built: there is no {library}. Run `make` targets such as `make demo`, or "
        "`python setup.py build_ext --inplace`, in the source tree; or install a wheel."
    )


def _built(library: Path) -> str:
    record = read_record(record_of(library))
    if record is None:
        return "It does not say what it was built for (no _C.json)."
    kind = "the CPU alone" if record.cuda == "none" else f"CUDA {record.cuda} ({' '.join(record.targets)})"
    return f"It was built for {kind} with torch {record.torch}."


def _advice(library: Path, error: str) -> str:
    if "libtorch_cuda" in error:
        return (
            "A library built with CUDA needs a torch built with CUDA: install one, or build again here with "
            "TILEON_CPU_ONLY=1."
        )
    if library != LIBRARY:
        return f"TILEON_LIBRARY names it. {_OTHERWISE}"
    return "Build it again here: `python setup.py build_ext --inplace --force`."


def load() -> None:
    """Registers the ops with torch.

    Raises:
        ImportError: with what was built, what is here, and what to do.
    """
    here = f"torch {torch.__version__} with {f'CUDA {torch.version.cuda}' if torch.version.cuda else 'no CUDA'}"
    if torch_version() < OLDEST_TORCH:
        raise ImportError(f"tileon_ops needs torch {OLDEST_TORCH[0]}.{OLDEST_TORCH[1]} or newer; this is {here}.")
    library = path()
    if not library.is_file():
        raise ImportError(_what_is_missing(library))
    try:
        torch.ops.load_library(str(library))
        if not hasattr(torch.ops.tileon, "_build_info"):
            raise OSError("it is another library, which has none of the ops")
    except OSError as error:
        raise ImportError(
            f"tileon_ops could not load {library}: {error}. {_built(library)} Here is {here}. "
            f"{_advice(library, str(error))}"
        ) from error
