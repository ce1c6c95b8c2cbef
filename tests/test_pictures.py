"""The pictures' data is what the result files say, all of it, and a picture is known to be stale where it is not."""

from __future__ import annotations

import math
import pathlib
import re

import pytest
from benchmark_files import ROOT, run
from picture_files import NAMES, RESULTS, copy_results, panels, picture, rows_of, write_matmul

from benchmarks.report.comparisons import SOURCES
from benchmarks.report.pictures import MAKERS, check


class TestData:
    def test_every_ratio_by_k_is_the_files_quotient(self) -> None:
        times = {
            (row["dtype"], row["k"], row["provider"]): float(row["median_us"])
            for row in rows_of("block_scaled_matmul.csv")
            if row["m"] == row["n"] == "8192" and row["data"] == "normal"
        }
        drawn = 0
        for series in panels("block_scaled")[0].series:
            name = series.label.split(":")[0]
            for k, ratio in zip(series.xs, series.ys, strict=True):
                theirs, ours = (times[name, str(int(k)), who] for who in ("torch_bf16", "tileon"))
                assert ratio == theirs / ours
                drawn += 1
        assert drawn == len([key for key in times if key[2] == "torch_bf16"]), "nothing is left out, losses neither"

    def test_every_number_of_rows_is_drawn(self) -> None:
        panel = panels("block_scaled")[1]
        rows = {
            (row["dtype"], row["m"], row["provider"])
            for row in rows_of("block_scaled_matmul.csv")
            if (row["n"], row["k"]) == ("8192", "8192") and row["m"] != "8192"
        }
        ours = [row for row in rows if row[2] in ("tileon", "tileon_graph", "tileon_prepared")]
        assert sum(len(series.xs) for series in panel.series) == len(ours)

    def test_a_mean_in_a_legend_is_geometric(self) -> None:
        for series in panels("block_scaled")[0].series:
            mean = math.exp(sum(math.log(ratio) for ratio in series.ys) / len(series.ys))
            assert series.label.split(": ")[1] == f"mean {mean:.2f}"

    def test_the_overview_has_a_row_of_every_comparison(self) -> None:
        (panel,) = panels("overview")
        rows = {row.label: row.values for row in panel.rows}
        assert all(rows.values())
        times = {(row["state"], row["provider"]): float(row["median_us"]) for row in rows_of("host.csv")}
        for ours, function in (("tileon", "torch.ops.tileon.matmul"), ("tileon_python", "tileon_ops.matmul")):
            host = sorted(times[state, "torch"] / us for (state, who), us in times.items() if who == ours)
            assert sorted(rows[f"host time of {function}"]) == host
        tf32 = {(row["m"], row["provider"]): float(row["median_us"]) for row in rows_of("portable.csv")
                if (row["dtype"], row["layout"], row["epilogue"]) == ("tf32", "NN", "none")}  # fmt: skip
        found = sorted(rows["float32 squares, NN, TF32, portable kernels"])
        assert found == sorted(us / tf32[m, "tileon"] for (m, who), us in tf32.items() if who == "torch")

    def test_the_overview_has_the_cases_of_readmes_table_in_the_rows_of_those_names(self) -> None:
        (panel,) = panels("overview")
        rows = {row.label: row.values for row in panel.rows}
        part = (ROOT / "README.md").read_text().split("<!-- begin: headline -->")[1].split("<!-- end: headline -->")[0]
        lines = [[cell.strip() for cell in line[1:-1].split("|")] for line in part.splitlines() if line.startswith("|")]
        of_shapes = [line for line in lines if re.search(", [NT]|^random", line[0])]  # that name a layout, or draw it
        assert len(of_shapes) == 17 + 7, "all but layers, whose passes the picture has together, and the host's times"
        for what, peer, *figures in of_shapes:
            values = rows[what.replace("`", "") + (", against Triton" if peer == "Triton" else "")]
            mean = math.exp(sum(math.log(value) for value in values) / len(values))
            assert figures[:2] == [str(len(values)), f"{mean:.2f}"], what
            assert figures[2].split()[0] == f"{min(values):.2f}", what

    def test_no_row_of_the_overview_mixes_int8_with_what_is_slower_than_bfloat16(self) -> None:
        """mxfp4 of normal data is up to twice as fast as cuBLAS on bfloat16; of many rows nothing else by a tenth."""
        (panel,) = panels("overview")
        many = [row for row in panel.rows if row.peer == "torch_bf16" and " to 64 " not in row.label]
        assert len(many) == 8
        for row in many:
            is_int8 = row.label.startswith("mxfp4, normal data")
            assert is_int8 or max(row.values) < 1.1, row.label
            rows = re.search(r"(\d+) to (\d+) rows", row.label)
            assert rows
            first, last = (int(number) for number in rows.groups())
            kinds = [kind for kind in ("normal", "tutorial") if kind in row.label] or ["normal", "tutorial"]
            times: dict[tuple[str, ...], dict[str, float]] = {}
            for line in rows_of("block_scaled_matmul.csv"):
                of_row = line["data"] in kinds and first <= int(line["m"]) <= last
                if line["dtype"] == re.match(r"\w+", row.label)[0] and of_row:
                    case = tuple(line[column] for column in ("m", "n", "k", "data"))
                    times.setdefault(case, {})[line["provider"]] = float(line["median_us"])
            assert sorted(row.values) == sorted(by["torch_bf16"] / by["tileon"] for by in times.values())


