"""Gradients of tileon::matmul, backward and forward, as often as wanted, under torch.func's transforms too.

With z = a @ b + bias and y = activation(z): grad_z = grad_y * activation'(z), grad_a = grad_z @ b^T,
grad_b = a^T @ grad_z, grad_bias = the sum of grad_z over the rows. An operand that a batch shares gets the sum over the
batch, which is one longer product. Each gradient has its operand's dtype, and is laid out as its operand is, so that a
weight that came in as `weight.t()` gets a contiguous gradient; where the operands have 16 bits and y has 32, grad_z is
rounded to the operands' dtype before the products, so that they run on the forward product's kernels.

What is saved: a where b wants a gradient, b where a does, and for the activation the output for relu and for leaky_relu
with slope >= 0 (its sign is all that is needed), z in place of the output for the others, nothing for none. The kernel
writes z along with y. grad_z and grad_bias come out of one pass (csrc/epilogue_backward.h); where the backward pass is
itself recorded, or carries tangents, they are made of torch's own ops, which are differentiable.

No gradient flows through fp8 operands: one that requires grad is refused before anything is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._C import _any_requires_grad, is_grad_enabled
from torch._C import _AutoDispatchBelowAutograd as BelowAutograd
from torch._C._functorch import TransformType, peek_interpreter_stack
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

from tileon_ops._fake_rules import same
from tileon_ops._no_grad import asked_gradients

_aten = torch.ops.aten
_library = torch.library.Library("tileon", "IMPL")

_matmul = torch.ops.tileon.matmul.default
_matmul_with_preactivation = torch.ops.tileon._matmul_with_preactivation.default
_epilogue_backward = torch.ops.tileon._epilogue_backward.default

# Here every 100 ns count: each eager call passes. What OpOverload.redispatch calls.
_redispatch = _matmul._handle.redispatch_boxed

# What is below autograd in the keysets that the dispatcher came with, and whether it is a backend's kernel alone, by
# the keyset's bits: there are few, and looking one up takes a fifth of what masking it and entering BelowAutograd does.
_below: dict[int, tuple[Any, bool]] = {}
_BACKENDS = (torch._C.DispatchKey.CPU, torch._C.DispatchKey.CUDA)


def _below_autograd(keyset: Any) -> tuple[Any, bool]:
    """The keys below autograd's to call the op with, and whether that is free of whatever else reads the exclusion of
    autograd: a mode, a subclass, functionalization. The CPU's and the GPU's own kernels do not: they run where nothing
    requires a gradient, or where grad mode is off."""
    keys = keyset & torch._C._after_autograd_keyset
    without_views = keys.remove(torch._C.DispatchKey.ADInplaceOrView)  # this op is neither
    found = _below[keyset.raw_repr()] = keys, without_views.highestPriorityTypeId() in _BACKENDS
    return found


def _call_below(
    redispatch: Callable[..., Any], keyset: Any, a: Tensor, b: Tensor, bias: Tensor | None, options: Any
) -> Any:
    """An op's kernel below autograd, by its handle's redispatch_boxed."""
    keys, is_backend = _below.get(keyset.raw_repr()) or _below_autograd(keyset)
    if is_backend:
        return redispatch(keys, a, b, bias, **options)
    with BelowAutograd():
        return redispatch(keys, a, b, bias, **options)


class _Layout:
    """An operand's shape and strides, which its gradient gets; the operand itself may not be kept."""

    __slots__ = ("shape", "strides")

    def __init__(self, operand: Tensor) -> None:
        self.shape, self.strides = operand.shape, operand.stride()

    def is_shared(self) -> bool:
        """By the whole batch."""
        return len(self.shape) == 2 or same(self.shape[0], 1)

    def product(self, x: Tensor, y: Tensor, precision: dict[str, bool]) -> Tensor:
        """x @ y with adjacent columns where the operand has those, and else with adjacent rows."""
        if same(self.strides[-2], 1) and not same(self.strides[-1], 1):
            return _matmul(y.mT, x.mT, **precision).mT
        return _matmul(x, y, **precision)


