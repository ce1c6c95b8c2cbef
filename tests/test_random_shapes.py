"""Products that nobody chose: who computes them, the file, and the summary made of it."""

from __future__ import annotations

import lzma
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from benchmark_files import BENCHMARKS, COLUMNS, HEAD, HEAD_KEYS, ROOT, read

from benchmarks.common.cases import Case, Operands, make_operands
from benchmarks.common.times import times_of
from benchmarks.common.timing import Arm, Timing
from benchmarks.measure import products, random_shapes
from benchmarks.measure.peers.providers import NotOffered
from benchmarks.measure.random_shapes import PROVIDERS, summary_text
from benchmarks.report.targets import all_targets
from benchmarks.subjects.random_shapes import (
    OTHER,
    SOURCE,
    comparisons,
    other_comparisons,
    other_targets,
    part,
    summary,
    targets,
)

FORMATS = ("nvfp4", "mxfp4", "mxfp8", "mixed")
DTYPES = ("float16", "bfloat16", "float32", "tf32", "float64", "e4m3", "e5m2", "e4m3xe5m2", "e5m2xe4m3")


@pytest.fixture(autouse=True)
def _torch_setting() -> Iterator[None]:
    """What the script sets is torch's own setting, for all that runs after it."""
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def calls(case: Case, device: torch.device) -> dict[str, Any]:
    """The call of each provider, on the same operands."""
    operands = make_operands(case, device)
    return {name: make(case, operands) for name, make in PROVIDERS.items()}


# For each dtype and each way to compute it, of sizes that torch._scaled_mm takes and of some that it refuses.
PRODUCTS = (
    *((dtype, "NT", 24, 32, 96, "bias+gelu", 1) for dtype in (*DTYPES, *FORMATS)),
    *((dtype, "TN", 9, 11, 13, "bias+silu", 1) for dtype in DTYPES),
    *((dtype, "TT", 8, 9, 33, "bias+leaky_relu", 3) for dtype in DTYPES),
    *((dtype, "NT", 5, 7, 64, "none", 1) for dtype in FORMATS),
    *((dtype, "NN", 16, 8, 24, "none", 2) for dtype in ("float32", "e4m3")),
    *(("float32", "NT", 6, 7, 9, f"bias+{name}", 2) for name in ("relu", "gelu_tanh", "silu")),
    *(("float16", layout, 16, 24, 8, f"bias+{name}", 1) for layout, name in (("NN", "relu"), ("TN", "gelu_tanh"))),
    ("float64", "NN", 6, 7, 8, "bias", 1),
)


class TestProviders:
    @pytest.mark.parametrize("what", PRODUCTS, ids=str)
    def test_both_compute_the_same(self, what: tuple[Any, ...], device: torch.device) -> None:
        product = Case(*what)
        if product.dtype == "tf32" and device.type == "cpu":
            with pytest.raises(NotOffered, match="TF32 is the GPU's"):
                calls(product, device)
            return
        torch.set_float32_matmul_precision("high" if product.dtype == "tf32" else "highest")
        ours, theirs = (call().to(torch.float64) for call in calls(product, device).values())
        shape = (product.m, product.n)
        assert ours.shape == theirs.shape == ((product.batch, *shape) if product.batch > 1 else shape)
        tolerance = {"float64": 1e-12, "float32": 1e-5}.get(product.dtype, 1e-2)
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance * float(theirs.abs().max()))

    @pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
    @pytest.mark.parametrize("batch", [1, 3])
    def test_operands_lie_as_the_layout_says(self, layout: str, batch: int) -> None:
        operands = make_operands(Case("float32", layout, 3, 5, 7, "bias", batch), torch.device("cpu"))
        assert operands.bias is not None
        for tensor, letter, shape in ((operands.a, layout[0], (3, 7)), (operands.b, layout[1], (7, 5))):
            assert tensor.shape == ((batch, *shape) if batch > 1 else shape)
            assert (tensor if letter == "N" else tensor.mT).is_contiguous()
        assert operands.bias.shape == (5,)

    def test_torch_multiplies_fp8_by_scaled_mm_where_that_takes_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        scaled_mm, used = torch._scaled_mm, []

        def counted(*arguments: Any, **options: Any) -> torch.Tensor:
            used.append(arguments[0].dtype)
            return scaled_mm(*arguments, **options)

        monkeypatch.setattr(torch, "_scaled_mm", counted)

        def dtype_of(*what: Any) -> torch.dtype:
            call = calls(Case(*what), torch.device("cpu"))["torch"]
            used.clear()
            result = call()
            assert len(used) == (result.dtype == torch.float16)
            return result.dtype

        assert dtype_of("e4m3", "NT", 5, 16, 32, "bias") == torch.float16, "by _scaled_mm, as matmul.py has it"
        assert dtype_of("e4m3", "NN", 5, 16, 32, "bias") == torch.bfloat16
        assert dtype_of("e4m3", "NT", 5, 15, 32, "bias") == torch.bfloat16
        assert dtype_of("e4m3", "NT", 5, 16, 32, "bias", 2) == torch.bfloat16

        def refused(*arguments: Any, **options: Any) -> torch.Tensor:
            raise RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED")

        monkeypatch.setattr(torch, "_scaled_mm", refused)
        assert dtype_of("e4m3", "NT", 5, 16, 32, "bias") == torch.bfloat16

    def test_a_lack_of_memory_is_not_taken_for_a_refusal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*arguments: Any, **options: Any) -> torch.Tensor:
            raise torch.OutOfMemoryError("full")

        monkeypatch.setattr(torch, "_scaled_mm", full)
        with pytest.raises(torch.OutOfMemoryError):
            calls(Case("e4m3", "NT", 5, 16, 32, "none"), torch.device("cpu"))


