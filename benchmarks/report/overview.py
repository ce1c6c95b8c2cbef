"""The picture of everything: one row of dots for each kind of work, the peer's time over ours in every case measured.

From every result file of the folder that holds a comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.common.block_scaled_cases import DATA
from benchmarks.common.picture import DotPanel, DotRow, Picture, caption_of, machine
from benchmarks.common.result_file import read_csv
from benchmarks.common.times import Comparison, Key, Times, ratios, read_times
from benchmarks.report.headline import product_comparisons
from benchmarks.subjects import float32, fp8, portable, squares16, training, unaligned

_READING = (
    "A dot is a case: the peer's time divided by tileon's. Right of 1 tileon is faster, left of it (shaded) the peer. "
    "The black mark is the geometric mean; at the right it stands in figures, with the range and the number of cases. "
    "16-bit is float16 and bfloat16; NN is a @ b of row-major operands, NT x @ weight.t(), a linear layer."
)
_TRITON = "triton"

# Of block-scaled formats, by words: the format and the kinds of data. What mxfp4 becomes, and so how fast it is,
# depends on the data: int8 takes normal ones, bfloat16 the tutorial's. The others become bfloat16 with either.
_BLOCK_SCALED: dict[str, tuple[str, tuple[str, ...]]] = {
    "mxfp8": ("mxfp8", DATA),
    "mxfp4, normal data": ("mxfp4", ("normal",)),
    "mxfp4, tutorial data": ("mxfp4", ("tutorial",)),
    "mixed": ("mixed", DATA),
    "nvfp4": ("nvfp4", DATA),
}


def _row(label: str, style: str, values: Iterable[float], heading: str = "") -> DotRow:
    return DotRow(label, ((style, tuple(values)),), heading)


def _rows(comparisons: list[Comparison]) -> list[DotRow]:
    """Those of README's table: the same words, but for the peer, which has a column there."""
    return [
        _row(
            one.words.replace("`", "") + (", against Triton" if one.peer == _TRITON else ""),
            one.peer,
            one.found.by_case.values(),
        )
        for one in comparisons
    ]


def _among(times: Times, over: str, under: str, among: Callable[[Key], bool]) -> list[float]:
    found = ratios(times, over, under, among)
    return list(found.by_case.values()) if found else []


def _product_rows(source: Path) -> list[DotRow]:
    return _rows(product_comparisons(source))


def _matmul_rows(source: Path) -> list[DotRow]:
    times = read_times(source)[1]

    def graphs(layout: str) -> DotRow:
        found = _among(times, "torch_graph", "tileon_graph", lambda key: key.layout == layout)
        return _row(f"float16 squares, {layout}, CUDA graphs", "torch", found)

    return [*_product_rows(source), graphs("NN"), graphs("NT")]


def _outputs_rows(source: Path) -> list[DotRow]:
    results = source.parent
    return _rows(unaligned.vocabulary_comparison(results) + unaligned.other_outputs_comparison(results))


def _unaligned_rows(source: Path) -> list[DotRow]:
    return [_row("bfloat16, unaligned or strided operands", "torch", unaligned.operand_ratios(source.parent))]


def _by_format(source: Path, words: str, style: str, peer: str, among: Callable[[Key], bool]) -> list[DotRow]:
    """A row for each format, and for each kind of data on which the format's speed depends."""
    times = {data: read_times(source, data)[1] for data in DATA}
    rows = []
    for label, (name, kinds) in _BLOCK_SCALED.items():

        def mine(key: Key, name: str = name) -> bool:
            return key.dtype == name and among(key)

        rows.append(
            _row(
                f"{label}: {words}",
                style,
                [ratio for data in kinds for ratio in _among(times[data], peer, "tileon", mine)],
            )
        )
    return rows


def _dequantize_rows(source: Path) -> list[DotRow]:
    return _by_format(source, "squares", "torch", "torch_dequantize", lambda key: key.is_square)


