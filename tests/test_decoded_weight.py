"""`BlockScaledLinear.weight`: shape, dtype and device of the layer that was replaced; values decoded when used."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from layers import DTYPES, each_format, fresh_compiler, saved_and_loaded, values_of  # noqa: F401
from operands import normal
from torch import Tensor, nn
from torch.nn import functional

import tileon_ops
from tileon_ops import BlockScaledLinear
from tileon_ops._rules import torch_private


def layer_of(fmt: str, device: torch.device | str = "cpu", dtype: torch.dtype = torch.bfloat16) -> BlockScaledLinear:
    torch.manual_seed(0)
    return BlockScaledLinear.from_linear(nn.Linear(96, 70, device=device, dtype=dtype), fmt)


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one at each decoding of a weight."""
    seen: list[str] = []

    def dequantize(data: Tensor, scale: Tensor, format: str, *others: Any, **options: Any) -> Tensor:
        seen.append(format)
        return tileon_ops.dequantize(data, scale, format, *others, **options)

    monkeypatch.setattr("tileon_ops.nn.block_scaled_linear._dequantize_op", dequantize)
    return seen


class TestWhatItShows:
    @each_format
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_is_that_of_the_layer_it_replaced(
        self, device: torch.device, decodings: list[str], fmt: str, dtype: torch.dtype
    ) -> None:
        weight = layer_of(fmt, device, dtype).weight
        assert isinstance(weight, Tensor)
        assert (tuple(weight.shape), weight.dtype, weight.device.type) == ((70, 96), dtype, device.type)
        assert (weight.dim(), weight.numel(), weight.requires_grad, weight.is_floating_point()) == (
            2,
            6720,
            False,
            True,
        )
        assert "DecodedWeight(shape=(70, 96)" in repr(weight)
        assert not decodings

    @each_format
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_values_are_those_of_the_codes_rounded_once(
        self, device: torch.device, fmt: str, dtype: torch.dtype
    ) -> None:
        layer = layer_of(fmt, device, dtype)
        assert torch.equal(layer.weight, values_of(layer).to(dtype))

    @pytest.mark.parametrize(
        "use",
        [
            lambda weight, x: functional.linear(x, weight),
            lambda weight, x: x @ weight.t(),
            lambda weight, x: weight.float().sum(0),
            lambda weight, x: weight.detach().data.clone(),
            lambda weight, x: torch.cat([weight, weight]),
            lambda weight, x: torch.empty(70, 96, dtype=torch.bfloat16).copy_(weight),
            lambda weight, x: tileon_ops.matmul(x, weight.t()),
            lambda weight, x: copy.deepcopy(weight),
            lambda weight, x: pickle.loads(pickle.dumps(weight)),
            lambda weight, x: saved_and_loaded(weight, weights_only=True),
            lambda weight, x: torch.from_numpy(weight.float().numpy()),
            lambda weight, x: torch.func.vmap(lambda row: (weight * row).sum())(x),
            lambda weight, x: nn.Parameter(weight.clone()).detach(),
        ],
    )
    def test_any_use_gives_a_plain_tensor_of_the_values(self, use: Callable[[Tensor, Tensor], Tensor]) -> None:
        layer, x = layer_of("nvfp4"), normal(3, 96, dtype=torch.bfloat16, device="cpu")
        result = use(layer.weight, x)
        assert type(result) is Tensor
        assert torch.equal(result, use(values_of(layer).bfloat16(), x))

    def test_shows_what_the_layer_holds_then(self, device: torch.device) -> None:
        layer, other = layer_of("mxfp8", device), BlockScaledLinear(96, 70, format="mxfp8", device=device)
        weight = layer.weight
        layer.load_state_dict(other.state_dict())
        assert not bool(weight.any())

    def test_is_no_part_of_the_state(self) -> None:
        layer = layer_of("mxfp4")
        assert "weight" not in layer.state_dict()
        assert not list(layer.parameters())

    def test_without_torchs_private_name_it_is_decoded_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch_private, "tensor_without_memory", None)
        layer = layer_of("mxfp4")
        assert type(layer.weight) is Tensor
        assert torch.equal(layer.weight, values_of(layer).bfloat16())


class TestWrites:
    @pytest.mark.parametrize(
        "write",
        [
            lambda weight: weight.zero_(),
            lambda weight: weight.data.copy_(torch.ones(70, 96)),
            lambda weight: weight.data.add_(1),
            lambda weight: torch.add(weight, 1, out=weight),
            lambda weight: nn.init.normal_(weight),
            lambda weight: torch._foreach_add_([weight], 1),
        ],
    )
    def test_are_an_error(self, write: Callable[[Tensor], object]) -> None:
        with pytest.raises(RuntimeError, match=r"^BlockScaledLinear: `weight` is decoded .* cannot be written"):
            write(layer_of("mxfp8").weight)

    def test_it_cannot_be_set(self) -> None:
        layer = layer_of("mxfp8")
        with pytest.raises(AttributeError, match="weight"):
            layer.weight = torch.zeros(70, 96)  # type: ignore[misc]
        with pytest.raises(KeyError, match="weight"):
            layer.weight = nn.Parameter(torch.zeros(70, 96))  # type: ignore[misc]


