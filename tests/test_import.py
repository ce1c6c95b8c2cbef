"""`import tileon_ops` brings no part of torch's compiler: that takes a second, and most programs never use it."""

from __future__ import annotations

import subprocess
import sys

COMPILERS = ("torch._dynamo", "torch._inductor", "torch.distributed.tensor", "sympy", "triton")


def test_importing_brings_no_compiler() -> None:
    source = (
        "import sys, torch\n"
        f"before = [name for name in {COMPILERS!r} if name in sys.modules]\n"
        "import tileon_ops\n"
        f"print(*(name for name in {COMPILERS!r} if name in sys.modules and name not in before))\n"
    )
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []
