"""What inductor, torch's compiler, writes for the ops.

It takes seconds to import, so the lowerings wait for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tileon_ops._loading.import_hook import after_import
from tileon_ops._rules import torch_private
from tileon_ops._rules.inductor import rounded_rows
from tileon_ops._rules.inductor.compiled_ops import OPS, CompiledOp, compiled_name
from tileon_ops._rules.required import with_check

__all__ = ["OPS", "compiled_name", "register"]

Implementations = Mapping[str, Callable[..., Any]]


def _add_lowerings(implementations: Implementations) -> None:
    inductor = torch_private.of_inductor()
    if inductor is None:
        return
    ops = {name: CompiledOp(inductor, name, implementations[name]) for name in OPS}
    lowerings = {name: op.write for name, op in ops.items()} | rounded_rows.lowerings(inductor, ops)
    for name, op in ops.items():
        op.lower(lowerings[name])


def register(implementations: Implementations) -> None:
    """`implementations` are the fake ones of all ops."""
    for name in OPS:
        torch.library.register_fake(f"tileon::{compiled_name(name)}", with_check(name, implementations[name]))
    after_import("torch._inductor.lowering", functools.partial(_add_lowerings, implementations))
