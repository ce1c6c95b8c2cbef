"""The sections "package", "python" and "torch": what runs, and which torch it finds."""

from __future__ import annotations

import importlib.util
import platform
import sys
import sysconfig
from pathlib import Path

from tileon_ops._loading.build_state import PACKAGE
from tileon_ops._version import __version__
from tileon_ops.info.doctor import Examination, Section, described

INSTALL = "Install torch 2.11 or newer into this environment: see https://pytorch.org/get-started/locally"
IMPORT_IT = f"Make `python -c 'import torch'` work first. {INSTALL}"


def _look_at_package(examination: Examination) -> None:
    examination.facts.update(version=__version__, path=str(PACKAGE), is_source_tree=(PACKAGE.parent / "csrc").is_dir())


def _look_at_python(examination: Examination) -> None:
    examination.facts.update(
        version=platform.python_version(),
        executable=sys.executable,
        platform=platform.platform(),
        machine=platform.machine(),
        libc=" ".join(platform.libc_ver()) or None,
        free_threaded=bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    )
    if sys.platform != "linux":
        examination.error(f"tileon_ops is for Linux, and this is {sys.platform}.", "Use it on Linux (WSL 2 is one).")


def _look_at_torch(examination: Examination) -> None:
    facts = examination.facts
    spec = importlib.util.find_spec("torch")
    if spec is None:
        facts["failure"] = "there is no torch"
        examination.error(f"{sys.executable} has no torch.", INSTALL)
        return
    facts["path"] = spec.origin or ", ".join(spec.submodule_search_locations or [])
    if spec.origin is None:  # a folder without __init__.py: what a broken removal leaves, or a folder of that name
        examination.error(f"`torch` is a folder without code here: {facts['path']}.", f"Remove it. {INSTALL}")
    try:
        import torch
    except (Exception, SystemExit) as error:  # a broken torch ends in errors of any kind
        facts["failure"] = described(error)
        examination.error(f"`import torch` fails: {facts['failure'].rstrip('.')}.", IMPORT_IT)
        return
    facts["version"] = getattr(torch, "__version__", None) and str(torch.__version__)
    facts["path"] = str(Path(torch.__file__).parent) if torch.__file__ else facts["path"]
    if facts["version"] is None:
        facts["failure"] = "it has no __version__"
        examination.error(f"`torch` is not PyTorch here: {facts['path']}.", "Rename what shadows it.")
        return
    facts["cuda"] = torch.version.cuda
    facts["hip"] = getattr(torch.version, "hip", None)
    facts["cxx11_abi"] = torch.compiled_with_cxx11_abi()
    facts["debug"] = torch.version.debug
    if facts["hip"]:
        examination.warning(
            f"This torch is built for AMD's GPUs (HIP {facts['hip']}), and the library has kernels for NVIDIA's alone.",
            "Use CPU tensors, or a torch built with CUDA.",
        )


PACKAGE_SECTION = Section("package", {"version": None, "path": None, "is_source_tree": None}, _look_at_package)

PYTHON = Section(
    "python",
    dict.fromkeys(("version", "executable", "platform", "machine", "libc", "free_threaded")),
    _look_at_python,
)

TORCH = Section(
    "torch",
    dict.fromkeys(("version", "path", "cuda", "hip", "cxx11_abi", "debug", "failure")),
    _look_at_torch,
    if_it_fails=IMPORT_IT,
)
