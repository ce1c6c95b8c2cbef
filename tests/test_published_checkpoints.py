"""Checkpoints that come quantized: layers hold their codes and scales, and compute what these stand for."""

from __future__ import annotations

import importlib.util
import json
import logging
import pathlib
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tileon_ops
from tileon_ops import BlockScaledLinear, conversion_report

MISSING = [name for name in ("transformers", "safetensors") if importlib.util.find_spec(name) is None]
if MISSING:
    pytest.skip(f"needs {MISSING[0]}, which is not here", allow_module_level=True)

import transformers  # noqa: E402
from published_checkpoints import (  # noqa: E402
    CT_FP8,
    CT_INT8,
    CT_NVFP4,
    FP8_BLOCKS,
    LAYOUTS,
    LLAMA,
    QWEN3_MOE,
    compressed,
    rewrite,
    saved,
    saved_gpt_oss,
    shards,
)

pytest.importorskip("tileon_ops.integrations.transformers", exc_type=ImportError)  # another transformers
from tileon_ops.integrations.transformers import TileonConfig  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

each_layout = pytest.mark.parametrize("layout", LAYOUTS)
DOWN = "model.layers.1.mlp.down_proj"


def load(folder: pathlib.Path, config: TileonConfig | None = None, **options: Any) -> Any:
    options = {"dtype": torch.float32, **options}
    if config is not None:  # the auto classes take None for an order to forget what config.json says
        options["quantization_config"] = config
    return transformers.AutoModelForCausalLM.from_pretrained(folder, **options)


