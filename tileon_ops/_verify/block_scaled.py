"""The cases of `tileon_ops.verify` for block-scaled products and for quantizing, against plain torch in float32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_TOLERANCE = 1e-3  # absolute and relative: the tutorial's own


@dataclass(frozen=True)
class Operand:
    """Codes and 2-D scales, and what they stand for in float32."""

    data: Tensor
    scale: Tensor
    values: Tensor


def _generator(device: torch.device, seed: int) -> torch.Generator:
    return torch.Generator(device=device).manual_seed(seed)


def _decoded(data: Tensor) -> Tensor:
    if data.dtype == torch.float8_e4m3fn:
        return data.float()
    codes = torch.stack((data & 15, data >> 4), dim=-1).flatten(-2).int()
    table = torch.tensor((*_E2M1, *(-value for value in _E2M1)), device=data.device)
    return table[codes]


def _scales(scale: Tensor) -> Tensor:
    if scale.dtype == torch.float8_e4m3fn:
        return scale.float()
    return torch.exp2(scale.view(torch.uint8).float() - 127)


def _dequantized(data: Tensor, scale: Tensor) -> Tensor:
    values = _decoded(data)
    vec = values.shape[1] // scale.shape[1]
    return values * _scales(scale).repeat_interleave(vec, dim=1)


def _operand(fp4: bool, nvfp4: bool, rows: int, k: int, device: torch.device, seed: int) -> Operand:
    """The tutorial's: random codes under scales that are uniform in (0, 1), rounded to the scales' dtype."""
    generator = _generator(device, seed)
    if fp4:
        data = torch.randint(0, 256, (rows, k // 2), generator=generator, device=device, dtype=torch.uint8)
    else:
        data = torch.randn(rows, k, generator=generator, device=device).to(torch.float8_e4m3fn)
    uniform = torch.rand(rows, k // (16 if nvfp4 else 32), generator=generator, device=device) + 1e-8
    if nvfp4:
        scale = uniform.to(torch.float8_e4m3fn)
    else:
        scale = (torch.round(torch.log2(uniform)) + 127).clamp(0, 254).to(torch.uint8)
    return Operand(data, scale, _dequantized(data, scale))


# Of a block's largest magnitude: half a step of the largest codes; under a scale that is rounded down the largest
# numbers saturate, those from 6 to 8 at 6 and those from 448 to 512 at 448. nvfp4's scale has steps of its own, of up
# to 1/16.
_QUANTIZED = {"nvfp4": 1 / 6 + 1 / 16, "mxfp4": 1 / 4, "mxfp8": 1 / 8}

_FORMATS = {"nvfp4": (True, True), "mxfp4": (True, True), "mxfp8": (False, False), "mixed": (False, True)}


def _product(fmt: str, m: int, n: int, k: int, packed: bool, device: torch.device) -> tuple[float, str, bool]:
    a_fp4, b_fp4 = _FORMATS[fmt]
    a = _operand(a_fp4, fmt == "nvfp4", m, k, device, 0)
    b = _operand(b_fp4, fmt == "nvfp4", n, k, device, 1)
    scales = [torch.ops.tileon.pack_scales(x.scale) if packed else x.scale for x in (a, b)]
    bias = torch.randn(n, generator=_generator(device, 2), device=device)
    options = {"activation": "leaky_relu", "slope": 0.2, "out_dtype": torch.float32}
    actual = torch.ops.tileon.block_scaled_matmul(a.data, b.data, *scales, bias, **options)
    kernel = str(torch.ops.tileon._last_kernel())
    expected = F.leaky_relu(a.values @ b.values.T + bias, 0.2)
    error = (actual - expected).abs().max().item()
    return error, kernel, torch.allclose(actual, expected, rtol=_TOLERANCE, atol=_TOLERANCE)


def _quantized(fmt: str, device: torch.device) -> tuple[float, str, bool]:
    """Every number comes back as near as its block's scale allows."""
    x = torch.randn(300, 480, generator=_generator(device, 3), device=device)
    data, scale = torch.ops.tileon.quantize(x, fmt)
    kernel = str(torch.ops.tileon._last_kernel())
    vec = 16 if fmt == "nvfp4" else 32
    back = _dequantized(data, torch.ops.tileon.unpack_scales(scale, 300, 480 // vec))
    amax = x.abs().reshape(300, -1, vec).amax(2).repeat_interleave(vec, dim=1)
    error = ((back - x).abs() / amax).max().item()
    return error, kernel, error <= _QUANTIZED[fmt]


# Half a step of the largest codes, of the block's largest magnitude.
_FLOAT32_SCALED = {
    **dict.fromkeys(("fp8_tensor", "fp8_row", "fp8_1x128", "fp8_128x128"), 1 / 28),
    **dict.fromkeys(("int8_row", "int8_tensor"), 1 / 254),
}


def _spread(scale: Tensor, fmt: str, shape: torch.Size) -> Tensor:
    """The float32 scale of each element."""
    if fmt.endswith("128"):
        scale = scale.repeat_interleave(128, dim=1)[:, : shape[1]]
        scale = scale.repeat_interleave(128, dim=0)[: shape[0]] if fmt == "fp8_128x128" else scale
    return scale.expand(shape)


def _float32_scaled(fmt: str, device: torch.device) -> Iterator[tuple[str, float, str, bool]]:
    """quantize brings every number as near as its block's scale allows, and dequantize gives the very numbers."""
    x = torch.randn(300, 477, generator=_generator(device, 3), device=device)
    data, scale = torch.ops.tileon.quantize(x, fmt)
    kernel = str(torch.ops.tileon._last_kernel())
    scales = _spread(scale, fmt, x.shape)
    expected = data.float() * scales
    largest = scales * (127 if fmt.startswith("int8") else 448)
    error = ((expected - x).abs() / largest).max().item()
    yield "quantize 300x477", error, kernel, error <= _FLOAT32_SCALED[fmt] * 1.0001
    actual = torch.ops.tileon.dequantize(data, scale, fmt)
    kernel = str(torch.ops.tileon._last_kernel())
    yield "dequantize 300x477", (actual - expected).abs().max().item(), kernel, torch.equal(actual, expected)


def _same(fmt: str, device: torch.device) -> tuple[float, str, bool]:
    """dequantize gives the very numbers."""
    operand = _operand(fmt != "mxfp8", fmt == "nvfp4", 300, 480, device, 4)
    actual = torch.ops.tileon.dequantize(operand.data, torch.ops.tileon.pack_scales(operand.scale), fmt)
    kernel = str(torch.ops.tileon._last_kernel())
    error = (actual - operand.values).abs().max().item()
    return error, kernel, torch.equal(actual, operand.values)


def rows(device: torch.device) -> Iterator[tuple[str, str, float, str, str, bool]]:
    """Case, format, largest error, tolerance, kernel, and whether it passes."""
    tolerance = f"{_TOLERANCE:g} + {_TOLERANCE:g} |x|"
    for fmt in _FORMATS:
        for m, n, k, packed in ((512, 512, 512, True), (512, 512, 512, False), (129, 77, 416, True)):
            name = f"block-scaled ({m}x{k}) x ({k}x{n}) bias + leaky_relu, {'packed' if packed else '2-D'} scales"
            error, kernel, good = _product(fmt, m, n, k, packed, device)
            yield name, fmt, error, tolerance, kernel, good
    for fmt in ("nvfp4", "mxfp4", "mxfp8"):
        error, kernel, good = _quantized(fmt, device)
        yield "quantize 300x480", fmt, error, f"{_QUANTIZED[fmt]:.3g} of the largest", kernel, good
        error, kernel, good = _same(fmt, device)
        yield "dequantize 300x480", fmt, error, "0", kernel, good
    for fmt, bound in _FLOAT32_SCALED.items():
        for case, error, kernel, good in _float32_scaled(fmt, device):
            tolerance = f"{bound:.3g} of the largest" if case.startswith("quantize") else "0"
            yield case, fmt, error, tolerance, kernel, good
