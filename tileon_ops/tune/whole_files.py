"""Files that several processes write, and that are whole whenever they are read."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

TEMPORARY = ".tmp"  # suffix of what a writer has not finished, or never will
_LOCK = ".lock"  # in the folder; it stays there


@contextlib.contextmanager
def locked(folder: Path, seconds: float) -> Iterator[None]:
    """Alone in this folder among the processes, and threads, that ask for it. On a system, or a file system, without
    such locks it is nothing: files stay whole there too, but a writer may lose what another has added.

    Raises:
        OSError: the lock cannot be opened; TimeoutError, that others have held it for so many seconds. With 0 it is
            tried once.
    """
    try:
        import fcntl
    except ImportError:  # not a Unix
        yield
        return
    descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise TimeoutError(f"another process has held {_LOCK} for {seconds:g} s") from None
                time.sleep(0.005)
            except OSError:  # the file system's
                break
        yield
    finally:
        with contextlib.suppress(OSError):  # not by closing alone: a child forked meanwhile has the descriptor too
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def replace(path: Path, text: str) -> None:
    """Puts a whole new file in the path's place.

    Raises:
        OSError: and leaves what was there.
    """
    temporary = path.with_name(f"{path.name}.{os.urandom(4).hex()}{TEMPORARY}")
    try:
        # Not tempfile's mode, which is 0600: a folder that a team shares has files as their umask says.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # or a power cut may leave the new name on an empty file
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
