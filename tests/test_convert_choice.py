"""How `tileon_ops.convert` is told what to convert: globs to skip, formats by name, adapters, Conv1D and keywords."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest
import torch
from operands import integers
from torch import Tensor, nn

import tileon_ops
from tileon_ops import BlockScaledLinear, conversion_report, convert


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(64, 64, bias=False) for _ in range(3))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
        self.lm_head = nn.Linear(64, 32)


def kinds(model: nn.Module) -> dict[str, str | None]:
    return {entry.name: entry.became for entry in conversion_report(model)}


class TestSkip:
    def test_leaves_the_layers_whose_whole_name_a_glob_matches(self) -> None:
        model = convert(Decoder(), "mxfp8", skip=["lm_head", "*.gate"])
        left = {entry.name: entry.reason for entry in conversion_report(model) if entry.became is None}
        assert left == {
            "layers.0.gate": '`skip` leaves it: "*.gate"',
            "layers.1.gate": '`skip` leaves it: "*.gate"',
            "lm_head": '`skip` leaves it: "lm_head"',
        }

    def test_matches_every_name_of_a_shared_layer(self) -> None:
        layer = nn.Linear(64, 64)
        model = nn.ModuleDict({"a": layer, "b": nn.Sequential(layer)})
        convert(model, "mxfp8", skip=("b.*",))
        assert model["a"] is model["b"][0] is layer

    def test_comes_before_filter(self) -> None:
        asked: list[str] = []

        def filter(module: nn.Module, name: str) -> bool:
            asked.append(name)
            return name != "layers.0.up"

        model = convert(Decoder(), "mxfp8", filter, skip=("lm_head", "*.gate", "*.down"))
        assert asked == ["layers.0.up", "layers.1.up"]
        assert [name for name, became in kinds(model).items() if became] == ["layers.1.up"]


class TestFormatsByName:
    def test_the_first_pattern_that_matches_counts(self) -> None:
        model = convert(Decoder(), {"lm_head": None, "layers.1.*": "nvfp4", "*.down": "mxfp8", "layers.0.up": "mxfp4"})
        assert kinds(model) == {
            "layers.0.gate": None,
            "layers.0.up": "BlockScaledLinear mxfp4",
            "layers.0.down": "BlockScaledLinear mxfp8",
            **{f"layers.1.{name}": "BlockScaledLinear nvfp4" for name in ("gate", "up", "down")},
            "lm_head": "Linear",
        }
        assert conversion_report(model)[0].reason == "no pattern of `format` matches its name"
        assert type(model.lm_head) is tileon_ops.Linear
        assert type(model.layers[0].gate) is nn.Linear

    def test_each_layer_is_what_its_format_alone_makes(self) -> None:
        model = Decoder()
        wanted = BlockScaledLinear.from_linear(model.layers[0].down, "mxfp8").state_dict()
        convert(model, {"*.down": "mxfp8", "*": "mxfp4"})
        for name, value in model.layers[0].down.state_dict().items():
            assert torch.equal(value.view(torch.uint8), wanted[name].view(torch.uint8))

    def test_a_star_matches_the_model_itself(self) -> None:
        assert type(convert(nn.Linear(64, 64), {"*": "mxfp8"})) is BlockScaledLinear

    def test_a_tie_matters_to_formats_alone(self) -> None:
        model = nn.ModuleDict({"embed": nn.Embedding(32, 64), "head": nn.Linear(64, 32, bias=False)})
        model["head"].weight = model["embed"].weight
        convert(model, {"head": None})
        assert type(model["head"]) is tileon_ops.Linear
        assert model["head"].weight is model["embed"].weight


class Adapted(nn.Module):
    """As peft wraps a layer: no subclass of nn.Linear, and its forward reads the weight of lora_A."""

    def __init__(self) -> None:
        super().__init__()
        self.base_layer = nn.Linear(64, 64)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(64, 32, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(32, 64, bias=False)})

    def forward(self, x: Tensor) -> Tensor:
        narrow = x.to(self.lora_A["default"].weight.dtype)
        return self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](narrow))


class TestAdapters:
    @pytest.mark.parametrize("format", [None, "mxfp8"])
    def test_stay_while_their_base_is_replaced(self, format: str | None) -> None:
        model = nn.ModuleDict({"q_proj": Adapted()})
        convert(model, format)
        base, *adapters = conversion_report(model)
        assert (base.name, base.became) == ("q_proj.base_layer", "BlockScaledLinear mxfp8" if format else "Linear")
        assert [(entry.name, entry.became, entry.reason) for entry in adapters] == [
            (f"q_proj.{name}.default", None, f"it is an adapter's: {name}") for name in ("lora_A", "lora_B")
        ]
        with torch.inference_mode():
            assert model["q_proj"](torch.randn(2, 64)).shape == (2, 64)

    def test_that_are_layers_themselves_stay_too(self) -> None:
        model = nn.ModuleDict({"linear": nn.Linear(64, 64), "lora_A": nn.Linear(64, 32), "lora_B": nn.Linear(32, 64)})
        convert(model, "mxfp8")
        assert kinds(model) == {"linear": "BlockScaledLinear mxfp8", "lora_A": None, "lora_B": None}


class Conv1D(nn.Module):
    """transformers' layer of that name, by its public attributes."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf = nf
        self.nx = nx
        self.weight = nn.Parameter(integers(nx, nf, dtype=torch.float32, device="cpu"))
        self.bias = nn.Parameter(integers(nf, dtype=torch.float32, device="cpu", seed=1))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class TestConv1D:
    @pytest.mark.parametrize("format", ["mxfp8", "mxfp4", "mixed", "nvfp4"])
    def test_is_the_linear_layer_with_the_transposed_weight(self, format: str) -> None:
        model = nn.Sequential(Conv1D(96, 64)).eval()
        linear = nn.Linear(64, 96)
        linear.load_state_dict({"weight": model[0].weight.t(), "bias": model[0].bias})
        convert(model, format)
        assert (model[0].in_features, model[0].out_features, model[0].training) == (64, 96, False)
        x = integers(3, 64, dtype=torch.float32, device="cpu", seed=2)
        assert torch.equal(model(x), BlockScaledLinear.from_linear(linear, format)(x))

    def test_the_size_that_counts_is_in_features(self) -> None:
        model = convert(nn.Sequential(Conv1D(64, 72)), "mxfp8")
        (entry,) = conversion_report(model)
        assert "in_features = 72" in entry.reason

    def test_stays_without_a_format_as_its_parameter_has_another_shape(self) -> None:
        model = convert(nn.Sequential(Conv1D(64, 64)))
        (entry,) = conversion_report(model)
        assert entry.reason == "its weight is (in, out), and Linear shares weights as (out, in): it takes a format"
        assert type(model[0]) is Conv1D

    def test_another_class_of_that_name_stays(self) -> None:
        class Conv1D(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(64, 32))

        assert kinds(convert(nn.Sequential(Conv1D()), "mxfp8")) == {"0.weight": None}


