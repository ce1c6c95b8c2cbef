"""The cases of `tileon_ops.verify` for products of a 16-bit `a`, and of float32 scales, against torch in float32."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from tileon_ops._verify.block_scaled import Operand, random_operand, random_source, spread

_BLOCK = 128  # rows, and elements along k, of a block with a float32 scale

# Of fp8 in both operands, whose sums tensor cores cut (docs/fp8_error.md); of all else.
_FP8_ATOL, _ATOL, _RTOL = 0.125, 1e-3, 1e-3

# Kinds of operands, named as the tuner names them.
_WEIGHTS = ("nvfp4", "mxfp4", "mxfp8", "float8_e4m3fn_row", "float8_e4m3fn_128x128", "float8_e5m2_1x128", "int8_row")
_PAIRS = (
    ("float8_e4m3fn_tensor", "float8_e4m3fn_tensor"),
    ("float8_e4m3fn_row", "float8_e5m2_row"),
    ("float8_e4m3fn_1x128", "float8_e4m3fn_128x128"),
    ("int8_row", "int8_row"),
)
_SHAPES = ((512, 512, 512), (129, 77, 416))  # (m, n, k); the second is divided by no tile


def _float32_scaled(name: str, rows: int, k: int, device: torch.device, seed: int) -> Operand:
    """Normal elements under scales that are uniform in (0, 1); int8 elements of up to 127 under smaller ones."""
    element, _, unit = name.rpartition("_")
    source = random_source(device, seed)
    values = torch.randn(rows, k, generator=source, device=device)
    blocks, k_blocks = -(-rows // _BLOCK), -(-k // _BLOCK)
    shapes = {"tensor": (), "row": (rows, 1), "1x128": (rows, k_blocks), "128x128": (blocks, k_blocks)}
    scale = torch.rand(shapes[unit], generator=source, device=device) + 1e-3
    if element == "int8":
        values, scale = (values * 40).round().clamp(-127, 127), scale / 40
    data = values.to(getattr(torch, element))
    return Operand(data, scale, data.float() * spread(scale, name, (rows, k)))


def _operand(name: str, rows: int, k: int, device: torch.device, seed: int) -> Operand:
    if "_" in name:
        return _float32_scaled(name, rows, k, device, seed)
    return random_operand(name != "mxfp8", name == "nvfp4", rows, k, device, seed)


def _compared(
    a: Tensor, values: Tensor, scale_a: Tensor | None, b: Operand, atol: float, factor: Tensor | None
) -> tuple[float, str, bool]:
    bias = torch.randn(b.data.shape[0], generator=random_source(a.device, 2), device=a.device)
    options = {"activation": "leaky_relu", "slope": 0.2, "out_dtype": torch.float32}
    actual = torch.ops.tileon.block_scaled_matmul(a, b.data, scale_a, b.scale, bias, factor, **options)
    kernel = str(torch.ops.tileon._last_kernel())
    product = values @ b.values.T
    expected = F.leaky_relu((product if factor is None else product * factor) + bias, 0.2)
    error = (actual - expected).abs().max().item()
    return error, kernel, torch.allclose(actual, expected, rtol=_RTOL, atol=atol)


def rows(device: torch.device) -> Iterator[tuple[str, str, float, str, str, bool]]:
    """Case, operands, largest error, tolerance, kernel, and whether it passes."""
    for m, n, k in _SHAPES:
        case = f"({m}x{k}) x ({k}x{n}) bias + leaky_relu"
        for name in _WEIGHTS:
            for dtype in (torch.float16, torch.bfloat16):
                a = torch.randn(m, k, generator=random_source(device, 0), device=device).to(dtype)
                b = _operand(name, n, k, device, 1)
                kind = f"{str(dtype).removeprefix('torch.')}*{name}"
                found = _compared(a, a.float(), None, b, _ATOL, None)
                yield f"weight alone scaled {case}", kind, found[0], f"{_ATOL:g} + {_RTOL:g} |x|", *found[1:]
        for names in _PAIRS:
            scaled, b = (
                _operand(name, size, k, device, i) for i, (name, size) in enumerate(zip(names, (m, n), strict=True))
            )
            factor = torch.rand(m, 1, generator=random_source(device, 3), device=device)
            atol = _ATOL if names[0].startswith("int8") else _FP8_ATOL
            found = _compared(scaled.data, scaled.values, scaled.scale, b, atol, factor)
            kind = names[0] if names[0] == names[1] else "*".join(names)
            yield f"global scale a row, {case}", kind, found[0], f"{atol:g} + {_RTOL:g} |x|", *found[1:]
