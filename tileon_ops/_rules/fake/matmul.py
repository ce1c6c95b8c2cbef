"""tileon::matmul without data: the rules of csrc/checks/products.h, in its order and its words."""

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
    same,
)
from tileon_ops._rules.required import check_tensors

# What a product may be written as, by the dtype of `a`; the first is the default.
OUTPUTS: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.float16: (torch.float16, torch.float32, torch.bfloat16),
    torch.bfloat16: (torch.bfloat16, torch.float32, torch.float16),
    torch.float32: (torch.float32, torch.float16, torch.bfloat16),
    torch.float64: (torch.float64,),
    torch.float8_e4m3fn: (torch.float16, torch.bfloat16, torch.float32),
    torch.float8_e5m2: (torch.float16, torch.bfloat16, torch.float32),
}

# The pairs of operands that are offered: of one dtype, or fp8 in any pairing.
OPERANDS = [(a, b) for a in OUTPUTS for b in OUTPUTS if a == b or a.itemsize == b.itemsize == 1]


def batch(a: Tensor, b: Tensor) -> Size:
    a_batch: Size = a.shape[0] if a.dim() == 3 else 1
    b_batch: Size = b.shape[0] if b.dim() == 3 else 1
    if same(a_batch, 1):
        return b_batch
    if not same(b_batch, 1):
        check(
            a_batch == b_batch,
            f"matmul: the batches of `a` and `b` must be equal, or one of them 1, got {a_batch} and {b_batch}",
        )
    return a_batch


def check_matmul(
    a: Tensor, b: Tensor, bias: Tensor | None, activation: str, out_dtype: torch.dtype | None
) -> tuple[tuple[Size, ...], torch.dtype]:
    """The result's shape and dtype; RuntimeError as the op itself raises it."""
    check(a.dim() in (2, 3), f"matmul: `a` must be 2-D (m, k) or 3-D (batch, m, k), got {a.dim()}-D")
    check(b.dim() in (2, 3), f"matmul: `b` must be 2-D (k, n) or 3-D (batch, k, n), got {b.dim()}-D")
    check_same_device("matmul", "b", b, a)
    check(
        (a.dtype, b.dtype) in OPERANDS,
        f"matmul: operands `a` x `b` of dtypes {dtype_name(a.dtype)} x {dtype_name(b.dtype)} are not offered; "
        "offered are " + ", ".join(dtype_names(pair, " x ") for pair in OPERANDS),
    )
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    check(b.shape[-2] == k, f"matmul: `b` must have as many rows as `a` has columns, k = {k}, got {b.shape[-2]}")
    shape: tuple[Size, ...] = (m, n) if a.dim() == 2 and b.dim() == 2 else (batch(a, b), m, n)
    offered = OUTPUTS[a.dtype]
    dtype = offered[0] if out_dtype is None else out_dtype
    check(
        dtype in offered,
        f"matmul: `out_dtype` {dtype_name(dtype)} is not offered for operands of {dtype_name(a.dtype)}; "
        f"offered are {dtype_names(offered)}",
    )
    check_dtype_argument("matmul", out_dtype)
    check_activation("matmul", activation)
    if bias is not None:
        check_bias("matmul", bias, a, n, dtype)
    return shape, dtype


def _matmul(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    allow_tf32: bool = False,
    fast_accum: bool = False,
) -> Tensor:
    shape, dtype = check_matmul(a, b, bias, activation, out_dtype)
    return a.new_empty(shape, dtype=dtype)


def _matmul_out(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    allow_tf32: bool = False,
    fast_accum: bool = False,
    out: Tensor,
) -> None:
    shape, dtype = check_matmul(a, b, bias, activation, out_dtype)
    check_tensors("matmul", {"out": out})
    check_out("matmul", out, a, dtype, shape)


def _matmul_with_preactivation(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    allow_tf32: bool = False,
) -> tuple[Tensor, Tensor]:
    shape, dtype = check_matmul(a, b, bias, activation, out_dtype)
    check(a.dtype.itemsize > 1, "matmul: the argument of the activation is not kept for fp8 operands")
    return a.new_empty(shape, dtype=dtype), a.new_empty(shape, dtype=dtype)


def _matmul_with_config(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    *,
    config: int,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    allow_tf32: bool = False,
) -> Tensor:
    shape, dtype = check_matmul(a, b, bias, activation, out_dtype)
    check_config("matmul", config, a)
    return a.new_empty(shape, dtype=dtype)


IMPLEMENTATIONS: Implementations = {
    "matmul": _matmul,
    "matmul.out": _matmul_out,
    "_matmul_with_preactivation": _matmul_with_preactivation,
    "_matmul_with_config": _matmul_with_config,
}
