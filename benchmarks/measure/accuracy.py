"""Errors of tileon and torch against a float64 product of the same operands: `python -m benchmarks.measure.accuracy`.

The errors are absolute, of normal random data.
`max_scaled` is the largest |error| / (sum over k of |a||b|) in units of 2^-23, the measure in which
(4 + 2 sqrt k) is promised; it includes the output's rounding, so it says little for 16-bit outputs.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.common.cases import Case, Shape, make_operands
from benchmarks.common.command import command_line, tabulate
from benchmarks.measure.peers.providers import NotOffered, tileon_call, torch_call

COLUMNS = ("op", "dtype", "layout", "m", "n", "k", "provider", "max_error", "rms_error", "max_scaled")
_DTYPES = ("float32", "tf32", "float16", "bfloat16")  # float64 would need a wider reference
# Squares and a long k; smaller on a CPU.
_SHAPES: dict[str, tuple[Shape, ...]] = {
    "cuda": ((512, 512, 256), (1024, 1024, 1024), (256, 256, 65536), (4096, 4096, 4096)),
    "cpu": ((512, 512, 256), (1024, 1024, 1024), (128, 128, 16384)),
}


def errors(result: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[float, float, float]:
    """(largest, root mean square, largest scaled) error of `result` as a @ b; see the head of this file."""
    exact = a.double() @ b.double()
    size = a.double().abs() @ b.double().abs()
    error = (result.double() - exact).abs()
    scaled = error / size.clamp_min(torch.finfo(torch.float64).tiny) * 2.0**23
    return error.max().item(), error.square().mean().sqrt().item(), scaled.max().item()


@torch.inference_mode()
def _rows(case: Case, device: torch.device) -> Iterator[list[object]]:
    torch.set_float32_matmul_precision("high" if case.dtype == "tf32" else "highest")
    operands = make_operands(case, device)
    try:
        calls = {"tileon": tileon_call(case, operands), "torch": torch_call(case, operands)}
    except NotOffered:
        return
    for provider, call in calls.items():
        figures = [f"{value:.4g}" for value in errors(call(), operands.a, operands.b)]
        yield [case.op, case.dtype, case.layout, *case.shape, provider, *figures]


def main() -> int:
    arguments = command_line(__doc__).parse_args()
    device = arguments.device
    cases = [Case(dtype, "NN", *shape) for dtype in _DTYPES for shape in _SHAPES[device.type]]
    return tabulate(arguments.csv, COLUMNS, (row for case in cases for row in _rows(case, device)), reference="float64")


if __name__ == "__main__":
    raise SystemExit(main())
