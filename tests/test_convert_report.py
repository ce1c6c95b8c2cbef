"""What `tileon_ops.convert` tells: the report with its totals, the table, the log and its warnings."""

from __future__ import annotations

import copy
import gc
import logging
import weakref

import pytest
import torch
from torch import Tensor, nn

from tileon_ops import Conversion, conversion_report, convert


class Experts(nn.Module):
    """The weights of several linear layers in one parameter, as the mixtures of transformers have them."""

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.randn(4, 2 * size, size))


class Block(nn.Module):
    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.proj = nn.Linear(size, size, bias=False)
        self.experts = Experts(size)
        self.norm = nn.LayerNorm(size)


class Mixture(nn.Module):
    """The head comes first among the root's children."""

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(size), Block(size)])
        self.embed = nn.Embedding(100, size)
        self.head = nn.Linear(size, 100, bias=False)


def bytes_of(model: nn.Module) -> int:
    """Of every tensor of the state_dict and every buffer that is not in it, each piece of memory once."""
    tensors: list[Tensor] = [*model.state_dict(keep_vars=True).values(), *model.buffers()]
    return sum({tensor.data_ptr(): tensor.nbytes for tensor in tensors}.values())


def messages(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "tileon_ops" and record.levelno == level]


class TestEntries:
    def test_say_what_became_of_each_layer_and_its_bytes(self) -> None:
        model = nn.Sequential(nn.Linear(128, 128), nn.Linear(100, 4), nn.Embedding(3, 3))
        convert(model, "mxfp4")
        first, second = conversion_report(model)
        codes, scales, bias = 128 * 128 // 2, 128 * 4, 128 * 4
        assert first == Conversion("0", (), "BlockScaledLinear mxfp4", "", 4 * 128 * 129, codes + scales + bias)
        assert second.name == "1"
        assert second.became is None

    def test_stand_in_the_models_order(self) -> None:
        model = convert(Mixture(), "mxfp8")
        assert [entry.name for entry in conversion_report(model)] == [
            *("blocks.0.proj", "blocks.0.experts.gate_up_proj", "blocks.1.proj", "blocks.1.experts.gate_up_proj"),
            *("embed.weight", "head"),
        ]

    def test_hold_experts_and_embeddings_with_a_reason(self) -> None:
        model = convert(Mixture(), "mxfp8")
        entries = {entry.name: entry for entry in conversion_report(model)}
        experts, embedding = entries["blocks.0.experts.gate_up_proj"], entries["embed.weight"]
        assert (experts.became, experts.reason) == (None, "a 3-D parameter that no nn.Linear holds")
        assert experts.bytes_before == experts.bytes_after == 4 * 4 * 128 * 64
        assert (embedding.became, embedding.reason) == (None, "a parameter of Embedding, which is no linear layer")

    def test_know_no_experts_in_convolutions_and_tables_of_positions(self) -> None:
        model = nn.Sequential(nn.Conv1d(8, 8, 3))
        model.register_parameter("positions", nn.Parameter(torch.zeros(1, 20, 8)))
        reasons = [entry.reason for entry in conversion_report(convert(model, "mxfp8"))]
        assert reasons == [
            "a parameter of Sequential, which is no linear layer",
            "a parameter of Conv1d, which is no linear layer",
        ]

    @pytest.mark.parametrize("format", ["mxfp8", "mxfp4"])
    def test_of_what_is_converted_already_name_what_it_is(self, format: str) -> None:
        model = nn.Sequential(nn.Linear(64, 64))
        convert(convert(model, "mxfp8"), format)
        (entry,) = conversion_report(model)
        assert (entry.became, entry.reason) == (None, "already BlockScaledLinear mxfp8")
        assert entry.bytes_before == entry.bytes_after == bytes_of(model)

    def test_are_the_last_conversion_s_and_of_this_model_alone(self) -> None:
        model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 32))
        convert(model)
        assert [entry.became for entry in conversion_report(model)] == ["Linear"] * 2
        convert(model, "nvfp4")
        assert [entry.became for entry in conversion_report(model)] == ["BlockScaledLinear nvfp4"] * 2
        rule = r"^conversion_report: `model` must be what tileon_ops\.convert returned"
        with pytest.raises(RuntimeError, match=rule):
            conversion_report(copy.deepcopy(model))

    def test_keep_no_model_alive(self) -> None:
        model = convert(nn.Sequential(nn.Linear(64, 64)))
        gone, report = weakref.ref(model), conversion_report(model)
        del model
        gc.collect()
        assert gone() is None
        assert len(report) == 1


class Nested(nn.Linear):
    def __init__(self) -> None:
        super().__init__(64, 64)
        self.inner = nn.Linear(64, 32)


def tied() -> nn.Module:
    model = Mixture()
    model.head.weight = model.embed.weight
    return model


def shared() -> nn.Module:
    layer = nn.Linear(64, 64)
    return nn.ModuleDict({"a": layer, "b": nn.Sequential(layer, nn.BatchNorm1d(64)), "c": nn.Linear(64, 64)})


