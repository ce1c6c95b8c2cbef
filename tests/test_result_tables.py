"""The pages say what the results say: each table stands in its page, between its marks, and README shows losses too."""

from __future__ import annotations

import pathlib
import re

import pytest
from benchmark_files import BENCHMARKS, COLUMNS, HEAD, ROOT, csv_line, run


@pytest.fixture(autouse=True)
def _scripts_import_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def _write_matmul(folder: pathlib.Path) -> None:
    lines = [
        csv_line("matmul", dtype, "NN", (size,) * 3, "none", provider, time_us)
        for dtype in ("float16", "bfloat16")
        for size, torch_us in ((256, 8.0), (512, 12.5))
        for provider, time_us in (("tileon", 10.0), ("torch", torch_us))
    ]
    (folder / "matmul.csv").write_text("\n".join([HEAD + ",".join(COLUMNS), *lines]) + "\n")


def test_the_pages_are_what_the_results_say() -> None:
    result = run("--check", script="result_tables.py")
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_check_names_a_page_that_is_not_and_changes_nothing(tmp_path: pathlib.Path) -> None:
    _write_matmul(tmp_path)
    before = (ROOT / "README.md").read_text()
    result = run("--check", "--results", str(tmp_path), script="result_tables.py")
    assert result.returncode == 1
    assert "README.md and docs/gpus.md and docs/measured.md" in result.stdout
    assert (ROOT / "README.md").read_text() == before


def test_readme_shows_a_mean_and_the_worst_case_of_each_kind(tmp_path: pathlib.Path) -> None:
    from result_tables import filled

    _write_matmul(tmp_path)
    text = filled("README.md", tmp_path)
    assert "| squares of float16 and bfloat16 | torch | 4 | 1.00 | 0.80 (float16 256) |" in text, "losses too"
    assert "float64, 4096" not in text, "nothing of a file that is not there"
    assert "| mxfp8 | normal |" not in text
    assert filled("README.md", tmp_path, text) == text


def test_readme_shows_what_the_files_say_of_weak_places_too() -> None:
    """Of the committed results: what is slower than torch today is in the table with what is faster."""
    from result_file import read_csv

    text = (ROOT / "README.md").read_text()
    _, host = read_csv(ROOT / "benchmarks" / "results" / "h200" / "host.csv")
    times = {row["provider"]: float(row["median_us"]) for row in host if row["state"] == "grad_recorded"}
    found = {}
    for product in ("float32, TF32 allowed, 4096", "host time of a call, a gradient is recorded"):
        (found[product],) = re.findall(rf"^\| {re.escape(product)} \| torch \| 1 \| ([\d.]+) \|", text, re.MULTILINE)
    assert found["host time of a call, a gradient is recorded"] == f"{times['torch'] / times['tileon_python']:.2f}"


def test_a_page_shows_the_first_of_its_pictures_that_is_there(tmp_path: pathlib.Path) -> None:
    from result_tables import filled

    assert "](" not in _part(filled("README.md", tmp_path), "plot")
    for name in ("matmul", "overview"):  # the second stands before the first
        (tmp_path / f"{name}.png").touch()
        assert f"{tmp_path}/{name}.png)" in _part(filled("README.md", tmp_path), "plot")


def _part(text: str, name: str) -> str:
    return text.split(f"<!-- begin: {name} -->")[1].split(f"<!-- end: {name} -->")[0]


def test_links_to_results_lead_there_from_the_page_that_has_them() -> None:
    for page, up in (("README.md", ""), ("docs/measured.md", "../"), ("docs/gpus.md", "../")):
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
    from result_tables import filled

    assert callable(spoil)
    with pytest.raises(ValueError, match=r"README\.md must hold"):
        filled("README.md", tmp_path, spoil((ROOT / "README.md").read_text()))


def test_no_page_has_marks_that_nobody_fills() -> None:
    from result_tables import PAGES

    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    marked = {page.relative_to(ROOT).as_posix() for page in pages if "<!-- begin:" in page.read_text()}
    assert marked == set(PAGES)


def test_the_table_of_the_choice_has_its_mean_its_worst_case_and_what_tuning_wins(tmp_path: pathlib.Path) -> None:
    from result_tables import filled

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
    assert "- default choice, linear layers, regret, mean <= 2%: 10.00% over 2" in text, "a mark that is missed"


def test_the_table_of_awkward_outputs_has_the_gpus_time_and_the_ratio(tmp_path: pathlib.Path) -> None:
    from result_tables import filled

    assert "GPT-2" not in _part(filled("docs/measured.md", tmp_path), "awkward_outputs")
    lines = [
        "op,dtype,case,m,n,k,provider,mode,median_us",
        *(f"matmul,bfloat16,n50257,16,50257,768,{who},graph,{us}" for who, us in (("tileon", 20), ("torch", 50))),
        *(f"matmul,bfloat16,n50257,16,50257,768,{who},eager,{us}" for who, us in (("tileon", 21), ("torch", 51))),
    ]
    (tmp_path / "awkward_outputs.csv").write_text(HEAD + "\n".join(lines) + "\n")
    text = _part(filled("docs/measured.md", tmp_path), "awkward_outputs")
    assert "| the last layer of GPT-2 | 16x50257x768 | 20.0 | 50.0 | 2.50 |" in text
    assert "a vocabulary of 50257, GPU time | torch | 1 | 2.50 | 2.50 |" in filled("README.md", tmp_path)
