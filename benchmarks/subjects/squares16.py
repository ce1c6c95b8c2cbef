"""float16 and bfloat16 against their peers: the cases of matmul.csv, their targets, and the tables."""

from __future__ import annotations

from pathlib import Path

from benchmarks.common.cases import Case, Work, square_cases
from benchmarks.common.markdown import microseconds, page_part, rates, ratio, table
from benchmarks.common.result_file import of_file
from benchmarks.common.target import Asked, Target, each_target, targets_of
from benchmarks.common.times import Comparison, Ratios, Times, Which, read_times, rectangles, square, squares
from benchmarks.subjects.tuning import choice_targets

SOURCE = "matmul.csv"
DTYPES = ("float16", "bfloat16")

SQUARES = (*range(256, 4097, 128), 8192)
GRAPH_SQUARES = tuple(range(256, 1409, 128))  # beyond, a launch takes far longer than its gap
OTHER_LAYOUT_SQUARES = (*range(512, 4097, 512), 8192)
EPILOGUE_SQUARES = (1024, 2048, 4096, 8192)
LINEAR_ROWS = (1, 8, 16, 32, 64, 128, 512, 2048, 8192)
LINEAR_WEIGHTS = ((4096, 4096), (14336, 4096), (4096, 14336), (28672, 8192))  # n, k
LINEAR_SHAPES = tuple((m, n, k) for n, k in LINEAR_WEIGHTS for m in LINEAR_ROWS)

_GRAPH_RANGES = ((256, 640, 1.15), (768, 1408, 0.97))  # first and last size, least mean
_FUSED = ("tileon_plain", "tileon", "torch")
_FUSED_SLACK = 1.02  # time with bias and activation over the plain product's
_SHOWN_SQUARES = (256, 512, 1024, 2048, 4096, 8192)
_LEVEL = 0.02  # ratios this near to 1 are called level: another run may say otherwise


def work() -> list[Work]:
    """Squares, NN and NT, up to 1408 in float16 by CUDA-graph replay as well; TN and TT; a fused epilogue; linear
    layers, NT, from 1 to 8192 rows against four weights."""
    found = []
    for case in square_cases(SQUARES, DTYPES, ["NN", "NT"]):
        graphs = ("tileon_graph", "torch_graph") if case.dtype == "float16" and case.m in GRAPH_SQUARES else ()
        found.append(Work(case, ("tileon", "torch", "triton", *graphs)))
    found += [Work(case, ("tileon", "torch")) for case in square_cases(OTHER_LAYOUT_SQUARES, DTYPES, ["TN", "TT"])]
    fused = square_cases(EPILOGUE_SQUARES, DTYPES, ["NN"], ["bias+leaky_relu"])
    found += [Work(case, ("tileon", "tileon_plain", "torch")) for case in fused]
    return found + [Work(Case("bfloat16", "NT", *shape), ("tileon", "torch")) for shape in LINEAR_SHAPES]


def _graphs(layout: str, first: int, last: int) -> Which:
    mine = squares(("float16",), layout)
    return lambda key: mine(key) and first <= key.m <= last


def _asked(peer: str, dtype: str, layout: str, mean: float, each: float | None = None) -> Asked:
    what = f"{dtype} {layout} squares, {peer} / ours"
    return Asked(what, squares((dtype,), layout), mean, each, peer.lower())


_ASKED = (
    *(_asked("torch", dtype, layout, 1.00, 0.90) for dtype in DTYPES for layout in ("NN", "NT")),
    *(_asked("Triton", dtype, "NN", 1.12) for dtype in DTYPES),
    *(
        Asked(
            f"float16 {layout} graph replay {first}..{last}, torch / ours",
            *(_graphs(layout, first, last), least, None, "torch_graph", "tileon_graph"),
        )
        for first, last, least in _GRAPH_RANGES
        for layout in ("NN", "NT")
    ),
    *(_asked("torch", dtype, layout, 0.98) for dtype in DTYPES for layout in ("TN", "TT")),
)
_ASKED_OF_LAYERS = Asked("bfloat16 linear layers, torch / ours", rectangles("bfloat16", "NT"), 1.00, 0.92)


def _fused(times: Times) -> Times:
    """The products with bias and leaky_relu that were measured without them too."""
    fused = times.where(lambda key: key.epilogue == "bias+leaky_relu")
    return fused.where(lambda key: {*_FUSED} <= fused[key].keys())


def targets(results: Path) -> list[Target]:
    """All of them, not measured where there is no file; and those of the choice in sweep.csv.xz."""
    times = read_times(results / SOURCE)[1] if (results / SOURCE).exists() else Times()
    fused = {f"{key.dtype} {key.short}": by for key, by in _fused(times).items()}
    over_plain = [(name, by["tileon"] / by["tileon_plain"]) for name, by in fused.items()]
    against_torch = [(name, by["torch"] / by["tileon"]) for name, by in fused.items()]
    return [
        *targets_of(times, _ASKED),
        each_target("bias+leaky_relu, time over our plain product's", over_plain, _FUSED_SLACK, most=True),
        each_target("bias+leaky_relu, torch / ours", against_torch, 1.00),
        *targets_of(times, [_ASKED_OF_LAYERS]),
        *choice_targets(results),
    ]


