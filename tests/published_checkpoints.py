"""Small checkpoints in published layouts, written by hand, and the numbers that they stand for by definition."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "vocab_size": 96}
# no multiple of 128: the last blocks are short
LLAMA = {**TOKENS, "hidden_size": 160, "intermediate_size": 288, "num_hidden_layers": 2, "num_attention_heads": 4}
QWEN3_MOE = {
    **TOKENS,
    "hidden_size": 160,
    "moe_intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_experts": 2,
    "num_experts_per_tok": 2,
}
GPT_OSS = {
    **TOKENS,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_local_experts": 2,
    "num_experts_per_tok": 2,
}

# The tensors of a layer by their ends, and its weight in float64, from its shape.
Write = Callable[[int, int], tuple[dict[str, Tensor], Tensor]]


def _e4m3(rows: int, k: int) -> Tensor:
    return torch.randn(rows, k).mul(40).to(torch.float8_e4m3fn)


def _scale(*shape: int) -> Tensor:
    return torch.rand(shape).add(0.5).mul(1 / 400)


def _repeated(blocks: Tensor, block: int, rows: int, k: int) -> Tensor:
    return blocks.double().repeat_interleave(block, 0).repeat_interleave(block, 1)[:rows, :k]


def _fp8_blocks(scale: str, dtype: torch.dtype = torch.float32) -> Write:
    def write(rows: int, k: int) -> tuple[dict[str, Tensor], Tensor]:
        codes, scales = _e4m3(rows, k), _scale(-(-rows // 128), -(-k // 128)).to(dtype)
        return {"weight": codes, scale: scales}, codes.double() * _repeated(scales, 128, rows, k)

    return write


def _row_scales(*, whole: tuple[int, ...] | None = None, is_int8: bool = False, dtype: Any = torch.float32) -> Write:
    def write(rows: int, k: int) -> tuple[dict[str, Tensor], Tensor]:
        codes = torch.randint(-127, 128, (rows, k)).to(torch.int8) if is_int8 else _e4m3(rows, k)
        scales = _scale(*((rows, 1) if whole is None else whole)).to(dtype)
        tensors = {"weight": codes, "weight_scale": scales, "input_scale": torch.ones(1)}
        return tensors, codes.double() * scales.double().reshape(-1, 1)

    return write


def _nvfp4(codes: str, factor: str, unused: str, divides: bool) -> Write:
    def write(rows: int, k: int) -> tuple[dict[str, Tensor], Tensor]:
        data = torch.randint(0, 256, (rows, k // 2)).to(torch.uint8)
        scales = torch.rand(rows, k // 16).add(0.5).mul(200).to(torch.float8_e4m3fn)
        number = torch.rand(()).add(0.5).mul(1 / 7000)
        stored = 1 / number if divides else number
        stored = stored.reshape(1) if divides else stored
        values = E2M1[torch.stack([data & 15, data >> 4], -1).flatten(1).long()]
        factors = scales.double().repeat_interleave(16, 1)
        weight = values * factors / stored.double() if divides else values * factors * stored.double()
        return {codes: data, "weight_scale": scales, factor: stored, unused: torch.ones(1)}, weight

    return write


def compressed(format: str, weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": {"symmetric": True, **weights}, "input_activations": None}
    groups = {"group_0": group}
    return {"quant_method": "compressed-tensors", "format": format, "config_groups": groups, "ignore": [], **more}


FP8_BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
CT_NVFP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
CT_FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
CT_BLOCK = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}
CT_INT8 = {"num_bits": 8, "type": "int", "strategy": "channel"}


@dataclass(frozen=True)
class Published:
    """A layout: what config.json says, how a layer is written, and what it becomes."""

    config: Mapping[str, Any]
    write: Write
    format: str


LAYOUTS = {
    "fp8": Published(FP8_BLOCKS, _fp8_blocks("weight_scale_inv"), "fp8_128x128"),
    "fp8, bfloat16 scales": Published(FP8_BLOCKS, _fp8_blocks("weight_scale_inv", torch.bfloat16), "fp8_128x128"),
    "compressed-tensors nvfp4": Published(
        compressed("nvfp4-pack-quantized", CT_NVFP4),
        _nvfp4("weight_packed", "weight_global_scale", "input_global_scale", divides=True),
        "nvfp4",
    ),
    "compressed-tensors fp8 channel": Published(
        compressed("float-quantized", CT_FP8), _row_scales(dtype=torch.bfloat16), "fp8_row"
    ),
    "compressed-tensors fp8 tensor": Published(
        compressed("float-quantized", {**CT_FP8, "strategy": "tensor"}), _row_scales(whole=(1,)), "fp8_row"
    ),
    "compressed-tensors fp8 block": Published(
        compressed("float-quantized", CT_BLOCK), _fp8_blocks("weight_scale"), "fp8_128x128"
    ),
    "compressed-tensors int8": Published(compressed("int-quantized", CT_INT8), _row_scales(is_int8=True), "int8_row"),
    "modelopt NVFP4": Published(
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
        _nvfp4("weight", "weight_scale_2", "input_scale", divides=False),
        "nvfp4",
    ),
    "modelopt FP8": Published(
        {"quant_method": "modelopt", "quant_algo": "FP8", "exclude_modules": ["lm_head"]},
        _row_scales(whole=()),
        "fp8_row",
    ),
}


def plain(architecture: str, settings: Mapping[str, Any]) -> nn.Module:
    """In float32, with weights that make outputs depend on every layer."""
    import transformers

    torch.manual_seed(0)
    made: Any = getattr(transformers, architecture)
    model: nn.Module = made(made.config_class(**settings)).eval()
    return model


def saved(
    folder: pathlib.Path, published: Published, architecture: str = "LlamaForCausalLM", settings: Any = LLAMA
) -> nn.Module:
    """Writes a checkpoint in two shards, its layers but lm_head quantized. The model of the numbers it stands for."""
    reference: Any = plain(architecture, settings)
    reference.save_pretrained(folder)  # with the names that published checkpoints have
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Tensor] = {}
    for name, tensor in read(folder / "model.safetensors").items():
        layer = name.removesuffix(".weight")
        if not name.endswith("_proj.weight"):
            tensors[name] = tensor
            continue
        made, weight = published.write(*tensor.shape)
        tensors |= {f"{layer}.{end}": value for end, value in made.items()}
        numbers[name] = weight.float()
    rewrite(folder, tensors, published.config)
    return loaded_with(reference, numbers, folder)


def loaded_with(reference: Any, numbers: Mapping[str, Tensor], folder: pathlib.Path) -> nn.Module:
    """The model with these weights, by transformers' own loading of a plain checkpoint."""
    other = folder / "numbers"
    reference.save_pretrained(other)
    rewrite(other, read(other / "model.safetensors") | dict(numbers), None)
    model: nn.Module = type(reference).from_pretrained(other, dtype=torch.float32).eval()
    return model


