"""tileon_ops.BlockScaledLinear in the place of a trained layer. Writes into its weight: test_layer_weight.py; layers
whose activations are not quantized: test_weight_only_linear.py; `weight`: test_decoded_weight.py."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from layers import (
    DTYPES,
    FORMATS,
    MX_FORMATS,
    assert_same_buffers,
    by_the_ops,
    each_format,
    each_mode,
    fresh_compiler,  # noqa: F401
    of_integers,
    quantized,
    saved_and_loaded,
    values_of,
)
from operands import integers, normal
from reference import assert_matches
from scaled_operands import Scaled, expected
from torch import Tensor, func, nn
from torch.nn import functional

import tileon_ops
from tileon_ops import BlockScaledLinear
from tileon_ops.nn import layer_ops

# How far products of small integers may be off: 1 / 2 of 2 is no code of int8, and 1 / 3 of 2 none of nvfp4's scales.
ROUNDED = {"nvfp4": 1e-2, "fp8_row": 1e-4, "fp8_128x128": 1e-4, "int8_row": 1.0}


class TestOutput:
    @each_format
    @pytest.mark.parametrize("shape", [(64,), (3, 64), (2, 3, 64), (2, 1, 3, 64), (0, 64), (2, 0, 64)], ids=str)
    def test_any_leading_dimensions(self, device: torch.device, fmt: str, shape: tuple[int, ...]) -> None:
        linear = of_integers(64, 10, device)
        x = integers(*shape, dtype=torch.float32, device=device, seed=7)
        actual = BlockScaledLinear.from_linear(linear, fmt)(x)
        wanted = functional.linear(x, linear.weight, linear.bias).detach()
        torch.testing.assert_close(actual, wanted, rtol=0, atol=ROUNDED.get(fmt, 0))

    @each_format
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    @pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
    def test_has_the_bits_of_the_ops_and_the_dtype_of_the_input(
        self, device: torch.device, fmt: str, dtype: torch.dtype, bias: bool
    ) -> None:
        torch.manual_seed(0)
        linear = tileon_ops.Linear(96, 70, bias, activation="gelu", device=device, dtype=dtype)
        x = normal(5, 96, dtype=dtype, device=device)
        layer = BlockScaledLinear.from_linear(linear, fmt)
        actual, wanted = layer(x), by_the_ops(layer, x)
        assert actual.dtype == dtype
        if device.type == "cpu" or dtype == torch.float32:
            assert torch.equal(actual, wanted)
        else:  # a GPU may multiply numbers in the place of codes
            torch.testing.assert_close(actual, wanted, rtol=1e-2, atol=1e-2)

    @each_format
    @each_mode
    @pytest.mark.parametrize("dtype", DTYPES, ids=str)
    def test_is_the_product_of_what_both_operands_stand_for(
        self, device: torch.device, fmt: str, weight_only: bool, dtype: torch.dtype
    ) -> None:
        """In float64, with the error that docs/operands.md allows."""
        torch.manual_seed(0)
        linear = tileon_ops.Linear(288, 140, activation="gelu", device=device)
        layer = BlockScaledLinear.from_linear(linear, fmt, weight_only=weight_only)
        x = normal(7, 288, dtype=dtype, device=device)
        a, scale_a, values = x, None, x
        if not weight_only:
            a, scale_a, global_scale = quantized(x, fmt)
            values = tileon_ops.dequantize(a, scale_a, FORMATS[fmt][0], global_scale)
        one = torch.ones(1, 1, dtype=torch.float64, device=device)
        operands = Scaled(a, scale_a, values.double(), one), Scaled(layer.data, layer.scale, values_of(layer), one)
        assert_matches(layer(x), expected(*operands, layer.bias, out_dtype=dtype, activation="gelu"), fmt)

    @each_format
    @pytest.mark.parametrize("weight_only", [False, True], ids=["both quantized", "weight only"])
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
    def test_a_row_beside_others_gives_what_it_gives_alone(
        self, device: torch.device, fmt: str, weight_only: bool, dtype: torch.dtype
    ) -> None:
        torch.manual_seed(0)
        layer = BlockScaledLinear.from_linear(nn.Linear(256, 70, device=device), fmt, weight_only=weight_only)
        x = normal(9, 256, dtype=dtype, device=device)
        loud = torch.cat([x, 100 * normal(120, 256, dtype=dtype, device=device, seed=1)])
        tolerance = 0.0 if device.type == "cpu" else 1e-2  # a GPU may sum few rows in another order
        torch.testing.assert_close(layer(loud)[:9], layer(x), rtol=tolerance, atol=tolerance)

    @pytest.mark.parametrize("fmt", MX_FORMATS)
    def test_scales_of_activations_are_rounded_as_told(self, device: torch.device, fmt: str) -> None:
        linear, x = nn.Linear(64, 10, device=device), normal(5, 64, dtype=torch.float32, device=device)
        x[:, 0] = 7.9  # which saturates under the scale of "floor"
        results = {}
        for rounding in ("floor", "rceil"):
            layer = BlockScaledLinear.from_linear(linear, fmt, scale_rounding=rounding)
            results[rounding] = layer(x)
            assert torch.equal(results[rounding], by_the_ops(layer, x, rounding))
        assert not torch.equal(*results.values())
        assert torch.equal(BlockScaledLinear.from_linear(linear, fmt)(x), results["rceil"])

    @each_format
    @each_mode
    def test_hands_fast_accum_on(self, monkeypatch: pytest.MonkeyPatch, fmt: str, weight_only: bool) -> None:
        handed: list[Any] = []

        name = "multiply" if weight_only else "linear"
        op = getattr(layer_ops.OPS, name)

        def product(*operands: Any, fast_accum: bool = False, **options: Any) -> Tensor:
            handed.append(fast_accum)
            result: Tensor = op(*operands, **options)
            return result

        monkeypatch.setattr(layer_ops, "_below", layer_ops.OPS._replace(**{name: product}))
        for options in ({}, {"fast_accum": False}):
            layer = BlockScaledLinear.from_linear(nn.Linear(64, 10), fmt, weight_only=weight_only, **options)
            layer(torch.ones(2, 64, dtype=torch.bfloat16))
        assert handed == [True, False]

    def test_the_dtype_of_the_layer_it_was_made_of_does_not_matter(self, device: torch.device) -> None:
        half = BlockScaledLinear.from_linear(of_integers(64, 10, device, torch.float16), "mxfp8")
        single = BlockScaledLinear.from_linear(of_integers(64, 10, device), "mxfp8")
        for dtype in DTYPES:
            x = integers(3, 64, dtype=dtype, device=device)
            assert torch.equal(half(x), single(x))

    def test_an_input_of_any_strides(self, device: torch.device) -> None:
        layer = BlockScaledLinear.from_linear(of_integers(64, 10, device), "mxfp4")
        x = integers(6, 4, 64, dtype=torch.float32, device=device)
        wanted = layer(x)
        assert torch.equal(layer(x.mT.contiguous().mT), wanted)
        assert torch.equal(layer(x.transpose(0, 1)), wanted.transpose(0, 1))
        assert torch.equal(layer(x[::2, 1:3]), wanted[::2, 1:3])

    @pytest.mark.parametrize("activation", ["relu", "leaky_relu"])
    def test_the_activation_of_a_tileon_linear_comes_along(self, device: torch.device, activation: str) -> None:
        linear = of_integers(64, 10, device, activation=activation, slope=0.5)
        x = integers(5, 64, dtype=torch.float32, device=device)
        layer = BlockScaledLinear.from_linear(linear, "mxfp4")
        assert (layer.activation, layer.slope) == (activation, 0.5)
        assert torch.equal(layer(x), linear(x).detach())

    @pytest.mark.parametrize("magnitude", [2.0**-20, 2.0**20], ids=["small", "large"])
    def test_nvfp4_holds_activations_and_weights_of_any_magnitude(self, device: torch.device, magnitude: float) -> None:
        """Its block scales reach from 2^-6 to 448: without global scales all would be 0, or saturate."""
        linear, x = tileon_ops.Linear(64, 10, False, device=device), normal(8, 64, dtype=torch.float32, device=device)
        wanted = BlockScaledLinear.from_linear(linear, "nvfp4")(x) * magnitude
        assert torch.equal(BlockScaledLinear.from_linear(linear, "nvfp4")(x * magnitude), wanted)
        with torch.no_grad():
            linear.weight *= magnitude
        assert torch.equal(BlockScaledLinear.from_linear(linear, "nvfp4")(x), wanted)

    @each_format
    def test_under_autocast_the_output_has_its_dtype(self, device: torch.device, fmt: str) -> None:
        """As torch.nn.Linear's has; the input is quantized as it is."""
        linear = of_integers(64, 10, device)
        layer, x = BlockScaledLinear.from_linear(linear, fmt), normal(3, 64, dtype=torch.float32, device=device)
        with torch.autocast(device.type, torch.bfloat16), torch.no_grad():
            y = layer(x)
            assert y.dtype == linear(x).dtype == torch.bfloat16
        assert torch.equal(y, layer(x).bfloat16())

    def test_maps_as_one_product(self, device: torch.device) -> None:
        layer = BlockScaledLinear.from_linear(of_integers(64, 10, device), "mxfp8")
        x = integers(5, 3, 64, dtype=torch.float32, device=device)
        assert torch.equal(func.vmap(layer)(x), layer(x))


