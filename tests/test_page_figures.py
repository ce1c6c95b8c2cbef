"""Figures in the sentences of README and docs/ are those of the result files: a table is written anew with its file
(test_result_tables.py), a sentence is not, so each that has figures of a file is computed here and looked up."""

from __future__ import annotations

import csv
import pathlib
import re
from statistics import geometric_mean

import pytest
from benchmark_files import ROOT

from benchmarks.subjects.random_shapes import LEVEL, other_comparisons

RESULTS = ROOT / "benchmarks" / "results" / "h200"

Case = tuple[str, str, int, int, int, str]  # dtype, layout, m, n, k, kind of data
Times = dict[Case, dict[str, float]]


def sentences(page: str) -> str:
    """The page's text without what report/pages.py writes, in one line."""
    text = (ROOT / page).read_text()
    typed = re.sub(r"^<!-- begin: (\w+) -->\n.*?^<!-- end: \1 -->$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"\s+", " ", typed)


def times_of(name: str, results: pathlib.Path = RESULTS) -> Times:
    """Microseconds of the plain products, by case and provider."""
    rows = csv.DictReader(line for line in (results / name).read_text().splitlines() if not line.startswith("#"))
    times: Times = {}
    for row in rows:
        if row["epilogue"] == "none":
            sizes = (int(row["m"]), int(row["n"]), int(row["k"]))
            case = (row["dtype"], row["layout"], *sizes, row.get("data", ""))
            times.setdefault(case, {})[row["provider"]] = float(row["median_us"])
    return times


def squares(times: Times, dtype: str, layouts: str, over: str, under: str) -> dict[int, list[float]]:
    """A provider's time over another's, by size."""
    found: dict[int, list[float]] = {}
    for (name, layout, m, n, k, _), by in times.items():
        if name == dtype and layout in layouts.split() and m == n == k and {over, under} <= by.keys():
            found.setdefault(m, []).append(by[over] / by[under])
    return found


def span(values: list[float], digits: int) -> str:
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def test_float32_on_hopper_has_the_rates_of_its_squares() -> None:
    found = squares(times_of("float32.csv"), "float32", "NN NT", "torch", "tileon")
    wanted = (
        f"{span(found[1024], 1)} times the rate of cuBLAS's float32 at 1024, {span(found[2048], 1)} at 2048, "
        f"{span(found[4096] + found[8192], 1)} at 4096 and 8192"
    )
    assert wanted in sentences("docs/float32_on_hopper.md")
    assert "at more than twice cuBLAS's rate" in sentences("README.md")
    assert min(ratio for size, ratios in found.items() if size >= 1024 for ratio in ratios) > 2


def test_float32_on_hopper_has_the_figures_of_random_products_with_tf32() -> None:
    found = {one.words: one for one in other_comparisons(RESULTS)}["random products, float32, TF32 allowed"]
    case, worst = min(found.ratios, key=lambda item: item[1])
    below = sum(ratio < LEVEL for ratio in found.values)
    wanted = (
        f"over {len(found.values)} random products of TF32, torch's time over ours is "
        f"{geometric_mean(found.values):.2f} in geometric mean, below {LEVEL} in {below} of them and {worst:.2f} "
        f"at worst ({case.layout}, {' x '.join(map(str, case.shape))};"
    )
    assert wanted in sentences("docs/float32_on_hopper.md")


def test_float32_on_hopper_errs_less_than_cublas_as_it_says() -> None:
    assert "less than cuBLAS's at every size that was [measured]" in sentences("docs/float32_on_hopper.md")
    lines = [line for line in (RESULTS / "accuracy.csv").read_text().splitlines() if not line.startswith("#")]
    errors: dict[tuple[str, ...], dict[str, tuple[float, float]]] = {}
    for row in csv.DictReader(lines):
        if row["dtype"] == "float32":
            shape = (row["m"], row["n"], row["k"])
            errors.setdefault(shape, {})[row["provider"]] = (float(row["max_error"]), float(row["rms_error"]))
    assert min(int(k) for _, _, k in errors) == 256
    for by in errors.values():
        assert all(ours < torch for ours, torch in zip(by["tileon"], by["torch"], strict=True))


def test_readme_has_the_peak_of_mxfp4_and_the_range_of_the_other_formats() -> None:
    times = times_of("block_scaled_matmul.csv")
    text = sentences("README.md")
    int8 = [
        2e-9 * m * n * k / by["tileon"]
        for (name, _, m, n, k, data), by in times.items()
        if (name, data) == ("mxfp4", "normal") and "tileon" in by
    ]
    assert f"mxfp4 of normal random data runs at up to {max(int8):.1f} PFLOP/s" in text
    others = {
        case: by["torch_bf16"] / by["tileon"]
        for case, by in times.items()
        if case[0] != "mxfp4" and {"torch_bf16", "tileon"} <= by.keys()
    }
    assert min(m for _, _, m, *_ in others) == 128
    low, high = min(others.values()), max(others.values())
    assert f"from 128 rows on they run at {low:.1f} to {high:.2f} times its rate" in text
    few = [
        by["torch_bf16_graph"] / by["tileon_graph"]
        for case, by in times.items()
        if case[0] != "mxfp4" and "tileon_graph" in by
    ]
    assert min(few) > 1


class TestBlockScaledOnHopper:
    PAGE = "docs/block_scaled_on_hopper.md"

    def test_int8_is_faster_by_its_own_tiles_than_by_those_of_fast_accum_where_nothing_is_folded(self) -> None:
        wanted = "faster without it: at 4096, while 2048 is folded and faster with it, and at 8192 the two are level"
        assert wanted in sentences(self.PAGE)
        times = times_of("block_scaled_matmul.csv")
        over = {size: by for size in (2048, 4096, 8192) for by in [times["mxfp4", "NT", size, size, size, "normal"]]}
        ratios = {size: by["tileon_fast"] / by["tileon"] for size, by in over.items()}
        assert ratios[4096] > 1.03
        assert ratios[2048] < 0.98
        assert ratios[8192] == pytest.approx(1, abs=0.01)

    def test_the_other_formats_are_slower_than_bfloat16_at_each_size_of_the_table(self) -> None:
        assert "At each of these sizes they run at less than the rate of cuBLAS on bfloat16" in sentences(self.PAGE)
        times = times_of("block_scaled_matmul.csv")
        for name in ("mxfp8", "mixed", "nvfp4"):
            assert all(max(ratios) < 1 for ratios in squares(times, name, "NT", "torch_bf16", "tileon").values())

    def test_the_least_lead_over_dequantizing(self) -> None:
        times = times_of("block_scaled_matmul.csv")
        of_format = {
            name: [ratio for size in (4096, 8192) for ratio in found[size]]
            for name in ("mxfp8", "mxfp4", "mixed", "nvfp4")
            for found in [squares(times, name, "NT", "torch_dequantize", "tileon")]
        }
        assert min(of_format, key=lambda name: min(of_format[name])) == "mxfp8"
        assert f"is least: {span(of_format['mxfp8'], 2)} at 4096 and 8192" in sentences(self.PAGE)

    def test_what_cublas_and_triton_take_at_2048(self) -> None:
        at_2048 = {case: by for case, by in times_of("block_scaled_matmul.csv").items() if case[2:5] == (2048,) * 3}
        cublas = [by["torch_bf16"] for case, by in at_2048.items() if case[0] == "mxfp4"]
        triton = [by["triton"] for case, by in at_2048.items() if case[0] in ("mxfp4", "mixed")]
        text = sentences(self.PAGE)
        assert f"takes cuBLAS {min(cublas):.0f} us there, and Triton's kernel" in text
        assert f"Triton's kernel takes {span(triton, 0)} us for mxfp4 and mixed" in text

    def test_where_a_prepared_weight_would_make_a_product_faster_than_cublas(self) -> None:
        wanted = (
            "Without a prepared weight mxfp8 and nvfp4 are slower than cuBLAS on bfloat16 at all of these rows, mxfp4 "
            "up to 512; with one mxfp4 is faster at each, and the others come near"
        )
        assert wanted in sentences(self.PAGE)
        for (name, _, rows, *_), by in times_of("block_scaled_matmul.csv").items():
            if "tileon_prepared" in by:
                without, ready = (by["torch_bf16"] / by[who] for who in ("tileon", "tileon_prepared"))
                assert (without > 1) == (name == "mxfp4" and rows > 512)
                assert (ready > 1) == (name == "mxfp4")
                assert ready > 0.9


def test_float32_on_hopper_has_the_rates_of_squares_in_tf32() -> None:
    times = times_of("tf32.csv", RESULTS.parent / "h100")
    most, tn = (squares(times, "tf32", layouts, "torch", "tileon") for layouts in ("NN NT TT", "TN"))
    assert [(min(found), max(found)) for found in (most, tn)] == [(512, 8192)] * 2
    slowest = min(most, key=lambda size: min(most[size]))
    of_most, of_tn = ([ratio for ratios in found.values() for ratio in ratios] for found in (most, tn))
    wanted = (
        f"squares of 512 to 8192 run at {span(of_most, 2)} times torch's rate in NN, NT and TT and at "
        f"{span(of_tn, 2)} times in TN; the slowest is {slowest} in NN"
    )
    assert wanted in sentences("docs/float32_on_hopper.md")
    assert squares(times, "tf32", "NN", "torch", "tileon")[slowest] == [min(most[slowest])]


def test_training_says_which_passes_of_a_layer_are_faster() -> None:
    wanted = (
        "the forward pass of a large layer takes less time than torch's, with leaky_relu and with gelu, and so do "
        "forward and backward together"
    )
    assert wanted in sentences("docs/training.md")
    lines = [line for line in (RESULTS / "layer.csv").read_text().splitlines() if not line.startswith("#")]
    times = {
        (row["activation"], row["pass"], row["provider"]): float(row["median_us"]) for row in csv.DictReader(lines)
    }
    ratio = {
        (activation, which): times[activation, which, "torch"] / times[activation, which, "tileon"]
        for activation in ("leaky_relu", "gelu")
        for which in ("forward", "forward_backward")
    }
    assert min(ratio.values()) > 1.02
