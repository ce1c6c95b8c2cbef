"""What the ops return for tensors without data: under torch.compile and torch.export, and on the meta device.

Each op's rules are those of its header in csrc, in its order and its words; what they share is in checks.py, and the
first of all, that tensors must be tensors, in _rules/required.py.
"""

from __future__ import annotations

import torch

from tileon_ops._rules.fake import (
    block_scaled,
    block_scaled_backward,
    epilogue_backward,
    matmul,
    prepared,
    quantize,
    quantized_linear,
)
from tileon_ops._rules.fake.checks import Implementations
from tileon_ops._rules.required import with_check

IMPLEMENTATIONS: Implementations = {
    **matmul.IMPLEMENTATIONS,
    **epilogue_backward.IMPLEMENTATIONS,
    **block_scaled.IMPLEMENTATIONS,
    **block_scaled_backward.IMPLEMENTATIONS,
    **prepared.IMPLEMENTATIONS,
    **quantize.IMPLEMENTATIONS,
    **quantized_linear.IMPLEMENTATIONS,
}


def register() -> None:
    for op, implementation in IMPLEMENTATIONS.items():
        torch.library.register_fake(f"tileon::{op}", with_check(op, implementation))
