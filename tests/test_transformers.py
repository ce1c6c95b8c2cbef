"""Models of transformers: converted, run, quantized while they are loaded, saved, and loaded again to the bit."""

from __future__ import annotations

import gc
import importlib.util
import json
import pathlib
import subprocess
import sys
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tileon_ops
from tileon_ops import BlockScaledLinear, conversion_report, convert

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMATS = ("mxfp8", "mxfp4", "mixed", "nvfp4", "fp8_row", "fp8_128x128", "int8_row")
HAS_TRANSFORMERS = importlib.util.find_spec("transformers") is not None
if not HAS_TRANSFORMERS:
    pytest.skip("needs transformers, which is not here", allow_module_level=True)

import transformers  # noqa: E402
from transformers_models import ARCHITECTURES, CAUSAL, logits, model  # noqa: E402

pytest.importorskip("tileon_ops.integrations.transformers", exc_type=ImportError)  # another transformers
from tileon_ops.integrations.transformers import TileonConfig  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

each_format = pytest.mark.parametrize("format", FORMATS)
each_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)
# of a logit's norm: what the weights' and activations' rounding may add up to over these models' layers
LARGEST_ERROR = {
    "mxfp8": 0.2,
    "mxfp4": 0.8,
    "mixed": 0.6,
    "nvfp4": 0.6,
    "fp8_row": 0.2,
    "fp8_128x128": 0.2,
    "int8_row": 0.2,
}


def bits(of: nn.Module) -> dict[str, Tensor]:
    """Its state_dict as bytes, which compare equal where NaNs do too."""
    return {name: value.contiguous().flatten().view(torch.uint8) for name, value in of.state_dict().items()}


def assert_same(one: nn.Module, other: nn.Module) -> None:
    left, right = bits(one), bits(other)
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert torch.equal(value, right[name]), name


def saved(architecture: str, folder: pathlib.Path) -> pathlib.Path:
    made: Any = model(architecture)
    made.save_pretrained(folder)
    return folder


def load(architecture: str, folder: pathlib.Path, config: TileonConfig | None = None, **options: Any) -> Any:
    made: Any = getattr(transformers, architecture)
    return made.from_pretrained(folder, quantization_config=config, **options)


