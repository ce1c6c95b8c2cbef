"""What `fast_accum` loses of mxfp8 and mixed products on the CPU: `PYTHONPATH=. python tests/fold_loss.py [--csv CSV]`.

x is (m, k), the weight (n, k), both quantized with scale_rounding="rceil". `fold_db` is 10 log10(sum of the squares of
the product of the quantized operands in float64 / sum of the squares of what `fast_accum` errs by), `exact_db` that of
the default, and `quantization_db` that of the quantized operands' product against the product of x and the weight.

Data: normal; outliers, where one column of 128 is 30 times as large; Student's t of four degrees of freedom; a layer
norm's output with a lognormal gain of each column; and the 256 x 256 layer of examples/digits.py with its activations.
"""

from __future__ import annotations

import math
import runpy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

import tileon_ops  # noqa: F401  (registers torch.ops.tileon)
from benchmarks.common.command import command_line, tabulate
from benchmarks.common.commit import ROOT

COLUMNS = ("format", "data", "m", "n", "k", "fold_db", "exact_db", "quantization_db", "provider")
PAIRS = {"mxfp8": ("mxfp8", "mxfp8"), "mixed": ("mxfp8", "mxfp4")}
M, N, K = 1024, 1024, 4096
Draw = Callable[[int, int, torch.Generator], Tensor]  # so many rows of so many numbers


def normal(rows: int, k: int, source: torch.Generator) -> Tensor:
    return torch.randn(rows, k, generator=source)


def outliers(rows: int, k: int, source: torch.Generator) -> Tensor:
    x = normal(rows, k, source)
    x[:, torch.randperm(k, generator=source)[: k // 128]] *= 30
    return x


def student_t(rows: int, k: int, source: torch.Generator) -> Tensor:
    return normal(rows, k, source) / torch.randn(4, rows, k, generator=source).square().mean(0).sqrt()


def layer_norm(rows: int, k: int, source: torch.Generator) -> Tensor:
    gain = torch.exp(0.7 * torch.randn(k, generator=source))
    return torch.nn.functional.layer_norm(normal(rows, k, source), (k,)) * gain


DATA: dict[str, Draw] = {
    "normal": normal,
    "outliers": outliers,
    "student_t": student_t,
    "layer_norm": layer_norm,
}


def _digits() -> tuple[Tensor, Tensor]:
    example = runpy.run_path(str(ROOT / "examples" / "digits.py"))
    data = example["digits"](0, torch.device("cpu"))
    torch.manual_seed(0)
    model = example["torch_mlp"](data.train_x.shape[1])
    example["train"](model, data, 0)
    return model[:2](data.test_x).detach(), model[2].weight.detach()


def _operands() -> Iterator[tuple[str, Tensor, Tensor]]:
    for name, draw in DATA.items():
        source = torch.Generator().manual_seed(0)
        yield name, draw(M, K, source), normal(N, K, source)
    yield "digits", *_digits()


def _decibels(actual: Tensor, exact: Tensor) -> str:
    noise = float((actual.double() - exact).square().sum())
    return f"{10 * (math.log10(float(exact.square().sum())) - math.log10(noise)):.1f}" if noise else "inf"


def _rows() -> Iterator[list[object]]:
    ops = torch.ops.tileon
    for data, x, weight in _operands():
        for name, formats in PAIRS.items():
            (a, scale_a), (b, scale_b) = (
                ops.quantize(values, format, scale_rounding="rceil")
                for values, format in zip((x, weight), formats, strict=True)
            )
            wide_a, wide_b = ops.dequantize(a, scale_a, formats[0]), ops.dequantize(b, scale_b, formats[1])
            exact = wide_a.double() @ wide_b.double().t()
            fast, slow = (
                ops.block_scaled_matmul(a, b, scale_a, scale_b, out_dtype=torch.float32, fast_accum=fast_accum)
                for fast_accum in (True, False)
            )
            decibels = [_decibels(found, exact) for found in (fast, slow)]
            decibels.append(_decibels(exact, x.double() @ weight.double().t()))
            yield [name, data, len(x), *weight.shape, *decibels, "tileon"]


def main() -> int:
    parser = command_line(__doc__, device=False)
    arguments = parser.parse_args()
    words = "against float64; scale_rounding rceil"
    return tabulate(arguments.csv, COLUMNS, _rows(), words, reference=words)


if __name__ == "__main__":
    raise SystemExit(main())
