"""What `out=` asks of torch's dispatcher: no gradients through it, and a version counter that notices the write.

One kernel for each key that has something to do; that on Autograd does what is left for ADInplaceOrView too, whose own
is for calls that come from below autograd: a kernel in Python takes some 3 us. The tensors that an op reads are its
positional arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, is_grad_enabled
from torch.autograd import forward_ad
from torch.autograd.graph import increment_version
from torch.compiler import is_compiling

from tileon_ops._rules import torch_private
from tileon_ops._rules.autograd import no_grad
from tileon_ops._rules.autograd.no_grad import asked_gradients
from tileon_ops._rules.errors import raise_typed
from tileon_ops._rules.fake.checks import check_out
from tileon_ops._rules.overlap import check_apart
from tileon_ops._rules.required import check_tensors
from tileon_ops._rules.torch_private import (
    BelowADInplaceOrView,
    after_ADInplaceOrView_keyset,
    any_requires_grad,
    redispatch_boxed,
)

_library = torch.library.Library("tileon", "IMPL")


def _refuse(op: str, arguments: Mapping[str, Any]) -> None:
    if arguments.get("scale_a") is not None:  # where `a` has none, gradients flow, but not through `out`
        no_grad.refuse(op, arguments)
    for name, asks in asked_gradients(arguments):  # `out` may have had a tangent
        raise RuntimeError(f"{op}: `out` does not support automatic differentiation, but `{name}` {asks}")


def _readable_by_inductor(tensor: Tensor | None) -> Tensor | None:
    """Inductor fails on an op that writes and reads float8_e8m0fnu (pytorch issue 189522); the bytes say the same."""
    return tensor.view(torch.uint8) if tensor is not None and tensor.dtype == torch.float8_e8m0fnu else tensor


def check_countable(op: str, out: Tensor | None) -> None:
    """torch's rule for whatever writes a tensor: those of inference mode have no version counter, so a write that was
    not made in that mode would go unnoticed."""
    if out is not None and out.is_inference() and not torch.is_inference_mode_enabled():
        raise RuntimeError(
            f"{op}: `out` must not be an inference tensor outside inference mode; clone it, or call {op} in that mode"
        )


def _count_write(op: str, overload: Any) -> Callable[..., None]:
    redispatch = redispatch_boxed(overload)

    def kernel(keyset: Any, *inputs: Tensor | None, out: Tensor, **options: Any) -> None:
        check_countable(op, out)
        if is_compiling():
            inputs = tuple(map(_readable_by_inductor, inputs))
        with BelowADInplaceOrView():
            redispatch(keyset & after_ADInplaceOrView_keyset, *inputs, out=out, **options)
        increment_version(out)

    return kernel


def _autograd(op: str, overload: Any, names: list[str]) -> Callable[..., None]:
    write = _count_write(op, overload)

    def kernel(keyset: Any, *inputs: Tensor | None, out: Tensor, **options: Any) -> None:
        if forward_ad._current_level >= 0 or (is_grad_enabled() and any_requires_grad(*inputs, out)):
            _refuse(op, {**dict(zip(names, inputs, strict=False)), "out": out})  # the dispatcher leaves defaults out
        try:
            write(keyset, *inputs, out=out, **options)
        except RuntimeError as error:
            raise_typed(error)
            raise

    return kernel


def _has_memory(tensor: Tensor) -> bool:
    try:
        return tensor.data_ptr() != 0
    except RuntimeError:  # of a fake tensor, or of one that stands for others
        return False


def _public(op: str, functional: Any, fake: Callable[..., Any]) -> Callable[..., None]:
    """What takes the place of both kernels in a torch without the names of the group `out`: the op without `out`, whose
    result is copied, with the rules and messages of csrc/. It needs memory for that result."""
    names = list(inspect.signature(fake).parameters)

    def kernel(*inputs: Any, out: Tensor, **options: Any) -> None:
        given = {**dict(zip(names, inputs, strict=False)), "out": out}
        _refuse(op, given)
        check_countable(op, out)
        check_tensors(op, {names[0]: inputs[0]})
        with torch.autocast(inputs[0].device.type, enabled=False):  # with `out` it casts nothing
            result = functional(*inputs, **options)
        check_tensors(op, {"out": out})
        check_out(op, out, result, result.dtype, tuple(result.shape))
        if _has_memory(out):
            check_apart(out, {name: tensor for name, tensor in given.items() if name != "out"}, op)
        out.copy_(result)

    return kernel


def _resolve_negative(op: str, overload: Any) -> Callable[..., None]:
    def kernel(*inputs: Tensor | None, out: Tensor, **options: Any) -> None:
        # torch's own fallback for negated views expects a mutated argument to be returned.
        if out is not None and out.is_neg():
            raise RuntimeError(f"{op}: `out` must not be a negated view of memory (is_neg() is true)")
        overload(*(tensor if tensor is None else tensor.resolve_neg() for tensor in inputs), out=out, **options)

    return kernel


def register(implementations: Mapping[str, Callable[..., Any]]) -> None:
    """With the fake implementations, whose arguments are those of the ops."""
    for op in ("matmul", "block_scaled_matmul"):
        name, packet = f"{op}.out", getattr(torch.ops.tileon, op)
        if torch_private.out.is_whole:
            names = list(inspect.signature(implementations[name]).parameters)
            _library.impl(name, _autograd(op, packet.out, names), "Autograd", with_keyset=True)
            _library.impl(name, _count_write(op, packet.out), "ADInplaceOrView", with_keyset=True)
        else:
            kernel = _public(op, packet.default, implementations[name])
            for key in ("Autograd", "ADInplaceOrView"):  # whichever a call meets first
                _library.impl(name, kernel, key)
        _library.impl(name, _resolve_negative(op, packet.out), "Negative")