class TestTotals:
    @pytest.mark.parametrize("format", [None, "mxfp8", "nvfp4"])
    @pytest.mark.parametrize("make", [Mixture, tied, shared, Nested, lambda: nn.Linear(64, 64)])
    def test_are_those_of_the_model_and_no_byte_is_counted_twice(self, make: type[nn.Module], format: str) -> None:
        model = make()
        before = bytes_of(model)
        model = convert(model, format)
        report = conversion_report(model)
        assert (report.bytes_before, report.bytes_after) == (before, bytes_of(model))
        for entries, whole in (
            (sum(entry.bytes_before for entry in report), report.bytes_before),
            (sum(entry.bytes_after for entry in report), report.bytes_after),
        ):
            assert 0.8 * whole < entries <= whole


class TestTable:
    def test_has_a_row_for_each_entry_and_the_totals(self) -> None:
        model = convert(Mixture(), "mxfp8")
        report = conversion_report(model)
        titles, *rows = str(report).splitlines()
        assert titles.split("  ")[0] == "layer"
        assert len(rows) == len(report) + 2
        for row, entry in zip(rows, report, strict=False):
            cells = [cell.strip() for cell in row.split("  ") if cell]
            wanted = (entry.name, entry.became or "-", f"{entry.bytes_before:,}", f"{entry.bytes_after:,}")
            assert cells == [*wanted, *([entry.reason] if entry.reason else [])]
        assert rows[-1].split() == ["the", "whole", "model", f"{report.bytes_before:,}", f"{report.bytes_after:,}"]

    def test_names_every_place_of_a_shared_layer(self) -> None:
        assert "\na, b.0  " in str(conversion_report(convert(shared(), "mxfp8")))

    def test_of_a_layer_by_itself(self) -> None:
        assert "the model itself" in str(conversion_report(convert(nn.Linear(64, 64), "mxfp8")))

    def test_its_repr_is_a_line(self) -> None:
        text = repr(conversion_report(convert(Mixture(), "mxfp8")))
        assert text.startswith("<ConversionReport: 3 of 6 replaced, ")


class TestLog:
    def test_tells_each_layer_at_level_info(self, caplog: pytest.LogCaptureFixture) -> None:
        model = nn.Sequential(nn.Linear(128, 128), nn.Linear(100, 4), nn.Embedding(100, 8))
        with caplog.at_level(logging.INFO, logger="tileon_ops"):
            convert(model, "mxfp4")
        assert messages(caplog, logging.INFO) == [
            "convert: 0 is BlockScaledLinear mxfp4: 66048 -> 9216 bytes",
            "convert: 1 stays Linear: in_features = 100 is not a multiple of 32, as mxfp4 needs",
            "convert: 2.weight stays: a parameter of Embedding, which is no linear layer, 3200 bytes",
            "convert: 1 of 2 linear layers: 66048 -> 9216 bytes; the whole model: 70864 -> 14032 bytes",
        ]
        assert messages(caplog, logging.WARNING) == []

    def test_prints_nothing(self, capfd: pytest.CaptureFixture[str]) -> None:
        convert(nn.Sequential(nn.Linear(64, 64)), "mxfp8")
        assert capfd.readouterr() == ("", "")


class TestWarning:
    def test_where_nothing_was_converted(self, caplog: pytest.LogCaptureFixture) -> None:
        model = nn.Sequential(nn.Linear(72, 64), nn.Linear(72, 64))
        convert(model, "mxfp8")
        assert messages(caplog, logging.WARNING) == [
            f"convert: nothing was converted. Left: 0 and 1 more, {bytes_of(model)} bytes (in_features = 72 is not a "
            "multiple of 32, as mxfp8 needs). tileon_ops.conversion_report(model) lists everything"
        ]

    def test_where_there_is_no_linear_layer(self, caplog: pytest.LogCaptureFixture) -> None:
        convert(nn.Sequential(nn.Conv2d(3, 3, 3)), "mxfp8")
        assert messages(caplog, logging.WARNING) == ["convert: nothing was converted: the model has no linear layers"]

    def test_where_experts_are_most_of_the_weights(self, caplog: pytest.LogCaptureFixture) -> None:
        convert(Mixture(), "mxfp8")
        (text,) = messages(caplog, logging.WARNING)
        assert text.startswith("convert: 58368 of 320512 bytes of linear weights were converted. ")
        assert "blocks.0.experts.gate_up_proj and 1 more, 262144 bytes (a 3-D parameter" in text

    @pytest.mark.parametrize(("skipped", "warns"), [(["0"], False), (["0", "1"], False), (["0", "1", "2"], True)])
    def test_from_more_than_half_of_the_bytes_on(
        self, skipped: list[str], warns: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        convert(nn.Sequential(*(nn.Linear(64, 64) for _ in range(4))), "mxfp8", skip=skipped)
        assert bool(messages(caplog, logging.WARNING)) == warns

    def test_embeddings_do_not_count(self, caplog: pytest.LogCaptureFixture) -> None:
        convert(nn.Sequential(nn.Embedding(10_000, 64), nn.Linear(64, 64)), "mxfp8")
        assert messages(caplog, logging.WARNING) == []

    @pytest.mark.parametrize(("second", "warns"), [("mxfp8", False), ("mxfp4", True)])
    def test_what_has_the_format_already_counts_as_converted(
        self, second: str, warns: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        convert(convert(nn.Sequential(nn.Linear(64, 64)), "mxfp8"), second)
        assert bool(messages(caplog, logging.WARNING)) == warns
        if warns:
            assert "already BlockScaledLinear mxfp8" in caplog.text
