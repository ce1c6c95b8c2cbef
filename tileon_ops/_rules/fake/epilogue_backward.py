"""_epilogue_backward without data: the rules of csrc/checks/epilogue_backward.h, in its order and its words."""

from __future__ import annotations

import torch
from torch import Tensor

from tileon_ops._rules.fake.checks import Implementations, check, check_activation, check_same_device, dtype_name

_OP = "_epilogue_backward"
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _check_dtype(name: str, dtype: torch.dtype) -> None:
    check(
        dtype in _DTYPES,
        f"{_OP}: `{name}` must be float16, bfloat16, float32 or float64, got {dtype_name(dtype)}",
    )


def _epilogue_backward(
    grad: Tensor,
    saved: Tensor | None,
    *,
    activation: str,
    slope: float,
    out_dtype: torch.dtype,
    bias_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    check(grad.dim() in (2, 3), f"{_OP}: `grad` must be 2-D (m, n) or 3-D (batch, m, n), got {grad.dim()}-D")
    of_bias = out_dtype if bias_dtype is None else bias_dtype
    _check_dtype("grad", grad.dtype)
    _check_dtype("out_dtype", out_dtype)
    _check_dtype("bias_dtype", of_bias)
    wide = [dtype == torch.float64 for dtype in (grad.dtype, out_dtype, of_bias)]
    check(
        wide[0] == wide[1] and not (wide[2] and not wide[0]),
        f"{_OP}: `grad` and `out_dtype` must be float64 both or neither, and `bias_dtype` only with them, got "
        f"{dtype_name(grad.dtype)}, {dtype_name(out_dtype)} and {dtype_name(of_bias)}",
    )
    check_activation(_OP, activation)
    check(
        (activation != "none") == (saved is not None),
        f"{_OP}: `saved` must be there where there is an activation, and only there",
    )
    if saved is not None:
        check_same_device(_OP, "saved", saved, grad, "grad")
        check(
            saved.dtype == grad.dtype,
            f"{_OP}: `saved` must have the dtype of `grad`, {dtype_name(grad.dtype)}, got {dtype_name(saved.dtype)}",
        )
        message = f"{_OP}: `saved` must have the shape of `grad`, {tuple(grad.shape)}, got {tuple(saved.shape)}"
        check(saved.dim() == grad.dim(), message)
        for size, wanted in zip(saved.shape, grad.shape, strict=True):
            check(size == wanted, message)
    columns = 0 if bias_dtype is None else grad.shape[-1]
    return grad.new_empty(grad.shape, dtype=out_dtype), grad.new_empty((columns,), dtype=of_bias)


IMPLEMENTATIONS: Implementations = {"_epilogue_backward": _epilogue_backward}
