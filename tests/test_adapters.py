"""Layers of both kinds in models of transformers and peft: a weight that is asked for its dtype, adapters that train.

Skipped where these packages are missing; test_weight_only_linear.py trains adapters without them.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch
from layers import each_format
from torch import Tensor, nn

import tileon_ops
from tileon_ops import BlockScaledLinear, convert


def needs(package: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"needs {package}, which is not installed")


needs_peft, needs_transformers = needs("peft"), needs("transformers")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(64, 96), nn.Linear(96, 64), nn.Linear(64, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.second(torch.relu(self.first(x)))))


def is_no_adapter(module: nn.Module, name: str) -> bool:
    return "lora_" not in name


def trained(model: nn.Module, dtype: torch.dtype) -> list[float]:
    """The losses of some steps towards a target."""
    x = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    target = x[:, :8].float()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    losses = []
    for _ in range(15):
        loss = nn.functional.mse_loss(model(x).float(), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@needs_peft
class TestPeft:
    @each_format
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
    def test_adapters_around_converted_layers_train(self, fmt: str, dtype: torch.dtype) -> None:
        """peft first, then convert, which leaves the adapters."""
        import peft

        torch.manual_seed(0)
        config = peft.LoraConfig(r=4, target_modules=["first", "second"])
        model = peft.get_peft_model(Model().to(dtype), config)
        convert(model, fmt, is_no_adapter, weight_only=True)
        layers = [module for module in model.modules() if isinstance(module, BlockScaledLinear)]
        assert len(layers) == 3
        losses = trained(model, dtype)
        assert losses[-1] < 0.8 * losses[0]

    def test_peft_wraps_a_converted_layer_that_it_is_told_of(self) -> None:
        """convert first: peft knows nn.Linear by its class, and others by its table of custom modules. It asks the
        model's first parameter for its device, so that one must be left."""
        import peft
        from peft.tuners.lora import Linear as LoraLinear

        torch.manual_seed(0)
        config = peft.LoraConfig(r=4, target_modules=["first", "second"])
        config._register_custom_module({BlockScaledLinear: LoraLinear})
        converted = convert(Model(), "mxfp4", lambda module, name: name != "head", weight_only=True)
        model = peft.get_peft_model(converted, config)
        losses = trained(model, torch.float32)
        assert losses[-1] < 0.8 * losses[0]

    def test_merging_into_a_weight_that_cannot_be_written_is_an_error(self) -> None:
        import peft

        model = peft.get_peft_model(Model(), peft.LoraConfig(r=4, target_modules=["first"]))
        convert(model, "mxfp8", is_no_adapter, weight_only=True)
        with pytest.raises(RuntimeError, match=r"^BlockScaledLinear: `weight` is decoded"):
            model.merge_adapter()


@needs_transformers
class TestTransformers:
    @staticmethod
    def t5() -> Any:
        from transformers import T5Config, T5ForConditionalGeneration

        torch.manual_seed(0)
        sizes = {"vocab_size": 64, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 1, "num_heads": 4}
        return T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0)).eval()

    @each_format
    @pytest.mark.parametrize("weight_only", [False, True])
    def test_t5_asks_for_the_weights_dtype(self, fmt: str, weight_only: bool) -> None:
        model, tokens = self.t5(), torch.arange(24).view(2, 12)
        with torch.inference_mode():
            wanted = model(input_ids=tokens, labels=tokens).logits
            logits = convert(model, fmt, weight_only=weight_only)(input_ids=tokens, labels=tokens).logits
        kinds = {done.became for done in tileon_ops.conversion_report(model)}
        assert f"BlockScaledLinear {fmt}" in kinds
        assert (logits - wanted).norm() < 0.5 * wanted.norm()
