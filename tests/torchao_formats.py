"""torchao's formats that run on a CPU, by the names that this package has for them, where torchao can be imported."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn


class Peer(NamedTuple):
    """One of torchao's configs: what it quantizes, and how it rounds scales to powers of two."""

    format: str
    weight_only: bool
    scale_rounding: str
    config: Callable[[], Any]


def is_here() -> bool:
    return importlib.util.find_spec("torchao") is not None


def provider() -> str:
    import torchao

    return f"torchao {torchao.__version__}"


def peers() -> list[Peer]:
    """fp8 and nvfp4 with quantized activations are not among them: torchao has these on GPUs alone."""
    from torchao.prototype import mx_formats
    from torchao.quantization import (
        Float8WeightOnlyConfig,
        Int8DynamicActivationInt8WeightConfig,
        Int8WeightOnlyConfig,
    )
    from torchao.quantization.quantize_.common.kernel_preference import KernelPreference

    def mx(element: torch.dtype, rounding: str) -> Callable[[], Any]:
        return lambda: mx_formats.MXDynamicActivationMXWeightConfig(
            activation_dtype=element,
            weight_dtype=element,
            kernel_preference=KernelPreference.EMULATED,  # the products of a CPU
            scaling_mode=mx_formats.ScaleCalculationMode[rounding.upper()],
        )

    elements = {"mxfp8": torch.float8_e4m3fn, "mxfp4": torch.float4_e2m1fn_x2}
    return [
        *(
            Peer(name, False, rule, mx(element, rule))
            for name, element in elements.items()
            for rule in ("floor", "rceil")
        ),
        Peer("nvfp4", True, "floor", mx_formats.NVFP4WeightOnlyConfig),
        Peer("fp8_row", True, "default", Float8WeightOnlyConfig),
        Peer("int8_row", True, "default", Int8WeightOnlyConfig),
        Peer("int8_row", False, "default", Int8DynamicActivationInt8WeightConfig),
    ]


def quantized(model: nn.Module, peer: Peer) -> nn.Module:
    """`model` itself, whose linear layers have new weights."""
    from torchao.quantization import quantize_

    quantize_(model, peer.config())
    return model
