"""The formats of a `BlockScaledLinear`: what its activations and its weight are quantized to."""

from __future__ import annotations

from typing import NamedTuple

import torch

from tileon_ops._rules.fake.checks import check
from tileon_ops._rules.fake.scales import E8M0, FORMATS, Format


class LayerFormat(NamedTuple):
    """What `quantize` makes of the two operands of a layer."""

    input: str
    weight: str

    @property
    def of_weight(self) -> Format:
        return FORMATS[self.weight]

    @property
    def has_global_scale(self) -> bool:
        return self.weight == "nvfp4"

    @property
    def rounds_input_scales(self) -> bool:
        """Whether there is a choice of how scales of activations are rounded: to powers of two alone."""
        return E8M0 in FORMATS[self.input].scales


LAYER_FORMATS = {
    "mxfp8": LayerFormat("mxfp8", "mxfp8"),
    "mxfp4": LayerFormat("mxfp4", "mxfp4"),
    "mixed": LayerFormat("mxfp8", "mxfp4"),
    "nvfp4": LayerFormat("nvfp4", "nvfp4"),
    "fp8_row": LayerFormat("fp8_row", "fp8_row"),
    "fp8_128x128": LayerFormat("fp8_1x128", "fp8_128x128"),
    "int8_row": LayerFormat("int8_row", "int8_row"),
}

SCALE_ROUNDINGS = ("rceil", "floor")

# Of a weight that is quantized, and of activations.
NUMBERS = (torch.float32, torch.float16, torch.bfloat16)


def check_layer_format(caller: str, format: str) -> None:
    check(format in LAYER_FORMATS, f'{caller}: `format` must be one of {", ".join(LAYER_FORMATS)}, got "{format}"')


def check_scale_rounding(caller: str, scale_rounding: str) -> None:
    check(
        scale_rounding in SCALE_ROUNDINGS,
        f'{caller}: `scale_rounding` must be one of {", ".join(SCALE_ROUNDINGS)}, got "{scale_rounding}"',
    )


def elements_a_scale(format: str) -> int:
    """What a layer's in_features must be a multiple of: 1 where the last block may be short."""
    weight = LAYER_FORMATS[format].of_weight
    return weight.vec if weight.has_packed_scales else 1
