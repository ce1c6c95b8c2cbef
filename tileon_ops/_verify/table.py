"""Every op against torch's own result, as a table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tileon_ops._rules import configs
from tileon_ops._rules.activations import ACTIVATIONS, activate
from tileon_ops._verify import block_scaled, scaled_operands


@dataclass(frozen=True)
class Case:
    """One product, and how close to torch's result it must come.

    Operands are uniform in [-0.5, 0.5); those of fp8 are normal, rounded from float16, and torch multiplies them in
    float16.
    """

    name: str
    dtype: torch.dtype
    atol: float
    rtol: float = 0.0
    a_shape: tuple[int, ...] = (512, 512)
    b_shape: tuple[int, ...] = (512, 512)
    layout: str = "NN"  # T: a transposed view of a contiguous tensor
    bias: bool = False
    activation: str = "none"
    slope: float = 0.01
    out_dtype: torch.dtype | None = None
    b_dtype: torch.dtype | None = None  # where it is not `dtype`

    @property
    def is_fp8(self) -> bool:
        return self.dtype in _FP8

    @property
    def dtype_name(self) -> str:
        dtypes = (self.dtype,) if self.b_dtype is None else (self.dtype, self.b_dtype)
        return " x ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)


_FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)
_FP8_ATOL = 0.125  # the tutorial's: two roundings to float16 of sums below 256

# dtype: (atol, rtol) where torch may round a 16-bit result the other way
_TOLERANCES = {
    torch.float16: (1e-2, 2.0**-10),
    torch.bfloat16: (1e-2, 2.0**-7),
    torch.float32: (1e-3, 0.0),
    torch.float64: (1e-10, 0.0),
}

# Sizes that no tile divides, one of them below every tile.
_ODD_SHAPES = (((1, 1), (1, 1)), ((37, 53), (53, 41)), ((129, 257), (257, 131)), ((1000, 333), (333, 777)))


def _cases() -> Iterator[Case]:
    """The cases of the tutorials that this project follows, then what else the op offers."""
    yield Case("(512x256) x (256x512)", torch.float32, 1e-3, a_shape=(512, 256), b_shape=(256, 512))
    yield Case("512x512", torch.float16, 1e-2)
    yield Case("512x512 leaky_relu", torch.float16, 1e-2, activation="leaky_relu")
    yield Case("512x512 NT", torch.float8_e5m2, _FP8_ATOL, layout="NT")
    yield from _fp8_cases()
    for dtype, (atol, rtol) in _TOLERANCES.items():
        yield Case("512x512 bias", dtype, atol, rtol, bias=True)
        yield Case("512x512 bias + leaky_relu 0.2", dtype, atol, rtol, bias=True, activation="leaky_relu", slope=0.2)
        for layout in ("NN", "NT", "TN", "TT"):
            yield Case(f"(256x384) x (384x320) {layout}", dtype, atol, rtol, (256, 384), (384, 320), layout)
        for a_shape, b_shape in _ODD_SHAPES:
            name = f"({a_shape[0]}x{a_shape[1]}) x ({b_shape[0]}x{b_shape[1]})"
            yield Case(name, dtype, atol, rtol, a_shape=a_shape, b_shape=b_shape)
        yield Case("batch of 5 (65x96) x (96x130)", dtype, atol, rtol, (5, 65, 96), (5, 96, 130))
        yield Case("batch of 5 (65x96) x shared (96x130)", dtype, atol, rtol, (5, 65, 96), (96, 130))
    for activation, row in ACTIVATIONS.items():
        if activation != "none" and not row.has_slope:
            yield Case(f"512x512 bias + {activation}", torch.float32, 1e-3, bias=True, activation=activation)
    yield Case("512x512 to float32", torch.float16, 1e-3, out_dtype=torch.float32)
    yield Case("512x512 to float32", torch.bfloat16, 1e-3, out_dtype=torch.float32)
    yield Case("512x512 to bfloat16", torch.float32, *_TOLERANCES[torch.bfloat16], out_dtype=torch.bfloat16)


def _fp8_cases() -> Iterator[Case]:
    e4m3, e5m2 = _FP8
    for dtype, other in ((e4m3, None), (e4m3, e5m2), (e5m2, e4m3)):
        yield Case("512x512 NT", dtype, _FP8_ATOL, layout="NT", b_dtype=other)
    for dtype in _FP8:
        yield Case("512x512 NN bias + leaky_relu", dtype, _FP8_ATOL, bias=True, activation="leaky_relu")
        for a_shape, b_shape in _ODD_SHAPES:
            name = f"({a_shape[0]}x{a_shape[1]}) x ({b_shape[0]}x{b_shape[1]})"
            yield Case(name, dtype, _FP8_ATOL, a_shape=a_shape, b_shape=b_shape)
        yield Case("512x512 NT to float32", dtype, _FP8_ATOL, layout="NT", out_dtype=torch.float32)


def _operand(shape: tuple[int, ...], dtype: torch.dtype, letter: str, device: torch.device, seed: int) -> Tensor:
    generator = torch.Generator(device=device).manual_seed(seed)
    stored = shape if letter == "N" else (*shape[:-2], shape[-1], shape[-2])
    if dtype in _FP8:
        values = torch.randn(stored, generator=generator, device=device).half()
    else:
        values = torch.rand(stored, generator=generator, device=device) - 0.5
    values = values.to(dtype)
    return values if letter == "N" else values.mT


def _run(case: Case, device: torch.device) -> tuple[float, str, bool]:
    """The largest error, the kernel that ran, and whether torch.allclose holds."""
    narrow = torch.float16 if case.is_fp8 else case.dtype
    a = _operand(case.a_shape, case.dtype, case.layout[0], device, 0)
    b = _operand(case.b_shape, case.b_dtype or case.dtype, case.layout[1], device, 1)
    bias = _operand(case.b_shape[-1:], narrow, "N", device, 2) if case.bias else None
    actual = torch.ops.tileon.matmul(a, b, bias, activation=case.activation, slope=case.slope, out_dtype=case.out_dtype)
    kernel = torch.ops.tileon._last_kernel()
    wide = torch.float32 if case.out_dtype == torch.float32 else narrow
    expected = torch.matmul(a.to(wide), b.to(wide))
    if bias is not None:
        expected = expected + bias
    expected = activate(expected, case.activation, case.slope).to(actual.dtype)
    error = (actual.double() - expected.double()).abs().max().item()
    return error, kernel, torch.allclose(actual, expected, rtol=case.rtol, atol=case.atol)


def default_device() -> torch.device:
    """The GPU where the library has kernels for it, else the CPU."""
    usable = bool(configs.dense()) and torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
    return torch.device("cuda" if usable else "cpu")


def verify(device: torch.device | str | None = None) -> bool:
    """Runs every op against torch's own result and prints a table, a line for each case.

    Args:
        device: where to run; None is the GPU where it can be used, else the CPU.

    Returns:
        Whether every case is within its tolerance.
    """
    device = default_device() if device is None else torch.device(device)
    header = ("case", "dtype", "largest error", "tolerance", "kernel", "")
    rows = []
    # torch's float32 products must be IEEE to be compared with
    precision = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    try:
        with torch.inference_mode():
            for case in _cases():
                error, kernel, good = _run(case, device)
                tolerance = f"{case.atol:g}" + (f" + 2^{round(math.log2(case.rtol))} |x|" if case.rtol else "")
                rows.append((case.name, case.dtype_name, f"{error:.2e}", tolerance, kernel, "pass" if good else "FAIL"))
            scaled = itertools.chain(block_scaled.rows(device), scaled_operands.rows(device))
            for name, fmt, error, tolerance, kernel, good in scaled:
                rows.append((name, fmt, f"{error:.2e}", tolerance, kernel, "pass" if good else "FAIL"))
    finally:
        torch.backends.cuda.matmul.fp32_precision = precision

    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    for row in (header, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    failed = sum(row[-1] == "FAIL" for row in rows)
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
    print(f"{len(rows) - failed} of {len(rows)} cases pass on {where}, torch {torch.__version__}")
    return failed == 0
