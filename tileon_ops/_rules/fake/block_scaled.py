"""tileon::block_scaled_matmul without data: the rules of csrc/checks/scaled_products.h, in its order and its words."""

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
from tileon_ops._rules.fake.scales import (
    FLOAT32_SCALES,
    FORMATS,
    check_float32_scale,
    check_global_scale,
    check_scale_dims,
    check_scale_shape,
)
from tileon_ops._rules.required import check_tensors

_OP = "block_scaled_matmul"

FP8, FP4 = FORMATS["mxfp8"].elements, FORMATS["mxfp4"].elements
E8M0, E4M3 = FORMATS["mxfp8"].scales, FORMATS["nvfp4"].scales
_E5M2, _INT8 = (torch.float8_e5m2,), (torch.int8,)

# Of an operand that is multiplied as it is, without a scale.
NUMBERS = (torch.float16, torch.bfloat16)

# By the dtypes of scales: those of the codes that they go with.
_CODES_OF = {E8M0: FP8 + FP4, E4M3: FP4, FLOAT32_SCALES: FP8 + _E5M2 + _INT8}

_OUTPUTS = (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn)


def either(dtypes: tuple[torch.dtype, ...]) -> str:
    return dtype_names(dtypes, " or ")


def _scales_for(a: torch.dtype, b: torch.dtype) -> list[tuple[torch.dtype, ...]]:
    """The dtypes of the scales that operands of these dtypes may have; none where the operands are not offered."""
    is_weight_only = a in NUMBERS
    if b in NUMBERS or (not is_weight_only and (a in _INT8) != (b in _INT8)):
        return []
    return [scales for scales, codes in _CODES_OF.items() if b in codes and (is_weight_only or a in codes)]


def _check_elements(a: Tensor, b: Tensor) -> None:
    check(
        bool(_scales_for(a.dtype, b.dtype)),
        f"{_OP}: operands `a` x `b` of dtypes {dtype_name(a.dtype)} x {dtype_name(b.dtype)} are not offered; offered "
        f"are float8_e4m3fn and fp4 ({either(FP4)}) in every pairing, float8_e4m3fn and float8_e5m2 in every pairing, "
        "int8 x int8, and float16 or bfloat16 x any of these",
    )


def elements_in_a_row(operand: Tensor) -> Size:
    return operand.shape[1] * 2 if operand.dtype in FP4 else operand.shape[1]


def _check_scale_types(a: Tensor, b: Tensor, scale_a: Tensor | None, scale_b: Tensor) -> tuple[torch.dtype, ...]:
    """The dtypes that both scales have one of."""
    name, first = ("scale_b", scale_b) if scale_a is None else ("scale_a", scale_a)
    got, offered = dtype_name(first.dtype), _scales_for(a.dtype, b.dtype)
    kinds = [scales for scales in offered if first.dtype in scales]
    check(
        bool(kinds),
        f"{_OP}: `{name}` must be {', or '.join(map(either, offered))} for operands `a` x `b` of dtypes "
        f"{dtype_name(a.dtype)} x {dtype_name(b.dtype)}, got {got}",
    )
    check(
        scale_b.dtype in kinds[0],
        f"{_OP}: `scale_b` must be {either(kinds[0])} where `{name}` is {got}, got {dtype_name(scale_b.dtype)}",
    )
    return kinds[0]


def vec_of(scale: Tensor) -> int:
    """How many elements share one of these scales, which have a byte each."""
    return FORMATS["nvfp4" if scale.dtype in E4M3 else "mxfp4"].vec


def _check_scale(name: str, scale: Tensor, element: torch.dtype, rows: Size, k: Size) -> None:
    if scale.dtype in FLOAT32_SCALES:
        check_float32_scale(_OP, name, scale, element, rows, k)
    else:
        check_scale_dims(_OP, name, scale)
        check_scale_shape(_OP, name, scale, rows, k // vec_of(scale))


def default_out_dtype(a: torch.dtype) -> torch.dtype:
    return a if a in NUMBERS else torch.float16


def _check_out_dtype(a: torch.dtype, out_dtype: torch.dtype | None) -> torch.dtype:
    default = default_out_dtype(a)
    dtype = default if out_dtype is None else out_dtype
    offered = sorted(_OUTPUTS, key=lambda each: each != default)
    check(
        dtype in offered,
        f"{_OP}: `out_dtype` {dtype_name(dtype)} is not offered; offered are {dtype_names(offered)}",
    )
    check_dtype_argument(_OP, out_dtype)
    return dtype


def check_block_scaled(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor | None,
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
        if tensor is not None:
            check_same_device(_OP, name, tensor, a)
    _check_elements(a, b)
    check(
        scale_a is None or a.dtype not in NUMBERS,
        f"{_OP}: `scale_a` must be None where `a` is {dtype_name(a.dtype)}, which is multiplied as it is",
    )
    check(
        scale_a is not None or a.dtype in NUMBERS,
        f"{_OP}: `scale_a` must be a tensor where `a` is {dtype_name(a.dtype)}, got None",
    )
    m, n = a.shape[0], b.shape[0]
    k, b_k = elements_in_a_row(a), elements_in_a_row(b)
    check(b_k == k, f"{_OP}: `b` must have as many elements in a row as `a`, k = {k}, got {b_k}")
    if _check_scale_types(a, b, scale_a, scale_b) != FLOAT32_SCALES:
        vec = vec_of(scale_b)
        check(
            k % vec == 0,
            f"{_OP}: `a` and `b` must have a multiple of {vec} elements in a row, of which {vec} share a scale, "
            f"got k = {k}",
        )
    if scale_a is not None:
        _check_scale("scale_a", scale_a, a.dtype, m, k)
    _check_scale("scale_b", scale_b, b.dtype, n, k)
    if global_scale is not None:
        check_global_scale(_OP, global_scale, a, "a", m)
    dtype = _check_out_dtype(a.dtype, out_dtype)
    check_activation(_OP, activation)
    if bias is not None:
        check_bias(_OP, bias, a, n, dtype)
    return (m, n), dtype


def _block_scaled_matmul(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor | None,
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
    scale_a: Tensor | None,
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
    scale_a: Tensor | None,
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
