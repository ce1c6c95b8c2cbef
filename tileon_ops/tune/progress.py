"""A progress bar on the standard error stream."""

from __future__ import annotations

import sys
from typing import TextIO

_WIDTH = 24  # characters of the bar itself


class Progress:
    """`[######----] 3/5 what`: drawn in place on a terminal, else a line for each step.

    On a terminal the bar must be cleared before anything else is printed there.
    """

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._total = total
        self._stream = stream or sys.stderr
        self._in_place = self._stream.isatty()

    def show(self, done: int, what: str) -> None:
        """`done` steps of the total lie behind, and `what` comes next."""
        filled = _WIDTH * done // max(1, self._total)
        bar = f"[{'#' * filled}{'-' * (_WIDTH - filled)}] {done}/{self._total} {what}"
        self._stream.write(f"\r\033[K{bar}" if self._in_place else f"{bar}\n")
        self._stream.flush()

    def clear(self) -> None:
        """Takes the bar off the terminal; what was printed line by line stays."""
        if self._in_place:
            self._stream.write("\r\033[K")
            self._stream.flush()
