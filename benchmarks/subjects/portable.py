"""The kernels for every GPU: the cases of portable.csv, their comparisons, and the table."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.cases import Work, square_cases
from benchmarks.common.markdown import page_part, rates, ratio, table
from benchmarks.common.result_file import of_file
from benchmarks.common.times import Comparison, read_times, squares

SOURCE = "portable.csv"
_DTYPES = ("bfloat16", "float16", "float32", "tf32", "float64")
_SIZE = "4096"  # m = n = k of the table


def work() -> list[Work]:
    """Squares of every dtype, and every epilogue and layout at 4096."""
    cases = (
        square_cases([256, 512, 1024, 2048, 4096], _DTYPES, ["NN"])
        + square_cases([4096], _DTYPES, ["NN"], ["leaky_relu", "bias", "bias+leaky_relu"])
        + square_cases([4096], ["bfloat16"], ["NT", "TN", "TT"])
    )
    return [Work(case) for case in cases]


@of_file(SOURCE)
def comparisons(source: Path) -> list[Comparison]:
    """The dtypes that no other file has, and float32 where no float32.csv says more of it."""
    words = {"float32": "float32 squares, NN, portable kernels", "tf32": "float32 squares, NN, TF32, portable kernels"}
    words["float64"] = "float64 squares, NN"
    if source.with_name("float32.csv").exists():
        del words["float32"]
    times = read_times(source)[1]
    return [one for name, what in words.items() for one in times.compared(what, squares((name,), "NN"))]


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """TFLOP/s at 4096 x 4096 x 4096, NN, by dtype and epilogue; of float16 and bfloat16 matmul.csv says more."""
    head, times = read_times(source)
    left_out = ("float16", "bfloat16") if source.with_name("matmul.csv").exists() else ()
    mine = times.where(lambda key: key.layout == "NN" and key.short == _SIZE and key.dtype not in left_out)
    lines = []
    for key in sorted(mine, key=lambda key: _DTYPES.index(key.dtype)):  # stable: epilogues as measured
        dtype = "float32, TF32 allowed" if key.dtype == "tf32" else key.dtype
        figures = rates(mine, key, ("tileon", "torch", "triton"), 1)
        lines.append([dtype, f"`{key.epilogue}`", *figures, ratio(mine[key], "torch")])
    words = (
        "By the portable kernels, on which float32 runs elsewhere than on Hopper, TFLOP/s at "
        f"m = n = k = {_SIZE}, NN, {head.get('timing', '')}:"
    )
    columns = ["dtype", "epilogue", "tileon", "torch", "triton", "tileon / torch"]
    return page_part(source, table(words, columns, lines, 2))
