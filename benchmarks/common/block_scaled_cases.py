"""Block-scaled products to be measured: formats, sizes, random operands, and the operands' values in plain torch.

(a * scale_a) @ (b * scale_b)^T. An element is e4m3 (float8_e4m3fn) or e2m1 (uint8, two codes a byte along k, the even k
in the low half); each run of `vec` elements along k shares a scale, e8m0 (uint8, 2^(byte - 127)) or e4m3.

There are two kinds of data. `normal`: normal random float32, quantized by torch.ops.tileon.quantize, so that the scales
of a row lie near to each other. `tutorial`, as in Triton's: random elements, and scales uniform in (0, 1), which
quantization would hardly make.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from benchmarks.common.cases import tflops


@dataclass(frozen=True)
class Format:
    """Elements of both operands and their scales, by name, and how many elements share a scale."""

    a: str
    b: str
    scale: str
    vec: int


FORMATS = {
    "nvfp4": Format("e2m1", "e2m1", "e4m3", 16),
    "mxfp4": Format("e2m1", "e2m1", "e8m0", 32),
    "mxfp8": Format("e4m3", "e4m3", "e8m0", 32),
    "mixed": Format("e4m3", "e2m1", "e8m0", 32),
}
DATA = ("normal", "tutorial")

_ELEMENT_BITS = {"e4m3": 8, "e2m1": 4}
_OUT_BYTES = 2  # float16
_MX_FORMATS = {"e4m3": "mxfp8", "e2m1": "mxfp4"}  # what quantizes to these elements with e8m0 scales


@dataclass(frozen=True)
class BlockScaledCase:
    """One product of (m, k) and (n, k) rows of this kind of data, float16 out."""

    format: str
    m: int
    n: int
    k: int
    data: str = "tutorial"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ValueError(f"unknown format {self.format!r}; there are {', '.join(FORMATS)}")
        if self.data not in DATA:
            raise ValueError(f"unknown data {self.data!r}; there are {', '.join(DATA)}")
        if min(self.m, self.n, self.k) < 1:
            raise ValueError(f"sizes must be positive, got {self.m}x{self.n}x{self.k}")
        if self.k % FORMATS[self.format].vec != 0:
            raise ValueError(f"k must be a multiple of {FORMATS[self.format].vec} for {self.format}, got {self.k}")

    def __str__(self) -> str:
        name = f"{self.format} {self.m}x{self.n}x{self.k}"
        return name if self.data == "tutorial" else f"{name} {self.data}"

    @property
    def vec(self) -> int:
        return FORMATS[self.format].vec

    @property
    def bytes(self) -> int:
        """Of both operands, their scales and the result."""
        layout = FORMATS[self.format]
        elements = (self.m * _ELEMENT_BITS[layout.a] + self.n * _ELEMENT_BITS[layout.b]) * self.k // 8
        scales = (self.m + self.n) * self.k // self.vec
        return elements + scales + self.m * self.n * _OUT_BYTES

    def tflops(self, microseconds: float) -> float:
        """Rate of the product alone (2 m n k operations)."""
        return tflops(self.m, self.n, self.k, microseconds)


@dataclass(frozen=True)
class BlockScaledOperands:
    """a: (m, k) or, two codes a byte, (m, k / 2); b: the same with n rows; scales: (rows, k / vec). All contiguous."""

    a: torch.Tensor
    b: torch.Tensor
    scale_a: torch.Tensor
    scale_b: torch.Tensor


# The least of torch.rand's values but 0, which has no exponent.
_LEAST_SCALE = 2.0**-24


def make_operands(case: BlockScaledCase, device: torch.device, seed: int = 0) -> BlockScaledOperands:
    """Random operands of the case's kind of data."""
    generator = torch.Generator(device=device).manual_seed(seed)
    make = _normal_operands if case.data == "normal" else _tutorial_operands
    return make(case, device, generator)


def _normal_operands(case: BlockScaledCase, device: torch.device, generator: torch.Generator) -> BlockScaledOperands:
    """Normal numbers, quantized as the format has it: its scales rounded down, nvfp4 without a global scale."""
    layout = FORMATS[case.format]

    def quantized(rows: int, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(rows, case.k, generator=generator, device=device)
        name = "nvfp4" if layout.scale == "e4m3" else _MX_FORMATS[kind]
        data, packed = torch.ops.tileon.quantize(x, name)
        scale = torch.ops.tileon.unpack_scales(packed, rows, case.k // case.vec)
        return data, scale if layout.scale == "e4m3" else scale.view(torch.uint8)

    a, scale_a = quantized(case.m, layout.a)
    b, scale_b = quantized(case.n, layout.b)
    return BlockScaledOperands(a, b, scale_a, scale_b)


def _tutorial_operands(case: BlockScaledCase, device: torch.device, generator: torch.Generator) -> BlockScaledOperands:
    """Every code of e2m1 alike, or normal e4m3 elements; scales uniform in (0, 1), rounded to their type."""
    layout = FORMATS[case.format]

    def elements(rows: int, kind: str) -> torch.Tensor:
        if kind == "e4m3":
            return torch.randn(rows, case.k, generator=generator, device=device).to(torch.float8_e4m3fn)
        size = (rows, case.k // 2)
        return torch.randint(0, 256, size, generator=generator, device=device, dtype=torch.uint8)

    def scales(rows: int) -> torch.Tensor:
        drawn = torch.rand(rows, case.k // case.vec, generator=generator, device=device).clamp_min(_LEAST_SCALE)
        if layout.scale == "e4m3":
            return drawn.to(torch.float8_e4m3fn)
        return drawn.to(torch.float8_e8m0fnu).view(torch.uint8)

    return BlockScaledOperands(
        a=elements(case.m, layout.a), b=elements(case.n, layout.b), scale_a=scales(case.m), scale_b=scales(case.n)
    )


def _element_values(data: torch.Tensor) -> torch.Tensor:
    if data.dtype != torch.uint8:
        return data.to(torch.float32)
    # A broadcast shift and not a stack of both halves: that compiles to one kernel without doubt.
    halves = data.unsqueeze(-1) >> torch.arange(0, 8, 4, dtype=torch.uint8, device=data.device)
    codes = halves.flatten(-2).to(torch.int16)
    # The fields of a code, moved to where float16 has its own: the value times 2^-14, subnormal or not.
    bits = ((codes & 0x8) << 12) | ((codes & 0x7) << 9)
    return bits.view(torch.float16).to(torch.float32) * 2.0**14


def _scale_values(scale: torch.Tensor) -> torch.Tensor:
    if scale.dtype != torch.uint8:
        return scale.to(torch.float32)
    return (scale.to(torch.int32) << 23).view(torch.float32)  # not for bytes 0 and 255, which no operand here has


def dequantized(data: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Elements times scales in float32, rounded once: (rows, k), contiguous.

    Args:
        data: (rows, k) float8_e4m3fn, or (rows, k / 2) uint8.
        scale: (rows, k / vec), float8_e4m3fn, or uint8 with the bytes of e8m0 from 1 to 254.
        dtype: of the result.
    """
    values = _element_values(data)
    blocks = values.unflatten(-1, (scale.shape[-1], -1))  # [row][block][vec]
    return (blocks * _scale_values(scale).unsqueeze(-1)).flatten(-2).to(dtype)
