"""Operands of `block_scaled_matmul` in every format, as codes of one byte an element, and the tensors the op takes.

An operand is made on the CPU, so that every device sees the same numbers, and moved. Everything that a kernel must not
read, a packed scale's padding or what lies between and around the lines of a strided operand, is 0xFF: NaN in e4m3 and
e8m0, -6 in fp4.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

POISON = 0xFF
MARGIN = 64  # bytes of poison on either side
DTYPES = {"e4m3": torch.float8_e4m3fn, "e8m0": torch.float8_e8m0fnu}


@dataclass(frozen=True)
class Format:
    """What the two operands' elements and their scales are; `vec` elements along k share a scale."""

    name: str
    a: str
    b: str
    scale: str
    vec: int

    def __str__(self) -> str:
        return self.name


MXFP8 = Format("mxfp8", "e4m3", "e4m3", "e8m0", 32)
MXFP4 = Format("mxfp4", "e2m1", "e2m1", "e8m0", 32)
MIXED = Format("mixed", "e4m3", "e2m1", "e8m0", 32)
MIXED_REVERSED = Format("mixed_reversed", "e2m1", "e4m3", "e8m0", 32)
NVFP4 = Format("nvfp4", "e2m1", "e2m1", "e4m3", 16)
FORMATS = (MXFP8, MXFP4, MIXED, MIXED_REVERSED, NVFP4)

each_format = pytest.mark.parametrize("fmt", FORMATS, ids=str)

SCALE_FORMS = ("2d", "packed")
SCALE_PAIRS = tuple((form_a, form_b) for form_a in SCALE_FORMS for form_b in SCALE_FORMS)


def pack_nibbles(codes: Tensor) -> Tensor:
    """Two fp4 codes a byte along k, even k in the low nibble."""
    return codes[:, 0::2] & 15 | (codes[:, 1::2] & 15) << 4


def unpack_nibbles(data: Tensor) -> Tensor:
    return torch.stack((data & 15, data >> 4), dim=-1).flatten(1)


