"""Measures quantize, dequantize and the packing of scales against a copy.

    python -m benchmarks.measure.quantize --csv out.csv
    python -m benchmarks.measure.quantize --shapes 8192x8192,16x8192 --format mxfp4

x is (m, k) bfloat16, normal random data. quantize rounds its scales down (`floor`); dequantize gives bfloat16 from
packed scales; pack_scales and unpack_scales work on the (m, k / vec) scales of a tensor of that size.

Columns: op,format,m,k,bytes,median_us,tb_s,provider. bytes: every input read once and every output written once, the
padding of packed scales included. The provider `copy` is torch's copy_ of a bfloat16 tensor of the same shape, the
ceiling for all that only moves bytes. How it is timed: timing.py, all ops of a shape interleaved.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

import tileon_ops  # noqa: F401  (registers torch.ops.tileon)
from benchmarks.common.block_scaled_cases import FORMATS
from benchmarks.common.command import command_line, finish
from benchmarks.common.result_file import CsvWriter
from benchmarks.common.timing import Arm, clock_words, time_arms

COLUMNS = ("op", "format", "m", "k", "bytes", "median_us", "tb_s", "provider")
QUANTIZED = ("mxfp8", "mxfp4", "nvfp4")  # mixed is a product of two of them
_OPS = ("quantize", "dequantize", "pack_scales", "unpack_scales")


@dataclass(frozen=True)
class Movement:
    """One op on one tensor: `bytes` is what it must read and write."""

    op: str
    format: str
    bytes: int
    provider: str
    run: Callable[[], object]


def parse_matrices(text: str) -> list[tuple[int, int]]:
    """`MxK`, several with commas."""
    matrices = []
    for part in text.split(","):
        numbers = part.split("x")
        if len(numbers) != 2:
            raise argparse.ArgumentTypeError(f"{part!r} is not MxK")
        matrices.append((int(numbers[0]), int(numbers[1])))
    return matrices


def _parser() -> argparse.ArgumentParser:
    parser = command_line(__doc__)
    parser.add_argument("--shapes", type=parse_matrices, help="MxK[,MxK...] (default 8192x8192, on a CPU 256x256)")
    parser.add_argument(
        "--format", type=lambda text: text.split(","), default=list(QUANTIZED), help="some of " + ",".join(QUANTIZED)
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="timed part of one shape, all ops (default 2)")
    parser.add_argument("--warmup-seconds", type=float, default=1.0, help="cap on warming for one shape (default 1)")
    return parser


def _nbytes(*tensors: torch.Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _of_format(x: torch.Tensor, name: str) -> list[Movement]:
    """The four ops on `x`, (m, k), in one format."""
    ops = torch.ops.tileon
    rows, columns = x.shape[0], x.shape[1] // FORMATS[name].vec
    data, packed = ops.quantize(x, name)
    scale = ops.unpack_scales(packed, rows, columns)
    quantized, packing = _nbytes(x, data, packed), _nbytes(scale, packed)
    calls: tuple[Callable[[], object], ...] = (
        lambda: ops.quantize(x, name, scale_rounding="floor"),
        lambda: ops.dequantize(data, packed, name, out_dtype=torch.bfloat16),
        lambda: ops.pack_scales(scale),
        lambda: ops.unpack_scales(packed, rows, columns),
    )
    moved = (quantized, quantized, packing, packing)
    return [Movement(op, name, count, "tileon", call) for op, count, call in zip(_OPS, moved, calls, strict=True)]


def movements(m: int, k: int, formats: list[str], device: torch.device) -> list[Movement]:
    """Everything that is measured on one (m, k) bfloat16 tensor; the copy comes first."""
    generator = torch.Generator(device=device).manual_seed(0)
    x = torch.randn(m, k, generator=generator, device=device).to(torch.bfloat16)
    target = torch.empty_like(x)
    copy = Movement("copy", "bfloat16", _nbytes(x, target), "copy", lambda: target.copy_(x))
    return [copy, *(movement for name in formats for movement in _of_format(x, name))]


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    unknown = set(arguments.format) - set(QUANTIZED)
    if unknown:
        parser.error(f"unknown format {', '.join(sorted(unknown))}; there are {', '.join(QUANTIZED)}")
    shapes = arguments.shapes or [(8192, 8192) if device.type == "cuda" else (256, 256)]
    for m, k in shapes:
        for name in arguments.format:
            if m < 1 or k < 1 or k % FORMATS[name].vec != 0:
                parser.error(f"{m}x{k}: sizes must be positive, and k a multiple of {FORMATS[name].vec} for {name}")

    words = f"{clock_words(device)}, interleaved arms, median of about {arguments.seconds:g} s a shape, "
    words += "normal random bfloat16"
    table = [["op", "format", "m x k", "provider", "median us", "TB/s", "spread"]]
    with torch.inference_mode(), CsvWriter(arguments.csv, COLUMNS, {"timing": words}) as writer:
        for m, k in shapes:
            by_name = {f"{item.op} {item.format}": item for item in movements(m, k, arguments.format, device)}
            arms = {name: Arm(item.run) for name, item in by_name.items()}
            timings = time_arms(arms, device, seconds=arguments.seconds, warmup_seconds=arguments.warmup_seconds)
            for name, timing in timings.items():
                item = by_name[name]
                figures = [f"{timing.median_us:.2f}", f"{item.bytes / timing.median_us * 1e-6:.4g}"]
                writer.write([item.op, item.format, m, k, item.bytes, *figures, item.provider])
                spread = f"{100 * timing.spread:.1f} %"
                table.append([item.op, item.format, f"{m} x {k}", item.provider, *figures, spread])
    finish(table, words, arguments.csv)
    return 0


if __name__ == "__main__":
    sys.exit(main())
