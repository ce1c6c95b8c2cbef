"""Measures quantize, dequantize and the packing of scales against a copy.

    python -m benchmarks.measure.quantize --csv out.csv
    python -m benchmarks.measure.quantize --shapes 8192x8192,16x8192 --format mxfp4

x is (m, k) bfloat16, normal random data; pack_scales and unpack_scales work on the (m, k / vec) scales of such a
tensor. bytes: every input read once and every output written once, the padding of packed scales included. `copy` is
torch's copy_ of x, the ceiling for all that only moves bytes. `nvfp4 rows` finds a global scale for each row besides,
as layers quantize activations; it stands beside nvfp4.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import torch

from benchmarks.common.cases import FORMATS
from benchmarks.common.command import command_line, parse_sizes, some_of, tabulate
from benchmarks.common.timing import Arm, clock_words, time_arms

COLUMNS = ("op", "format", "m", "k", "bytes", "median_us", "tb_s", "provider")
QUANTIZED = ("mxfp8", "mxfp4", "nvfp4")  # mixed is a product of two of them

Movements = dict[str, tuple[int, Callable[[], object]]]  # by op and format: bytes read and written, and the call


def _nbytes(*tensors: torch.Tensor) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _of_format(x: torch.Tensor, name: str) -> Movements:
    """The four ops on `x`, (m, k), in one format."""
    ops = torch.ops.tileon
    rows, columns = x.shape[0], x.shape[1] // FORMATS[name].vec
    data, packed = ops.quantize(x, name)
    scale = ops.unpack_scales(packed, rows, columns)
    quantized, packing = _nbytes(x, data, packed), _nbytes(scale, packed)
    by_rows: Movements = {}
    if name == "nvfp4":
        factor = torch.ones((), device=x.device)
        count = quantized + rows * torch.float32.itemsize
        by_rows = {"quantize nvfp4 rows": (count, lambda: ops._quantize_nvfp4_rows(x, factor))}
    return {
        f"quantize {name}": (quantized, lambda: ops.quantize(x, name, scale_rounding="floor")),
        **by_rows,
        f"dequantize {name}": (quantized, lambda: ops.dequantize(data, packed, name, out_dtype=torch.bfloat16)),
        f"pack_scales {name}": (packing, lambda: ops.pack_scales(scale)),
        f"unpack_scales {name}": (packing, lambda: ops.unpack_scales(packed, rows, columns)),
    }


@torch.inference_mode()
def _rows(m: int, k: int, arguments: argparse.Namespace, device: torch.device) -> Iterator[list[object]]:
    """Of one (m, k) bfloat16 tensor; the copy comes first."""
    generator = torch.Generator(device=device).manual_seed(0)
    x = torch.randn(m, k, generator=generator, device=device).to(torch.bfloat16)
    target = torch.empty_like(x)
    moved: Movements = {"copy bfloat16": (_nbytes(x, target), lambda: target.copy_(x))}
    for name in arguments.format:
        moved |= _of_format(x, name)
    arms = {what: Arm(call) for what, (_, call) in moved.items()}
    timings = time_arms(arms, device, seconds=arguments.seconds, warmup_seconds=arguments.warmup_seconds)
    for what, (count, _) in moved.items():
        us, (op, name) = timings[what].median_us, what.split(maxsplit=1)
        yield [op, name, m, k, count, f"{us:.2f}", f"{count / us * 1e-6:.4g}", "copy" if op == "copy" else "tileon"]


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

    timing = f"{clock_words(device)}, interleaved arms, median of about {arguments.seconds:g} s a shape"
    words = f"{timing}, normal random bfloat16"
    rows = (row for m, k in shapes for row in _rows(m, k, arguments, device))
    return tabulate(arguments.csv, COLUMNS, rows, words, timing=words)


if __name__ == "__main__":
    raise SystemExit(main())
