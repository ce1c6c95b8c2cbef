"""Gradients: of `matmul`, as often as wanted; and their refusal by the ops that have none."""

from __future__ import annotations

from tileon_ops._rules import torch_private


def register() -> None:
    """Registers the gradients of `matmul`, by public interfaces alone where this torch lacks a private name."""
    if torch_private.autograd.is_whole:
        from tileon_ops._rules.autograd import kernel

        kernel.register()
    else:
        from tileon_ops._rules.autograd import public

        public.register()
