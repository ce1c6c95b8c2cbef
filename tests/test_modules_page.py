"""What docs/modules.md says of converted models, tried: a weight that is read, the report, buffers that are in no file,
and rows beside other rows."""

from __future__ import annotations

import re

import pytest
import torch
from benchmark_files import ROOT
from torch import Tensor, nn

import tileon_ops
from tileon_ops import BlockScaledLinear, convert

PAGE = re.sub(r"\s+", " ", (ROOT / "docs" / "modules.md").read_text())


class Rescaled(nn.Module):
    """Its forward reads the dtype of a layer's weight, as that of T5 does."""

    def __init__(self) -> None:
        super().__init__()
        self.wo = nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Tensor:
        return self.wo(x.to(self.wo.weight.dtype))


class TestWeightThatIsRead:
    def test_after_a_format_the_call_fails(self) -> None:
        assert "`BlockScaledLinear` has no `weight`, so a model whose code reads one" in PAGE
        with torch.inference_mode(), pytest.raises(AttributeError, match="weight"):
            convert(Rescaled(), "mxfp8")(torch.randn(2, 64))

    def test_without_a_format_it_works(self) -> None:
        assert "`Linear` has the `weight`: without a format such models work" in PAGE
        model, x = Rescaled(), torch.randn(2, 64)
        wanted = model(x)
        torch.testing.assert_close(convert(model)(x), wanted)


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
    def results(format: str) -> tuple[Tensor, Tensor, Tensor]:
        """Of 16 rows by themselves, beside 16 rows eight times as large, and of the layer that was converted."""
        torch.manual_seed(0)
        linear = nn.Linear(1024, 1024)
        layer, x = BlockScaledLinear.from_linear(linear, format), torch.randn(16, 1024)
        with torch.inference_mode():
            return layer(x), layer(torch.cat([x, 8 * torch.randn(16, 1024)]))[:16], linear(x)

    def test_nvfp4_depends_on_them_by_as_much_as_the_page_says(self) -> None:
        found = re.search(
            r"results that differ by some (\d+) % .*? The error against float32 is (\d+) % either way", PAGE
        )
        assert found
        difference, error = (int(figure) / 100 for figure in found.groups())
        alone, beside, exact = self.results("nvfp4")
        assert (alone - beside).norm() / alone.norm() == pytest.approx(difference, abs=0.01)
        for result in (alone, beside):
            assert (result - exact).norm() / exact.norm() == pytest.approx(error, abs=0.01)

    @pytest.mark.parametrize("format", ["mxfp8", "mxfp4", "mixed"])
    def test_the_other_formats_do_not(self, format: str) -> None:
        assert "The other formats scale each block of a row by itself" in PAGE
        alone, beside, _ = self.results(format)
        assert torch.equal(alone, beside)
