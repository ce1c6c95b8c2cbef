"""What torch is told of the ops besides their kernels: compilation, gradients, autocast, vmap, sharding, tuning."""

from __future__ import annotations

from tileon_ops import (
    _autocast,
    _fake,
    _flops,
    _no_grad,
    _out,
    _required,
    _sharding,
    _torch_private,
    _tuned_rows,
    _vmap,
)


def register() -> None:
    _fake.register()
    if _torch_private.autograd.is_whole:
        from tileon_ops import _autograd

        _autograd.register()
    else:
        from tileon_ops import _autograd_public

        _autograd_public.register()
    _no_grad.register(_fake.IMPLEMENTATIONS)
    _out.register(_fake.IMPLEMENTATIONS)
    _required.register(_fake.IMPLEMENTATIONS)
    for rules in (_autocast, _sharding, _vmap, _flops, _tuned_rows):
        rules.register()
    _torch_private.warn_of_missing()
