"""Holds the results against the marks they are to meet: `python benchmarks/bars.py [--results FOLDER]`.

Reads the CSV files of the folder, those that are there, and prints one line for each mark: the figure, where it is
worst, and whether it holds. Needs no GPU. The exit status is 0 whatever holds, and with --strict 1 unless
everything does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.commit import ROOT
from benchmarks.common.gpu_roofs import GPU_ROOFS
from benchmarks.common.result_file import aligned, portable_path, read_csv
from benchmarks.common.times import Key, Loss, Ratios, Times, geometric_mean, losses, ratios, read_times
from benchmarks.fit.sweep_times import losses_of_table
from benchmarks.report.target import Bar, mean_bar, worst_bar
from benchmarks.subjects.bars_block_scaled import block_scaled_bars, hopper_block_scaled_bars
from benchmarks.subjects.bars_block_scaled_accuracy import block_scaled_accuracy_bars
from benchmarks.subjects.bars_float32 import float32_bars
from benchmarks.subjects.bars_fp8 import fp8_bars
from benchmarks.subjects.bars_training import training_bars
from benchmarks.subjects.bars_tune import tune_bars

RESULTS = ROOT / "benchmarks" / "results" / "h200"

LAYOUTS_16 = [(dtype, layout) for dtype in ("float16", "bfloat16") for layout in ("NN", "NT")]
OTHER_LAYOUTS_16 = [(dtype, layout) for dtype in ("float16", "bfloat16") for layout in ("TN", "TT")]
GRAPH_RANGES = ((256, 640, 1.15), (768, 1408, 0.97))  # first and last size, least mean
FUSED_SLACK = 1.02  # time with bias and activation over the plain product's
H200_COPY_TB_S = GPU_ROOFS["NVIDIA H200"].copy_tb_s  # read and written by a large copy
COPY_SHARE = 0.70  # of that, for what only moves bytes


def plain(dtype: str, layout: str, *, squares: bool = True) -> Callable[[Key], bool]:
    """Whether a case is a plain product of this dtype and layout, square or not."""
    return lambda key: (key.dtype, key.layout, key.epilogue, key.is_square) == (dtype, layout, "none", squares)


def linear(times: Times, dtype: str = "bfloat16") -> Ratios | None:
    """torch's time over ours for the linear layers: the rectangles NT of the file."""
    return ratios(times, "torch", "tileon", plain(dtype, "NT", squares=False))


def squares_bars(times: Times) -> list[Bar]:
    bars = []
    for dtype, layout in LAYOUTS_16:
        found = ratios(times, "torch", "tileon", plain(dtype, layout))
        name = f"{dtype} {layout} squares, torch / ours"
        bars += [mean_bar(name, found, 1.00), worst_bar(name, found, 0.90)]
    for dtype in ("float16", "bfloat16"):
        found = ratios(times, "triton", "tileon", plain(dtype, "NN"))
        bars.append(mean_bar(f"{dtype} NN squares, Triton / ours", found, 1.12))
    return bars


def graph_ratios(times: Times, layout: str, first: int, last: int) -> Ratios | None:
    """torch's time over ours by graph replay, float16 squares from `first` to `last`."""
    squares = plain("float16", layout)
    return ratios(times, "torch_graph", "tileon_graph", lambda key: squares(key) and first <= key.m <= last)


def graph_bars(times: Times) -> list[Bar]:
    return [
        mean_bar(
            f"float16 {layout} graph replay {first}..{last}, torch / ours",
            graph_ratios(times, layout, first, last),
            least,
        )
        for first, last, least in GRAPH_RANGES
        for layout in ("NN", "NT")
    ]


def layout_bars(times: Times) -> list[Bar]:
    return [
        mean_bar(
            f"{dtype} {layout} squares, torch / ours", ratios(times, "torch", "tileon", plain(dtype, layout)), 0.98
        )
        for dtype, layout in OTHER_LAYOUTS_16
    ]


@dataclass(frozen=True)
class Fused:
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


def fused(times: Times) -> list[Fused]:
    return [
        Fused(key, by["tileon"], by["tileon_plain"], by["torch"])
        for key, by in times.items()
        if key.epilogue == "bias+leaky_relu" and {"tileon", "tileon_plain", "torch"} <= by.keys()
    ]


