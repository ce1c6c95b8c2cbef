"""Block-scaled layers for tests: their formats, layers that no format rounds, and what a layer is to compute."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from operands import integers
from torch import Tensor, nn

import tileon_ops
from tileon_ops import BlockScaledLinear

FORMATS = {  # of activations and weight
    "mxfp8": ("mxfp8", "mxfp8"),
    "mxfp4": ("mxfp4", "mxfp4"),
    "mixed": ("mxfp8", "mxfp4"),
    "nvfp4": ("nvfp4", "nvfp4"),
    "fp8_row": ("fp8_row", "fp8_row"),
    "fp8_128x128": ("fp8_1x128", "fp8_128x128"),
    "int8_row": ("int8_row", "int8_row"),
}
MX_FORMATS = ("mxfp8", "mxfp4", "mixed")
ROUNDING_INTEGERS = ("nvfp4", "fp8_row", "fp8_128x128", "int8_row")  # whose scales are no powers of two
DTYPES = (torch.float32, torch.float16, torch.bfloat16)

each_format = pytest.mark.parametrize("fmt", FORMATS)
each_mode = pytest.mark.parametrize("weight_only", [False, True], ids=["both quantized", "weight only"])


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    """Where a module imports it: nothing compiled before or after one of its tests."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def of_integers(
    k: int, n: int, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32, **options: Any
) -> tileon_ops.Linear:
    """A layer whose weight no format rounds: in the mx formats the product of small integers is exact."""
    linear = tileon_ops.Linear(k, n, device=device, dtype=dtype, **options)
    with torch.no_grad():
        for seed, parameter in enumerate(linear.parameters()):
            parameter.copy_(integers(*parameter.shape, dtype=dtype, device=device, seed=seed))
    return linear


def values_of(layer: BlockScaledLinear) -> Tensor:
    """The numbers that the layer's weight stands for, float64."""
    return tileon_ops.dequantize(layer.data, layer.scale, FORMATS[layer.format][1], layer.global_scale).double()


def quantized(x: Tensor, fmt: str, scale_rounding: str = "rceil") -> tuple[Tensor, Tensor, Tensor | None]:
    """2-D activations as a layer of that format has them: data, scale and a global scale for each row."""
    own = FORMATS[fmt][0]
    global_scale = tileon_ops.nvfp4_global_scale(x, per_row=True) if own == "nvfp4" else None
    rounding = scale_rounding if own.startswith("mx") else "floor"
    return *tileon_ops.quantize(x, own, global_scale, scale_rounding=rounding), global_scale


def by_the_ops(layer: BlockScaledLinear, x: Tensor, scale_rounding: str = "rceil") -> Tensor:
    """What the layer is to compute of 2-D `x`, call by call."""
    a, scale_a, global_scale = quantized(x, layer.format, scale_rounding)
    factor = None if global_scale is None else global_scale * layer.global_scale
    options = {"activation": layer.activation, "slope": layer.slope, "out_dtype": x.dtype}
    return tileon_ops.block_scaled_matmul(a, layer.data, scale_a, layer.scale, layer.bias, factor, **options)


def saved_and_loaded(value: Any, *, weights_only: bool) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=weights_only)


def as_bytes(tensor: Tensor) -> Tensor:
    return tensor.cpu().reshape(-1).view(torch.uint8)


def assert_same_buffers(actual: nn.Module, expected: nn.Module) -> None:
    pairs = list(zip(actual.state_dict().items(), expected.state_dict().items(), strict=True))
    for (name, mine), (wanted_name, theirs) in pairs:
        assert (name, mine.dtype, mine.shape) == (wanted_name, theirs.dtype, theirs.shape)
        assert torch.equal(as_bytes(mine), as_bytes(theirs)), name
