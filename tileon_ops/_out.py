"""What `out=` asks of torch's dispatcher: no gradients through it, and a version counter that notices the write.

One kernel for each key that has something to do; each hands the call on to the keys below its own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_library = torch.library.Library("tileon", "IMPL")


def _autograd(keyset: Any, a: Tensor, b: Tensor, bias: Tensor | None = None, *, out: Tensor, **options: Any) -> None:
    if torch._C.is_grad_enabled():
        for name, tensor in (("a", a), ("b", b), ("bias", bias), ("out", out)):
            if tensor is not None and tensor.requires_grad:
                raise RuntimeError(
                    f"matmul: `out` does not support automatic differentiation, but `{name}` requires grad"
                )
    with torch._C._AutoDispatchBelowAutograd():
        torch.ops.tileon.matmul.out.redispatch(keyset & torch._C._after_autograd_keyset, a, b, bias, out=out, **options)


def _count_write(keyset: Any, a: Tensor, b: Tensor, bias: Tensor | None = None, *, out: Tensor, **options: Any) -> None:
    with torch._C._AutoDispatchBelowADInplaceOrView():
        torch.ops.tileon.matmul.out.redispatch(
            keyset & torch._C._after_ADInplaceOrView_keyset, a, b, bias, out=out, **options
        )
    torch.autograd.graph.increment_version(out)


def _resolve_negative(a: Tensor, b: Tensor, bias: Tensor | None = None, *, out: Tensor, **options: Any) -> None:
    # torch's own fallback for negated views expects a mutated argument to be returned.
    if out.is_neg():
        raise RuntimeError("matmul: `out` must not be a negated view of memory (is_neg() is true)")
    bias = bias if bias is None else bias.resolve_neg()
    torch.ops.tileon.matmul.out(a.resolve_neg(), b.resolve_neg(), bias, out=out, **options)


def register() -> None:
    _library.impl("matmul.out", _autograd, "Autograd", with_keyset=True)
    _library.impl("matmul.out", _count_write, "ADInplaceOrView", with_keyset=True)
    _library.impl("matmul.out", _resolve_negative, "Negative")