@of_file(SOURCE)
def comparisons(source: Path) -> list[Comparison]:
    """Of README's table, and graphs of the overview alone."""
    times = read_times(source)[1]
    found = times.compared_squares("16-bit", DTYPES)
    found += times.compared("bfloat16 linear layers, NT", rectangles("bfloat16", "NT"))
    found += times.compared("16-bit squares, NN", squares(DTYPES, "NN"), "triton")
    for layout in ("NN", "NT"):
        words, mine = f"float16 squares, {layout}, CUDA graphs", squares(("float16",), layout)
        found += times.compared(words, mine, "torch_graph", "tileon_graph", alone=True)
    return found


# Tables.


def _mean(found: Ratios | None) -> str:
    return f"{found.mean:.2f}" if found else ""


def _rate_table(times: Times) -> list[str]:
    providers, rows = ("tileon", "torch", "triton"), []
    for size in _SHOWN_SQUARES:
        keys = [square(dtype, "NN", size) for dtype in DTYPES]
        rows.append([str(size), *(cell for key in keys for cell in rates(times, key, providers))])
    return table("TFLOP/s, NN:", ["m = n = k", *(f"{dtype} {who}" for dtype in DTYPES for who in providers)], rows)


def _square_table(times: Times) -> list[str]:
    rows = []
    kinds = [(dtype, layout) for two in (("NN", "NT"), ("TN", "TT")) for dtype in DTYPES for layout in two]
    for dtype, layout in kinds:
        torch, triton = (times.ratios(squares((dtype,), layout), peer) for peer in ("torch", "triton"))
        if torch is not None:
            values = torch.by_case.values()
            faster, slower = sum(value > 1 + _LEVEL for value in values), sum(value < 1 - _LEVEL for value in values)
            counts = [str(count) for count in (faster, len(values) - faster - slower, slower)]
            lowest = ", ".join(f"{ratio:.2f} at {key.m}" for key, ratio in torch.lowest(3))
            rows.append([f"{dtype} {layout}", f"{torch.mean:.3f}", *counts, lowest, _mean(triton)])
    words = (
        "The peer's time over ours (above 1 ours is faster), in geometric mean over the squares; at how many of them "
        f"ours is faster than torch, within {100 * _LEVEL:.0f} % of it, and slower; and the three worst sizes:"
    )
    return table(words, ["squares", "torch / tileon", "faster", "level", "slower", "lowest", "triton / tileon"], rows)


def _graph_table(times: Times) -> list[str]:
    def cells(layout: str, first: int, last: int) -> list[str]:
        by = times.get(square("float16", layout, first), {}) if first == last else {}
        mean = _mean(times.ratios(_graphs(layout, first, last), "torch_graph", "tileon_graph"))
        return [*microseconds(by, ("tileon_graph", "torch_graph"), 2), mean]

    sizes = sorted({key.m for key, by in times.items() if "tileon_graph" in by})
    ranges = {str(size): (size, size) for size in sizes}
    ranges |= {f"mean of {first} to {last}": (first, last) for first, last, _ in _GRAPH_RANGES}
    rows = [[words, *cells("NN", *ends), *cells("NT", *ends)] for words, ends in ranges.items()]
    columns = [f"{layout} {what}" for layout in ("NN", "NT") for what in ("tileon", "torch", "torch / tileon")]
    words = "Microseconds of a float16 square by CUDA-graph replay, back to back with warm operands:"
    return table(words, ["m = n = k", *columns], rows)


def _fused_table(times: Times) -> list[str]:
    rows = []
    for key, by in _fused(times).items():
        plain, ours, torch = microseconds(by, _FUSED)
        over = f"{100 * (by['tileon'] / by['tileon_plain'] - 1):+.1f} %"
        rows.append([f"{key.dtype} {key.short}", plain, ours, over, torch, ratio(by, "torch")])
    head = ["squares, NN", "tileon, plain", "tileon, fused", "fused over plain", "torch", "torch / tileon"]
    return table("Microseconds with `bias` and `leaky_relu`; torch takes two kernels:", head, rows)


def linear_table(times: Times, dtype: str = "bfloat16") -> list[str]:
    """Ratios of the linear layers, by rows and weight; nothing where none was measured."""
    found = times.ratios(rectangles(dtype, "NT"))
    if found is None:
        return []
    cells = {(key.m, key.n, key.k): f"{ratio:.2f}" for key, ratio in found.by_case.items()}
    weights = list(dict.fromkeys((n, k) for _, n, k in cells))
    rows = [[str(m), *(cells.get((m, *weight), "") for weight in weights)] for m in sorted({m for m, _, _ in cells})]
    key, worst = found.lowest()[0]
    words = (
        f"Linear layers in {dtype} (NT), torch's time over ours by rows of `a` and n x k of the weight: "
        f"{found.mean:.3f} in geometric mean, at worst {worst:.3f} ({key.m} rows, {key.n} x {key.k}):"
    )
    return table(words, ["rows", *(f"{n} x {k}" for n, k in weights)], rows)


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    head, times = read_times(source)
    words = f"float16 and bfloat16 against their peers: {head.get('timing', '')}. No size is treated specially."
    tables = (_rate_table, _square_table, _graph_table, _fused_table, linear_table)
    lines = [words, "", *(line for make in tables for line in make(times))]
    return page_part(source, lines, targets(source.parent))
