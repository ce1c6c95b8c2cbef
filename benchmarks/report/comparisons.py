"""Every kind of work against its peers, losses included: README's table has a row for each, the overview a line of
dots, the peer's time over ours in every case measured. docs/measured.md has every figure.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.markdown import table
from benchmarks.common.picture import DotPanel, DotRow, Picture, caption_of, machines
from benchmarks.common.result_file import OfFile, read_csv
from benchmarks.common.times import Comparison
from benchmarks.subjects import block_scaled, float32, fp8, portable, random_shapes, squares16, training, unaligned

_IN_README: tuple[OfFile[Comparison], ...] = (
    *(squares16.comparisons, fp8.comparisons, float32.comparisons, portable.comparisons, unaligned.comparisons),
    *(random_shapes.comparisons, random_shapes.other_comparisons),
)
_GROUPS: dict[str, tuple[OfFile[Comparison], ...]] = {
    "matmul": (
        *(squares16.comparisons, unaligned.operand_comparisons, unaligned.comparisons),
        *(float32.comparisons, portable.comparisons),
    ),
    "matmul of fp8, against torch._scaled_mm": (fp8.comparisons,),
    "block-scaled, against dequantize, cuBLAS": (block_scaled.over_dequantize,),
    "block-scaled, against cuBLAS on bfloat16": (block_scaled.over_bfloat16,),
    "block-scaled, against Triton's dot_scaled": (block_scaled.over_triton,),
    "products that nobody chose": (random_shapes.comparisons, random_shapes.other_comparisons),
    "training and calls": (training.layer_comparisons, training.parallel_comparisons, training.host_comparisons),
}
SOURCES = tuple(dict.fromkeys(make.name for makers in _GROUPS.values() for make in makers))  # of the overview

_PEER_WORDS = {"torch": "torch", "triton": "Triton"}
_README_WORDS = (
    "The peer's time over ours, in geometric mean over the cases: above 1 ours is faster, below 1 the peer. 16-bit is "
    "float16 and bfloat16. NN, NT, TN, TT are the layouts of the operands: N is row-major, T transposed, so that NN is "
    "`a @ b` and NT `x @ weight.t()`, a linear layer. Random products are those that [nobody "
    "chose](docs/measured.md#products-that-nobody-chose). The picture above has the same cases in its rows of the same "
    "names, and more rows."
)
_OVERVIEW_WORDS = (
    "A dot is a case: the peer's time divided by tileon's. Right of 1 tileon is faster, left of it (shaded) the peer. "
    "The black mark is the geometric mean; at the right it stands in figures, with the range and the number of cases. "
    "16-bit is float16 and bfloat16; NN is a @ b of row-major operands, NT x @ weight.t(), a linear layer."
)


def headline_part(results: Path) -> list[str]:
    """README's: a line for each kind of product; nothing while nothing was measured."""
    rows = []
    for make in _IN_README:
        for one in make(results):
            peer = "`torch._scaled_mm`" if make is fp8.comparisons else _PEER_WORDS[one.peer]
            rows += [] if one.alone else [[one.words, peer, *one.cells]]
    rows += training.layer_headline(results) + training.host_headline(results)
    names = (*(make.name for make in _IN_README), training.LAYER, training.HOST)
    sources = [results / name for name in names]
    heads = [read_csv(source)[0] for source in sources if source.exists()]
    machine = " and ".join(dict.fromkeys(f"{head['gpu']}, torch {head['torch']}" for head in heads))
    return table(f"One {machine}. {_README_WORDS}", ["product", "peer", "cases", "mean", "worst"], rows, 2)[:-1]


def overview(results: Path) -> Picture | None:
    """The picture, of whatever files are there."""
    rows: list[DotRow] = []
    heads = {}
    for group, makers in _GROUPS.items():
        heading = group
        for make in makers:
            for one in make(results):
                against = ", against Triton" if one.peer == "triton" and group == "matmul" else ""
                rows.append(DotRow(one.words.replace("`", "") + against, one.peer, one.values, heading))
                heading = ""  # above the group's first row alone
                heads[make.name] = read_csv(results / make.name)[0]
    title = f"Time of each peer over tileon's, {machines(heads.values())}: all kinds of work"
    caption = caption_of(heads, [_OVERVIEW_WORDS, "Each CSV's head has its command, dtypes and timing."])
    return Picture("overview", title, caption, ((DotPanel(tuple(rows)),),)) if rows else None
