"""How near block-scaled products come to float64: `python -m benchmarks.measure.block_scaled_accuracy [--csv out.csv]`.

`sqnr_db` is 10 log10(sum of the reference's squares / sum of the error's), inf where there is no error, over some rows
of the product, drawn at random so that any place in a tile may come up. The reference is their product in float64 of
the operands as they are: what it cost to quantize them is not in it. `bit_exact`: every element of these rows is the
reference rounded to float32. Formats and data are block_scaled_matmul.py's, but that nvfp4 has a global scale here.

All providers write float32. `tileon_fast` is `tileon` with fast_accum, where that allows more error. `torch_bf16` is
torch.mm of both operands in bfloat16, which holds every element of these data times its scale exactly; the global scale
is multiplied behind it, for no bfloat16 would hold that product. On a CPU it is float32's, of the same numbers.
"""

from __future__ import annotations

import itertools
import math

import torch

from benchmarks.common.cases import DATA, FORMATS, Case, Operands, Shape, make_operands
from benchmarks.common.command import command_line, parse_shapes, some_of, tabulate

COLUMNS = ("op", "format", "data", "m", "n", "k", "rows", "provider", "sqnr_db", "bit_exact")
SHAPES: dict[str, tuple[Shape, ...]] = {
    "cuda": ((8192, 8192, 1024), (8192, 8192, 8192)),
    "cpu": ((128, 128, 256), (128, 128, 1024)),
}
ROWS = 256  # of the product that are compared, at most
_GLOBAL_SCALES = {"nvfp4": 1 / 3}  # no power of two: multiplying by it rounds
_WITH_FAST_ACCUM = ("mxfp4",)  # on a GPU the others use nothing of the error that it allows


def tileon(operands: Operands, global_scale: torch.Tensor | None, *, fast_accum: bool = False) -> torch.Tensor:
    """Our product, by packed scales."""
    scale_a, scale_b = map(torch.ops.tileon.pack_scales, operands.scales)
    scales, options = (scale_a, scale_b, None, global_scale), {"out_dtype": torch.float32, "fast_accum": fast_accum}
    return torch.ops.tileon.block_scaled_matmul(operands.a, operands.b, *scales, **options)


def torch_bf16(operands: Operands, global_scale: torch.Tensor | None) -> torch.Tensor:
    """The peer; see the head of this file."""
    a, b = operands.dequantized(torch.bfloat16)
    on_gpu = a.device.type == "cuda"
    result = torch.mm(a, b.t(), out_dtype=torch.float32) if on_gpu else torch.mm(a.float(), b.float().t())
    return result if global_scale is None else result * global_scale


def reference(operands: Operands, global_scale: torch.Tensor | None, rows: torch.Tensor) -> torch.Tensor:
    """These rows of the product in float64."""
    a, b = operands.dequantized(torch.float32)
    result = a[rows].double() @ b.double().t()
    return result if global_scale is None else result * global_scale.double()


def accuracy(result: torch.Tensor, exact: torch.Tensor) -> tuple[float, bool]:
    """Signal to noise of a float32 result in dB over all elements together, and whether it is `exact` rounded."""
    noise = float((result.double() - exact).square().sum())
    signal = float(exact.square().sum())
    # The difference of two logarithms: an infinite error is -inf dB.
    decibels = 10 * (math.log10(signal) - math.log10(noise)) if noise else math.inf
    return decibels, torch.equal(result, exact.float())


@torch.inference_mode()
def measure(case: Case, device: torch.device, rows: int) -> dict[str, tuple[float, bool]]:
    """What accuracy() says of each provider, over at most `rows` rows."""
    operands = make_operands(case, device)
    factor = _GLOBAL_SCALES.get(case.dtype)
    global_scale = None if factor is None else torch.tensor(factor, device=device)
    drawn = torch.randperm(case.m, generator=torch.Generator().manual_seed(0))[:rows].to(device)
    exact = reference(operands, global_scale, drawn)
    found = {"tileon": accuracy(tileon(operands, global_scale)[drawn], exact)}
    if case.dtype in _WITH_FAST_ACCUM:
        found["tileon_fast"] = accuracy(tileon(operands, global_scale, fast_accum=True)[drawn], exact)
    found["torch_bf16"] = accuracy(torch_bf16(operands, global_scale)[drawn], exact)
    return found


def main() -> int:
    parser = command_line(__doc__)
    some_of(parser, "--format", FORMATS)
    parser.add_argument("--shapes", type=parse_shapes, help="MxNxK[,MxNxK...] (default 8192x8192 by two k on a GPU)")
    arguments = parser.parse_args()
    device = arguments.device
    shapes = arguments.shapes or SHAPES[device.type]
    try:
        kinds = itertools.product(arguments.format, DATA, shapes)
        cases = [Case(name, "NT", m, n, k, data=data) for name, data, (m, n, k) in kinds]
    except ValueError as error:
        parser.error(str(error))

    torch.set_float32_matmul_precision("highest")  # the peer on a CPU is no product of fewer bits
    factors = ", ".join(f"{name}'s global scale {value:.4g}" for name, value in _GLOBAL_SCALES.items())
    words = f"float64, rows of a drawn at random against all of b; float32 out; {factors}"
    rows = (
        [case.op, case.dtype, case.data, *case.shape, min(ROWS, case.m), provider, f"{decibels:.2f}", exact]
        for case in cases
        for provider, (decibels, is_exact) in measure(case, device, ROWS).items()
        for exact in ["yes" if is_exact else "no"]
    )
    return tabulate(arguments.csv, COLUMNS, rows, words, reference=words)


if __name__ == "__main__":
    raise SystemExit(main())
