"""The pages of the CPU's results (pages_of_cpu_results.py): the tables are what the results say, and the bars hold."""

from __future__ import annotations

import importlib.util
import math
import re

import pytest
from benchmark_files import ROOT, read
from pages_of_cpu_results import PAGES, RESULTS, filled, of_format, rows
from transformers_models import ARCHITECTURES

from tileon_ops.nn.layer_formats import LAYER_FORMATS

# Percent of bfloat16's perplexity, of weights alone: what a format may lose, of a model that was trained.
LOST_AT_MOST = {
    "mxfp8": 1.0,
    "fp8_row": 1.0,
    "fp8_128x128": 1.0,
    "int8_row": 1.0,
    "nvfp4": 3.0,
    "mxfp4": 6.0,
    "mixed": 6.0,
}
MODES = ("True", "False")
SEARCHED = ("mxfp8", "mxfp4", "mixed", "nvfp4")  # whose weights' scales are searched for
PERPLEXITIES = of_format(rows("perplexity.csv"))
ERRORS = {
    tuple(row[name] for name in ("format", "what", "data", "scale_rounding")): float(row["signal_db"])
    for row in rows("format_errors.csv")
}


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_what_the_results_say(page: str) -> None:
    assert filled(page) == (ROOT / page).read_text(), "run `python tests/pages_of_cpu_results.py`"


class TestPerplexity:
    def test_has_every_format_both_ways(self) -> None:
        assert {key[:2] for key in PERPLEXITIES} == {(format, mode) for format in LAYER_FORMATS for mode in MODES}

    @pytest.mark.parametrize("format", LAYER_FORMATS)
    def test_of_weights_alone_is_near_bfloat16s(self, format: str) -> None:
        assert float(PERPLEXITIES[format, "True", "default"]["ratio"]) <= 1 + LOST_AT_MOST[format] / 100

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("format", SEARCHED)
    def test_the_default_diverges_less_than_floor(self, format: str, mode: str) -> None:
        found = {rule: float(PERPLEXITIES[format, mode, rule]["kl"]) for rule in ("floor", "default")}
        assert found["default"] < found["floor"]

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("format", SEARCHED)
    def test_where_floors_perplexity_is_lower_it_is_by_chance(self, format: str, mode: str) -> None:
        default, floor = (PERPLEXITIES[format, mode, rule] for rule in ("default", "floor"))
        error = math.hypot(float(default["ratio_error"]), float(floor["ratio_error"]))
        assert float(default["ratio"]) - float(floor["ratio"]) <= error

    def test_ratios_follow_from_the_perplexities(self) -> None:
        (base,) = (float(row["perplexity"]) for row in rows("perplexity.csv") if row["format"] == "bfloat16")
        for row in PERPLEXITIES.values():
            assert float(row["ratio"]) == pytest.approx(float(row["perplexity"]) / base, abs=1.5e-4)


class TestErrors:
    def test_has_every_format(self) -> None:
        assert {key[0] for key in ERRORS} == set(LAYER_FORMATS)

    @pytest.mark.parametrize("key", [key for key in ERRORS if key[1] == "weights" and key[3] == "floor"], ids=str)
    def test_searched_weights_err_less_than_floors(self, key: tuple[str, ...]) -> None:
        assert ERRORS[key[0], key[1], key[2], "default"] >= ERRORS[key]


class TestArchitectures:
    def test_every_one_is_there_in_every_format(self) -> None:
        found = [(row["architecture"], row["format"]) for row in rows("architectures.csv")]
        assert found == [(architecture, format) for architecture in ARCHITECTURES for format in LAYER_FORMATS]

    def test_every_one_runs_and_is_loaded_to_the_bit_in_every_format(self) -> None:
        assert {(row["runs"], row["loads"]) for row in rows("architectures.csv")} == {("True", "True")}

    @pytest.mark.usefixtures("one_thread")
    def test_rows_are_what_convert_makes_of_them(self) -> None:
        """Of each architecture one, in another format than the one before it."""
        if importlib.util.find_spec("transformers") is None:
            pytest.skip("needs transformers, which is not here")
        import transformers
        from architectures_table import COLUMNS, row

        head, committed = read(RESULTS / "architectures.csv")
        if head["transformers"] != transformers.__version__:
            pytest.skip(
                f"the file is of transformers {head['transformers']}, which may make other layers than this one"
            )
        formats = len(LAYER_FORMATS)
        for line in (committed[formats * number + number % formats] for number in range(len(ARCHITECTURES))):
            again = row(line["architecture"], line["format"])
            assert dict(zip(COLUMNS, map(str, again), strict=True)) == line


def test_the_source_distribution_has_the_results() -> None:
    lines = (ROOT / "MANIFEST.in").read_text().splitlines()
    assert any(re.match(r"recursive-include benchmarks/results/cpu .*\*\.csv", line) for line in lines)
