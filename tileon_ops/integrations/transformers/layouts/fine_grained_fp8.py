"""The layout of DeepSeek-V3 and Qwen3-FP8: e4m3 with a scale for 128 x 128 elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileon_ops.integrations.transformers.layouts.encoding import Layout, refuse
from tileon_ops.integrations.transformers.layouts.float32_scales import BlockScales


def layout(config: Mapping[str, Any]) -> Layout:
    """Of {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}.

    The tensor is named weight_scale_inv: it is the inverse of what weights were multiplied by before they were rounded,
    and multiplies the codes.
    """
    size = config.get("weight_block_size")
    if size is None or list(size) != [128, 128]:
        raise refuse("weight_block_size", "[128, 128]", size)
    if config.get("activation_scheme", "dynamic") != "dynamic":
        raise refuse("activation_scheme", '"dynamic"', config["activation_scheme"])
    return Layout("fp8 in blocks of 128 x 128", (BlockScales("fp8_128x128", ".weight", ".weight_scale_inv"),))
