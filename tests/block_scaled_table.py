"""The tile table of block-scaled products as the tests see it, and the parameters of tests that go through its rows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
import torch
from block_scaled_operands import FORMATS, SCALE_PAIRS, Format, Operand
from torch import Tensor

import tileon_ops  # noqa: F401
from tileon_ops._rules import configs
from tileon_ops._rules.configs import Config

HAS_GPU = torch.cuda.is_available()
HAS_HOPPER_GPU = HAS_GPU and torch.cuda.get_device_capability() == (9, 0)
NO_ROWS = "CPU-only build: the table of block-scaled products is empty"
NO_HOPPER_GPU = "Hopper kernels run on compute capability 9.0 alone"

# What a row says of an operand that it cannot load; nothing else may make a test pass a row over.
CANNOT_READ = re.compile(
    r"^block_scaled_matmul: .*"
    r"(cannot read the strides or the alignment of `(a|b|scale_a|scale_b)`|takes packed scales)"
)


@dataclass(frozen=True)
class BlockScaledRow:
    """One row of the table, for one of the formats that it multiplies."""

    config: Config
    fmt: Format

    def __str__(self) -> str:
        return f"{self.name}-{self.fmt}"

    @property
    def index(self) -> int:
        return self.config.index

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def tile(self) -> tuple[int, int, int]:
        return self.config.tile

    @property
    def is_hopper(self) -> bool:
        return self.config.backend == "sm90"

    @property
    def takes_few_rows(self) -> bool:
        return self.config.family == "small_m"

    @property
    def decodes_weight(self) -> bool:
        """In the main loop: of b it takes packed scales alone, and no k of 0."""
        return self.name.startswith("sm90_weight")

    @property
    def k_step(self) -> int:
        """What k is a multiple of: where TMA reads codes as they lie, each row must begin at 16 bytes."""
        return 32 if self.takes_few_rows or self.decodes_weight else self.fmt.vec

    @property
    def scale_forms(self) -> tuple[tuple[str, str], ...]:
        return tuple(pair for pair in SCALE_PAIRS if not self.decodes_weight or pair[1] == "packed")

    def run(
        self,
        a: Operand,
        b: Operand,
        *tail: Tensor | None,
        forms: tuple[str, str] = ("packed", "packed"),
        **options: object,
    ) -> Tensor:
        """This row's result, from contiguous operands; asserts that this row ran."""
        datas = a.data(), b.data()
        return self.run_on(*datas, a.scale_tensor(forms[0]), b.scale_tensor(forms[1]), *tail, **options)

    def run_on(
        self, a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, *tail: Tensor | None, **options: object
    ) -> Tensor:
        op = torch.ops.tileon._block_scaled_matmul_with_config
        result: Tensor = op(a, b, scale_a, scale_b, *tail, config=self.index, **options)
        if result.numel() and a.shape[-1]:
            # operands that the row does not read were copied first, and are named behind it
            assert torch.ops.tileon._last_kernel().split(" (")[0] == self.name
        return result


# What configs say that take one of mixed's two orders alone.
_OF_BOTH = {"mixed": "mxfp8*mxfp4", "mixed_reversed": "mxfp4*mxfp8"}


def block_scaled_rows() -> list[BlockScaledRow]:
    """Every config with each of its formats, mixed in its two orders. Empty in a CPU-only build.

    Torch's own scaled_mm, which is a config too, is left out: its kernels are not ours. So are folds, which round:
    test_fold.py has them.
    """
    ours = [config for config in configs.block_scaled() if config.backend != "torch" and config.route != "folded"]
    return [
        BlockScaledRow(config, fmt)
        for config in ours
        for fmt in FORMATS
        if not {fmt.name.removesuffix("_reversed"), _OF_BOTH.get(fmt.name)}.isdisjoint(config.operands)
    ]


TABLE = block_scaled_rows()


def each_block_scaled_row(rows: Iterable[BlockScaledRow] = TABLE) -> pytest.MarkDecorator:
    """Parametrizes `row`; where there are none, one test is left out for that reason."""
    no_rows = pytest.mark.skipif(HAS_GPU, reason=NO_ROWS)  # without a GPU that is the reason
    no_hopper = pytest.mark.skipif(HAS_GPU and not HAS_HOPPER_GPU, reason=NO_HOPPER_GPU)
    parameters: list[object] = [
        pytest.param(row, id=str(row), marks=(no_hopper,) if row.is_hopper else ()) for row in rows
    ]
    return pytest.mark.parametrize("row", parameters or [pytest.param(None, id="no_rows", marks=no_rows)])
