"""The soak test's bad calls: a good call with one thing wrong, which the op must refuse by name, writing nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from soak.case import Argument, Call, Case
from soak.draw import Draw
from soak.float32_scaled import FLOAT32_FORMATS
from soak.operand import MARGIN, Layout, Operand, contiguous, filled, storage_of

_PRODUCTS = ("matmul", "block_scaled_matmul")
_NOT_OFFERED = {  # beside an operand of the first dtype
    torch.float16: torch.bfloat16,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float64,
    torch.float64: torch.float32,
}


@dataclass(frozen=True)
class Flaw:
    """`spoil` gives the call with this wrong, or None where the call cannot have it."""

    words: str
    ops: tuple[str, ...]
    spoil: Callable[[Draw, Call], Call | None]


def spoiled(draw: Draw, case: Case) -> Case | None:
    """The call through the op, with one flaw of those that it can have."""
    call = replace(case.call, through="op", upstream=None)
    for flaw in draw.shuffled([flaw for flaw in FLAWS if call.op in flaw.ops]):
        changed = flaw.spoil(draw, call)
        if changed is not None:
            return Case(changed, "refused", lambda device: {}, flaw.words)
    return None


def _zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Operand:
    def values(count: int) -> Tensor:
        return torch.zeros(count * dtype.itemsize, dtype=torch.uint8).view(dtype)

    return filled(contiguous(shape), dtype, values, "zeros")


def _operand(call: Call, name: str) -> Operand:
    operand = call.arguments[name]
    assert isinstance(operand, Operand)
    return operand


def _with(call: Call, **arguments: Argument) -> Call:
    return replace(call, arguments={**call.arguments, **arguments})


def _resized(call: Call, name: str, *, last: int = 0, before_last: int = 0) -> Call:
    """Zeros of the argument's dtype and shape, but for so many more along its last two dimensions."""
    operand = _operand(call, name)
    *batch, rows, columns = operand.layout.shape
    return _with(call, **{name: _zeros(*batch, rows + before_last, columns + last, dtype=operand.dtype)})


def _of_shape(name: str, *shape: int) -> Callable[[Draw, Call], Call]:
    return lambda draw, call: _with(call, **{name: _zeros(*shape, dtype=_operand(call, name).dtype)})


def _of_dtype(name: str, *dtypes: torch.dtype) -> Callable[[Draw, Call], Call]:
    return lambda draw, call: _with(call, **{name: _zeros(*_operand(call, name).layout.shape, dtype=draw.pick(dtypes))})


def _of_value(name: str, *values: Argument) -> Callable[[Draw, Call], Call]:
    return lambda draw, call: _with(call, **{name: draw.pick(values)})


def _of_option(name: str, *values: object) -> Callable[[Draw, Call], Call]:
    return lambda draw, call: replace(call, options={**call.options, name: draw.pick(values)})


def _columns(call: Call) -> int:
    """n of a product."""
    shape = _operand(call, "b").layout.shape
    return shape[-1] if call.op == "matmul" else shape[0]


# matmul alone.


def _pair_not_offered(draw: Draw, call: Call) -> Call:
    dtype = _NOT_OFFERED.get(_operand(call, "a").dtype, torch.float16)
    return _with(call, b=_zeros(*_operand(call, "b").layout.shape, dtype=dtype))


def _integers(draw: Draw, call: Call) -> Call:
    dtype = draw.pick((torch.int64, torch.int32, torch.uint8, torch.bool))
    return _with(call, **{name: _zeros(*_operand(call, name).layout.shape, dtype=dtype) for name in ("a", "b")})


def _batches_differ(draw: Draw, call: Call) -> Call:
    a, b = (_operand(call, name) for name in ("a", "b"))
    a_new = _zeros(2, *a.layout.shape[-2:], dtype=a.dtype)
    return _with(call, a=a_new, b=_zeros(3, *b.layout.shape[-2:], dtype=b.dtype))


def _out_dtype_not_offered(draw: Draw, call: Call) -> Call:
    dtypes = (torch.int32, torch.complex64, torch.float64 if _operand(call, "a").dtype != torch.float64 else torch.half)
    return replace(call, options={**call.options, "out_dtype": draw.pick(dtypes)})


# Of `out`.


def _out_of_another_shape(draw: Draw, call: Call) -> Call | None:
    if call.out is None:
        return None
    *rows, columns = call.out.layout.shape
    shape = draw.pick(((*rows, columns + 1), (1, *rows, columns), (0,)))
    return replace(call, out=_zeros(*shape, dtype=call.out.dtype))


def _out_of_another_dtype(draw: Draw, call: Call) -> Call | None:
    if call.out is None:
        return None
    dtype = torch.float64 if call.out.dtype != torch.float64 else torch.float32
    return replace(call, out=_zeros(*call.out.layout.shape, dtype=dtype))


