"""Ends the process when a GPU test does not end: a kernel that waits for ever cannot be interrupted otherwise."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import threading
import time
from collections.abc import Iterator

LIMIT = float(os.environ.get("TILEON_TEST_LIMIT", "120"))  # seconds for one test

_watched: tuple[str, float] | None = None  # the test that runs, and when it must have ended


def start() -> None:
    """To be called before pytest captures the error stream, whose place a copy keeps."""
    threading.Thread(target=_guard, args=(os.dup(2),), daemon=True).start()


@contextlib.contextmanager
def watch(test: str | None) -> Iterator[None]:
    """Gives the test LIMIT seconds; None is not watched."""
    global _watched
    _watched = None if test is None else (test, time.monotonic() + LIMIT)
    try:
        yield
    finally:
        _watched = None


def _guard(stream: int) -> None:
    while True:
        time.sleep(1)
        watched = _watched
        if watched is not None and time.monotonic() > watched[1]:
            os.write(stream, f"\n{watched[0]} has not ended after {LIMIT:.0f} s; the run ends here\n".encode())
            faulthandler.dump_traceback(stream)
            os._exit(3)
