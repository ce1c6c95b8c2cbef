"""`tileon_ops.convert`: which linear layers of a model are replaced, by what, which stay and why."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from operands import integers, normal
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

import tileon_ops
from tileon_ops import BlockScaledLinear, convert

FORMATS = ("mxfp8", "mxfp4", "mixed", "nvfp4")
each_format = pytest.mark.parametrize("fmt", FORMATS)
each_kind = pytest.mark.parametrize("fmt", [None, *FORMATS])


def mlp(device: torch.device | str = "cpu") -> nn.Sequential:
    """Of small integers: every product is exact in every format but nvfp4."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Sequential(nn.Linear(32, 5, bias=False)))
    with torch.no_grad():
        for seed, parameter in enumerate(model.parameters()):
            parameter.copy_(integers(*parameter.shape, dtype=torch.float32, device="cpu", seed=seed))
    return model.to(device)


def reason_of(module: nn.Module, fmt: str | None) -> str:
    """Why a layer within a model stays as it is."""
    model = nn.ModuleDict({"layer": module})
    assert convert(model, fmt) is model
    (entry,) = tileon_ops.conversion_report(model)
    assert model["layer"] is module
    assert (entry.name, entry.became) == ("layer", None)
    assert entry.bytes_before == entry.bytes_after
    return entry.reason


