"""Measures the CPU path against torch: products, layers, quantizers, small calls, training steps, batch invariance.

    python -m benchmarks.measure.cpu --threads 1 --csv out.csv
    python -m benchmarks.measure.cpu --subjects small,layers --seconds 1

Products are (rows, 2048) by a weight of 2048 x 2048, NT (x @ weight.t()) or NN, of normal data. Each line is one of
this package's ways beside torch's way to the same; both take turns. speed: torch's time over ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tileon_ops
from benchmarks.common.command import command_line, tabulate
from benchmarks.common.timing import Arm, time_arms

COLUMNS = ("subject", "case", "dtype", "m", "threads", "median_us", "torch_us", "speed")
FORMATS = ("mxfp4", "nvfp4", "mxfp8", "mixed", "int8_row", "fp8_row", "fp8_128x128")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
ROWS, SIZE = (1, 16, 256), 2048
SMALL_CALLS = 100  # in one timed run
Pair = tuple[str, torch.dtype, int, Callable[[], object], Callable[[], object], int]  # ours, torch's, calls a run


def _numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))).to(dtype)


def _fused_by_torch(activation: str, a: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    result: Tensor = getattr(F, activation)(F.linear(a, w, bias))
    return result


def products() -> Iterator[Pair]:
    for dtype in DTYPES:
        w, bias = _numbers(SIZE, SIZE, dtype=dtype), _numbers(SIZE, dtype=dtype)
        for m in ROWS:
            a = _numbers(m, SIZE, dtype=dtype)
            for layout, b in (("NT", w.t()), ("NN", w)):
                if layout == "NT" or dtype.itemsize == 4 or m <= 16:  # torch takes seconds for more
                    yield layout, dtype, m, partial(tileon_ops.matmul, a, b), partial(torch.matmul, a, b), 1
            for name in ("leaky_relu", "gelu"):
                fused = partial(tileon_ops.matmul, a, w.t(), bias, activation=name)
                yield f"NT bias+{name}", dtype, m, fused, partial(_fused_by_torch, name, a, w, bias), 1


def layers() -> Iterator[Pair]:
    for what, weight_only in (("weight_only", True), ("both", False)):
        for name in FORMATS:
            for size, rows in ((SIZE, ROWS), (64, (1,))):
                linear = nn.Linear(size, size).bfloat16()
                layer = tileon_ops.BlockScaledLinear.from_linear(linear, name, weight_only=weight_only)
                for m in rows:
                    x = _numbers(m, size, dtype=torch.bfloat16)
                    case, calls = f"{what} {name} {size}x{size}", SMALL_CALLS if size == 64 else 1
                    yield case, torch.bfloat16, m, partial(layer, x), partial(linear, x), calls


def quantizers() -> Iterator[Pair]:
    x, copy = _numbers(SIZE, SIZE), torch.empty(SIZE, SIZE)
    for name in (*(name for name in FORMATS if name != "mixed"), "fp8_1x128"):
        own = partial(torch.ops.tileon.quantize, x, name)
        yield f"{name}, beside a copy", torch.float32, SIZE, own, partial(copy.copy_, x), 1


def _forward_backward(multiply: Callable[..., Tensor], operands: tuple[Tensor, ...], grad: Tensor) -> None:
    multiply(*operands).backward(grad)


def small() -> Iterator[Pair]:
    op, mm = torch.ops.tileon.matmul, torch.ops.aten.mm
    relu = partial(op, activation="relu")
    for dtype in (torch.float32, torch.float64):
        a, b, out = (_numbers(8, 8, dtype=dtype) for _ in range(3))
        yield "8x8x8", dtype, 8, partial(op, a, b), partial(mm, a, b), SMALL_CALLS
        yield "8x8x8 out", dtype, 8, partial(op.out, a, b, out=out), partial(mm.out, a, b, out=out), SMALL_CALLS
    a, w, bias, ones = _numbers(8, 8), _numbers(8, 8), _numbers(8), torch.ones(8, 8)

    def by_torch(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
        return torch.relu(F.linear(a, b.t(), bias))

    yield (
        "8x8x8 bias+relu",
        torch.float32,
        8,
        partial(relu, a, w.t(), bias),
        partial(by_torch, a, w.t(), bias),
        SMALL_CALLS,
    )
    p, q, r = (x.clone().requires_grad_() for x in (a, w, bias))
    yield "8x8x8 recorded", torch.float32, 8, partial(op, p, q), partial(mm, p, q), SMALL_CALLS
    steps = [partial(_forward_backward, multiply, (p, q, r), ones) for multiply in (relu, by_torch)]
    yield "8x8x8 bias+relu, forward and backward", torch.float32, 8, steps[0], steps[1], SMALL_CALLS


def training() -> Iterator[Pair]:
    for width, m, calls in ((64, 64, 10), (256, 64, 10), (1024, 256, 1)):
        steps = []
        for make in (tileon_ops.Linear, nn.Linear):
            model = nn.Sequential(*(make(width, width) for _ in range(3)))
            steps.append(partial(_forward_backward, model, (_numbers(m, width),), torch.ones(m, width)))
        yield f"three layers {width}x{width}", torch.float32, m, steps[0], steps[1], calls


def _invariant(a: Tensor, b: Tensor) -> Tensor:
    with tileon_ops.batch_invariant():
        return tileon_ops.matmul(a, b)


def invariance() -> Iterator[Pair]:
    """The free choice stands in torch's column."""
    for dtype in (*DTYPES, torch.float64):
        a, b = _numbers(256, SIZE, dtype=dtype), _numbers(SIZE, SIZE, dtype=dtype).t()
        case = "batch_invariant, beside the free choice"
        yield case, dtype, 256, partial(_invariant, a, b), partial(tileon_ops.matmul, a, b), 1


def _repeated(call: Callable[[], object], calls: int) -> None:
    for _ in range(calls):
        call()


SUBJECTS = {each.__name__: each for each in (products, layers, quantizers, small, training, invariance)}


def main() -> int:
    parser = command_line(__doc__, device=False, seconds=1.5, warmup=0.3)
    parser.add_argument("--threads", type=int, default=1, help="of torch's (default 1)")
    parser.add_argument("--subjects", default=",".join(SUBJECTS), help="some of %(default)s")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    limits = {"seconds": arguments.seconds, "warmup_seconds": arguments.warmup_seconds, "min_rounds": 5}

    def rows() -> Iterator[list[object]]:
        for subject in arguments.subjects.split(","):
            for case, dtype, m, ours, theirs, calls in SUBJECTS[subject]():
                is_recorded = subject in ("small", "training")  # as far as operands ask for it
                repeated = [partial(_repeated, call, calls) for call in (ours, theirs)]
                with torch.set_grad_enabled(is_recorded):
                    arms = {name: Arm(run, calls) for name, run in zip(("ours", "torch"), repeated, strict=True)}
                    times = time_arms(arms, torch.device("cpu"), **limits)
                us = [times[name].median_us for name in ("ours", "torch")]
                figures = [f"{us[0]:.2f}", f"{us[1]:.2f}", f"{us[1] / us[0]:.3f}"]
                yield [subject, case, str(dtype).removeprefix("torch."), m, torch.get_num_threads(), *figures]

    timing = f"perf_counter, {arguments.threads} threads, interleaved arms, median of about {arguments.seconds:g} s"
    return tabulate(arguments.csv, COLUMNS, rows(), timing, timing=timing)


if __name__ == "__main__":
    raise SystemExit(main())
