"""Finds and loads `_C.so`, or says in one ImportError what is missing and what to do."""

from __future__ import annotations

import re

import torch

from tileon_ops._build_state import LIBRARY, read_record

OLDEST_TORCH = (2, 11)


def _torch_is_too_old() -> bool:
    numbers = [int(part) for part in re.findall(r"\d+", torch.__version__)[:2]]
    return tuple(numbers) < OLDEST_TORCH


def _built() -> str:
    record = read_record()
    if record is None:
        return "It does not say what it was built for (no _C.json)."
    kind = "the CPU alone" if record.cuda == "none" else f"CUDA {record.cuda} ({' '.join(record.targets)})"
    return f"It was built for {kind} with torch {record.torch}."


def load() -> None:
    """Registers the ops with torch.

    Raises:
        ImportError: with what was built, what is here, and what to do.
    """
    here = f"torch {torch.__version__} with {f'CUDA {torch.version.cuda}' if torch.version.cuda else 'no CUDA'}"
    if _torch_is_too_old():
        raise ImportError(f"tileon_ops needs torch {OLDEST_TORCH[0]}.{OLDEST_TORCH[1]} or newer; this is {here}.")
    if not LIBRARY.exists():
        raise ImportError(
            f"tileon_ops is not built: there is no {LIBRARY}. Run `make` targets such as `make demo`, or "
            "`python setup.py build_ext --inplace`, in the source tree; or install a wheel."
        )
    try:
        torch.ops.load_library(str(LIBRARY))
    except OSError as error:
        advice = (
            "A library built with CUDA needs a torch built with CUDA: install one, or build again here with "
            "TILEON_CPU_ONLY=1."
            if "libtorch_cuda" in str(error)
            else "Build it again here: `python setup.py build_ext --inplace --force`."
        )
        raise ImportError(
            f"tileon_ops could not load {LIBRARY}: {error}. {_built()} Here is {here}. {advice}"
        ) from error
