"""vmap of `matmul`: the mapped dimension becomes rows, columns or a batch of one product.

Let V be the mapped size. Views wherever strides allow it, and no operand is repeated unless both have a batch of their
own besides and share no part of it:

- `b` is one matrix for all: V (and the batch) become rows of `a`.
- `a` is one matrix for all, and b's samples lie so that V and n are one dimension (stacked weights (V, n, k), seen as
  (V, k, n), do; so do vectors): V becomes columns, and the bias is V * n long.
- all else: V is a batch. A batch beside it is merged with V, or becomes rows where `b` has none of its own.

The op's bias is (n,). One that is mapped, other than in the second case, is added by torch: the product goes to float32
(float64 for float64), torch adds the bias and applies the activation in that dtype, and the result is rounded once, as
the op promises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tileon_ops._rules import autocast
from tileon_ops._rules.activations import activate
from tileon_ops._rules.fake.checks import Size, same
from tileon_ops._rules.fake.matmul import check_matmul
from tileon_ops._rules.required import check_tensors
from tileon_ops._rules.shapes import as_op_takes, merges
from tileon_ops._rules.vmap.samples import Dim, Info, in_front, pad_dims, sample

Tensors = tuple[Tensor, ...]
Op = Callable[..., Tensors]


def _is_one_matrix(operand: Tensor, dim: Dim) -> bool:
    return dim is None and (operand.dim() == 2 or same(operand.shape[0], 1))


def _as_columns(b: Tensor, dim: Dim) -> Tensor | None:
    """(k, V * n) on the memory of `b`; None where it has a batch of its own, or strides do not allow it."""
    if dim is None:
        return None
    b = b.movedim(dim, -2)  # ([batch,] k, V, n)
    if b.dim() == 4:
        if not same(b.shape[0], 1):
            return None
        b = b.squeeze(0)
    return b.flatten(1) if merges(b.shape[1:], b.stride()[1:]) else None


def _as_rows(a: Tensor, dim: int) -> tuple[Tensor, int]:
    """`a` with V wherever all but k are one dimension by a view, else at the front; and where V is."""
    for place in range(a.dim() - 1):
        moved = a.movedim(dim, place)
        if merges(moved.shape[:-1], moved.stride()[:-1]):
            return moved, place
    return a.movedim(dim, 0), 0


def _with_batch(operand: Tensor, dim: Dim, place: int) -> Tensor:
    """As (V, batch, rows, columns), or with `place` 1 as (batch, V, rows, columns), 1 for what the operand lacks."""
    if dim is None:
        return operand.unsqueeze(place) if operand.dim() == 3 else operand[None, None]
    operand = operand.movedim(dim, 0)
    if operand.dim() == 3:
        operand = operand.unsqueeze(1)
    return operand.movedim(0, place)


def _product(
    op: Op, a: Tensor, a_dim: Dim, b: Tensor, b_dim: Dim, bias: Tensor | None, options: dict[str, Any]
) -> Tensors:
    """(V, batch or 1, m, n), or, with nothing mapped, (1, batch or 1, m, n). `bias` is not mapped."""
    if a_dim is not None and _is_one_matrix(b, b_dim):
        a, place = _as_rows(a, a_dim)
        b = b if b.dim() == 2 else b.squeeze(0)
    else:
        place = 0 if b_dim is not None else 1
        a, b = _with_batch(a, a_dim, place), _with_batch(b, b_dim, place)
    a, b, _, shape = as_op_takes(a, b)
    results = [result.view(shape).movedim(place, 0) for result in op(a, b, bias, **options)]
    return tuple(result if len(shape) == 4 else result.unsqueeze(1) for result in results)


def _product_of_columns(
    op: Op, a: Tensor, b: Tensor, bias: Tensor | None, bias_dim: Dim, mapped: Size, n: Size, options: dict[str, Any]
) -> Tensors:
    """(V, 1, m, n) of one matrix `a` and (k, V * n)."""
    if bias is not None:
        bias = bias.expand(mapped, -1) if bias_dim is None else bias.movedim(bias_dim, 0)
        bias = bias.flatten()
    a = a if a.dim() == 2 else a.squeeze(0)
    results = op(a, b, bias, **options)
    return tuple(result.unflatten(1, (mapped, n)).movedim(1, 0).unsqueeze(1) for result in results)


def _with_torchs_epilogue(
    product: Tensor, bias: Tensor, options: dict[str, Any], dtype: torch.dtype, returns_z: bool
) -> Tensors:
    """(V, batch or 1, m, n) in float32 or float64, and (V, n): what the op returns."""
    z = product + bias[:, None, None].to(product.dtype)
    y = activate(z, options.get("activation", "none"), options.get("slope", 0.01)).to(dtype)
    return (y, z.to(dtype)) if returns_z else (y,)


def _matmul_rule(op: Op, returns_z: bool) -> Callable[..., tuple[Tensors, tuple[int, ...]]]:
    """The rule of an op with matmul's arguments, which returns a tuple."""

    def rule(
        info: Info, in_dims: tuple[Dim, ...], a: Tensor, b: Tensor, bias: Tensor | None = None, **options: Any
    ) -> tuple[Tensors, tuple[int, ...]]:
        check_tensors("matmul", {"a": a, "b": b})
        a_dim, b_dim, bias_dim = pad_dims(in_dims, 3)
        if autocast.is_on(a.device.type):  # its turn comes after vmap's, and the dtypes matter here
            a, b, bias = autocast.cast(a, b, bias, options.get("out_dtype"), a.device.type)
        like_bias = None if bias is None else sample(bias, bias_dim)
        activation, out_dtype = options.get("activation", "none"), options.get("out_dtype")
        shape, dtype = check_matmul(sample(a, a_dim), sample(b, b_dim), like_bias, activation, out_dtype)

        columns = _as_columns(b, b_dim) if _is_one_matrix(a, a_dim) else None
        if columns is not None:
            results = _product_of_columns(op, a, columns, bias, bias_dim, info.batch_size, shape[-1], options)
        elif bias is None or bias_dim is None:
            results = _product(op, a, a_dim, b, b_dim, bias, options)
        else:
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            plain = {name: options.get(name, False) for name in ("allow_tf32", "fast_accum")}
            (product,) = _product(_matmul, a, a_dim, b, b_dim, None, {"out_dtype": wide} | plain)
            results = _with_torchs_epilogue(product, bias.movedim(bias_dim, 0), options, dtype, returns_z)
        return tuple(result if len(shape) == 3 else result.squeeze(1) for result in results), (0,) * len(results)

    return rule


