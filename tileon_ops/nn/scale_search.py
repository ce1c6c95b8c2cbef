"""A weight in a block format, with each block's scale found by a search for the least squared error.

A block of elements x with the scale s is stored as the codes q(x / s): rounded to the nearest code, ties to even, and
saturating, as `tileon_ops.quantize` does. The search takes for s the candidate that makes

    error(s) = sum over the block of (s q(x / s) - x)^2

least, in float32; of equal ones the first. (nvfp4 has a global scale besides, which multiplies s.)

Formats with e8m0 scales have two candidates: r, which "rceil" takes, the least power of two under which nothing
saturates; and r / 2. "floor" takes one of these two: r, or r / 2 where the largest element then saturates. So no block
errs more than by either rule. A larger power of two cannot be better: up to the largest element under r, every number
under 2 r is one under r as well.

nvfp4 has nine: the scale of `quantize`, under which the largest element of a block becomes 6, and those whose codes are
up to two below it and up to six above it. There it becomes 4, as numbers between 4 and 6 are far apart. Scales stay
within 2^-6 and 448, as `quantize` has them.

A block that holds NaN or infinity keeps what `quantize` makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tileon_ops._rules.fake.scales import BLOCK_ROWS, E4M3, E8M0, FORMATS, Format, packed_scale_shape
from tileon_ops.ops.quantization import dequantize, pack_scales, quantize, unpack_scales

_ELEMENTS_AT_ONCE = 2**19  # so that what a candidate takes beside the weight stays at some megabytes
_LARGEST_E4M3, _LARGEST_E2M1 = 448.0, 6.0


@dataclass(frozen=True)
class _Candidates:
    """The scales that are tried, as steps from the byte that `quantize` gives, within `least` and `largest`."""

    steps: tuple[int, ...]
    least: int
    largest: int


_CANDIDATES = {
    E8M0: _Candidates((-1,), 0x00, 0xFE),  # a step is a factor of 2; 0xFF is NaN
    E4M3: _Candidates((-2, -1, 1, 2, 3, 4, 5, 6), 0x08, 0x7E),  # of 1.07 to 1.13; from 2^-6 to 448
}


def quantize_weight(weight: Tensor, format: str, global_scale: Tensor | None) -> tuple[Tensor, Tensor]:
    """`weight`, (rows, k), as `tileon_ops.quantize` gives it, but with searched scales where they have a byte.

    float32 scales are those of `quantize`: of fp8 and int8 a search gains some tenths of a dB at most.
    """
    form = FORMATS[format]
    if not form.has_packed_scales or weight.numel() == 0:
        return quantize(weight, format, global_scale)
    rows, k = weight.shape
    packed = packed_scale_shape(rows, k // form.vec)
    data = torch.empty(rows, k // form.per_byte, dtype=form.elements[0], device=weight.device)
    scale = torch.empty(tuple(map(int, packed)), dtype=form.scales[0], device=weight.device)
    rows_at_once = max(_ELEMENTS_AT_ONCE // k // BLOCK_ROWS, 1) * BLOCK_ROWS
    for start in range(0, rows, rows_at_once):
        part = slice(start, start + rows_at_once)
        blocks = slice(start // BLOCK_ROWS, (start + rows_at_once) // BLOCK_ROWS)
        data[part], scale[blocks] = _searched(weight[part].float().contiguous(), form, global_scale)
    return data, scale


def _searched(x: Tensor, form: Format, global_scale: Tensor | None) -> tuple[Tensor, Tensor]:
    candidates = _CANDIDATES[form.scales[0]]
    rounding = "rceil" if form.scales[0] == E8M0 else "floor"
    data, packed = quantize(x, form.name, global_scale, scale_rounding=rounding)
    first = unpack_scales(packed, x.shape[0], x.shape[1] // form.vec).view(torch.uint8)
    scale, error = first, _error(x, data, first, form, global_scale)
    for step in candidates.steps:
        # as int16, in which a byte and a step have room; NaN's byte may become a number, whose error is not less
        tried = (first.to(torch.int16) + step).clamp(candidates.least, candidates.largest).to(torch.uint8)
        codes = quantize_with_scale(x, tried, form, global_scale)
        its_error = _error(x, codes, tried, form, global_scale)
        is_better = its_error < error
        chosen = torch.where(is_better.unsqueeze(-1), _by_block(codes, tried), _by_block(data, tried))
        data = chosen.view(data.shape).view(data.dtype)
        scale, error = torch.where(is_better, tried, scale), torch.where(is_better, its_error, error)
    return data, pack_scales(scale.view(form.scales[0]))


def quantize_with_scale(x: Tensor, scale: Tensor, form: Format, global_scale: Tensor | None) -> Tensor:
    """The codes of `x` under given scales, the bytes (rows, k / vec): nearest, ties to even, saturating.

    Elements are x * ((1 / global_scale) / scale), as `quantize` has them.
    """
    own = scale.view(form.scales[0]).float()
    inverse = own.reciprocal() if global_scale is None else global_scale.reciprocal() / own
    elements = (x.view(*scale.shape, form.vec) * inverse.unsqueeze(-1)).view(x.shape)
    return _nearest_e4m3(elements) if form.per_byte == 1 else _nearest_e2m1(elements)


def _nearest_e4m3(x: Tensor) -> Tensor:
    return x.clamp(-_LARGEST_E4M3, _LARGEST_E4M3).to(E4M3)


def _nearest_e2m1(x: Tensor) -> Tensor:
    """Two codes in a byte. nvfp4 under a global scale of 64 is nothing but them: the largest element's scale is then
    2^-6, the least that there is, or less and made that, and elements are x * ((1 / 64) / 2^-6) = x."""
    codes, _ = quantize(x.clamp(-_LARGEST_E2M1, _LARGEST_E2M1), "nvfp4", x.new_full((), 64.0))
    return codes


def _error(x: Tensor, data: Tensor, scale: Tensor, form: Format, global_scale: Tensor | None) -> Tensor:
    """The squared error of each block, (rows, k / vec)."""
    values = dequantize(data, scale.view(form.scales[0]), form.name, global_scale)
    return (values - x).square_().view(*scale.shape, form.vec).sum(-1)


def _by_block(data: Tensor, scale: Tensor) -> Tensor:
    """Codes as bytes, (rows, blocks, bytes of a block)."""
    return data.view(torch.uint8).view(*scale.shape, -1)
