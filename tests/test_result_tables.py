"""The pages say what the results say: each table stands in its page, between its marks, and README shows losses too."""

from __future__ import annotations

import csv
import pathlib
import re

import pages_of_cpu_results
import pytest
from benchmark_files import COLUMNS, HEAD, ROOT, csv_line, run

from benchmarks.common.result_file import read_csv
from benchmarks.report.pages import PAGES, filled

RESULTS = ROOT / "benchmarks" / "results" / "h200"


def _write_matmul(folder: pathlib.Path) -> None:
    lines = [
        csv_line("matmul", dtype, "NN", (size,) * 3, "none", provider, time_us)
        for dtype in ("float16", "bfloat16")
        for size, torch_us in ((256, 8.0), (512, 12.5))
        for provider, time_us in (("tileon", 10.0), ("torch", torch_us))
    ]
    (folder / "matmul.csv").write_text("\n".join([HEAD + ",".join(COLUMNS), *lines]) + "\n")


def test_the_pages_are_what_the_results_say() -> None:
    result = run("--check", script="report/pages.py")
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_check_names_a_page_that_is_not_and_changes_nothing(tmp_path: pathlib.Path) -> None:
    _write_matmul(tmp_path)
    before = (ROOT / "README.md").read_text()
    result = run("--check", "--results", str(tmp_path), script="report/pages.py")
    assert result.returncode == 1
    pages = (
        "README.md",
        *(f"docs/{name}.md" for name in ("block_scaled_on_hopper", "dense_on_hopper", "gpus", "measured")),
    )
    assert " and ".join(pages) in result.stdout
    assert (ROOT / "README.md").read_text() == before


def test_readme_shows_a_mean_and_the_worst_case_of_each_kind(tmp_path: pathlib.Path) -> None:
    _write_matmul(tmp_path)
    text = filled("README.md", tmp_path)
    assert "| 16-bit squares, NN | torch | 4 | 1.00 | 0.80 (float16 256) |" in text, "losses too"
    assert "float64 squares" not in text, "nothing of a file that is not there"
    assert "| mxfp8 | normal |" not in text
    assert filled("README.md", tmp_path, text) == text


def test_readme_shows_what_the_files_say_of_weak_places_too() -> None:
    """Of the committed results: what is slower than torch today is in the table with what is faster."""
    shown = {line[0]: line[1:] for line in _tables((ROOT / "README.md").read_text())}
    assert float(shown["float32 squares, NN, TF32, portable kernels"][2]) < 1
    _, host = read_csv(RESULTS / "host.csv")
    for state, words in (("grad_recorded", "a gradient is recorded"), ("grad_unneeded", "nothing requires a gradient")):
        times = {row["provider"]: float(row["median_us"]) for row in host if row["state"] == state}
        for ours, function in (("tileon", "torch.ops.tileon.matmul"), ("tileon_python", "tileon_ops.matmul")):
            (line,) = (
                line for what, line in shown.items() if what.startswith(f"host time of `{function}`") and words in what
            )
            assert line[2] == f"{times['torch'] / times[ours]:.2f}"


def test_a_page_shows_a_picture_that_is_there(tmp_path: pathlib.Path) -> None:
    assert "](" not in _part(filled("README.md", tmp_path), "plot")
    (tmp_path / "overview.png").touch()
    assert f"{tmp_path}/overview.png)" in _part(filled("README.md", tmp_path), "plot")


def test_readme_keeps_the_layouts_of_squares_apart(tmp_path: pathlib.Path) -> None:
    """NN is 1.25 times as fast as torch here and NT, the layout of linear layers, half as fast."""
    lines = [
        csv_line("matmul", "bfloat16", layout, (size,) * 3, "none", provider, time_us)
        for size in (256, 512)
        for layout, torch_us in (("NN", 12.5), ("NT", 5.0))
        for provider, time_us in (("tileon", 10.0), ("torch", torch_us))
    ]
    for name, dtype in (("matmul", "bfloat16"), ("float32", "float32")):
        text = "\n".join([HEAD + ",".join(COLUMNS), *lines]) + "\n"
        (tmp_path / f"{name}.csv").write_text(text.replace("bfloat16", dtype))
    text = filled("README.md", tmp_path)
    for what, dtype in (("16-bit", "bfloat16"), ("float32", "float32")):
        assert f"| {what} squares, NN | torch | 2 | 1.25 | 1.25 ({dtype} 256) |" in text
        assert f"| {what} squares, NT | torch | 2 | 0.50 | 0.50 ({dtype} 256) |" in text


