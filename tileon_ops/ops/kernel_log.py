"""`tileon_ops.last_kernel`: which kernel the last op of this thread ran."""

from __future__ import annotations

import torch


def last_kernel() -> str:
    """The kernel that this thread's last op ran.

    Returns:
        On a GPU the config of a product, such as `sm90_gemm_128x256x64` for backend, family, output tile and step of
        k; of the other ops the kernel's name. On the CPU a name that begins with `cpu_`. `(a copied)`, `(b copied)` or
        `(a, b copied)` follows where an operand could not be read in place, `(short of memory)` where the memory that a
        faster kernel needs besides the result did not fit. Empty before the first op.

    Each thread has its own, and the backward pass on a GPU runs on threads of autograd's: `TILEON_LOG=1` in the
    environment shows its kernels too. A graph replayed, or a call that failed, changes nothing. Not for the inside of a
    compiled function, where it breaks the graph.
    """
    return str(torch.ops.tileon._last_kernel())
