"""What the kernels made of given operands on Hopper, bit by bit: recorded_bits.csv, and how it is written.

    PYTHONPATH=. python tests/recorded_bits.py             # on a Hopper GPU: writes recorded_bits.csv
    PYTHONPATH=. python tests/recorded_bits.py --keep DIR  # each result too, as DIR/<problem>.npy

Every row of both tables that has run on hardware, on operands whose sums are rounded, products with other scales
(recorded_scaled_bits.py), quantizers, preparing, packing and the folds of gradients. The operands come from numpy's
generator of 2006, whose numbers numpy keeps for good. Some bits were the simulated GPU's first; an H200 or an H100 has
made every one again.
"""

from __future__ import annotations

import argparse
import csv
import pathlib
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import recorded_scaled_bits
import torch
from block_scaled_operands import FORMATS, MXFP4, Format, Operand, elements_of
from block_scaled_table import TABLE as BLOCK_SCALED_TABLE
from block_scaled_table import BlockScaledRow
from operands import in_layout
from tile_table import TABLE, Row
from torch import Tensor

import tileon_ops

FILE = pathlib.Path(__file__).with_suffix(".csv")
FIELDS = ("problem", "operands", "bits")  # CRC-32 of what goes in and of what comes out
M, N, K = 72, 144, 656  # one tile or some, several blocks of k, the last one short

MEASURED = [row for row in TABLE if row.config.measured]
Problem = Callable[[], tuple[list[Tensor], list[Tensor]]]  # operands and results


def source(*key: object) -> np.random.RandomState:
    return np.random.RandomState(zlib.crc32(repr(key).encode()))


def numbers(rows: int, cols: int, data: str, seed: int) -> Tensor:
    """Normal ones; "wide": times powers of two between 2^-6 and 2^6."""
    drawn = source(rows, cols, data, seed)
    values = drawn.standard_normal((rows, cols))
    if data == "wide":
        values = np.ldexp(values, drawn.randint(-6, 7, (rows, cols)))
    return torch.from_numpy(values)


def dense(row: Row, data: str) -> tuple[list[Tensor], list[Tensor]]:
    a = numbers(M, K, data, 1).to(row.dtype)
    b = numbers(K, N, data, 2).to(row.b_dtype)
    out_dtype = torch.float64 if row.dtype == torch.float64 else torch.float32
    placed = in_layout(a.cuda(), b.cuda(), row.layouts[0])
    with tileon_ops.batch_invariant():  # k is not sliced: the bits are those of the kernel alone
        return [a, b], [row.run(*placed, out_dtype=out_dtype)]


