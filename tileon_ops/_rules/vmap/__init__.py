"""torch.func.vmap of the ops: each module has the rules of the ops on its kind of operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tileon_ops._rules.vmap import block_scaled, matmul, quantized

_library = torch.library.Library("tileon", "IMPL")

_OUT_OPS = ("matmul.out", "block_scaled_matmul.out")


def _refuse_out(name: str) -> Callable[..., None]:
    op = name.partition(".")[0]

    def kernel(*arguments: Any, **options: Any) -> None:
        raise RuntimeError(f"{op}: `out` is not supported under vmap; call it without `out`")

    return kernel


def register() -> None:
    for name, rule in {**matmul.RULES, **quantized.RULES, **block_scaled.RULES}.items():
        torch.library.register_vmap(f"tileon::{name}", rule, lib=_library)
    for name in _OUT_OPS:  # register_vmap takes no op with a tensor by keyword
        _library.impl(name, _refuse_out(name), "FuncTorchBatched")
