"""Scaled numbers of 8 and 4 bits: to and from them, and the two layouts of the scales of one byte.

Each block of elements has one scale. Of the first three formats blocks are runs along k, and k is a multiple of theirs;
of the others a block may be short at the ends of rows and columns.

| format | elements | scales | elements a scale |
|---|---|---|---|
| mxfp8 | e4m3 | e8m0 | 32 of a row |
| mxfp4 | e2m1 | e8m0 | 32 of a row |
| nvfp4 | e2m1 | e4m3, and a float32 for the whole tensor or for each row | 16 of a row |
| fp8_tensor, int8_tensor | e4m3, int8 | float32 | all |
| fp8_row, int8_row | e4m3, int8 | float32 | a row |
| fp8_1x128 | e4m3 | float32 | 128 of a row |
| fp8_128x128 | e4m3 | float32 | 128 of 128 rows |

mxfp8 and mxfp4 are those of OCP Microscaling Formats (MX) 1.0; e4m3 is float8_e4m3fn, of OCP 8-bit Floating Point
(OFP8) 1.0. nvfp4 is NVIDIA's.

e2m1 is 0, 0.5, 1, 1.5, 2, 3, 4, 6 for the codes 0 to 7, bit 3 is the sign; two are in a byte, that of the even k in its
low half. e8m0 is 2^(byte - 127), 255 is NaN.

Packed scales (ceil(rows / 128), ceil(columns / 4), 32, 4, 4) hold row i 128 + q 32 + r and column j 4 + c at
[i, j, r, q, c]: torch's SwizzleType.SWIZZLE_32_4_4, the blocked layout of cuBLASLt's scales.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tileon_ops._rules.errors import raise_typed
from tileon_ops._rules.required import check_tensors

# Registered when tileon_ops is imported. The overloads by name: a packet has to search for the right one at every call.
_quantize_op = torch.ops.tileon.quantize.default
_dequantize_op = torch.ops.tileon.dequantize.default
_pack_op = torch.ops.tileon.pack_scales.default
_unpack_op = torch.ops.tileon.unpack_scales.default

_LARGEST_E4M3, _LARGEST_E2M1 = 448.0, 6.0


def quantize(
    x: Tensor, format: str, global_scale: Tensor | None = None, *, scale_rounding: str = "floor"
) -> tuple[Tensor, Tensor]:
    """`x` in a format with scales, on the device of `x`.

    Args:
        x: (rows, k), float32, float16 or bfloat16, any strides; for mxfp8 and mxfp4 k is a multiple of 32, for nvfp4 of
            16.
        format: "mxfp8", "mxfp4", "nvfp4", "fp8_tensor", "fp8_row", "fp8_1x128", "fp8_128x128", "int8_row" or
            "int8_tensor".
        global_scale: float32, 0-D or (1,), or (rows, 1) with one for each row, for nvfp4 alone: what its scales are
            relative to, 1 unless given. `nvfp4_global_scale(x)` makes one.
        scale_rounding: of the mx formats, where amax is a block's largest magnitude. "floor":
            `2^(floor(log2(amax)) - floor(log2(max)))`, max being the largest element, 448 or 6; elements beyond it
            saturate (OCP MX 1.0, 6.3). "rceil": `amax / max`, rounded up to a power of two; nothing saturates (NVIDIA's
            recipe for MXFP8). The other formats take the default alone.

    Returns:
        (data, scale), fresh and contiguous. `data` is (rows, k) of float8_e4m3fn or int8, or (rows, k / 2) of uint8
        with two e2m1 codes in a byte. `scale` of the first three formats is packed, (ceil(rows / 128),
        ceil(k / 32 / 4), 32, 4, 4) of float8_e8m0fnu, or of float8_e4m3fn for nvfp4 (k / 16); its padding is 0. Of the
        others it is float32: (1, 1) for a tensor, (rows, 1), (rows, ceil(k / 128)), or (ceil(rows / 128),
        ceil(k / 128)).

    All arithmetic is float32. Elements are rounded to the nearest code, ties to even, and saturate; the sign of zero
    stays. In the mx formats elements are `x * 2^(127 - byte)`, byte being the scale's, and scales stay within `2^-127`
    and `2^127`. In nvfp4 the scale is `e4m3(clamp(amax / 6 / global_scale, 2^-6, 448))`, and elements are
    `x * ((1 / global_scale) / scale)`. A float32 scale is `amax / 448`, of int8 `amax / 127`, but at least `2^-126`, so
    that its inverse is finite, and at most the largest float32 of which 127 are finite; elements are
    `x * (1 / scale)`, two operations each rounded, of which none saturates. A block that holds NaN or infinity gets a
    NaN scale and codes of 0; one of zeros, or of nothing, the scale 1 where that is float32, else the smallest,
    `2^-127`, or `2^-6` for nvfp4. A CPU and a GPU give the same bits.

    Raises:
        RuntimeError: "quantize: ...", for dims, dtypes, sizes, devices or names that do not fit, and for arguments that
            require grad while gradients are recorded.
    """
    try:
        return _quantize_op(x, format, global_scale, scale_rounding=scale_rounding)
    except RuntimeError as error:
        check_tensors("quantize", {"x": x}, {"global_scale": global_scale})
        raise_typed(error)
        raise


def dequantize(
    data: Tensor,
    scale: Tensor,
    format: str,
    global_scale: Tensor | None = None,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """The numbers that `data` and `scale` stand for.

    Args:
        data: (rows, k) of float8_e4m3fn for mxfp8 and the fp8 formats, of int8 for the int8 formats; (rows, k / 2) of
            uint8 or float4_e2m1fn_x2 for mxfp4 and nvfp4. Any strides; k as for `quantize`.
        scale: (rows, k / 32) or packed (ceil(rows / 128), ceil(k / 32 / 4), 32, 4, 4), any strides; float8_e8m0fnu or
            uint8 for the mx formats. nvfp4: float8_e4m3fn and 16. What is in a packed tensor's padding does not matter.
            For the other formats float32 of the shape that `quantize` gives, any strides; for a tensor also 0-D and
            (1,).
        format: one of `quantize`'s.
        global_scale: float32, 0-D or (1,), or (rows, 1) with one for each row, for nvfp4 alone: multiplies everything.
        out_dtype: float32 (unless told), float16 or bfloat16.

    Returns:
        (rows, k), fresh and contiguous, element times scale in float32, times `global_scale` in float32, rounded once
        to `out_dtype`. A NaN scale makes its whole block NaN, zeros too.

    Raises:
        RuntimeError: "dequantize: ...", for dims, dtypes, sizes, devices or names that do not fit, and for arguments
            that require grad while gradients are recorded.
    """
    try:
        return _dequantize_op(data, scale, format, global_scale, out_dtype=out_dtype)
    except RuntimeError as error:
        check_tensors("dequantize", {"data": data, "scale": scale}, {"global_scale": global_scale})
        raise_typed(error)
        raise


def pack_scales(scale: Tensor) -> Tensor:
    """2-D scales in the packed layout.

    Args:
        scale: (rows, columns), float8_e8m0fnu, float8_e4m3fn or uint8, any strides.

    Returns:
        (ceil(rows / 128), ceil(columns / 4), 32, 4, 4), of the dtype of `scale`, fresh and contiguous; padding is 0.

    Raises:
        RuntimeError: "pack_scales: ...", for another number of dimensions or another dtype, and where `scale` requires
            grad while gradients are recorded.
    """
    try:
        return _pack_op(scale)
    except RuntimeError as error:
        check_tensors("pack_scales", {"scale": scale})
        raise_typed(error)
        raise


def unpack_scales(packed: Tensor, rows: int, cols: int) -> Tensor:
    """Packed scales as (rows, cols): what `pack_scales` does, undone.

    Args:
        packed: (R, C, 32, 4, 4), float8_e8m0fnu, float8_e4m3fn or uint8, any strides.
        rows: of the result, at most `128 R`; the rest of `packed` is left out.
        cols: of the result, at most `4 C`; the rest is left out.

    Returns:
        (rows, cols), of the dtype of `packed`, fresh and contiguous.

    Raises:
        RuntimeError: "unpack_scales: ...", for shapes or dtypes that do not fit, for more rows or columns than the
            blocks hold, and where `packed` requires grad while gradients are recorded.
    """
    try:
        return _unpack_op(packed, rows, cols)
    except RuntimeError as error:
        check_tensors("unpack_scales", {"packed": packed})
        raise_typed(error)
        raise


def nvfp4_global_scale(x: Tensor, *, per_row: bool = False) -> Tensor:
    """The `global_scale` with which nvfp4 reaches the largest magnitude of `x`, without waiting for the device.

    Args:
        x: float32, float16 or bfloat16, of any shape; with `per_row` (rows, k).
        per_row: one for each row.

    Returns:
        0-D float32 on the device of `x`, the largest magnitude of the finite values of `x` divided by `448 * 6`, the
        largest scale times the largest element; 1 where that is 0. With `per_row` (rows, 1), that of each row. No
        gradient flows through it.

    Raises:
        RuntimeError: "nvfp4_global_scale: ...", for another dtype, and with `per_row` for another number of dimensions.
    """
    check_tensors("nvfp4_global_scale", {"x": x})
    if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise RuntimeError(
            f"nvfp4_global_scale: `x` must be float32, float16 or bfloat16, got {str(x.dtype).removeprefix('torch.')}"
        )
    if per_row and x.dim() != 2:
        raise RuntimeError(f"nvfp4_global_scale: `x` must be 2-D (rows, k) for one scale a row, got {x.dim()}-D")
    shape = (x.shape[0], 1) if per_row else ()
    if x.numel() == 0:
        return torch.ones(shape, dtype=torch.float32, device=x.device)
    finite = x.detach().nan_to_num(0.0, 0.0, 0.0)  # the only one of three passes that writes
    over = (1,) if per_row else tuple(range(x.dim()))
    amax = torch.maximum(finite.amax(over, keepdim=per_row), -finite.amin(over, keepdim=per_row)).float()
    # by a tensor: torch multiplies one on a GPU by the inverse of a number, which rounds twice
    scale = amax / torch.full_like(amax, _LARGEST_E4M3 * _LARGEST_E2M1)
    return torch.where(scale == 0, 1.0, scale)
