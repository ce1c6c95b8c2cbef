"""What docs/modules.md says of converted models' limits, tried: a weight that is read, buffers that are in no file, and
rows beside other rows."""

from __future__ import annotations

import re

import pytest
import torch
from benchmark_files import ROOT
from torch import Tensor, nn

import tileon_ops
from tileon_ops import BlockScaledLinear, convert

PAGE = re.sub(r"\s+", " ", (ROOT / "docs" / "modules.md").read_text())


class Adapted(nn.Module):
    """A linear layer with an adapter, as peft has it: no subclass of nn.Linear, and its forward reads a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.base_layer = nn.Linear(64, 64)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(64, 32, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(32, 64, bias=False)})

    def forward(self, x: Tensor) -> Tensor:
        narrow = x.to(self.lora_A["default"].weight.dtype)
        return self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](narrow))


class TestAdapters:
    def test_a_format_replaces_all_three_and_the_call_fails(self) -> None:
        assert "(`base_layer`, `lora_A`, `lora_B`), all of which `convert` replaces" in PAGE
        model = convert(Adapted(), "mxfp8")
        kinds = [done.became for done in tileon_ops.conversion_report(model)]
        assert kinds == ["BlockScaledLinear mxfp8"] * 3
        with torch.inference_mode(), pytest.raises(AttributeError, match="weight"):
            model(torch.randn(2, 64))

    def test_left_by_filter_they_work(self) -> None:
        model = convert(Adapted(), "mxfp8", lambda module, name: "lora_" not in name)
        assert isinstance(model.base_layer, BlockScaledLinear)
        with torch.inference_mode():
            assert model(torch.randn(2, 64)).shape == (2, 64)

    def test_without_a_format_they_work(self) -> None:
        assert "`Linear` has the `weight`: without a format such models work" in PAGE
        model, x = Adapted(), torch.randn(2, 64)
        wanted = model(x)
        torch.testing.assert_close(convert(model)(x), wanted)


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
