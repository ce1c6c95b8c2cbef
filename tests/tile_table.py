"""The tile table as the tests see it: what each row can run, and the parameters of tests that go through the rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
import torch
from operands import LAYOUTS
from reference import OUT_DTYPES
from torch import Tensor

import tileon_ops  # noqa: F401
from tileon_ops._rules import configs
from tileon_ops._rules.configs import Config

DTYPES = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "tf32": torch.float32,
    "float64": torch.float64,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
}
HAS_GPU = torch.cuda.is_available()
HAS_HOPPER_GPU = HAS_GPU and torch.cuda.get_device_capability() == (9, 0)
NO_ROWS = "CPU-only build: the tile table is empty"
NO_HOPPER_ROWS = "this library has no Hopper kernels"
NO_HOPPER_GPU = "Hopper kernels run on compute capability 9.0 alone"
HAS_FLOAT8_GPU = HAS_GPU and torch.cuda.get_device_capability() >= (8, 9)
NO_FLOAT8_GPU = "fp8 instructions need compute capability 8.9"

# What a row says of an operand that it cannot load in 16-byte pieces; nothing else may make a test pass a row over.
CANNOT_READ = re.compile(r"^matmul: .*cannot read the strides or the alignment of `[ab]`")


@dataclass(frozen=True)
class Row:
    """One row of the tile table, for one of the dtypes that it multiplies: `kind` is one of the config's operands."""

    config: Config
    kind: str

    def __str__(self) -> str:
        return f"{self.name}-{self.kind}"

    @property
    def index(self) -> int:
        return self.config.index

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def dtype(self) -> torch.dtype:
        """Of `a`, and of `b` unless that has another."""
        return DTYPES[self.kind.partition("*")[0]]

    @property
    def b_dtype(self) -> torch.dtype:
        return DTYPES[self.kind.rpartition("*")[2]]

    @property
    def out_dtype(self) -> torch.dtype:
        """Of the result, unless told."""
        return OUT_DTYPES[self.dtype][0]

    @property
    def layouts(self) -> tuple[str, ...]:
        """Those that the row reads where every line starts at a multiple of 16 bytes: fp8 instructions take k-major, as
        does what reads a few rows of float32. Hopper's of tf32 take one operand that does not lie so."""
        if self.is_hopper and self.kind == "tf32":
            return {"cooperative": ("TT", "NT"), "swap_ab": ("NN", "NT")}.get(self.config.family, ("NT",))
        return ("NT",) if self.is_float8 or self.config.family == "skinny" else LAYOUTS

    @property
    def tile(self) -> tuple[int, int, int]:
        return self.config.tile

    @property
    def splits(self) -> int:
        return self.config.splits

    @property
    def is_hopper(self) -> bool:
        return self.config.backend == "sm90"

    @property
    def is_float8(self) -> bool:
        """Whether its kernels are those of fp8 alone."""
        return all(kind.startswith("float8") for kind in self.config.operands)

    def more_error(self, k: int) -> float:
        """Beyond that of fp8 in reference.py, in units of sum |a||b|, on random data; fp8_sums.py has the bound.

        Hopper's instructions align 32 products and the sum so far to the largest of them. Over a short k a few products
        stand for all; without promotion the sum's own steps grow with it, to 2^-12 and, seldom, beyond.
        """
        if not (self.is_hopper and self.is_float8):
            return 0.0
        return 2.0**-11 if k < 1024 or self.config.route == "fast" else 0.0

    @property
    def is_decomposed(self) -> bool:
        """Hopper's of float32, whose operands become three bfloat16 each."""
        return self.config.route == "bf16x6"

    @property
    def reads_any_strides(self) -> bool:
        return self.is_decomposed or self.config.family in ("mma_gather", "direct", "simt", "dmma", "narrow")

    def run(self, a: Tensor, b: Tensor, bias: Tensor | None = None, **epilogue: object) -> Tensor:
        """This row's result; asserts that this row ran and nothing was copied."""
        op = torch.ops.tileon._matmul_with_config
        result: Tensor = op(a, b, bias, config=self.index, allow_tf32=self.kind == "tf32", **epilogue)
        if result.numel() and a.shape[-1]:
            assert torch.ops.tileon._last_kernel() == self.name
        return result

    def run_or_refuse(self, a: Tensor, b: Tensor) -> Tensor | None:
        """None where the row says that it cannot read an operand; any other error is raised."""
        try:
            return self.run(a, b)
        except RuntimeError as error:
            if not CANNOT_READ.search(str(error)):
                raise
            return None


TABLE = [Row(config, kind) for config in configs.dense() for kind in config.operands]
HOPPER_ROWS = [row for row in TABLE if row.is_hopper and row.dtype.itemsize == 2]  # of 16-bit operands
HOPPER_FLOAT32_ROWS = [row for row in TABLE if row.is_decomposed]
HOPPER_FLOAT8_ROWS = [row for row in TABLE if row.is_hopper and row.is_float8]
HAS_HOPPER = HAS_HOPPER_GPU and bool(HOPPER_ROWS)

on_hopper = pytest.mark.skipif(
    HAS_GPU and not HAS_HOPPER, reason=NO_HOPPER_GPU if HOPPER_ROWS and not HAS_HOPPER_GPU else NO_HOPPER_ROWS
)


def _left_out(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(HAS_GPU, reason=reason)  # without a GPU that is the reason, for every row alike


def _marks(row: Row) -> tuple[pytest.MarkDecorator, ...]:
    if row.is_hopper and not HAS_HOPPER_GPU:
        return (_left_out(NO_HOPPER_GPU),)
    return (_left_out(NO_FLOAT8_GPU),) if row.is_float8 and not HAS_FLOAT8_GPU else ()


def each_row(rows: Iterable[Row] = TABLE, none: str = NO_ROWS) -> pytest.MarkDecorator:
    """Parametrizes `row`; where there are none, one test is left out for the reason `none`."""
    parameters: list[object] = [pytest.param(row, id=str(row), marks=_marks(row)) for row in rows]
    return pytest.mark.parametrize("row", parameters or [pytest.param(None, id="no_rows", marks=_left_out(none))])


def each_row_and_layout(rows: Iterable[Row] = TABLE, none: str = NO_ROWS) -> pytest.MarkDecorator:
    """Parametrizes `row` and `layout`, all layouts of one row in sequence, so that they share what is cached."""
    parameters: list[object] = [
        pytest.param(row, layout, id=f"{row}-{layout}", marks=_marks(row)) for row in rows for layout in row.layouts
    ]
    none_at_all = [pytest.param(None, "NN", id="no_rows", marks=_left_out(none))]
    return pytest.mark.parametrize(("row", "layout"), parameters or none_at_all)


def last_config() -> Config:
    """The config that the last product of this thread ran."""
    config = configs.config_of(torch.ops.tileon._last_kernel())
    assert config is not None, torch.ops.tileon._last_kernel()
    return config
