"""The benchmarks of block-scaled products and of quantization: command lines on the CPU, result files, what is made of
them, and that every peer computes the product it is timed for."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Callable

import pytest
import torch
from benchmark_files import COLUMNS, HEAD, HEAD_KEYS, ROOT, csv_line, read, run

from benchmarks import block_scaled_matmul
from benchmarks.common import timing
from benchmarks.common.cases import Case, Operands, dequantized, make_operands
from benchmarks.measure.peers.providers import NotOffered, arm
from benchmarks.report.pages import filled
from benchmarks.subjects import block_scaled, quantize

FORMATS = ("nvfp4", "mxfp4", "mxfp8", "mixed")
SHORT = ("--seconds", "0.01", "--warmup-seconds", "0.02")
E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


# The command line of block_scaled_matmul.py.


def test_without_bench_every_format_is_only_checked() -> None:
    result = run("--format", "all", script="block_scaled_matmul.py")
    assert result.returncode == 0, result.stdout + result.stderr
    for name in FORMATS:
        assert f"{name} 128x128x128: agrees" in result.stdout
    assert "TFLOP/s" not in result.stdout


def test_a_range_of_k_is_measured_with_progress_csv_and_plot(tmp_path: pathlib.Path) -> None:
    path, picture = tmp_path / "out.csv", tmp_path / "out.png"
    result = run(
        "--format", "mxfp4", "--K_range", "32", "96", "--K_step", "32", "--bench", *SHORT,
        "--csv", str(path), "--plot", str(picture), script="block_scaled_matmul.py",
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "] 0/3 mxfp4 128x128x32\n" in result.stderr
    assert f"[{'#' * 24}] 3/3 done\n" in result.stderr
    assert "triton: Triton needs a GPU" in result.stdout
    assert sum(" ms " in line and "TFLOP/s" in line for line in result.stdout.splitlines()) == 6

    head, rows = read(path)
    assert head.keys() >= HEAD_KEYS
    assert str(tmp_path) not in str(head), "the head names no folder of this machine"
    assert str(ROOT) not in str(head)
    assert list(rows[0]) == [*COLUMNS, "data"]
    assert {row["data"] for row in rows} == {"tutorial"}
    assert [(row["k"], row["provider"]) for row in rows] == [
        (k, provider) for k in ("32", "64", "96") for provider in ("tileon", "torch_dequantize")
    ]
    for row in rows:
        assert (row["op"], row["dtype"], row["layout"]) == ("block_scaled_matmul", "mxfp4", "NT")
        assert (row["m"], row["n"], row["epilogue"]) == ("128", "128", "none")
        microseconds = float(row["median_us"])
        assert float(row["tflops"]) == pytest.approx(2 * 128 * 128 * int(row["k"]) / microseconds / 1e6, rel=0.02)
    if "no matplotlib" not in result.stdout:
        assert picture.stat().st_size > 10_000


def test_the_demo_measures_every_format_at_several_sizes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.csv"
    result = run("--preset", "demo", *SHORT, "--csv", str(path), script="block_scaled_matmul.py")
    assert result.returncode == 0, result.stdout + result.stderr
    sizes = {name: {row["m"] for row in read(path)[1] if row["dtype"] == name} for name in FORMATS}
    assert all(len(found) > 1 for found in sizes.values()), "one size alone makes no plot"


def test_normal_data_is_checked_measured_and_said(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.csv"
    providers = ("tileon", "tileon_fast", "torch_bf16")
    result = run(
        "--data", "normal", "--format", "mixed", "--shapes", "16x48x64", *SHORT, "--csv", str(path),
        "--providers", ",".join((*providers, "torch_bf16_graph")), script="block_scaled_matmul.py",
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "mixed NT 128x128x128 none: agrees" in result.stdout
    assert "mixed NT 16x48x64 none  torch_bf16_graph: CUDA graphs need a GPU" in result.stdout
    head, rows = read(path)
    assert head["timing"].endswith("normal random data, quantized")
    assert [(row["provider"], row["data"]) for row in rows] == [(provider, "normal") for provider in providers]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--format", "int4"), "unknown 'int4'; there are nvfp4, mxfp4, mxfp8, mixed"),
        (("--providers", "cublas", "--bench"), "unknown 'cublas'; there are tileon, triton, torch_dequantize"),
        (("--K_range", "512", "256", "--bench"), "--K_range 512 256 --K_step 512 holds no K"),
        (("--K_range", "512", "1024", "--K_step", "0", "--bench"), "--K_step 0 holds no K"),
        (("--format", "mxfp8", "-K", "48", "--bench"), "k must be a multiple of 32 for mxfp8, got 48"),
        (("--format", "nvfp4", "-K", "40", "--bench"), "k must be a multiple of 16 for nvfp4, got 40"),
        (("--shapes", "0x1x32"), "sizes must be positive, got 0x1x32"),
        (("--shapes", "16x32"), "'16x32' is not MxNxK"),
        (("--csv", "out.csv"), "--csv writes what is measured: give --bench, --shapes or --preset too"),
        (("--plot", "out.png", "--bench"), "--plot draws what --csv writes: give both"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_before_anything_runs(
    arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["block_scaled_matmul.py", "--device", "cpu", *arguments])
    with pytest.raises(SystemExit) as exit:
        block_scaled_matmul.main()
    captured = capsys.readouterr()
    assert exit.value.code == 2
    assert said in captured.err
    assert captured.out == ""


def test_nothing_is_measured_where_a_format_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = block_scaled_matmul.tileon_call

    def one_element_off(case: Case, operands: Operands) -> Callable[[], torch.Tensor]:
        def call() -> torch.Tensor:
            out = right(case, operands)()
            out[3, 5] += 0.01 * out.abs().max()
            return out

        return call

    monkeypatch.setattr(block_scaled_matmul, "tileon_call", one_element_off)
    monkeypatch.setattr("sys.argv", ["block_scaled_matmul.py", "--device", "cpu", "--format", "mixed", "--bench"])
    assert block_scaled_matmul.main() == 1
    said = capsys.readouterr().out
    assert "mixed 128x128x128: WRONG" in said
    assert "TFLOP/s" not in said


# What the peers compute.


def test_dequantization_in_torch_knows_every_code_and_every_scale() -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(16, 16)  # 32 elements a row
    half = torch.tensor([*E2M1_VALUES, *(-value for value in E2M1_VALUES)])
    expected = torch.stack([half[(codes & 15).long()], half[(codes >> 4).long()]], -1).flatten(1)  # even k is low
    one = torch.full((16, 1), 127, dtype=torch.uint8)
    assert torch.equal(dequantized(codes, one, torch.float32), expected)

    e4m3 = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).view(8, 32)
    ones = torch.ones(8, 2).to(torch.float8_e4m3fn)
    torch.testing.assert_close(dequantized(e4m3, ones, torch.float32), e4m3.float(), rtol=0, atol=0, equal_nan=True)

    scales = torch.arange(1, 255, dtype=torch.uint8).view(-1, 1)
    data = torch.full((254, 16), 0x22, dtype=torch.uint8)  # ones
    powers = torch.ldexp(torch.ones(254, dtype=torch.float64), torch.arange(1, 255) - 127).float()
    assert torch.equal(dequantized(data, scales, torch.float32), powers.view(-1, 1).expand(-1, 32))


@pytest.mark.parametrize("name", FORMATS)
def test_normal_data_is_what_quantize_makes_of_it(name: str) -> None:
    case = Case(name, "NT", 64, 32, 1024, data="normal")
    operands, others = (make_operands(case, torch.device("cpu"), seed) for seed in (0, 1))
    assert not torch.equal(operands.b, others.b), "rotated operands are not one and the same"
    for data, scale, rows in zip((operands.a, operands.b), operands.scales, (64, 32), strict=True):
        assert scale.shape == (rows, 1024 // case.vec)
        assert scale.is_contiguous(), "Triton reads it by its rows"
        values = dequantized(data, scale, torch.float32)
        assert float(values.std()) == pytest.approx(1, abs=0.1)
        largest = values.view(rows, -1, case.vec).abs().amax(-1)
        assert float(largest.min()) > 0.5, "no block's scale is far from its elements"
    tensors = (operands.a, operands.b, *operands.scales)
    assert case.bytes == sum(tensor.nbytes for tensor in tensors) + 64 * 32 * 2


def test_a_cold_graph_goes_round_whole_rotations(monkeypatch: pytest.MonkeyPatch) -> None:
    captured: list[tuple[int, int]] = []

    def replay(calls: list[Callable[[], torch.Tensor]], results_apart: int) -> Callable[[], None]:
        captured.append((len(calls), results_apart))
        assert calls == calls[:results_apart] * (len(calls) // results_apart), "each set's turn comes after the others'"
        return lambda: None

    monkeypatch.setattr(timing, "_replay", replay)
    calls = [lambda number=number: torch.full((), number) for number in range(4)]
    assert timing.cold_graph_arm(calls).launches == 4
    assert timing.cold_graph_arm(calls, launches=10).launches == 12
    assert captured == [(4, 4), (12, 4)]


@pytest.mark.parametrize(
    "provider", ["tileon", "tileon_fast", "tileon_prepared", "triton", "torch_dequantize", "torch_bf16"]
)
@pytest.mark.parametrize("data", ["normal", "tutorial"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_provider_computes_the_product(name: str, data: str, provider: str, device: torch.device) -> None:
    case = Case(name, "NT", 200, 136, 256, data=data)  # partial tiles
    operands = make_operands(case, device)
    try:
        result = arm(provider, case, operands).run()
    except NotOffered as error:
        pytest.skip(str(error))
    assert isinstance(result, torch.Tensor)
    scale_a, scale_b = operands.scales
    a, b = dequantized(operands.a, scale_a, torch.float32), dequantized(operands.b, scale_b, torch.float32)
    # bfloat16 rounds to 2^-9, and cuBLAS may add parts of a sum in it; fast_accum here errs by less than 2^-12 of the
    # sum of |a||b|, some 500; a wrong product is off by some 15 or 50.
    exact = result.dtype == torch.float16 and provider != "tileon_fast"
    atol, rtol = (1e-3, 1e-3) if exact else (0.5, 2.0**-7)
    torch.testing.assert_close(result.float(), a @ b.t(), atol=atol, rtol=rtol)


# quantize.py.


def test_quantize_counts_the_bytes_that_it_moves(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "out.csv"
    result = run("--shapes", "100x160", *SHORT, "--csv", str(path), script="measure/quantize.py")
    assert result.returncode == 0, result.stdout + result.stderr
    head, rows = read(path)
    assert head.keys() >= HEAD_KEYS
    assert list(rows[0]) == ["op", "format", "m", "k", "bytes", "median_us", "tb_s", "provider"]
    moved = {(row["op"], row["format"]): int(row["bytes"]) for row in rows}
    x, packed = 100 * 160 * 2, {"mxfp8": 128 * 8, "mxfp4": 128 * 8, "nvfp4": 128 * 12}
    data = {"mxfp8": 100 * 160, "mxfp4": 100 * 80, "nvfp4": 100 * 80}
    expected = {("copy", "bfloat16"): 2 * x}
    for name in packed:
        expected |= {(op, name): x + data[name] + packed[name] for op in ("quantize", "dequantize")}
        scales = 100 * 160 // (16 if name == "nvfp4" else 32)
        expected |= {(op, name): scales + packed[name] for op in ("pack_scales", "unpack_scales")}
    expected["quantize", "nvfp4 rows"] = expected["quantize", "nvfp4"] + 100 * 4
    assert moved == expected
    for row in rows:
        assert row["provider"] == ("copy" if row["op"] == "copy" else "tileon")
        rate = int(row["bytes"]) / float(row["median_us"]) / 1e6
        assert float(row["tb_s"]) == pytest.approx(rate, rel=0.02, abs=1e-6)


@pytest.mark.parametrize("arguments", [("--format", "mixed"), ("--shapes", "16x40"), ("--shapes", "16")], ids=str)
def test_what_cannot_be_quantized_is_refused(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.measure.quantize import main

    monkeypatch.setattr("sys.argv", ["quantize.py", "--device", "cpu", *arguments])
    with pytest.raises(SystemExit) as exit:
        main()
    assert exit.value.code == 2


# The progress bar.


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_in_place_on_a_terminal_and_in_lines_elsewhere() -> None:
    from tileon_ops.tune.progress import Progress

    for stream, expected in (
        (_Terminal(), f"\r\033[K[{'#' * 12}{'-' * 12}] 1/2 b\r\033[K"),
        (io.StringIO(), f"[{'#' * 12}{'-' * 12}] 1/2 b\n"),
    ):
        bar = Progress(2, stream)
        bar.show(1, "b")
        bar.clear()
        assert stream.getvalue() == expected


# Targets, tables and stages.


def _made_up_results(folder: pathlib.Path) -> None:
    """At every size ours takes 10 us, Triton 30 (mixed: 11, a target that is missed), dequantization 15. Ours moves
    3.5 TB/s, but dequantize of nvfp4 only 2."""
    folder.mkdir(exist_ok=True)
    lines = [",".join(COLUMNS)]
    for name in FORMATS:
        for shape in ((8192, 8192, 8192), (8192, 8192, 512)):
            times = {"tileon": 10.0, "torch_dequantize": 15.0}
            times |= {} if name == "nvfp4" else {"triton": 11.0 if name == "mixed" else 30.0}
            lines += [csv_line("block_scaled_matmul", name, "NT", shape, "none", who, us) for who, us in times.items()]
    (folder / "block_scaled_portable.csv").write_text(HEAD + "\n".join(lines) + "\n")

    lines = ["op,format,m,k,bytes,median_us,tb_s,provider", "copy,bfloat16,8192,8192,268435456,62.6,4.288,copy"]
    for name in ("mxfp8", "mxfp4", "nvfp4"):
        for op in ("quantize", "dequantize", "pack_scales", "unpack_scales"):
            rate = 2.0 if (op, name) == ("dequantize", "nvfp4") else 3.5
            lines.append(f"{op},{name},8192,8192,200000000,{200 / rate:.2f},{rate},tileon")
    (folder / "quantize.csv").write_text(HEAD + "\n".join(lines) + "\n")


def test_targets_of_block_scaled_products_and_quantization(tmp_path: pathlib.Path) -> None:
    assert block_scaled.portable_targets(tmp_path) == quantize.targets(tmp_path) == []
    _made_up_results(tmp_path)
    products = {target.what.split()[0]: target for target in block_scaled.portable_targets(tmp_path)}
    assert {name: target.verdict for name, target in products.items()} == {
        "mxfp8": "holds", "mxfp4": "holds", "mixed": "DOES NOT HOLD", "nvfp4": "no peer"
    }  # fmt: skip
    assert products["mxfp8"].figure == "worst 3.000 at 8192"
    assert products["nvfp4"].figure == "Triton does not compile it"
    moved = quantize.targets(tmp_path)
    assert [(target.what, target.figure) for target in moved] == [
        ("quantize 8192 x 8192", "worst 3.50 TB/s at mxfp8"), ("dequantize 8192 x 8192", "nvfp4 2.00 TB/s")
    ]  # fmt: skip
    assert [target.holds for target in moved] == [True, False]
    with (tmp_path / "quantize.csv").open("a") as file:
        file.write("quantize,nvfp4 rows,8192,8192,200000000,90.0,2.22,tileon\n")
    *same, rows = quantize.targets(tmp_path)
    assert same == moved
    assert (rows.what, rows.figure) == ("quantize 8192 x 8192, nvfp4 rows / nvfp4", "1.575 (90.0 / 57.1 us)")
    assert rows.holds is False

    printed = run("--results", str(tmp_path), script="report/targets.py").stdout
    assert "3 of" in printed, "what has no peer is no target: 2 of 3 and 1 of 2 hold"


def test_the_page_has_the_tables_where_there_are_results(tmp_path: pathlib.Path) -> None:
    assert "| mxfp8 |" not in filled("docs/measured.md", tmp_path)
    _made_up_results(tmp_path)
    text = filled("docs/measured.md", tmp_path)
    assert "| mxfp8 | 8192 x 8192 x 512 | 6872 | 2291 | 4581 | 3.00 | 1.50 |" in text
    assert "| nvfp4 | 8192 x 8192 x 512 | 6872 |  | 4581 |  | 1.50 |" in text
    assert "nvfp4: Triton does not compile it." in text
    assert "- mixed 8192 square, Triton / ours, each >= 1.20: 8192 1.100" in text
    assert "| `dequantize` | 57.1 | 3.50 | 57.1 | 3.50 | 100.0 | 2.00 |" in text
    assert "copy of that tensor: 62.6 us, 4.29 TB/s" in text
    assert filled("docs/measured.md", tmp_path, text) == text
