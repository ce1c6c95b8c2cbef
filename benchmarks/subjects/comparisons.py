"""What is compared with what: the kinds of product that README's table and the picture over it both show.

They stand here once, so that a row of the table and the row of that name in the picture hold the same cases. Each names
its layout, as benchmarks/problems.py does: NN is a @ b of row-major operands, NT x @ weight.t(), a linear layer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from benchmarks.common.times import Key, Ratios, Times, ratios
from benchmarks.report.targets import linear, plain
from benchmarks.subjects.bars_fp8 import ACCUMULATIONS, OFFERED_BY_TORCH

SIXTEEN_BITS = ("float16", "bfloat16")
_FUSED = "bias+leaky_relu"


@dataclass(frozen=True)
class Comparison:
    """A kind of product, and a peer's time over ours in each of its cases."""

    words: str  # what is multiplied, and in which layout
    peer: str  # as the result files name it: torch or triton
    found: Ratios


def _squares(dtypes: Collection[str], *layouts: str, epilogue: str = "none") -> Callable[[Key], bool]:
    return lambda key: key.dtype in dtypes and key.layout in layouts and key.is_square and key.epilogue == epilogue


def _those_found(among: list[tuple[str, str, Ratios | None]]) -> list[Comparison]:
    return [Comparison(words, peer, found) for words, peer, found in among if found is not None]


def _of_dtypes(times: Times, words: str, dtypes: Collection[str]) -> list[tuple[str, str, Ratios | None]]:
    """Squares against torch: NN and NT apart, for they differ, and every linear layer is NT."""
    over_torch = {
        "NN": _squares(dtypes, "NN"),
        "NT": _squares(dtypes, "NT"),
        "TN and TT": _squares(dtypes, "TN", "TT"),
        "NN, bias + leaky_relu": _squares(dtypes, "NN", epilogue=_FUSED),
    }
    return [
        (f"{words} squares, {layout}", "torch", ratios(times, "torch", "tileon", among))
        for layout, among in over_torch.items()
    ]


def matmul_comparisons(times: Times) -> list[Comparison]:
    """Of matmul.csv."""
    triton = ratios(times, "triton", "tileon", _squares(SIXTEEN_BITS, "NN"))
    return _those_found(
        [
            *_of_dtypes(times, "16-bit", SIXTEEN_BITS),
            ("bfloat16 linear layers, NT", "torch", linear(times)),
            ("16-bit squares, NN", "triton", triton),
        ]
    )


def float32_comparisons(times: Times) -> list[Comparison]:
    """Of float32.csv: the kernels that the library chooses, without TF32."""
    gradients = ratios(times, "torch", "tileon", plain("float32", "TN", squares=False))
    return _those_found(
        [
            *_of_dtypes(times, "float32", ("float32",)),
            ("float32 linear layers, NT", "torch", linear(times, "float32")),
            ("float32 weight gradients, TN", "torch", gradients),
        ]
    )


def portable_comparisons(times: Times, *, float32: bool) -> list[Comparison]:
    """Of portable.csv: the dtypes without kernels of Hopper's own, and float32 where no float32.csv says more of it."""
    words = {"tf32": "float32 squares, NN, TF32 allowed", "float64": "float64 squares, NN"}
    if float32:
        words = {"float32": "float32 squares, NN, portable kernels", **words}
    return _those_found(
        [(what, "torch", ratios(times, "torch", "tileon", _squares((name,), "NN"))) for name, what in words.items()]
    )


def fp8_comparisons(times: Times) -> list[Comparison]:
    """Of fp8.csv: each accumulation against its counterpart in `torch._scaled_mm`."""
    words = {"precise": "fp8 squares, NT", "fast": "fp8 squares, NT, `fast_accum`"}
    squares = _squares(OFFERED_BY_TORCH, "NT")
    return _those_found(
        [(words[name], "torch", ratios(times, peer, ours, squares)) for name, (ours, peer) in ACCUMULATIONS.items()]
    )
