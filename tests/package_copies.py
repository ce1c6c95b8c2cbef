"""Copies of the package in folders of their own, with whatever library, and programs that run there."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tileon_ops"

IMPORT = "try:\n    import tileon_ops\nexcept ImportError as error:\n    print('ImportError:', error)\n"


def package_in(folder: pathlib.Path, *, with_library: bool = False) -> pathlib.Path:
    """The package, as if it were installed there; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    left_out = shutil.ignore_patterns("__pycache__", *([] if with_library else ["_C.*"]))
    shutil.copytree(PACKAGE, folder / "tileon_ops", ignore=left_out)
    return folder


def run(
    *arguments: str, path: pathlib.Path | str = ROOT, cwd: str | pathlib.Path = "/", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Python with these arguments, in a folder of no meaning, with `path` first on sys.path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TILEON_", "CUDA_VISIBLE"))}
    paths = os.pathsep.join([str(path), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=cwd,
        env={**kept, "PYTHONPATH": paths, **environment},
    )
