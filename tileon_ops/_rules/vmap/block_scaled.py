"""vmap of the products of scaled operands: the samples' rows become rows or columns of one product.

block_scaled_matmul has no batch. Where only `a`, its scales and a global scale for each row are mapped, samples become
rows; where only `b`, its scales and the bias are, columns. All else is one call for each sample: both operands, a
global scale of one element, the bias alone.

float32 scales become finer where the samples' do not stand in one operand as they are: one of a whole sample becomes
one for each row, and one of 128 x 128 elements one of 1 x 128 where the samples' rows are no multiple of 128.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tileon_ops._rules import autocast
from tileon_ops._rules.fake.block_scaled import check_block_scaled, elements_in_a_row, vec_of
from tileon_ops._rules.fake.block_scaled_backward import check_backward
from tileon_ops._rules.fake.checks import Size
from tileon_ops._rules.fake.scales import FLOAT32_BLOCK, FLOAT32_SCALES, granularity
from tileon_ops._rules.vmap.samples import (
    Dim,
    Info,
    fold,
    fold_packed_scale,
    in_front,
    one_by_one,
    pad_dims,
    sample,
)

_ops = torch.ops.tileon


def _fold_float32_scale(scale: Tensor, dim: Dim, mapped: Size, kind: str, rows: Size) -> Tensor:
    if kind == "tensor" and dim is None:
        return scale
    scale = in_front(scale, dim, mapped)  # type: ignore[arg-type]
    if kind == "tensor":
        scale = scale.reshape(mapped, 1, 1).expand(mapped, rows, 1)
    elif kind == "128x128" and rows % FLOAT32_BLOCK != 0:
        scale = scale.repeat_interleave(FLOAT32_BLOCK, 1)[:, :rows]
    return scale.flatten(0, 1)


def _fold_scale(scale: Tensor, dim: Dim, mapped: int, rows: Size, k: Size) -> Tensor:
    """Scales of V * rows rows of k elements, from those of `rows` for each sample."""
    if scale.dtype not in FLOAT32_SCALES:
        return fold_packed_scale(scale, dim, mapped, rows, k // vec_of(scale))
    return _fold_float32_scale(scale, dim, mapped, granularity(sample(scale, dim).shape, rows, k), rows)


def _of_each_row(global_scale: Tensor | None, dim: Dim) -> bool:
    return global_scale is not None and sample(global_scale, dim).dim() == 2


def _fold_global_scale(global_scale: Tensor | None, dim: Dim, mapped: int) -> Tensor | None:
    if global_scale is None or not _of_each_row(global_scale, dim):
        return global_scale
    return fold(global_scale, dim, mapped)


def _cast(a: Tensor, scale_a: Tensor | None, bias: Tensor | None, out_dtype: Any) -> tuple[Tensor, Tensor | None]:
    """Autocast's turn comes after vmap's, and the dtypes matter here."""
    if scale_a is None and autocast.is_on(a.device.type):
        return autocast.cast_weight_only(a, bias, out_dtype, a.device.type)
    return a, bias


def _product_rule(op: Any, own_tensors: int) -> Callable[..., Any]:
    """The rule of an op that takes a, b, scale_a, scale_b, `own_tensors` others, bias and global_scale."""
    count = 6 + own_tensors

    def rule(info: Info, in_dims: tuple[Dim, ...], *arguments: Any, **options: Any) -> Any:
        arguments = (*arguments, *(None,) * (count - len(arguments)))
        a, b, scale_a, scale_b, *others, bias, global_scale = arguments
        activation, out_dtype = options.get("activation", "none"), options.get("out_dtype")
        a, bias = _cast(a, scale_a, bias, out_dtype)
        arguments, in_dims = (a, b, scale_a, scale_b, *others, bias, global_scale), pad_dims(in_dims, count)
        likes: list[Any] = [x if x is None else sample(x, dim) for x, dim in zip(arguments, in_dims, strict=True)]
        check_block_scaled(likes[0], likes[1], likes[2], likes[3], likes[-2], likes[-1], activation, out_dtype)
        a_dim, b_dim, scale_a_dim, scale_b_dim, *other_dims, bias_dim, global_dim = in_dims
        mapped, rows, columns, k = info.batch_size, likes[0].shape[0], likes[1].shape[0], elements_in_a_row(likes[0])

        a_is_mapped = a_dim is not None or scale_a_dim is not None
        b_is_mapped = b_dim is not None or scale_b_dim is not None
        scale_is_for_each = global_dim is not None and not (a_is_mapped and _of_each_row(global_scale, global_dim))
        others_are_mapped = scale_is_for_each or any(dim is not None for dim in other_dims)
        if others_are_mapped or a_is_mapped == b_is_mapped or (a_is_mapped and bias_dim is not None):
            return one_by_one(op, info, in_dims, arguments, options)
        if a_is_mapped:
            a = fold(a, a_dim, mapped)
            if scale_a is not None:
                scale_a = _fold_scale(scale_a, scale_a_dim, mapped, rows, k)
            global_scale = _fold_global_scale(global_scale, global_dim, mapped)
            result = op(a, b, scale_a, scale_b, *others, bias, global_scale, **options)
            return result.unflatten(0, (mapped, rows)), 0
        if others:  # made from one `b`
            return one_by_one(op, info, in_dims, arguments, options)
        b = fold(b, b_dim, mapped)
        scale_b = _fold_scale(scale_b, scale_b_dim, mapped, columns, k)
        bias = None if bias is None else fold(bias, bias_dim, mapped)
        result = op(a, b, scale_a, scale_b, bias, global_scale, **options)
        return result.unflatten(1, (mapped, columns)), 1

    return rule


def _backward(
    info: Info, in_dims: tuple[Dim, ...], grad: Tensor, b: Tensor, scale_b: Tensor, global_scale: Tensor | None = None
) -> Any:
    in_dims = pad_dims(in_dims, 4)
    grad_dim, b_dim, scale_b_dim, global_dim = in_dims
    like_global = None if global_scale is None else sample(global_scale, global_dim)
    check_backward(sample(grad, grad_dim), sample(b, b_dim), sample(scale_b, scale_b_dim), like_global)
    op = _ops._block_scaled_backward.default
    scale_is_for_each = global_dim is not None and not _of_each_row(global_scale, global_dim)
    if grad_dim is None or b_dim is not None or scale_b_dim is not None or scale_is_for_each:
        return one_by_one(op, info, in_dims, (grad, b, scale_b, global_scale), {})
    global_scale = _fold_global_scale(global_scale, global_dim, info.batch_size)
    rows = sample(grad, grad_dim).shape[0]
    result = op(fold(grad, grad_dim, info.batch_size), b, scale_b, global_scale)
    return result.unflatten(0, (info.batch_size, rows)), 0


RULES: dict[str, Callable[..., Any]] = {
    "block_scaled_matmul": _product_rule(_ops.block_scaled_matmul.default, 0),
    "_block_scaled_matmul_prepared": _product_rule(_ops._block_scaled_matmul_prepared.default, 1),
    "_block_scaled_backward": _backward,
}
