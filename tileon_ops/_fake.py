"""What the ops return for tensors without data: under torch.compile and torch.export, and on the meta device.

Each op's rules are those of its header in csrc, in its order and its words; what they share is in _fake_rules.py, and
the first of all, that tensors must be tensors, in _required.py.
"""

from __future__ import annotations

import torch

from tileon_ops import _fake_block_scaled, _fake_epilogue_backward, _fake_matmul, _fake_prepared, _fake_quantize
from tileon_ops._fake_rules import Implementations
from tileon_ops._required import with_check

IMPLEMENTATIONS: Implementations = {
    **_fake_matmul.IMPLEMENTATIONS,
    **_fake_epilogue_backward.IMPLEMENTATIONS,
    **_fake_block_scaled.IMPLEMENTATIONS,
    **_fake_prepared.IMPLEMENTATIONS,
    **_fake_quantize.IMPLEMENTATIONS,
}


def register() -> None:
    for op, implementation in IMPLEMENTATIONS.items():
        torch.library.register_fake(f"tileon::{op}", with_check(op, implementation))
