"""Which module `python -m` is about to run, by Python's own words."""

from __future__ import annotations

import sys

import pytest

from tileon_ops._loading.command import module_to_run


@pytest.mark.parametrize(
    ("words", "module"),
    [
        ("-m tileon_ops.info", "tileon_ops.info"),
        ("-mtileon_ops.info", "tileon_ops.info"),
        ("-um tileon_ops.info --json", "tileon_ops.info"),
        ("-W error -X dev -m tileon_ops.info", "tileon_ops.info"),
        ("-Werror -Xm -m other", "other"),
        ("-X -m -m other", "other"),
        ("--check-hash-based-pycs -m -m other", "other"),
        ("-m other -m tileon_ops.info", "other"),
        ("-m", ""),
    ],
)
def test_is_what_follows_the_flag(monkeypatch: pytest.MonkeyPatch, words: str, module: str) -> None:
    monkeypatch.setattr(sys, "argv", ["-m"])
    monkeypatch.setattr(sys, "orig_argv", ["python", *words.split()])
    assert module_to_run() == module


@pytest.mark.parametrize("first", ["", "-c", "/path/of/tileon_ops/info/__main__.py"])
def test_is_nothing_once_python_has_found_it(monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    """Imports of the running program are as any other's."""
    monkeypatch.setattr(sys, "argv", [first])
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "tileon_ops.info"])
    assert module_to_run() is None
