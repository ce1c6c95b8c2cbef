"""The soak test's oracle of matmul's gradients.

With z = a @ b + bias and g the gradient of the result: grad_z = g activation'(z), grad_a = grad_z @ b^T, grad_b =
a^T @ grad_z, grad_bias = the sum of grad_z over the rows, and an operand that a batch shares gets the sum over the
batch. The products keep the bounds of any product; z is kept in the result's dtype, grad_z is rounded to the operands'
(docs/training.md), and what that adds to the error is carried through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from soak.case import Call
from soak.epilogue import Epilogue
from soak.intervals import Interval, Precision, activate, product, rounding
from soak.operand import Operand
from soak.wanted import Numbers

KEPT_OVERFLOWS = "gradients: the activation's argument is kept in a dtype that it overflows"

_ROUNDING = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24, torch.float64: 2.0**-53}
_FORMULA_ROUNDINGS = 32.0  # of an activation's derivative, in units of 1 + |z|: a dozen operations
_STEEPEST_DERIVATIVE = 1.0  # of the derivatives of gelu, gelu_tanh and silu

PrecisionOf = Callable[[int], Precision]


def _smallest(dtype: torch.dtype) -> float:
    info = torch.finfo(dtype)
    return info.smallest_normal * info.eps


def gradients(
    call: Call, a: Tensor, b: Tensor, argument: Interval, epilogue: Epilogue, precision: PrecisionOf
) -> dict[str, Numbers]:
    """By the names of results, of the arguments that require one. `a`, `b`: float64; `argument`: z."""
    assert call.upstream is not None
    unit = precision(1).unit
    grad_z = _grad_z(call.upstream.view().double(), argument, epilogue, unit)
    operands = {name: value for name, value in call.arguments.items() if isinstance(value, Operand)}
    rounded = _rounded(grad_z, operands["a"].dtype)
    found: dict[str, Interval] = {}
    if operands["a"].requires_grad:
        found["a"] = _grad_a(rounded, a, b, precision)
    if operands["b"].requires_grad:
        found["b"] = _grad_b(rounded, a, b, precision)
    if "bias" in operands and operands["bias"].requires_grad:
        found["bias"] = _grad_bias(grad_z, unit)
    overflows = epilogue.activation not in ("none", "relu") and _overflows(argument, epilogue.out_dtype)
    return {
        f"gradient of {name}": Numbers(_maybe_open(interval, overflows), operands[name].dtype)
        for name, interval in found.items()
    }


def _overflows(argument: Interval, dtype: torch.dtype) -> bool:
    return bool((argument.value.abs() + argument.error >= torch.finfo(dtype).max).any())


def _maybe_open(interval: Interval, overflows: bool) -> Interval:
    everything = torch.ones_like(interval.value, dtype=torch.bool)
    return interval.left_open(KEPT_OVERFLOWS, everything) if overflows else interval


def _grad_z(grad: Tensor, z: Interval, epilogue: Epilogue, unit: float) -> Interval:
    derivative = _derivative(z, epilogue, unit)
    value, error = grad * derivative.value, grad.abs() * derivative.error
    return Interval(value, error + rounding(value, error, unit))


def _derivative(z: Interval, epilogue: Epilogue, unit: float) -> Interval:
    """At z, as it is kept. At 0 it is torch's: 0 of relu, the slope of leaky_relu."""
    if epilogue.activation == "none":
        return Interval(torch.ones_like(z.value), torch.zeros_like(z.value))
    tiny = _smallest(epilogue.out_dtype)
    if epilogue.activation in ("relu", "leaky_relu"):
        low = epilogue.slope if epilogue.activation == "leaky_relu" else 0.0
        unsure = (z.value.abs() <= z.error + tiny) & ~((z.value == 0) & (z.error == 0))
        value = torch.full_like(z.value, low).masked_fill(z.value > 0, 1.0).masked_fill(unsure, (1 + low) / 2)
        error = torch.zeros_like(z.value).masked_fill(unsure, abs(1 - low) / 2)
        is_short = float(torch.tensor(low, dtype=torch.float32)) == low
        return Interval(value, error if is_short else error + unit * abs(low))
    x = z.value.clone().requires_grad_()
    (value,) = torch.autograd.grad(activate(x, epilogue.activation, epilogue.slope).sum(), x)
    kept = z.error + _ROUNDING[epilogue.out_dtype] * (z.value.abs() + z.error) + tiny
    return Interval(value, _STEEPEST_DERIVATIVE * kept + _FORMULA_ROUNDINGS * unit * (1 + z.value.abs()))


def _rounded(grad_z: Interval, dtype: torch.dtype) -> Interval:
    """In the operands' dtype; of fp8 operands nobody asks for it."""
    if dtype.itemsize != 2:
        return grad_z
    exact = (grad_z.error == 0) & (grad_z.value.to(dtype).double() == grad_z.value)
    more = _ROUNDING[dtype] * (grad_z.value.abs() + grad_z.error) + _smallest(dtype)
    return replace(grad_z, error=grad_z.error + torch.where(exact, 0.0, more))


def _product(x: Interval, y: Tensor, precision: PrecisionOf) -> Interval:
    """x @ y."""
    k = y.shape[-2]
    sums = product(x.value, y, precision(k))
    return replace(sums, error=sums.error + (1 + precision(k).bound) * (x.error @ y.abs()))


def _grad_a(grad: Interval, a: Tensor, b: Tensor, precision: PrecisionOf) -> Interval:
    if grad.value.dim() == 2 or (a.dim() == 3 and a.shape[0] == grad.value.shape[0]):
        return _product(grad, b.mT, precision)
    batch, m, n = grad.value.shape  # the inner dimension is (batch, n)
    value, error = (x.transpose(0, 1).reshape(m, batch * n) for x in (grad.value, grad.error))
    columns = b.mT.expand(batch, n, a.shape[-1]).reshape(batch * n, a.shape[-1])
    return _product(Interval(value, error), columns, precision).reshaped(tuple(a.shape))


def _transposed(interval: Interval) -> Interval:
    return Interval(interval.value.mT, interval.error.mT, {rule: mask.mT for rule, mask in interval.open.items()})


def _grad_b(grad: Interval, a: Tensor, b: Tensor, precision: PrecisionOf) -> Interval:
    """(grad_z^T @ a)^T."""
    if grad.value.dim() == 2 or (b.dim() == 3 and b.shape[0] == grad.value.shape[0]):
        return _transposed(_product(_transposed(grad), a, precision))
    batch, m, n = grad.value.shape  # the inner dimension is (batch, m)
    value, error = (x.reshape(batch * m, n).t() for x in (grad.value, grad.error))
    columns = a.expand(batch, m, a.shape[-1]).reshape(batch * m, a.shape[-1])
    return _transposed(_product(Interval(value, error), columns, precision)).reshaped(tuple(b.shape))


def _grad_bias(grad: Interval, unit: float) -> Interval:
    """The rows are added in any order."""
    value, error = (x.flatten(0, -2) for x in (grad.value, grad.error))
    rows = value.shape[0]
    in_any_order = Precision(bound=rows * unit, exact=2.0**22, unit=unit, underflow=0.0)
    sums = product(torch.ones(1, rows, dtype=torch.float64), value, in_any_order)
    return replace(sums, error=sums.error + error.sum(0, keepdim=True)).reshaped((value.shape[1],))
