"""`tileon_ops.tune`: measures which config computes given products fastest on this GPU.

    python -m tileon_ops.tune --shapes 4096x4096x4096 --dtype bfloat16

does the same from the shell (`--help`). docs/tuning.md says when it is worth while.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from tileon_ops._rules import configs
from tileon_ops.tune import tuned_configs
from tileon_ops.tune.cache import Choice

if TYPE_CHECKING:
    from collections.abc import Callable

    from tileon_ops.tune.problems import Product

HEADER = ("problem", "default", "us", "fastest", "us", "gain", "")


@dataclass(frozen=True)
class TunedProblem:
    """What is known of one problem; times are medians from a cold L2 cache, in microseconds.

    Attributes:
        problem: as the library names it: dtypes, batch x m x n x k, how operands and output lie, kind of epilogue.
        default: the kernel that the library chooses by itself.
        default_us: its time.
        row: the config that runs from now on; "default" where none is faster beyond noise.
        us: the time of `row`.
        measured: whether it was measured now; else it was known already.
    """

    problem: str
    default: str
    default_us: float
    row: str
    us: float
    measured: bool

    @property
    def gain(self) -> float:
        """By how much it is faster than the default; 0.05 is 5 %, 0 where the default stays."""
        return self.default_us / self.us - 1

    def cells(self) -> tuple[str, ...]:
        """A line of the report's table."""
        figures = (self.default, f"{self.default_us:.1f}", self.row, f"{self.us:.1f}", f"{100 * self.gain:.1f} %")
        return (self.problem, *figures, "" if self.measured else "known")


@dataclass(frozen=True)
class TuneReport:
    """What `tileon_ops.tune` found. `print(report)` shows it as a table.

    Attributes:
        gpu: the name of the GPU's model.
        cache: the file that remembers it; None where there is none.
        problems: each with its times. The report iterates over them.
    """

    gpu: str
    cache: Path | None
    problems: tuple[TunedProblem, ...]

    def __iter__(self) -> Iterator[TunedProblem]:
        return iter(self.problems)

    def __len__(self) -> int:
        return len(self.problems)

    def __str__(self) -> str:
        table = aligned([HEADER, *(problem.cells() for problem in self.problems)])
        faster = sum(problem.gain > 0 for problem in self.problems)
        kept = "in this process alone" if self.cache is None else f"kept in {self.cache}"
        return f"{table}\n{faster} of {len(self)} problems are faster tuned, on {self.gpu}; {kept}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns are as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def tune(
    shapes: Iterable[Sequence[int]],
    dtypes: str | torch.dtype | Iterable[str | torch.dtype] | None = None,
    *,
    layouts: str | Iterable[str] = ("NN", "NT"),
    formats: str | Iterable[str] = (),
    bias: bool = False,
    activation: str = "none",
    out_dtype: torch.dtype | str | None = None,
    fast_accum: bool = False,
    device: torch.device | str | int | None = None,
    seconds: float = 0.4,
    force: bool = False,
    progress: bool = True,
) -> TuneReport:
    """Measures every config on every combination of these, and has the fastest run from now on.

    The library chooses a config by a cost model; this finds what that misses. A config replaces the choice only where
    it was faster by more than 1 % in each of two rounds. It does so in this process at once, on all GPUs of this model,
    and in later ones, which read it from a cache file; `TILEON_TUNE=0` in their environment leaves that alone.

    Args:
        shapes: each (m, n, k) or (batch, m, n, k), for products (m, k) @ (k, n). A linear layer has as m its rows of
            input, as n its out_features, as k its in_features.
        dtypes: of the operands: float16, bfloat16, float32, tf32 (float32 with `allow_tf32`), float64, float8_e4m3fn,
            float8_e5m2, "float8_e4m3fn*float8_e5m2"; names or torch.dtypes. bfloat16 unless these or `formats` are
            given.
        layouts: two letters, for a and b: N as they stand, T a transposed view of a contiguous tensor. NN is `x @ w`,
            NT `x @ weight.t()`, what `tileon_ops.Linear` multiplies; in its backward pass stand NN and TN.
        formats: operands with scales to measure besides, (m, n, k) alone: mxfp8, mxfp4, mixed, nvfp4, whose scales are
            packed; of float32 scales the elements' dtype and what has a scale of its own, such as "int8_row" or
            "float8_e4m3fn_1x128*float8_e4m3fn_128x128"; with an `a` of 16 bits "bfloat16*mxfp4".
        bias, activation, out_dtype, fast_accum: as in the calls to be made. Products that differ only in having a bias,
            or in activations without exp and erf (none, relu, leaky_relu), are one problem.
        device: the GPU; the current one unless told.
        seconds: to measure one problem, about.
        force: measures what is known already once more.
        progress: shows a bar on the standard error stream where that is a terminal.

    Returns:
        A report that prints as a table. It has `gpu`, the `cache` file, and `problems`, which it iterates over, in the
        order of dtypes, layouts, shapes, and then of formats. Each has its name, `problem`; the kernel that the library
        chooses by itself, `default`, and its time, `default_us`; the config that runs from now on, `row`, "default"
        where that choice stays, and its time, `us`; the `gain`, 0.05 for 5 %; and whether it was `measured` now or
        known before.

    It allocates random normal operands, results, and a buffer of twice the L2 cache. Configs add up in different
    orders: what is tuned may differ from what is not in the last bits of its sums, within the same bounds.

    Raises:
        RuntimeError: "tune: ...", for arguments that do not fit, without a GPU that the library has kernels for, and
            while a CUDA graph is captured. Nothing is measured then.
    """
    from tileon_ops.tune.problems import products  # most programs never tune

    if not seconds > 0:
        raise RuntimeError(f"tune: `seconds` must be positive, got {seconds}")
    wanted = products(
        shapes,
        dtypes,
        formats=formats,
        layouts=layouts,
        bias=bias,
        activation=activation,
        out_dtype=out_dtype,
        fast_accum=fast_accum,
    )
    gpu = _gpu(device)
    found: dict[str, TunedProblem] = {}
    with _bar(len(wanted), progress) as show:
        for done, product in enumerate(wanted):
            show(done, str(product))
            one = _tuned(product, gpu, seconds, force, found)
            found[one.problem] = one
    return TuneReport(tuned_configs.identity(gpu.index).gpu, tuned_configs.cache_path(gpu.index), tuple(found.values()))