def _grad_a(grad: Tensor, a: _Layout, b: Tensor, precision: dict[str, bool]) -> Tensor:
    """grad @ b^T, in the shape of a."""
    if grad.dim() == 2 or not a.is_shared():
        return a.product(grad, b.mT, precision)
    batch, m, n = grad.shape  # sum over i of grad[i] @ b[i]^T: one product whose inner dimension is (batch, n)
    k = a.shape[-1]
    rows = grad.transpose(0, 1).reshape(m, batch * n)
    columns = b.mT.expand(batch, n, k).reshape(batch * n, k)
    return a.product(rows, columns, precision).reshape(a.shape)


def _grad_b(grad: Tensor, a: Tensor, b: _Layout, precision: dict[str, bool]) -> Tensor:
    """a^T @ grad, in the shape of b."""
    if grad.dim() == 2 or not b.is_shared():
        return b.product(a.mT, grad, precision)
    batch, m, n = grad.shape  # sum over i of a[i]^T @ grad[i]: one product whose inner dimension is (batch, m)
    k = a.shape[-1]
    rows = a.expand(batch, m, k).reshape(batch * m, k)
    return b.product(rows.mT, grad.reshape(batch * m, n), precision).reshape(b.shape)


def _keeps_z(options: dict[str, Any]) -> bool:
    """Whether the derivative needs z: not without an activation, nor where the output's sign tells as much."""
    activation = options.get("activation", "none")
    if activation == "leaky_relu":
        return bool(options.get("slope", 0.01) < 0)
    return activation not in ("none", "relu")  # through_activation of csrc/epilogue.h


class _Call(NamedTuple):
    """What a node of the graph knows of its call besides tensors."""

    options: dict[str, Any]
    keeps_z: bool
    dtype: torch.dtype  # of a
    bias_dtype: torch.dtype | None
    a: _Layout | None = None  # where the operand itself is not kept
    b: _Layout | None = None

    @property
    def precision(self) -> dict[str, bool]:
        return {"allow_tf32": True} if self.options.get("allow_tf32") else {}

    @property
    def activation(self) -> str:
        activation: str = self.options.get("activation", "none")
        return activation

    @property
    def slope(self) -> float:
        slope: float = self.options.get("slope", 0.01)
        return slope

    def through_activation(self, grad: Tensor, kept: Tensor | None) -> Tensor:
        """grad * activation'(z) by torch's own ops, which are differentiable; `kept` is y or z.

        At z = 0 it is torch's: 0 for relu, slope for leaky_relu.
        """
        if kept is None or self.activation == "none":
            return grad
        if self.activation == "relu":
            return _aten.threshold_backward(grad, kept, 0)
        if self.activation == "leaky_relu":
            return _aten.leaky_relu_backward(grad, kept, self.slope, False)
        if self.activation == "silu":
            sigmoid = kept.sigmoid()  # torch's silu_backward has no gradient of its own
            return grad * (sigmoid * (1 + kept * (1 - sigmoid)))
        return _aten.gelu_backward(grad, kept, approximate="tanh" if self.activation == "gelu_tanh" else "none")

    def through_epilogue(self, grad: Tensor, kept: Tensor | None, wants_bias: bool) -> tuple[Tensor, Tensor | None]:
        """grad_z in the operands' dtype, and grad_bias."""
        bias_dtype = self.bias_dtype if wants_bias else None
        kept = None if self.activation == "none" else kept
        # Of fp8 operands, whose bias alone has a gradient, nobody asks for grad_z.
        dtype = self.dtype if self.dtype.itemsize > 1 else grad.dtype
        products_take_it = kept is None and grad.dtype == dtype and not same(grad.stride(-1), 0)
        if is_grad_enabled() or _has_tangents() or products_take_it:
            grad = self.through_activation(grad, kept)
            grad_bias = grad.sum(tuple(range(grad.dim() - 1)), dtype=bias_dtype) if wants_bias else None
            return grad.to(dtype), grad_bias
        grad_z, grad_bias = _epilogue_backward(
            grad, kept, activation=self.activation, slope=self.slope, out_dtype=dtype, bias_dtype=bias_dtype
        )
        return grad_z, grad_bias if wants_bias else None


