"""torch.matmul's shapes on an op that takes matrices and batches of them: what the wrapper and vmap's rule share."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def _batch_shape(a: Tensor, b: Tensor) -> tuple[int, ...]:
    try:
        return tuple(torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    except RuntimeError as error:
        raise RuntimeError(
            f"matmul: the batches of `a` and `b` must broadcast, got {tuple(a.shape[:-2])} and {tuple(b.shape[:-2])}"
        ) from error


def _batched(operand: Tensor, batch: tuple[int, ...]) -> Tensor:
    """The operand as the op takes it: (batch, rows, columns), or (rows, columns) where the whole batch shares it."""
    own, matrix = operand.shape[:-2], operand.shape[-2:]
    if all(size == 1 for size in own):
        return operand.reshape(matrix)
    if tuple(own) != batch:
        operand = operand.expand(*batch, *matrix)
    return operand if len(batch) == 1 else operand.reshape(math.prod(batch), *matrix)


def as_op_takes(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, tuple[int, ...], tuple[int, ...]]:
    """Both operands in the op's shapes, the op's result shape, and torch.matmul's."""
    for name, operand in (("a", a), ("b", b)):
        if operand.dim() == 0:
            raise RuntimeError(f"matmul: `{name}` must have at least one dimension, got 0-D")
    row, column = a.dim() == 1, b.dim() == 1
    a = a.unsqueeze(0) if row else a
    b = b.unsqueeze(1) if column else b
    batch = _batch_shape(a, b)
    m, n = a.shape[-2], b.shape[-1]
    shape = (*batch, *(() if row else (m,)), *(() if column else (n,)))
    if b.dim() == 2 and len(batch) > 0 and (len(batch) > 1 or a.is_contiguous()):  # one product of all the rows
        rows = math.prod(batch) * m
        return a.reshape(rows, a.shape[-1]), b, (rows, n), shape
    a, b = _batched(a, batch), _batched(b, batch)
    op_shape = (m, n) if a.dim() == 2 and b.dim() == 2 else (math.prod(batch), m, n)
    return a, b, op_shape, shape
