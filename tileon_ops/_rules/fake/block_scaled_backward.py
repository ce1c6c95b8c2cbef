"""_block_scaled_backward without data: what block_scaled_matmul asks of `b`, its scale and a global scale."""

from __future__ import annotations

from torch import Tensor

from tileon_ops._rules.fake.block_scaled import NUMBERS, check_block_scaled, either, elements_in_a_row
from tileon_ops._rules.fake.checks import Implementations, Size, check, dtype_name
from tileon_ops._rules.required import check_tensors

_OP = "_block_scaled_backward"


def check_backward(grad: Tensor, b: Tensor, scale_b: Tensor, global_scale: Tensor | None) -> tuple[Size, Size]:
    """The result's shape, that of `a`; RuntimeError where an argument breaks a rule."""
    check_tensors(_OP, {"grad": grad, "b": b, "scale_b": scale_b})
    check(grad.dim() == 2, f"{_OP}: `grad` must be 2-D (m, n), got {grad.dim()}-D")
    check(b.dim() == 2, f"{_OP}: `b` must be 2-D (n, k), got {b.dim()}-D")
    check(
        grad.dtype in NUMBERS,
        f"{_OP}: `grad` must be {either(NUMBERS)}, got {dtype_name(grad.dtype)}",
    )
    check(
        grad.shape[1] == b.shape[0],
        f"{_OP}: `grad` must have as many columns as `b` has rows, n = {b.shape[0]}, got {grad.shape[1]}",
    )
    shape = grad.shape[0], elements_in_a_row(b)
    like_a = grad.new_empty(()).expand(shape)
    check_block_scaled(like_a, b, None, scale_b, None, global_scale, "none", None)
    return shape


def _block_scaled_backward(grad: Tensor, b: Tensor, scale_b: Tensor, global_scale: Tensor | None = None) -> Tensor:
    return grad.new_empty(check_backward(grad, b, scale_b, global_scale))


IMPLEMENTATIONS: Implementations = {_OP: _block_scaled_backward}
