"""float16 and bfloat16 against their peers: the cases of matmul.csv, their targets, and the tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.cases import Case, Work, squares
from benchmarks.common.markdown import not_met, rates, source_line, table
from benchmarks.common.result_file import of_file
from benchmarks.common.target import Target, each_target, mean_target, worst_target
from benchmarks.common.times import (
    Comparison,
    Key,
    Ratios,
    Times,
    among_squares,
    compared,
    linear,
    plain,
    ratios,
    read_times,
    square,
    squares_over_torch,
)
from benchmarks.subjects.tuning import choice_targets

SOURCE = "matmul.csv"
DTYPES = ("float16", "bfloat16")
LAYOUTS = [(dtype, layout) for dtype in DTYPES for layout in ("NN", "NT")]
OTHER_LAYOUTS = [(dtype, layout) for dtype in DTYPES for layout in ("TN", "TT")]

SQUARES = (*range(256, 4097, 128), 8192)
GRAPH_SQUARES = tuple(range(256, 1409, 128))  # beyond, a launch takes far longer than its gap
OTHER_LAYOUT_SQUARES = (*range(512, 4097, 512), 8192)
EPILOGUE_SQUARES = (1024, 2048, 4096, 8192)
LINEAR_ROWS = (1, 8, 16, 32, 64, 128, 512, 2048, 8192)
LINEAR_WEIGHTS = ((4096, 4096), (14336, 4096), (4096, 14336), (28672, 8192))  # n, k
LINEAR_SHAPES = tuple((m, n, k) for n, k in LINEAR_WEIGHTS for m in LINEAR_ROWS)

_GRAPH_RANGES = ((256, 640, 1.15), (768, 1408, 0.97))  # first and last size, least mean
_FUSED_SLACK = 1.02  # time with bias and activation over the plain product's
_SHOWN_SQUARES = (256, 512, 1024, 2048, 4096, 8192)
_LEVEL = 0.02  # ratios this near to 1 are called level: another run may say otherwise


def work() -> list[Work]:
    """Squares, NN and NT, up to 1408 in float16 by CUDA-graph replay as well; TN and TT; a fused epilogue; linear
    layers, NT, from 1 to 8192 rows against four weights."""
    found = []
    for case in squares(SQUARES, DTYPES, ["NN", "NT"], ["none"]):
        graphs = ("tileon_graph", "torch_graph") if case.dtype == "float16" and case.m in GRAPH_SQUARES else ()
        found.append(Work(case, ("tileon", "torch", "triton", *graphs)))
    others = squares(OTHER_LAYOUT_SQUARES, DTYPES, ["TN", "TT"], ["none"])
    found += [Work(case, ("tileon", "torch")) for case in others]
    fused = squares(EPILOGUE_SQUARES, DTYPES, ["NN"], ["bias+leaky_relu"])
    found += [Work(case, ("tileon", "tileon_plain", "torch")) for case in fused]
    return found + [Work(Case("bfloat16", "NT", *shape), ("tileon", "torch")) for shape in LINEAR_SHAPES]


# Targets.


def _over_torch(times: Times, dtype: str, layout: str) -> Ratios | None:
    return ratios(times, "torch", "tileon", plain(dtype, layout))


def _graph_ratios(times: Times, layout: str, first: int, last: int) -> Ratios | None:
    """torch's time over ours by graph replay, float16 squares from `first` to `last`."""
    mine = plain("float16", layout)
    return ratios(times, "torch_graph", "tileon_graph", lambda key: mine(key) and first <= key.m <= last)


@dataclass(frozen=True)
class _Fused:
    """A product with bias and leaky_relu, in microseconds: ours, ours without them, torch's."""

    key: Key
    ours: float
    plain: float
    torch: float

    @property
    def over_plain(self) -> float:
        return self.ours / self.plain

    @property
    def against_torch(self) -> float:
        return self.torch / self.ours


def _fused(times: Times) -> list[_Fused]:
    return [
        _Fused(key, by["tileon"], by["tileon_plain"], by["torch"])
        for key, by in times.items()
        if key.epilogue == "bias+leaky_relu" and {"tileon", "tileon_plain", "torch"} <= by.keys()
    ]


def targets(results: Path) -> list[Target]:
    """All of them, not measured where there is no file; and those of the choice in sweep.csv."""
    times: Times = read_times(results / SOURCE)[1] if (results / SOURCE).exists() else {}
    found = []
    for dtype, layout in LAYOUTS:
        over, name = _over_torch(times, dtype, layout), f"{dtype} {layout} squares, torch / ours"
        found += [mean_target(name, over, 1.00), worst_target(name, over, 0.90)]
    for dtype in DTYPES:
        over = ratios(times, "triton", "tileon", plain(dtype, "NN"))
        found.append(mean_target(f"{dtype} NN squares, Triton / ours", over, 1.12))
    for first, last, least in _GRAPH_RANGES:
        for layout in ("NN", "NT"):
            name = f"float16 {layout} graph replay {first}..{last}, torch / ours"
            found.append(mean_target(name, _graph_ratios(times, layout, first, last), least))
    for dtype, layout in OTHER_LAYOUTS:
        name = f"{dtype} {layout} squares, torch / ours"
        found.append(mean_target(name, _over_torch(times, dtype, layout), 0.98))
    fused = [(f"{case.key.dtype} {case.key.shape}", case) for case in _fused(times)]
    over_plain = [(name, case.over_plain) for name, case in fused]
    against_torch = [(name, case.against_torch) for name, case in fused]
    layers, name = linear(times), "bfloat16 linear layers, torch / ours"
    return [
        *found,
        each_target(
            "bias+leaky_relu, time over our plain product's",
            f"each <= {_FUSED_SLACK:.2f}",
            over_plain,
            lambda over: over <= _FUSED_SLACK,
            worst=max,
        ),
        each_target("bias+leaky_relu, torch / ours", "each > 1.00", against_torch, lambda over: over > 1),
        mean_target(name, layers, 1.00),
        worst_target(name, layers, 0.92),
        *choice_targets(results),
    ]