class TestState:
    @each_format
    def test_is_in_buffers_and_nothing_is_trained(self, fmt: str) -> None:
        linear = nn.Linear(64, 10).eval()
        layer = BlockScaledLinear.from_linear(linear, fmt)
        names = ["data", "scale", "bias"] + (["global_scale"] if fmt == "nvfp4" else [])
        assert list(layer.state_dict()) == names
        assert not list(layer.parameters())
        assert not any(tensor.requires_grad for tensor in layer.state_dict().values())
        assert not layer.training
        assert linear.weight.requires_grad, "the layer it was made of stays as it was"

    @each_format
    @pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
    @pytest.mark.parametrize("start", ["zeros", "meta"])
    def test_goes_by_a_file_into_another_layer(self, device: torch.device, fmt: str, bias: bool, start: str) -> None:
        layer = BlockScaledLinear.from_linear(nn.Linear(96, 130, bias, device=device), fmt)
        state = saved_and_loaded(layer.state_dict(), weights_only=True)
        other = BlockScaledLinear(96, 130, bias, format=fmt, device="meta" if start == "meta" else device)
        assert other.load_state_dict(state, strict=True, assign=start == "meta") == ([], [])
        assert_same_buffers(other, layer)
        x = normal(3, 96, dtype=torch.float32, device=device)
        assert torch.equal(other(x), layer(x))

    @each_format
    def test_copies_and_files_of_the_layer_give_the_same(self, device: torch.device, fmt: str) -> None:
        linear = tileon_ops.Linear(64, 10, activation="leaky_relu", slope=0.5, device=device)
        layer, x = BlockScaledLinear.from_linear(linear, fmt), normal(3, 64, dtype=torch.float32, device=device)
        for other in (copy.deepcopy(layer), saved_and_loaded(layer, weights_only=False)):
            assert other.data is not layer.data
            assert_same_buffers(other, layer)
            assert torch.equal(other(x), layer(x))

    @each_format
    @pytest.mark.parametrize(
        "convert",
        [
            lambda layer: layer.half(),
            lambda layer: layer.to(torch.bfloat16),
            lambda layer: layer.double(),
            lambda layer: layer.type(torch.float32),
            lambda layer: nn.Sequential(layer).to(torch.float16)[0],
            lambda layer: layer.to("cpu", torch.float16),
        ],
        ids=["half", "to", "double", "type", "as a child", "with a device"],
    )
    def test_dtype_conversions_leave_it_as_it_is(self, fmt: str, convert: Any) -> None:
        layer = BlockScaledLinear.from_linear(nn.Linear(64, 10), fmt)
        before = copy.deepcopy(layer)
        assert convert(layer) is layer
        assert_same_buffers(layer, before)

    @pytest.mark.gpu
    @each_format
    def test_moves_between_devices(self, fmt: str) -> None:
        layer = BlockScaledLinear.from_linear(of_integers(64, 70), fmt)
        x, before = integers(200, 64, dtype=torch.float32, device="cpu"), copy.deepcopy(layer)
        wanted = layer(x)
        for device in ("cuda", "cpu", "cuda"):
            layer.to(device, torch.float16)
            assert_same_buffers(layer, before)
            torch.testing.assert_close(layer(x.to(device)).cpu(), wanted, rtol=0, atol=ROUNDED.get(fmt, 0))

    @each_format
    def test_on_the_meta_device_it_gives_shapes(self, fmt: str) -> None:
        for layer in (
            BlockScaledLinear(64, 10, format=fmt, device="meta"),
            BlockScaledLinear.from_linear(nn.Linear(64, 10, device="meta"), fmt),
        ):
            assert all(tensor.is_meta for tensor in layer.state_dict().values())
            y = layer(torch.empty(2, 3, 64, device="meta", dtype=torch.bfloat16))
            assert (tuple(y.shape), y.dtype, y.device.type) == ((2, 3, 10), torch.bfloat16, "meta")

    @each_format
    def test_the_constructor_makes_zeros_of_the_right_shapes(self, device: torch.device, fmt: str) -> None:
        made = BlockScaledLinear(96, 130, format=fmt, device=device)
        wanted = BlockScaledLinear.from_linear(nn.Linear(96, 130), fmt).state_dict()
        assert {k: (v.shape, v.dtype) for k, v in made.state_dict().items()} == {
            k: (v.shape, v.dtype) for k, v in wanted.items()
        }
        assert torch.equal(made(torch.ones(2, 96, device=device)), torch.zeros(2, 130, device=device))

    @pytest.mark.parametrize("fmt", ["mxfp8", "mxfp4"])
    def test_codes_of_another_dtype_are_refused_and_not_converted_as_numbers(self, fmt: str) -> None:
        layer = BlockScaledLinear.from_linear(nn.Linear(64, 10), fmt)
        before = copy.deepcopy(layer)
        state = {name: tensor.float() for name, tensor in layer.state_dict().items()}
        with pytest.raises(RuntimeError, match=rf"dtype mismatch for 0\.data: {fmt} has .*, got float32"):
            nn.Sequential(layer).load_state_dict({f"0.{name}": tensor for name, tensor in state.items()})
        assert_same_buffers(layer, before)

    def test_the_state_of_another_format_is_refused(self) -> None:
        for fmt, other in (("mxfp8", "mxfp4"), ("mxfp4", "nvfp4"), ("nvfp4", "mxfp4")):
            state = BlockScaledLinear.from_linear(nn.Linear(64, 10), other).state_dict()
            with pytest.raises(RuntimeError, match="loading state_dict"):
                BlockScaledLinear(64, 10, format=fmt).load_state_dict(state)

    def test_made_under_inference_mode_it_can_be_loaded_outside(self) -> None:
        with torch.inference_mode():
            layer = BlockScaledLinear.from_linear(of_integers(64, 10), "nvfp4")
        other = BlockScaledLinear.from_linear(nn.Linear(64, 10), "nvfp4")
        layer.load_state_dict(other.state_dict())
        assert_same_buffers(layer, other)


