"""The cases of the soak test, by op: case `index` of process `process` under `seed` is always the same."""

from __future__ import annotations

from collections.abc import Callable

from soak.bad_calls import spoiled
from soak.block_scaled import draw_block_scaled
from soak.case import Case
from soak.dense import draw_matmul, draw_matmul_backward
from soak.draw import Draw
from soak.float32_scaled import draw_float32_dequantize, draw_float32_quantize
from soak.quantized import draw_dequantize, draw_pack_scales, draw_quantize, draw_unpack_scales
from soak.scaled_products import draw_scaled_product

_OTHER_SCALES = 0.5  # share of the products that are not of two block-scaled operands


def _draw_product(draw: Draw, *, with_out: bool) -> Case:
    drawn = draw_scaled_product if draw.chance(_OTHER_SCALES) else draw_block_scaled
    return drawn(draw, with_out=with_out)


_DRAWN: dict[str, tuple[float, Callable[[Draw], Case]]] = {  # how often, and how
    "matmul": (26, lambda draw: draw_matmul(draw, with_out=False)),
    "matmul.out": (16, lambda draw: draw_matmul(draw, with_out=True)),
    "matmul.backward": (8, draw_matmul_backward),
    "block_scaled_matmul": (20, lambda draw: _draw_product(draw, with_out=False)),
    "block_scaled_matmul.out": (12, lambda draw: _draw_product(draw, with_out=True)),
    "quantize": (9, lambda draw: draw_float32_quantize(draw) if draw.chance(0.4) else draw_quantize(draw)),
    "dequantize": (8, lambda draw: draw_float32_dequantize(draw) if draw.chance(0.4) else draw_dequantize(draw)),
    "pack_scales": (3, draw_pack_scales),
    "unpack_scales": (4, draw_unpack_scales),
}
OPS = tuple(_DRAWN)
_BAD_SHARE = 0.08


def draw_case(seed: int, process: int, index: int, ops: frozenset[str] = frozenset(OPS)) -> Case | None:
    """None where the case is of an op that is not among `ops`: which ops run changes no case."""
    draw = Draw(seed, process, index)
    op = draw.weighted({name: share for name, (share, _) in _DRAWN.items()})
    if op not in ops:
        return None
    is_bad = draw.chance(_BAD_SHARE)
    if is_bad and op in ("matmul", "matmul.out"):
        case = draw_matmul(draw, with_out=op == "matmul.out", through="op")
    else:
        case = _DRAWN[op][1](draw)
    return (spoiled(draw, case) or case) if is_bad else case