def pack_scales(scales: Tensor, padding: int = POISON) -> Tensor:
    """(rows, s) to (ceil(rows / 128), ceil(s / 4), 32, 4, 4): row mb * 128 + q * 32 + r, column kb * 4 + c."""
    rows, cols = scales.shape
    blocks_m, blocks_k = -(-rows // 128), -(-cols // 4)
    whole = scales.new_full((blocks_m * 128, blocks_k * 4), padding)
    whole[:rows, :cols] = scales
    return whole.view(blocks_m, 4, 32, blocks_k, 4).permute(0, 3, 2, 1, 4).contiguous()


def unpack_scales(packed: Tensor, rows: int, cols: int) -> Tensor:
    blocks_m, blocks_k = packed.shape[:2]
    return packed.permute(0, 3, 2, 1, 4).reshape(blocks_m * 128, blocks_k * 4)[:rows, :cols]


@dataclass(frozen=True)
class Operand:
    """`codes` (rows, K) and `scales` (rows, K / vec): uint8, one byte an element or scale."""

    codes: Tensor
    scales: Tensor
    element: str
    scale: str

    @property
    def vec(self) -> int:
        return 16 if self.scale == "e4m3" else 32

    def to(self, device: torch.device | str) -> Operand:
        return replace(self, codes=self.codes.to(device), scales=self.scales.to(device))

    def first(self, rows: int) -> Operand:
        return replace(self, codes=self.codes[:rows], scales=self.scales[:rows])

    def bytes(self) -> Tensor:
        """The data as the op has it in memory, as uint8."""
        return pack_nibbles(self.codes) if self.element == "e2m1" else self.codes

    def typed(self, data: Tensor) -> Tensor:
        """Bytes of data as a tensor of the op: fp4 stays uint8."""
        return data if self.element == "e2m1" else data.view(torch.float8_e4m3fn)

    def data(self) -> Tensor:
        return self.typed(self.bytes())

    def typed_scale(self, scales: Tensor) -> Tensor:
        return scales.view(DTYPES[self.scale])

    def scale_tensor(self, form: str = "2d") -> Tensor:
        return self.typed_scale(pack_scales(self.scales) if form == "packed" else self.scales)


def generator(*key: object) -> torch.Generator:
    made = torch.Generator()
    made.manual_seed(zlib.crc32(repr(key).encode()))
    return made


def elements_of(fmt: Format, side: str) -> str:
    return fmt.a if side == "a" else fmt.b


def encode_integers(values: Tensor, element: str) -> Tensor:
    """Codes of small integers: those that fp4 has (0 to 4, and 6), or any up to 16 in e4m3."""
    if element == "e4m3":
        return values.to(torch.float32).to(torch.float8_e4m3fn).view(torch.uint8)
    code_of = torch.tensor([0, 2, 4, 5, 6, 0, 7], dtype=torch.uint8)  # 0, 1, 2, 3, 4, -, 6
    return code_of[values.abs().long()] + 8 * (values < 0).to(torch.uint8)


E8M0_ONE = 127
E4M3_ONE = 0x38
SMALL_SCALES = {  # a few binades around 1: products and their sums stay exact in float32
    "e8m0": torch.tensor([126, 127, 128, 129], dtype=torch.uint8),
    "e4m3": torch.tensor([0.5, 1.0, 1.5, 2.0, 3.0, -1.0]).to(torch.float8_e4m3fn).view(torch.uint8),
}


def small_integers(fmt: Format, side: str, rows: int, k: int, *, seed: int = 0, high: int = 3) -> Operand:
    """Integers in [-high, high] under scales of a few binades: exact in every accumulator."""
    source = generator("integers", side, rows, k, seed)
    element = elements_of(fmt, side)
    codes = encode_integers(torch.randint(-high, high + 1, (rows, k), generator=source), element)
    scales = SMALL_SCALES[fmt.scale]
    chosen = torch.randint(0, len(scales), (rows, k // fmt.vec), generator=source)
    return Operand(codes, scales[chosen], element, fmt.scale)


def constant(fmt: Format, side: str, rows: int, k: int, value: int = 1) -> Operand:
    """Every element `value`, every scale 1."""
    element = elements_of(fmt, side)
    codes = encode_integers(torch.full((rows, k), value), element)
    one = E8M0_ONE if fmt.scale == "e8m0" else E4M3_ONE
    return Operand(codes, torch.full((rows, k // fmt.vec), one, dtype=torch.uint8), element, fmt.scale)


def identity(fmt: Format, side: str, k: int) -> Operand:
    """(k, k): the other operand's dequantized rows come out as they are."""
    ones = constant(fmt, side, k, k)
    return replace(ones, codes=ones.codes * torch.eye(k, dtype=torch.uint8))


def block_selector(fmt: Format, side: str, k: int) -> Operand:
    """(k / vec, k): row s holds ones in block s, so that column s of the product is the sum of the other's block s."""
    blocks = k // fmt.vec
    ones = constant(fmt, side, blocks, k)
    in_block = torch.arange(k) // fmt.vec == torch.arange(blocks)[:, None]
    return replace(ones, codes=ones.codes * in_block.to(torch.uint8))


def random_finite_codes(element: str, rows: int, k: int, source: torch.Generator) -> Tensor:
    """Every code that is a number, all alike."""
    if element == "e2m1":
        return torch.randint(0, 16, (rows, k), generator=source, dtype=torch.uint8)
    magnitude = torch.randint(0, 0x7F, (rows, k), generator=source, dtype=torch.uint8)
    return magnitude | torch.randint(0, 2, (rows, k), generator=source, dtype=torch.uint8) << 7


def uniform_scales(scale: str, rows: int, blocks: int, source: torch.Generator) -> Tensor:
    values = torch.rand(rows, blocks, generator=source) + 1e-8
    if scale == "e4m3":
        return values.to(torch.float8_e4m3fn).view(torch.uint8)
    return (values.log2().round() + 127).to(torch.uint8)


def random_codes(fmt: Format, side: str, rows: int, k: int, *, seed: int = 0) -> Operand:
    """The tutorial's operands, and wider: all finite codes, scales uniform in (0, 1)."""
    source = generator("codes", side, rows, k, seed)
    element = elements_of(fmt, side)
    codes = random_finite_codes(element, rows, k, source)
    return Operand(codes, uniform_scales(fmt.scale, rows, k // fmt.vec, source), element, fmt.scale)


def tutorial(fmt: Format, side: str, rows: int, k: int) -> Operand:
    """As the tutorial makes them: fp4 values, in e4m3 too, and scales uniform in (0, 1)."""
    source = generator("tutorial", side, rows, k)
    element = elements_of(fmt, side)
    codes = random_finite_codes("e2m1", rows, k, source)
    if element == "e4m3":
        values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
        codes = values.to(torch.float8_e4m3fn).view(torch.uint8)[codes.long()]
    return Operand(codes, uniform_scales(fmt.scale, rows, k // fmt.vec, source), element, fmt.scale)


def quantized_normal(fmt: Format, side: str, rows: int, k: int, *, seed: int = 0) -> Operand:
    """Normal values, quantized by the package."""
    element = elements_of(fmt, side)
    name = "nvfp4" if fmt is NVFP4 else "mxfp8" if element == "e4m3" else "mxfp4"
    values = torch.randn(rows, k, generator=generator("normal", side, rows, k, seed))
    data, scale = torch.ops.tileon.quantize(values, name)
    codes = data.view(torch.uint8) if element == "e4m3" else unpack_nibbles(data)
    return Operand(codes, unpack_scales(scale.view(torch.uint8), rows, k // fmt.vec), element, fmt.scale)


def multiply(
    a: Operand, b: Operand, *tail: Tensor | None, forms: tuple[str, str] = ("2d", "2d"), **options: object
) -> Tensor:
    """The op on these operands; `tail`: bias and global_scale."""
    result: Tensor = torch.ops.tileon.block_scaled_matmul(
        a.data(), b.data(), a.scale_tensor(forms[0]), b.scale_tensor(forms[1]), *tail, **options
    )
    return result


def in_poison(values: Tensor, *, transposed: bool = False, pad: int = 0, step: int = 1, offset: int = 0) -> Tensor:
    """A view of other strides that holds the bytes of a 2-D tensor, inside a storage of poison."""
    rows, cols = values.shape
    inner, outer = (rows, cols) if transposed else (cols, rows)
    line = inner * step + pad
    storage = values.new_full((2 * MARGIN + offset + outer * line,), POISON)
    strides = (step, line) if transposed else (line, step)
    view = storage.as_strided((rows, cols), strides, MARGIN + offset)
    view.copy_(values)
    return view
