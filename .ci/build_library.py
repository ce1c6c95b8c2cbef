"""Builds tileon_ops/_C.so in place if it is not up to date: what `make library` runs, and `make watchdog` for its own.

The check comes first and needs the standard library alone, so that a library built elsewhere is taken as it is on a
machine without setuptools.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def is_current() -> bool:
    """Whether the library will certainly do. Where that hangs on what can be built here, setup.py has the last word."""
    if os.environ.get("TORCH_CUDA_ARCH_LIST"):
        return False
    path = ROOT / "tileon_ops" / "_loading" / "build_state.py"  # by its path: the package would want the library
    spec = importlib.util.spec_from_file_location("_tileon_build_state", path)
    assert spec is not None
    assert spec.loader is not None
    build_state = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = build_state  # dataclasses looks its module up there
    spec.loader.exec_module(build_state)
    cpu_only = os.environ.get("TILEON_CPU_ONLY", "0") == "1"
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    nvcc = shutil.which("nvcc") or any(home and Path(home, "bin", "nvcc").exists() for home in homes)
    watchdog = os.environ.get("TILEON_WATCHDOG", "0") == "1"
    reason = build_state.why_rebuild(
        ROOT, cuda=bool(nvcc) and not cpu_only, cpu_only=cpu_only, targets=None, watchdog=watchdog
    )
    return reason is None


def main() -> int:
    if is_current():
        print("tileon_ops: _C.so is up to date")
        return 0
    if importlib.util.find_spec("setuptools") is None:
        print("the library must be built, and that needs setuptools, which this Python does not have")
        return 1
    return subprocess.run([sys.executable, "setup.py", "build_ext", "--inplace"], cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
