"""vmap of `matmul`: the mapped dimension becomes rows, columns or a batch of one product. See also _vmap_quantized.py.

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
import torch.nn.functional as F
from torch import Tensor

from tileon_ops import _autocast, _vmap_quantized
from tileon_ops._fake_matmul import check_matmul
from tileon_ops._fake_rules import Size, same
from tileon_ops._shapes import as_op_takes, merges
from tileon_ops._vmap_quantized import Dim, Info, sample

_library = torch.library.Library("tileon", "IMPL")
_op = torch.ops.tileon.matmul.default

_OUT_OPS = ("matmul.out", "block_scaled_matmul.out")


def _activate(x: Tensor, activation: str, slope: float) -> Tensor:
    if activation == "relu":
        return F.relu(x)
    if activation == "leaky_relu":
        return F.leaky_relu(x, slope)
    if activation == "silu":
        return F.silu(x)
    if activation == "none":
        return x
    return F.gelu(x, approximate="tanh" if activation == "gelu_tanh" else "none")


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


def _product(a: Tensor, a_dim: Dim, b: Tensor, b_dim: Dim, bias: Tensor | None, options: dict[str, Any]) -> Tensor:
    """(V, batch or 1, m, n), or, with nothing mapped, (1, batch or 1, m, n). `bias` is not mapped."""
    if a_dim is not None and _is_one_matrix(b, b_dim):
        a, place = _as_rows(a, a_dim)
        b = b if b.dim() == 2 else b.squeeze(0)
        a, b, _, shape = as_op_takes(a, b)
        result = _op(a, b, bias, **options).view(shape).movedim(place, 0)
        return result if result.dim() == 4 else result.unsqueeze(1)
    place = 0 if b_dim is not None else 1
    a, b, _, shape = as_op_takes(_with_batch(a, a_dim, place), _with_batch(b, b_dim, place))
    return _op(a, b, bias, **options).view(shape).movedim(place, 0)


def _product_of_columns(
    a: Tensor, b: Tensor, bias: Tensor | None, bias_dim: Dim, mapped: Size, n: Size, options: dict[str, Any]
) -> Tensor:
    """(V, 1, m, n) of one matrix `a` and (k, V * n)."""
    if bias is not None:
        bias = bias.expand(mapped, -1) if bias_dim is None else bias.movedim(bias_dim, 0)
        bias = bias.flatten()
    a = a if a.dim() == 2 else a.squeeze(0)
    return _op(a, b, bias, **options).unflatten(1, (mapped, n)).movedim(1, 0).unsqueeze(1)


def _matmul(
    info: Info, in_dims: tuple[Dim, ...], a: Tensor, b: Tensor, bias: Tensor | None = None, **options: Any
) -> tuple[Tensor, int]:
    a_dim, b_dim, bias_dim = (*in_dims, None)[:3]
    if _autocast.is_on(a.device.type):  # its turn comes after vmap's, and the dtypes matter here
        a, b, bias = _autocast.cast(a, b, bias, options.get("out_dtype"), a.device.type)
    activation, slope = options.get("activation", "none"), options.get("slope", 0.01)
    shape, dtype = check_matmul(
        sample(a, a_dim),
        sample(b, b_dim),
        None if bias is None else sample(bias, bias_dim),
        activation,
        options.get("out_dtype"),
    )
    columns = _as_columns(b, b_dim) if _is_one_matrix(a, a_dim) else None
    if columns is not None:
        result = _product_of_columns(a, columns, bias, bias_dim, info.batch_size, shape[-1], options)
    elif bias is None or bias_dim is None:
        result = _product(a, a_dim, b, b_dim, bias, options)
    else:
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        precision = {name: options.get(name, False) for name in ("allow_tf32", "fast_accum")}
        result = _product(a, a_dim, b, b_dim, None, {"out_dtype": wide} | precision)
        result = result + bias.movedim(bias_dim, 0)[:, None, None].to(wide)
        result = _activate(result, activation, slope).to(dtype)
    return (result if len(shape) == 3 else result.squeeze(1)), 0


def _refuse_out(name: str) -> Callable[..., None]:
    op = name.partition(".")[0]

    def kernel(*arguments: Any, **options: Any) -> None:
        raise RuntimeError(f"{op}: `out` is not supported under vmap; call it without `out`")

    return kernel


def register() -> None:
    torch.library.register_vmap("tileon::matmul", _matmul, lib=_library)
    for name, rule in _vmap_quantized.RULES.items():
        torch.library.register_vmap(f"tileon::{name}", rule, lib=_library)
    for name in _OUT_OPS:  # register_vmap takes no op with a tensor by keyword
        _library.impl(name, _refuse_out(name), "FuncTorchBatched")