def _forward(
    a: Tensor, b: Tensor, bias: Tensor | None, keyset: Any, options: dict[str, Any], keeps_z: bool
) -> Tensor | tuple[Tensor, Tensor]:
    """The output, or where z is kept the output and z. `keyset` is None where no dispatcher has been asked yet."""
    op = _matmul_with_preactivation if keeps_z and a.dtype.itemsize > 1 else _matmul
    if keyset is not None:
        result = _call_below(op._handle.redispatch_boxed, keyset, a, b, bias, options)
    else:
        with BelowAutograd():
            result = op(a, b, bias, **options)
    if keeps_z and op is _matmul:  # of fp8 operands, where a gradient flows to the bias alone
        with BelowAutograd():
            return result, _matmul(a, b, bias, **{**options, "activation": "none"})
    return result


def _has_tangents() -> bool:
    """Whether a call may have them. What a compiler traced enters a level of jvp that forward_ad knows nothing of."""
    transform = peek_interpreter_stack()
    return forward_ad._current_level >= 0 or (transform is not None and transform.key() == TransformType.Jvp)


class _Matmul(torch.autograd.function._SingleLevelFunction):
    """The product, and what its gradients need of it. `keyset` and `options` are as _autograd has them.

    Where z is kept it is an output too, so that a gradient of the backward pass finds its way through it. The base
    class is the one that torch.func runs its autograd.Functions by, each at one level of the transforms: a kernel on
    the Autograd key is called at one level. Its `apply` is also the shortest.
    """

    @staticmethod
    def _compiled_autograd_key(ctx: Any) -> tuple[Any, ...]:
        """As of torch.autograd.Function, without which torch's compiled autograd fails."""
        return (ctx._autograd_function_id,)

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        bias: Tensor | None,
        keyset: Any,
        options: dict[str, Any],
        keeps_z: bool,
        is_transformed: bool,
    ) -> Any:
        result: Any
        if is_transformed:  # what the levels below this one record is theirs
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                result = _forward(a, b, bias, keyset, options, keeps_z)
        else:
            result = _forward(a, b, bias, keyset, options, keeps_z)
        y = kept = result
        if keeps_z:
            y, kept = result
            ctx.set_materialize_grads(False)
        elif "activation" not in options:
            kept = None
        wants_a, wants_b, wants_bias = ctx.needs_input_grad[:3]
        bias_dtype = bias.dtype if wants_bias and bias is not None else None
        if wants_a and wants_b:
            ctx.call = (options, keeps_z, a.dtype, bias_dtype)  # a _Call, but for the time that making one takes
            ctx.save_for_backward(a, b, kept)
        else:
            ctx.call = (options, keeps_z, a.dtype, bias_dtype, _Layout(a), _Layout(b))
            ctx.save_for_backward(a if wants_b else None, b if wants_a else None, kept)
        if (forward_ad._current_level >= 0 or is_transformed) and _has_tangents():
            ctx.save_for_forward(a, b, kept)
            ctx.out_dtype, ctx.out_shape = y.dtype, y.shape
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_of_z: Tensor | None = None) -> tuple[Tensor | None, ...]:
        a, b, kept = ctx.saved_tensors
        call = _Call(*ctx.call)
        wants_a, wants_b, wants_bias = ctx.needs_input_grad[:3]
        if grad_of_z is not None:  # the backward pass was recorded, and depends on z
            grad = grad_of_z if grad is None else call.through_activation(grad, kept) + grad_of_z
            call, kept = call._replace(options={**call.options, "activation": "none"}), None
        if grad is None:
            return (None,) * 7
        grad_z, grad_bias = call.through_epilogue(grad, kept, wants_bias)
        grad_a = _grad_a(grad_z, call.a or _Layout(a), b, call.precision) if wants_a else None
        grad_b = _grad_b(grad_z, a, call.b or _Layout(b), call.precision) if wants_b else None
        return grad_a, grad_b, grad_bias, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent_a: Tensor | None, tangent_b: Tensor | None, tangent_bias: Tensor | None, *_: Any) -> Any:
        """Of y, (tangent_a @ b + a @ tangent_b + tangent_bias) * activation'(z), and of z where that is an output."""
        call = _Call(*ctx.call)
        # Forward mode is off here, at the levels below this one too, whose tangents would be lost without a word. With
        # it on, what is multiplied must have no tangent of this level.
        with forward_ad._set_fwd_grad_enabled(True):
            a, b, kept = (None if x is None else _aten._fw_primal(x, 0) for x in ctx.saved_tensors)
            terms = []
            if tangent_a is not None:
                terms.append(_matmul(tangent_a, b, out_dtype=ctx.out_dtype, **call.precision))
            if tangent_b is not None:
                terms.append(_matmul(a, tangent_b, out_dtype=ctx.out_dtype, **call.precision))
            if tangent_bias is not None:
                terms.append(tangent_bias.to(ctx.out_dtype).expand(ctx.out_shape))
            tangent = terms[0]
            for term in terms[1:]:
                tangent = tangent + term
            through = call.through_activation(tangent, kept)
            return (through, tangent) if call.keeps_z else through


