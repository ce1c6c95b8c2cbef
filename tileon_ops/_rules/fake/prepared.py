"""Prepared weights without data: the rules of csrc/checks/prepared.h, in its order and its words."""

from __future__ import annotations

import torch
from torch import Tensor

from tileon_ops._rules.fake.block_scaled import E4M3, E8M0, FP4, FP8, check_block_scaled, either, elements_in_a_row
from tileon_ops._rules.fake.checks import Implementations, Size, check, check_same_device, dtype_name
from tileon_ops._rules.fake.scales import FORMATS, check_scale_dims, check_scale_shape

_PREPARE, _MULTIPLY = "_prepare_block_scaled", "_block_scaled_matmul_prepared"
_ALIGNMENT = 256
_BYTES = {"int8": 1, "bfloat16": 2}  # of a number, by the form


def _aligned(size: Size) -> Size:
    return (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def prepared_bytes(form: str, rows: Size, k: Size) -> Size:
    """How long a weight's buffer is: PreparedLayout's `bytes` (csrc/core/problem.h)."""
    width = _BYTES[form]
    return _aligned(rows * k * width) + _aligned(rows) + _ALIGNMENT * width


def _check_gpu(op: str, like: Tensor) -> None:
    check(like.device.type != "cpu", f"{op}: needs a GPU of compute capability 9.0, got operands on the CPU")


def _prepare_block_scaled(b: Tensor, scale_b: Tensor, *, form: str) -> Tensor:
    op, got, scale_got = _PREPARE, dtype_name(b.dtype), dtype_name(scale_b.dtype)
    check(b.dim() == 2, f"{op}: `b` must be 2-D (n, k), got {b.dim()}-D")
    check_scale_dims(op, "scale_b", scale_b)
    check_same_device(op, "scale_b", scale_b, b, "b")
    is_fp4, is_e8m0 = b.dtype in FP4, scale_b.dtype in E8M0
    check(is_fp4 or b.dtype in FP8, f"{op}: `b` must be {either(FP8)} or, for fp4, {either(FP4)}, got {got}")
    check(
        is_e8m0 or (is_fp4 and scale_b.dtype in E4M3),
        f"{op}: `scale_b` must be {either(E8M0)} or, of fp4, {either(E4M3)}, got {scale_got}",
    )
    n, k, vec = b.shape[0], elements_in_a_row(b), FORMATS["mxfp4" if is_e8m0 else "nvfp4"].vec
    check(
        k % vec == 0,
        f"{op}: `b` must have a multiple of {vec} elements in a row, of which {vec} share a scale, got k = {k}",
    )
    check_scale_shape(op, "scale_b", scale_b, n, k // vec)
    check(form in _BYTES, f'{op}: `form` must be int8 or bfloat16, got "{form}"')
    check(
        form != "int8" or (is_fp4 and is_e8m0),
        f"{op}: `form` int8 is offered for fp4 with {either(E8M0)} scales, got {got} with {scale_got}",
    )
    _check_gpu(op, b)
    return b.new_empty((prepared_bytes(form, n, k),), dtype=torch.uint8)


def _check_prepared(prepared: Tensor, a: Tensor, b: Tensor, scale_a: Tensor) -> None:
    """Of a product that check_block_scaled has passed. Where the buffer begins cannot be seen here."""
    op = _MULTIPLY
    check_same_device(op, "prepared_b", prepared, a)
    message = f"{op}: `prepared_b` must be what _prepare_block_scaled returns, contiguous uint8 in one dimension"
    check(prepared.dtype == torch.uint8 and prepared.dim() == 1, message)
    got = prepared.shape[0]
    check((got <= 1) | (prepared.stride(0) == 1), message)
    n, k = b.shape[0], elements_in_a_row(b)
    wide = prepared_bytes("bfloat16", n, k)
    if a.dtype in FP4 and b.dtype in FP4 and scale_a.dtype in E8M0:
        narrow = prepared_bytes("int8", n, k)
        is_either, offered = (got == narrow) | (got == wide), f"{narrow} or {wide}"
    else:
        is_either, offered = got == wide, f"{wide}"
    check(is_either, f"{op}: `prepared_b` must be {offered} bytes long, prepared from `b`, got {got}")


def _block_scaled_matmul_prepared(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    prepared_b: Tensor,
    bias: Tensor | None = None,
    global_scale: Tensor | None = None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    fast_accum: bool = False,
) -> Tensor:
    shape, dtype = check_block_scaled(a, b, scale_a, scale_b, bias, global_scale, activation, out_dtype)
    _check_prepared(prepared_b, a, b, scale_a)
    _check_gpu(_MULTIPLY, a)
    return a.new_empty(shape, dtype=dtype)


IMPLEMENTATIONS: Implementations = {
    _PREPARE: _prepare_block_scaled,
    _MULTIPLY: _block_scaled_matmul_prepared,
}