def test_every_line_of_squares_in_readme_names_its_layout() -> None:
    squares = [line[0] for line in _tables((ROOT / "README.md").read_text()) if "squares" in line[0]]
    assert {"16-bit squares, NN", "16-bit squares, NT"} <= set(squares)
    assert all(re.match(r"(16-bit|fp8|float32|float64) squares, (NN|NT|TN and TT)\b", what) for what in squares)


def test_readme_shows_at_which_rows_each_format_is_slower_than_bfloat16(tmp_path: pathlib.Path) -> None:
    lines = [
        csv_line("block_scaled_matmul", "mxfp8", "NT", (rows, 8192, 8192), "none", who, time_us) + ",normal"
        for rows, torch_us in ((16, 5.0), (128, 2.0), (256, 1.0), (512, 3.0), (1024, 4.0), (8192, 9.0))
        for who, time_us in (("tileon", 4.0), ("torch_bf16", torch_us))
    ]
    columns = ",".join([*COLUMNS, "data"])
    (tmp_path / "block_scaled_matmul.csv").write_text("\n".join([HEAD + columns, *lines]) + "\n")
    text = _part(filled("README.md", tmp_path), "block_scaled_headline")
    assert "Below 1 cuBLAS is the faster one:\n" in text
    assert "| mxfp8 | 1.25 | 0.50 | 0.25 | 0.75 | 1.00 | 2.25 |" in text


def _tables(text: str) -> list[list[str]]:
    """The lines of all tables, as cells, heads and rules among them."""
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line.startswith("|")]


def _times(name: str, format: str, data: str, shape: tuple[int, int, int]) -> dict[str, float]:
    """Microseconds by provider, read without the tables' own functions."""
    m, n, k = (str(size) for size in shape)
    rows = csv.DictReader(line for line in (RESULTS / name).read_text().splitlines() if not line.startswith("#"))
    wanted = {"dtype": format, "layout": "NT", "m": m, "n": n, "k": k, "data": data}
    mine = [row for row in rows if wanted.items() <= row.items()]
    return {row["provider"]: float(row["median_us"]) for row in mine}


class TestBlockScaledOnHopper:
    """The tables of that page, against the file that they name."""

    SOURCE = "block_scaled_matmul.csv"
    PAGE = ROOT / "docs" / "block_scaled_on_hopper.md"

    def lines(self, part: str) -> list[list[str]]:
        head, _, *lines = _tables(_part(self.PAGE.read_text(), part))
        assert lines
        return [head, *lines]

    def test_few_rows(self) -> None:
        _, *lines = self.lines("few_rows")
        assert len(lines) == 10
        for name, weight, rows, *figures in lines:
            n, k = map(int, weight.split(" x "))
            by = _times(self.SOURCE, name, "normal", (int(rows), n, k))
            ours, cublas = by["tileon_graph"], by["torch_bf16_graph"]
            assert figures == [f"{ours:.1f}", f"{cublas:.1f}", f"{cublas / ours:.2f}"]

    def test_a_prepared_weight(self) -> None:
        _, *lines = self.lines("prepared")
        assert len(lines) == 12
        for name, weight, rows, *figures in lines:
            assert weight == "8192 x 8192"
            by = _times(self.SOURCE, name, "normal", (int(rows), 8192, 8192))
            times = [by[who] for who in ("tileon", "tileon_prepared", "torch_bf16")]
            ratios = [by["torch_bf16"] / by[who] for who in ("tileon", "tileon_prepared")]
            assert figures == [*(f"{us:.1f}" for us in times), *(f"{ratio:.2f}" for ratio in ratios)]

    def test_what_mxfp4_becomes(self) -> None:
        head, *lines = self.lines("mxfp4_forms")
        assert len(lines) == 4
        for what, *cells in lines:
            data, who = "normal" if "normal" in what else "tutorial", "tileon_fast" if "fast" in what else "tileon"
            for size, cell in zip(head[1:], cells, strict=True):
                by = _times(self.SOURCE, "mxfp4", data, (int(size),) * 3)
                ours, peer = (2e-6 * int(size) ** 3 / by[name] for name in (who, "torch_dequantize"))
                assert cell == f"{ours:.0f} ({peer:.0f})"


def test_no_table_under_the_name_of_a_result_file_is_typed() -> None:
    """Outside the targets no table follows a section's mention of a CSV file."""
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        complaints = _typed_tables(page.read_text())
        assert not complaints, f"{page.name}: {complaints}: let report/pages.py write it"


@pytest.mark.parametrize("between", ["", "And so:\n\n", "```sh\nls\n```\n\n"])
def test_a_typed_table_is_noticed(between: str) -> None:
    table = "| rows | us |\n| --- | ---: |\n| 1 | 14.4 |\n"
    cited = "As in [a.csv](../benchmarks/results/h200/a.csv):\n\n"
    assert _typed_tables(f"# Page\n\n{cited}{between}{table}") == ["| rows | us |"]
    assert not _typed_tables(f"# Page\n\n{cited}<!-- begin: a -->\n{table}<!-- end: a -->\n")
    assert not _typed_tables(f"# Page\n\n{cited}## Another section\n\n{table}"), "which is of something else"