def test_the_page_of_the_pictures_names_the_files_of_each() -> None:
    text = (ROOT / "docs" / "pictures.md").read_text()
    for name, (sources, _) in MAKERS.items():
        (line,) = re.findall(rf"^\| `{name}\.png` \|.*$", text, re.MULTILINE)
        assert re.findall(r"`(\w+\.csv(?:\.xz)?)`", line) == list(sources)


class TestFolders:
    def test_an_empty_folder_says_what_is_missing_and_draws_nothing(self, tmp_path: pathlib.Path) -> None:
        result = run("--results", str(tmp_path), script="report/pictures.py")
        assert result.returncode == 0, result.stderr
        assert "block_scaled.png: nothing to draw (without block_scaled_matmul.csv)" in result.stdout
        assert result.stdout.count("nothing to draw") == len(NAMES)
        assert not list(tmp_path.iterdir())

    def test_a_partial_folder_draws_what_is_there_and_says_what_is_not(self, tmp_path: pathlib.Path) -> None:
        pytest.importorskip("matplotlib")
        copy_results(tmp_path, "fp8.csv", "host.csv")
        result = run("--results", str(tmp_path), script="report/pictures.py")
        assert result.returncode == 0, result.stderr
        assert "overview.png: drawn (without matmul.csv, " in result.stdout
        assert {path.name for path in tmp_path.glob("*.png")} == {"overview.png"}
        again = run("--results", str(tmp_path), script="report/pictures.py")
        assert "overview.png: up to date" in again.stdout

    @pytest.mark.parametrize("source", sorted({path.name for path in RESULTS.glob("*.csv")}))
    def test_a_file_cut_short_breaks_no_picture(self, source: str, tmp_path: pathlib.Path) -> None:
        """A head alone, then what stands before any peer was measured."""
        lines = (RESULTS / source).read_text().splitlines(keepends=True)
        begin = next(place for place, line in enumerate(lines) if not line.startswith("#"))
        for count in (1, 2):
            (tmp_path / source).write_text("".join(lines[: begin + count]))
            assert [name for name, (_, make) in MAKERS.items() if make(tmp_path) is not None] == []

    def test_a_folder_that_is_not_there_is_refused(self, tmp_path: pathlib.Path) -> None:
        result = run("--results", str(tmp_path / "none"), script="report/pictures.py")
        assert result.returncode == 2
        assert "there is no folder" in result.stderr


class TestStale:
    def test_the_committed_pictures_show_what_the_committed_files_say(self) -> None:
        assert check(RESULTS) == [], "run `make pictures`"

    def test_a_changed_figure_makes_just_its_pictures_stale(self, tmp_path: pathlib.Path) -> None:
        copy_results(tmp_path, *(name for name in SOURCES if (RESULTS / name).exists()))
        copy_results(tmp_path, *(f"{name}.png" for name in NAMES))
        assert check(tmp_path) == []
        lines = (tmp_path / "fp8.csv").read_text().splitlines()
        before, us, _ = next(line for line in lines if ",tileon," in line).rsplit(",", 2)
        text = "\n".join(lines).replace(f"{before},{us},", f"{before},{float(us) + 0.01},")
        (tmp_path / "fp8.csv").write_text(text + "\n")
        stale = {complaint.split()[0] for complaint in check(tmp_path)}
        assert stale == {"overview.png"}

    def test_check_needs_no_matplotlib_and_says_what_to_run(self, tmp_path: pathlib.Path) -> None:
        write_matmul(tmp_path)
        (tmp_path / "block_scaled.png").write_bytes(b"no picture")
        (tmp_path / "matplotlib.py").write_text("raise ImportError")
        result = run("--results", str(tmp_path), "--check", script="report/pictures.py")
        assert result.returncode == 1
        assert "overview.png is missing: run `make pictures`" in result.stdout
        assert "block_scaled.png is there, but none of block_scaled_matmul.csv" in result.stdout
        (tmp_path / "overview.png").write_bytes(b"no picture")
        result = run("--results", str(tmp_path), "--check", script="report/pictures.py")
        assert "overview.png does not show what its files say: run `make pictures`" in result.stdout

    def test_the_key_covers_the_text_of_a_picture(self, tmp_path: pathlib.Path) -> None:
        source = write_matmul(tmp_path)
        before = picture("overview", tmp_path).key
        source.write_text(source.read_text().replace("0123456789abcdef", "fedcba9876543210"))
        assert picture("overview", tmp_path).key != before, "the commit is in the caption"
