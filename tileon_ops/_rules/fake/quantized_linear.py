"""_quantized_linear without data: the rules of csrc/entry/quantized_linear.h, in its order.

They are those of quantize and of block_scaled_matmul, in their words.
"""

from __future__ import annotations

from torch import Tensor

from tileon_ops._rules.fake.block_scaled import check_block_scaled
from tileon_ops._rules.fake.checks import Implementations
from tileon_ops._rules.fake.quantize import check_nvfp4_rows, check_quantize, codes, has_numbers, scales_of_rows


def _quantized_linear(
    x: Tensor,
    b: Tensor,
    scale_b: Tensor,
    format: str,
    bias: Tensor | None = None,
    global_scale: Tensor | None = None,
    *,
    scale_rounding: str = "floor",
    activation: str = "none",
    slope: float = 0.01,
    fast_accum: bool = False,
) -> Tensor:
    known = check_quantize(x, format, None, scale_rounding)
    if has_numbers(known, x.dtype):  # what may be multiplied in the place of codes
        check_block_scaled(x, b, None, scale_b, bias, global_scale, activation, x.dtype)
    if format == "nvfp4":
        check_nvfp4_rows(x, global_scale)
        global_scale = scales_of_rows(x)
    data, scale = codes(x, known)
    shape, dtype = check_block_scaled(data, b, scale, scale_b, bias, global_scale, activation, x.dtype)
    return x.new_empty(shape, dtype=dtype)


IMPLEMENTATIONS: Implementations = {"_quantized_linear": _quantized_linear}
