"""tileon::_block_scaled_backward: what a product leaves for the gradient of an `a` without a scale.

(grad * global_scale) @ decode(b) sums over the rows of `b`, so its scales lie across the sum: no kernel of
block_scaled_matmul multiplies so. Some rows of `b` at a time are decoded to float32, which is exact, and multiplied by
tileon::matmul in float32; the products are added up in float32 in the order of the rows. So a call needs memory for a
slice of `b`, however large `b` is, and nothing decoded outlives it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tileon_ops._rules.fake.block_scaled import E4M3, FP4, elements_in_a_row
from tileon_ops._rules.fake.block_scaled_backward import check_backward
from tileon_ops._rules.fake.checks import Size
from tileon_ops._rules.fake.scales import BLOCK_ROWS, FLOAT32_BLOCK, FLOAT32_SCALES, granularity

_library = torch.library.Library("tileon", "IMPL")

_matmul_out = torch.ops.tileon.matmul.out  # which autocast leaves alone
_dequantize = torch.ops.tileon.dequantize.default

_SLICE_BYTES = 16 << 20  # of float32: large enough for a product to be fast, small beside a weight


def _ceil_div(count: Size, size: int) -> Size:
    return -(-count // size)


def _rows_of_float32_scales(scale: Tensor, rows: Size, k: Size, begin: int, end: Size) -> Tensor:
    """Of rows [begin, end) of an operand of (rows, k): one for each element, or what broadcasts to that."""
    kind = granularity(scale.shape, rows, k)
    if kind == "tensor":
        return scale
    if kind == "128x128":
        of_blocks = scale[begin // FLOAT32_BLOCK : _ceil_div(end, FLOAT32_BLOCK)]
        of_rows = of_blocks.repeat_interleave(FLOAT32_BLOCK, 0)[: end - begin]
    else:
        of_rows = scale[begin:end]
    return of_rows if kind == "row" else of_rows.repeat_interleave(FLOAT32_BLOCK, 1)[:, :k]


def decoded(b: Tensor, scale: Tensor, begin: int, end: Size) -> Tensor:
    """Rows [begin, end) of `b`, each element times its scale, in float32. `begin` is a multiple of 128."""
    if scale.dtype in FLOAT32_SCALES:
        own = _rows_of_float32_scales(scale, b.shape[0], elements_in_a_row(b), begin, end)
        return b[begin:end].float() * own
    rows = slice(begin // BLOCK_ROWS, _ceil_div(end, BLOCK_ROWS)) if scale.dim() == 5 else slice(begin, end)
    format = "mxfp8" if b.dtype not in FP4 else "nvfp4" if scale.dtype in E4M3 else "mxfp4"
    return _dequantize(b[begin:end], scale[rows], format)


def _rows_at_a_time(k: int) -> int:
    """Whole blocks of 128 rows, since packed scales and those of 128 x 128 elements are cut between blocks alone."""
    return max(1, _SLICE_BYTES // (4 * BLOCK_ROWS * max(k, 1))) * BLOCK_ROWS


def _grad_by_decoding(grad: Tensor, b: Tensor, scale_b: Tensor, global_scale: Tensor | None = None) -> Tensor:
    """(grad * global_scale) @ decode(b), with one rounding to the dtype of `grad`, at the end.

    Args:
        grad: (m, n), float16 or bfloat16, any strides.
        b: (n, k) of any encoding that block_scaled_matmul takes as `b`; fp4 (n, k / 2).
        scale_b: its scales.
        global_scale: float32, one element or (m, 1): multiplies the sum.

    Returns:
        (m, k), fresh and contiguous, of the dtype of `grad`.

    Raises:
        RuntimeError: for what does not fit.
    """
    shape = check_backward(grad, b, scale_b, global_scale)
    rows, step = b.shape[0], _rows_at_a_time(int(elements_in_a_row(b)))
    if rows == 0:
        return grad.new_zeros(shape)
    sums = grad.new_empty(shape, dtype=torch.float32)
    product = sums if rows <= step else torch.empty_like(sums)
    for begin in range(0, rows, step):
        end = min(begin + step, rows)
        target = sums if begin == 0 else product
        _matmul_out(grad[:, begin:end].float(), decoded(b, scale_b, begin, end), out=target)
        if begin > 0:
            sums.add_(product)
    if global_scale is not None:
        sums.mul_(global_scale)
    return sums.to(grad.dtype)


def register() -> None:
    implementation: Callable[..., Tensor] = _grad_by_decoding
    for key in ("CPU", "CUDA"):
        _library.impl("_block_scaled_backward", implementation, key)