def saved_gpt_oss(folder: pathlib.Path) -> nn.Module:
    """gpt-oss in bfloat16 with experts in mxfp4, and the model of the numbers it stands for in float32."""
    reference: Any = plain("GptOssForCausalLM", GPT_OSS).to(torch.bfloat16)
    reference.save_pretrained(folder)
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Tensor] = {}
    for name, tensor in read(folder / "model.safetensors").items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            tensors[name] = tensor
            numbers[name] = tensor.float()
            continue
        experts, k, rows = tensor.shape
        blocks = torch.randint(0, 256, (experts, rows, k // 32, 16)).to(torch.uint8)
        scales = torch.randint(119, 123, (experts, rows, k // 32)).to(torch.uint8)
        tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        codes = torch.stack([blocks & 15, blocks >> 4], -1).flatten(3).long()
        weight = E2M1[codes] * torch.exp2(scales.double() - 127).unsqueeze(-1)
        numbers[name] = weight.flatten(2).transpose(1, 2).contiguous().float()
    config = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    rewrite(folder, tensors, config)
    return loaded_with(reference, numbers, folder)


def read(file: pathlib.Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(file)


def rewrite(folder: pathlib.Path, tensors: Mapping[str, Tensor], quantization: Any) -> None:
    """Two shards, a weight and its scales not always in the same one, and config.json with the quantization."""
    from safetensors.torch import save_file

    for file in folder.glob("*.safetensors*"):
        file.unlink()
    index: dict[str, str] = {}
    for number in range(2):
        shard = f"model-{number + 1:05}-of-00002.safetensors"
        names = sorted(tensors)[number::2]
        save_file({name: tensors[name].contiguous() for name in names}, folder / shard, metadata={"format": "pt"})
        index |= dict.fromkeys(names, shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    config = json.loads((folder / "config.json").read_text())
    config.pop("quantization_config", None)
    if quantization is not None:
        config["quantization_config"] = dict(quantization)
    (folder / "config.json").write_text(json.dumps(config))


def shards(folder: pathlib.Path) -> dict[str, Tensor]:
    return {name: tensor for file in sorted(folder.glob("*.safetensors")) for name, tensor in read(file).items()}