def _bfloat16_rows(source: Path) -> list[DotRow]:
    """By rows of `a`: each format apart where some are faster than bfloat16 and others slower."""
    peer, normal = "torch_bf16", read_times(source, "normal")[1]
    few = _among(normal, f"{peer}_graph", "tileon_graph", lambda key: not key.is_square)
    return [
        _row("all formats: 1 to 64 rows", peer, few),
        *_by_format(source, "128 to 1024 rows", peer, peer, lambda key: key.m <= 1024 < key.n),
        *_by_format(source, "2048 to 8192 rows", peer, peer, lambda key: key.m >= 2048),
    ]


def _triton_rows(source: Path) -> list[DotRow]:
    rows = _by_format(source, "squares", _TRITON, _TRITON, lambda key: key.is_square)
    return [_row("mxfp8, mxfp4, mixed: squares", _TRITON, [ratio for row in rows for ratio in row.values])]


def _layer_rows(source: Path) -> list[DotRow]:
    found = training.layer_ratios(source)
    return [
        _row(f"linear layer, {words}", "torch", [one for (_, its), of in found.items() if its == which for one in of])
        for which, words in training.PASSES.items()
    ]


def _parallel_rows(source: Path) -> list[DotRow]:
    return [_row("MLP on 1 and 2 GPUs", "torch", training.parallel_ratios(source))]


def _host_rows(source: Path) -> list[DotRow]:
    return [
        _row(f"host time of {training.HOST_FUNCTIONS[who]}", "torch", found)
        for who, found in training.host_ratios(source).items()
    ]


_BLOCK_SCALED_FILE = "block_scaled_matmul.csv"
_GROUPS: tuple[tuple[str, tuple[tuple[str, Callable[[Path], list[DotRow]]], ...]], ...] = (
    (
        "matmul",
        (
            (squares16.SOURCE, _matmul_rows),
            (unaligned.SOURCE, _unaligned_rows),
            (unaligned.OUTPUTS, _outputs_rows),
            (float32.SOURCE, _product_rows),
            (portable.SOURCE, _product_rows),
        ),
    ),
    ("matmul of fp8, against torch._scaled_mm", ((fp8.SOURCE, _product_rows),)),
    ("block-scaled, against dequantize, cuBLAS", ((_BLOCK_SCALED_FILE, _dequantize_rows),)),
    ("block-scaled, against cuBLAS on bfloat16", ((_BLOCK_SCALED_FILE, _bfloat16_rows),)),
    ("block-scaled, against Triton's dot_scaled", ((_BLOCK_SCALED_FILE, _triton_rows),)),
    (
        "training and calls",
        ((training.LAYER, _layer_rows), (training.PARALLEL, _parallel_rows), (training.HOST, _host_rows)),
    ),
)
SOURCES = tuple(dict.fromkeys(name for _, makers in _GROUPS for name, _ in makers))


def figure(results: Path) -> Picture | None:
    """Of whatever files are there."""
    rows: list[DotRow] = []
    heads = {}
    for heading, makers in _GROUPS:
        for name, make in makers:
            source = results / name
            found = [row for row in make(source) if row.values] if source.exists() else []
            if found:
                heads[name] = read_csv(source)[0]
            for row in found:
                rows.append(DotRow(row.label, row.groups, heading))
                heading = ""  # above the group's first row alone
    if not rows:
        return None
    words = {
        "torch": "torch (cuBLAS)",
        "torch_bf16": "cuBLAS on bfloat16",
        "triton": "Triton",
    }
    styles = {style for row in rows for style, _ in row.groups}
    legend = tuple((style, text) for style, text in words.items() if style in styles)
    machines = sorted({machine(head) for head in heads.values()})
    return Picture(
        "overview",
        f"Time of each peer over tileon's, {', '.join(machines)}: all kinds of work",
        caption_of(heads, [_READING, "Each CSV's head has its command, dtypes and timing."]),
        (DotPanel("", "peer's time / tileon's", tuple(rows), legend, means=True),),
        ((0,),),
        (0.222 * (len(rows) + len([row for row in rows if row.heading])) + 0.6,),
    )
