"""What is measured: a product's dtype or block-scaled format, layout, size and epilogue, and random operands for it.

A block-scaled product is (a * scale_a) @ (b * scale_b)^T. An element is e4m3 (float8_e4m3fn) or e2m1 (uint8, two codes
a byte along k, the even k in the low half); each run of `vec` elements along k shares a scale, e8m0 (uint8,
2^(byte - 127)) or e4m3. Its data are `normal`: normal random numbers, as all others' (zeros run faster: fewer bits
toggle), quantized by torch.ops.tileon.quantize, so that the scales of a row lie near to each other; or `tutorial`, as
in Triton's: random elements, and scales uniform in (0, 1), which quantization would hardly make.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

# By the name used in the files, a dtype of both operands. `tf32` is float32 operands with TF32 allowed.
DTYPES: dict[str, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "tf32": torch.float32,
    "float64": torch.float64,
}
# Without tf32: for the scripts that leave torch's setting for it alone.
TORCH_DTYPES = {name: dtype for name, dtype in DTYPES.items() if name != "tf32"}
# The pairings of fp8: the dtypes of a and b.
FP8_PAIRINGS: dict[str, tuple[torch.dtype, torch.dtype]] = {
    "e4m3": (torch.float8_e4m3fn, torch.float8_e4m3fn),
    "e5m2": (torch.float8_e5m2, torch.float8_e5m2),
    "e4m3xe5m2": (torch.float8_e4m3fn, torch.float8_e5m2),
    "e5m2xe4m3": (torch.float8_e5m2, torch.float8_e4m3fn),
}
DTYPE_NAMES = (*DTYPES, *FP8_PAIRINGS)


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
LAYOUTS = ("NN", "NT", "TN", "TT")
ACTIVATIONS = ("none", "relu", "leaky_relu", "gelu", "gelu_tanh", "silu")
EPILOGUES = ("none", "leaky_relu", "bias", "bias+leaky_relu")  # what is measured by default
SLOPE = 0.01
# Of a file of products.
COLUMNS = ("op", "dtype", "layout", "m", "n", "k", "epilogue", "provider", "median_us", "tflops")

_ELEMENT_BITS = {"e4m3": 8, "e2m1": 4}
_MX_FORMATS = {"e4m3": "mxfp8", "e2m1": "mxfp4"}  # what quantizes to these elements with e8m0 scales
_LEAST_SCALE = 2.0**-24  # of torch.rand's values but 0, which has no exponent

Shape = tuple[int, int, int]  # m, n, k


@dataclass(frozen=True)
class Case:
    """One product, (m, k) @ (k, n), or a batch of them.

    The layout's first letter is a's, the second b's. N: contiguous as it stands; T: a transposed view of a contiguous
    tensor of the transposed shape. The epilogue is an activation, `bias`, or `bias+<activation>`. With a batch above 1
    both operands are 3-D. A block-scaled product has a format for its dtype; b holds n rows of k, which is NT.
    """

    dtype: str
    layout: str
    m: int
    n: int
    k: int
    epilogue: str = "none"
    batch: int = 1
    data: str = "normal"

    def __post_init__(self) -> None:
        if self.dtype not in (*DTYPE_NAMES, *FORMATS):
            raise ValueError(f"unknown dtype {self.dtype!r}; there are {', '.join(DTYPE_NAMES)}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"unknown layout {self.layout!r}; there are {', '.join(LAYOUTS)}")
        if self.activation not in ACTIVATIONS:
            words = f"'bias', an activation or 'bias+<activation>', with the activations {', '.join(ACTIVATIONS)}"
            raise ValueError(f"unknown epilogue {self.epilogue!r}; it is {words}")
        if min(self.shape) < 1:
            raise ValueError(f"sizes must be positive, got {self.size}")
        if self.is_block_scaled and self.k % self.vec != 0:
            raise ValueError(f"k must be a multiple of {self.vec} for {self.dtype}, got {self.k}")

    def __str__(self) -> str:
        if self.is_block_scaled and self.data == "tutorial":
            return f"{self.dtype} {self.size}"
        batch = f"{self.batch} of " if self.batch > 1 else ""
        return f"{self.dtype} {self.layout} {batch}{self.size} {self.epilogue}"

    @property
    def shape(self) -> Shape:
        return self.m, self.n, self.k

    @property
    def size(self) -> str:
        return "x".join(map(str, self.shape))

    @property
    def is_square(self) -> bool:
        return self.m == self.n == self.k

    @property
    def short(self) -> str:
        """The size, of a square one number."""
        return str(self.m) if self.is_square else self.size

    @property
    def has_bias(self) -> bool:
        return self.epilogue.split("+")[0] == "bias"

    @property
    def activation(self) -> str:
        parts = self.epilogue.split("+")
        return "+".join(parts[1:] if parts[0] == "bias" else parts) or "none"

    @property
    def is_fp8(self) -> bool:
        return self.dtype in FP8_PAIRINGS

    @property
    def is_block_scaled(self) -> bool:
        return self.dtype in FORMATS

    @property
    def op(self) -> str:
        return "block_scaled_matmul" if self.is_block_scaled else "matmul"

    @property
    def vec(self) -> int:
        """Elements that share a scale, of a block-scaled format."""
        return FORMATS[self.dtype].vec

    @property
    def torch_dtypes(self) -> tuple[torch.dtype, torch.dtype]:
        """Of a and of b, where they are no codes."""
        return FP8_PAIRINGS[self.dtype] if self.is_fp8 else (DTYPES[self.dtype], DTYPES[self.dtype])

    @property
    def out_dtype(self) -> torch.dtype:
        """The result's and the bias's."""
        return torch.float16 if self.is_fp8 or self.is_block_scaled else DTYPES[self.dtype]

    @property
    def bytes(self) -> int:
        """Of operands, scales and result."""
        out = self.m * self.n * self.out_dtype.itemsize
        if self.is_block_scaled:
            elements = self.m * _ELEMENT_BITS[FORMATS[self.dtype].a] + self.n * _ELEMENT_BITS[FORMATS[self.dtype].b]
            return elements * self.k // 8 + (self.m + self.n) * self.k // self.vec + out
        return self.batch * ((self.m + self.n) * self.k * self.torch_dtypes[0].itemsize + out)  # b's is as wide

    @property
    def flops(self) -> int:
        """Operations of the product alone, whatever the epilogue."""
        return 2 * self.batch * self.m * self.n * self.k

    def tflops(self, microseconds: float) -> float:
        return self.flops / microseconds * 1e-6

    def cells(self, provider: str, microseconds: float) -> list[str]:
        """A row of COLUMNS."""
        figures = [f"{microseconds:.2f}", f"{self.tflops(microseconds):.4g}"]
        return [self.op, self.dtype, self.layout, *map(str, self.shape), self.epilogue, provider, *figures]


@dataclass(frozen=True)
class Work:
    """A case, and who computes it; None where the command decides."""

    case: Case
    providers: tuple[str, ...] | None = None


def square_cases(
    sizes: Sequence[int], dtypes: Sequence[str], layouts: Sequence[str], epilogues: Sequence[str] = ("none",)
) -> list[Case]:
    """Every combination, m = n = k."""
    kinds = itertools.product(dtypes, layouts, epilogues, sizes)
    return [Case(dtype, layout, size, size, size, epilogue) for dtype, layout, epilogue, size in kinds]


def drawn(count: int, seed: int, largest: int, one: Callable[[random.Random, int], Case | None]) -> list[Case]:
    """Random cases of a seed, the first ones of a longer list: `one` makes a case by how many there are; None, and a
    product of m * n * k above `largest`, are drawn again."""
    draw, cases = random.Random(seed), list[Case]()
    while len(cases) < count:
        case = one(draw, len(cases))
        if case is not None and case.m * case.n * case.k <= largest:
            cases.append(case)
    return cases


@dataclass(frozen=True)
class Operands:
    """a: (m, k), b: (k, n), with the batch before them if there is one; bias: (n,) in the result's dtype, or None.

    Of a block-scaled product a is (m, k) or, two codes a byte, (m, k / 2), b the same with n rows, and the scales are
    (rows, k / vec), all contiguous.
    """

    a: torch.Tensor
    b: torch.Tensor
    bias: torch.Tensor | None = None
    scale_a: torch.Tensor | None = None
    scale_b: torch.Tensor | None = None

    @property
    def scales(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Of a block-scaled product."""
        assert self.scale_a is not None
        assert self.scale_b is not None
        return self.scale_a, self.scale_b

    def dequantized(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """a and b, as (m, k) and (n, k), of a block-scaled product."""
        scale_a, scale_b = self.scales
        return dequantized(self.a, scale_a, dtype), dequantized(self.b, scale_b, dtype)


def make_operands(case: Case, device: torch.device, seed: int = 0) -> Operands:
    """Random operands of the case's kind of data, in its layout."""
    generator = torch.Generator(device=device).manual_seed(seed)

    def normal(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        drawn = torch.float64 if case.dtype == "float64" else torch.float32
        return torch.randn(*shape, generator=generator, device=device, dtype=drawn).to(dtype)

    def matrix(rows: int, columns: int, letter: str, dtype: torch.dtype) -> torch.Tensor:
        batch = (case.batch,) if case.batch > 1 else ()
        if letter == "T":
            return normal(*batch, columns, rows, dtype=dtype).mT
        return normal(*batch, rows, columns, dtype=dtype)

    if case.is_block_scaled:
        make = _quantized if case.data == "normal" else _drawn
        layout = FORMATS[case.dtype]
        a, scale_a = make(case, case.m, layout.a, generator)
        b, scale_b = make(case, case.n, layout.b, generator)
    else:
        dtype_a, dtype_b = case.torch_dtypes
        a, scale_a = matrix(case.m, case.k, case.layout[0], dtype_a), None
        b, scale_b = matrix(case.k, case.n, case.layout[1], dtype_b), None
    return Operands(a, b, normal(case.n, dtype=case.out_dtype) if case.has_bias else None, scale_a, scale_b)


def _quantized(case: Case, rows: int, kind: str, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Normal numbers as the format has them, and their scales, rounded down; nvfp4 without a global scale."""
    x = torch.randn(rows, case.k, generator=generator, device=generator.device)
    is_nvfp4 = FORMATS[case.dtype].scale == "e4m3"
    data, packed = torch.ops.tileon.quantize(x, "nvfp4" if is_nvfp4 else _MX_FORMATS[kind])
    scale = torch.ops.tileon.unpack_scales(packed, rows, case.k // case.vec)
    return data, scale if is_nvfp4 else scale.view(torch.uint8)


def _drawn(case: Case, rows: int, kind: str, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Every code of e2m1 alike, or normal e4m3 elements; scales uniform in (0, 1), rounded to their type."""
    device = generator.device
    if kind == "e4m3":
        elements = torch.randn(rows, case.k, generator=generator, device=device).to(torch.float8_e4m3fn)
    else:
        elements = torch.randint(0, 256, (rows, case.k // 2), generator=generator, device=device, dtype=torch.uint8)
    scales = torch.rand(rows, case.k // case.vec, generator=generator, device=device).clamp_min(_LEAST_SCALE)
    if FORMATS[case.dtype].scale == "e4m3":
        return elements, scales.to(torch.float8_e4m3fn)
    return elements, scales.to(torch.float8_e8m0fnu).view(torch.uint8)


def _e2m1_values(data: torch.Tensor) -> torch.Tensor:
    # A broadcast shift and not a stack of both halves: that compiles to one kernel without doubt.
    halves = data.unsqueeze(-1) >> torch.arange(0, 8, 4, dtype=torch.uint8, device=data.device)
    codes = halves.flatten(-2).to(torch.int16)
    # The fields of a code, moved to where float16 has its own: the value times 2^-14, subnormal or not.
    bits = ((codes & 0x8) << 12) | ((codes & 0x7) << 9)
    return bits.view(torch.float16).to(torch.float32) * 2.0**14


def dequantized(data: torch.Tensor, scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Elements, (rows, k) float8_e4m3fn or (rows, k / 2) uint8, times scales, (rows, k / vec) float8_e4m3fn or uint8,
    which are bytes of e8m0 from 1 to 254, in float32, rounded once to `dtype`: (rows, k), contiguous."""
    values = data.to(torch.float32) if data.dtype != torch.uint8 else _e2m1_values(data)
    is_e8m0 = scale.dtype == torch.uint8
    scales = (scale.to(torch.int32) << 23).view(torch.float32) if is_e8m0 else scale.to(torch.float32)
    blocks = values.unflatten(-1, (scale.shape[-1], -1))  # [row][block][vec]
    return (blocks * scales.unsqueeze(-1)).flatten(-2).to(dtype)
