"""Errors whose type was lost on their way through torch's C interface, which hands on their text alone.

The library's kernels end a call by a C++ exception, which Python sees as a RuntimeError. Two have a type of their own:

- what does not fit in a GPU's memory is torch.OutOfMemoryError, for programs that then make their batches smaller;
- what interrupted the tuner inside a product (TILEON_TUNE=1), a KeyboardInterrupt above all, is that very exception.

Python that calls a kernel hands a RuntimeError to `raise_typed`. An op that is called under torch.inference_mode(), or
by a compiled graph, passes no Python on its way to the kernel; there the text alone tells.
"""

from __future__ import annotations

import threading

import torch

_OUT_OF_MEMORY = "CUDA out of memory"  # how torch's message begins, and that of csrc/core/memory_text.h
_INTERRUPTED = ": the tuner was interrupted"  # csrc/cuda/dispatch/products.cpp

_this_thread = threading.local()


def remember_interrupt(error: BaseException) -> None:
    """What is about to leave the tuner, in this thread."""
    _this_thread.interrupt = error


def raise_typed(error: BaseException) -> None:
    """Raises the error with the type that it has lost; returns where it has lost none."""
    if type(error) is not RuntimeError:
        return
    text = str(error)
    if text.startswith(_OUT_OF_MEMORY):
        raise torch.OutOfMemoryError(text) from None
    if _INTERRUPTED in text:
        interrupt: BaseException | None = getattr(_this_thread, "interrupt", None)
        _this_thread.interrupt = None
        if interrupt is not None:
            raise interrupt from None
