"""NVIDIA ModelOpt's layouts: NVFP4, and FP8 with one scale for a weight."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileon_ops.integrations.transformers.layouts.encoding import Encoding, Layout, refuse
from tileon_ops.integrations.transformers.layouts.float32_scales import RowScales
from tileon_ops.integrations.transformers.layouts.nvfp4 import Nvfp4

_ENCODINGS: Mapping[str, Encoding] = {
    "NVFP4": Nvfp4("nvfp4", ".weight", ".weight_scale", ".weight_scale_2", divides=False),
    "FP8": RowScales("fp8_row", ".weight", ".weight_scale"),
}
_UNUSED = (".input_scale", ".output_scale", ".k_scale", ".v_scale")


def layout(config: Mapping[str, Any]) -> Layout:
    """Of {"quant_method": "modelopt", "quant_algo": "NVFP4" or "FP8"}, or of hf_quant_config.json, which has the latter
    under "quantization"."""
    settings = config.get("quantization", config)
    algorithm = settings.get("quant_algo")
    if algorithm not in _ENCODINGS:
        raise refuse("quant_algo", " or ".join(_ENCODINGS), algorithm)
    size = settings.get("group_size")
    if algorithm == "NVFP4" and size not in (None, 16):
        raise refuse("group_size", "16 for NVFP4", size)
    return Layout(f"modelopt, {algorithm}", (_ENCODINGS[algorithm],), _UNUSED)
