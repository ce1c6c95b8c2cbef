"""tileon::block_scaled_matmul without data: the rules of csrc/checks/products.h, in its order and its words."""

from __future__ import annotations

import torch
from torch import Tensor

from tileon_ops._rules.fake.checks import (
    Implementations,
    Size,
    check,
    check_activation,
    check_bias,
    check_config,
    check_dtype_argument,
    check_out,
    check_same_device,
    dtype_name,
    dtype_names,
)
from tileon_ops._rules.fake.scales import FORMATS, check_global_scale, check_scale_dims, check_scale_shape
from tileon_ops._rules.required import check_tensors

_OP = "block_scaled_matmul"

FP8, FP4 = FORMATS["mxfp8"].elements, FORMATS["mxfp4"].elements
E8M0, E4M3 = FORMATS["mxfp8"].scales, FORMATS["nvfp4"].scales

# The first is the default.
_OUTPUTS = (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn)


def either(dtypes: tuple[torch.dtype, ...]) -> str:
    return dtype_names(dtypes, " or ")


def _check_elements(a: Tensor, b: Tensor) -> None:
    check(
        a.dtype in FP8 + FP4 and b.dtype in FP8 + FP4,
        f"{_OP}: operands `a` x `b` of dtypes {dtype_name(a.dtype)} x {dtype_name(b.dtype)} are not offered; offered "
        f"are, in every pairing, {either(FP8)} and, for fp4, {either(FP4)}",
    )


def elements_in_a_row(operand: Tensor) -> Size:
    return operand.shape[1] * 2 if operand.dtype in FP4 else operand.shape[1]


def _check_scale_types(scale_a: Tensor, scale_b: Tensor, both_fp4: bool) -> int:
    """How many elements share a scale."""
    got = dtype_name(scale_a.dtype)
    check(
        both_fp4 or scale_a.dtype in E8M0,
        f"{_OP}: `scale_a` must be {either(E8M0)} where an operand is {either(FP8)}, got {got}",
    )
    check(
        scale_a.dtype in E8M0 + E4M3,
        f"{_OP}: `scale_a` must be {either(E8M0)} (mxfp4), or {either(E4M3)} (nvfp4), got {got}",
    )
    offered = E8M0 if scale_a.dtype in E8M0 else E4M3
    check(
        scale_b.dtype in offered,
        f"{_OP}: `scale_b` must be {either(offered)} where `scale_a` is {got}, got {dtype_name(scale_b.dtype)}",
    )
    return FORMATS["nvfp4" if offered is E4M3 else "mxfp4"].vec


def check_block_scaled(
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
    check_scale_dims(_OP, "scale_a", scale_a)
    check_scale_dims(_OP, "scale_b", scale_b)
    for name, tensor in (("b", b), ("scale_a", scale_a), ("scale_b", scale_b)):
        check_same_device(_OP, name, tensor, a)
    _check_elements(a, b)
    m, n = a.shape[0], b.shape[0]
    k, b_k = elements_in_a_row(a), elements_in_a_row(b)
    check(b_k == k, f"{_OP}: `b` must have as many elements in a row as `a`, k = {k}, got {b_k}")
    vec = _check_scale_types(scale_a, scale_b, a.dtype in FP4 and b.dtype in FP4)
    check(
        k % vec == 0,
        f"{_OP}: `a` and `b` must have a multiple of {vec} elements in a row, of which {vec} share a scale, "
        f"got k = {k}",
    )
    check_scale_shape(_OP, "scale_a", scale_a, m, k // vec)
    check_scale_shape(_OP, "scale_b", scale_b, n, k // vec)
    if global_scale is not None:
        check_global_scale(_OP, global_scale, a, "a")
    dtype = _OUTPUTS[0] if out_dtype is None else out_dtype
    check(
        dtype in _OUTPUTS,
        f"{_OP}: `out_dtype` {dtype_name(dtype)} is not offered; offered are {dtype_names(_OUTPUTS)}",
    )
    check_dtype_argument(_OP, out_dtype)
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
    shape, dtype = check_block_scaled(a, b, scale_a, scale_b, bias, global_scale, activation, out_dtype)
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
    shape, dtype = check_block_scaled(a, b, scale_a, scale_b, bias, global_scale, activation, out_dtype)
    check_tensors(_OP, {"out": out})
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
    shape, dtype = check_block_scaled(a, b, scale_a, scale_b, bias, global_scale, activation, out_dtype)
    check_config(_OP, config, a)
    return a.new_empty(shape, dtype=dtype)


IMPLEMENTATIONS: Implementations = {
    "block_scaled_matmul": _block_scaled_matmul,
    "block_scaled_matmul.out": _block_scaled_matmul_out,
    "_block_scaled_matmul_with_config": _block_scaled_matmul_with_config,
}