class TestKeywords:
    def test_reach_from_linear(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[dict[str, Any]] = []

        def from_linear(
            linear: nn.Linear, format: str, *, weight_only: bool, fast_accum: bool, scale_rounding: str
        ) -> nn.Module:
            seen.append({"weight_only": weight_only, "fast_accum": fast_accum, "scale_rounding": scale_rounding})
            return nn.Identity()

        monkeypatch.setattr(BlockScaledLinear, "from_linear", from_linear)
        convert(nn.Sequential(nn.Linear(64, 64)), "mxfp8")
        convert(nn.Sequential(nn.Linear(64, 64)), "mxfp8", weight_only=True, fast_accum=False, scale_rounding="floor")
        assert seen == [
            {"weight_only": False, "fast_accum": True, "scale_rounding": "rceil"},
            {"weight_only": True, "fast_accum": False, "scale_rounding": "floor"},
        ]

    def test_a_type_checker_knows_the_model_that_comes_back(self) -> None:
        hints = get_type_hints(convert)
        assert hints["model"] is hints["return"]
        assert hints["model"].__bound__ is nn.Module

    def test_stand_in_the_order_that_is_public(self) -> None:
        names = ["model", "format", "filter", "skip", "weight_only", "fast_accum", "scale_rounding"]
        parameters = inspect.signature(convert).parameters
        assert list(parameters) == names
        assert [name for name in names if parameters[name].kind is inspect.Parameter.KEYWORD_ONLY] == names[3:]


WRONG: dict[str, tuple[Callable[[nn.Module], object], str]] = {
    "format": (lambda model: convert(model, {"*": "fp4"}), r'^convert: `format` must be one of mxfp8, .*, got "fp4"$'),
    "key": (
        lambda model: convert(model, {0: "mxfp8"}),  # type: ignore[dict-item]
        r"^convert: a key of `format` must be a glob of names, got 0$",
    ),
    "skip": (
        lambda model: convert(model, "mxfp8", skip="lm_head"),
        r'^convert: `skip` must be a sequence of globs, got the string "lm_head": write \("lm_head",\)$',
    ),
    "one of skip": (
        lambda model: convert(model, "mxfp8", skip=(1,)),  # type: ignore[arg-type]
        r"^convert: `skip` must be a sequence of globs, got one of type int$",
    ),
    "filter": (
        lambda model: convert(model, "mxfp8", "lm_head"),  # type: ignore[arg-type]
        r"^convert: `filter` must be callable, got str$",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_leaves_the_model_as_it_was(case: str) -> None:
    call, message = WRONG[case]
    model = Decoder()
    with pytest.raises(RuntimeError, match=message):
        call(model)
    assert type(model.lm_head) is nn.Linear