class TestConverted:
    @each_format
    @each_architecture
    def test_runs_and_stays_near_the_model_before(self, architecture: str, format: str) -> None:
        original = model(architecture)
        wanted = logits(original)
        convert(original, format)
        assert any(isinstance(module, BlockScaledLinear) for module in original.modules())
        assert (logits(original) - wanted).norm() < LARGEST_ERROR[format] * wanted.norm()

    @each_architecture
    def test_report_has_every_byte(self, architecture: str) -> None:
        report = conversion_report(convert(model(architecture), "mxfp8"))
        listed = sum(entry.bytes_before for entry in report)
        assert 0.97 * report.bytes_before < listed <= report.bytes_before
        assert report.bytes_after < report.bytes_before

    @pytest.mark.parametrize("architecture", ["MixtralForCausalLM", "Qwen3MoeForCausalLM", "GptOssForCausalLM"])
    def test_of_experts_says_that_most_is_left(self, architecture: str, caplog: pytest.LogCaptureFixture) -> None:
        report = conversion_report(convert(model(architecture), "mxfp8"))
        left = {entry.name: entry.reason for entry in report if entry.became is None}
        assert left["model.layers.0.mlp.experts.gate_up_proj"] == "a 3-D parameter that no nn.Linear holds"
        (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert "experts.gate_up_proj" in warning


class TestLoaded:
    @pytest.mark.parametrize(
        ("architecture", "format"),
        [*((name, "mxfp4") for name in ARCHITECTURES), *(("LlamaForCausalLM", name) for name in FORMATS)],
    )
    def test_is_what_convert_makes_of_it_and_is_saved_and_loaded_to_the_bit(
        self, architecture: str, format: str, tmp_path: pathlib.Path
    ) -> None:
        plain = saved(architecture, tmp_path / "plain")
        wanted = convert(load(architecture, plain), format)
        quantized = load(architecture, plain, TileonConfig(format))
        assert_same(quantized, wanted)
        quantized.save_pretrained(tmp_path / "quantized")
        again = load(architecture, tmp_path / "quantized")
        assert_same(again, wanted)
        assert torch.equal(logits(again), logits(wanted))

    def test_report_is_that_of_convert(self, tmp_path: pathlib.Path) -> None:
        plain = saved("OPTForCausalLM", tmp_path / "plain")
        wanted = conversion_report(convert(load("OPTForCausalLM", plain), "mxfp8"))
        assert conversion_report(load("OPTForCausalLM", plain, TileonConfig("mxfp8"))) == wanted

    def test_auto_class_reads_the_method_from_the_file(self, tmp_path: pathlib.Path) -> None:
        plain = saved("LlamaForCausalLM", tmp_path / "plain")
        config = TileonConfig("mxfp4", weight_only=True, skip=("lm_head",), scale_rounding="floor")
        transformers.AutoModelForCausalLM.from_pretrained(plain, quantization_config=config).save_pretrained(
            tmp_path / "quantized"
        )
        written = json.loads((tmp_path / "quantized" / "config.json").read_text())["quantization_config"]
        assert written == {
            "quant_method": "tileon",
            "format": "mxfp4",
            "weight_only": True,
            "skip": ["lm_head"],
            "scale_rounding": "floor",
        }
        again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "quantized")
        assert type(again.model.layers[0].mlp.down_proj) is BlockScaledLinear
        assert type(again.lm_head) is nn.Linear
        assert again.config.quantization_config.to_dict() == written

    def test_formats_by_name_keep_their_order_in_the_file(self, tmp_path: pathlib.Path) -> None:
        plain = saved("LlamaForCausalLM", tmp_path / "plain")
        formats = {"lm_head": None, "model.layers.1.*": "mxfp8", "*.down_proj": "nvfp4", "*": "mxfp4"}
        quantized = load("LlamaForCausalLM", plain, TileonConfig(formats))
        quantized.save_pretrained(tmp_path / "quantized")
        again = load("LlamaForCausalLM", tmp_path / "quantized")
        for one in (quantized, again):
            assert type(one.lm_head) is tileon_ops.Linear
            kinds = [[layer.mlp.down_proj.format, layer.mlp.up_proj.format] for layer in one.model.layers]
            assert kinds == [["nvfp4", "mxfp4"], ["mxfp8", "mxfp8"]]
        assert_same(again, quantized)

    def test_without_a_format_layers_are_linear_on_the_same_weights(self, tmp_path: pathlib.Path) -> None:
        plain = saved("LlamaForCausalLM", tmp_path / "plain")
        loaded = load("LlamaForCausalLM", plain, TileonConfig())
        assert type(loaded.model.layers[0].mlp.up_proj) is tileon_ops.Linear
        assert_same(loaded, load("LlamaForCausalLM", plain))

    def test_no_more_than_one_weight_is_in_memory_unquantized(
        self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plain = saved("LlamaForCausalLM", tmp_path / "plain")
        before: list[weakref.ref[Tensor]] = []
        make = BlockScaledLinear.from_linear

        def watch(linear: nn.Linear, *arguments: Any, **options: Any) -> BlockScaledLinear:
            if not linear.weight.is_meta:
                gc.collect()
                assert [weight() for weight in before if weight() is not None] == []
                before.append(weakref.ref(linear.weight))
            return make(linear, *arguments, **options)

        monkeypatch.setattr(BlockScaledLinear, "from_linear", watch)
        load("LlamaForCausalLM", plain, TileonConfig("mxfp8"))
        assert len(before) == 15

    def test_a_weight_that_the_file_lacks_is_quantized_as_transformers_makes_it(self, tmp_path: pathlib.Path) -> None:
        body: Any = model("LlamaForCausalLM")
        body.model.save_pretrained(tmp_path / "body")
        loaded = load("LlamaForCausalLM", tmp_path / "body", TileonConfig("mxfp8"))
        assert type(loaded.lm_head) is BlockScaledLinear
        assert loaded.lm_head.data.view(torch.uint8).any()

    @pytest.mark.skipif(importlib.util.find_spec("accelerate") is None, reason="needs accelerate, which is not here")
    @pytest.mark.parametrize("device_map", ["cpu", "auto"])
    def test_a_device_map_changes_nothing(self, device_map: str, tmp_path: pathlib.Path) -> None:
        plain = saved("LlamaForCausalLM", tmp_path / "plain")
        wanted = load("LlamaForCausalLM", plain, TileonConfig("mxfp4"))
        assert_same(load("LlamaForCausalLM", plain, TileonConfig("mxfp4"), device_map=device_map), wanted)

    def test_what_convert_made_is_saved_with_a_config(self, tmp_path: pathlib.Path) -> None:
        made: Any = convert(model("LlamaForCausalLM"), "mxfp4", skip=["lm_head"])
        made.config.quantization_config = TileonConfig("mxfp4", skip=["lm_head"])
        made.save_pretrained(tmp_path)
        assert_same(load("LlamaForCausalLM", tmp_path), made)

    def test_generates(self, tmp_path: pathlib.Path) -> None:
        loaded = load("LlamaForCausalLM", saved("LlamaForCausalLM", tmp_path), TileonConfig("mxfp8"))
        with torch.inference_mode():
            tokens = loaded.generate(torch.tensor([[3, 4, 5]]), max_new_tokens=4, do_sample=False)
        assert tokens.shape[0] == 1
        assert tokens.shape[1] > 3


class TestConfig:
    def test_a_format_that_there_is_not_is_named_at_once(self) -> None:
        with pytest.raises(RuntimeError, match=r'^TileonConfig: `format` must be one of mxfp8, .*, got "fp4"$'):
            TileonConfig("fp4")

    def test_a_string_is_no_list_of_globs(self) -> None:
        with pytest.raises(RuntimeError, match=r"^TileonConfig: `skip` must be a sequence of globs"):
            TileonConfig("mxfp4", skip="lm_head")

    def test_weights_alone_let_adapters_train(self) -> None:
        from tileon_ops.integrations.transformers import TileonQuantizer

        assert TileonQuantizer(TileonConfig("mxfp4", weight_only=True)).is_trainable
        assert not TileonQuantizer(TileonConfig("mxfp4")).is_trainable


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)


