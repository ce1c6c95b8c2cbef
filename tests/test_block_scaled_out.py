"""`block_scaled_matmul.out`: an output of any strides, and nothing outside it; the same through the wrapper."""

from __future__ import annotations

import pytest
import torch
from block_scaled_operands import Format, Operand, each_format, multiply, quantized_normal, small_integers
from block_scaled_reference import assert_product, expected, product
from operands import place
from test_out import OUTPUTS
from torch import Tensor

import tileon_ops

E4M3 = torch.float8_e4m3fn
OUT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, E4M3)


def multiply_into(out: Tensor, a: Operand, b: Operand, *tail: Tensor | None, **options: object) -> None:
    result = torch.ops.tileon.block_scaled_matmul.out(
        a.data(), b.data(), a.scale_tensor("packed"), b.scale_tensor(), *tail, out=out, **options
    )
    assert result is None


@each_format
@pytest.mark.parametrize("out_dtype", OUT_DTYPES, ids=str)
def test_writes_the_view_and_nothing_else(device: torch.device, out_dtype: torch.dtype, fmt: Format) -> None:
    """Surrounded by NaNs that must stay, filled with NaNs that must go."""
    for m, n, k in ((1, 1, 32), (64, 64, 32), (65, 67, 96), (130, 129, 0), (3, 200, 64), (200, 3, 64)):
        a, b = small_integers(fmt, "a", m, k).to(device), small_integers(fmt, "b", n, k, seed=1).to(device)
        bias = torch.arange(n, dtype=torch.float32, device=device)
        wanted = expected(product(a, b), bias, activation="relu", out_dtype=out_dtype)
        for name, make in OUTPUTS.items():
            out = make(torch.full((m, n), float("nan"), dtype=out_dtype, device=device))
            multiply_into(out.view, a, b, bias, activation="relu", out_dtype=out_dtype)
            assert_product(out.view, wanted, f"{m}x{n}x{k}, {name}")
            assert out.margin_is_intact(), f"{m}x{n}x{k}, {name}: something outside out was written"


@each_format
def test_gives_the_bits_of_the_functional_form(device: torch.device, fmt: Format) -> None:
    a = quantized_normal(fmt, "a", 129, 320).to(device)
    b = quantized_normal(fmt, "b", 130, 320, seed=1).to(device)
    factor = torch.tensor([0.37], device=device)
    for out_dtype in OUT_DTYPES:
        out = torch.empty(129, 130, dtype=out_dtype, device=device)
        options = {"activation": "gelu", "out_dtype": out_dtype}
        multiply_into(out, a, b, None, factor, **options)
        functional = multiply(a, b, None, factor, forms=("packed", "2d"), **options)
        assert torch.equal(out.view(torch.uint8), functional.view(torch.uint8)), out_dtype


@each_format
def test_of_no_elements(device: torch.device, fmt: Format) -> None:
    for m, n, k in ((0, 5, 64), (5, 0, 64), (0, 0, 0)):
        a, b = small_integers(fmt, "a", m, k).to(device), small_integers(fmt, "b", n, k).to(device)
        out = place(torch.full((m, n), float("nan"), dtype=torch.float16, device=device))
        multiply_into(out.view, a, b)
        assert out.margin_is_intact()


def test_may_lie_in_the_same_storage_apart_from_the_inputs(device: torch.device) -> None:
    """Right behind the data of a, right before that of b: no byte in common."""
    storage = torch.full((3, 64 * 64), 0x38, dtype=torch.uint8, device=device).view(E4M3)
    a, out, b = (part.view(64, 64) for part in storage)
    ones = torch.full((64, 2), 127, dtype=torch.uint8, device=device)
    torch.ops.tileon.block_scaled_matmul.out(a, b, ones, ones, out_dtype=E4M3, out=out)
    assert bool((out.float() == 64).all())
    assert bool((a.float() == 1).all())
    assert bool((b.float() == 1).all())


def test_bumps_the_version(device: torch.device) -> None:
    a = torch.full((4, 32), 0x38, dtype=torch.uint8, device=device).view(E4M3)
    ones, out = torch.full((4, 1), 127, dtype=torch.uint8, device=device), torch.empty(4, 4, device=device)
    version = out._version
    torch.ops.tileon.block_scaled_matmul.out(a, a, ones, ones, out_dtype=torch.float32, out=out)
    assert out._version > version


class TestWrapper:
    @each_format
    def test_gives_the_bits_of_the_op(self, device: torch.device, fmt: Format) -> None:
        a = quantized_normal(fmt, "a", 65, 160).to(device)
        b = quantized_normal(fmt, "b", 67, 160, seed=1).to(device)
        bias, factor = torch.arange(67.0, device=device), torch.tensor(0.37, device=device)
        tensors = (a.data(), b.data(), a.scale_tensor("packed"), b.scale_tensor(), bias, factor)
        options = {"activation": "leaky_relu", "slope": 0.3, "out_dtype": torch.float32, "fast_accum": False}
        wanted = multiply(a, b, bias, factor, forms=("packed", "2d"), **options)
        assert torch.equal(tileon_ops.block_scaled_matmul(*tensors, **options), wanted)
        assert torch.equal(tileon_ops.block_scaled_matmul(*tensors[:4]), multiply(a, b, forms=("packed", "2d")))

    def test_returns_out(self, device: torch.device) -> None:
        a = torch.full((4, 32), 0x38, dtype=torch.uint8, device=device).view(E4M3)
        ones, out = torch.full((4, 1), 127, dtype=torch.uint8, device=device), torch.empty(4, 4, device=device)
        result = tileon_ops.block_scaled_matmul(a, a, ones, ones, out_dtype=torch.float32, out=out)
        assert result is out
        assert bool((out == 32).all())

    def test_refuses_as_the_op_does(self, device: torch.device) -> None:
        a = torch.ones(4, 32, device=device).to(E4M3)
        ones, out = torch.ones(4, 1, dtype=torch.uint8, device=device), torch.ones(4, 4, device=device)
        for bad in ({"activation": "swish"}, {"out_dtype": torch.float64}, {"out": out}):
            with pytest.raises(RuntimeError, match=r"^block_scaled_matmul: `"):
                tileon_ops.block_scaled_matmul(a, a, ones, ones, **bad)
        assert bool((out == 1).all())