class Scaled(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


class Named(nn.Linear):
    """A subclass that computes what nn.Linear does."""


class WithAdapter(nn.Linear):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.adapter = nn.Linear(64, 8)


class TestReplaced:
    def test_none_gives_linear_on_the_same_parameters(self, device: torch.device) -> None:
        model = mlp(device)
        parameters, x = dict(model.named_parameters()), integers(3, 64, dtype=torch.float32, device=device)
        wanted = model(x)
        assert convert(model) is model
        assert [type(model[0]), type(model[2][0])] == [tileon_ops.Linear] * 2
        assert {name: id(p) for name, p in model.named_parameters()} == {name: id(p) for name, p in parameters.items()}
        assert torch.equal(model(x), wanted)

    @each_format
    def test_a_format_gives_block_scaled_layers(self, device: torch.device, fmt: str) -> None:
        model, x = mlp(device), integers(3, 64, dtype=torch.float32, device=device)
        layers = [BlockScaledLinear.from_linear(model[0], fmt), BlockScaledLinear.from_linear(model[2][0], fmt)]
        assert convert(model, fmt) is model
        assert [type(model[0]), type(model[2][0])] == [BlockScaledLinear] * 2
        assert torch.equal(model(x), layers[1](layers[0](x).relu()))
        assert not list(model.parameters())

    def test_options_are_those_of_the_layers_which_know_their_names(self) -> None:
        model = convert(mlp(), "mxfp4", weight_only=True, fast_accum=False, scale_rounding="floor")
        for layer, name in ((model[0], "0"), (model[2][0], "2.0")):
            assert (layer.weight_only, layer.fast_accum, layer.scale_rounding) == (True, False, "floor")
            assert layer.name_in_model == name

    @each_kind
    def test_a_model_that_is_a_linear_layer_itself_is_returned_anew(self, fmt: str | None) -> None:
        linear = nn.Linear(64, 10)
        new = convert(linear, fmt)
        assert type(new) is (BlockScaledLinear if fmt else tileon_ops.Linear)
        assert type(linear) is nn.Linear
        (entry,) = tileon_ops.conversion_report(new)
        assert entry.name == ""

    @each_kind
    def test_a_shared_layer_stays_shared(self, fmt: str | None) -> None:
        layer = nn.Linear(64, 64)
        model = nn.ModuleDict({"a": layer, "b": nn.Sequential(layer, nn.ReLU(), layer)})
        convert(model, fmt)
        assert model["a"] is model["b"][0] is model["b"][2]
        assert type(model["a"]) is (BlockScaledLinear if fmt else tileon_ops.Linear)
        (entry,) = tileon_ops.conversion_report(model)
        assert (entry.name, entry.also) == ("a", ("b.0", "b.2"))

    @each_format
    def test_an_activation_comes_along(self, fmt: str) -> None:
        model = nn.Sequential(tileon_ops.Linear(64, 10, activation="leaky_relu", slope=0.5))
        convert(model, fmt)
        assert (model[0].activation, model[0].slope) == ("leaky_relu", 0.5)

    @each_kind
    def test_a_subclass_that_computes_the_same_is_replaced(self, fmt: str | None) -> None:
        model = nn.Sequential(Named(64, 10))
        convert(model, fmt)
        assert type(model[0]) is (BlockScaledLinear if fmt else tileon_ops.Linear)

    def test_the_state_dict_of_a_converted_model_fills_one_without_memory(self) -> None:
        trained, x = convert(mlp(), "mxfp4"), normal(3, 64, dtype=torch.float32, device="cpu")
        with torch.device("meta"):
            model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Sequential(nn.Linear(32, 5, bias=False)))
        convert(model, "mxfp4").load_state_dict(trained.state_dict(), assign=True)
        assert torch.equal(model(x), trained(x))

    def test_the_mode_reaches_the_layers(self) -> None:
        assert not convert(mlp().eval(), "mxfp8")[0].training

    def test_the_old_weight_is_freed_before_the_next_is_quantized(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model, alive = mlp(), []
        first = weakref.ref(model[0].weight)
        make = BlockScaledLinear.from_linear

        def watch(linear: nn.Linear, *arguments: Any, **options: Any) -> BlockScaledLinear:
            gc.collect()
            alive.append(first() is not None)
            return make(linear, *arguments, **options)

        monkeypatch.setattr(BlockScaledLinear, "from_linear", watch)
        convert(model, "mxfp8")
        assert alive == [True, False]


class TestFilter:
    def test_is_asked_once_for_each_layer_and_leaves_what_it_says(self) -> None:
        shared = nn.Linear(64, 64)
        model, asked = nn.ModuleDict({"a": shared, "b": nn.Sequential(nn.ReLU(), shared, nn.Linear(64, 5))}), []

        def filter(module: nn.Module, name: str) -> bool:
            asked.append((module, name))
            return name != "a"

        convert(model, "mxfp8", filter)
        assert asked[0] == (shared, "a")
        assert [name for _, name in asked] == ["a", "b.2"]
        assert model["a"] is model["b"][1] is shared
        assert type(model["b"][2]) is BlockScaledLinear
        first, second = tileon_ops.conversion_report(model)
        assert (first.became, first.reason) == (None, "`filter` leaves it")
        assert (second.became, second.reason) == ("BlockScaledLinear mxfp8", "")

    def test_what_it_raises_leaves_the_model_as_it_was(self) -> None:
        model = mlp()

        def filter(module: nn.Module, name: str) -> bool:
            if name == "2.0":
                raise KeyError(name)
            return True

        with pytest.raises(KeyError):
            convert(model, "mxfp8", filter)
        assert type(model[0]) is nn.Linear


def hooked() -> nn.Linear:
    linear = nn.Linear(64, 10)
    linear.register_forward_hook(lambda *_: None)
    return linear


def patched() -> nn.Linear:
    linear = nn.Linear(64, 10)
    linear.forward = lambda x: x  # type: ignore[method-assign]
    return linear


def pruned() -> nn.Linear:
    linear: nn.Linear = prune.l1_unstructured(nn.Linear(64, 10), "weight", 0.5)
    linear._forward_pre_hooks.clear()
    return linear


LEFT_BY_ALL: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "own forward": (lambda: Scaled(64, 10), "Scaled has a forward of its own"),
    "replaced forward": (patched, "its forward has been replaced"),
    "hooks": (hooked, "it has hooks, which would stay behind"),
    "parametrized": (lambda: parametrizations.weight_norm(nn.Linear(64, 10)), "it is parametrized"),
    "pruned": (pruned, r"its parameters are not those of torch\.nn\.Linear alone: weight, weight_mask, weight_orig"),
    "lazy": (lambda: nn.LazyLinear(10), "it has no parameters yet"),
    "dtype": (lambda: nn.Linear(64, 10, dtype=torch.complex64), "its weight is complex64, and offered are float16, "),
}
LEFT_BY_FORMATS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "float64": (lambda: nn.Linear(64, 10, dtype=torch.float64), "float64, and offered are float16, bfloat16, float32$"),
    "in_features": (lambda: nn.Linear(72, 10), r"in_features = 72 is not a multiple of (32|16), as \w+ needs"),
}


