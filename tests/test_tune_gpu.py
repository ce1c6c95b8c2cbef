"""Tuning on a GPU: what was found is what runs, in later processes too, and no graph that is captured notices it."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from operands import integers
from reference import assert_exact

import tileon_ops
from tileon_ops._rules.configs import dense
from tileon_ops.tune import tuned_configs
from tileon_ops.tune.cache import DEFAULT, Choice

pytestmark = pytest.mark.gpu

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPE = (512, 768, 1024)
DTYPE = torch.bfloat16

matmul = torch.ops.tileon.matmul


@pytest.fixture(autouse=True)
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    """A folder of the test's own; nothing stays set."""
    monkeypatch.setenv("TILEON_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("TILEON_TUNE")
    tuned_configs.forget()
    yield tmp_path
    tuned_configs.forget()


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    m, n, k = SHAPE
    return integers(m, k, dtype=DTYPE, device="cuda"), integers(k, n, dtype=DTYPE, device="cuda", seed=1)


def another_row(a: torch.Tensor, b: torch.Tensor) -> tuple[str, str, str]:
    """The problem, the row of the library's choice, and one that it may choose and does not."""
    matmul(a, b)
    chosen = tileon_ops.last_kernel()
    names = [line.split()[1] for line in torch.ops.tileon._matmul_candidates(a, b).splitlines()]
    assert chosen in names
    return torch.ops.tileon._matmul_problem(a, b), chosen, next(name for name in names if name != chosen)


def process(program: str, cache: pathlib.Path, tune: str | None) -> str:
    """What the program prints, in a process of its own."""
    environment = {**os.environ, "TILEON_CACHE_DIR": str(cache)}
    environment.pop("TILEON_TUNE", None)
    if tune is not None:
        environment["TILEON_TUNE"] = tune
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE.format(m=SHAPE[0], n=SHAPE[1], k=SHAPE[2]) + program],
        capture_output=True, text=True, timeout=300, cwd=ROOT, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PREAMBLE = """
import torch, tileon_ops
a = torch.ones({m}, {k}, device="cuda", dtype=torch.bfloat16)
b = torch.ones({k}, {n}, device="cuda", dtype=torch.bfloat16)
"""
PRODUCT = """
assert (tileon_ops.matmul(a, b) == a.shape[1]).all()
print(tileon_ops.last_kernel())
"""


def problems(cache: pathlib.Path) -> dict[str, dict[str, object]]:
    """Those in the one file of the folder."""
    (path,) = cache.glob("*.json")
    found: dict[str, dict[str, object]] = json.loads(path.read_text())["problems"]
    return found


class TestRows:
    def test_a_tuned_config_is_what_runs_until_it_is_forgotten(self) -> None:
        a, b = operands()
        problem, chosen, other = another_row(a, b)
        for row, runs in ((other, other), (DEFAULT, chosen), (other, other), ("", chosen)):
            torch.ops.tileon._set_tuned_config(0, problem, row)
            assert_exact(matmul(a, b), a.double() @ b.double(), DTYPE, row)
            assert tileon_ops.last_kernel() == runs

    def test_a_row_that_cannot_run_is_passed_over(self) -> None:
        """Operands whose lines begin anywhere are beyond most rows."""
        m, n, k = SHAPE
        a = integers(m, k + 1, dtype=DTYPE, device="cuda")[:, 1:]
        b = integers(k, n, dtype=DTYPE, device="cuda", seed=1)
        matmul(a, b)
        chosen = tileon_ops.last_kernel()
        able = {line.split()[1] for line in torch.ops.tileon._matmul_candidates(a, b).splitlines()}
        unable = next(config.name for config in dense() if config.name not in able)
        torch.ops.tileon._set_tuned_config(0, torch.ops.tileon._matmul_problem(a, b), unable)
        assert_exact(matmul(a, b), a.double() @ b.double(), DTYPE, unable)
        assert tileon_ops.last_kernel() == chosen

    @pytest.mark.parametrize("fast_accum", [False, True])
    def test_a_fold_is_a_candidate_with_fast_accum_alone(self, fast_accum: bool) -> None:
        """The tuner may take every candidate, and a fold rounds."""
        m, n, k = SHAPE
        a, scale_a = tileon_ops.quantize(torch.ones(m, k, device="cuda"), "mxfp8")[:2]
        b, scale_b = tileon_ops.quantize(torch.ones(n, k, device="cuda"), "mxfp8")[:2]
        ask = torch.ops.tileon._block_scaled_matmul_candidates
        lines = ask(a, b, scale_a, scale_b, fast_accum=fast_accum).splitlines()
        assert any(line.split()[1] == "expanded_folded" for line in lines) == fast_accum

    @pytest.mark.parametrize("kind", ["matmul", "block_scaled"])
    def test_what_tune_finds_is_what_runs(self, kind: str, cache: pathlib.Path) -> None:
        which = {"dtypes": "bfloat16", "layouts": "NN"} if kind == "matmul" else {"formats": "mxfp8"}
        (one,) = tileon_ops.tune([SHAPE], **which, seconds=0.1)  # type: ignore[arg-type]
        assert one.measured
        assert 0 < one.us <= one.default_us
        if kind == "matmul":
            matmul(*operands())
        else:
            m, n, k = SHAPE
            (x, scale_x), (w, scale_w) = (
                tileon_ops.quantize(torch.randn(rows, k, device="cuda"), "mxfp8") for rows in (m, n)
            )
            tileon_ops.block_scaled_matmul(x, w, scale_x, scale_w)
        assert tileon_ops.last_kernel() == (one.default if one.row == DEFAULT else one.row)
        assert problems(cache)[one.problem]["row"] == one.row

    def test_every_dtype_and_format_can_be_tuned(self) -> None:
        dtypes = ["float16", "float32", "tf32", "float64", "float8_e4m3fn", "float8_e5m2*float8_e4m3fn"]
        report = tileon_ops.tune(
            [(256, 256, 256)], dtypes, layouts="NT", formats=["mxfp8", "mxfp4", "mixed", "nvfp4"], seconds=0.02
        )
        assert len(report) == 10
        batched = tileon_ops.tune([(3, 64, 64, 64), (1, 5, 3)], activation="gelu", bias=True, seconds=0.02)
        assert len(batched) >= 3, "of one row the layouts of `a` are one"
        assert "1x1x5x3" in str(batched)

    @pytest.mark.skipif(torch.cuda.is_available() and torch.cuda.device_count() < 2, reason="needs two GPUs")
    def test_what_is_found_on_one_gpu_runs_on_another_of_its_model(self) -> None:
        a, b = operands()
        problem, _, other = another_row(a, b)
        same = tuned_configs.identity(0) == tuned_configs.identity(1)
        tuned_configs.remember(0, problem, Choice(other, 1.0, "x", 2.0))
        assert torch.ops.tileon._tuned_config(1, problem) == (other if same else "")
        (one,) = tileon_ops.tune([SHAPE], layouts="NT", device=1, seconds=0.05)
        assert one.measured


