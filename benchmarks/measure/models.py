"""Times a Llama of transformers and its linear layers alone, converted, beside the same model in bfloat16.

    python -m benchmarks.measure.models --csv models.csv
    python -m benchmarks.measure.models --formats mxfp4,nvfp4 --quantized weights --phases decode_1,linear_decode_1

Weights are random, `lm_head` and the embedding stay in bfloat16. Phases: `prefill`, one row of --tokens tokens and the
logits of the last; `decode_1` and `decode_16`, a step of so many rows behind --tokens tokens in a static cache;
`linear_<phase>`, the layers that are converted, one after another, on normal inputs of that phase's rows. ms: of one
prefill, of one step. bytes: of parameters and buffers of the model, of linear phases those of the layers.

Providers: `tileon`, and `torch_bf16`, the model as it was, timed anew beside each format. Linear phases are a CUDA
graph of the layers; on a CPU (one thread) they are eager. Decoding is, --by `graphs` (default on a GPU), a CUDA
graph of the eager step; `compile`, torch.compile's reduce-overhead, which compiles the model anew for each format and
phase; or `eager`. Prefill is eager, as transformers' generate has it: its masks are flash attention's only there.
"""

from __future__ import annotations

import argparse
import copy
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor, nn

import tileon_ops
from benchmarks.common.command import command_line, finish, for_each, some_of
from benchmarks.common.result_file import CsvWriter
from benchmarks.common.timing import Arm, clock_words, cold_graph_arm, time_arms

COLUMNS = ("model", "format", "weight_only", "phase", "provider", "ms", "bytes")
# What is quantized, and in which formats. "mixed" of weights alone is mxfp4.
QUANTIZED = {
    "weights": ("mxfp4", "nvfp4", "mxfp8", "fp8_row", "int8_row"),
    "both": ("mxfp4", "mxfp8", "mixed", "fp8_row", "int8_row", "nvfp4"),
}
_MODEL_PHASES = ("prefill", "decode_1", "decode_16")
PHASES = (*_MODEL_PHASES, *(f"linear_{phase}" for phase in _MODEL_PHASES))
# By name, what LlamaConfig takes: Llama 3 8B's with a quarter of its layers, and what a CPU runs in a moment.
_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
MODELS = {
    "llama_8b_8_layers": {**dict(zip(_SIZES, (128256, 4096, 14336, 8, 32), strict=True)), "num_key_value_heads": 8},
    "small_llama": {**dict(zip(_SIZES, (256, 256, 768, 4, 8), strict=True)), "num_key_value_heads": 4},
}
WAYS = ("graphs", "compile", "eager")


def make_model(name: str, device: torch.device) -> Any:
    """In bfloat16, for inference, of random weights."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**MODELS[name], bos_token_id=None, eos_token_id=None)
    with device:
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


def converted(model: nn.Module, format: str, *, weight_only: bool) -> Any:
    """A copy whose linear layers are of this format; all other parameters are the model's own."""
    new = copy.deepcopy(model, {id(parameter): parameter for parameter in model.parameters()})
    return tileon_ops.convert(new, format, skip=["lm_head"], weight_only=weight_only)


def linear_layers(model: nn.Module) -> list[nn.Module]:
    """Those that are converted."""
    return [module for name, module in model.named_modules() if name.endswith("_proj")]


def nbytes(modules: Sequence[nn.Module]) -> int:
    return sum(tensor.nbytes for module in modules for tensor in (*module.parameters(), *module.buffers()))


def prefill(model: Any, tokens: int) -> Callable[[], Tensor]:
    """The logits behind one row of tokens, (1, 1, vocabulary)."""
    prompt = torch.randint(model.config.vocab_size, (1, tokens), device=model.device)
    return lambda: model(prompt, use_cache=True, logits_to_keep=1).logits


def decode(model: Any, rows: int, tokens: int, *, compiled: bool = False) -> Callable[[], Tensor]:
    """A step behind so many tokens: the likeliest next ones, (rows, 1). The cache, of normal numbers, stays as long as
    it is, so that each step writes its last place."""
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    cache = transformers.StaticCache(config=model.config, max_cache_len=tokens + 1)
    token = torch.randint(model.config.vocab_size, (rows, 1), device=model.device)
    position = torch.full((1, 1), tokens, device=model.device)

    def forward() -> Tensor:
        logits: Tensor = model(token, position_ids=position, use_cache=True, **{name: cache}).logits
        return logits.argmax(-1)

    forward()  # makes the cache's tensors
    lengths = [layer.cumulative_length for layer in cache.layers]
    for layer, length in zip(cache.layers, lengths, strict=True):
        layer.keys.normal_()
        layer.values.normal_()
        length.fill_(tokens)
    fast = torch.compile(forward, mode="reduce-overhead", dynamic=False) if compiled else forward

    def step() -> Tensor:
        if compiled:
            torch.compiler.cudagraph_mark_step_begin()
        found = fast()
        torch._foreach_sub_(lengths, 1)
        return found

    return step


