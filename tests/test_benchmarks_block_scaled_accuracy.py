"""The benchmark of how near block-scaled products come to float64: what it measures, on small shapes, its file, and the
targets that are read from it."""

from __future__ import annotations

import math
import pathlib

import pytest
import torch
from benchmark_files import HEAD, HEAD_KEYS, read, run

from benchmarks.common.cases import FORMATS as MEASURED
from benchmarks.common.cases import Case, Operands
from benchmarks.measure import block_scaled_accuracy
from benchmarks.measure.block_scaled_accuracy import SHAPES, accuracy, main, measure
from benchmarks.report.pages import filled
from benchmarks.subjects.block_scaled import FORMATS as SHOWN
from benchmarks.subjects.block_scaled_accuracy import ALL_K, SIZE, targets

FORMATS = ("nvfp4", "mxfp4", "mxfp8", "mixed")
COLUMNS = ["op", "format", "data", "m", "n", "k", "rows", "provider", "sqnr_db", "bit_exact"]


# What is measured.


def test_a_tenth_of_the_signal_is_20_db() -> None:
    exact = torch.full((4, 4), 10.0, dtype=torch.float64)
    decibels, bit_exact = accuracy(exact.float() + 1, exact)
    assert decibels == pytest.approx(20)
    assert not bit_exact


def test_bit_exact_is_the_reference_rounded_once() -> None:
    whole = torch.arange(1.0, 17.0, dtype=torch.float64).view(4, 4)
    assert accuracy(whole.float(), whole) == (math.inf, True)
    third = whole / 3
    decibels, bit_exact = accuracy(third.float(), third)
    assert bit_exact
    assert 140 < decibels < 170, "rounding to float32 is noise too"
    next_to_it = third.float()
    next_to_it[2, 3] = torch.nextafter(next_to_it[2, 3], torch.tensor(math.inf))
    assert not accuracy(next_to_it, third)[1]


def test_what_is_no_number_is_noise() -> None:
    exact = torch.ones(2, 2, dtype=torch.float64)
    for value in (math.nan, math.inf):
        result = exact.float()
        result[0, 1] = value
        decibels, bit_exact = accuracy(result, exact)
        assert not decibels >= 0
        assert not bit_exact


