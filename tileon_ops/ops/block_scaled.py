"""`tileon_ops.block_scaled_matmul`: the op `torch.ops.tileon.block_scaled_matmul` with types and its description."""

from __future__ import annotations

import torch
from torch import Tensor

from tileon_ops._rules.activations import listing_activations
from tileon_ops._rules.errors import raise_typed
from tileon_ops._rules.required import check_tensors
from tileon_ops.ops.quantized_tensor import QuantizedTensor

# Registered when tileon_ops is imported. The overloads by name: a packet has to search for the right one at every call.
_op = torch.ops.tileon.block_scaled_matmul.default
_out_op = torch.ops.tileon.block_scaled_matmul.out


def _parts(
    name: str, operand: Tensor | QuantizedTensor, scale: Tensor | None, global_scale: Tensor | None
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """What the op takes in the place of an operand, and the global scale with that of the operand in it."""
    if not isinstance(operand, QuantizedTensor):
        return operand, scale, global_scale
    if scale is not None:
        raise RuntimeError(
            f"block_scaled_matmul: `scale_{name}` must be None where `{name}` is a QuantizedTensor, which has its own"
        )
    own = operand.global_scale
    if name == "b" and own is not None and own.numel() != 1:
        raise RuntimeError(
            f"block_scaled_matmul: the global scale of `b` must be one element, got the shape {tuple(own.shape)}"
        )
    if own is not None:
        own = own if name == "a" else own.reshape(())
        global_scale = own if global_scale is None else own * global_scale
    return operand.data, operand.scale, global_scale


@listing_activations
def block_scaled_matmul(
    a: Tensor | QuantizedTensor,
    b: Tensor | QuantizedTensor,
    scale_a: Tensor | None = None,
    scale_b: Tensor | None = None,
    bias: Tensor | None = None,
    global_scale: Tensor | None = None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
    fast_accum: bool = False,
) -> Tensor:
    """`activation(global_scale * (a * scale_a) @ (b * scale_b)^T + bias)` of fp8 and fp4, with a scale per block.

    Both operands are rows of k elements. Each run of `vec` elements along k shares one scale; k is a multiple of vec.
    The dtypes say which format it is:

        ======  ===================  ==============================  ===
        format  a x b                scales                          vec
        ======  ===================  ==============================  ===
        mxfp8   e4m3 x e4m3          e8m0                            32
        mxfp4   fp4 x fp4            e8m0                            32
        mixed   e4m3 x fp4, or back  e8m0                            32
        nvfp4   fp4 x fp4            e4m3, signed as the dtype is    16
        ======  ===================  ==============================  ===

    e4m3 is torch.float8_e4m3fn. fp4 is e2m1, two in a byte with the even k in the low half: torch.float4_e2m1fn_x2 or
    torch.uint8, (rows, k / 2). e8m0 is torch.float8_e8m0fnu or torch.uint8: the byte x stands for `2^(x - 127)`, 255
    for NaN, which makes its whole block NaN.

    Args:
        a: (m, k) of e4m3, or (m, k / 2) bytes of fp4, any strides; or a `tileon_ops.QuantizedTensor`, which brings its
            scale and its global scale.
        b: (n, k) of e4m3, or (n, k / 2) bytes of fp4, likewise: a row for every column of the result.
        scale_a: (m, k / vec), or packed: (ceil(m / 128), ceil(k / vec / 4), 32, 4, 4), whose element `[i, j, r, q, c]`
            is of row `128 i + 32 q + r` and column `4 j + c`; what stands in the padding does not matter. Any strides.
        scale_b: the same for the n rows of `b`; its layout need not be that of `scale_a`.
        bias: (n,), of the output's dtype or float32, added before the activation. float32 where the output is e4m3.
        global_scale: float32, one element, () or (1,), on the operands' device: multiplies the sum, in any format. For
            nvfp4 it is the product of the two operands' own global scales.
        activation: {activations}.
        slope: of leaky_relu for negative arguments.
        out_dtype: float16 (None), bfloat16, float32 or float8_e4m3fn. What lies beyond float8_e4m3fn's largest value,
            448, becomes that, infinity too; NaN stays.
        out: where to write the result: exactly its shape and dtype, any strides, not overlapping itself or an input.
        fast_accum: allows an error of 1.2 % of `sum |a||b|`, scales included, where that is faster on a GPU: on Hopper
            for mxfp4 whose scales int8 does not hold. Only one block far above those around it costs so much;
            typically it is less than `2^-12` (docs/fp8_error.md).

    Returns:
        A fresh contiguous (m, n), or `out`. Each element is multiplied by its scale in float32, which is exact within
        float32's range; products are summed in float32; global scale, bias and activation are float32 too, and the
        result is rounded once, to nearest even. k = 0 gives `activation(bias)`. Autocast changes nothing.

    Raises:
        RuntimeError: "block_scaled_matmul: ...", for what is no tensor, for shapes, dtypes, devices or names that do
            not fit, and for an argument that requires grad while gradients are recorded. Nothing is written then.

    The formats are those of the OCP Microscaling Formats 1.0 and of NVIDIA's nvfp4.
    """
    a, scale_a, global_scale = _parts("a", a, scale_a, global_scale)
    b, scale_b, global_scale = _parts("b", b, scale_b, global_scale)
    options = {"activation": activation, "slope": slope, "out_dtype": out_dtype, "fast_accum": fast_accum}
    try:
        if out is None:
            return _op(a, b, scale_a, scale_b, bias, global_scale, **options)
        _out_op(a, b, scale_a, scale_b, bias, global_scale, out=out, **options)
        return out
    except RuntimeError as error:
        check_tensors(
            "block_scaled_matmul",
            {"a": a, "b": b, "scale_b": scale_b},
            {"scale_a": scale_a, "bias": bias, "global_scale": global_scale, "out": out},
        )
        raise_typed(error)
        raise
