"""What `tileon_ops.convert` makes of each architecture of transformers_models.py, in every format.

    PYTHONPATH=. python tests/architectures_table.py --csv benchmarks/results/cpu/architectures.csv

A row is a tiny model with random weights in bfloat16. `converted` and `left` are numbers of its linear layers, a module
in several places counted once. Bytes are of all parameters and buffers; `linear_before` and `linear_after` of what
linear layers hold, converted or not, and of 3-D parameters, which are stacked experts. `largest_left` is what takes
the most bytes of all that stayed, and `why` the reason that `conversion_report` gives. `runs`: whether the converted
model's logits are finite and not all the same; `loads`: whether the model that `save_pretrained` writes and
`from_pretrained` reads gives the same logits to the bit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers_models import ARCHITECTURES, logits, model

import tileon_ops
from benchmarks.common.command import command_line, tabulate
from tileon_ops import Conversion
from tileon_ops.nn.layer_formats import LAYER_FORMATS

COLUMNS = (
    *("architecture", "format", "converted", "left", "bytes_before", "bytes_after", "linear_before", "linear_after"),
    *("largest_left", "why", "runs", "loads"),
)


def is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"  # GPT-2's


def again(made: Any) -> Any:
    """The model out of a folder into which it was saved."""
    with tempfile.TemporaryDirectory() as folder:
        made.save_pretrained(folder)
        return type(made).from_pretrained(folder)


def says_something(found: Tensor) -> bool:
    return bool(found.isfinite().all() and found.std() > 0)


def row(architecture: str, format: str) -> list[object]:
    from tileon_ops.integrations.transformers import TileonConfig

    made = again(model(architecture))  # whose rotary frequencies, which no file has, are in float32 again
    linear = {name for name, module in made.named_modules() if is_linear(module)}
    stacks = {name for name, parameter in made.named_parameters() if parameter.dim() == 3}
    report = tileon_ops.conversion_report(tileon_ops.convert(made, format))
    layers = [entry for entry in report if entry.name in linear]
    weights = [entry for entry in report if entry.name in linear | stacks]
    converted = sum(entry.became is not None for entry in layers)
    largest = max((entry for entry in report if entry.became is None), key=_bytes)
    found = logits(made)
    made.config.quantization_config = TileonConfig(format)
    return [
        *(architecture, format, converted, len(layers) - converted, report.bytes_before, report.bytes_after),
        *(sum(map(_bytes, weights)), sum(entry.bytes_after for entry in weights)),
        *(largest.name, largest.reason),
        *(says_something(found), torch.equal(logits(again(made)), found)),
    ]


def rows() -> Iterator[list[object]]:
    for architecture in ARCHITECTURES:
        for format in LAYER_FORMATS:
            yield row(architecture, format)


def _bytes(entry: Conversion) -> int:
    return entry.bytes_before


def main() -> int:
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    arguments = command_line(__doc__, device=False).parse_args()
    return tabulate(arguments.csv, COLUMNS, rows(), transformers=transformers.__version__)


if __name__ == "__main__":
    raise SystemExit(main())
