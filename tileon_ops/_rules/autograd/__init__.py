"""Gradients: of `matmul`, and of `block_scaled_matmul` where `a` has no scale, as often as wanted; and their refusal by
the ops that have none."""

from __future__ import annotations

from tileon_ops._rules import torch_private
from tileon_ops._rules.autograd import decoding


def register() -> None:
    """Registers the gradients, by public interfaces alone where this torch lacks a private name."""
    decoding.register()
    if torch_private.autograd.is_whole:
        from tileon_ops._rules.autograd import kernel, weight_only_kernel

        kernel.register()
        weight_only_kernel.register()
    else:
        from tileon_ops._rules.autograd import public, weight_only_public

        public.register()
        weight_only_public.register()