@pytest.mark.parametrize("data", ["normal", "tutorial"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_provider_computes_the_rows_of_the_reference(name: str, data: str, device: torch.device) -> None:
    found = measure(Case(name, "NT", 200, 136, 1024, data=data), device, 70)
    fast = ("tileon_fast",) if name == "mxfp4" else ()
    assert tuple(found) == ("tileon", *fast, "torch_bf16")
    for provider, (decibels, _) in found.items():
        assert decibels >= (40 if provider == "tileon_fast" else 100), provider
    if (name, data) == ("mxfp4", "normal"):
        assert found["tileon"][1], "every sum is a number of float32"


def test_nvfp4_has_a_global_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    right = block_scaled_accuracy.tileon

    def without(operands: Operands, _: torch.Tensor | None, **options: bool) -> torch.Tensor:
        return right(operands, None, **options)

    monkeypatch.setattr(block_scaled_accuracy, "tileon", without)
    cpu = torch.device("cpu")
    found = {
        name: block_scaled_accuracy.measure(Case(name, "NT", 16, 16, 64, data="tutorial"), cpu, 16) for name in FORMATS
    }
    assert [name for name, of_name in found.items() if of_name["tileon"][0] < 0] == ["nvfp4"]
    assert found["nvfp4"]["torch_bf16"][0] > 100


def test_rounding_to_16_bits_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = block_scaled_accuracy.tileon

    def rounded(operands: Operands, global_scale: torch.Tensor | None, **options: bool) -> torch.Tensor:
        return right(operands, global_scale, **options).bfloat16().float()

    monkeypatch.setattr(block_scaled_accuracy, "tileon", rounded)
    case = Case("mxfp4", "NT", 32, 48, 256, data="normal")
    decibels, bit_exact = block_scaled_accuracy.measure(case, torch.device("cpu"), 32)["tileon"]
    assert 40 < decibels < 70
    assert not bit_exact


# The command line and its file.


def test_writes_the_promised_csv(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.csv"
    result = run(
        "--format", "mxfp4,mixed", "--shapes", "260x40x64,16x8x96", "--csv", str(path),
        script="measure/block_scaled_accuracy.py",
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "figures: out.csv" in result.stdout
    head, rows = read(path)
    assert head.keys() >= HEAD_KEYS
    assert head["reference"].endswith("nvfp4's global scale 0.3333")
    assert str(tmp_path) not in str(head), "the head names no folder of this machine"
    assert list(rows[0]) == COLUMNS
    providers = {"mxfp4": ("tileon", "tileon_fast", "torch_bf16"), "mixed": ("tileon", "torch_bf16")}
    assert [(row["format"], row["data"], row["m"], row["rows"], row["provider"]) for row in rows] == [
        (name, data, m, compared, who)
        for name in providers
        for data in ("normal", "tutorial")
        for m, compared in (("260", "256"), ("16", "16"))
        for who in providers[name]
    ]
    assert all(row["op"] == "block_scaled_matmul" and float(row["sqnr_db"]) > 100 for row in rows)
    assert {row["bit_exact"] for row in rows if (row["format"], row["data"]) == ("mxfp4", "normal")} == {"yes"}


def test_without_arguments_every_format_is_measured() -> None:
    result = run(script="measure/block_scaled_accuracy.py")
    assert result.returncode == 0, result.stdout + result.stderr
    measured = {tuple(line.split()[1:3]) for line in result.stdout.splitlines() if " torch_bf16 " in line}
    assert measured == {(name, data) for name in FORMATS for data in ("normal", "tutorial")}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--format", "int4"), "unknown 'int4'; there are nvfp4, mxfp4, mxfp8, mixed"),
        (("--format", "mxfp8", "--shapes", "16x16x48"), "k must be a multiple of 32 for mxfp8, got 48"),
        (("--shapes", "16x32"), "'16x32' is not MxNxK"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_before_anything_runs(
    arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["block_scaled_accuracy.py", "--device", "cpu", *arguments])
    with pytest.raises(SystemExit) as exit:
        main()
    captured = capsys.readouterr()
    assert exit.value.code == 2
    assert said in captured.err
    assert captured.out == ""


# Targets.


def _made_up(folder: pathlib.Path, *, without: str = "nothing", **changed: str) -> list[str]:
    """Writes every row that the targets want, ours 140 dB and bit-exact and cuBLAS's as many dB; returns the targets
    that are missed.

    Args:
        folder: of the file.
        without: rows with this in them are left out.
        changed: figures by `<format>_<data>_<k>_<provider>`.
    """
    lines = [",".join(COLUMNS)]
    for name in FORMATS:
        for data in ("normal", "tutorial"):
            for k in (1024, 8192):
                for who in ("tileon", "torch_bf16"):
                    figures = changed.get(f"{name}_{data}_{k}_{who}", "140.00,yes")
                    lines.append(f"block_scaled_matmul,{name},{data},8192,8192,{k},256,{who},{figures}")
    kept = [line for line in lines if without not in line]
    (folder / "block_scaled_accuracy.csv").write_text(HEAD + "\n".join(kept) + "\n")
    return [f"{target.what}, {target.asked}: {target.figure}" for target in targets(folder) if target.holds is False]


def test_targets_are_nothing_without_the_file_and_one_line_each_with_it(tmp_path: pathlib.Path) -> None:
    assert targets(tmp_path) == []
    assert _made_up(tmp_path) == [], "as near as cuBLAS is near enough"
    found = targets(tmp_path)
    assert [target.verdict for target in found] == ["holds"] * (1 + 4 + 4)
    figures = [(target.what, target.asked, target.figure) for target in found]
    assert figures[0] == ("mxfp4 normal 8192 x 8192 x k, against float64", "each bit-exact", "at 1024, 8192")
    normal = "mxfp8 normal 8192 x 8192 x k, against float64"
    assert (normal, "each >= 120 dB", "worst 140.00 dB at 1024") in figures
    tutorial = "mixed tutorial 8192 x 8192 x k, against float64"
    shown = "1024 140.00 dB (cuBLAS 140.00), 8192 140.00 dB (cuBLAS 140.00)"
    assert (tutorial, "each >= cuBLAS on bfloat16", shown) in figures
    printed = run("--results", str(tmp_path), script="report/targets.py").stdout
    assert printed.count("against float64") == 9
    assert "9 of" in printed


def test_each_target_is_missed_by_what_it_forbids(tmp_path: pathlib.Path) -> None:
    normal, tutorial = (f"{data} 8192 x 8192 x k, against float64" for data in ("normal", "tutorial"))
    assert _made_up(tmp_path, mxfp4_normal_8192_tileon="149.50,no", mxfp8_normal_1024_tileon="140.00,no") == [
        f"mxfp4 {normal}, each bit-exact: 8192 149.50 dB"
    ]
    assert _made_up(tmp_path, nvfp4_normal_1024_tileon="119.99,no", mixed_normal_8192_tileon="nan,no") == [
        f"mixed {normal}, each >= 120 dB: 8192 nan dB",
        f"nvfp4 {normal}, each >= 120 dB: 1024 119.99 dB",
    ]
    assert _made_up(tmp_path, mixed_tutorial_8192_torch_bf16="140.01,no", mxfp8_tutorial_1024_tileon="nan,no") == [
        f"mxfp8 {tutorial}, each >= cuBLAS on bfloat16: 1024 nan dB (cuBLAS 140.00), 8192 140.00 dB (cuBLAS 140.00)",
        f"mixed {tutorial}, each >= cuBLAS on bfloat16: 1024 140.00 dB (cuBLAS 140.00), 8192 140.00 dB (cuBLAS 140.01)",
    ]
    assert _made_up(tmp_path, mxfp4_normal_1024_tileon="inf,yes", mxfp4_tutorial_1024_tileon="inf,yes") == []


def test_a_target_without_all_its_rows_is_not_measured(tmp_path: pathlib.Path) -> None:
    for gone, what in (
        ("mxfp4,normal,8192,8192,1024,256,tileon,", ["mxfp4 normal"] * 2),
        ("mxfp8,tutorial,8192,8192,8192,256,torch_bf16,", ["mxfp8 tutorial"]),
    ):
        assert _made_up(tmp_path, without=gone) == []
        missing = [target.what for target in targets(tmp_path) if target.verdict == "not measured"]
        assert missing == [f"{name} 8192 x 8192 x k, against float64" for name in what]


def test_the_page_shows_every_case_and_what_is_missed(tmp_path: pathlib.Path) -> None:
    _made_up(tmp_path, mxfp4_normal_1024_tileon="inf,yes")
    text = filled("docs/measured.md", tmp_path)
    title = "How near the products come to float64"
    assert title in text
    part = text[text.index(title) :].split("NVIDIA H200")[0]
    rows = [line for line in part.splitlines() if line.startswith(tuple(f"| {name}" for name in FORMATS))]
    assert len(rows) == len(FORMATS) * 2 * 2, "formats, kinds of data, k"
    assert "| mxfp4 | normal | 8192 x 8192 x 1024 | exact | 140.0 |" in rows
    assert "fall short" not in part
    _made_up(tmp_path, mixed_normal_8192_tileon="nan,no")
    text = filled("docs/measured.md", tmp_path, text)
    assert "| mixed | normal | 8192 x 8192 x 8192 | nan | 140.0 |" in text
    assert "- mixed normal 8192 x 8192 x k, against float64, each >= 120 dB: 8192 nan dB" in text


def test_targets_and_benchmark_agree_on_shapes_and_formats() -> None:
    assert [(SIZE, SIZE, k) for k in ALL_K] == list(SHAPES["cuda"])
    assert set(SHOWN) == set(MEASURED)
