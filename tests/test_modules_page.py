"""What docs/modules.md says of converted models, tried: a weight that is read, the report, buffers that are in no file,
and rows beside other rows."""

from __future__ import annotations

import math
import re

import pytest
import torch
from benchmark_files import ROOT
from layers import FORMATS
from torch import Tensor, nn

import tileon_ops
from tileon_ops import BlockScaledLinear, convert
from tileon_ops.nn.scale_search import quantize_weight

TEXT = (ROOT / "docs" / "modules.md").read_text()
PAGE = re.sub(r"\s+", " ", TEXT)


class Rescaled(nn.Module):
    """Its forward reads the dtype of a layer's weight, as that of T5 does."""

    def __init__(self) -> None:
        super().__init__()
        self.wo = nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.wo(x.to(self.wo.weight.dtype))


class TestWeightThatIsRead:
    @pytest.mark.parametrize("format", [None, "mxfp8"])
    def test_tells_its_dtype(self, format: str | None) -> None:
        assert "a model whose code asks for `layer.weight.dtype` works" in PAGE
        model, x = Rescaled(), torch.randn(2, 64)
        wanted = model(x)
        with torch.inference_mode():
            result = convert(model, format)(x)
        assert (result - wanted).norm() < 0.1 * wanted.norm()


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.zeros(4, 1408, 256))
        self.down_proj = nn.Parameter(torch.zeros(4, 256, 704))


class TestReport:
    def test_the_rows_of_the_page_are_those_of_such_a_model(self) -> None:
        """The experts' and the head's, which need no transformers."""
        model = nn.ModuleDict({"experts": Experts(), "lm_head": nn.Linear(256, 512, bias=False)}).to(torch.bfloat16)
        report = tileon_ops.conversion_report(convert(model, "mxfp8"))
        for line in str(report).splitlines()[1:-2]:
            assert re.sub(r"\s+", " ", line) in PAGE
        assert "at least 1/1000 of the model's bytes" in PAGE


class WithTable(nn.Module):
    """Its table is a buffer that is not persistent, as a rotary embedding's is."""

    table: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.register_buffer("table", torch.arange(64.0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.table


class TestLoading:
    def test_a_buffer_that_is_not_persistent_stays_on_the_meta_device(self) -> None:
        assert "A buffer that is not persistent" in PAGE
        assert "stays on the meta device, and the first call fails" in PAGE
        with torch.device("meta"):
            model = WithTable()
        convert(model, "mxfp4").load_state_dict(convert(WithTable(), "mxfp4").state_dict(), assign=True)
        assert model.table.is_meta
        with torch.inference_mode(), pytest.raises(RuntimeError, match="meta"):
            model(torch.randn(2, 64))

    def test_with_its_buffers_in_memory_it_works(self) -> None:
        """What accelerate.init_empty_weights(include_buffers=False) makes: parameters without memory, buffers with."""
        saved, model = convert(WithTable(), "mxfp4"), WithTable()
        for name, parameter in list(model.linear.named_parameters()):
            setattr(model.linear, name, nn.Parameter(parameter.to("meta")))
        convert(model, "mxfp4").load_state_dict(saved.state_dict(), assign=True)
        x = torch.randn(2, 64)
        with torch.inference_mode():
            assert torch.equal(model(x), saved(x))


class TestRowsBesideOthers:
    @staticmethod
    def results(format: str) -> tuple[Tensor, Tensor]:
        """Of 16 rows by themselves, and beside 16 rows eight times as large."""
        torch.manual_seed(0)
        linear = nn.Linear(1024, 1024)
        layer, x = BlockScaledLinear.from_linear(linear, format), torch.randn(16, 1024)
        with torch.inference_mode():
            return layer(x), layer(torch.cat([x, 8 * torch.randn(16, 1024)]))[:16]

    @pytest.mark.parametrize("format", FORMATS)
    def test_no_row_depends_on_them(self, format: str) -> None:
        assert "A row's result does not depend on the rows beside it, in any format" in PAGE
        alone, beside = self.results(format)
        assert torch.equal(alone, beside)


class TestFigures:
    """The table of errors: a layer of 1024 x 1024 against float64, in percent."""

    @staticmethod
    def rows() -> dict[str, list[float]]:
        table = re.findall(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", TEXT, re.MULTILINE)
        return {format: [float(figure) for figure in figures] for format, *figures in table}

    def test_has_every_format(self) -> None:
        assert set(self.rows()) == set(FORMATS)

    @pytest.mark.parametrize("format", FORMATS)
    def test_is_what_layers_give(self, format: str) -> None:
        torch.manual_seed(0)
        linear, x = nn.Linear(1024, 1024, bias=False), torch.randn(256, 1024)
        wanted = x.double() @ linear.weight.detach().double().t()
        errors = []
        for options in ({"scale_rounding": "floor"}, {}, {"weight_only": True}):
            with torch.inference_mode():
                y = BlockScaledLinear.from_linear(linear, format, **options)(x)
            errors.append(100 * float((y - wanted).norm() / wanted.norm()))
        assert errors == pytest.approx(self.rows()[format], abs=0.06)


class TestSearch:
    """The table of signal over error of 1024 x 1024 weights, in dB: by quantize's rules, and searched."""

    @staticmethod
    def drawn(name: str) -> Tensor:
        torch.manual_seed(0)
        if name == "Laplace":
            return torch.distributions.Laplace(0.0, 1.0).sample((1024, 1024))
        if name.startswith("Student"):
            return torch.distributions.StudentT(3.0).sample((1024, 1024))
        return torch.rand(1024, 1024) * 2 - 1 if name == "uniform" else torch.randn(1024, 1024)

    @staticmethod
    def decibels(x: Tensor, format: str) -> list[float]:
        factor = tileon_ops.nvfp4_global_scale(x) if format == "nvfp4" else None
        rules = ("floor",) if format == "nvfp4" else ("floor", "rceil")
        quantized = [tileon_ops.quantize(x, format, factor, scale_rounding=rule) for rule in rules]
        found = []
        for data, scale in (*quantized, quantize_weight(x, format, factor)):
            error = tileon_ops.dequantize(data, scale, format, factor).double() - x.double()
            found.append(10 * math.log10(x.double().square().sum() / error.square().sum()))
        return found

    @pytest.mark.parametrize("name", ["normal", "uniform", "Laplace", "Student's t, 3 degrees"])
    def test_is_what_weights_give(self, name: str) -> None:
        row = re.search(rf"^\| {name} \| (.+) \| (.+) \| (.+) \|$", TEXT, re.MULTILINE)
        assert row
        x = self.drawn(name)
        for format, figures in zip(("mxfp8", "mxfp4", "nvfp4"), row.groups(), strict=True):
            told = [float(figure) for figure in figures.split(", ")]
            assert self.decibels(x, format) == pytest.approx(told, abs=0.35 if "t," in name else 0.06), format
