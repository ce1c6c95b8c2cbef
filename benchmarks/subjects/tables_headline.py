"""What README shows: a row for each kind of product, losses included. See result_tables.py.

docs/measured.md has every figure with the command and the commit that it is from.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.common.result_file import read_csv
from benchmarks.common.times import Key, Times, read_times
from benchmarks.report.markdown import table
from benchmarks.subjects.bars_block_scaled import BLOCK_SCALED_FORMATS, KINDS
from benchmarks.subjects.comparisons import (
    Comparison,
    float32_comparisons,
    fp8_comparisons,
    matmul_comparisons,
    portable_comparisons,
)
from benchmarks.subjects.tables_awkward import SOURCE as AWKWARD_OUTPUTS
from benchmarks.subjects.tables_awkward import vocabulary_comparison
from benchmarks.subjects.tables_block_scaled import PROVIDER_WORDS
from benchmarks.subjects.tables_block_scaled_rows import by_rows_lines
from benchmarks.subjects.tables_training import HOST_FUNCTIONS, STATE_WORDS

_BLOCK_SCALED_SIZE = 8192  # m = n = k
_BLOCK_SCALED_ROWS = [*((name, "normal") for name in BLOCK_SCALED_FORMATS), ("mxfp4", "tutorial")]
_PEER_WORDS = {"torch": "torch", "triton": "Triton"}
_STATES = ("grad_unneeded", "grad_recorded")
_READING = (
    "The peer's time over ours, in geometric mean over the cases: above 1 ours is faster, below 1 the peer. 16-bit is "
    "float16 and bfloat16. NN, NT, TN, TT are the layouts of the operands: N is row-major, T transposed, so that NN is "
    "`a @ b` and NT `x @ weight.t()`, a linear layer. The picture above has the same cases in its rows of the same "
    "names, and more rows."
)


def _rows(comparisons: list[Comparison], peer: str = "") -> list[list[str]]:
    """A line each; `peer` is what the files' name of it stands for, where the file has another one than torch."""
    lines = []
    for one in comparisons:
        key, worst = one.found.worst
        where = f" ({key.dtype} {key.shape})" if len(one.found.by_case) > 1 else ""
        figures = [str(len(one.found.by_case)), f"{one.found.mean:.2f}", f"{worst:.2f}{where}"]
        lines.append([one.words, peer or _PEER_WORDS[one.peer], *figures])
    return lines


def _layer_rows(source: Path) -> list[list[str]]:
    times: dict[tuple[str, str], dict[str, float]] = {}
    for row in read_csv(source)[1]:
        times.setdefault((row["activation"], row["pass"]), {})[row["provider"]] = float(row["median_us"])
    return [
        [f"a layer with {activation}, forward and backward", "torch", "1", ratio, ratio]
        for (activation, which), by in times.items()
        if which == "forward_backward" and {"torch", "tileon"} <= by.keys()
        for ratio in [f"{by['torch'] / by['tileon']:.2f}"]
    ]


def _host_rows(source: Path) -> list[list[str]]:
    """A line for each state and each way to make a call: the op itself, and the Python function over it."""
    times: dict[str, dict[str, float]] = {}
    for row in read_csv(source)[1]:
        times.setdefault(row["state"], {})[row["provider"]] = float(row["median_us"])
    return [
        [f"host time of `{function}`, {STATE_WORDS[state]}", "torch", "1", ratio, ratio]
        for state in _STATES
        for by in [times.get(state, {})]
        for ours, function in HOST_FUNCTIONS.items()
        if ours != "torch" and {"torch", ours} <= by.keys()
        for ratio in [f"{by['torch'] / by[ours]:.2f}"]
    ]


def headline_part(results: Path) -> list[str]:
    """A peer's time over ours, one line for each kind of product; nothing while nothing was measured."""
    no_float32 = not (results / "float32.csv").exists()
    of_times: dict[str, tuple[Callable[[Times], list[Comparison]], str]] = {
        "matmul.csv": (matmul_comparisons, ""),
        "fp8.csv": (fp8_comparisons, "`torch._scaled_mm`"),
        "float32.csv": (float32_comparisons, ""),
        "portable.csv": (partial(portable_comparisons, float32=no_float32), ""),
    }
    rows, heads = [], []
    for name, (compare, peer) in of_times.items():
        if (results / name).exists():
            head, times = read_times(results / name)
            heads.append(head)
            rows += _rows(compare(times), peer)
    if (results / AWKWARD_OUTPUTS).exists():
        heads.append(read_csv(results / AWKWARD_OUTPUTS)[0])
        rows += _rows(vocabulary_comparison(results))
    for name, read in {"layer.csv": _layer_rows, "host.csv": _host_rows}.items():
        if (results / name).exists():
            heads.append(read_csv(results / name)[0])
            rows += read(results / name)
    if not rows:
        return []
    machine = " and ".join(dict.fromkeys(f"{head['gpu']}, torch {head['torch']}" for head in heads))
    return [
        f"One {machine}. {_READING}",
        "",
        *table(["product", "peer", "cases", "mean", "worst"], rows, 2),
    ]


def block_scaled_headline_part(results: Path) -> list[str]:
    """Rates of every format on large squares; nothing while there is no block_scaled_matmul.csv."""
    source = results / "block_scaled_matmul.csv"
    if not source.exists():
        return []
    rows = []
    of_kind = {data: read_times(source, data)[1] for data in KINDS}
    for name, data in _BLOCK_SCALED_ROWS:
        size = _BLOCK_SCALED_SIZE
        by = of_kind[data].get(Key(name, "NT", size, size, size, "none"), {})
        if "tileon" in by:
            flops = 2.0 * size**3 * 1e-6
            rates = [f"{flops / by[who]:.0f}" if who in by else "" for who in PROVIDER_WORDS]
            rows.append([name, data, *rates])
    return [
        f"Block-scaled products, TFLOP/s at m = n = k = {_BLOCK_SCALED_SIZE}, of normal random data; mxfp4 of random "
        "scales too (tutorial), which its route by int8 does not take. Triton is one kernel with `tl.dot_scaled`; the "
        "last column multiplies operands that were dequantized beforehand:",
        "",
        *table(["format", "data", *PROVIDER_WORDS.values()], rows, 2),
        *by_rows_lines(of_kind["normal"]),
    ]
