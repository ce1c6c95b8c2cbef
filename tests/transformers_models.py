"""Tiny models of transformers with random weights, one for each architecture, and inputs for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

VOCABULARY = 96
_SIZES = {"vocab_size": VOCABULARY, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
_FEW_HEADS = {"num_key_value_heads": 2, "intermediate_size": 96, "max_position_embeddings": 64}
_EXPERTS = {"num_experts_per_tok": 2, "head_dim": 16}
_MLA = {
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
}

# The class of the model, which names that of its config, and the config's arguments.
CAUSAL: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {**_SIZES, **_FEW_HEADS},
    "MistralForCausalLM": {**_SIZES, **_FEW_HEADS},
    "Qwen2ForCausalLM": {**_SIZES, **_FEW_HEADS},
    "Qwen3ForCausalLM": {**_SIZES, **_FEW_HEADS, "head_dim": 16},
    "GemmaForCausalLM": {**_SIZES, **_FEW_HEADS, "head_dim": 16},
    "PhiForCausalLM": {**_SIZES, **_FEW_HEADS},
    "GPTNeoXForCausalLM": {**_SIZES, "intermediate_size": 96, "max_position_embeddings": 64},
    "FalconForCausalLM": {**_SIZES, "ffn_hidden_size": 96},
    "OPTForCausalLM": {**_SIZES, "ffn_dim": 96, "word_embed_proj_dim": 64, "max_position_embeddings": 64},
    "BloomForCausalLM": {"vocab_size": VOCABULARY, "hidden_size": 64, "n_layer": 2, "n_head": 4},
    "GPT2LMHeadModel": {"vocab_size": VOCABULARY, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "MixtralForCausalLM": {**_SIZES, **_FEW_HEADS, "num_local_experts": 4},
    "Qwen3MoeForCausalLM": {**_SIZES, **_FEW_HEADS, **_EXPERTS, "num_experts": 4, "moe_intermediate_size": 32},
    "GptOssForCausalLM": {**_SIZES, **_FEW_HEADS, **_EXPERTS, "num_local_experts": 4},
    "DeepseekV3ForCausalLM": {
        **_SIZES,
        **_FEW_HEADS,
        **_MLA,
        "num_key_value_heads": 4,
        "num_experts_per_tok": 2,
        "n_routed_experts": 4,
        "n_group": 1,
        "topk_group": 1,
        "moe_intermediate_size": 32,
        "first_k_dense_replace": 1,
    },
}
OTHERS: dict[str, dict[str, Any]] = {
    "BertForMaskedLM": {**_SIZES, "intermediate_size": 96, "max_position_embeddings": 64},
    "T5ForConditionalGeneration": {
        "vocab_size": VOCABULARY,
        "d_model": 64,
        "d_kv": 16,
        "d_ff": 96,
        "num_layers": 2,
        "num_heads": 4,
        "decoder_start_token_id": 0,
    },
}
ARCHITECTURES = {**CAUSAL, **OTHERS}


def model(architecture: str) -> nn.Module:
    """In bfloat16, ready for inference. Weights are large enough that the outputs depend on every layer."""
    import transformers

    torch.manual_seed(0)
    made: type[nn.Module] = getattr(transformers, architecture)
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = made.config_class(**tokens, **ARCHITECTURES[architecture])  # type: ignore[attr-defined, operator]
    return made(config).to(torch.bfloat16).eval()


def logits(of: Callable[..., Any]) -> Tensor:
    """Of two rows of tokens."""
    tokens = torch.randint(3, VOCABULARY, (2, 12), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        if type(of).__name__.startswith("T5"):
            return of(input_ids=tokens, decoder_input_ids=tokens).logits
        return of(tokens).logits
