"""What batch invariance costs on a GPU: `python -m benchmarks.measure.batch_invariant --csv batch_invariant.csv`.

Linear layers, x @ weight^T with x (m, k) and weight (n, k), by the library's choice and under
`tileon_ops.batch_invariant()`, in turns. Dtypes without scales are of both operands; the others are formats of
`measure.scaled_operands`. Columns: both times, and the kernels that ran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

import tileon_ops
from benchmarks.common.cases import Case, Shape, make_operands
from benchmarks.common.command import command_line, gpu_arguments, parse_shapes, some_of, tabulate
from benchmarks.common.timing import Arm, clock_words, time_arms
from benchmarks.measure.scaled_operands import FORMATS, quantized

COLUMNS = ("dtype", "m", "n", "k", "free_us", "invariant_us", "free", "invariant")
_PLAIN = ("bfloat16", "float32", "tf32", "float64", "e4m3")
_SCALED = ("bfloat16xmxfp4", "bfloat16xnvfp4", "bfloat16xmxfp8", "bfloat16xe4m3_row", "e4m3_row", "int8_row", "mxfp8")
DTYPES = (*_PLAIN, *_SCALED)
_ROWS = (1, 8, 16, 64, 128, 256, 512, 1024, 4096)
_WEIGHTS = ((1024, 1024), (2048, 8192), (4096, 4096), (6144, 4096), (4096, 14336), (28672, 4096), (8192, 8192))


def product_of(dtype: str, shape: Shape) -> Callable[[], Tensor]:
    m, n, k = shape
    device = torch.device("cuda")
    if dtype in _PLAIN:
        of = make_operands(Case(dtype, "NT", m, n, k), device)
        return partial(torch.ops.tileon.matmul, of.a, of.b, allow_tf32=dtype == "tf32")
    source = torch.Generator(device).manual_seed(0)
    x, weight = (torch.randn(rows, k, device=device, generator=source).bfloat16() for rows in (m, n))
    of_a, of_b = FORMATS[dtype]
    a, scale_a = (x, None) if of_a is None else quantized(x, of_a)
    b, scale_b = quantized(weight, of_b)
    return partial(torch.ops.tileon.block_scaled_matmul, a, b, scale_a, scale_b, out_dtype=torch.bfloat16)


def _invariant(product: Callable[[], Tensor]) -> Tensor:
    with tileon_ops.batch_invariant():
        return product()


def main() -> int:
    parser = command_line(__doc__, device=False, seconds=0.1, warmup=0.05)
    some_of(parser, "--dtypes", DTYPES)
    parser.add_argument("--shapes", type=parse_shapes, help="MxNxK,... (default: of seven weights)")
    arguments = gpu_arguments(parser)
    limits = {"seconds": arguments.seconds, "warmup_seconds": arguments.warmup_seconds}
    shapes = arguments.shapes or [(m, n, k) for n, k in _WEIGHTS for m in _ROWS]

    def rows() -> Iterator[list[object]]:
        for dtype in arguments.dtypes:
            for shape in shapes:
                product = product_of(dtype, shape)
                calls: dict[str, Callable[[], object]] = {"free": product, "invariant": partial(_invariant, product)}
                kernels = []
                for call in calls.values():
                    call()
                    kernels.append(tileon_ops.last_kernel())
                times = time_arms({name: Arm(call) for name, call in calls.items()}, torch.device("cuda"), **limits)
                yield [dtype, *shape, *(f"{times[name].median_us:.2f}" for name in calls), *kernels]

    words = f"{clock_words(torch.device('cuda'))}, both in turns, normal data"
    with torch.inference_mode():
        return tabulate(arguments.csv, COLUMNS, rows(), words, timing=words)


if __name__ == "__main__":
    raise SystemExit(main())
