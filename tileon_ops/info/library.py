"""The section "library": what it was built for, whether it loads, and what of it each GPU here would run."""

from __future__ import annotations

import hashlib
import importlib
import sys
from pathlib import Path

from tileon_ops._loading import build_state
from tileon_ops._version import __version__
from tileon_ops.info.cuda import numbers
from tileon_ops.info.doctor import Examination, Facts, Section, described

OLDEST_GPU = (8, 0)  # the portable kernels use instructions of this compute capability
NEEDS = ("torch", "version")  # of an earlier section; without it there is nothing to load the library into


def image_for(targets: list[str], capability: tuple[int, int]) -> str | None:
    """Which of the library's targets a GPU runs: its own, an older one of its generation, or PTX; None where none.

    Args:
        targets: as in `_C.json`: "8.0", "9.0a" (9.0 alone), "8.0+PTX" (any later GPU; the driver compiles it).
        capability: the GPU's compute capability.
    """
    own = [target for target in targets if build_state.plain(target) == f"{capability[0]}.{capability[1]}"]
    compiled = [target for target in targets if "+" not in target and target[-1].isdigit()]
    related = [target for target in compiled if numbers(target)[0] == capability[0] and numbers(target) <= capability]
    ptx = [target for target in targets if target.endswith("+PTX") and numbers(target) <= capability]
    found = own or sorted(related, key=numbers) or sorted(ptx, key=numbers)
    return found[-1] if found else None


def gpu_problems(library: Facts, gpu: Facts, driver: str | None, driver_cuda: str | None) -> list[tuple[str, str, str]]:
    """What keeps this GPU from running the library, or from running it well: (level, what, what to do).

    Args:
        library: the section's facts: "cuda" and "targets" of what it was built for.
        gpu: with "name", "capability" and "image".
    """
    name = f"GPU {gpu['index']}, {gpu['name']} of compute capability {gpu['capability']}"
    built_for = " ".join(library["targets"])
    if library["cuda"] == "none":
        return [
            (
                "warning",
                f"The library is for the CPU alone, and there is {name}.",
                "Install a wheel built with CUDA, or build again with nvcc: `make library`.",
            )
        ]
    found = []
    if driver_cuda is not None and numbers(driver_cuda)[0] < numbers(library["cuda"])[0]:
        found.append(
            (
                "error",
                f"The driver {driver or ''} knows CUDA up to {driver_cuda}, and the library is built with CUDA "
                f"{library['cuda']}: GPU tensors will be refused.",
                f"Update NVIDIA's driver to one for CUDA {numbers(library['cuda'])[0]}, or build again with an nvcc of "
                f"CUDA {driver_cuda} or older.",
            )
        )
    capability = numbers(gpu["capability"])
    if capability < OLDEST_GPU:
        found.append(
            (
                "error",
                f"{name}: the kernels need compute capability {OLDEST_GPU[0]}.{OLDEST_GPU[1]} or newer.",
                "Use CPU tensors, or a newer GPU.",
            )
        )
    elif gpu["image"] is None:
        found.append(
            (
                "error",
                f"{name}: the library has no code for it, it was built for {built_for}.",
                f'Build again with TORCH_CUDA_ARCH_LIST="{gpu["capability"]}".',
            )
        )
    elif gpu["image"].endswith("+PTX"):
        found.append(
            (
                "warning",
                f"{name}: the library has only PTX for it, which the driver compiles at first use (minutes, once).",
                f'Build again with TORCH_CUDA_ARCH_LIST="{gpu["capability"]}".',
            )
        )
    elif gpu["capability"] == "9.0" and gpu["image"] != "9.0a":
        found.append(
            (
                "warning",
                f"{name}: the library has none of Hopper's own kernels, it was built for {built_for}.",
                'Build again with TORCH_CUDA_ARCH_LIST="9.0a".',
            )
        )
    return found


