"""Processes for test_soak.py that do not end well. They are started afresh, and so stand in a module of their own."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

INDEX = 7  # of the case that each is in


def dies_or_hangs(plan: Any, process: int, pipe: Any, current: Any) -> None:
    """Counts a call; then the first process is killed in its case, and the second never comes back from it."""
    from soak.processes import Message
    from soak.tally import Tally

    tally = Tally()
    tally.calls["matmul", "float32"] = 1
    pipe.send(Message(tally, (), is_last=False))
    current.value = INDEX
    if process == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
