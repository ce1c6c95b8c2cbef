"""Weights of every encoding and granularity of scales that `block_scaled_matmul` takes, with their values in float64.

Names are the library's (csrc/tuning/problem_key.h): "nvfp4", "float8_e5m2_1x128", "int8_row".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from block_scaled_operands import MXFP4, MXFP8, NVFP4, generator, random_codes, small_integers
from block_scaled_reference import dequantize
from torch import Tensor

BLOCK = 128  # rows, and elements along k, of a block of float32 scales

BYTE_SCALED = {format.name: format for format in (MXFP8, MXFP4, NVFP4)}
ELEMENTS = {"float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2, "int8": torch.int8}
GRANULARITIES = ("tensor", "row", "1x128", "128x128")
FLOAT32_SCALED = tuple(
    f"{element}_{granularity}"
    for element in ELEMENTS
    for granularity in (GRANULARITIES[:2] if element == "int8" else GRANULARITIES)
)
NAMES = (*BYTE_SCALED, *FLOAT32_SCALED)

each_weight = pytest.mark.parametrize("name", NAMES)


@dataclass(frozen=True)
class Weight:
    """`values`: (rows, k) in float64, each element times its scale as float32 holds it."""

    data: Tensor
    scale: Tensor
    values: Tensor


def split(name: str) -> tuple[torch.dtype, str]:
    """The dtype of the elements and the granularity of float32 scales."""
    element, _, granularity = name.rpartition("_")
    return ELEMENTS[element], granularity


def scale_shape(granularity: str, rows: int, k: int) -> tuple[int, ...]:
    row_blocks, k_blocks = -(-rows // BLOCK), -(-k // BLOCK)
    return {"tensor": (), "row": (rows, 1), "1x128": (rows, k_blocks), "128x128": (row_blocks, k_blocks)}[granularity]


def spread(scale: Tensor, rows: int, k: int) -> Tensor:
    """(rows, k): the scale of each element, by the granularity that the shape says."""
    if scale.numel() == 1:
        return scale.reshape(1, 1).expand(rows, k)
    if scale.shape[0] != rows:
        scale = scale[torch.arange(rows) // BLOCK]
    return scale[:, torch.arange(k) // BLOCK] if scale.shape[1] > 1 else scale.expand(rows, k)


def _float32_scaled(name: str, rows: int, k: int, elements: Tensor, scale: Tensor) -> Weight:
    data = elements.to(split(name)[0])
    values = (data.double() * spread(scale, rows, k).double()).float().double()
    return Weight(data, scale, values)


def _byte_scaled(name: str, rows: int, k: int, packed: bool, seed: int, make: Callable[..., object]) -> Weight:
    operand = make(BYTE_SCALED[name], "b", rows, k, seed=seed)
    return Weight(operand.data(), operand.scale_tensor("packed" if packed else "2d"), dequantize(operand))  # type: ignore


def random_weight(name: str, rows: int, k: int, *, packed: bool = False, seed: int = 0) -> Weight:
    """Finite codes under scales uniform in (0, 1)."""
    if name in BYTE_SCALED:
        return _byte_scaled(name, rows, k, packed, seed, random_codes)
    source = generator("weight", name, rows, k, seed)
    dtype, granularity = split(name)
    elements = torch.randn(rows, k, generator=source) * (40 if dtype == torch.int8 else 1)
    scale = torch.rand(scale_shape(granularity, rows, k), generator=source) + 1e-3
    return _float32_scaled(name, rows, k, elements.round() if dtype == torch.int8 else elements, scale)


def exact_weight(name: str, rows: int, k: int, *, packed: bool = False, seed: int = 0) -> Weight:
    """Integers within +-3 under scales of a few binades: sums of any order are exact in float32."""
    if name in BYTE_SCALED:
        return _byte_scaled(name, rows, k, packed, seed, small_integers)
    source = generator("exact weight", name, rows, k, seed)
    elements = torch.randint(-3, 4, (rows, k), generator=source).float()
    shape = scale_shape(split(name)[1], rows, k)
    scale = torch.randint(-1, 3, shape, generator=source).float().exp2()
    return _float32_scaled(name, rows, k, elements, scale)