def _out_overlaps_itself(draw: Draw, call: Call) -> Call | None:
    if call.out is None:
        return None
    shape = call.out.layout.shape
    layout = Layout(shape, tuple(draw.pick((0, 0, 1)) for _ in shape))
    if not layout.overlaps_itself():
        return None
    storage = storage_of(layout, call.out.dtype)
    return replace(call, out=Operand(storage, call.out.dtype, layout, "overlaps itself"))


def _out_overlaps_an_argument(draw: Draw, call: Call) -> Call | None:
    """The result begins at the first byte of an argument, or in the element that holds it."""
    if call.out is None:
        return None
    name, argument = draw.pick([(name, operand) for name, operand in call.operands() if name != "out"])
    itemsize, first = call.out.dtype.itemsize, argument.layout.offset * argument.dtype.itemsize
    layout = contiguous(call.out.layout.shape, first // itemsize)
    room = argument.storage.numel() - MARGIN
    if 0 in (layout.span, argument.layout.span) or (layout.offset + layout.span) * itemsize > room:
        return None
    return replace(call, out=Operand(argument.storage, call.out.dtype, layout, f"overlaps {name}"))


def _gradient_asked(draw: Draw, call: Call) -> Call | None:
    """Of a product of fp8 or scaled operands, of quantized ones, or with `out`."""
    flows = call.op == "matmul" and call.out is None and _operand(call, "a").dtype.itemsize > 1
    others = ("out", "bias", "a") if _is_weight_only(call) and call.out is None else ("out", "bias")
    names = [name for name, operand in call.operands() if operand.dtype.is_floating_point and name not in others]
    if flows or not names:
        return None
    name = draw.pick(names)
    return replace(_with(call, **{name: replace(_operand(call, name), requires_grad=True)}), mode="grad")


# Of operands with scales.


def _is_weight_only(call: Call) -> bool:
    return call.op == "block_scaled_matmul" and call.arguments["scale_a"] is None


def _has_float32_scales(call: Call) -> bool:
    return _operand(call, "scale_b").dtype == torch.float32


def _k_not_whole(draw: Draw, call: Call) -> Call | None:
    """Four bytes more in each row: no whole block in any format that has some."""
    return None if _has_float32_scales(call) else _resized(_resized(call, "a", last=4), "b", last=4)


def _a_of_float16(draw: Draw, call: Call) -> Call | None:
    return None if _is_weight_only(call) else _of_dtype("a", torch.float16)(draw, call)


def _scale_b_of_numbers(draw: Draw, call: Call) -> Call:
    """Of another dtype than any scale has, or of float32 beside an operand that has scales of a byte."""
    may_be_float32 = not _is_weight_only(call) and not _has_float32_scales(call)
    return _of_dtype("scale_b", torch.float32 if may_be_float32 else torch.float64, torch.float16)(draw, call)


def _scale_of_another_shape(name: str, data: str) -> Callable[[Draw, Call], Call | None]:
    def spoil(draw: Draw, call: Call) -> Call | None:
        if call.arguments[name] is None:
            return None
        rows, columns = _operand(call, data).layout.shape
        if _operand(call, name).dtype == torch.float32 or call.arguments.get("format") in FLOAT32_FORMATS:
            return _with(call, **{name: _zeros(*draw.pick(((rows + 2, columns + 2), (rows, columns, 1))))})
        shape = draw.pick(((rows + 1, columns // 32), (rows, columns + 1), (rows, columns, 1), (512,)))
        return _with(call, **{name: _zeros(*shape, dtype=_operand(call, name).dtype)})

    return spoil


def _rceil_not_known(draw: Draw, call: Call) -> Call | None:
    knows = call.arguments["format"] in ("mxfp8", "mxfp4")
    return None if knows else _of_option("scale_rounding", "rceil")(draw, call)


def _part_of_a_block(name: str, more: int) -> Callable[[Draw, Call], Call | None]:
    """More bytes in each row: no whole block, where blocks must be whole."""

    def spoil(draw: Draw, call: Call) -> Call | None:
        return None if call.arguments["format"] in FLOAT32_FORMATS else _resized(call, name, last=more)

    return spoil


def _scale_of_numbers(draw: Draw, call: Call) -> Call | None:
    """Of 16 bits or more, where they are not of float32."""
    of_float32 = call.arguments["format"] in FLOAT32_FORMATS
    return _of_dtype("scale", torch.float64 if of_float32 else torch.float32, torch.bfloat16)(draw, call)


def _global_scale_of_mx(draw: Draw, call: Call) -> Call | None:
    return _with(call, global_scale=_zeros(1)) if call.arguments["format"] != "nvfp4" else None


def _bad_global_scale(draw: Draw, call: Call) -> Call | None:
    if call.arguments.get("format", "nvfp4") != "nvfp4":
        return None
    return _with(call, global_scale=draw.pick((_zeros(1, 2), _zeros(0), _zeros(1, dtype=torch.float64))))


def _none(draw: Draw, call: Call) -> Call:
    """For one of the tensors that the schema requires, or for the only one."""
    names = [name for name, argument in call.arguments.items() if isinstance(argument, Operand)]
    return _with(call, **{draw.pick([name for name in names if name not in ("bias", "global_scale")]): None})


_ALL = (*_PRODUCTS, "quantize", "dequantize", "pack_scales", "unpack_scales")

FLAWS = (
    Flaw("a required tensor is None", _ALL, _none),
    Flaw("`b` has a row too many", ("matmul",), lambda draw, call: _resized(call, "b", before_last=1)),
    Flaw("`a` has four dimensions", ("matmul",), _of_shape("a", 1, 1, 2, 3)),
    Flaw("`b` has one dimension", _PRODUCTS, _of_shape("b", 8)),
    Flaw("the pair of dtypes is not offered", ("matmul",), _pair_not_offered),
    Flaw("the operands are integers", ("matmul",), _integers),
    Flaw("the batches differ", ("matmul",), _batches_differ),
    Flaw("`out_dtype` is not offered", ("matmul",), _out_dtype_not_offered),
    Flaw("`out_dtype` is not offered", ("block_scaled_matmul", "dequantize"), _of_option("out_dtype", torch.float64)),
    Flaw("`bias` is too long", _PRODUCTS, lambda draw, call: _with(call, bias=_zeros(_columns(call) + 1))),
    Flaw("`bias` has two dimensions", _PRODUCTS, lambda draw, call: _with(call, bias=_zeros(1, _columns(call)))),
    Flaw(
        "`bias` is integers",
        _PRODUCTS,
        lambda draw, call: _with(call, bias=_zeros(_columns(call), dtype=torch.int64)),
    ),
    Flaw("the activation is unknown", _PRODUCTS, _of_option("activation", "swish", "ReLU", "")),
    Flaw("`out` has another shape", _PRODUCTS, _out_of_another_shape),
    Flaw("`out` has another dtype", _PRODUCTS, _out_of_another_dtype),
    Flaw("`out` overlaps itself", _PRODUCTS, _out_overlaps_itself),
    Flaw("`out` overlaps an argument", _PRODUCTS, _out_overlaps_an_argument),
    Flaw("an argument requires grad", _ALL, _gradient_asked),
    Flaw("rows of `b` are too long", ("block_scaled_matmul",), lambda draw, call: _resized(call, "b", last=32)),
    Flaw("k is no whole number of blocks", ("block_scaled_matmul",), _k_not_whole),
    Flaw("`a` is float16", ("block_scaled_matmul",), _a_of_float16),
    Flaw("scales are numbers", ("block_scaled_matmul",), _scale_b_of_numbers),
    Flaw(
        "`scale_a` has another shape",
        ("block_scaled_matmul",),
        _scale_of_another_shape("scale_a", "a"),
    ),
    Flaw("`global_scale` is not one float32", ("block_scaled_matmul", "quantize", "dequantize"), _bad_global_scale),
    Flaw("`global_scale` is given to another format than nvfp4", ("quantize", "dequantize"), _global_scale_of_mx),
    Flaw("`format` is unknown", ("quantize", "dequantize"), _of_value("format", "mxfp6", "MXFP8", "")),
    Flaw("`x` has three dimensions", ("quantize",), _of_shape("x", 2, 3, 32)),
    Flaw("`x` is not of numbers that are offered", ("quantize",), _of_dtype("x", torch.float64, torch.int32)),
    Flaw("k is no whole number of blocks", ("quantize",), _part_of_a_block("x", 8)),
    Flaw("`scale_rounding` is unknown", ("quantize",), _of_option("scale_rounding", "up", "FLOOR")),
    Flaw("the format knows no rceil", ("quantize",), _rceil_not_known),
    Flaw("`data` has one dimension", ("dequantize",), _of_shape("data", 64)),
    Flaw("k is no whole number of blocks", ("dequantize",), _part_of_a_block("data", 4)),
    Flaw("scales have another dtype", ("dequantize",), _scale_of_numbers),
    Flaw("`scale` has another shape", ("dequantize",), _scale_of_another_shape("scale", "data")),
    Flaw("`scale` has three dimensions", ("pack_scales",), _of_shape("scale", 2, 3, 4)),
    Flaw("scales are numbers", ("pack_scales",), _of_dtype("scale", torch.float32, torch.int32)),
    Flaw("`packed` has two dimensions", ("unpack_scales",), _of_shape("packed", 128, 4)),
    Flaw("`packed` is no blocks of 32 by 4 by 4", ("unpack_scales",), _of_shape("packed", 1, 1, 4, 32, 4)),
    Flaw("more rows than the blocks hold", ("unpack_scales",), _of_value("rows", 2**20, -1)),
    Flaw("more columns than the blocks hold", ("unpack_scales",), _of_value("cols", 2**20, -1)),
)
