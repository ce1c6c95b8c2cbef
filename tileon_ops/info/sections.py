"""All sections in the order in which they are looked at, and the one document that their answers make."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from tileon_ops.info.backends import BACKENDS
from tileon_ops.info.copies import COPIES
from tileon_ops.info.cuda import CUDA
from tileon_ops.info.doctor import Answer
from tileon_ops.info.library import LIBRARY
from tileon_ops.info.settings import CACHE, VARIABLES
from tileon_ops.info.versions import PACKAGE_SECTION, PYTHON, TORCH

SCHEMA = 1
SECTIONS = [PACKAGE_SECTION, PYTHON, TORCH, CUDA, LIBRARY, BACKENDS, VARIABLES, CACHE, COPIES]


def document(answers: Iterable[Answer]) -> dict[str, Any]:
    """What `--json` prints."""
    facts: dict[str, Any] = {"schema": SCHEMA, "usable": False}
    problems = []
    for answer in answers:
        facts[answer.name] = answer.facts
        problems += [asdict(problem) for problem in answer.problems]
    return {**facts, "usable": facts["library"]["loads"], "problems": problems}
