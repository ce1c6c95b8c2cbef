"""Measures quantize, dequantize and the packing of scales against a copy.

    python -m benchmarks.measure.quantize --csv out.csv
    python -m benchmarks.measure.quantize --shapes 8192x8192,16x8192 --format mxfp4

x is (m, k) bfloat16, normal random data. quantize rounds its scales down (`floor`); dequantize gives bfloat16 from
packed scales; pack_scales and unpack_scales work on the (m, k / vec) scales of a tensor of that size.

bytes: every input read once and every output written once, the
padding of packed scales included. The provider `copy` is torch's copy_ of a bfloat16 tensor of the same shape, the
ceiling for all that only moves bytes. How it is timed: timing.py, all ops of a shape interleaved.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

import tileon_ops  # noqa: F401  (registers torch.ops.tileon)
from benchmarks.common.cases import FORMATS
from benchmarks.common.command import command_line, parse_sizes, some_of, tabulate
from benchmarks.common.timing import Arm, clock_words, time_arms

COLUMNS = ("op", "format", "m", "k", "bytes", "median_us", "tb_s", "provider")
QUANTIZED = ("mxfp8", "mxfp4", "nvfp4")  # mixed is a product of two of them


class Movement(NamedTuple):
    """One op on one tensor: `bytes` is what it must read and write."""

    op: str
    format: str
    bytes: int
    provider: str
    run: Callable[[], object]


def _nbytes(*tensors: torch.Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _of_format(x: torch.Tensor, name: str) -> list[Movement]:
    """The four ops on `x`, (m, k), in one format."""
    ops = torch.ops.tileon
    rows, columns = x.shape[0], x.shape[1] // FORMATS[name].vec
    data, packed = ops.quantize(x, name)
    scale = ops.unpack_scales(packed, rows, columns)
    quantized, packing = _nbytes(x, data, packed), _nbytes(scale, packed)
    calls: dict[str, tuple[int, Callable[[], object]]] = {
        "quantize": (quantized, lambda: ops.quantize(x, name, scale_rounding="floor")),
        "dequantize": (quantized, lambda: ops.dequantize(data, packed, name, out_dtype=torch.bfloat16)),
        "pack_scales": (packing, lambda: ops.pack_scales(scale)),
        "unpack_scales": (packing, lambda: ops.unpack_scales(packed, rows, columns)),
    }
    return [Movement(op, name, count, "tileon", call) for op, (count, call) in calls.items()]


def movements(m: int, k: int, formats: list[str], device: torch.device) -> list[Movement]:
    """Everything that is measured on one (m, k) bfloat16 tensor; the copy comes first."""
    generator = torch.Generator(device=device).manual_seed(0)
    x = torch.randn(m, k, generator=generator, device=device).to(torch.bfloat16)
    target = torch.empty_like(x)
    copy = Movement("copy", "bfloat16", _nbytes(x, target), "copy", lambda: target.copy_(x))
    return [copy, *(movement for name in formats for movement in _of_format(x, name))]


@torch.inference_mode()
def _rows(m: int, k: int, arguments: argparse.Namespace, device: torch.device) -> Iterator[list[object]]:
    moved = movements(m, k, arguments.format, device)
    arms = {f"{item.op} {item.format}": Arm(item.run) for item in moved}
    timings = time_arms(arms, device, seconds=arguments.seconds, warmup_seconds=arguments.warmup_seconds)
    for item, timing in zip(moved, timings.values(), strict=True):
        us = timing.median_us
        rate = f"{item.bytes / us * 1e-6:.4g}"
        yield [item.op, item.format, m, k, item.bytes, f"{us:.2f}", rate, item.provider]


def main() -> int:
    parser = command_line(__doc__, seconds=2.0, warmup=1.0)
    shapes_help = "MxK[,MxK...] (default 8192x8192, on a CPU 256x256)"
    parser.add_argument("--shapes", type=lambda text: parse_sizes(text, "MxK"), help=shapes_help)
    some_of(parser, "--format", QUANTIZED)
    arguments = parser.parse_args()
    device = arguments.device
    shapes = arguments.shapes or [(8192, 8192) if device.type == "cuda" else (256, 256)]
    for m, k in shapes:
        for name in arguments.format:
            if m < 1 or k < 1 or k % FORMATS[name].vec != 0:
                parser.error(f"{m}x{k}: sizes must be positive, and k a multiple of {FORMATS[name].vec} for {name}")

    words = f"{clock_words(device)}, interleaved arms, median of about {arguments.seconds:g} s a shape, "
    words += "normal random bfloat16"
    rows = (row for m, k in shapes for row in _rows(m, k, arguments, device))
    return tabulate(arguments.csv, COLUMNS, rows, words, timing=words)


if __name__ == "__main__":
    raise SystemExit(main())
