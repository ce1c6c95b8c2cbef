"""The section "cuda": driver, toolkit and GPUs, those that torch sees and those that it does not."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

from tileon_ops.info.doctor import Examination, Facts, Section

_NVIDIA = "0x10de"  # the PCI vendor
_DISPLAY = "0x03"  # the PCI class of GPUs, with and without a screen


def _output(*command: str) -> str:
    """What the program prints, "" where there is none that runs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def driver_version(root: Path = Path("/")) -> str | None:
    """The version of NVIDIA's kernel module."""
    match = re.search(r"Kernel Module.*?\s(\d+\.\d[\d.]*)", _text(root / "proc/driver/nvidia/version"))
    return match[1] if match else None


def driver_cuda() -> tuple[str | None, str | None]:
    """The newest CUDA that the driver's library knows, as "13.0", and why that cannot be known."""
    try:
        version = ctypes.c_int()
        status = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError) as error:
        return None, str(error)
    if status != 0 or version.value == 0:
        return None, f"cuDriverGetVersion answers {status}"
    return f"{version.value // 1000}.{version.value % 1000 // 10}", None


def gpus_of_torch() -> tuple[list[Facts], str | None]:
    """The GPUs that torch can use, and why there is none."""
    import torch

    if not torch.cuda.is_available():
        try:
            torch.cuda.init()
        except Exception as error:
            return [], " ".join(str(error).split())
        return [], "torch.cuda.is_available() is False"
    gpus = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        gpus.append(
            {
                "index": index,
                "name": properties.name,
                "capability": f"{properties.major}.{properties.minor}",
                "memory_gib": round(properties.total_memory / 2**30, 1),
                "found_by": "torch",
            }
        )
    return gpus, None


def _gpu(index: int, name: str, found_by: str, capability: str | None = None, memory: float | None = None) -> Facts:
    return {"index": index, "name": name, "capability": capability, "memory_gib": memory, "found_by": found_by}


def gpus_of_machine(root: Path = Path("/")) -> list[Facts]:
    """The GPUs that the driver or the PCI bus shows, whatever torch says."""
    table = _output("nvidia-smi", "--query-gpu=name,compute_cap,memory.total", "--format=csv,noheader,nounits")
    rows = [[cell.strip() for cell in line.split(",")] for line in table.splitlines() if line.count(",") == 2]
    if rows:
        return [
            _gpu(index, name, "nvidia-smi", capability, round(float(mib) / 1024, 1) if mib.isdecimal() else None)
            for index, (name, capability, mib) in enumerate(rows)
        ]
    files = sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
    if files:
        names = [re.search(r"Model:\s*(.+)", _text(file)) for file in files]
        return [
            _gpu(index, name[1].strip() if name else "NVIDIA GPU", "/proc/driver/nvidia")
            for index, name in enumerate(names)
        ]
    devices = sorted((root / "sys/bus/pci/devices").glob("*/vendor"))
    on_bus = [
        file.parent.name
        for file in devices
        if _text(file).strip() == _NVIDIA and _text(file.with_name("class")).startswith(_DISPLAY)
    ]
    return [_gpu(index, f"NVIDIA GPU at {address}", "/sys/bus/pci") for index, address in enumerate(on_bus)]


def toolkit() -> tuple[str | None, str | None]:
    """nvcc's version and path, where the build would look for it."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")]
    candidates = [f"{home}/bin/nvcc" for home in homes if home]
    candidates += [*filter(None, [shutil.which("nvcc")]), "/usr/local/cuda/bin/nvcc"]
    for nvcc in candidates:
        match = re.search(r"release (\d+\.\d+)", _output(nvcc, "--version"))
        if match:
            return match[1], nvcc
    return None, None


def numbers(version: str) -> tuple[int, ...]:
    """ "13.0" as (13, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def why_torch_sees_none(facts: Facts, torch_version: str | None, torch_cuda: str | None) -> tuple[str, str]:
    """For a machine whose GPU torch does not see: why, and what to do."""
    name = facts["gpus"][0]["name"]
    if torch_cuda is None:
        return (
            f"This machine has a GPU ({name}), and torch {torch_version} is built without CUDA.",
            "To use it, install a torch built with CUDA: see https://pytorch.org/get-started/locally",
        )
    if facts["visible_devices"] is not None:
        shown = facts["visible_devices"]
        return (
            f"This machine has a GPU ({name}), and CUDA_VISIBLE_DEVICES={shown!r} hides it from torch.",
            "Unset that variable, or name a GPU that is there.",
        )
    if facts["driver_cuda"] is None:
        return (
            f"This machine has a GPU ({name}), and no driver library that answers: {facts['driver_problem']}.",
            "Install NVIDIA's driver; in a container, start it with the NVIDIA container toolkit (docker: --gpus all).",
        )
    if numbers(facts["driver_cuda"]) < numbers(torch_cuda)[:1]:
        return (
            f"The driver {facts['driver']} knows CUDA up to {facts['driver_cuda']}, and torch is built for CUDA "
            f"{torch_cuda}.",
            f"Update NVIDIA's driver to one for CUDA {numbers(torch_cuda)[0]}, or install a torch built for CUDA "
            f"{facts['driver_cuda']} or older.",
        )
    return (
        f"This machine has a GPU ({name}) that torch cannot use: {facts['torch_problem']}",
        "Make `python -c 'import torch; torch.cuda.init()'` work first.",
    )


def _look(examination: Examination) -> None:
    facts = examination.facts
    facts["driver"] = driver_version()
    facts["driver_cuda"], facts["driver_problem"] = driver_cuda()
    facts["toolkit"], facts["toolkit_path"] = toolkit()
    facts["visible_devices"] = os.environ.get("CUDA_VISIBLE_DEVICES")
    torch_works = examination.known("torch", "version") is not None
    if torch_works:
        facts["gpus"], facts["torch_problem"] = gpus_of_torch()
    facts["usable_by_torch"] = bool(facts["gpus"])
    if facts["gpus"]:
        return
    facts["gpus"] = gpus_of_machine()
    if facts["gpus"] and torch_works and not examination.known("torch", "hip"):
        torch = examination.earlier["torch"]
        examination.warning(*why_torch_sees_none(facts, torch["version"], torch["cuda"]))


CUDA = Section(
    "cuda",
    {
        **dict.fromkeys(("driver", "driver_cuda", "driver_problem", "toolkit", "toolkit_path", "visible_devices")),
        "usable_by_torch": False,
        "torch_problem": None,
        "gpus": [],
    },
    _look,
)