class TestDtype:
    @pytest.mark.parametrize(
        ("convert", "dtype"),
        [
            (lambda layer: layer.half(), torch.float16),
            (lambda layer: layer.float(), torch.float32),
            (lambda layer: layer.to(torch.float64), torch.float64),
            (lambda layer: nn.Sequential(layer).to("cpu", torch.float16)[0], torch.float16),
            (lambda layer: layer.to("cpu"), torch.bfloat16),
            (lambda layer: layer.share_memory(), torch.bfloat16),
            (lambda layer: layer.to_empty(device="cpu"), torch.bfloat16),
            (copy.deepcopy, torch.bfloat16),
            (lambda layer: saved_and_loaded(layer, weights_only=False), torch.bfloat16),
        ],
    )
    def test_follows_the_modules_conversions(self, convert: Callable[[nn.Module], Any], dtype: torch.dtype) -> None:
        layer = convert(layer_of("nvfp4"))
        assert layer.weight.dtype == layer.weight.sum().dtype == dtype
        assert layer.bias.dtype == torch.float32

    @pytest.mark.parametrize(("assign", "dtype"), [(False, torch.float32), (True, torch.bfloat16)])
    def test_a_state_dict_brings_it_where_it_is_assigned(self, assign: bool, dtype: torch.dtype) -> None:
        """As of torch.nn.Linear."""
        state = saved_and_loaded(nn.Sequential(layer_of("nvfp4")).state_dict(), weights_only=True)
        plain = nn.Sequential(nn.Linear(96, 70))
        plain.load_state_dict(nn.Sequential(nn.Linear(96, 70).bfloat16()).state_dict(), assign=assign)
        other = nn.Sequential(BlockScaledLinear(96, 70, format="nvfp4", device="meta" if assign else "cpu"))
        other.load_state_dict(state, assign=assign)
        assert other[0].weight.dtype == plain[0].weight.dtype == dtype

    def test_tensors_alone_leave_it_as_the_layer_was_made(self) -> None:
        """As safetensors has them."""
        state = dict(layer_of("mxfp8").state_dict())
        for dtype in DTYPES:
            other = BlockScaledLinear(96, 70, format="mxfp8", device="meta", dtype=dtype)
            other.load_state_dict(state, assign=True)
            assert other.weight.dtype == dtype

    def test_is_torchs_default_where_the_constructor_is_told_nothing(self) -> None:
        assert BlockScaledLinear(96, 70, format="mxfp8").weight.dtype == torch.float32
        assert BlockScaledLinear(96, 70, format="mxfp8", dtype=torch.float16).weight.dtype == torch.float16

    def test_on_the_meta_device(self) -> None:
        weight = BlockScaledLinear(96, 70, format="mxfp8", device="meta").weight
        assert weight.is_meta
        assert weight.t().shape == (96, 70)


class AsksForDtype(nn.Module):
    """As the feed-forward layer of transformers' T5."""

    def __init__(self, layer: BlockScaledLinear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.to(self.layer.weight.dtype))


class TestCompilers:
    @each_format
    def test_a_model_that_asks_for_the_dtype_compiles_and_exports(self, device: torch.device, fmt: str) -> None:
        model, x = AsksForDtype(layer_of(fmt, device)), normal(5, 96, dtype=torch.float32, device=device)
        wanted = model(x)
        assert wanted.dtype == torch.bfloat16
        assert torch.equal(torch.compile(model, fullgraph=True, backend="aot_eager")(x), wanted)
        assert torch.equal(torch.export.export(model, (x,)).module()(x), wanted)

    def test_what_is_not_used_is_not_in_the_graph(self) -> None:
        graphs: list[str] = []

        def backend(graph: Any, inputs: Any) -> Any:
            graph.graph.eliminate_dead_code()
            graphs.append(str(graph.graph))
            return graph.forward

        model = AsksForDtype(layer_of("mxfp4"))
        torch.compile(model, fullgraph=True, backend=backend)(torch.ones(5, 96))
        assert "tileon.dequantize" not in graphs[0]

    def test_values_in_a_graph(self, device: torch.device) -> None:
        layer = layer_of("mxfp8", device)
        compiled = torch.compile(lambda: layer.weight.float().sum(0), fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(), layer.weight.float().sum(0))