def _look_at_record(examination: Examination, library: Path) -> None:
    """What `_C.json` says; that it is there and true."""
    facts = examination.facts
    record = build_state.read_record(build_state.record_of(library))
    if record is None:
        examination.warning(
            f"{build_state.record_of(library)} is missing or cannot be read: nothing says what the library was built "
            "from.",
            "Copy it along with the library, or build again: `make library`.",
        )
        return
    facts.update(version=record.version, cuda=record.cuda, targets=record.targets, torch=record.torch)
    facts["watchdog"] = record.watchdog
    if library.is_file() and hashlib.sha256(library.read_bytes()).hexdigest() != record.library:
        examination.warning(
            f"{library} is not the file that its _C.json describes.", "Copy the two together, or build again."
        )
    root = build_state.PACKAGE.parent
    if not (root / "csrc").is_dir():
        facts["sources"] = "not here: an installed package"
    elif record.sources == build_state.source_hash(root):
        facts["sources"] = "the tree's"
    else:
        facts["sources"] = "not the tree's"
        examination.warning("The library is not built from the sources in this tree.", "Build again: `make library`.")


def import_package() -> None:
    """Imports the package as any program would; `python -m tileon_ops.info` has left that to us.

    Raises:
        ImportError: what any program would get.
    """
    package = importlib.import_module("tileon_ops")
    if not hasattr(package, "matmul"):
        importlib.reload(package)


def _look_at_ops(examination: Examination) -> None:
    """What the loaded library says of itself."""
    import torch

    from tileon_ops._rules import configs

    facts = examination.facts
    said = dict(line.split(": ", 1) for line in torch.ops.tileon._build_info().splitlines() if ": " in line)
    facts.update(version=said["version"], cuda=said["cuda"], torch=said["torch"], stable_abi=said["target"])
    facts["targets"] = [] if said["cuda"] == "none" else said["archs"].split()
    facts["watchdog"] = said["watchdog"] == "yes"
    backends = [config.backend for config in (*configs.dense(), *configs.block_scaled())]
    facts["rows_of_hopper"] = backends.count("sm90")
    facts["rows_portable"] = backends.count("sm80")
    if facts["version"] != __version__:
        examination.warning(
            f"The library is of version {facts['version']}, the package of {__version__}.",
            "Install or build both from one version.",
        )


def _look(examination: Examination) -> None:
    facts = examination.facts
    if examination.known(*NEEDS) is None:
        facts["path"] = str(build_state.LIBRARY)
        facts["failure"] = "not tried without torch"
        _look_at_record(examination, build_state.LIBRARY)
        return
    from tileon_ops._loading.library import LibraryError, path

    library = path()
    facts.update(path=str(library), exists=library.is_file())
    if facts["exists"]:
        _look_at_record(examination, library)
    try:
        import_package()
    except Exception as error:
        facts["failure"] = described(error)
        if isinstance(error, LibraryError):
            examination.error(error.what, error.do)
        else:
            failure = facts["failure"].rstrip(".")
            examination.error(f"`import tileon_ops` fails: {failure}.", "Install or build the package again.")
    else:
        facts["loads"] = True
        _look_at_ops(examination)
    for gpu in examination.known("cuda", "gpus") or []:
        if gpu["capability"] is None or facts["cuda"] is None:
            continue
        image = image_for(facts["targets"], numbers(gpu["capability"]))  # type: ignore[arg-type]
        facts["gpus"].append({"index": gpu["index"], "image": image})
        driver = (examination.known("cuda", "driver"), examination.known("cuda", "driver_cuda"))
        for problem in gpu_problems(facts, {**gpu, "image": image}, *driver):
            examination.problem(*problem)


LIBRARY = Section(
    "library",
    {
        **dict.fromkeys(("path", "exists", "failure", "version", "cuda", "torch", "stable_abi", "watchdog", "sources")),
        "loads": False,
        "targets": [],
        "rows_of_hopper": None,
        "rows_portable": None,
        "gpus": [],
    },
    _look,
)


def is_loaded(examination: Examination) -> bool:
    """Whether the ops can be called; for the sections after this one."""
    return bool(examination.known("library", "loads")) and "torch" in sys.modules
