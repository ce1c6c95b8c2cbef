"""A Llama before and after tileon_ops.convert: tokens per second, bytes and perplexity of each format, side by side.

    pip install "tileon_ops[transformers]"
    python examples/llama.py                                    # a small Llama with random weights: seconds on a CPU
    python examples/llama.py FOLDER --format mxfp4 nvfp4 --weight-only --skip lm_head --device cuda
    python examples/llama.py FOLDER --text a.txt --csv a.csv --plot a.png

FOLDER is what transformers' `save_pretrained` writes, of any causal language model. The model runs in bfloat16. It
reads the prompt (prefill) and then writes one token at a time with a static cache (decode), under torch.compile unless
`--no-compile` says otherwise; on a CPU, where compiling takes long, only with `--compile`. The perplexity is that of
`--text` or, without one, of a module of Python's standard library, by the folder's tokenizer; a model of 256 tokens
without a tokenizer reads bytes. Random weights have the perplexity of their vocabulary, whatever the format:
`PYTHONPATH=. python tests/lost_by_formats.py --save FOLDER` trains a small Llama whose perplexity tells more.
"""

from __future__ import annotations

import argparse
import copy
import csv
import inspect
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the package in place; not needed once installed

import tileon_ops

FORMATS = ("mxfp8", "mxfp4", "mixed", "nvfp4", "fp8_row", "fp8_128x128", "int8_row")
BYTES = 256  # the vocabulary of a model that reads bytes
WINDOW, BATCH = 256, 4  # tokens of a row of text, and rows of a call
PREFILLS, WARMUP = 3, 2  # timed calls of the prompt, and steps of decoding that are not timed


class Result(NamedTuple):
    """Of one model. Bytes are of all parameters and buffers; `linear_bytes` of what was a linear layer."""

    bytes: int
    linear_bytes: int
    prefill: float  # tokens per second
    decode: float
    perplexity: float


COLUMNS = ("model", "weight_only", *Result._fields)


def small_llama() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=BYTES,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        bos_token_id=None,
        eos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config)


def load(folder: Path | None) -> tuple[Any, Callable[[bytes], list[int]]]:
    """The model on the CPU in bfloat16, and what makes tokens of text."""
    if folder is None:
        return small_llama().to(torch.bfloat16).eval(), list
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    if any((folder / name).exists() for name in ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        return model, lambda text: tokenizer(text.decode(errors="replace"))["input_ids"]
    if model.config.vocab_size != BYTES:
        raise SystemExit(f"{folder} has no tokenizer, and its vocabulary is {model.config.vocab_size}, not {BYTES}")
    return model, list


@torch.inference_mode()
def perplexity(model: Any, tokens: Tensor) -> float:
    """exp of the mean loss of a token, over rows of WINDOW tokens whose first one is not predicted."""
    rows = tokens[: len(tokens) // WINDOW * WINDOW].view(-1, WINDOW)
    total = 0.0
    for part in rows.split(BATCH):
        logits = model(part, use_cache=False).logits[:, :-1].float()
        total += float(nn.functional.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum"))
    return math.exp(total / (rows.numel() - len(rows)))


class Speed(NamedTuple):
    """Tokens per second, and the tokens that were written, WARMUP of them before those that were timed."""

    prefill: float
    decode: float
    written: list[int]


@torch.inference_mode()
def speed(model: Any, prompt: Tensor, new_tokens: int, compiled: bool) -> Speed:
    """Of a prompt, (1, tokens), and of decoding behind it: each time the likeliest token."""
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    length = prompt.shape[1] + WARMUP + new_tokens
    cache = transformers.StaticCache(config=model.config, max_cache_len=length)
    of_cache = {name: cache, "use_cache": True}

    def prefill() -> Tensor:
        cache.reset()
        return _next(model(prompt, logits_to_keep=1, **of_cache).logits)

    def decode(token: Tensor, position: Tensor) -> Tensor:
        return _next(model(token, position_ids=position, **of_cache).logits)

    token = prefill()  # which makes the cache's tensors too
    seconds = [_seconds(prefill, prompt.device) for _ in range(PREFILLS)]
    torch._dynamo.reset()  # each format has code of its own
    step = torch.compile(decode, dynamic=False) if compiled else decode
    position = torch.full((1, 1), prompt.shape[1], device=prompt.device)
    written = []

    def steps(count: int) -> None:
        for _ in range(count):
            written.append(token.clone())
            token.copy_(step(token, position))
            position.add_(1)

    steps(WARMUP)
    decoding = _seconds(lambda: steps(new_tokens), prompt.device)
    rate = prompt.shape[1] / statistics.median(seconds)
    return Speed(rate, new_tokens / decoding, torch.cat(written).flatten().tolist())


def measure(model: Any, tokens: Tensor, arguments: argparse.Namespace, linear_bytes: int) -> Result:
    prompt = tokens[None, : arguments.prompt]
    prefill, decode, _ = speed(model, prompt, arguments.new_tokens, arguments.compile)
    size = sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))
    return Result(size, linear_bytes, prefill, decode, perplexity(model, tokens))


def results(model: Any, tokens: Tensor, arguments: argparse.Namespace) -> Iterator[tuple[str, Result]]:
    """By name, first of the model as it is. The last format takes the model itself: one copy is enough for it."""
    layers = [m for m in model.modules() if isinstance(m, nn.Linear) or type(m).__name__ == "Conv1D"]  # GPT-2's
    linear = sum(parameter.nbytes for layer in layers for parameter in layer.parameters())
    say(f"bfloat16: {arguments.prompt} tokens of prompt, {arguments.new_tokens} new ones, {len(tokens)} of text")
    yield "bfloat16", measure(model, tokens, arguments, linear)
    for format in arguments.format:
        say(f"{format}: converting")
        new = model if format == arguments.format[-1] else copy.deepcopy(model)
        tileon_ops.convert(new, format, skip=arguments.skip, weight_only=arguments.weight_only)
        report = tileon_ops.conversion_report(new)
        done = [entry for entry in report if entry.became is not None]
        of_linear = linear - sum(entry.bytes_before - entry.bytes_after for entry in done)
        say(f"{format}: {len(done)} layers converted; measuring")
        yield format, measure(new, tokens, arguments, of_linear)


def table(found: dict[str, Result]) -> str:
    base = found["bfloat16"]
    titles = ("bytes", "of it linear", "prefill", "decode", "perplexity")
    lines = [f"{'model':<12}" + "".join(f"{title:>22}" for title in titles)]
    for name, result in found.items():
        cells = [f"{result.bytes:,} ({result.bytes / base.bytes:.0%})"]
        cells.append(f"{result.linear_bytes:,} ({result.linear_bytes / base.linear_bytes:.0%})")
        cells += [f"{rate:,.0f} tokens/s" for rate in (result.prefill, result.decode)]
        cells.append(f"{result.perplexity:.3f} ({result.perplexity / base.perplexity - 1:+.2%})")
        lines.append(f"{name:<12}" + "".join(f"{cell:>22}" for cell in cells))
    return "\n".join(lines)


def write_csv(path: Path, found: dict[str, Result], weight_only: bool) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, result in found.items():
            writer.writerow([name, weight_only and name != "bfloat16", *result])


def draw(path: Path, found: dict[str, Result]) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    panels = {
        "bytes": "bytes",
        "prefill": "prefill, tokens/s",
        "decode": "decode, tokens/s",
        "perplexity": "perplexity",
    }
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4 * len(panels), 3.5), layout="constrained")
    for axis, (field, title) in zip(axes, panels.items(), strict=True):
        axis.bar(list(found), [getattr(result, field) for result in found.values()])
        axis.set_title(title)
        axis.tick_params(axis="x", rotation=45)
    figure.savefig(path)
    pyplot.close(figure)


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def _next(logits: Tensor) -> Tensor:
    """The likeliest token, (1, 1)."""
    return logits[:, -1:].argmax(-1)


