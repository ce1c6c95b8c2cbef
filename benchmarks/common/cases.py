"""What is measured: a product's dtype, layout, size and epilogue, and random operands for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

# By the name used in the files, a dtype of both operands. `tf32` is float32 operands with TF32 allowed.
DTYPES: dict[str, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "tf32": torch.float32,
    "float64": torch.float64,
}
# Without tf32: for the scripts that leave torch's setting for it alone.
TORCH_DTYPES = {name: dtype for name, dtype in DTYPES.items() if name != "tf32"}
# The pairings of fp8: the dtypes of a and b.
FP8_PAIRINGS: dict[str, tuple[torch.dtype, torch.dtype]] = {
    "e4m3": (torch.float8_e4m3fn, torch.float8_e4m3fn),
    "e5m2": (torch.float8_e5m2, torch.float8_e5m2),
    "e4m3xe5m2": (torch.float8_e4m3fn, torch.float8_e5m2),
    "e5m2xe4m3": (torch.float8_e5m2, torch.float8_e4m3fn),
}
DTYPE_NAMES = (*DTYPES, *FP8_PAIRINGS)
LAYOUTS = ("NN", "NT", "TN", "TT")
ACTIVATIONS = ("none", "relu", "leaky_relu", "gelu", "gelu_tanh", "silu")
EPILOGUES = ("none", "leaky_relu", "bias", "bias+leaky_relu")  # what is measured by default
SLOPE = 0.01


def tflops(m: int, n: int, k: int, microseconds: float) -> float:
    """Rate of a product: 2 m n k operations."""
    return 2.0 * m * n * k / microseconds * 1e-6


@dataclass(frozen=True)
class Case:
    """One product: (m, k) @ (k, n).

    The layout's first letter is a's, the second b's. N: contiguous as it stands; T: a transposed view of a contiguous
    tensor of the transposed shape. The epilogue is an activation, `bias`, or `bias+<activation>`.
    """

    dtype: str
    layout: str
    m: int
    n: int
    k: int
    epilogue: str = "none"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPE_NAMES:
            raise ValueError(f"unknown dtype {self.dtype!r}; there are {', '.join(DTYPE_NAMES)}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"unknown layout {self.layout!r}; there are {', '.join(LAYOUTS)}")
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"unknown epilogue {self.epilogue!r}; it is 'bias', an activation or 'bias+<activation>', with the "
                f"activations {', '.join(ACTIVATIONS)}"
            )

    @property
    def has_bias(self) -> bool:
        return self.epilogue.split("+")[0] == "bias"

    @property
    def activation(self) -> str:
        parts = self.epilogue.split("+")
        return "+".join(parts[1:] if parts[0] == "bias" else parts) or "none"

    @property
    def torch_dtypes(self) -> tuple[torch.dtype, torch.dtype]:
        """Of a and of b."""
        return FP8_PAIRINGS[self.dtype] if self.is_fp8 else (DTYPES[self.dtype], DTYPES[self.dtype])

    @property
    def allow_tf32(self) -> bool:
        return self.dtype == "tf32"

    @property
    def is_fp8(self) -> bool:
        return self.dtype in FP8_PAIRINGS

    @property
    def out_dtype(self) -> torch.dtype:
        """The result's and the bias's."""
        return torch.float16 if self.is_fp8 else DTYPES[self.dtype]

    @property
    def bytes(self) -> int:
        """Of both operands and the result."""
        operands = (self.m * self.k + self.k * self.n) * self.torch_dtypes[0].itemsize  # b's is as wide
        return operands + self.m * self.n * self.out_dtype.itemsize

    def tflops(self, microseconds: float) -> float:
        """Rate of the product alone (2 m n k operations), whatever the epilogue."""
        return tflops(self.m, self.n, self.k, microseconds)


@dataclass(frozen=True)
class Operands:
    """a: (m, k), b: (k, n), bias: (n,) in the result's dtype, or None."""

    a: torch.Tensor
    b: torch.Tensor
    bias: torch.Tensor | None


def make_operands(case: Case, device: torch.device, seed: int = 0) -> Operands:
    """Normal random data (zeros run faster than real data: fewer bits toggle), in the case's layout."""
    generator = torch.Generator(device=device).manual_seed(seed)

    def normal(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        draw = torch.float64 if case.dtype == "float64" else torch.float32
        return torch.randn(*shape, generator=generator, device=device, dtype=draw).to(dtype)

    def matrix(rows: int, columns: int, letter: str, dtype: torch.dtype) -> torch.Tensor:
        return normal(rows, columns, dtype=dtype) if letter == "N" else normal(columns, rows, dtype=dtype).t()

    dtype_a, dtype_b = case.torch_dtypes
    return Operands(
        a=matrix(case.m, case.k, case.layout[0], dtype_a),
        b=matrix(case.k, case.n, case.layout[1], dtype_b),
        bias=normal(case.n, dtype=case.out_dtype) if case.has_bias else None,
    )


Shape = tuple[int, int, int]  # m, n, k


@dataclass(frozen=True)
class Work:
    """A case, and who computes it; None is the default of measure/matmul.py."""

    case: Case
    providers: tuple[str, ...] | None = None


def squares(
    sizes: Sequence[int], dtypes: Sequence[str], layouts: Sequence[str], epilogues: Sequence[str]
) -> list[Case]:
    """Every combination, m = n = k."""
    return [
        Case(dtype, layout, size, size, size, epilogue)
        for dtype in dtypes
        for layout in layouts
        for epilogue in epilogues
        for size in sizes
    ]
