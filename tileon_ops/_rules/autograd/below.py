"""An op's kernel below autograd: what a kernel on the Autograd key calls in the end.

Every eager call passes here, so that each 100 ns count. It takes names that torch does not promise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tileon_ops._rules import torch_private
from tileon_ops._rules.errors import raise_typed
from tileon_ops._rules.torch_private import BelowAutograd

# By the bits of a keyset that the dispatcher came with: its keys below autograd, and whether a backend's kernel comes
# next. Keysets are few; looking one up takes a fifth of what masking it and entering BelowAutograd does.
_keys_below: dict[int, tuple[Any, bool]] = {}
_BACKENDS = (torch_private.CPU, torch_private.CUDA)


def _below_autograd(keyset: Any) -> tuple[Any, bool]:
    """The keys below autograd's to call an op with, and whether the CPU's or the GPU's kernel comes next. That does
    not read whether autograd is excluded, as modes, subclasses and functionalization do: it runs where nothing
    requires a gradient, or where grad mode is off."""
    keys = keyset & torch_private.after_autograd_keyset
    without_views = keys.remove(torch_private.ADInplaceOrView)  # these ops are neither
    found = _keys_below[keyset.raw_repr()] = keys, without_views.highestPriorityTypeId() in _BACKENDS
    return found


def call_below(
    redispatch: Callable[..., Any], keyset: Any, arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> Any:
    """An op's kernel below autograd, by its handle's redispatch_boxed."""
    keys, is_backend = _keys_below.get(keyset.raw_repr()) or _below_autograd(keyset)
    try:
        if is_backend:
            return redispatch(keys, *arguments, **options)
        with BelowAutograd():
            return redispatch(keys, *arguments, **options)
    except RuntimeError as error:
        raise_typed(error)
        raise
