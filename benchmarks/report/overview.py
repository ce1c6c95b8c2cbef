"""The picture of everything: one row of dots for each kind of work, the peer's time over ours in every case measured.

From every result file of the folder that holds a comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.common.picture import RATIO, DotPanel, DotRow, Picture, caption_of, machine
from benchmarks.common.result_file import read_csv
from benchmarks.common.times import Comparison
from benchmarks.subjects import block_scaled, float32, fp8, portable, squares16, training, unaligned

_READING = (
    "A dot is a case: the peer's time divided by tileon's. Right of 1 tileon is faster, left of it (shaded) the peer. "
    "The black mark is the geometric mean; at the right it stands in figures, with the range and the number of cases. "
    "16-bit is float16 and bfloat16; NN is a @ b of row-major operands, NT x @ weight.t(), a linear layer."
)
_PEERS = {"torch": "torch (cuBLAS)", "torch_bf16": "cuBLAS on bfloat16", "triton": "Triton"}

_GROUPS: dict[str, tuple[tuple[str, Callable[[Path], list[Comparison]]], ...]] = {
    "matmul": (
        (squares16.SOURCE, squares16.comparisons),
        (unaligned.SOURCE, unaligned.operand_comparisons),
        (unaligned.OUTPUTS, unaligned.comparisons),
        (float32.SOURCE, float32.comparisons),
        (portable.SOURCE, portable.comparisons),
    ),
    "matmul of fp8, against torch._scaled_mm": ((fp8.SOURCE, fp8.comparisons),),
    "block-scaled, against dequantize, cuBLAS": ((block_scaled.SOURCE, block_scaled.over_dequantize),),
    "block-scaled, against cuBLAS on bfloat16": ((block_scaled.SOURCE, block_scaled.over_bfloat16),),
    "block-scaled, against Triton's dot_scaled": ((block_scaled.SOURCE, block_scaled.over_triton),),
    "training and calls": (
        (training.LAYER, training.layer_comparisons),
        (training.PARALLEL, training.parallel_comparisons),
        (training.HOST, training.host_comparisons),
    ),
}
SOURCES = tuple(dict.fromkeys(name for makers in _GROUPS.values() for name, _ in makers))


def figure(results: Path) -> Picture | None:
    """Of whatever files are there."""
    rows: list[DotRow] = []
    heads = {}
    for group, makers in _GROUPS.items():
        heading = group
        for name, comparisons in makers:
            for one in comparisons(results):
                against = ", against Triton" if one.peer == "triton" and group == "matmul" else ""
                rows.append(DotRow(one.words.replace("`", "") + against, one.peer, one.values, heading))
                heading = ""  # above the group's first row alone
                heads[name] = read_csv(results / name)[0]
    if not rows:
        return None
    styles = {row.style for row in rows}
    legend = tuple((style, words) for style, words in _PEERS.items() if style in styles)
    machines = sorted({machine(head) for head in heads.values()})
    return Picture(
        "overview",
        f"Time of each peer over tileon's, {', '.join(machines)}: all kinds of work",
        caption_of(heads, [_READING, "Each CSV's head has its command, dtypes and timing."]),
        ((DotPanel(RATIO, tuple(rows), legend),),),
        (0.222 * (len(rows) + len([row for row in rows if row.heading])) + 0.6,),
    )
