"""What `out=` asks of torch's dispatcher: no gradients through it, and a version counter that notices the write.

One kernel for each key that has something to do; each hands the call on to the keys below its own. The tensors that an
op reads are its positional arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from tileon_ops._no_grad import asked_gradients

_library = torch.library.Library("tileon", "IMPL")

_OPS = ("matmul", "block_scaled_matmul")  # the second one refuses gradients itself (_no_grad.py)


def _autograd(keyset: Any, a: Tensor, b: Tensor, bias: Tensor | None = None, *, out: Tensor, **options: Any) -> None:
    if torch._C.is_grad_enabled() or forward_ad._current_level >= 0:
        for name, asks in asked_gradients({"a": a, "b": b, "bias": bias, "out": out}):  # `out` may have had a tangent
            raise RuntimeError(f"matmul: `out` does not support automatic differentiation, but `{name}` {asks}")
    with torch._C._AutoDispatchBelowAutograd():
        torch.ops.tileon.matmul.out.redispatch(keyset & torch._C._after_autograd_keyset, a, b, bias, out=out, **options)


def _readable_by_inductor(tensor: Tensor | None) -> Tensor | None:
    """Inductor fails on an op that writes and reads float8_e8m0fnu (pytorch issue 189522); the bytes say the same."""
    return tensor.view(torch.uint8) if tensor is not None and tensor.dtype == torch.float8_e8m0fnu else tensor


def _count_write(overload: Any) -> Callable[..., None]:
    def kernel(keyset: Any, *inputs: Tensor | None, out: Tensor, **options: Any) -> None:
        if torch.compiler.is_compiling():
            inputs = tuple(map(_readable_by_inductor, inputs))
        with torch._C._AutoDispatchBelowADInplaceOrView():
            overload.redispatch(keyset & torch._C._after_ADInplaceOrView_keyset, *inputs, out=out, **options)
        torch.autograd.graph.increment_version(out)

    return kernel


def _resolve_negative(op: str, overload: Any) -> Callable[..., None]:
    def kernel(*inputs: Tensor | None, out: Tensor, **options: Any) -> None:
        # torch's own fallback for negated views expects a mutated argument to be returned.
        if out.is_neg():
            raise RuntimeError(f"{op}: `out` must not be a negated view of memory (is_neg() is true)")
        overload(*(tensor if tensor is None else tensor.resolve_neg() for tensor in inputs), out=out, **options)

    return kernel


def register() -> None:
    _library.impl("matmul.out", _autograd, "Autograd", with_keyset=True)
    for op in _OPS:
        overload = getattr(torch.ops.tileon, op).out
        _library.impl(f"{op}.out", _count_write(overload), "ADInplaceOrView", with_keyset=True)
        _library.impl(f"{op}.out", _resolve_negative(op, overload), "Negative")