def _gpu(device: torch.device | str | int | None) -> torch.device:
    gpu = torch.device("cuda" if device is None else device)
    if gpu.type != "cuda":
        raise RuntimeError(f"tune: `device` must be a GPU, got {gpu}")
    if not configs.dense():
        raise RuntimeError("tune: this library was built for the CPU alone, where there is one way to compute")
    if not torch.cuda.is_available():
        raise RuntimeError("tune: needs a GPU, and torch can use none here")
    if gpu == torch.device("cuda"):
        gpu = torch.device("cuda", torch.cuda.current_device())
    if gpu.index >= torch.cuda.device_count():
        raise RuntimeError(f"tune: `device` is {gpu}, and torch can use {torch.cuda.device_count()} GPUs here")
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError("tune: cannot measure while a CUDA graph is captured")
    return gpu


def _tuned(
    product: Product, gpu: torch.device, seconds: float, force: bool, found: dict[str, TunedProblem]
) -> TunedProblem:
    """What is known of the product's problem, measured unless it was known or stands among `found`."""
    index = gpu.index
    with tuned_configs.measuring(index):
        call = product.call(gpu)
        problem = call.problem()
        if problem in found:
            return found[problem]
        choice = None if force else tuned_configs.known(index, problem)
        measured = choice is None
        if choice is None:
            choice = tuned_configs.measure(call, index, seconds).choice
        tuned_configs.remember(index, problem, choice, save=measured)
    return tuned_problem(problem, choice, measured)


def tuned_problem(problem: str, choice: Choice, measured: bool) -> TunedProblem:
    """The entry of a report."""
    return TunedProblem(problem, choice.default, choice.default_us, choice.row, choice.us, measured)


@contextmanager
def _bar(total: int, wanted: bool) -> Iterator[Callable[[int, str], None]]:
    """What shows the progress, on a terminal."""
    if not (wanted and sys.stderr.isatty()):
        yield lambda done, what: None
        return
    from tileon_ops.tune.progress import Progress

    bar = Progress(total)
    try:
        yield bar.show
    finally:
        bar.clear()
