"""Who computes a random product: `tileon` and `torch`, each a call without arguments on the same operands.

`tileon` is torch.ops.tileon.matmul or block_scaled_matmul, epilogue included. `torch` is what its user would write:
- a matrix product with torch.matmul or, with a bias, torch.addmm (dense.py); of a batch torch.matmul, and the bias
  is added in place behind it; the activation follows, in place where torch has it so;
- fp8 with torch._scaled_mm where that takes the operands, else torch.matmul on operands that were bfloat16 beforehand:
  the conversion is not timed;
- block-scaled operands are dequantized to bfloat16, by one compiled kernel each on a GPU, and multiplied by F.linear:
  the dequantization is timed, for the operands are in memory as the format has them.
Of fp8 and block-scaled operands ours is float16, and torch's bfloat16 where that is what it multiplies: as many bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F

import tileon_ops  # noqa: F401  (registers torch.ops.tileon)
from benchmarks.common.block_scaled_cases import BlockScaledOperands, dequantized
from benchmarks.common.block_scaled_cases import make_operands as make_block_scaled_operands
from benchmarks.common.cases import SLOPE, Operands
from benchmarks.measure.peers.dense import Call, NotOffered, scaled_mm_call, tileon_call, torch_call
from benchmarks.measure.random_shapes_draw import Product
from tileon_ops._rules.activations import activate

PROVIDERS = ("tileon", "torch")

_IN_PLACE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu_,
    "leaky_relu": lambda x: F.leaky_relu_(x, SLOPE),
    "silu": lambda x: F.silu(x, inplace=True),
}


def calls(product: Product, device: torch.device, seed: int = 0) -> dict[str, Call]:
    """The call of each provider, on the same random operands, normal ones (of block-scaled formats quantized).

    Raises:
        NotOffered: TF32 where there is no GPU.
    """
    generator = torch.Generator(device=device).manual_seed(seed)
    bias = torch.randn(product.n, generator=generator, device=device) if product.has_bias else None
    if product.is_block_scaled:
        operands = make_block_scaled_operands(product.block_scaled_case, device, seed)
        return {
            "tileon": _block_scaled_tileon_call(product, operands, bias),
            "torch": _block_scaled_torch_call(product, operands, bias),
        }
    dense = _make_operands(product, generator, bias)
    return {"tileon": tileon_call(product.case, dense), "torch": _torch_call(product, dense)}


def _make_operands(product: Product, generator: torch.Generator, bias: torch.Tensor | None) -> Operands:
    """As problems.make_operands, with a batch."""
    case = product.case
    drawn = torch.float64 if case.dtype == "float64" else torch.float32

    def matrix(rows: int, columns: int, letter: str, dtype: torch.dtype) -> torch.Tensor:
        lines = (rows, columns) if letter == "N" else (columns, rows)
        shape = (product.batch, *lines) if product.batch > 1 else lines
        values = torch.randn(shape, generator=generator, device=generator.device, dtype=drawn).to(dtype)
        return values if letter == "N" else values.mT

    dtype_a, dtype_b = case.torch_dtypes
    return Operands(
        a=matrix(case.m, case.k, case.layout[0], dtype_a),
        b=matrix(case.k, case.n, case.layout[1], dtype_b),
        bias=None if bias is None else bias.to(case.out_dtype),
    )


def _torch_call(product: Product, operands: Operands) -> Call:
    if product.case.is_fp8:
        return _fp8_torch_call(product, operands)
    if product.batch > 1 and operands.bias is not None:
        return _batch_call(product, operands.a, operands.b, operands.bias)
    return torch_call(product.case, operands)


def _fp8_torch_call(product: Product, operands: Operands) -> Call:
    """`torch._scaled_mm`, or the product of what was bfloat16 beforehand."""
    if product.batch == 1:
        try:
            call = scaled_mm_call(product.case, operands, fast_accum=False)
            call()
        except torch.OutOfMemoryError:
            raise
        except (NotOffered, RuntimeError):  # cuBLAS says for itself which small shapes it has no kernel for
            pass
        else:
            return call
    bias = None if operands.bias is None else operands.bias.to(torch.bfloat16)
    wide = Operands(operands.a.to(torch.bfloat16), operands.b.to(torch.bfloat16), bias)
    return _torch_call(replace(product, dtype="bfloat16"), wide)


def _batch_call(product: Product, a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> Call:
    activation = product.activation
    return lambda: _activated(torch.matmul(a, b).add_(bias), activation)


def _activated(x: torch.Tensor, activation: str) -> torch.Tensor:
    """The activation of a result that nobody else needs."""
    in_place = _IN_PLACE.get(activation)
    return in_place(x) if in_place else activate(x, activation, SLOPE)


def _block_scaled_tileon_call(product: Product, operands: BlockScaledOperands, bias: torch.Tensor | None) -> Call:
    """Scales are packed beforehand, as `quantize` gives them."""
    op, activation, dtype = torch.ops.tileon.block_scaled_matmul, product.activation, torch.float16
    a, b, bias = operands.a, operands.b, None if bias is None else bias.to(dtype)
    scale_a, scale_b = (torch.ops.tileon.pack_scales(scale) for scale in (operands.scale_a, operands.scale_b))
    return lambda: op(a, b, scale_a, scale_b, bias, activation=activation, slope=SLOPE, out_dtype=dtype)


def _block_scaled_torch_call(product: Product, operands: BlockScaledOperands, bias: torch.Tensor | None) -> Call:
    a, b, scale_a, scale_b = operands.a, operands.b, operands.scale_a, operands.scale_b
    activation, dtype = product.activation, torch.bfloat16
    bias = None if bias is None else bias.to(dtype)
    dequantize = dequantized
    if a.device.type == "cuda":
        torch.compiler.reset()  # each product has sizes of its own, and dynamo a limit on recompilations
        dequantize = torch.compile(dequantized, dynamic=False, fullgraph=True)
    return lambda: _activated(F.linear(dequantize(a, scale_a, dtype), dequantize(b, scale_b, dtype), bias), activation)
