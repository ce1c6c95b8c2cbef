"""The operands of scaled products by name, and random ones: what `tileon_ops.tune` measures and info tries out.

Names are those in the name of a problem (csrc/tuning/problem_key.h): "mxfp8", "mixed"; of float32 scales the elements'
dtype and what has a scale of its own, "int8_row"; two with a * between them are those of a and b, "bfloat16*nvfp4".
"""

from __future__ import annotations

import torch
from torch import Tensor

FORMATS = {"mxfp8": 32, "mxfp4": 32, "mixed": 32, "nvfp4": 16}  # and how many elements along k share a scale
NUMBERS = ("float16", "bfloat16")  # of an `a` without a scale

_BLOCK = 128  # rows, and elements along k, of a block with a float32 scale
_FINE = ("1x128", "128x128")
FLOAT32_SCALED = (
    *(f"{element}_{unit}" for element in ("float8_e4m3fn", "float8_e5m2") for unit in ("tensor", "row", *_FINE)),
    *(f"int8_{unit}" for unit in ("tensor", "row")),
)

# In an error, after the names of FORMATS.
OTHERS = "<fp8 dtype>_<tensor, row, 1x128 or 128x128>, int8_<tensor or row>, or two of these, or of float16 or " + (
    "bfloat16 and any, with a * between them"
)


def names_of(kind: str) -> tuple[str, str]:
    """Of the operands a and b of a kind that is offered."""
    if kind == "mixed":
        return "mxfp8", "mxfp4"
    first, _, second = kind.partition("*")
    return first, second or first


def normalized(kind: str) -> str | None:
    """The kind as a problem names it; None where it is not offered."""
    a, b = names_of(kind)
    if kind in FORMATS:
        return kind
    if b in FLOAT32_SCALED and a in FLOAT32_SCALED and a.startswith("int8") == b.startswith("int8"):
        return a if a == b else kind
    is_weight = b in FLOAT32_SCALED or (b in FORMATS and b != "mixed")
    return kind if a in NUMBERS and is_weight else None


def k_multiple(kind: str) -> int:
    """What k must be a multiple of."""
    return max(FORMATS.get(name, 1) for name in names_of(kind))


def _scale_shape(unit: str, rows: int, k: int) -> tuple[int, ...]:
    blocks, k_blocks = -(-rows // _BLOCK), -(-k // _BLOCK)
    return {"tensor": (), "row": (rows, 1), "1x128": (rows, k_blocks), "128x128": (blocks, k_blocks)}[unit]


def random_operand(name: str, rows: int, k: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
    """(rows, k) of normal numbers, and their scales: packed ones of a byte, or of float32; None of numbers."""
    device = generator.device
    values = torch.randn(rows, k, generator=generator, device=device)
    if name in NUMBERS:
        return values.to(getattr(torch, name)), None
    if name in FORMATS:
        data, scale = torch.ops.tileon.quantize(values, name)
        return data, scale
    element, _, unit = name.rpartition("_")
    scale = torch.rand(_scale_shape(unit, rows, k), generator=generator, device=device) + 0.5
    if element == "int8":
        values = (values * 32).round().clamp(-127, 127)
    return values.to(getattr(torch, element)), scale
