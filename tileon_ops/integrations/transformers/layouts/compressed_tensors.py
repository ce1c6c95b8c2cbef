"""The layouts of compressed-tensors, which llm-compressor writes: nvfp4, fp8 and int8 weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tileon_ops.integrations.transformers.layouts.encoding import Encoding, Layout, refuse
from tileon_ops.integrations.transformers.layouts.float32_scales import BlockScales, RowScales
from tileon_ops.integrations.transformers.layouts.nvfp4 import Nvfp4

_NVFP4 = Nvfp4("nvfp4", ".weight_packed", ".weight_scale", ".weight_global_scale", divides=True)
_FP8_BLOCKS = BlockScales("fp8_128x128", ".weight", ".weight_scale")
_FP8_ROWS = RowScales("fp8_row", ".weight", ".weight_scale")
_INT8_ROWS = RowScales("int8_row", ".weight", ".weight_scale")

# By the format of a group, and the num_bits, type and strategy of its weights.
_ENCODINGS: Mapping[tuple[Any, ...], Encoding] = {
    ("nvfp4-pack-quantized", 4, "float", "tensor_group"): _NVFP4,
    ("float-quantized", 8, "float", "block"): _FP8_BLOCKS,
    ("float-quantized", 8, "float", "channel"): _FP8_ROWS,
    ("float-quantized", 8, "float", "tensor"): _FP8_ROWS,
    ("int-quantized", 8, "int", "channel"): _INT8_ROWS,
    ("int-quantized", 8, "int", "tensor"): _INT8_ROWS,
}
_FORMATS = tuple(dict.fromkeys(key[0] for key in _ENCODINGS))
_UNUSED = (".input_scale", ".input_global_scale", ".output_scale", ".k_scale", ".v_scale")


def layout(config: Mapping[str, Any]) -> Layout:
    """Of {"quant_method": "compressed-tensors", "format": ..., "config_groups": {...}}.

    Raises:
        RuntimeError: "TileonConfig: ..." for formats and settings that are not offered.
    """
    sparsity = config.get("sparsity_config") or {}
    if sparsity.get("format", "dense") != "dense":
        raise refuse("sparsity_config", 'absent or of the format "dense"', sparsity)
    if config.get("transform_config"):
        raise refuse("transform_config", "absent", config["transform_config"])
    groups = config.get("config_groups")
    if not groups:
        raise refuse("config_groups", "there, with at least one group", groups)
    encodings = [
        _encoding(f"config_groups.{name}", group, group.get("format") or config.get("format"))
        for name, group in groups.items()
    ]
    names = dict.fromkeys(str(group.get("format") or config.get("format")) for group in groups.values())
    return Layout(f"compressed-tensors, {', '.join(names)}", tuple(dict.fromkeys(encodings)), _UNUSED)


def _encoding(name: str, group: Mapping[str, Any], format: Any) -> Encoding:
    if format not in _FORMATS:
        raise refuse("format", f"{', '.join(_FORMATS)}, for {name}", format)
    weights = group.get("weights")
    if not weights:
        raise refuse(f"{name}.weights", "there", weights)
    if not weights.get("symmetric", True):
        raise refuse(f"{name}.weights.symmetric", "true: zero points are not offered", False)
    if weights.get("actorder"):
        raise refuse(f"{name}.weights.actorder", "null: the order of columns is not offered", weights["actorder"])
    found = tuple(weights.get(key) for key in ("num_bits", "type", "strategy"))
    offered = [key[1:] for key in _ENCODINGS if key[0] == format]
    if found not in offered:
        raise refuse(f"{name}.weights", f"of (num_bits, type, strategy) {' or '.join(map(str, offered))}", found)
    if found[2] == "tensor_group" and weights.get("group_size") != 16:
        raise refuse(f"{name}.weights.group_size", "16", weights.get("group_size"))
    if found[2] == "block" and _sizes(weights.get("block_structure")) != [128, 128]:
        raise refuse(f"{name}.weights.block_structure", "[128, 128]", weights.get("block_structure"))
    key = (format, *found)
    return _ENCODINGS[key]


def _sizes(block: Any) -> list[int]:
    """Of a list, or of a text such as "128x128"."""
    parts = block.lower().split("x") if isinstance(block, str) else block or ()
    return [int(part) for part in parts]