def each(calls: Sequence[Callable[[], Tensor]]) -> None:
    for call in calls:
        call()


def arm_of(model: Any, phase: str, arguments: argparse.Namespace) -> Arm:
    """What a phase does once."""
    linear, of_model = phase.startswith("linear_"), phase.removeprefix("linear_")
    rows = int(of_model.rpartition("_")[2]) if of_model != "prefill" else arguments.tokens
    by = arguments.by
    calls: list[Callable[[], Tensor]]
    if linear:
        layers: list[Any] = linear_layers(model)
        where = {"device": model.device, "dtype": torch.bfloat16}
        inputs = {width: torch.randn(rows, width, **where) for width in {layer.in_features for layer in layers}}
        calls = [partial(layer, inputs[layer.in_features]) for layer in layers]
        by = "graphs" if model.device.type == "cuda" else "eager"
    elif of_model == "prefill":
        calls, by = [prefill(model, arguments.tokens)], "eager"
    else:
        calls = [decode(model, rows, arguments.tokens, compiled=by == "compile")]
    if by != "graphs":
        return Arm(partial(each, calls))
    each(calls)  # loads every kernel, which a capture may not do
    return Arm(cold_graph_arm(calls).run)


def main() -> int:
    parser = command_line(__doc__, seconds=0.3, warmup=0.1)
    parser.add_argument("--model", choices=MODELS, help="default: the large one on a GPU, the small one on a CPU")
    some_of(parser, "--formats", dict.fromkeys(format for formats in QUANTIZED.values() for format in formats))
    some_of(parser, "--quantized", QUANTIZED)
    some_of(parser, "--phases", PHASES)
    parser.add_argument("--tokens", type=int, help="of the prompt (default 2048, on a CPU 128)")
    parser.add_argument("--by", choices=WAYS, help="how decoding runs (default: graphs, on a CPU eager)")
    arguments = parser.parse_args()
    device, on_gpu = arguments.device, arguments.device.type == "cuda"
    name = arguments.model or ("llama_8b_8_layers" if on_gpu else "small_llama")
    arguments.tokens = arguments.tokens or (2048 if on_gpu else 128)
    arguments.by = arguments.by or ("graphs" if on_gpu else "eager")
    if not on_gpu:
        torch.set_num_threads(1)  # the processes beside this one disturb more threads much more
        if arguments.by == "graphs":
            parser.error("--by graphs needs a GPU")
    cases = [
        (format, what) for what in arguments.quantized for format in QUANTIZED[what] if format in arguments.formats
    ]
    threads = "" if on_gpu else "one thread, "
    words = f"{clock_words(device)}, {threads}interleaved arms, {arguments.tokens} tokens, decoding by {arguments.by}"
    writer = CsvWriter(arguments.csv, COLUMNS, {"timing": words, "transformers": transformers.__version__})
    limits = {"seconds": arguments.seconds, "warmup_seconds": arguments.warmup_seconds}
    torch._dynamo.config.recompile_limit = 100  # the code of a step is compiled for each model and number of rows
    with torch.inference_mode():
        plain = make_model(name, device)
        before = {phase: arm_of(plain, phase, arguments) for phase in arguments.phases}

        def measure(case: tuple[str, str]) -> list[str]:
            format, what = case
            models = {"tileon": converted(plain, format, weight_only=what == "weights"), "torch_bf16": plain}
            lines = []
            for phase in arguments.phases:
                arms = {"tileon": arm_of(models["tileon"], phase, arguments), "torch_bf16": before[phase]}
                for provider, timing in time_arms(arms, device, **limits).items():
                    model = models[provider]
                    size = nbytes(linear_layers(model) if phase.startswith("linear_") else [model])
                    figures = [f"{timing.median_us * 1e-3:.4f}", size]
                    writer.write([name, format, what == "weights", phase, provider, *figures])
                    lines.append("  ".join(writer.written[-1]))
            return lines

        failed = for_each(cases, lambda case: f"{case[0]}, {case[1]} quantized", measure)
    finish(words, arguments.csv)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
