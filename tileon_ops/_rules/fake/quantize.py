"""quantize, its companions for layers, dequantize, pack_scales and unpack_scales without data.

The rules are those of csrc/checks/quantize.h, in its order and its words.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tileon_ops._rules.fake.checks import (
    Implementations,
    Size,
    check,
    check_dtype_argument,
    check_same_device,
    dtype_name,
    dtype_names,
)
from tileon_ops._rules.fake.scales import (
    BLOCK,
    BLOCK_COLS,
    BLOCK_ROWS,
    BYTE,
    E4M3,
    E8M0,
    FORMATS,
    Format,
    check_global_scale,
    check_scale_dims,
    check_scale_shape,
    packed_scale_shape,
)

_NUMBERS = (torch.float32, torch.float16, torch.bfloat16)
_SCALE_ROUNDINGS = ("floor", "rceil")


def _check_number_dtype(op: str, name: str, dtype: torch.dtype) -> None:
    check(dtype in _NUMBERS, f"{op}: `{name}` must be float32, float16 or bfloat16, got {dtype_name(dtype)}")


def _check_format(op: str, name: str) -> Format:
    check(name in FORMATS, f'{op}: `format` must be one of {", ".join(FORMATS)}, got "{name}"')
    return FORMATS[name]


def _check_k(op: str, name: str, k: Size, format: Format) -> None:
    vec = format.vec
    check(
        not format.has_packed_scales or k % vec == 0,
        f"{op}: `{name}` must have a multiple of {vec} elements a row, as {format.name} has a scale for each {vec}, "
        f"got k = {k}",
    )


def _check_own_global_scale(op: str, global_scale: Tensor | None, like: Tensor, like_name: str, format: Format) -> None:
    if global_scale is not None:
        check(format.name == "nvfp4", f"{op}: `global_scale` is for nvfp4 alone, got one for {format.name}")
        check_global_scale(op, global_scale, like, like_name, like.shape[0])


def _check_float32_scale_shape(scale: Tensor, format: Format, rows: Size, k: Size) -> None:
    wanted = format.scale_shape(rows, k)
    if format.rows == 0:
        message = (
            f"dequantize: `scale` must be one element, 0-D, (1,) or (1, 1), for {format.name}, "
            f"got the shape {tuple(scale.shape)}"
        )
        check(scale.dim() <= 2, message)
    else:
        message = f"dequantize: `scale` must have the shape {wanted} for {format.name}, got {tuple(scale.shape)}"
        check(scale.dim() == 2, message)
    for size, expected in zip(scale.shape, wanted, strict=False):
        check(size == expected, message)


def _packed_shape(rows: Size, columns: Size) -> tuple[Size, ...]:
    """Of fresh packed scales. An exported program is for all numbers of rows that its user wants, but torch asks
    whether a dimension is 1, and takes what ceil(rows / 128) is in the example for a rule. So that dimension has a
    symbol of its own there, of which nothing is known but what the ops that take the scales demand: they check it."""
    blocks, *rest = packed_scale_shape(rows, columns)
    if isinstance(blocks, torch.SymInt) and torch.compiler.is_exporting() and not _is_known(blocks == 1):
        blocks = torch.library.get_ctx().new_dynamic_size(min=1)
    return blocks, *rest


def _is_known(condition: bool | torch.SymBool) -> bool:
    """Whether symbols leave it no choice."""
    from torch.fx.experimental.symbolic_shapes import statically_known_false, statically_known_true

    return statically_known_true(condition) or statically_known_false(condition)


def check_quantize(x: Tensor, format: str, global_scale: Tensor | None, scale_rounding: str) -> Format:
    """RuntimeError as the op itself raises it."""
    check(x.dim() == 2, f"quantize: `x` must be 2-D (rows, k), got {x.dim()}-D")
    _check_number_dtype("quantize", "x", x.dtype)
    known = _check_format("quantize", format)
    _check_k("quantize", "x", x.shape[1], known)
    _check_own_global_scale("quantize", global_scale, x, "x", known)
    check(
        scale_rounding in _SCALE_ROUNDINGS,
        f'quantize: `scale_rounding` must be one of {", ".join(_SCALE_ROUNDINGS)}, got "{scale_rounding}"',
    )
    check(
        E8M0 in known.scales or scale_rounding == "floor",
        f'quantize: `scale_rounding` must be floor for {format}, got "{scale_rounding}"',
    )
    return known


def check_nvfp4_rows(x: Tensor, global_scale: Tensor | None) -> Format:
    """The same of rows that have a global scale each."""
    known = check_quantize(x, "nvfp4", None, "floor")
    if global_scale is not None:
        check_global_scale("quantize", global_scale, x, "x", x.shape[0])
    return known


def codes(
    x: Tensor, format: Format, packed_shape: Callable[[Size, Size], tuple[Size, ...]] = packed_scale_shape
) -> tuple[Tensor, Tensor]:
    """Fresh data and scales for x."""
    rows, k = x.shape
    shape = packed_shape(rows, k // format.vec) if format.has_packed_scales else format.scale_shape(rows, k)
    data = x.new_empty((rows, k // format.per_byte), dtype=format.elements[0])
    return data, x.new_empty(shape, dtype=format.scales[0])


def scales_of_rows(x: Tensor) -> Tensor:
    """Fresh global scales, one for each row."""
    return x.new_empty((x.shape[0], 1), dtype=torch.float32)


def _quantize(
    x: Tensor, format: str, global_scale: Tensor | None = None, *, scale_rounding: str = "floor"
) -> tuple[Tensor, Tensor]:
    return codes(x, check_quantize(x, format, global_scale, scale_rounding), _packed_shape)


def _quantize_nvfp4_rows(x: Tensor, global_scale: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    data, scale = codes(x, check_nvfp4_rows(x, global_scale), _packed_shape)
    return data, scale, scales_of_rows(x)


def has_numbers(format: Format, dtype: torch.dtype) -> bool:
    """Whether numbers of the dtype of x hold what the format makes of them."""
    return dtype != torch.float32 and format.has_packed_scales


def _round_to_format(
    x: Tensor, format: str, global_scale: Tensor | None = None, *, scale_rounding: str = "floor"
) -> tuple[Tensor, Tensor]:
    is_nvfp4 = format == "nvfp4"
    if is_nvfp4:
        check_nvfp4_rows(x, global_scale)
    known = check_quantize(x, format, None if is_nvfp4 else global_scale, scale_rounding)
    check(has_numbers(known, x.dtype), f"_round_to_format: no numbers of {dtype_name(x.dtype)} hold {format}")
    return x.new_empty(x.shape), scales_of_rows(x) if is_nvfp4 else x.new_empty((0, 1), dtype=torch.float32)


def _dequantize(
    data: Tensor,
    scale: Tensor,
    format: str,
    global_scale: Tensor | None = None,
    *,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    check(
        data.dim() == 2,
        f"dequantize: `data` must be 2-D, (rows, k) or two elements in a byte (rows, k / 2), got {data.dim()}-D",
    )
    known = _check_format("dequantize", format)
    if known.has_packed_scales:
        check_scale_dims("dequantize", "scale", scale)
    for name, tensor, offered in (("data", data, known.elements), ("scale", scale, known.scales)):
        check(
            tensor.dtype in offered,
            f"dequantize: `{name}` must be {dtype_names(offered, ' or ')} for {format}, got {dtype_name(tensor.dtype)}",
        )
    rows, k = data.shape[0], data.shape[1] * known.per_byte
    _check_k("dequantize", "data", k, known)
    check_same_device("dequantize", "scale", scale, data, "data")
    if known.has_packed_scales:
        check_scale_shape("dequantize", "scale", scale, rows, k // known.vec)
    else:
        _check_float32_scale_shape(scale, known, rows, k)
    _check_own_global_scale("dequantize", global_scale, data, "data", known)
    dtype = torch.float32 if out_dtype is None else out_dtype
    _check_number_dtype("dequantize", "out_dtype", dtype)
    check_dtype_argument("dequantize", out_dtype)
    return data.new_empty((rows, k), dtype=dtype)


def _check_packable(op: str, name: str, dtype: torch.dtype) -> None:
    check(
        dtype in (E8M0, E4M3, BYTE),
        f"{op}: `{name}` must be float8_e8m0fnu, float8_e4m3fn or uint8, got {dtype_name(dtype)}",
    )


def _pack_scales(scale: Tensor) -> Tensor:
    check(scale.dim() == 2, f"pack_scales: `scale` must be 2-D (rows, columns), got {scale.dim()}-D")
    _check_packable("pack_scales", "scale", scale.dtype)
    return scale.new_empty(packed_scale_shape(*scale.shape))


def _unpack_scales(packed: Tensor, rows: Size, cols: Size) -> Tensor:
    check(
        packed.dim() == 5,
        f"unpack_scales: `packed` must be 5-D (row blocks, column blocks, 32, 4, 4), got {packed.dim()}-D",
    )
    _check_packable("unpack_scales", "packed", packed.dtype)
    for size, block_size in zip(packed.shape[2:], BLOCK, strict=True):
        check(
            size == block_size,
            "unpack_scales: `packed` must have the shape (row blocks, column blocks, 32, 4, 4), "
            f"got {tuple(packed.shape)}",
        )
    for name, wanted, held in (
        ("rows", rows, packed.shape[0] * BLOCK_ROWS),
        ("cols", cols, packed.shape[1] * BLOCK_COLS),
    ):
        check(wanted >= 0, f"unpack_scales: `{name}` must not be negative, got {wanted}")
        check(
            wanted <= held,
            f"unpack_scales: `{name}` must be at most {held}, what the blocks of `packed` hold, got {wanted}",
        )
    return packed.new_empty((rows, cols))


IMPLEMENTATIONS: Implementations = {
    "quantize": _quantize,
    "_quantize_nvfp4_rows": _quantize_nvfp4_rows,
    "_round_to_format": _round_to_format,
    "dequantize": _dequantize,
    "pack_scales": _pack_scales,
    "unpack_scales": _unpack_scales,
}
