"""What inductor, torch's compiler, writes for the ops.

It takes seconds to import, so the lowerings wait for it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tileon_ops._loading.import_hook import after_import
from tileon_ops._rules import torch_private
from tileon_ops._rules.inductor import quantized_linear
from tileon_ops._rules.inductor.compiled_ops import OPS, CompiledOp, compiled_name
from tileon_ops._rules.required import with_check

__all__ = ["OPS", "compiled_name", "register"]

Implementations = Mapping[str, Callable[..., Any]]


def _add_lowerings(implementations: Implementations) -> None:
    """Where this torch has other functions than they take, compiled programs call the public ops; it is imported here,
    and nothing may come out."""
    inductor = torch_private.of_inductor()
    try:
        if inductor is not None:
            _lower(inductor, implementations)
    except Exception as error:
        warnings.warn(
            "tileon_ops: programs of torch's compiler call its ops by their kernels for gradients, which takes longer; "
            f"torch says: {type(error).__name__}: {error}",
            stacklevel=2,
        )


def _lower(inductor: torch_private.Inductor, implementations: Implementations) -> None:
    ops = {name: CompiledOp(inductor, name, implementations[name]) for name in OPS}
    lowerings = {name: op.write for name, op in ops.items()} | quantized_linear.lowerings(inductor, ops)
    for name, op in ops.items():
        op.lower(lowerings[name])


def register(implementations: Implementations) -> None:
    """`implementations` are the fake ones of all ops."""
    for name in OPS:
        torch.library.register_fake(f"tileon::{compiled_name(name)}", with_check(name, implementations[name]))
    after_import("torch._inductor.lowering", functools.partial(_add_lowerings, implementations))
