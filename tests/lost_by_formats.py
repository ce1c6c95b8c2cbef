"""What each format loses: the perplexity of a trained model, and the error of single products.

    PYTHONPATH=. python tests/lost_by_formats.py --out benchmarks/results/cpu

Trains byte_model.py's Llama for some minutes on one core (`--save FOLDER` keeps it, `--model FOLDER` takes one) and
writes

- perplexity.csv: of held-out text, as bfloat16 and converted to each format. `ratio` is to bfloat16, `ratio_error` its
  standard error over the rows of text, and `kl` the mean of KL(bfloat16's prediction || this one's) in nats a byte. To
  first order the rounding of a weight changes the loss by as much up as down, so that two ratios may come in either
  order by chance; `kl` has no first order, and tells smaller differences.
- format_errors.csv: see format_errors.py.

`scale_rounding` is "default", as `tileon_ops.convert` makes layers: the scales of weights are searched, those of
activations "rceil"; "floor" or "rceil", the rules of `quantize` for weights and activations; or "floor activations",
where the scales of weights are searched. Formats whose scales have one rule have the default alone.

Where torchao can be imported, what it has of these formats on a CPU stands beside, on the same model and text.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import format_errors
import torch
import torchao_formats
from byte_model import LENGTH, Text, byte_model, divergence, log_probabilities, losses, rows_of, standard_library, train
from torch import Tensor, nn

import tileon_ops
from benchmarks.common.command import tabulate
from tileon_ops import BlockScaledLinear
from tileon_ops.nn.layer_formats import LAYER_FORMATS
from tileon_ops.tune.progress import Progress

COLUMNS = ("format", "weight_only", "scale_rounding", "perplexity", "ratio", "ratio_error", "kl", "provider")
STEPS, ROWS = 1000, 256
LAYERS = ("model.layers.1.self_attn.q_proj", "model.layers.1.mlp.down_proj", "lm_head")
OURS = "tileon"


def roundings(format: str, weight_only: bool) -> tuple[str, ...]:
    rules = format_errors.roundings(format)
    return (*rules, "floor activations") if "rceil" in rules and not weight_only else rules


def converted(model: nn.Module, format: str, weight_only: bool, rounding: str) -> nn.Module:
    """A copy in the format, whose weights' scales follow the rule too."""
    of_input = "floor" if rounding.startswith("floor") else "rceil"
    new = tileon_ops.convert(copy.deepcopy(model), format, weight_only=weight_only, scale_rounding=of_input)
    if rounding in ("floor", "rceil"):
        for name, layer in new.named_modules():
            if isinstance(layer, BlockScaledLinear):
                weight = model.get_submodule(name).get_parameter("weight").detach()
                layer.data, layer.scale, _ = format_errors.quantized_weight(weight, format, rounding)
    return new


def perplexity_rows(model: nn.Module, rows: Tensor) -> Iterator[list[object]]:
    """Of a model in bfloat16, over (rows, LENGTH + 1) bytes."""
    log_p = log_probabilities(model, rows)
    base = losses(log_p, rows)

    def row(new: nn.Module, format: str, weight_only: bool, rounding: str, provider: str) -> list[object]:
        log_q = log_probabilities(new, rows)
        found = losses(log_q, rows)
        more = found - base
        ratio = float(more.mean().exp())
        error = ratio * float(more.std()) / len(rows) ** 0.5
        figures = [
            f"{float(found.mean().exp()):.4f}",
            f"{ratio:.4f}",
            f"{error:.4f}",
            f"{divergence(log_p, log_q):.3e}",
        ]
        return [format, weight_only, rounding, *figures, provider]

    yield ["bfloat16", False, "", f"{float(base.mean().exp()):.4f}", "1.0000", "0.0000", "0.000e+00", "torch"]
    for format in LAYER_FORMATS:
        for weight_only in (True, False):
            for rounding in roundings(format, weight_only):
                yield row(converted(model, format, weight_only, rounding), format, weight_only, rounding, OURS)
    if torchao_formats.is_here():
        for peer in torchao_formats.peers():
            new = torchao_formats.quantized(copy.deepcopy(model), peer)
            yield row(new, *peer[:3], torchao_formats.provider())


def error_rows(model: Any, text: Tensor) -> Iterator[list[object]]:
    """Of drawn operands, and of layers of the model with what reaches them of two rows of text."""
    tokens = rows_of(text, 2)[:, :LENGTH].long()
    trained = format_errors.operands_of(model, LAYERS, lambda: model(tokens))
    for data, (x, weight) in {**format_errors.operands(), **trained}.items():
        for format in LAYER_FORMATS:
            yield from format_errors.error_rows(format, data, x, weight)


def trained_model(text: Text, steps: int) -> Any:
    model, progress = byte_model(), Progress(steps)
    for step, loss in enumerate(train(model, text.train, steps)):
        if step % 50 == 0:
            progress.show(step, f"training, {loss:.3f} nats a byte")
    progress.clear()
    return model


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the folder for perplexity.csv and format_errors.csv")
    parser.add_argument("--model", type=Path, help="a folder with the trained model, in place of training one")
    parser.add_argument("--save", type=Path, help="keep the trained model in this folder")
    parser.add_argument("--steps", type=int, default=STEPS, help="of training (default %(default)s)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"of {LENGTH} held-out bytes (default %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    text = standard_library()
    if arguments.model:
        import transformers

        model = transformers.LlamaForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
    else:
        model = trained_model(text, arguments.steps)
    if arguments.save:
        model.save_pretrained(arguments.save)
    model = model.to(torch.bfloat16).eval()
    files = [arguments.out / name if arguments.out else None for name in ("perplexity.csv", "format_errors.csv")]
    trained = f"a model of {arguments.model.name}" if arguments.model else f"{arguments.steps} steps of training"
    held_out = f"{trained}, {arguments.rows} rows of {LENGTH} held-out bytes"
    rows = rows_of(text.held_out, arguments.rows)
    tabulate(files[0], COLUMNS, perplexity_rows(model, rows), held_out, held_out=held_out)
    if not torchao_formats.is_here():
        print("torchao is not there: pip install torchao, and its formats stand beside these")
    print()
    words = "against float64"
    return tabulate(files[1], format_errors.COLUMNS, error_rows(model, text.held_out), words, reference=words)


if __name__ == "__main__":
    raise SystemExit(main())