def epilogue_bars(times: Times) -> list[Bar]:
    found = fused(times)
    whats = ("bias+leaky_relu, time over our plain product's", "bias+leaky_relu, torch / ours")
    asked = (f"each <= {FUSED_SLACK:.2f}", "each > 1.00")
    if not found:
        return [Bar(what, ask, "", None) for what, ask in zip(whats, asked, strict=True)]

    def name(case: Fused) -> str:
        return f"{case.key.dtype} {case.key.shape}"

    dearest, slowest = max(found, key=lambda c: c.over_plain), min(found, key=lambda c: c.against_torch)
    over = [f"{name(case)} {case.over_plain:.3f}" for case in found if case.over_plain > FUSED_SLACK]
    behind = [f"{name(case)} {case.against_torch:.3f}" for case in found if case.against_torch <= 1]
    return [
        Bar(whats[0], asked[0], ", ".join(over) or f"worst {dearest.over_plain:.3f} at {name(dearest)}", not over),
        Bar(
            whats[1], asked[1], ", ".join(behind) or f"worst {slowest.against_torch:.3f} at {name(slowest)}", not behind
        ),
    ]


def linear_bars(times: Times) -> list[Bar]:
    found, name = linear(times), "bfloat16 linear layers, torch / ours"
    return [mean_bar(name, found, 1.00), worst_bar(name, found, 0.92)]


def choice_losses(sweep: Path) -> list[Loss]:
    """What the choice loses: as it stands, where the sweep has the table's rows; else as recorded."""
    return losses_of_table(sweep) or losses(sweep)


def choice_bars(found: list[Loss]) -> list[Bar]:
    """Of the 16-bit types, whose rows are the choice in question."""
    mine = [loss for loss in found if loss.key.dtype in ("float16", "bfloat16")]
    what = "choice of the row over the best row"
    if not mine:
        return [Bar(what, "mean <= 3 %", "", None), Bar(what, "each <= 10 %", "", None)]
    mean, worst = geometric_mean(loss.ratio for loss in mine), max(mine, key=lambda loss: loss.ratio)
    over = sum(loss.ratio > 1.10 for loss in mine)
    place = f"{worst.key.dtype} {worst.key.layout} {worst.key.shape}: {worst.chosen}, best {worst.best}"
    return [
        Bar(what, "mean <= 3 %", f"{100 * (mean - 1):.2f} % over {len(mine)}", mean <= 1.03),
        Bar(what, "each <= 10 %", f"{over} beyond, worst {100 * (worst.ratio - 1):.1f} % at {place}", not over),
    ]


def quantize_bars(results: Path) -> list[Bar]:
    """Bandwidth on 8192 x 8192; nothing while there is no quantize.csv."""
    source = results / "quantize.csv"
    if not source.exists():
        return []
    found = {
        (row["op"], row["format"]): float(row["tb_s"])
        for row in read_csv(source)[1]
        if row["m"] == row["k"] == "8192" and row["provider"] == "tileon"
    }
    asked = f">= {100 * COPY_SHARE:.0f} % of {H200_COPY_TB_S} TB/s"
    bars = []
    for op in ("quantize", "dequantize"):
        for name in ("mxfp8", "mxfp4", "nvfp4"):
            rate = found.get((op, name))
            share = None if rate is None else rate / H200_COPY_TB_S
            figure = "" if share is None else f"{100 * share:.0f} % ({rate:.2f} TB/s)"
            bars.append(Bar(f"{op} {name} 8192 x 8192", asked, figure, None if share is None else share >= COPY_SHARE))
    return bars


def matmul_bars(results: Path) -> list[Bar]:
    """Every mark of matmul, from the result files of a folder."""
    matmul, sweep = results / "matmul.csv", results / "sweep.csv"
    times: Times = read_times(matmul)[1] if matmul.exists() else {}
    groups = (squares_bars, graph_bars, layout_bars, epilogue_bars, linear_bars)
    bars = [bar for group in groups for bar in group(times)]
    return bars + choice_bars(choice_losses(sweep) if sweep.exists() else [])


def all_bars(results: Path) -> list[Bar]:
    """Every mark, from the result files of a folder."""
    block_scaled = hopper_block_scaled_bars(results) + block_scaled_bars(results) + block_scaled_accuracy_bars(results)
    rest = quantize_bars(results) + training_bars(results) + tune_bars(results)
    return matmul_bars(results) + float32_bars(results) + fp8_bars(results) + block_scaled + rest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the result files")
    parser.add_argument("--strict", action="store_true", help="exit with 1 unless every mark holds")
    arguments = parser.parse_args()
    bars = all_bars(arguments.results.resolve())
    rows = [[bar.what, bar.asked, bar.verdict, bar.figure] for bar in bars]
    print(aligned([["what", "asked", "", "figure"], *rows]))
    held, marks = sum(bar.holds is True for bar in bars), sum(not bar.no_peer for bar in bars)
    print(f"\n{held} of {marks} hold ({portable_path(arguments.results)})")
    return 1 if arguments.strict and held < marks else 0


if __name__ == "__main__":
    sys.exit(main())
