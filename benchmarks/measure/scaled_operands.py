"""Products with scales that are not two block-scaled operands, against torch: a GPU is needed.

    python -m benchmarks.measure.scaled_operands --csv scaled_operands.csv
    python -m benchmarks.measure.scaled_operands --dtypes e4m3_row --shapes 64x8192x8192 --configs

a is (m, k), b (n, k), normal data quantized by tileon_ops; the output is bfloat16 (of a float16 a float16). The dtype
names both operands, of block128 a 1x128 and b 128x128; mxfp8 and mixed are for the fold that fast_accum allows. The
weights' own preparation is part of the time, a's quantization is not.

Providers: `tileon`; `tileon_fast`, with fast_accum; `torch` and `torch_fast`, the same scaling by torch's scaled_mm or
_int_mm with a multiplication for the scales; `torch_bf16`, torch.mm on the operands in 16 bits; `tileon_graph` and
`torch_bf16_graph`, of few rows, a CUDA graph that goes round so many weights that each has left L2. With --configs also
every config that takes the operands, by its name; behind the name of a config whose CTAs may share tiles `whole`, where
they share none.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import tileon_ops
from benchmarks.common.cases import Shape
from benchmarks.common.command import command_line, gpu_arguments, parse_shapes, some_of, tabulate
from benchmarks.common.timing import Arm, clock_words, cold_graph_arm, cold_sets, time_arms
from tileon_ops._rules import configs

COLUMNS = ("op", "dtype", "layout", "m", "n", "k", "epilogue", "provider", "median_us", "tflops", "data")
# What quantizes a, None where it stays as it is, and b.
FORMATS: dict[str, tuple[str | None, str]] = {
    "bfloat16xmxfp4": (None, "mxfp4"),
    "bfloat16xnvfp4": (None, "nvfp4"),
    "bfloat16xmxfp8": (None, "mxfp8"),
    "float16xmxfp4": (None, "mxfp4"),
    "float16xnvfp4": (None, "nvfp4"),
    "bfloat16xe4m3_row": (None, "fp8_row"),
    "bfloat16xe4m3_block128": (None, "fp8_128x128"),
    "bfloat16xint8_row": (None, "int8_row"),
    "float16xe4m3_row": (None, "fp8_row"),
    "e4m3_tensor": ("fp8_tensor", "fp8_tensor"),
    "e4m3_row": ("fp8_row", "fp8_row"),
    "e4m3_block128": ("fp8_1x128", "fp8_128x128"),
    "int8_row": ("int8_row", "int8_row"),
    "mxfp8": ("mxfp8", "mxfp8"),
    "mixed": ("mxfp8", "mxfp4"),
}
_WEIGHTS = ((8192, 8192), (14336, 4096), (4096, 14336), (5120, 8192), (2880, 2880))
_ROWS = (1, 2, 4, 8, 16, 24, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192)
_FP8_WEIGHTS = ((4096, 7168), (7168, 2048), (8192, 8192), (24576, 1536))
_GRAPH_ROWS = 16  # up to so many a graph goes round cold weights


class Operands(NamedTuple):
    a: Tensor
    scale_a: Tensor | None
    b: Tensor
    scale_b: Tensor


def shapes_of(dtype: str) -> Iterator[Shape]:
    if FORMATS[dtype][0] is None:
        yield from ((m, n, k) for n, k in _WEIGHTS for m in _ROWS)
    elif dtype.startswith("e4m3"):
        yield from ((1 << power, n, k) for n, k in _FP8_WEIGHTS for power in range(4, 14))
    else:
        yield from ((size, size, size) for size in (2048, 4096, 8192))


def quantized(x: Tensor, name: str) -> tuple[Tensor, Tensor]:
    data, scale = tileon_ops.quantize(x, name)[:2]
    return data, scale


def torch_calls(dtype: str, of: Operands) -> dict[str, Callable[[], Tensor]]:
    """The same scaling by torch."""
    a, scale_a, b, scale_b = of.a, of.scale_a, of.b.t(), of.scale_b
    assert scale_a is not None
    if dtype == "int8_row":
        scales = scale_b.t().contiguous()
        return {"torch": lambda: (torch._int_mm(a, b) * (scale_a * scales)).bfloat16()}
    kinds = F.ScalingType
    if dtype == "e4m3_block128":
        columns = scale_b.shape[1]
        padded = F.pad(scale_b, (0, -columns % 4)).t()
        tall = torch.empty_strided(padded.shape, (1, padded.shape[0]), device=padded.device).copy_(padded)
        turned = scale_a.t().contiguous().t()
        recipes = (turned, kinds.BlockWise1x128, tall, kinds.BlockWise128x128)
    elif dtype == "e4m3_row":
        recipes = (scale_a, kinds.RowWise, scale_b.t(), kinds.RowWise)
    else:
        recipes = (scale_a, kinds.TensorWise, scale_b, kinds.TensorWise)
    call = partial(F.scaled_mm, a, b, *recipes, output_dtype=torch.bfloat16)
    calls: dict[str, Callable[[], Tensor]] = {"torch": call}
    return calls if dtype == "e4m3_block128" else calls | {"torch_fast": partial(call, use_fast_accum=True)}


def arms_of(dtype: str, shape: Shape, every_config: bool) -> dict[str, Arm]:
    m, n, k = shape
    source = torch.Generator("cuda").manual_seed(0)
    wide = torch.float16 if dtype.startswith("float16") else torch.bfloat16
    of_a, of_b = FORMATS[dtype]

    def weight() -> tuple[Tensor, Tensor]:
        return quantized(torch.randn(n, k, device="cuda", generator=source).to(wide), of_b)

    x = torch.randn(m, k, device="cuda", generator=source).to(wide)
    a, scale_a = (x, None) if of_a is None else quantized(x, of_a)
    of = Operands(a, scale_a, *weight())
    wide_b = torch.randn(n, k, device="cuda", generator=source).to(wide)
    op = torch.ops.tileon.block_scaled_matmul
    options = {"out_dtype": wide}
    product = partial(op, of.a, of.b, of.scale_a, of.scale_b, **options)
    arms = {"tileon": Arm(product), "torch_bf16": Arm(lambda: x @ wide_b.t())}
    if of_a is not None:
        arms["tileon_fast"] = Arm(partial(product, fast_accum=True))
    if dtype.startswith(("e4m3", "int8")):
        for name, call in torch_calls(dtype, of).items():
            try:
                call()
                arms[name] = Arm(call)
            except (RuntimeError, ValueError) as error:
                print(f"{dtype} {shape}: {name} refuses: {str(error).splitlines()[0]}")
    if of_a is None and m <= _GRAPH_ROWS:
        weights = [weight() for _ in range(cold_sets(of.b.nbytes, x.device))]
        arms["tileon_graph"] = cold_graph_arm([partial(op, a, b, None, scale, **options) for b, scale in weights])
        others = [torch.randn(n, k, device="cuda", dtype=wide) for _ in range(cold_sets(wide_b.nbytes, x.device))]
        arms["torch_bf16_graph"] = cold_graph_arm([partial(torch.mm, x, other.t()) for other in others])
    for config in configs.block_scaled() if every_config else ():
        by_number = torch.ops.tileon._block_scaled_matmul_with_config
        call = partial(by_number, of.a, of.b, of.scale_a, of.scale_b, config=config.index, **options)
        try:
            call()
        except RuntimeError:  # it does not take these operands
            continue
        arms[config.name] = Arm(call)
        if config.name.startswith("sm90_weight_"):
            arms[f"{config.name} whole"] = Arm(partial(_without_shared_tiles, call))
    return arms


def _without_shared_tiles(call: Callable[[], Tensor]) -> Tensor:
    with tileon_ops.batch_invariant():
        return call()


def main() -> int:
    parser = command_line(__doc__, device=False, seconds=0.3, warmup=0.15)
    some_of(parser, "--dtypes", FORMATS)
    parser.add_argument("--shapes", type=parse_shapes, help="MxNxK,... (default: those of the dtype)")
    parser.add_argument("--configs", action="store_true", help="time every config too")
    arguments: argparse.Namespace = gpu_arguments(parser)

    def rows() -> Iterator[list[object]]:
        for dtype in arguments.dtypes:
            for shape in arguments.shapes or shapes_of(dtype):
                m, n, k = shape
                with torch.inference_mode():
                    arms = arms_of(dtype, shape, arguments.configs)
                    seconds = {"seconds": arguments.seconds, "warmup_seconds": arguments.warmup_seconds}
                    times = time_arms(arms, torch.device("cuda"), **seconds, hopeless=20.0, keep=("tileon",))
                for name, time in times.items():
                    tflops = f"{2e-6 * m * n * k / time.median_us:.4g}"
                    figures = [name, f"{time.median_us:.2f}", tflops, "normal"]
                    yield ["block_scaled_matmul", dtype, "NT", m, n, k, "none", *figures]

    words = f"{clock_words(torch.device('cuda'))}, interleaved arms, normal data"
    return tabulate(arguments.csv, COLUMNS, rows(), words, timing=words)


if __name__ == "__main__":
    raise SystemExit(main())
