"""Which published layout a checkpoint's config names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tileon_ops.integrations.transformers.layouts import compressed_tensors, fine_grained_fp8, gpt_oss, modelopt
from tileon_ops.integrations.transformers.layouts.encoding import Layout

_LAYOUTS: Mapping[str, Callable[[Mapping[str, Any]], Layout]] = {
    "fp8": fine_grained_fp8.layout,
    "mxfp4": gpt_oss.layout,
    "compressed-tensors": compressed_tensors.layout,
    "modelopt": modelopt.layout,
}


def layout_of(config: Mapping[str, Any]) -> Layout:
    """The layout that a `quantization_config` of config.json, or the whole of hf_quant_config.json, describes.

    Raises:
        RuntimeError: "TileonConfig: ..." for a method, or settings of one, that are not offered.
    """
    method = config.get("quant_method", "modelopt" if "quantization" in config else None)
    method = getattr(method, "value", method)
    if method not in _LAYOUTS:
        raise RuntimeError(
            f"TileonConfig: the checkpoint's `quant_method` must be one of tileon, {', '.join(_LAYOUTS)}, "
            f"got {method!r}"
        )
    return _LAYOUTS[method](config)
