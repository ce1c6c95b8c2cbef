"""Operands of block_scaled_matmul of every kind, with a float64 oracle of their own: numbers of 16 bits, codes with
scales of a byte a block, and codes with float32 scales of every granularity."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from block_scaled_operands import pack_scales
from block_scaled_reference import decode, documented_bound
from reference import SMALLEST_FLOAT32, Expected, activate, activation_gain
from torch import Tensor

BLOCK = 128  # rows, and elements along k, with a float32 scale of their own
BYTE_SCALES = {"mxfp8": ("e4m3", "e8m0", 32), "mxfp4": ("e2m1", "e8m0", 32), "nvfp4": ("e2m1", "e4m3", 16)}
FLOAT32_SCALED = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "int8": torch.int8}
NUMBERS = {"float16": torch.float16, "bfloat16": torch.bfloat16}
_SMALL_E4M3 = torch.tensor([0x00, 0x30, 0x38, 0x40, 0x44])  # 0, 0.5, 1, 2, 3


@dataclass(frozen=True)
class Scaled:
    """One operand: what the op takes, and what it stands for."""

    data: Tensor
    scale: Tensor | None
    elements: Tensor  # (rows, k), float64
    scales: Tensor  # what each element is multiplied by, float64, of a shape that broadcasts

    def values(self) -> Tensor:
        return self.elements * self.scales

    def to(self, device: torch.device) -> Scaled:
        scale = None if self.scale is None else self.scale.to(device)
        return Scaled(self.data.to(device), scale, self.elements.to(device), self.scales.to(device))


def source_of(*names: object) -> torch.Generator:
    return torch.Generator().manual_seed(zlib.crc32(repr(names).encode()))


def spread(scale: Tensor, rows: int, k: int) -> Tensor:
    """Float32 scales, 2-D, as one for each element or one for each row."""
    if scale.shape[1] > 1:
        scale = scale.repeat_interleave(BLOCK, 1)[:, :k]
    if scale.shape[0] not in (1, rows):
        scale = scale.repeat_interleave(BLOCK, 0)[:rows]
    return scale


def float32_scale_shape(granularity: str, rows: int, k: int) -> tuple[int, ...]:
    blocks = -(-k // BLOCK)
    return {"tensor": (), "row": (rows, 1), "1x128": (rows, blocks), "128x128": (-(-rows // BLOCK), blocks)}[
        granularity
    ]


def numbers(name: str, rows: int, k: int, exact: bool) -> Scaled:
    source = source_of(name, rows, k, exact)
    drawn = torch.randint(-3, 4, (rows, k), generator=source) if exact else torch.randn(rows, k, generator=source)
    data = drawn.to(NUMBERS[name])
    return Scaled(data, None, data.double(), torch.ones(1, 1, dtype=torch.float64))


def of_byte_scales(name: str, rows: int, k: int, exact: bool) -> Scaled:
    element, scale_kind, vec = BYTE_SCALES[name]
    source = source_of(name, rows, k, exact)
    if element == "e2m1":
        codes = torch.randint(0, 16, (rows, k), generator=source).to(torch.uint8)
        data = codes[:, ::2] | codes[:, 1::2] << 4
    else:
        codes = torch.randint(0, len(_SMALL_E4M3) if exact else 0x7F, (rows, k), generator=source)
        codes = (_SMALL_E4M3[codes] if exact else codes).to(torch.uint8)
        codes |= (torch.randint(0, 2, (rows, k), generator=source) * 0x80).to(torch.uint8)
        data = codes.view(torch.float8_e4m3fn)
    shape = (rows, k // vec)
    if scale_kind == "e8m0":
        bytes_ = torch.randint(126 if exact else 118, 129 if exact else 134, shape, generator=source).to(torch.uint8)
        scale = bytes_.view(torch.float8_e8m0fnu)
    else:
        drawn = torch.randint(0, 3, shape, generator=source) * 8 + 0x30
        bytes_ = (drawn if exact else torch.randint(0x08, 0x7F, shape, generator=source)).to(torch.uint8)
        scale = bytes_.view(torch.float8_e4m3fn)
    scales = decode(bytes_, scale_kind).repeat_interleave(vec, 1)
    elements = (decode(codes, element) * scales).float().double()  # as float32 holds it
    return Scaled(data, scale, elements, torch.ones(1, 1, dtype=torch.float64))


def of_float32_scales(name: str, rows: int, k: int, exact: bool) -> Scaled:
    dtype_name, granularity = name.split("_")
    source = source_of(name, rows, k, exact)
    if exact or dtype_name == "int8":
        limit = 3 if exact else 127
        drawn = torch.randint(-limit, limit + 1, (rows, k), generator=source).float()
    else:
        drawn = torch.randn(rows, k, generator=source) * 30
    data = drawn.to(FLOAT32_SCALED[dtype_name])
    shape = float32_scale_shape(granularity, rows, k)
    exponents = torch.randint(-2, 3, shape, generator=source).float()
    scale = torch.exp2(exponents) if exact else torch.rand(shape, generator=source) + 0.5
    signs = torch.randint(0, 2, shape, generator=source) * 2 - 1
    scale = scale * signs
    flat = scale.reshape(1, 1) if scale.dim() == 0 else scale
    return Scaled(data, scale, data.double(), spread(flat, rows, k).double())


def make(name: str, rows: int, k: int, exact: bool = False) -> Scaled:
    """`float16`, `mxfp4`, `e4m3_row`, `int8_tensor` and so on. exact: sums of such operands are exact in float32."""
    of: Callable[[str, int, int, bool], Scaled] = (
        numbers if name in NUMBERS else of_byte_scales if name in BYTE_SCALES else of_float32_scales
    )
    return of(name, rows, k, exact)


def pair(
    a_name: str, weight: str, m: int, n: int, k: int, gpu: torch.device, exact: bool = True
) -> tuple[Scaled, Scaled]:
    return make(a_name, m, k, exact).to(gpu), make(weight, n, k, exact).to(gpu)


def packed(b: Scaled) -> Scaled:
    """The same scales in blocks, NaN in the padding."""
    assert b.scale is not None
    return replace(b, scale=pack_scales(b.scale.view(torch.uint8).cpu()).to(b.data.device).view(b.scale.dtype))


def of_bytes(b: Scaled, weight: str, scales: Tensor) -> Scaled:
    """The weight under other scales, which count as float32 holds them times an element."""
    assert b.scale is not None
    kind, vec = BYTE_SCALES[weight][1:]
    old, new = (decode(bytes_, kind).repeat_interleave(vec, 1) for bytes_ in (b.scale.view(torch.uint8), scales))
    return replace(b, scale=scales.view(b.scale.dtype), elements=(b.elements / old * new).float().double())


def multiply(a: Scaled, b: Scaled, *others: Tensor | None, **options: object) -> Tensor:
    result: Tensor = torch.ops.tileon.block_scaled_matmul(a.data, b.data, a.scale, b.scale, *others, **options)
    return result


def expected(
    a: Scaled,
    b: Scaled,
    bias: Tensor | None = None,
    global_scale: Tensor | None = None,
    *,
    out_dtype: torch.dtype,
    activation: str = "none",
    slope: float = 0.01,
    bound: float | None = None,
) -> Expected:
    """activation(global_scale * a @ b^T + bias) with the error that docs/operands.md allows; exact where bound is 0."""
    k = a.elements.shape[1]
    is_fp8 = a.scale is not None and a.data.dtype in (torch.float8_e4m3fn, torch.float8_e5m2)
    of_fp8 = 2.0**-12 if is_fp8 and b.data.dtype in (torch.float8_e4m3fn, torch.float8_e5m2) else 0.0
    bound = documented_bound(k) + k / 8 * 2.0**-23 + of_fp8 if bound is None else bound
    wide_a, wide_b = a.values(), b.values()
    value, error = wide_a @ wide_b.t(), bound * (wide_a.abs() @ wide_b.abs().t())
    error = torch.where(value.isfinite(), error, 0.0) + (k * SMALLEST_FLOAT32 if bound > 0 else 0.0)
    if global_scale is not None:
        factor = global_scale.double().reshape(-1, 1)
        value, error = value * factor, error * factor.abs()
        error = error + 2.0**-24 * value.abs()
    if bias is not None:
        value = value + bias.double()
        error = error + 2.0**-24 * value.abs()
    before, value = value, activate(value, activation, slope)
    if activation != "none":
        error = activation_gain(activation, slope) * error + 8.0 * 2.0**-24 * before.abs() + SMALLEST_FLOAT32
    return Expected(value, error, out_dtype)


def assert_stays_in_its_row(product: Callable[[Scaled], Tensor], a: Scaled, b: Scaled, clean: Tensor) -> None:
    """Of `product`, a function of a: an infinite element or NaN of a row of numbers reaches that row alone; `clean` is
    the product without one."""
    row, column = a.data.shape[0] - 2, a.data.shape[1] // 2 + 3
    for value in (float("inf"), float("nan")):
        data = a.data.clone()
        data[row, column] = value
        actual = product(replace(a, data=data))
        wanted = data[row].double() @ b.values().t()
        torch.testing.assert_close(actual[row].double(), wanted, rtol=0, atol=0, equal_nan=True)
        others = [each for each in range(a.data.shape[0]) if each != row]
        assert torch.equal(actual[others], clean[others])
