"""The formulas of matmul's gradients, by whichever interface of torch's they are registered.

With z = a @ b + bias and y = activation(z): grad_z = grad_y * activation'(z), grad_a = grad_z @ b^T,
grad_b = a^T @ grad_z, grad_bias = the sum of grad_z over the rows. An operand that a batch shares gets the sum over the
batch, which is one longer product. Each gradient has its operand's dtype, and is laid out as its operand is, so that a
weight that came in as `weight.t()` gets a contiguous gradient; where the operands have 16 bits and y has 32, grad_z is
rounded to the operands' dtype before the products, so that they run on the forward product's kernels.

grad_z and grad_bias come out of one pass (csrc/core/elementwise_problems.h), or, where they are to be differentiated
again, of torch's own ops.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from tileon_ops._rules.activations import ACTIVATIONS
from tileon_ops._rules.autograd.no_grad import asked_gradients
from tileon_ops._rules.fake.checks import same

_matmul = torch.ops.tileon.matmul.default
_epilogue_backward = torch.ops.tileon._epilogue_backward.default


class Layout:
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


def grad_a(grad: Tensor, a: Layout, b: Tensor, precision: dict[str, bool]) -> Tensor:
    """grad @ b^T, in the shape of a."""
    if grad.dim() == 2 or not a.is_shared():
        return a.product(grad, b.mT, precision)
    batch, m, n = grad.shape  # sum over i of grad[i] @ b[i]^T: one product whose inner dimension is (batch, n)
    k = a.shape[-1]
    rows = grad.transpose(0, 1).reshape(m, batch * n)
    columns = b.mT.expand(batch, n, k).reshape(batch * n, k)
    return a.product(rows, columns, precision).reshape(a.shape)


def grad_b(grad: Tensor, a: Tensor, b: Layout, precision: dict[str, bool]) -> Tensor:
    """a^T @ grad, in the shape of b."""
    if grad.dim() == 2 or not b.is_shared():
        return b.product(a.mT, grad, precision)
    batch, m, n = grad.shape  # sum over i of a[i]^T @ grad[i]: one product whose inner dimension is (batch, m)
    k = a.shape[-1]
    rows = a.expand(batch, m, k).reshape(batch * m, k)
    return b.product(rows.mT, grad.reshape(batch * m, n), precision).reshape(b.shape)


def needs_z(options: dict[str, Any]) -> bool:
    """Whether the derivative needs z: not without an activation, nor where the output tells as much."""
    activation = ACTIVATIONS.get(options.get("activation", "none"))
    return activation is not None and activation.needs_z(options.get("slope", 0.01))  # the op refuses what is not there


def _summed_rows(grad: Tensor, dtype: torch.dtype) -> Tensor:
    """The gradient of a bias of that dtype: summed in float32, in float64 where the gradient has that, rounded once."""
    rows = tuple(range(grad.dim() - 1))
    if grad.dtype == torch.float64:  # torch would round every number before it adds them up
        return grad.sum(rows).to(dtype)
    return grad.sum(rows, dtype=dtype)


class Call(NamedTuple):
    """What a node of the graph knows of its call besides tensors."""

    options: dict[str, Any]
    keeps_z: bool
    dtype: torch.dtype  # of a
    bias_dtype: torch.dtype | None
    a: Layout | None = None  # where the operand itself is not kept
    b: Layout | None = None

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

    def without_activation(self) -> Call:
        return self._replace(options={**self.options, "activation": "none"})

    def through_activation(self, grad: Tensor, kept: Tensor | None) -> Tensor:
        """grad * activation'(z) by torch's own ops, which are differentiable; `kept` is y or z."""
        return grad if kept is None else ACTIVATIONS[self.activation].backward(grad, kept, self.slope)

    def through_epilogue(
        self, grad: Tensor, kept: Tensor | None, wants_bias: bool, is_differentiated: bool
    ) -> tuple[Tensor, Tensor | None]:
        """grad_z in the operands' dtype, and grad_bias; by torch's own ops where this is recorded or has tangents."""
        bias_dtype = self.bias_dtype if wants_bias else None
        kept = None if self.activation == "none" else kept
        # Of fp8 operands, whose bias alone has a gradient, nobody asks for grad_z.
        dtype = self.dtype if self.dtype.itemsize > 1 else grad.dtype
        products_take_it = kept is None and grad.dtype == dtype and not same(grad.stride(-1), 0)
        if is_differentiated or products_take_it:
            grad = self.through_activation(grad, kept)
            return grad.to(dtype), _summed_rows(grad, bias_dtype) if bias_dtype is not None else None
        grad_z, grad_bias = _epilogue_backward(
            grad, kept, activation=self.activation, slope=self.slope, out_dtype=dtype, bias_dtype=bias_dtype
        )
        return grad_z, grad_bias if wants_bias else None

    def gradients(
        self, grad: Tensor, a: Any, b: Any, kept: Tensor | None, wanted: tuple[bool, ...], is_differentiated: bool
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Those of a, b and bias that are `wanted`. An operand that none of them needs may be None; its layout is known
        then."""
        wants_a, wants_b, wants_bias = wanted
        grad_z, grad_bias = self.through_epilogue(grad, kept, wants_bias, is_differentiated)
        return (
            grad_a(grad_z, self.a or Layout(a), b, self.precision) if wants_a else None,
            grad_b(grad_z, a, self.b or Layout(b), self.precision) if wants_b else None,
            grad_bias,
        )


def refuse_of_fp8(a: Tensor, b: Tensor) -> None:
    """RuntimeError for an fp8 operand that asks for a gradient."""
    if a.dtype.itemsize == 1:
        for name, asks in asked_gradients({"a": a, "b": b}):
            raise RuntimeError(f"matmul: `{name}` {asks}, and no gradient flows through fp8 operands")
