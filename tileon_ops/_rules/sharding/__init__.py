"""When DTensor learns how the ops shard: once torch.distributed.tensor is there, which no import of ours brings in.

It takes some 0.4 s to import, and nobody can have a DTensor before it is. The rules are in placements.py.
"""

from __future__ import annotations

import warnings

import torch

from tileon_ops._loading.import_hook import after_import


def _register_rules() -> None:
    try:
        from tileon_ops._rules.sharding import placements

        placements.register()
    except Exception as error:  # torch's interface for rules is experimental: without it, an import still works
        warnings.warn(
            f"tileon_ops could not tell DTensor how its ops shard, so they refuse DTensors; torch {torch.__version__} "
            f"says: {type(error).__name__}: {error}",
            stacklevel=2,
        )


def register() -> None:
    if torch.distributed.is_available():
        after_import("torch.distributed.tensor", _register_rules)
