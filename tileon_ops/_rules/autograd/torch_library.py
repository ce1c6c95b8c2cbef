"""Kernels on the Autograd key by torch's public interface: what torch.library.register_autograd makes, and a function
of ours that each call passes before it.

torch's kernel alone would not do. It knows of reverse mode only: a tangent of forward mode it loses without a word, and
under torch.func.grad it fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tileon_ops._rules.errors import raise_typed

Kernel = Callable[..., Any]


def _typed(kernel: Kernel) -> Kernel:
    def typed(*arguments: Any, **options: Any) -> Any:
        try:
            return kernel(*arguments, **options)
        except RuntimeError as error:
            raise_typed(error)
            raise

    return typed


class _Around(torch.library.Library):
    """The library that torch.library.register_autograd registers a kernel in: it takes `around` of that kernel."""

    def __init__(self, around: Callable[[Kernel], Kernel]) -> None:
        super().__init__("tileon", "IMPL")  # type: ignore[no-untyped-call]
        self._around = around

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> Any:
        kernel = self._around(_typed(fn))
        return super().impl(op_name, kernel, dispatch_key, **options)  # type: ignore[no-untyped-call]


_libraries: list[_Around] = []  # a library's kernels end with the library


def register(
    op: str, around: Callable[[Kernel], Kernel], backward: Kernel, setup_context: Kernel | None = None
) -> None:
    """Registers `around(kernel)` on the op's Autograd key. The kernel is torch's: it takes a keyset and the op's
    arguments, records the call for `backward` where an argument requires grad, and otherwise calls what is below."""
    _libraries.append(_Around(around))
    torch.library.register_autograd(f"tileon::{op}", backward, setup_context=setup_context, lib=_libraries[-1])
