"""What torch is told of the ops besides their kernels: compilation, gradients, autocast, vmap, sharding, FLOPs."""

from __future__ import annotations

from tileon_ops._rules import (
    autocast,
    autograd,
    fake,
    flops,
    inductor,
    out,
    required,
    sharding,
    torch_private,
    vmap,
)
from tileon_ops._rules.autograd import no_grad


def register() -> None:
    """Registers all of it; the library must be loaded. Warns once where this torch lacks private names."""
    fake.register()
    autograd.register()
    no_grad.register()
    for rules in (out, required, inductor):
        rules.register(fake.IMPLEMENTATIONS)
    for others in (autocast, sharding, vmap, flops):
        others.register()
    torch_private.warn_of_missing()
