"""What `tileon_ops.convert` makes of each architecture of transformers_models.py, in every format.

    PYTHONPATH=. python tests/architectures_table.py --csv benchmarks/results/cpu/architectures.csv

A row is a tiny model with random weights in bfloat16. `converted` and `left` are numbers of its linear layers, a module
in several places counted once. Bytes are of all parameters and buffers; `linear_before` and `linear_after` of what
linear layers hold, converted or not, and of 3-D parameters, which are stacked experts. `largest_left` is what takes
the most bytes of all that stayed, and `why` the reason that `conversion_report` gives.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn
from transformers_models import ARCHITECTURES, model

import tileon_ops
from benchmarks.common.command import command_line, tabulate
from tileon_ops import Conversion
from tileon_ops.nn.layer_formats import LAYER_FORMATS

COLUMNS = (
    *("architecture", "format", "converted", "left", "bytes_before", "bytes_after", "linear_before", "linear_after"),
    *("largest_left", "why"),
)


def is_linear(module: nn.Module) -> bool:
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"  # GPT-2's


def row(architecture: str, format: str) -> list[object]:
    made = model(architecture)
    linear = {name for name, module in made.named_modules() if is_linear(module)}
    stacks = {name for name, parameter in made.named_parameters() if parameter.dim() == 3}
    report = tileon_ops.conversion_report(tileon_ops.convert(made, format))
    layers = [entry for entry in report if entry.name in linear]
    weights = [entry for entry in report if entry.name in linear | stacks]
    converted = sum(entry.became is not None for entry in layers)
    largest = max((entry for entry in report if entry.became is None), key=_bytes)
    return [
        *(architecture, format, converted, len(layers) - converted, report.bytes_before, report.bytes_after),
        *(sum(map(_bytes, weights)), sum(entry.bytes_after for entry in weights)),
        *(largest.name, largest.reason),
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
    arguments = command_line(__doc__, device=False).parse_args()
    return tabulate(arguments.csv, COLUMNS, rows(), transformers=transformers.__version__)


if __name__ == "__main__":
    raise SystemExit(main())