_apply: Callable[..., Any] = _Matmul.apply  # type: ignore[attr-defined]  # of a base class in C++


def _record(keyset: Any, a: Tensor, b: Tensor, bias: Tensor | None, options: dict[str, Any], returns_z: bool) -> Any:
    """The output, or where z is kept the output and z, with a node in the graph."""
    keeps_z = returns_z or ("activation" in options and _keeps_z(options))
    if a.dtype.itemsize == 1:
        for name, asks in asked_gradients({"a": a, "b": b}):
            raise RuntimeError(f"matmul: `{name}` {asks}, and no gradient flows through fp8 operands")
    elif keeps_z and "fast_accum" in options:  # of fp8 operands alone
        options = {name: value for name, value in options.items() if name != "fast_accum"}
    if peek_interpreter_stack() is None:
        return _apply(a, b, bias, keyset, options, keeps_z, False)
    with enable_single_level_autograd_function():
        return _apply(a, b, bias, keyset, options, keeps_z, True)


def _autograd(keyset: Any, a: Tensor, b: Tensor, bias: Tensor | None = None, **options: Any) -> Any:
    """The kernel on the Autograd key; `keyset` is what the dispatcher calls it with. It leaves defaults out."""
    if not (
        is_grad_enabled() and (a.requires_grad or b.requires_grad or (bias is not None and bias.requires_grad))
    ) and (
        (forward_ad._current_level < 0 and peek_interpreter_stack() is None)  # nearly always, and found out at once
        or not _has_tangents()
    ):
        return _call_below(_redispatch, keyset, a, b, bias, options)
    result = _record(keyset, a, b, bias, options, False)
    return result[0] if type(result) is tuple else result


def record(a: Tensor, b: Tensor, bias: Tensor | None, options: dict[str, Any]) -> Tensor:
    """The op with a node in the graph, for the wrapper, which has seen that one is needed and that nothing comes before
    autograd: the same as calling the op, less a turn through the dispatcher."""
    result = _record(None, a, b, bias, options, False)
    output: Tensor = result[0] if type(result) is tuple else result
    return output


def _autograd_with_preactivation(
    keyset: Any, a: Tensor, b: Tensor, bias: Tensor | None = None, **options: Any
) -> tuple[Tensor, Tensor]:
    """The same for the op that one level of torch.func's transforms calls of the next."""
    pair: tuple[Tensor, Tensor]
    if not ((is_grad_enabled() and _any_requires_grad(a, b, bias)) or _has_tangents()):
        pair = _call_below(_matmul_with_preactivation._handle.redispatch_boxed, keyset, a, b, bias, options)
    else:
        pair = _record(keyset, a, b, bias, options, True)
    return pair


def register() -> None:
    _library.impl("matmul", _autograd, "Autograd", with_keyset=True)
    _library.impl("_matmul_with_preactivation", _autograd_with_preactivation, "Autograd", with_keyset=True)