def line(what: tuple[str, str, int, int, int], ours: float, theirs: float, batch: int = 1) -> list[dict[str, str]]:
    """The two rows of a product."""
    dtype, layout, m, n, k = what
    common = {"dtype": dtype, "layout": layout, "m": str(m), "n": str(n), "k": str(k), "epilogue": "none"}
    return [
        {**common, "provider": provider, "median_us": str(time_us), "batch": str(batch)}
        for provider, time_us in (("tileon", ours), ("torch", theirs))
    ]


def text_of(rows: list[dict[str, str]], seed: int) -> str:
    """A file of these rows."""
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    return f"{HEAD}# seed: {seed}\n" + "\n".join(lines) + "\n"


def summed(*products: list[dict[str, str]]) -> list[list[str]]:
    """The summary without its head."""
    return summary(times_of(row for rows in products for row in rows))[1:]


class TestSummary:
    def test_figures_of_an_example_by_hand(self) -> None:
        """Ratios 0.5, 0.8 and 2 of float16, 0.97 of a batch: the mean of 0.5 and 2 is 1, that of 0.5, 0.8 and 2 the
        cube root of 0.8, 0.928, and that of all four the fourth root of 0.776, 0.939."""
        table = summed(
            line(("float16", "NN", 64, 64, 64), 10, 5),
            line(("float16", "NN", 64, 64, 65), 10, 8),
            line(("float16", "NT", 3, 8, 16), 4, 8),
            line(("float16", "NN", 512, 512, 2048), 100, 97, batch=2),
        )
        worst, odd, of_batch = (
            ["0.50", "float16 NN 64x64x64 none"],
            ["0.80", "float16 NN 64x64x65 none"],
            ["0.97", "float16 NN 2 of 512x512x2048 none"],
        )
        assert table == [
            ["16-bit", "all", "3", "0.928", "67 %", *worst],
            ["16-bit", "aligned", "2", "1.000", "50 %", *worst],
            ["16-bit", "unaligned", "1", "0.800", "100 %", *odd],
            ["batch", "all", "1", "0.970", "0 %", *of_batch],
            ["batch", "aligned", "1", "0.970", "0 %", *of_batch],
            ["all", "all", "4", "0.939", "50 %", *worst],
            ["all", "aligned", "3", "0.990", "33 %", *worst],
            ["all", "unaligned", "1", "0.800", "100 %", *odd],
        ]

    def test_the_page_has_a_table_for_each_file_and_the_overview_a_row_for_each_group(
        self, tmp_path: pathlib.Path
    ) -> None:
        """Of the example's 16 bits in one file, of another group in the other."""
        assert not any(make(tmp_path) for make in (part, comparisons, other_comparisons))
        sixteen = line(("float16", "NN", 64, 64, 64), 10, 5) + line(("float16", "NN", 64, 64, 65), 10, 8)
        (tmp_path / SOURCE).write_text(text_of(sixteen, seed=7))
        other = line(("tf32", "NT", 1, 16, 24), 10, 7)
        (tmp_path / OTHER).write_bytes(lzma.compress(text_of(other, seed=8).encode()))
        lines = part(tmp_path)
        assert [words for words in lines if words.startswith("Seed")] == ["Seed 7:", "Seed 8:"]
        assert "| 16-bit | all | 2 | 0.632 | 100 % | 0.50 | float16 NN 64x64x64 none |" in lines
        assert "| tf32 | all | 1 | 0.700 | 100 % | 0.70 | tf32 NT 1x16x24 none |" in lines
        assert not any(words.startswith("| all ") for words in lines), "no line sums up what the files draw unevenly"
        (of_sixteen,), (of_other,) = comparisons(tmp_path), other_comparisons(tmp_path)
        assert (of_sixteen.words, of_sixteen.values) == ("random products, 16 bits", (0.5, 0.8))
        assert (of_other.words, of_other.values) == ("random products, float32, TF32 allowed", (0.7,))
        mean, each = targets(tmp_path)
        assert (mean.asked, mean.holds) == ("mean >= 1.08", False)
        assert (each.asked, each.holds) == ("each >= 0.85", False)
        assert each.figure == "2 below, worst 0.500 at float16 NN 64x64x64 none"
        assert f"- {each.what}, {each.asked}: {each.figure}" in lines, "what falls short is on the page"
        assert {one.what for one in other_targets(tmp_path)} <= {one.what for one in all_targets(tmp_path)}

    def test_the_layout_decides_which_sizes_make_a_product_aligned(self) -> None:
        for layout, aligned in (("NN", False), ("NT", False), ("TN", True), ("TT", False)):
            assert summed(line(("float32", layout, 8, 8, 9), 1, 1))[1][1] == ("aligned" if aligned else "unaligned")
        for layout, aligned in (("NN", True), ("NT", True), ("TN", False), ("TT", False)):
            assert summed(line(("float32", layout, 9, 8, 8), 1, 1))[1][1] == ("aligned" if aligned else "unaligned")

    def test_every_dtype_is_of_one_group(self) -> None:
        shape = ("NT", 8, 8, 32)
        groups = {dtype: summed(line((dtype, *shape), 1, 1))[0][0] for dtype in (*DTYPES, *FORMATS)}
        assert groups == {
            **dict.fromkeys(("float16", "bfloat16"), "16-bit"),
            **{name: name for name in ("float32", "tf32", "float64")},
            **dict.fromkeys(("e4m3", "e5m2", "e4m3xe5m2", "e5m2xe4m3"), "fp8"),
            **dict.fromkeys(FORMATS, "block-scaled"),
        }

    def test_a_product_of_one_provider_alone_is_left_out(self) -> None:
        products = (line(("float32", "NN", size, 8, 8), 1, 1) for size in (8, 16))
        assert summed(*products, line(("float32", "NN", 1, 1, 1), 1, 1)[:1])[0][2] == "2"