def logits(model: Any) -> Tensor:
    tokens = torch.randint(3, 96, (2, 12), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        return model(tokens).logits.float()


def assert_same(one: nn.Module, other: nn.Module) -> None:
    left, right = one.state_dict(), other.state_dict()
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert value.dtype == right[name].dtype, name
        first, second = (each.contiguous().flatten().view(torch.uint8) for each in (value, right[name]))
        assert torch.equal(first, second), name


class TestLayers:
    @each_layout
    def test_compute_what_the_definition_says(self, layout: str, tmp_path: pathlib.Path) -> None:
        wanted = logits(saved(tmp_path, LAYOUTS[layout]))
        got = logits(load(tmp_path, TileonConfig(weight_only=True)))
        assert (got - wanted).norm() < 1e-5 * wanted.norm()

    @each_layout
    def test_hold_the_codes_and_scales_of_the_files(self, layout: str, tmp_path: pathlib.Path) -> None:
        saved(tmp_path, LAYOUTS[layout])
        model, files = load(tmp_path, TileonConfig()), shards(tmp_path)
        assert type(model.lm_head) is nn.Linear
        layers = {name: module for name, module in model.named_modules() if isinstance(module, BlockScaledLinear)}
        assert len(layers) == 14
        for name, layer in layers.items():
            assert layer.format == LAYOUTS[layout].format
            codes = files.get(f"{name}.weight", files.get(f"{name}.weight_packed"))
            assert codes is not None
            assert torch.equal(layer.data.view(torch.uint8), codes.view(torch.uint8)), name
            scales = files.get(f"{name}.weight_scale", files.get(f"{name}.weight_scale_inv"))
            assert scales is not None
            if layer.format == "nvfp4":
                held = tileon_ops.unpack_scales(layer.scale, *scales.shape)
                assert torch.equal(held.view(torch.uint8), scales.view(torch.uint8)), name
            else:
                assert torch.equal(layer.scale, scales.float().broadcast_to(layer.scale.shape)), name

    @each_layout
    def test_are_saved_and_loaded_to_the_bit(self, layout: str, tmp_path: pathlib.Path) -> None:
        saved(tmp_path / "published", LAYOUTS[layout])
        first = load(tmp_path / "published", TileonConfig())
        first.save_pretrained(tmp_path / "own")
        written = json.loads((tmp_path / "own" / "config.json").read_text())["quantization_config"]
        assert written["quant_method"] == "tileon"
        assert ["model.layers.*.mlp.down_proj", LAYOUTS[layout].format] in written["format"]
        again = load(tmp_path / "own")
        assert_same(again, first)
        assert torch.equal(logits(again), logits(first))

    def test_quantize_activations_unless_told(self, tmp_path: pathlib.Path) -> None:
        wanted = logits(saved(tmp_path, LAYOUTS["fp8"]))
        model = load(tmp_path, TileonConfig())
        assert not model.get_submodule(DOWN).weight_only
        error = (logits(model) - wanted).norm() / wanted.norm()
        assert 1e-4 < error < 0.2

    def test_have_the_models_dtype_and_a_device_map(self, tmp_path: pathlib.Path) -> None:
        saved(tmp_path, LAYOUTS["modelopt NVFP4"])
        wanted = load(tmp_path, TileonConfig(), dtype=torch.bfloat16)
        assert wanted.get_submodule(DOWN).weight.dtype == torch.bfloat16
        if importlib.util.find_spec("accelerate") is not None:
            assert_same(load(tmp_path, TileonConfig(), dtype=torch.bfloat16, device_map="auto"), wanted)

    def test_are_found_in_a_model_without_a_head(self, tmp_path: pathlib.Path) -> None:
        saved(tmp_path, LAYOUTS["fp8"])
        body = transformers.AutoModel.from_pretrained(tmp_path, quantization_config=TileonConfig())
        whole = load(tmp_path, TileonConfig())
        assert_same(body, whole.model)

    def test_settings_of_older_modelopt_stand_beside_the_files(self, tmp_path: pathlib.Path) -> None:
        saved(tmp_path, LAYOUTS["modelopt FP8"])
        wanted = load(tmp_path, TileonConfig())
        rewrite(tmp_path, shards(tmp_path), None)
        with pytest.raises(RuntimeError, match=r"has no `quantization_config`.* got model\..*weight of F8_E4M3"):
            load(tmp_path, TileonConfig())
        settings = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}}
        (tmp_path / "hf_quant_config.json").write_text(json.dumps(settings))
        assert_same(load(tmp_path, TileonConfig()), wanted)

    def test_keep_their_bias_and_a_tied_head_stays(self, tmp_path: pathlib.Path) -> None:
        settings = {**LLAMA, "num_key_value_heads": 2, "tie_word_embeddings": True}
        wanted = logits(saved(tmp_path, LAYOUTS["modelopt NVFP4"], "Qwen2ForCausalLM", settings))
        model = load(tmp_path, TileonConfig(weight_only=True))
        assert model.model.layers[0].self_attn.q_proj.bias is not None
        assert model.lm_head.weight is model.model.embed_tokens.weight
        assert (logits(model) - wanted).norm() < 1e-5 * wanted.norm()

    def test_in_16_bits_are_quantized_as_asked(self, tmp_path: pathlib.Path) -> None:
        saved(tmp_path, LAYOUTS["fp8"])
        model = load(tmp_path, TileonConfig({"lm_head": "mxfp8"}))
        assert model.lm_head.format == "mxfp8"
        assert model.lm_head.data.view(torch.uint8).any()
        assert model.get_submodule(DOWN).format == "fp8_128x128"
        model.save_pretrained(tmp_path / "own")
        assert_same(load(tmp_path / "own"), model)

    def test_what_skip_leaves_is_decoded(self, tmp_path: pathlib.Path) -> None:
        reference = saved(tmp_path, LAYOUTS["compressed-tensors int8"])
        model = load(tmp_path, TileonConfig(skip=["*.down_proj"]))
        assert type(model.get_submodule(DOWN)) is nn.Linear
        torch.testing.assert_close(model.get_submodule(DOWN).weight, reference.get_submodule(DOWN).weight)
        (entry,) = [entry for entry in conversion_report(model) if entry.name == DOWN]
        assert entry.reason == '`skip` leaves it: "*.down_proj": decoded from int8_row, 46,720 bytes in the files'
        model.save_pretrained(tmp_path / "own")
        assert_same(load(tmp_path / "own"), model)

    def test_log_says_which_tensors_are_not_used(
        self, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        saved(tmp_path, LAYOUTS["compressed-tensors nvfp4"])
        with caplog.at_level(logging.INFO, "tileon_ops"):
            load(tmp_path, TileonConfig())
        (line,) = [line for line in caplog.messages if "are not used" in line]
        assert f"{DOWN}.input_global_scale" in line


class TestExperts:
    @pytest.mark.parametrize("layout", ["fp8", "compressed-tensors nvfp4", "modelopt FP8"])
    def test_of_one_tensor_each_are_decoded(
        self, layout: str, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        reference: Any = saved(tmp_path, LAYOUTS[layout], "Qwen3MoeForCausalLM", QWEN3_MOE)
        model = load(tmp_path, TileonConfig(weight_only=True))
        assert type(model.model.layers[0].self_attn.q_proj) is BlockScaledLinear
        experts = model.model.layers[1].mlp.experts
        torch.testing.assert_close(experts.gate_up_proj, reference.model.layers[1].mlp.experts.gate_up_proj)
        wanted = logits(reference)
        assert (logits(model) - wanted).norm() < 1e-5 * wanted.norm()
        assert any("are decoded" in line and "experts.down_proj" in line for line in caplog.messages)
        model.save_pretrained(tmp_path / "own")
        assert_same(load(tmp_path / "own"), model)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_of_gpt_oss_are_decoded(self, dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
        reference = saved_gpt_oss(tmp_path)
        model = load(tmp_path, TileonConfig(), dtype=dtype)
        assert type(model.model.layers[0].self_attn.q_proj) is nn.Linear
        for got, wanted in zip(model.parameters(), reference.parameters(), strict=True):
            assert torch.equal(got, wanted.to(dtype))
        name = "model.layers.0.mlp.experts.gate_up_proj"
        (entry,) = [entry for entry in conversion_report(model) if entry.name == name]
        nbytes = 2 * 192 * 2 * (16 + 1)
        assert entry.reason.endswith(f"no nn.Linear holds: decoded from mxfp4, {nbytes:,} bytes in the files")
        if dtype == torch.float32:
            torch.testing.assert_close(logits(model), logits(reference), rtol=1e-5, atol=1e-5)
        model.save_pretrained(tmp_path / "own")
        assert_same(load(tmp_path / "own", dtype=dtype), model)

    def test_of_gpt_oss_stand_beside_linear_layers_in_any_format(self, tmp_path: pathlib.Path) -> None:
        saved_gpt_oss(tmp_path)
        model = load(tmp_path, TileonConfig("mxfp8", skip=["lm_head"]), dtype=torch.bfloat16)
        plain = load(tmp_path, TileonConfig(), dtype=torch.bfloat16)
        wanted = tileon_ops.convert(plain, "mxfp8", skip=["lm_head"])
        assert model.model.layers[0].self_attn.q_proj.format == "mxfp8"
        assert_same(model, wanted)


NO_SYMMETRY = compressed("int-quantized", {**CT_INT8, "symmetric": False})
SPARSE = compressed("float-quantized", CT_FP8, sparsity_config={"format": "sparse-24-bitmask"})
REFUSED = {
    "`weight_block_size` must be [128, 128], got [64, 64]": {**FP8_BLOCKS, "weight_block_size": [64, 64]},
    "`activation_scheme` must be \"dynamic\", got 'static'": {**FP8_BLOCKS, "activation_scheme": "static"},
    "`config_groups.group_0.weights.symmetric` must be true: zero points": NO_SYMMETRY,
    "weights.actorder` must be null": compressed("float-quantized", {**CT_FP8, "actorder": "group"}),
    "got 'pack-quantized'": compressed("pack-quantized", {**CT_INT8, "num_bits": 4, "strategy": "group"}),
    "got (4, 'int', 'group')": compressed("int-quantized", {"num_bits": 4, "type": "int", "strategy": "group"}),
    "`sparsity_config` must be absent": SPARSE,
    "`transform_config` must be absent": compressed("float-quantized", CT_FP8, transform_config={"a": 1}),
    "weights.group_size` must be 16, got 32": compressed("nvfp4-pack-quantized", {**CT_NVFP4, "group_size": 32}),
    "`quant_algo` must be NVFP4 or FP8, got 'W4A8_AWQ'": {"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"},
    "`quant_method` must be one of tileon, fp8, mxfp4, compressed-tensors, modelopt, got 'awq'": {
        "quant_method": "awq"
    },
}


class TestRefused:
    @pytest.mark.parametrize("message", REFUSED)
    def test_settings_that_are_not_offered(self, message: str, tmp_path: pathlib.Path) -> None:
        saved(tmp_path, LAYOUTS["fp8"])
        rewrite(tmp_path, shards(tmp_path), REFUSED[message])
        with pytest.raises(RuntimeError, match=r"^TileonConfig: the checkpoint's .") as error:
            load(tmp_path, TileonConfig())
        assert message in str(error.value)

    @pytest.mark.parametrize("format", ["mxfp8", {DOWN: "fp8_row"}, {"*.down_proj": None}])
    def test_a_format_that_the_checkpoint_does_not_hold(self, format: Any, tmp_path: pathlib.Path) -> None:
        saved(tmp_path, LAYOUTS["fp8"])
        with pytest.raises(RuntimeError, match=r"holds in fp8_128x128, got .*rounded a second time"):
            load(tmp_path, TileonConfig(format))

    @pytest.mark.parametrize("end", ["weight_zero_point", "weight_g_idx", "pre_quant_scale"])
    def test_tensors_that_would_change_the_weight(self, end: str, tmp_path: pathlib.Path) -> None:
        saved(tmp_path, LAYOUTS["fp8"])
        rewrite(tmp_path, shards(tmp_path) | {f"{DOWN}.{end}": torch.ones(1)}, FP8_BLOCKS)
        with pytest.raises(RuntimeError, match=rf"no other tensors than a bias .*got {DOWN}\.{end}"):
            load(tmp_path, TileonConfig())

    def test_scales_of_another_shape(self, tmp_path: pathlib.Path) -> None:
        saved(tmp_path, LAYOUTS["fp8"])
        name = f"{DOWN}.weight_scale_inv"
        rewrite(tmp_path, shards(tmp_path) | {name: torch.ones(3, 2)}, FP8_BLOCKS)
        with pytest.raises(RuntimeError, match=r"of the shape \(2, 3\), got F32 \(3, 2\)"):
            load(tmp_path, TileonConfig())

    def test_a_config_whose_weights_are_not_there(self, tmp_path: pathlib.Path) -> None:
        saved(tmp_path, LAYOUTS["fp8"])
        rewrite(tmp_path, {"model.norm.weight": torch.ones(160)}, FP8_BLOCKS)
        with pytest.raises(RuntimeError, match="must be safetensors that hold such weights, got none"):
            load(tmp_path, TileonConfig())


class TestHook:
    def test_another_transformers_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from tileon_ops.integrations.transformers import hook

        monkeypatch.setattr(transformers.modeling_utils, "get_hf_quantizer", lambda model, options: None)
        with pytest.raises(ImportError, match=rf"transformers {transformers.__version__} has get_hf_quantizer\(model"):
            hook.install()
        monkeypatch.delattr(transformers.modeling_utils, "get_hf_quantizer")
        with pytest.raises(ImportError, match="no such function"):
            hook.install()

    def test_without_a_tileon_config_transformers_loads_as_before(self, tmp_path: pathlib.Path) -> None:
        reference = saved(tmp_path, LAYOUTS["fp8"])
        model = load(tmp_path / "numbers")
        assert_same(model, reference)
        made = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.from_pretrained(tmp_path))
        assert type(made.get_submodule(DOWN)) is nn.Linear
