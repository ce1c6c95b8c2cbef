"""What README shows: a row for each kind of product, losses included.

docs/measured.md has every figure with the command and the commit that it is from.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.markdown import table
from benchmarks.common.result_file import read_csv
from benchmarks.common.times import Comparison
from benchmarks.subjects import float32, fp8, portable, squares16, training, unaligned

_PEER_WORDS = {"torch": "torch", "triton": "Triton"}
_READING = (
    "The peer's time over ours, in geometric mean over the cases: above 1 ours is faster, below 1 the peer. 16-bit is "
    "float16 and bfloat16. NN, NT, TN, TT are the layouts of the operands: N is row-major, T transposed, so that NN is "
    "`a @ b` and NT `x @ weight.t()`, a linear layer. The picture above has the same cases in its rows of the same "
    "names, and more rows."
)
_COMPARISONS = {
    squares16.SOURCE: squares16.comparisons,
    fp8.SOURCE: fp8.comparisons,
    float32.SOURCE: float32.comparisons,
    portable.SOURCE: portable.comparisons,
    unaligned.OUTPUTS: unaligned.comparisons,
}


def _row(one: Comparison, peer: str) -> list[str]:
    where = f" ({one.worst})" if len(one.values) > 1 else ""
    return [one.words, peer, str(len(one.values)), f"{one.mean:.2f}", f"{min(one.values):.2f}{where}"]


def headline_part(results: Path) -> list[str]:
    """A peer's time over ours, one line for each kind of product; nothing while nothing was measured."""
    rows = [
        _row(one, "`torch._scaled_mm`" if name == fp8.SOURCE else _PEER_WORDS[one.peer])
        for name, comparisons in _COMPARISONS.items()
        for one in comparisons(results)
        if not one.alone
    ]
    rows += training.layer_headline(results) + training.host_headline(results)
    sources = [results / name for name in (*_COMPARISONS, training.LAYER, training.HOST)]
    heads = [read_csv(source)[0] for source in sources if source.exists()]
    machine = " and ".join(dict.fromkeys(f"{head['gpu']}, torch {head['torch']}" for head in heads))
    return table(f"One {machine}. {_READING}", ["product", "peer", "cases", "mean", "worst"], rows, 2)[:-1]
