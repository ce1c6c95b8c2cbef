"""lost_by_formats.py: the rules that it compares are what it says they are, and it writes what it promises."""

from __future__ import annotations

import importlib.util
import math
import os
import pathlib
import subprocess
import sys

import format_errors
import lost_by_formats
import pytest
import torch
from benchmark_files import ROOT, read
from byte_model import (
    BYTES,
    LENGTH,
    byte_model,
    divergence,
    log_probabilities,
    losses,
    rows_of,
    standard_library,
    train,
)
from torch import nn

import tileon_ops
from tileon_ops import BlockScaledLinear
from tileon_ops.nn.layer_formats import LAYER_FORMATS

HAS_TRANSFORMERS = importlib.util.find_spec("transformers") is not None
needs_transformers = pytest.mark.skipif(not HAS_TRANSFORMERS, reason="needs transformers, which is not here")
pytestmark = pytest.mark.usefixtures("one_thread")  # as the program has it


def cases(rows: list[dict[str, str]]) -> list[tuple[str, ...]]:
    """What rows are of, without their figures and those of a peer, which may be missing."""
    names = ("format", "weight_only", "what", "data", "scale_rounding")
    return [tuple(row.get(name, "") for name in names) for row in rows if "torchao" not in row.get("provider", "")]


@needs_transformers
def test_the_program_writes_the_cases_of_the_committed_files(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "tests/lost_by_formats.py", "--steps", "2", "--rows", "2", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert "2 steps of training, 2 rows of 256 held-out bytes" in done.stdout
    for name in ("perplexity", "format_errors"):
        head, rows = read(tmp_path / f"{name}.csv")
        _, committed = read(ROOT / "benchmarks" / "results" / "cpu" / f"{name}.csv")
        assert head["command"].startswith("python tests/lost_by_formats.py")
        assert list(rows[0]) == list(committed[0])
        assert cases(rows) == cases(committed)


class TestText:
    def test_held_out_files_are_not_trained_on(self) -> None:
        text = standard_library()
        assert 4 * len(text.held_out) < len(text.train)
        train_bytes, held_out = (part.numpy().tobytes() for part in text)
        for start in range(0, len(held_out) - 2000, len(held_out) // 20):
            assert held_out[start : start + 2000] not in train_bytes

    def test_rows_are_spread_over_the_whole_text(self) -> None:
        rows = rows_of(torch.arange(1000) % 251, 4)
        assert rows.shape == (4, LENGTH + 1)
        assert rows[0, 0] == 0
        assert rows[-1, -1] == 999 % 251


@needs_transformers
class TestTraining:
    def test_is_the_same_again_and_lowers_the_loss(self) -> None:
        text = standard_library().train
        first, second = (list(train(byte_model(), text, 8)) for _ in range(2))
        assert first == second
        assert first[0] == pytest.approx(math.log(BYTES), rel=0.05)
        assert first[-1] < 0.9 * first[0]


class TestFigures:
    def test_of_known_predictions(self) -> None:
        """A model that says the same of every byte, and one that gives half of it to one byte."""
        rows = torch.full((2, LENGTH + 1), 7, dtype=torch.uint8)
        even = torch.full((2, LENGTH, BYTES), 1 / BYTES).log()
        sure = torch.full((2, LENGTH, BYTES), 0.5 / (BYTES - 1)).log()
        sure[..., 7] = math.log(0.5)
        assert losses(even, rows).mean().exp() == pytest.approx(BYTES, rel=1e-5)
        assert losses(sure, rows).mean().exp() == pytest.approx(2, rel=1e-5)
        assert divergence(even, even) == 0
        wanted = 0.5 * math.log(128) + 0.5 * math.log(0.5 / (BYTES - 1) * BYTES)
        assert divergence(sure, even) == pytest.approx(wanted, rel=1e-4)

    @needs_transformers
    def test_predictions_are_of_the_next_byte(self) -> None:
        model, rows = byte_model().eval(), rows_of(standard_library().held_out, 3)
        tokens = rows.long()
        with torch.inference_mode():
            wanted = float(model(tokens, labels=tokens).loss)
        assert float(losses(log_probabilities(model, rows), rows).mean()) == pytest.approx(wanted, rel=1e-5)


class TestRules:
    @pytest.mark.parametrize("format", LAYER_FORMATS)
    @pytest.mark.parametrize("weight_only", [True, False])
    def test_default_is_what_convert_makes_and_the_others_are_quantizes(self, format: str, weight_only: bool) -> None:
        torch.manual_seed(0)
        linear, x = nn.Linear(128, 64, dtype=torch.bfloat16), torch.randn(4, 128, dtype=torch.bfloat16)
        nn.init.normal_(linear.weight)  # uniform ones have few blocks where the rules differ
        model = nn.Sequential(linear)
        results = {}
        for rule in lost_by_formats.roundings(format, weight_only):
            new = lost_by_formats.converted(model, format, weight_only, rule)
            layer = new.get_submodule("0")
            assert isinstance(layer, BlockScaledLinear)
            assert layer.scale_rounding == ("floor" if rule.startswith("floor") else "rceil")
            if rule in ("floor", "rceil"):
                of_weight = LAYER_FORMATS[format].weight
                weight = linear.weight.detach()
                data, scale = tileon_ops.quantize(weight, of_weight, layer.global_scale, scale_rounding=rule)
                assert torch.equal(layer.data.view(torch.uint8), data.view(torch.uint8))
                assert torch.equal(layer.scale.view(torch.uint8), scale.view(torch.uint8))
            with torch.inference_mode():
                results[rule] = new(x)
        with torch.inference_mode():
            wanted = tileon_ops.convert(model, format, weight_only=weight_only)(x)
        assert torch.equal(results["default"], wanted)
        assert all(not torch.equal(result, wanted) for rule, result in results.items() if rule == "floor")


class TestErrors:
    @pytest.mark.parametrize("format", LAYER_FORMATS)
    def test_are_those_of_layers(self, format: str) -> None:
        """Of the default, in float32: weights alone, and both operands."""
        source = torch.Generator().manual_seed(3)
        x, weight = format_errors.laplace(8, 256, source), format_errors.laplace(64, 256, source)
        linear = nn.Linear(256, 64, bias=False)
        linear.weight = nn.Parameter(weight)
        rows = format_errors.error_rows(format, "Laplace", x, weight)
        found = {row[1]: float(str(row[4])) for row in rows if row[3] == "default"}
        exact = x.double() @ weight.double().t()
        for what, weight_only in (("weights", True), ("both", False)):
            with torch.inference_mode():
                result = BlockScaledLinear.from_linear(linear, format, weight_only=weight_only)(x)
            assert format_errors.decibels(result.double(), exact) == pytest.approx(found[what], abs=0.02), what

    def test_laplace_is_laplace(self) -> None:
        x = format_errors.laplace(500, 500, torch.Generator().manual_seed(0))
        assert float(x.abs().mean()) == pytest.approx(1, rel=0.01)
        assert float(x.square().mean()) == pytest.approx(2, rel=0.02)
        assert float(x.mean()) == pytest.approx(0, abs=0.01)

    def test_operands_of_a_model_are_what_its_layers_see(self) -> None:
        torch.manual_seed(0)
        first, last, x = nn.Linear(8, 16), nn.Linear(16, 4), torch.randn(2, 3, 8)
        model = nn.Sequential(first, nn.ReLU(), last)
        ((given, weight),) = format_errors.operands_of(model, ["2"], lambda: model(x)).values()
        assert torch.equal(given, first(x).relu().detach().view(6, 16))
        assert torch.equal(weight, last.weight.detach())
        assert not last._forward_pre_hooks
