"""tileon::block_scaled_matmul without data: the rules of csrc/block_scaled_checks.h, in its order and its words."""

from __future__ import annotations

import torch
from torch import Tensor

from tileon_ops._fake_rules import (
    Implementations,
    Size,
    check,
    check_activation,
    check_bias,
    check_config,
    check_global_scale,
    check_out,
    check_same_device,
    dtype_name,
    dtype_names,
)

_OP = "block_scaled_matmul"

FP8 = (torch.float8_e4m3fn,)
FP4 = (torch.float4_e2m1fn_x2, torch.uint8)  # two in a byte
E8M0 = (torch.float8_e8m0fnu, torch.uint8)
E4M3 = (torch.float8_e4m3fn,)

# The first is the default.
OUTPUTS = (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn)


def _check_elements(a: Tensor, b: Tensor) -> None:
    check(
        a.dtype in FP8 + FP4 and b.dtype in FP8 + FP4,
        f"{_OP}: operands `a` x `b` of dtypes {dtype_name(a.dtype)} x {dtype_name(b.dtype)} are not offered; offered "
        f"are {dtype_names(FP8)} and, as fp4, {dtype_names(FP4, ' and ')}, in every pairing",
    )


def _elements_in_a_row(operand: Tensor) -> Size:
    return operand.shape[1] * 2 if operand.dtype in FP4 else operand.shape[1]


def _check_scale_types(scale_a: Tensor, scale_b: Tensor, both_fp4: bool) -> tuple[torch.dtype, ...]:
    """The dtypes that the scales may have here: those of e8m0, or of e4m3."""
    e8m0, e4m3, got = dtype_names(E8M0, " or "), dtype_names(E4M3), dtype_name(scale_a.dtype)
    check(
        both_fp4 or scale_a.dtype in E8M0,
        f"{_OP}: `scale_a` must be {e8m0} where an operand is {dtype_names(FP8)}, got {got}",
    )
    check(
        scale_a.dtype in E8M0 + E4M3,
        f"{_OP}: `scale_a` must be {e8m0} (mxfp4), or {e4m3} (nvfp4), got {got}",
    )
    offered = E8M0 if scale_a.dtype in E8M0 else E4M3
    check(
        scale_b.dtype in offered,
        f"{_OP}: `scale_b` must be {dtype_names(offered, ' or ')} where `scale_a` is {got}, "
        f"got {dtype_name(scale_b.dtype)}",
    )
    return offered


def _check_scale_shape(name: str, scale: Tensor, rows: Size, cols: Size) -> None:
    flat: tuple[Size, ...] = (rows, cols)
    packed: tuple[Size, ...] = ((rows + 127) // 128, (cols + 3) // 4, 32, 4, 4)
    message = f"{_OP}: `{name}` must have the shape {flat} or, packed, {packed}, got {tuple(scale.shape)}"
    check(scale.dim() in (2, 5), message)
    for size, wanted in zip(scale.shape, flat if scale.dim() == 2 else packed, strict=True):
        check(size == wanted, message)


def _check_block_scaled(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None,
    global_scale: Tensor | None,
    activation: str,
    out_dtype: torch.dtype | None,
) -> tuple[tuple[Size, ...], torch.dtype]:
    """The result's shape and dtype; RuntimeError as the op itself raises it."""
    check(a.dim() == 2, f"{_OP}: `a` must be 2-D (m, k), got {a.dim()}-D")
    check(b.dim() == 2, f"{_OP}: `b` must be 2-D (n, k), got {b.dim()}-D")
    for name, tensor in (("b", b), ("scale_a", scale_a), ("scale_b", scale_b)):
        check_same_device(_OP, name, tensor, a)
    _check_elements(a, b)
    m, n = a.shape[0], b.shape[0]
    k, b_k = _elements_in_a_row(a), _elements_in_a_row(b)
    check(b_k == k, f"{_OP}: `b` must have as many elements in a row as `a`, k = {k}, got {b_k}")
    vec = 32 if _check_scale_types(scale_a, scale_b, a.dtype in FP4 and b.dtype in FP4) is E8M0 else 16
    check(
        k % vec == 0,
        f"{_OP}: `a` and `b` must have a multiple of {vec} elements in a row, of which {vec} share a scale, "
        f"got k = {k}",
    )
    _check_scale_shape("scale_a", scale_a, m, k // vec)
    _check_scale_shape("scale_b", scale_b, n, k // vec)
    if global_scale is not None:
        check_global_scale(_OP, global_scale, "a", a)
    dtype = OUTPUTS[0] if out_dtype is None else out_dtype
    check(
        dtype in OUTPUTS,
        f"{_OP}: `out_dtype` {dtype_name(dtype)} is not offered; offered are {dtype_names(OUTPUTS)}",
    )
    check_activation(_OP, activation)
    if bias is not None:
        check_bias(_OP, bias, a, n, dtype)
    return (m, n), dtype


def _block_scaled_matmul(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    global_scale: Tensor | None = None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    fast_accum: bool = False,
) -> Tensor:
    shape, dtype = _check_block_scaled(a, b, scale_a, scale_b, bias, global_scale, activation, out_dtype)
    return a.new_empty(shape, dtype=dtype)


def _block_scaled_matmul_out(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    global_scale: Tensor | None = None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    fast_accum: bool = False,
    out: Tensor,
) -> None:
    shape, dtype = _check_block_scaled(a, b, scale_a, scale_b, bias, global_scale, activation, out_dtype)
    check_out(_OP, out, a, dtype, shape)


def _block_scaled_matmul_with_config(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    global_scale: Tensor | None = None,
    *,
    config: int,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    shape, dtype = _check_block_scaled(a, b, scale_a, scale_b, bias, global_scale, activation, out_dtype)
    check_config(_OP, config, a)
    return a.new_empty(shape, dtype=dtype)


IMPLEMENTATIONS: Implementations = {
    "block_scaled_matmul": _block_scaled_matmul,
    "block_scaled_matmul.out": _block_scaled_matmul_out,
    "_block_scaled_matmul_with_config": _block_scaled_matmul_with_config,
}