def _typed_tables(text: str) -> list[str]:
    """The heads of tables that stand outside the targets, in a section that has named a CSV file before."""
    outside = re.sub(r"^<!-- begin: (\w+) -->\n.*?^<!-- end: \1 -->$", "", text, flags=re.DOTALL | re.MULTILINE)
    found = []
    for section in re.split(r"^#+ ", outside, flags=re.MULTILINE):
        for head in re.finditer(r"^(\|.*\|)\n\| ?:?---", section, re.MULTILINE):
            if re.search(r"\w\.csv\b", section[: head.start()]):
                found.append(head[1])
    return found


def _part(text: str, name: str) -> str:
    return text.split(f"<!-- begin: {name} -->")[1].split(f"<!-- end: {name} -->")[0]


def test_links_to_results_lead_there_from_the_page_that_has_them() -> None:
    for page in PAGES:
        up = "../" if page.startswith("docs/") else ""
        text = (ROOT / page).read_text()
        links = re.findall(r"\]\(([^)]*benchmarks/results/[^)]*)\)", text)
        assert links
        assert all(link.startswith(f"{up}benchmarks/results/") for link in links)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace("<!-- begin: plot -->", ""),
        lambda text: text.replace("<!-- end: headline -->", ""),
        lambda text: text + "\n<!-- begin: plot -->\n<!-- end: plot -->\n",
        lambda text: text + "\n<!-- begin: nobody -->\n<!-- end: nobody -->\n",
    ],
    ids=["no begin", "no end", "twice", "unknown"],
)
def test_marks_that_are_not_the_parts_are_refused(spoil: object, tmp_path: pathlib.Path) -> None:
    assert callable(spoil)
    with pytest.raises(ValueError, match=r"README\.md must hold"):
        filled("README.md", tmp_path, spoil((ROOT / "README.md").read_text()))


def test_no_page_has_marks_that_nobody_fills() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    marked = {page.relative_to(ROOT).as_posix() for page in pages if "<!-- begin:" in page.read_text()}
    assert marked == set(PAGES) | set(pages_of_cpu_results.PAGES)


def test_the_table_of_the_choice_has_its_mean_its_worst_case_and_what_tuning_wins(tmp_path: pathlib.Path) -> None:
    assert "lost in mean" not in _part(filled("docs/measured.md", tmp_path), "tune_regret")
    columns = "set,dtype,layout,m,n,k,default,default_us,best,best_us,regret,tuned,again_us,tuned_us"
    lines = [
        "linear,bfloat16,NT,1,8,8,row_x,121,row_y,100,0.21,row_y,121,100",
        "linear,bfloat16,NT,2,8,8,row_x,100,row_x,100,0,default,100,100",
        "random,bfloat16,TN,3,8,8,row_x,104,row_y,100,0.04,default,100,100",
    ]
    (tmp_path / "tune_regret.csv").write_text("\n".join([HEAD + columns, *lines]) + "\n")
    text = _part(filled("docs/measured.md", tmp_path), "tune_regret")
    assert "| linear layers | 2 | 10.00% | 21.0% (NT 1x8x8) | 1 | 10.00% |" in text
    assert "| random rectangles | 1 | 4.00% | 4.0% (TN 3x8x8) | 0 | 0.00% |" in text
    assert "- default choice, linear layers, regret, mean <= 2%: 10.00% over 2" in text, "a target that is missed"


def test_the_table_of_unaligned_outputs_has_the_gpus_time_and_the_ratio(tmp_path: pathlib.Path) -> None:
    assert "GPT-2" not in _part(filled("docs/measured.md", tmp_path), "awkward_outputs")
    lines = [
        "op,dtype,case,m,n,k,provider,mode,median_us",
        *(f"matmul,bfloat16,n50257,16,50257,768,{who},graph,{us}" for who, us in (("tileon", 20), ("torch", 50))),
        *(f"matmul,bfloat16,n50257,16,50257,768,{who},eager,{us}" for who, us in (("tileon", 21), ("torch", 51))),
    ]
    (tmp_path / "awkward_outputs.csv").write_text(HEAD + "\n".join(lines) + "\n")
    text = _part(filled("docs/measured.md", tmp_path), "awkward_outputs")
    assert "| the last layer of GPT-2 | 16x50257x768 | 20.0 | 50.0 | 2.50 |" in text
    assert "bfloat16 layer of 50257 columns, NT, GPU time | torch | 1 | 2.50 | 2.50 |" in filled("README.md", tmp_path)