def codes(fmt: Format, side: str, lines: int, data: str) -> Operand:
    """Any finite codes; scales of some binades, or "wide", of many."""
    drawn = source(side, lines, data, str(fmt))
    element = elements_of(fmt, side)
    elements = drawn.randint(0, 16 if element == "e2m1" else 0x7F, (lines, 640))
    if element == "e4m3":
        elements |= drawn.randint(0, 2, elements.shape) << 7
    low, high = {"e8m0": (124, 130), "e4m3": (0x28, 0x48)}[fmt.scale]
    if data == "wide":
        low, high = {"e8m0": (110, 136), "e4m3": (1, 0x7F)}[fmt.scale]
    scales = drawn.randint(low, high, (lines, 640 // fmt.vec))
    made = [torch.from_numpy(values.astype(np.uint8)) for values in (elements, scales)]
    return Operand(made[0], made[1], element, fmt.scale)


def block_scaled(row: BlockScaledRow, data: str) -> tuple[list[Tensor], list[Tensor]]:
    a, b = codes(row.fmt, "a", 48 if row.takes_few_rows else M, data), codes(row.fmt, "b", N, data)
    with tileon_ops.batch_invariant():
        result = row.run(a.to("cuda"), b.to("cuda"), out_dtype=torch.float32)
    return [a.codes, a.scales, b.codes, b.scales], [result]


def quantized(fmt: str, rounding: str, data: str) -> tuple[list[Tensor], list[Tensor]]:
    x = numbers(40, 256, data, 3).float()
    if data == "wide":
        x[::3, ::7] *= 2.0**-130
        x[5, 64:96] = 0
        x[7, 1], x[8, 40], x[9, 70] = torch.nan, torch.inf, -torch.inf
    results = []
    for dtype in (torch.float32, torch.bfloat16):
        data_out, scale = torch.ops.tileon.quantize(x.to(dtype).cuda(), fmt, scale_rounding=rounding)
        results += [data_out, scale]
        results.append(torch.ops.tileon.dequantize(data_out, scale, fmt, out_dtype=torch.float32))
    return [x], results


def prepared(fmt: Format, form: str) -> tuple[list[Tensor], list[Tensor]]:
    b = codes(fmt, "b", N, "normal")
    made = torch.ops.tileon._prepare_block_scaled(b.data().cuda(), b.scale_tensor("packed").cuda(), form=form)
    return [b.codes, b.scales], [made[: b.codes.numel() * (1 if form == "int8" else 2)]]  # what follows is unused


def gradients(activation: str, dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor]]:
    """Of activations that the device computes without exp: the elements, and their sums over many rows."""
    grad, saved = numbers(3000, N, "normal", 4).to(dtype), numbers(3000, N, "normal", 5).to(dtype)
    z = None if activation == "none" else saved.cuda()
    options = {"activation": activation, "slope": 0.01, "out_dtype": dtype, "bias_dtype": torch.float32}
    return [grad, saved], list(torch.ops.tileon._epilogue_backward(grad.cuda(), z, **options))


def problems() -> Iterator[tuple[str, Problem]]:
    for data in ("normal", "wide"):
        for row in MEASURED:
            yield f"{row} {data}", lambda row=row, data=data: dense(row, data)
        for scaled in BLOCK_SCALED_TABLE:
            yield f"{scaled} {data}", lambda row=scaled, data=data: block_scaled(row, data)
        yield from recorded_scaled_bits.problems(data)
        for name in ("mxfp8", "mxfp4", "nvfp4"):
            for rounding in ("floor", "rceil") if name != "nvfp4" else ("floor",):
                yield f"quantize {name} {rounding} {data}", lambda f=name, r=rounding, d=data: quantized(f, r, d)
    for fmt, form in [(MXFP4, "int8"), *((fmt, "bfloat16") for fmt in FORMATS)]:
        yield f"prepare {fmt} {form}", lambda fmt=fmt, form=form: prepared(fmt, form)
    for activation in ("none", "relu", "leaky_relu"):
        for dtype in (torch.float32, torch.bfloat16):
            yield f"gradients {activation} {dtype}", lambda a=activation, t=dtype: gradients(a, t)


def crc(tensors: list[Tensor]) -> str:
    """Of the elements' bytes, whatever NaN they hold."""
    value = 0
    for tensor in tensors:
        plain = tensor.cpu().contiguous()
        if plain.is_floating_point():
            plain = torch.where(plain.float().isnan(), torch.full_like(plain, torch.nan), plain)
        value = zlib.crc32(plain.view(torch.uint8).numpy().tobytes(), value)
    return f"{value:08x}"


def recorded() -> dict[str, tuple[str, str]]:
    with FILE.open(newline="") as file:
        return {line["problem"]: (line["operands"], line["bits"]) for line in csv.DictReader(file)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    with FILE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for name, problem in problems():
            operands, results = problem()
            writer.writerow((name, crc(operands), crc(results)))
            if arguments.keep:
                whole = torch.cat([result.cpu().contiguous().view(torch.uint8).flatten() for result in results])
                np.save(arguments.keep / (name.replace(" ", "_") + ".npy"), whole.numpy())


if __name__ == "__main__":
    main()