def _seconds(work: Callable[[], object], device: torch.device) -> float:
    _wait(device)
    start = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="a causal language model (default: a small random Llama)")
    parser.add_argument("--format", nargs="+", choices=FORMATS, default=["mxfp8", "mxfp4", "nvfp4"])
    parser.add_argument("--weight-only", action="store_true", help="activations stay as they are")
    parser.add_argument("--skip", nargs="*", default=[], help="globs of the names of layers that stay")
    parser.add_argument("--device", type=torch.device, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, help="decoding (default: on a GPU alone)")
    parser.add_argument("--prompt", type=int, default=128, help="tokens (default %(default)s)")
    parser.add_argument("--new-tokens", type=int, default=32, help="to decode (default %(default)s)")
    parser.add_argument("--text", type=Path, help="for the perplexity (default: a module of Python)")
    parser.add_argument("--text-tokens", type=int, default=4096, help="of it at most (default %(default)s)")
    parser.add_argument("--csv", type=Path, help="write the figures here")
    parser.add_argument("--plot", type=Path, help="draw them here; takes matplotlib")
    arguments = parser.parse_args()
    if arguments.compile is None:
        arguments.compile = arguments.device.type != "cpu"
    return arguments


def main() -> None:
    arguments = _arguments()
    text = arguments.text or Path(inspect.getfile(statistics))
    say(f"loading {arguments.folder or 'a small Llama with random weights'}")
    model, tokens_of = load(arguments.folder)
    tokens = torch.tensor(tokens_of(text.read_bytes())[: arguments.text_tokens], device=arguments.device)
    if len(tokens) < max(WINDOW, arguments.prompt):
        raise SystemExit(f"{text.name} has {len(tokens)} tokens; {max(WINDOW, arguments.prompt)} are needed")
    found = dict(results(model.to(arguments.device), tokens, arguments))
    what = "weights alone" if arguments.weight_only else "weights and activations"
    print(f"torch {torch.__version__} on {arguments.device}; {what}; perplexity of {text.name}")
    print(table(found))
    if arguments.csv:
        write_csv(arguments.csv, found, arguments.weight_only)
    if arguments.plot:
        draw(arguments.plot, found)


if __name__ == "__main__":
    main()
