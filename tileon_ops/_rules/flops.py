"""The products' floating point operations for torch.utils.flop_counter: 2 * batch * m * n * k, as torch counts its own.

Bias and activation count nothing, as in torch. That module imports triton where there is one, which takes longer than
all of this package. So the formulas are registered at once where it has been imported, otherwise when it is.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import torch
from torch import Tensor

from tileon_ops._loading.import_hook import after_import
from tileon_ops._rules.fake.block_scaled import elements_in_a_row
from tileon_ops._rules.fake.checks import Size
from tileon_ops._rules.fake.matmul import batch
from tileon_ops._rules.inductor import OPS, compiled_name

_MODULE = "torch.utils.flop_counter"


def _matmul(a: Tensor, b: Tensor, *_: Any, **__: Any) -> Size:
    return 2 * batch(a, b) * a.shape[-2] * a.shape[-1] * b.shape[-1]


def _block_scaled_matmul(a: Tensor, b: Tensor, *_: Any, **__: Any) -> Size:
    return 2 * a.shape[0] * elements_in_a_row(a) * b.shape[0]


def _quantized_linear(x: Tensor, b: Tensor, *_: Any, **__: Any) -> Size:
    return 2 * x.shape[0] * x.shape[1] * b.shape[0]


def _block_scaled_backward(grad: Tensor, b: Tensor, *_: Any, **__: Any) -> Size:
    return 2 * grad.shape[0] * elements_in_a_row(b) * b.shape[0]


_FORMULAS = {
    "matmul": _matmul,  # its `out` overload too
    "_matmul_with_preactivation": _matmul,
    "_matmul_with_config": _matmul,
    "block_scaled_matmul": _block_scaled_matmul,
    "_block_scaled_matmul_with_config": _block_scaled_matmul,
    "_block_scaled_matmul_prepared": _block_scaled_matmul,
    "_quantized_linear": _quantized_linear,
    "_block_scaled_backward": _block_scaled_backward,
}


def _register() -> None:
    try:
        flop_counter = sys.modules[_MODULE]
        compiled = {compiled_name(op): _FORMULAS[op] for op in OPS if op in _FORMULAS}
        for op, formula in {**_FORMULAS, **compiled}.items():
            # raw: with the tensors, whose dtype tells how many elements a byte holds
            flop_counter.register_flop_formula(getattr(torch.ops.tileon, op), get_raw=True)(formula)
    except Exception as error:  # torch's, or somebody's who has registered the ops: torch's compiler imports the module
        warnings.warn(
            f"tileon_ops could not tell {_MODULE} how many operations its products take, so it counts none for those "
            f"that it was not told; torch {torch.__version__} says: {type(error).__name__}: {error}",
            stacklevel=2,
        )


def register() -> None:
    after_import(_MODULE, _register)