class TestProcesses:
    def test_a_second_process_reads_the_cache_and_0_leaves_it_alone(self, cache: pathlib.Path) -> None:
        problem, chosen, other = another_row(*operands())
        tuned_configs.remember(0, problem, Choice(other, 1.0, chosen, 2.0))
        assert process(PRODUCT, cache, None) == other
        assert process(PRODUCT, cache, "0") == chosen
        (path,) = cache.glob("*.json")
        path.write_text("{")
        caught = "import warnings\nwith warnings.catch_warnings(record=True) as caught:\n    tileon_ops.matmul(a, b)\n"
        said = process(caught + PRODUCT + "print(len(caught), caught[0].message)", cache, None)
        assert said.startswith(f"{chosen}\n1 tileon_ops: the tuning cache {path} is ignored")

    def test_with_1_first_products_are_measured_once(self, cache: pathlib.Path) -> None:
        """Those of a training step too, whose backward pass is another thread's."""
        step = """
layer = tileon_ops.Linear(1024, 768, activation="relu", device="cuda", dtype=torch.bfloat16)
layer(a.requires_grad_()).sum().backward()
"""
        process(step + PRODUCT, cache, "1")
        found = problems(cache)
        assert len(found) >= 4, "the layer's, two of its backward pass, and the product"
        (path,) = cache.glob("*.json")
        before = path.stat().st_mtime_ns
        kernel = process(step + PRODUCT, cache, "1")
        assert path.stat().st_mtime_ns == before
        problem = torch.ops.tileon._matmul_problem(*operands())
        assert kernel == (found[problem]["default"] if found[problem]["row"] == DEFAULT else found[problem]["row"])

    def test_an_interrupt_at_the_first_product_ends_it_and_the_next_one_is_measured(self, cache: pathlib.Path) -> None:
        program = """
from tileon_ops.tune import tuned_configs
measure = tuned_configs.measure
def interrupt(*_):
    raise KeyboardInterrupt
tuned_configs.measure = interrupt
try:
    tileon_ops.matmul(a, b)
except (KeyboardInterrupt, RuntimeError) as error:
    print(type(error).__name__)
problem = torch.ops.tileon._matmul_problem(a, b)
print(repr(torch.ops.tileon._tuned_config(0, problem)))
tuned_configs.measure = measure
assert (tileon_ops.matmul(a, b) == a.shape[1]).all()
print(torch.ops.tileon._tuned_config(0, problem) != "")
"""
        assert process(program, cache, "1").splitlines() == ["KeyboardInterrupt", "''", "True"]
        assert len(problems(cache)) == 1

    def test_a_first_product_under_capture_is_captured_and_not_measured(self, cache: pathlib.Path) -> None:
        """The cache is read even then: the captured kernel is the tuned one."""
        problem, chosen, other = another_row(*operands())
        tuned_configs.remember(0, problem, Choice(other, 1.0, chosen, 2.0))
        program = """
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    known = torch.ops.tileon.matmul(a, b)
    kernel = tileon_ops.last_kernel()
    unknown = torch.ops.tileon.matmul(a[:256], b)
known.zero_(), unknown.zero_()
graph.replay()
assert (known == a.shape[1]).all() and (unknown == a.shape[1]).all()
print(kernel)
"""
        before = problems(cache)
        assert process(program, cache, "1") == other
        assert problems(cache) == before

    def test_from_the_shell(self, cache: pathlib.Path) -> None:
        environment = {**os.environ, "TILEON_CACHE_DIR": str(cache)}
        environment.pop("TILEON_TUNE", None)
        command = [sys.executable, "-m", "tileon_ops.tune", "--shapes", "64x64x64", "--layout", "NN", "--show"]
        done = subprocess.run(
            [*command, "--seconds", "0.05"],
            capture_output=True, text=True, timeout=300, cwd=ROOT, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("matmul bfloat16->bfloat16 1x64x64x64 a=k b=mn out=rows plain") == 2


def test_tuning_is_refused_while_a_graph_is_captured() -> None:
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream), pytest.raises(RuntimeError, match=r"^tune: .* captured"):
        tileon_ops.tune([SHAPE])