def in_process(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The script's exit status."""
    monkeypatch.setattr(sys, "argv", [str(BENCHMARKS / "random_shapes.py"), *arguments])
    return random_shapes.main()


class TestScript:
    def test_a_run_writes_both_providers_of_every_product(
        self,
        device: torch.device,
        tmp_path: pathlib.Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        path = tmp_path / "out.csv"
        limits = ("--largest", "64")
        seconds = ("--seconds", "0.001", "--warmup-seconds", "0.001")
        arguments = ("--count", "24", "--device", device.type, "--csv", str(path))
        assert in_process(monkeypatch, *limits, *seconds, *arguments) == 0
        printed = capsys.readouterr().out
        head, rows = read(path)
        assert head.keys() >= HEAD_KEYS
        assert str(tmp_path) not in str(head), "the head names no folder of this machine"
        assert str(ROOT) not in str(head)
        assert list(rows[0]) == [*COLUMNS, "batch"]
        assert len(rows) == 2 * 24
        problem = [name for name in rows[0] if name not in ("provider", "median_us", "tflops")]
        for ours, theirs in zip(rows[::2], rows[1::2], strict=True):
            assert (ours["provider"], theirs["provider"]) == ("tileon", "torch")
            assert [ours[name] for name in problem] == [theirs[name] for name in problem]
        for row in rows:
            assert row["op"] == ("block_scaled_matmul" if row["dtype"] in FORMATS else "matmul")
            m, n, k, batch, microseconds = (float(row[name]) for name in ("m", "n", "k", "batch", "median_us"))
            assert max(m, n, k) <= 64
            assert float(row["tflops"]) == pytest.approx(2 * batch * m * n * k / microseconds / 1e6, rel=0.01)
        assert any(row["batch"] != "1" for row in rows)

        assert f"seed {head['seed']}" in printed
        again = ("--seed", head["seed"], *limits, *arguments[:4])
        assert in_process(monkeypatch, *again, "--dry-run") == 0
        products = capsys.readouterr().out.splitlines()[2:]
        assert len(products) == 24
        for product, row in zip(products, rows[::2], strict=True):
            assert product.startswith(f"{row['dtype']} {row['layout']} ")
            assert f"{row['m']}x{row['n']}x{row['k']} {row['epilogue']} " in product

        assert summary_text(rows) in printed, "the file alone gives the same summary"

    def test_without_a_seed_every_run_draws_another_one_and_prints_it(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        outputs = []
        for _ in range(2):
            assert in_process(monkeypatch, "--dry-run", "--device", "cpu") == 0
            outputs.append(capsys.readouterr().out.splitlines())
        seeds = [re.fullmatch(r"seed (\d+)", output[0]) for output in outputs]
        assert all(seeds)
        assert outputs[0][0] != outputs[1][0]
        assert outputs[0][2:] != outputs[1][2:]
        assert not any("tf32" in product for output in outputs for product in output), "a CPU has none"

    def test_a_failure_stops_no_other_product(
        self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def made_up(case: Case, operands: Operands) -> Any:
            if case.dtype == "e5m2":
                raise RuntimeError("no memory")
            return lambda: None

        def timed(arms: dict[str, Arm], device: torch.device, **limits: float) -> dict[str, Timing]:
            return {name: Timing({"torch": 8.0, "tileon": 4.0}[name], 0.0, 9) for name in arms}

        monkeypatch.setattr(random_shapes, "PROVIDERS", {"tileon": made_up, "torch": made_up})
        monkeypatch.setattr(products, "time_arms", timed)
        path = tmp_path / "out.csv"
        arguments = ("--seed", "1", "--count", "12", "--groups", "fp8", "--device", "cpu", "--csv", str(path))
        assert in_process(monkeypatch, *arguments) == 1
        out = capsys.readouterr().out
        assert "failed: no memory" in out
        assert "3 of 12 cases failed" in out
        _, rows = read(path)
        assert len(rows) == 2 * 9
        assert [(row["provider"], row["median_us"]) for row in rows[:2]] == [("tileon", "4.00"), ("torch", "8.00")]
        assert re.search(r"^fp8 +all +9 +2.000 +0 % +2.00 +e", out, re.MULTILINE)

    def test_tf32_by_name_is_drawn_anywhere_and_fails_on_a_cpu(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert in_process(monkeypatch, "--dtypes", "tf32", "--groups", "tf32", "--count", "1", "--device", "cpu") == 1
        out = capsys.readouterr().out
        assert "failed: tileon: TF32 is the GPU's; torch: TF32 is the GPU's" in out

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (("--groups", "fp8,fp9"), "unknown 'fp9'; there are 16-bit, float32, tf32, float64, fp8, batch, block"),
            (("--dtypes", "int3"), "unknown 'int3'"),
            (("--seed", "x"), "argument --seed: invalid int value: 'x'"),
            (("--largest", "16"), "the largest size must be at least 32, got 16"),
            (("--groups", "fp8", "--dtypes", "float32"), "nothing is of groups fp8 and of dtypes float32"),
            (("--groups", "tf32"), "nothing is of groups tf32 and of dtypes float16,bfloat16,float32,float64,e4m3"),
            (("--device", "meta"), "argument --device: meta: the ops run on cpu and cuda"),
            (("--device", "nowhere"), "argument --device: nowhere: "),
            (("--no-such-option",), "unrecognized arguments: --no-such-option"),
        ],
        ids=str,
    )
    def test_nonsense_is_refused(
        self,
        arguments: tuple[str, ...],
        error: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            in_process(monkeypatch, "--dry-run", "--device", "cpu", *arguments)
        assert ended.value.code == 2
        assert error in capsys.readouterr().err