class TestImport:
    def test_of_the_package_brings_no_transformers(self) -> None:
        program = "import sys, tileon_ops; tileon_ops.convert; print('transformers' in sys.modules)"
        assert run(program).stdout == "False\n"

    def test_without_transformers_says_what_to_install(self) -> None:
        program = "import sys; sys.modules['transformers'] = None; import tileon_ops.integrations.transformers"
        assert "pip install 'tileon_ops[transformers]'" in run(program).stderr


@pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="needs peft, which is not here")
class TestPeft:
    @staticmethod
    def adapted(architecture: str = "LlamaForCausalLM") -> nn.Module:
        import peft

        targets = ["c_attn"] if architecture.startswith("GPT2") else ["q_proj", "v_proj"]
        config = peft.LoraConfig(
            r=32, target_modules=targets, init_lora_weights=False, fan_in_fan_out=architecture.startswith("GPT2")
        )
        return peft.get_peft_model(model(architecture), config).eval()  # type: ignore[arg-type]

    @pytest.mark.parametrize("architecture", ["LlamaForCausalLM", "GPT2LMHeadModel"])
    def test_adapters_stay_and_their_layers_are_converted(self, architecture: str) -> None:
        adapted = self.adapted(architecture)
        wanted = logits(adapted)
        convert(adapted, "mxfp8")
        for name, module in adapted.named_modules():
            if name.endswith("base_layer"):
                assert type(module) is BlockScaledLinear, name
            elif "lora_A." in name or "lora_B." in name:
                assert type(module) is nn.Linear, name
        assert (logits(adapted) - wanted).norm() < LARGEST_ERROR["mxfp8"] * wanted.norm()
        lora = [entry for entry in conversion_report(adapted) if "lora_" in entry.name]
        assert lora
        assert all(entry.reason.startswith("it is an adapter's: lora_") for entry in lora)


def test_the_models_are_sixteen_or_more() -> None:
    assert len(ARCHITECTURES) >= 16
    assert CAUSAL.keys() < ARCHITECTURES.keys()
