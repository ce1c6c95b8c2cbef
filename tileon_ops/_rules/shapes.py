"""torch.matmul's shapes on an op that takes matrices and batches of them: what the wrapper and vmap's rule share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tileon_ops._rules.fake.checks import Size, same


def _batch_shape(a: Tensor, b: Tensor) -> tuple[int, ...]:
    try:
        return tuple(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    except RuntimeError as error:
        raise RuntimeError(
            f"matmul: the batches of `a` and `b` must broadcast, got {tuple(a.shape[:-2])} and {tuple(b.shape[:-2])}"
        ) from error


def merges(sizes: Sequence[Size], strides: Sequence[Size]) -> bool:
    """Whether neighbouring dimensions of these sizes and strides are one by a view. Symbols that leave it open: no."""
    dims = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if not same(size, 1)]
    return all(same(outer[1], inner[0] * inner[1]) for outer, inner in itertools.pairwise(dims))


def _is_one_product(a: Tensor, count: int) -> bool:
    """Whether the last `count` dimensions of the batch of `a`, in which `b` is one matrix, shall become rows of `a`.

    Where that takes a copy and (batch, rows, columns) does not, it is a batch that shares `b`.
    """
    if a.is_contiguous() or merges(a.shape[-2 - count : -1], a.stride()[-2 - count : -1]):
        return True
    return count < a.dim() - 2 or not merges(a.shape[:-2], a.stride()[:-2])


def _batched(operand: Tensor, batch: tuple[int, ...]) -> Tensor:
    """The operand as the op takes it: (batch, rows, columns), or (rows, columns) where the whole batch shares it."""
    own, matrix = operand.shape[:-2], operand.shape[-2:]
    if all(size == 1 for size in own):
        return operand.reshape(matrix)
    if tuple(own) != batch:
        operand = operand.expand(*batch, *matrix)
    return operand if len(batch) == 1 else operand.reshape(math.prod(batch), *matrix)


def as_op_takes(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, tuple[int, ...], tuple[int, ...]]:
    """Both operands in the op's shapes, the op's result shape, and torch.matmul's.

    By views wherever strides allow it. The last dimensions of the batch in which `b` is one matrix become rows of `a`.
    """
    for name, operand in (("a", a), ("b", b)):
        if operand.dim() == 0:
            raise RuntimeError(f"matmul: `{name}` must have at least one dimension, got 0-D")
    if b.dim() == 2 and a.dim() > 2 and a.is_contiguous():  # what a linear layer is called with: nothing to find out
        rows = a.flatten(0, -2)
        return rows, b, (rows.shape[0], b.shape[1]), (*a.shape[:-1], b.shape[1])
    row, column = a.dim() == 1, b.dim() == 1
    a = a.unsqueeze(0) if row else a
    b = b.unsqueeze(1) if column else b
    batch = _batch_shape(a, b)
    n = b.shape[-1]
    shape = (*batch, *(() if row else (a.shape[-2],)), *(() if column else (n,)))

    count = 0
    while count < len(batch) and (count >= b.dim() - 2 or b.shape[-3 - count] == 1):
        count += 1
    if count > 0:
        a = a[(None,) * (len(batch) + 2 - a.dim())]
        if _is_one_product(a, count):
            a, batch = a.flatten(-2 - count, -2), batch[:-count]
            b = b.reshape(b.shape[: max(b.dim() - 2 - count, 0)] + b.shape[-2:])
    a, b = _batched(a, batch), _batched(b, batch)
    op_shape = (a.shape[-2], n) if a.dim() == 2 and b.dim() == 2 else (math.prod(batch), a.shape[-2], n)
    return a, b, op_shape, shape