def comparisons(times: Times) -> list[Comparison]:
    """Of README's table and the overview."""
    return compared(
        times,
        *squares_over_torch("16-bit", DTYPES),
        ("bfloat16 linear layers, NT", "torch", "tileon", plain("bfloat16", "NT", squares=False)),
        ("16-bit squares, NN", "triton", "tileon", among_squares(DTYPES, "NN")),
    )


# Tables.


def _mean(found: Ratios | None) -> str:
    return f"{found.mean:.2f}" if found else ""


def _rates(times: Times) -> list[str]:
    providers, rows = ("tileon", "torch", "triton"), []
    for size in _SHOWN_SQUARES:
        keys = [square(dtype, "NN", size) for dtype in DTYPES]
        rows.append([str(size), *(cell for key in keys for cell in rates(key, times.get(key, {}), providers))])
    head = ["m = n = k", *(f"{dtype} {provider}" for dtype in DTYPES for provider in providers)]
    return ["TFLOP/s, NN:", "", *table(head, rows, 1), ""]


def _squares(times: Times) -> list[str]:
    rows = []
    for dtype, layout in LAYOUTS + OTHER_LAYOUTS:
        torch, triton = _over_torch(times, dtype, layout), ratios(times, "triton", "tileon", plain(dtype, layout))
        if torch is None:
            continue
        values = torch.by_case.values()
        faster, slower = sum(value > 1 + _LEVEL for value in values), sum(value < 1 - _LEVEL for value in values)
        counts = [str(count) for count in (faster, len(values) - faster - slower, slower)]
        lowest = ", ".join(f"{ratio:.2f} at {key.m}" for key, ratio in torch.lowest(3))
        rows.append([f"{dtype} {layout}", f"{torch.mean:.3f}", *counts, lowest, _mean(triton)])
    head = ["squares", "torch / tileon", "faster", "level", "slower", "lowest", "triton / tileon"]
    return [
        "The peer's time over ours (above 1 ours is faster), in geometric mean over the squares; at how many of them "
        f"ours is faster than torch, within {100 * _LEVEL:.0f} % of it, and slower; and the three worst sizes:",
        "",
        *table(head, rows, 1),
        "",
    ]


def _graphs(times: Times) -> list[str]:
    rows = []
    for size in sorted({key.m for key, by in times.items() if "tileon_graph" in by}):
        cells = [str(size)]
        for layout in ("NN", "NT"):
            by = times.get(square("float16", layout, size), {})
            cells += [f"{by[who]:.2f}" if who in by else "" for who in ("tileon_graph", "torch_graph")]
            cells.append(_mean(_graph_ratios(times, layout, size, size)))
        rows.append(cells)
    if not rows:
        return []
    for first, last, _ in _GRAPH_RANGES:
        means = [_mean(_graph_ratios(times, layout, first, last)) for layout in ("NN", "NT")]
        rows.append([f"mean of {first} to {last}", "", "", means[0], "", "", means[1]])
    columns = [f"{layout} {what}" for layout in ("NN", "NT") for what in ("tileon", "torch", "torch / tileon")]
    words = "Microseconds of a float16 square by CUDA-graph replay, back to back with warm operands:"
    return [words, "", *table(["m = n = k", *columns], rows, 1), ""]


def _fused_lines(times: Times) -> list[str]:
    rows = [
        [
            f"{case.key.dtype} {case.key.shape}",
            *(f"{time:.1f}" for time in (case.plain, case.ours)),
            f"{100 * (case.over_plain - 1):+.1f} %",
            f"{case.torch:.1f}",
            f"{case.against_torch:.2f}",
        ]
        for case in _fused(times)
    ]
    if not rows:
        return []
    head = ["squares, NN", "tileon, plain", "tileon, fused", "fused over plain", "torch", "torch / tileon"]
    return ["Microseconds with `bias` and `leaky_relu`; torch takes two kernels:", "", *table(head, rows, 1), ""]


def linear_lines(times: Times, dtype: str = "bfloat16") -> list[str]:
    """Ratios of the linear layers, by rows and weight; nothing where none was measured."""
    found = linear(times, dtype)
    if found is None:
        return []
    weights = list(dict.fromkeys((key.n, key.k) for key in found.by_case))
    rows = []
    for m in sorted({key.m for key in found.by_case}):
        shapes = [Key(dtype, "NT", m, n, k, "none") for n, k in weights]
        rows.append([str(m), *(f"{found.by_case[key]:.2f}" if key in found.by_case else "" for key in shapes)])
    key, worst = found.worst
    return [
        f"Linear layers in {dtype} (NT), torch's time over ours by rows of `a` and n x k of the weight: "
        f"{found.mean:.3f} in geometric mean, at worst {worst:.3f} ({key.m} rows, {key.n} x {key.k}):",
        "",
        *table(["rows", *(f"{n} x {k}" for n, k in weights)], rows, 1),
        "",
    ]


@of_file(SOURCE)
def part(source: Path) -> list[str]:
    """The page's part."""
    head, times = read_times(source)
    lines = [line for make in (_rates, _squares, _graphs, _fused_lines, linear_lines) for line in make(times)]
    timing = f"float16 and bfloat16 against their peers: {head.get('timing', '')}. No size is treated specially."
    return [timing, "", *lines, *not_met(targets(source.parent)), source_line(source, head)]
