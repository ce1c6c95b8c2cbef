"""What README shows: a row for each kind of product, losses included.

docs/measured.md has every figure with the command and the commit that it is from.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.markdown import table
from benchmarks.common.result_file import read_csv
from benchmarks.common.times import Comparison, read_times
from benchmarks.subjects import float32, fp8, portable, squares16, training, unaligned

_PEER_WORDS = {"torch": "torch", "triton": "Triton"}
_READING = (
    "The peer's time over ours, in geometric mean over the cases: above 1 ours is faster, below 1 the peer. 16-bit is "
    "float16 and bfloat16. NN, NT, TN, TT are the layouts of the operands: N is row-major, T transposed, so that NN is "
    "`a @ b` and NT `x @ weight.t()`, a linear layer. The picture above has the same cases in its rows of the same "
    "names, and more rows."
)


def product_comparisons(source: Path) -> list[Comparison]:
    """Of one of the files of matmul.py: float32 by the portable kernels only where float32.csv does not say more."""
    times = read_times(source)[1]
    if source.name == portable.SOURCE:
        return portable.comparisons(times, float32=not source.with_name(float32.SOURCE).exists())
    subjects = {squares16.SOURCE: squares16, fp8.SOURCE: fp8, float32.SOURCE: float32}
    return subjects[source.name].comparisons(times)


def _rows(comparisons: list[Comparison], peer: str = "") -> list[list[str]]:
    """A line each; `peer` is what the files' name of it stands for, where the file has another one than torch."""
    lines = []
    for one in comparisons:
        key, worst = one.found.worst
        where = f" ({key.dtype} {key.shape})" if len(one.found.by_case) > 1 else ""
        figures = [str(len(one.found.by_case)), f"{one.found.mean:.2f}", f"{worst:.2f}{where}"]
        lines.append([one.words, peer or _PEER_WORDS[one.peer], *figures])
    return lines


def headline_part(results: Path) -> list[str]:
    """A peer's time over ours, one line for each kind of product; nothing while nothing was measured."""
    rows, heads = [], []
    products = (squares16.SOURCE, fp8.SOURCE, float32.SOURCE, portable.SOURCE)
    for name in (*products, unaligned.OUTPUTS, training.LAYER, training.HOST):
        if (results / name).exists():
            heads.append(read_csv(results / name)[0])
        if name in products and (results / name).exists():
            rows += _rows(product_comparisons(results / name), "`torch._scaled_mm`" if name == fp8.SOURCE else "")
    rows += _rows(unaligned.vocabulary_comparison(results))
    rows += training.layer_headline(results) + training.host_headline(results)
    if not rows:
        return []
    machine = " and ".join(dict.fromkeys(f"{head['gpu']}, torch {head['torch']}" for head in heads))
    return [f"One {machine}. {_READING}", "", *table(["product", "peer", "cases", "mean", "worst"], rows, 2)]