class TestLeft:
    @pytest.mark.parametrize("case", LEFT_BY_ALL)
    @pytest.mark.parametrize("fmt", [None, "mxfp8"])
    def test_by_every_conversion(self, fmt: str | None, case: str) -> None:
        make, words = LEFT_BY_ALL[case]
        assert re.search(words, reason_of(make(), fmt))

    @pytest.mark.parametrize("case", LEFT_BY_FORMATS)
    @each_format
    def test_by_formats(self, fmt: str, case: str) -> None:
        make, words = LEFT_BY_FORMATS[case]
        assert re.search(words, reason_of(make(), fmt))
        assert type(convert(nn.Sequential(make()))[0]) is tileon_ops.Linear

    def test_a_layer_with_submodules_though_these_are_replaced(self) -> None:
        model = nn.Sequential(WithAdapter(64, 10))
        convert(model, "mxfp8")
        outer, inner = tileon_ops.conversion_report(model)
        assert (outer.name, outer.became) == ("0", None)
        assert "adapter" in outer.reason
        assert (inner.name, inner.became) == ("0.adapter", "BlockScaledLinear mxfp8")

    def test_a_tileon_linear_by_none(self) -> None:
        assert reason_of(tileon_ops.Linear(64, 10), None) == "it is a tileon_ops.Linear already"

    @each_format
    def test_weights_that_another_module_holds(self, fmt: str) -> None:
        model = nn.ModuleDict({"embed": nn.Embedding(100, 64), "head": nn.Linear(64, 100, bias=False)})
        model["head"].weight = model["embed"].weight
        convert(model, fmt)
        (entry,) = tileon_ops.conversion_report(model)
        assert entry.became is None
        assert "tied to embed.weight" in entry.reason
        convert(model)
        assert type(model["head"]) is tileon_ops.Linear
        assert model["head"].weight is model["embed"].weight

    @each_kind
    def test_projections_that_attention_reads_itself(self, fmt: str | None) -> None:
        attention, x = nn.MultiheadAttention(64, 4, batch_first=True), torch.randn(2, 3, 64)
        wanted = attention(x, x, x)[0]
        convert(attention, fmt)
        assert torch.equal(attention(x, x, x)[0], wanted)
        _, entry = tileon_ops.conversion_report(attention)
        assert (entry.name, entry.became) == ("out_proj", None)
        assert "reads its weight itself" in entry.reason

    @each_format
    def test_those_of_an_encoder_unless_its_fast_path_is_off(self, fmt: str) -> None:
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 96, batch_first=True), 2).eval()
        x, padding = torch.randn(2, 3, 64), torch.tensor([[False, False, True], [False, False, False]])
        with torch.no_grad():
            wanted = encoder(x, src_key_padding_mask=padding)
            convert(encoder, fmt)
            assert torch.equal(encoder(x, src_key_padding_mask=padding), wanted)
            reasons = {entry.name: entry.reason for entry in tileon_ops.conversion_report(encoder)}
            assert "set_fastpath_enabled" in reasons["layers.0.linear1"]
            torch.backends.mha.set_fastpath_enabled(False)
            try:
                convert(encoder, fmt)
                assert type(encoder.layers[1].linear2) is BlockScaledLinear
                y = encoder(x, src_key_padding_mask=padding)
            finally:
                torch.backends.mha.set_fastpath_enabled(True)
        assert (y - wanted)[1].norm() < 0.2 * wanted[1].norm()


class TestErrors:
    def test_a_format_that_there_is_not(self) -> None:
        model = mlp()
        with pytest.raises(RuntimeError, match=r'^convert: `format` must be one of mxfp8, .*, got "fp4"$'):
            convert(model, "fp4")
        assert type(model[0]) is nn.Linear

    def test_no_module(self) -> None:
        with pytest.raises(RuntimeError, match=r"^convert: `model` must be a torch\.nn\.Module, got dict$"):
            convert({}, "mxfp8")  # type: ignore[arg-type]


@each_kind
def test_a_converted_model_compiles_as_a_whole(device: torch.device, fmt: str | None) -> None:
    torch._dynamo.reset()
    model, x = convert(mlp(device), fmt), integers(3, 64, dtype=torch.float32, device=device)
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    assert torch.equal(compiled(x), model(x))
    torch._dynamo.reset()
