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
    """`activation(global_scale * (a * scale_a) @ (b * scale_b)^T + bias)` of fp8, fp4 and int8 with scales.

    Both operands are rows of k elements. The dtypes say what they are:

        ==========  ==================================  ================  ============================
        operands    a x b                               scales            elements along k with one
        ==========  ==================================  ================  ============================
        mxfp8       e4m3 x e4m3                         e8m0              32
        mxfp4       fp4 x fp4                           e8m0              32
        mixed       e4m3 x fp4, or back                 e8m0              32
        nvfp4       fp4 x fp4                           e4m3, signed      16
        fp8         e4m3 or e5m2, in every pairing      float32           128, or all of a row or tensor
        int8        int8 x int8                         float32           all of a row or tensor
        b alone     float16 or bfloat16 x any of these  those of `b`      as above
        ==========  ==================================  ================  ============================

    e4m3 and e5m2 are torch.float8_e4m3fn and torch.float8_e5m2. fp4 is e2m1, two in a byte with the even k in the low
    half: torch.float4_e2m1fn_x2 or torch.uint8, (rows, k / 2). e8m0 is torch.float8_e8m0fnu or torch.uint8: the byte x
    stands for `2^(x - 127)`, 255 for NaN, which makes its whole block NaN.

    Args:
        a: (m, k), of fp4 (m, k / 2) bytes, any strides; under scales of a byte, k is a multiple of what shares one.
            Or a `tileon_ops.QuantizedTensor`, which brings its scale and its global scale.
        b: (n, k), of fp4 (n, k / 2) bytes, likewise: a row for every column of the result.
        scale_a: None where `a` is float16 or bfloat16, which is multiplied as it is. Any strides.
            Of a byte: (m, k / vec), vec elements sharing one, or packed, (ceil(m / 128), ceil(k / vec / 4), 32, 4, 4),
            whose element `[i, j, r, q, c]` is of row `128 i + 32 q + r` and column `4 j + c`; what stands in the
            padding does not matter.
            float32: (), (1,) or (1, 1) for the whole operand, (m, 1) for each row; of fp8 also (m, ceil(k / 128)) for
            1 x 128 elements and (ceil(m / 128), ceil(k / 128)) for 128 x 128, of which the last may be fewer.
        scale_b: the same for the n rows of `b`; its layout, or what shares a scale, need not be that of `scale_a`.
        bias: (n,), of the output's dtype or float32, added before the activation. float32 where the output is e4m3.
        global_scale: float32, one element, () or (1,), or one for each row of `a`, (m, 1); on the operands' device.
            Multiplies the sum, with any operands. For nvfp4 it is the product of both operands' own global scales.
        activation: {activations}.
        slope: of leaky_relu for negative arguments.
        out_dtype: float16, bfloat16, float32 or float8_e4m3fn; None is the dtype of an `a` without a scale, and else
            float16. What lies beyond float8_e4m3fn's largest value, 448, becomes that, infinity too; NaN stays.
        out: where to write the result: exactly its shape and dtype, any strides, not overlapping itself or an input.
        fast_accum: allows an error of 1.2 % of `sum |a||b|`, scales included, where that is faster on a GPU: on Hopper
            for mxfp4 whose scales int8 does not hold. Only one block far above those around it costs so much;
            typically it is less than `2^-12` (docs/fp8_error.md). fp8 under float32 scales that are constant along k
            may leave its sums in the tensor core, as `matmul` does. Operands with e8m0 scales may be folded: each row
            becomes e4m3 codes under one power of two, so elements of more than 13 binades below their row's largest are
            rounded to `2^-16` of it or finer (docs/operands.md), and on a GPU their sums err as those of a precise
            `matmul` of fp8. Mxfp8 and mixed are folded by the CPU from 65 rows of `a` on, and all three by Hopper where
            that is faster.

    Returns:
        A fresh contiguous (m, n), or `out`. Each element is multiplied by its scale in float32, which under scales of a
        byte is exact within float32's range; float32 scales may multiply sums instead. Products are summed in float32;
        global scale, bias and activation are float32 too, and the result is rounded once, to nearest even. k = 0 gives
        `activation(bias)`. Under autocast an `a` without a scale takes autocast's dtype, and a bias of 16 bits the
        output's; nothing else changes.

    The error of a sum, before the result is rounded, is below `(4 + 2 sqrt(k)) 2^-23` times `sum |a||b|`, scales
    included, and for a 16-bit `a` as `matmul` has it for such operands. fp8 under float32 scales may err on Hopper as
    `matmul` does for fp8, typically by `2^-15` of it (`2^-12` where k is below 1024); its sums are scaled, and go on in
    float32, every 128 k.

    Differentiable in `a` and `bias`, as often as wanted, where `a` has no scale: `b`, `scale_b` and `global_scale` are
    constants. The gradient of `a` decodes `b` as the product does, a slice at a time, sums in float32 and rounds once
    to the dtype of `a`. Where both operands have scales nothing is differentiable.

    Raises:
        RuntimeError: "block_scaled_matmul: ...", for what is no tensor, for shapes, dtypes, devices or names that do
            not fit, and for an argument without a gradient that requires grad while gradients are recorded. Nothing is
            written then.

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
