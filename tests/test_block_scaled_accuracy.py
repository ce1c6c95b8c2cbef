"""`block_scaled_matmul` on random data: against float64, against the tutorial's own check, element by element."""

from __future__ import annotations

import pytest
import torch
from block_scaled_operands import (
    FORMATS,
    Format,
    Operand,
    each_format,
    multiply,
    quantized_normal,
    random_codes,
    tutorial,
)
from block_scaled_reference import (
    assert_product,
    dequantize,
    documented_bound,
    expected,
    product,
    signal_to_noise,
)

OUT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn)
FAST_ACCUM_LOSS = 2.0**-12  # of such data; fp8_sums.py has the bound


def size(device: torch.device) -> tuple[int, int, tuple[int, ...]]:
    """m, n and the sizes of k."""
    return (500, 700, (64, 1056, 8192)) if device.type == "cuda" else (130, 200, (64, 1056, 4096))


def signal(device: torch.device, a: Operand, b: Operand) -> float:
    a, b = a.to(device), b.to(device)
    actual = multiply(a, b, forms=("packed", "packed"), out_dtype=torch.float32)
    return signal_to_noise(actual, product(a, b).value)


@each_format
def test_120_db_on_normal_data(device: torch.device, fmt: Format) -> None:
    m, n, k_sizes = size(device)
    for k in k_sizes:
        found = signal(device, quantized_normal(fmt, "a", m, k), quantized_normal(fmt, "b", n, k, seed=1))
        assert found >= 120, f"{found:.1f} dB at k {k}"


@each_format
def test_100_db_on_the_tutorials_data(device: torch.device, fmt: Format) -> None:
    m, n, k_sizes = size(device)
    for k in k_sizes:
        for name, make in (("fp4 values", tutorial), ("all finite codes", random_codes)):
            found = signal(device, make(fmt, "a", m, k), make(fmt, "b", n, k))
            assert found >= 100, f"{name}: {found:.1f} dB at k {k}"


@each_format
def test_the_tutorials_own_check(device: torch.device, fmt: Format) -> None:
    m, n, k = (1024, 512, 2048) if device.type == "cuda" else (256, 128, 512)
    a, b = tutorial(fmt, "a", m, k).to(device), tutorial(fmt, "b", n, k).to(device)
    reference = torch.matmul(dequantize(a).float(), dequantize(b).float().t())
    for out_dtype in (torch.float16, torch.float32):
        actual = multiply(a, b, forms=("packed", "packed"), out_dtype=out_dtype)
        torch.testing.assert_close(actual.float(), reference, atol=1e-3, rtol=1e-3)


@each_format
@pytest.mark.parametrize("out_dtype", OUT_DTYPES, ids=str)
def test_every_element_is_within_the_bound(device: torch.device, out_dtype: torch.dtype, fmt: Format) -> None:
    """Normal data, and sums of one sign's size that only a right rounding to the output's dtype passes."""
    for m, n, k in ((130, 67, 1056), (33, 257, 64), (5, 6, 8192)):
        a = quantized_normal(fmt, "a", m, k).to(device)
        b = quantized_normal(fmt, "b", n, k, seed=1).to(device)
        wanted = expected(product(a, b), out_dtype=out_dtype, bound=documented_bound(k))
        assert_product(multiply(a, b, out_dtype=out_dtype), wanted, f"{m}x{n}x{k}")


@each_format
def test_fast_accum_keeps_12_bits(device: torch.device, fmt: Format) -> None:
    for m, n, k in ((130, 67, 1056), (128, 256, 4096)):
        a = quantized_normal(fmt, "a", m, k).to(device)
        b = quantized_normal(fmt, "b", n, k, seed=1).to(device)
        actual = multiply(a, b, out_dtype=torch.float32, fast_accum=True)
        assert_product(actual, expected(product(a, b), out_dtype=torch.float32, bound=FAST_ACCUM_LOSS))


def test_signal_to_noise_knows_20_db() -> None:
    exact = torch.full((4, 4), 10.0, dtype=torch.float64)
    assert abs(signal_to_noise(exact + 1, exact) - 20) < 1e-9
    assert len(FORMATS) == 5