class TestErrors:
    @pytest.mark.parametrize(("fmt", "k", "vec"), [("mxfp8", 48, 32), ("mixed", 16, 32), ("nvfp4", 40, 16)])
    def test_blocks_that_do_not_divide_in_features(self, fmt: str, k: int, vec: int) -> None:
        with pytest.raises(ValueError, match=rf"^BlockScaledLinear: `in_features` must be a multiple of {vec}, .*{k}$"):
            BlockScaledLinear.from_linear(nn.Linear(k, 10), fmt)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (
                lambda: BlockScaledLinear.from_linear(nn.Linear(64, 10), "fp4"),
                r'^BlockScaledLinear: `format` must be one of mxfp8, mxfp4, .*, int8_row, got "fp4"$',
            ),
            (
                lambda: BlockScaledLinear(64, 10, format="mxfp8", activation="tanh"),
                r'^BlockScaledLinear: `activation` must be one of none, .*, got "tanh"$',
            ),
            (
                lambda: BlockScaledLinear.from_linear(nn.ReLU(), "mxfp8"),
                r"^BlockScaledLinear: `linear` must be a torch\.nn\.Linear that has its parameters, got ReLU$",
            ),
            (lambda: BlockScaledLinear.from_linear(nn.LazyLinear(10), "mxfp8"), "has its parameters, got LazyLinear$"),
            (
                lambda: BlockScaledLinear.from_linear(nn.Linear(64, 10, dtype=torch.float64), "mxfp8"),
                r"^BlockScaledLinear: the weight of `linear` must be float32 or float16 or bfloat16, got float64$",
            ),
            (
                lambda: BlockScaledLinear(64, 10, format="mxfp8", scale_rounding="nearest"),
                r'^BlockScaledLinear: `scale_rounding` must be one of rceil, floor, got "nearest"$',
            ),
            (
                lambda: BlockScaledLinear(64, 10, format="nvfp4").double()(torch.ones(2, 64).double()),
                r"^BlockScaledLinear: `input` must be float32 or float16 or bfloat16, got float64$",
            ),
            (
                lambda: BlockScaledLinear(64, 10, format="mxfp8")(torch.ones(2, 3, 32)),
                r"^BlockScaledLinear: `input` must be \(\.\.\., in_features = 64\), got \(2, 3, 32\)$",
            ),
            (lambda: BlockScaledLinear(64, 10, format="mxfp8")(torch.ones(())), r"in_features = 64\), got \(\)$"),
        ],
    )
    def test_name_what_is_wrong(self, make: Any, message: str) -> None:
        with pytest.raises(RuntimeError, match=message):
            make()

    @pytest.mark.parametrize("fmt", ["fp8_row", "fp8_128x128", "int8_row"])
    def test_float32_scales_take_any_in_features(self, device: torch.device, fmt: str) -> None:
        layer = BlockScaledLinear.from_linear(nn.Linear(201, 7, device=device), fmt)
        x = normal(3, 201, dtype=torch.float32, device=device)
        assert torch.equal(layer(x), by_the_ops(layer, x))

    @each_format
    def test_an_input_that_requires_grad(self, device: torch.device, fmt: str) -> None:
        """The message names the layer, which stands anywhere in a model, and what to do."""
        model = tileon_ops.convert(nn.ModuleDict({"head": nn.Linear(64, 10, device=device)}), fmt)
        x = torch.ones(2, 64, device=device, requires_grad=True)
        sizes = rf"{fmt}, in_features = 64, out_features = 10"
        with pytest.raises(
            RuntimeError, match=rf"^BlockScaledLinear \(head\): `input` requires grad, .*{sizes}"
        ) as raised:
            model["head"](x)
        assert "weight_only=True" in str(raised.value)
        assert "torch.no_grad()" in str(raised.value)
        with torch.no_grad():
            assert not model["head"](x).requires_grad
        with pytest.raises(RuntimeError, match=r"^BlockScaledLinear: `input` requires grad"):
            func.grad(lambda x: BlockScaledLinear.from_linear(nn.Linear(64, 10), fmt)(x).sum())(torch.ones(64))


def test_repr_says_what_it_is() -> None:
    told = BlockScaledLinear(64, 10, format="mxfp4", weight_only=True, fast_accum=False, scale_rounding="floor")
    assert repr(told).endswith("format=mxfp4, weight_only=True, fast_accum=False, scale_rounding=floor)")
    plain = "BlockScaledLinear(in_features=64, out_features=10, bias=True, format=nvfp4)"
    assert repr(BlockScaledLinear(64, 10, format="nvfp4")) == plain
    silu = BlockScaledLinear(64, 10, False, format="mxfp8", activation="silu")
    assert repr(silu) == "BlockScaledLinear(in_features=64, out_features=10, bias=False, format=mxfp8, activation=silu)"
    leaky = tileon_ops.Linear(64, 10, activation="leaky_relu", slope=0.2)
    assert repr(BlockScaledLinear.from_linear(leaky, "nvfp4")) == plain[:-1] + ", activation=leaky_relu, slope=0.2)"
