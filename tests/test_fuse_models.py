"""`tileon_ops.fuse` on whole models: under torch.compile with their training, and as exported programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fuse_graphs import matmuls
from operands import normal
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_inductor_cache

import tileon_ops

OPTIONS = {"pre_grad_custom_pass": tileon_ops.fuse}


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    """Every test compiles: what an earlier run left in inductor's cache would hide whether the pass works."""
    torch._dynamo.reset()
    with fresh_inductor_cache():
        yield
    torch._dynamo.reset()


class Block(nn.Module):
    """A block of GPT: attention and a feed-forward part, each behind its norm and added to what came."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attention = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocabulary: int = 50, width: int = 32, heads: int = 2, blocks: int = 2) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(8, 24), nn.ReLU(inplace=True), nn.Linear(24, 20), nn.LeakyReLU(0.2), nn.Linear(20, 6, bias=False)
    )


def encoder(activation: str) -> nn.Module:
    return nn.TransformerEncoderLayer(16, 2, 40, dropout=0.0, activation=activation, batch_first=True)


def gradients(model: Callable[[Tensor], Tensor], parameters: list[nn.Parameter], x: Tensor) -> list[Tensor]:
    """The model's result, and the gradients of its squares' sum."""
    result = model(x)
    return [result.detach(), *torch.autograd.grad(result.square().sum(), parameters)]


MATMUL = ("tileon::matmul", "tileon::_matmul_compiled")  # in eager mode, and in inductor's programs


def calls_of_matmul(run: Callable[[], Any]) -> int:
    """How often the op ran, by torch's profiler: what a graph holds, its compilation could still lose."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
        run()
    return sum(event.count for event in profile.key_averages() if event.key in MATMUL)


# name: (the model, its input, how many products torch.compile sees, how many torch.export sees). torch.compile leaves
# the projections of nn.MultiheadAttention inside one call of torch's.
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor], int, int]] = {
    "mlp": (mlp, lambda: normal(5, 8, dtype=torch.float32, device="cpu"), 3, 3),
    "encoder relu": (lambda: encoder("relu"), lambda: normal(3, 7, 16, dtype=torch.float32, device="cpu"), 2, 4),
    "encoder gelu": (lambda: encoder("gelu"), lambda: normal(3, 7, 16, dtype=torch.float32, device="cpu"), 2, 4),
    "gpt": (GPT, lambda: torch.arange(21).view(3, 7), 9, 9),
}


def made(name: str, device: torch.device) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return MODELS[name][0]().to(device), MODELS[name][1]().to(device)


@pytest.mark.parametrize("name", ["mlp", "encoder gelu", "gpt"])
def test_training_under_torch_compile(device: torch.device, name: str) -> None:
    model, x = made(name, device)
    parameters = list(model.parameters())
    compiled = torch.compile(model, fullgraph=True, options=OPTIONS)
    expected = gradients(model, parameters, x)
    torch.testing.assert_close(gradients(compiled, parameters, x), expected, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        compiled(x)
        assert calls_of_matmul(lambda: compiled(x)) == MODELS[name][2]


@pytest.mark.parametrize("name", MODELS)
def test_an_exported_program(device: torch.device, name: str) -> None:
    model, x = made(name, device)
    rows = torch.export.Dim("rows", max=64)
    program = tileon_ops.fuse(torch.export.export(model, (x,), dynamic_shapes=({0: rows},)))
    program.validate()
    assert len(matmuls(program.graph)) == MODELS[name][3]
    assert not any(
        str(node.target).startswith(("aten.linear", "aten.relu", "aten.gelu")) for node in program.graph.nodes
    )
    longer = torch.cat((x, x.flip(0)))
    torch.testing.assert_close(program.module()(longer), model(longer), rtol=1e-3, atol=1e-4)


def test_an_exported_module_trains() -> None:
    model, x = made("encoder gelu", torch.device("cpu"))
    module = tileon_ops.fuse(torch.export.export(model, (x,)).module())
    assert len(matmuls(module.graph)) == 4
    names, parameters = zip(*model.named_parameters(), strict=True)
    own = dict(module.named_parameters())
    actual = gradients(module, [own[name] for name in names], x)
    torch.testing.assert_close(actual, gradients(model, list(parameters), x), rtol=1e-3, atol=1e-4)


def test_a_program_may_be_decomposed_afterwards() -> None:
    model, x = made("encoder relu", torch.device("cpu"))
    program = tileon_ops.fuse(torch.export.export(model, (x,))).run_decompositions()
    assert len(matmuls(program.graph)) == 4
    torch.testing.assert_close(program.module()(x), model(x), rtol=1e-3, atol=1e-4)


def test_one_compilation_for_every_size() -> None:
    model, _ = made("mlp", torch.device("cpu"))
    parameters = list(model.parameters())
    compiled = torch.compile(model, fullgraph=True, dynamic=True, options=OPTIONS)
    counters.clear()
    for rows in (5, 16, 33, 128):
        x = normal(rows, 8, dtype=torch.float32, device="cpu")
        expected = gradients(model, parameters, x)
        torch.testing.assert_close(gradients(compiled, parameters, x), expected, rtol=1e-3, atol=1e-4)
    assert counters["stats"]["unique_graphs"] == 1


def test_autocast(device: torch.device) -> None:
    model, x = made("mlp", device)
    compiled = torch.compile(model, fullgraph=True, options=OPTIONS)
    with torch.autocast(device.type, torch.bfloat16), torch.no_grad():
        actual, expected = compiled(x), model(x)
        assert calls_of_matmul(lambda: compiled(x)) == 3
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-2)


def test_a_compiled_model_comes_from_the_cache() -> None:
    model, x = made("mlp", torch.device("cpu"))
    with torch.no_grad():
        torch.compile(model, options=OPTIONS)(x)
        torch._dynamo.reset()
        counters.clear()
        compiled = torch.compile(model, options=OPTIONS)
        compiled(x)
        hits = counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"]
        assert hits > 0
        assert calls_of_matmul(lambda: compiled(x)) == 3
        # without the pass the same model is another entry
        torch._dynamo.reset()
        plain = torch.compile(model)
        plain(x)
        assert calls_of_matmul(lambda: plain(x)) == 0