def _matmul(*arguments: Any, **options: Any) -> Tensors:
    return (torch.ops.tileon.matmul.default(*arguments, **options),)


_rule = _matmul_rule(_matmul, returns_z=False)


def _vmap_of_matmul(info: Info, in_dims: tuple[Dim, ...], *arguments: Any, **options: Any) -> tuple[Tensor, int]:
    (result,), (dim,) = _rule(info, in_dims, *arguments, **options)
    return result, dim


def _vmap_of_epilogue_backward(
    info: Info,
    in_dims: tuple[Dim, ...],
    grad: Tensor,
    saved: Tensor | None,
    *,
    out_dtype: torch.dtype,
    bias_dtype: torch.dtype | None = None,
    **options: Any,
) -> tuple[Tensors, tuple[int, int]]:
    """V is merged with the batch. Gradients of the bias, one for each sample, are sums by torch, before rounding."""
    grad = in_front(grad, in_dims[0], info.batch_size)
    saved = None if saved is None else in_front(saved, in_dims[1], info.batch_size)
    shape = grad.shape
    if grad.dim() == 4:
        grad, saved = grad.flatten(0, 1), None if saved is None else saved.flatten(0, 1)
    wide = torch.float64 if out_dtype == torch.float64 else torch.float32
    dtype = out_dtype if bias_dtype is None else wide
    grad_z, grad_bias = torch.ops.tileon._epilogue_backward(grad, saved, out_dtype=dtype, **options)
    grad_z = grad_z.view(shape)
    if bias_dtype is None:
        return (grad_z, grad_bias.expand(info.batch_size, -1)), (0, 0)
    grad_bias = grad_z.sum(tuple(range(1, grad_z.dim() - 1))).to(bias_dtype)
    return (grad_z.to(out_dtype), grad_bias), (0, 0)


RULES: dict[str, Callable[..., Any]] = {
    "matmul": _vmap_of_matmul,
    "_matmul_with_preactivation": _matmul_rule(torch.ops.tileon._matmul_with_preactivation.default, returns_z=True),
    "_epilogue_backward": _vmap_of_epilogue_backward,
}
