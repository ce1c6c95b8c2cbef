"""Smoke: the command lines run on the CPU and write the promised formats, and what is made of result files is
right."""

from __future__ import annotations

import lzma
import pathlib
import re
import time

import pytest
from benchmark_files import COLUMNS, HEAD, HEAD_KEYS, ROOT, csv_line, read, run

from benchmarks.common.result_file import RESULTS, read_csv
from benchmarks.common.times import square
from benchmarks.common.timing import Arm, time_arms, warm_sets
from benchmarks.fit.cost_model import as_array, model
from benchmarks.fit.sweep_cases import SETS
from benchmarks.measure.unaligned import CASES, aligned_copy, operands, readable
from benchmarks.report.pages import filled
from benchmarks.report.plot import draw_if_possible
from benchmarks.subjects.squares16 import LINEAR_SHAPES, SQUARES


def test_writes_the_promised_csv(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.csv"
    result = run(
        "--sizes", "16,32", "--dtype", "float32", "--layout", "NN,TT", "--activation", "none,bias+leaky_relu",
        "--providers", "tileon,torch", "--seconds", "0.01", "--csv", str(path),
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    head, rows = read(path)
    assert head.keys() >= HEAD_KEYS
    assert str(tmp_path) not in str(head), "the head names no folder of this machine"
    assert str(ROOT) not in str(head)
    assert list(rows[0]) == COLUMNS
    assert len(rows) == 2 * 2 * 2 * 2
    for row in rows:
        assert row["op"] == "matmul"
        assert row["dtype"] == "float32"
        assert row["layout"] in ("NN", "TT")
        assert row["m"] == row["n"] == row["k"]
        assert row["m"] in ("16", "32")
        assert row["epilogue"] in ("none", "bias+leaky_relu")
        assert row["provider"] in ("tileon", "torch")
        microseconds, size = float(row["median_us"]), int(row["m"])
        assert microseconds > 0
        assert float(row["tflops"]) == pytest.approx(2 * size**3 / microseconds / 1e6, rel=0.02)


@pytest.mark.parametrize("arguments", [("--sizes", "8", "--dtype", "int3"), ("--no-such-option",)], ids=str)
def test_nonsense_is_refused(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).returncode != 0


def test_rows_of_the_tile_table_are_the_gpus() -> None:
    result = run("--preset", "sweep", "--rows", ".", "--device", "cpu")
    assert result.returncode == 2
    assert "--rows needs a GPU" in result.stderr


def test_help_names_the_fixed_options() -> None:
    text = run("--help").stdout
    for option in ("--sizes", "--dtype", "--layout", "--activation", "--csv", "--plot"):
        assert option in text


def test_the_hopper_preset_costs_what_a_stage_may_take() -> None:
    result = run("--preset", "hopper", "--dry-run", "--seconds", "0.3", "--warmup-seconds", "0.3")
    assert result.returncode == 0, result.stderr
    first = result.stdout.splitlines()[0].split()
    assert (int(first[0]), first[1]) == (208, "cases,")
    assert float(first[3]) < 240


def test_run_all_writes_every_result_file_of_the_committed_folder(tmp_path: pathlib.Path) -> None:
    """Targets and pictures last: they read the others' files."""
    listed = run("--stages", "all", "--list", "--out", str(tmp_path), script="run_all.py").stdout.splitlines()[1:]
    written = set(re.findall(r"--(?:csv|out) \S*?(\w+\.(?:csv|txt))", "\n".join(listed)))
    printed = {"tests.txt", "sanitizer.txt", "demo.txt", "random_shapes.txt", "targets.txt"}
    by_hand = {"random_shapes_other.csv"}  # by --groups
    by_hand |= {
        "before_after.csv",
        "before_after_8_bits.csv",
        "block_scaled_float16.csv",
        "block_scaled_unseen.csv",
        "decoded_weights.csv",
        "float16xmxfp4.csv",
        "folded_weights.csv",
        "codes_or_numbers.csv",
        "direct_and_few_rows.csv",
        "direct_weight.csv",
        "loaded_together.csv",
        "narrow.csv",
        "regret_random.csv",
        "portable_random.csv",
        "sweep_rectangles_4.csv",
        "sweep_rectangles_5.csv",
        "sweep_rectangles_narrow.csv",
        "unaligned_outputs.csv",
        "weight_blocks.csv",
    }  # docs/evidence.md says how
    committed = {path.name.removesuffix(".xz") for path in RESULTS.iterdir() if path.suffix in (".csv", ".txt", ".xz")}
    assert committed - printed - by_hand <= written
    assert [line.split()[0] for line in listed][-2:] == ["targets", "pictures"]
    for words in (
        "benchmarks/matmul.py --preset fp8 --seconds 0.4 --warmup-seconds 0.4",
        "benchmarks/block_scaled_matmul.py --preset hopper --seconds 0.3 --warmup-seconds 0.3",
        "TILEON_HOPPER=0 python benchmarks/block_scaled_matmul.py --preset portable",
        "python benchmarks/matmul.py --preset float32_rows --rows 'bf16x6|simt|sm80_few' --seconds 0.1",
    ):
        assert any(words in line for line in listed), words


class TestModules:
    """The scripts' own functions, imported as they import each other."""

    def test_warm_operands_fill_at_most_a_quarter_of_l2(self) -> None:
        l2 = 60 << 20
        assert warm_sets(3 * 256 * 256 * 2, l2) == 8
        assert warm_sets(3 * 1024 * 1024 * 2, l2) == 2
        assert warm_sets(3 * 1408 * 1408 * 2, l2) == 1
        assert warm_sets(l2, l2) == 1, "never none"

    def test_hopeless_arms_are_left_out_unless_kept(self) -> None:
        import torch

        def sleeping(milliseconds: float) -> Arm:
            return Arm(lambda: time.sleep(milliseconds * 1e-3))

        arms = {"quick": sleeping(1), "slow": sleeping(20), "chosen": sleeping(20)}
        timings = time_arms(
            arms, torch.device("cpu"), seconds=0.01, warmup_seconds=0.01, min_rounds=2, hopeless=5, keep=("chosen",)
        )
        assert set(timings) == {"quick", "chosen"}

    def test_the_sweep_covers_the_benchmark_sizes_once(self) -> None:

        cases = SETS["sweep"]()
        assert len(set(cases)) == len(cases)
        for layout in ("NN", "NT"):
            squares = {case.m for case in cases if (case.dtype, case.layout) == ("float16", layout)}
            assert squares >= set(SQUARES)
        layers = {(case.m, case.n, case.k) for case in cases if (case.dtype, case.layout) == ("bfloat16", "NT")}
        assert layers >= set(LINEAR_SHAPES)

    def test_copies_of_unaligned_operands_are_aligned_and_equal(self) -> None:
        import torch

        for case in CASES:
            for operand in operands(case, 63 if case == "odd_size" else 64, torch.bfloat16, torch.device("cpu")):
                copy = aligned_copy(operand)
                assert readable(copy), case
                assert torch.equal(copy, operand), case

    @pytest.mark.parametrize("name", ["sweep_float32.csv.xz", "sweep_random_2.csv.xz"])
    def test_a_compressed_file_is_read_as_what_it_holds(self, name: str, tmp_path: pathlib.Path) -> None:
        plain = tmp_path / name.removesuffix(".xz")
        plain.write_bytes(lzma.decompress((RESULTS / name).read_bytes()))
        assert read_csv(RESULTS / name) == read_csv(plain)
        assert read_csv(plain)[0].keys() >= HEAD_KEYS


# A result folder as the scripts write it, from made-up times.


def _line(dtype: str, layout: str, shape: tuple[int, int, int], epilogue: str, provider: str, time_us: float) -> str:
    return csv_line("matmul", dtype, layout, shape, epilogue, provider, time_us)


def _chosen_and_another(size: int) -> tuple[str, str]:
    """Names of two configs: the one that the library chooses for a square, and another one."""
    pytest.importorskip("numpy")
    configs = model().configs
    chosen = configs[model().chosen(as_array([square("float16", "NN", size)]))[0]]
    return chosen, next(name for name in configs if name != chosen)


def _made_up_results(folder: pathlib.Path) -> None:
    """Ours takes 10 us everywhere, torch 11, Triton 12; by graph 5 against 6; fused 10.1 over 10. Two targets are
    missed: torch takes 8 at 512 of bfloat16 NT, and the choice loses 20 % once."""
    folder.mkdir(exist_ok=True)
    lines = [",".join(COLUMNS)]
    for dtype in ("float16", "bfloat16"):
        for layout in ("NN", "NT", "TN", "TT"):
            for size in (256, *range(512, 8193, 512)):
                times = {"tileon": 10.0, "torch": 8.0 if (dtype, layout, size) == ("bfloat16", "NT", 512) else 11.0}
                times |= {"triton": 12.0} if layout == "NN" else {}
                times |= {"tileon_graph": 5.0, "torch_graph": 6.0} if dtype == "float16" and size <= 1024 else {}
                lines += [_line(dtype, layout, (size,) * 3, "none", name, time) for name, time in times.items()]
        fused = {"tileon": 10.1, "tileon_plain": 10.0, "torch": 12.0}
        lines += [_line(dtype, "NN", (1024,) * 3, "bias+leaky_relu", name, time) for name, time in fused.items()]
    for rows in (1, 64):
        layers = {"tileon": 10.0, "torch": 10.5}
        lines += [_line("bfloat16", "NT", (rows, 4096, 4096), "none", name, time) for name, time in layers.items()]
    (folder / "matmul.csv").write_text(HEAD + "\n".join(lines) + "\n")

    lines = [",".join([*COLUMNS, "kernel"])]
    for size, chosen_us in ((256, 10.0), (512, 12.0)):
        for row, row_us in zip(_chosen_and_another(size), (chosen_us, 10.0), strict=True):
            lines.append(_line("float16", "NN", (size,) * 3, "none", f"tileon:{row}", row_us) + f",{row}")
    (folder / "sweep.csv.xz").write_bytes(lzma.compress((HEAD + "\n".join(lines) + "\n").encode()))


def test_targets_say_what_holds_and_what_does_not(tmp_path: pathlib.Path) -> None:
    _made_up_results(tmp_path)
    result = run("--results", str(tmp_path), script="report/targets.py")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    missed = [line for line in lines if "DOES NOT HOLD" in line]
    assert len(missed) == 3, result.stdout
    assert missed[0].startswith("bfloat16 NT squares")
    assert "512 0.800" in missed[0]
    assert "9.54% over 2" in missed[1], "the geometric mean of 1 and 1.2"
    chosen, another = _chosen_and_another(512)
    assert f"worst 20.0% at float16 NN 512: {chosen}, best {another}" in missed[2]
    assert "not measured" not in result.stdout


def test_targets_of_an_empty_folder_are_not_measured(tmp_path: pathlib.Path) -> None:
    result = run("--results", str(tmp_path), script="report/targets.py")
    assert result.returncode == 0, result.stderr
    assert "holds" not in result.stdout.lower().replace("does not hold", "")
    assert "not measured" in result.stdout


def test_tables_and_plot_of_made_up_results(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _made_up_results(tmp_path)
    text = filled("docs/measured.md", tmp_path)
    assert "| bfloat16 NT | 1.080 | 16 | 0 | 1 | 0.80 at 512," in text, "losses are shown with wins"
    assert "| mean of 256 to 640 |  |  | 1.20 |  |  | 1.20 |" in text
    assert "| float16 1024 | 10.0 | 10.1 | +1.0 % | 12.0 | 1.19 |" in text
    assert "| 64 | 1.05 |" in text
    assert "- bfloat16 NT squares, torch / ours, each >= 0.90: 512 0.800" in text
    assert filled("docs/measured.md", tmp_path, text) == text

    pytest.importorskip("matplotlib")
    assert draw_if_possible(tmp_path / "matmul.csv", tmp_path / "matmul.png")
    assert (tmp_path / "matmul.png").stat().st_size > 10_000


def test_small_calls_on_the_cpu_are_measured_beside_torchs(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.csv"
    limits = ("--seconds", "0.01", "--warmup-seconds", "0.01")
    result = run("--subjects", "small,training", *limits, "--csv", str(path), script="measure/cpu.py")
    assert result.returncode == 0, result.stdout + result.stderr
    _, rows = read(path)
    assert {row["subject"] for row in rows} == {"small", "training"}
    assert len({(row["case"], row["dtype"]) for row in rows}) == len(rows) == 10
    for row in rows:
        assert float(row["speed"]) == pytest.approx(float(row["torch_us"]) / float(row["median_us"]), rel=0.02)
