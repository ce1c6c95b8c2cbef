"""A small Llama that predicts the next byte of Python's own standard library: text, training and perplexity.

The text is the modules at the top of the standard library that runs this, in the order of their names. Every eighth one
is held out. Training is the same to the bit on the same machine, torch, Python and number of threads.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

BYTES = 256  # the vocabulary
HELD_OUT = 8  # one file of so many
LENGTH, BATCH = 256, 8  # bytes of a row, rows of a step or of a call
LEARNING_RATE, WARMUP = 3e-3, 0.05  # the warm-up is a share of the steps


class Text(NamedTuple):
    """Bytes, (n,) uint8 each."""

    train: Tensor
    held_out: Tensor


def standard_library() -> Text:
    files = sorted(pathlib.Path(os.__file__).parent.glob("*.py"))
    held_out = files[HELD_OUT - 1 :: HELD_OUT]
    train = [path for path in files if path not in held_out]
    return Text(_bytes_of(train), _bytes_of(held_out))


def byte_model(seed: int = 0) -> Any:
    """A LlamaForCausalLM of 0.85 million parameters in float32, not trained. Its last layer has a weight of its own."""
    import transformers

    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=BYTES,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LENGTH,
        bos_token_id=None,
        eos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config)


def train(model: Any, text: Tensor, steps: int, seed: int = 0) -> Iterator[float]:
    """Trains by AdamW on random rows of the text, and gives the loss of each step, in nats a byte."""
    source = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps + 1, pct_start=WARMUP)
    for _ in range(steps):
        starts = torch.randint(len(text) - LENGTH, (BATCH,), generator=source)
        tokens = _rows(text, starts).long()
        logits = model(tokens[:, :-1], use_cache=False).logits
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        yield loss.item()


@torch.inference_mode()
def log_probabilities(model: Any, rows: Tensor) -> Tensor:
    """Of each next byte, (rows, LENGTH, BYTES) in float32. `rows` is (rows, LENGTH + 1) bytes."""
    logits = [model(part[:, :-1].long(), use_cache=False).logits.float() for part in rows.split(BATCH)]
    return torch.cat(logits).log_softmax(-1)


def losses(log_p: Tensor, rows: Tensor) -> Tensor:
    """The mean loss of each row, (rows,) in nats a byte; exp of their mean is the perplexity."""
    return -log_p.gather(-1, rows[:, 1:].long().unsqueeze(-1)).squeeze(-1).double().mean(1)


def divergence(log_p: Tensor, log_q: Tensor) -> float:
    """The mean of KL(p || q), in nats a byte."""
    return float((log_p.exp() * (log_p - log_q)).sum(-1).double().mean())


def rows_of(text: Tensor, rows: int) -> Tensor:
    """(rows, LENGTH + 1) bytes of the text, at equal distances."""
    return _rows(text, torch.linspace(0, len(text) - LENGTH - 1, rows, dtype=torch.float64).long())


def _rows(text: Tensor, starts: Tensor) -> Tensor:
    return torch.stack([text[start : start + LENGTH + 1] for start in starts.tolist()])


def _bytes_of(files: list[pathlib.Path]) -> Tensor:
    return torch.frombuffer(bytearray(b"".join(path.read_bytes() for path in files)), dtype=torch.uint8)
