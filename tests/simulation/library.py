"""The whole library on the simulated GPU: an extension of torch whose ops run the CUDA kernels on CPU tensors.

python tests/simulation/library.py [--jobs N] writes build/simulation/tileon_ops/_C.so, for TILEON_LIBRARY to name. It
takes what build.py needs, and torch.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

import torch
from torch.utils import cpp_extension

# isort: split
import build

OUT = build.ROOT / "build" / "simulation"

# What the ops' dispatch says of torch's CUDA tensors, and what stands there for CPU tensors, which have no index and no
# stream: they lie on device 0 of the simulated runtime. How often each must be found, in all files together.
REPLACED = (
    (r"TILEON_KERNELS\(CUDA, m\)", "TILEON_KERNELS(CPU, m)", 2),
    (r"[\w.]+\.get_device_index\(\)", "0", 7),
    (r"aoti_torch_get_current_cuda_stream\(device, &stream\) != 0", "false", 1),
)


def link(path: pathlib.Path, target: pathlib.Path) -> None:
    if not path.is_symlink() or os.readlink(path) != str(target):
        path.unlink(missing_ok=True)
        path.symlink_to(target)


def make_tree(tree: pathlib.Path, kernels: pathlib.Path) -> list[pathlib.Path]:
    """Links to build.py's tree, with another dispatch; returns what is compiled of it for torch."""
    counts = [0] * len(REPLACED)
    wanted = set()
    for source in kernels.rglob("*"):
        name = source.relative_to(kernels)
        if source.is_dir() or name.parts[0] == "cpu":
            continue
        here = tree / name
        wanted.add(here)
        here.parent.mkdir(parents=True, exist_ok=True)
        if name.parts[:2] != ("cuda", "dispatch"):
            link(here, source)
            continue
        text = source.read_text()
        for at, (pattern, new, _) in enumerate(REPLACED):
            text, count = re.subn(pattern, new, text)
            counts[at] += count
        build.write_if_changed(here, text)
    for (pattern, _, expected), count in zip(REPLACED, counts, strict=True):
        if count != expected:
            sys.exit(f"library.py: the dispatch has {count} times, not {expected}: {pattern}")
    for path in tree.rglob("*"):
        if not path.is_dir() and path not in wanted:
            path.unlink()
    folders = (".", "entry", "tuning", "cuda/dispatch")
    return [path for folder in folders for path in sorted(tree.glob(f"{folder}/*.cpp"))]


def target_version() -> str:
    """The stable ABI that setup.py keeps to."""
    match = re.search(r'^TORCH_TARGET_VERSION = "(\w+)"', (build.ROOT / "setup.py").read_text(), re.MULTILINE)
    assert match is not None, "setup.py names the version of torch's ABI"
    return match[1]


def torch_options() -> list[str]:
    return [
        *("-std=c++20", "-O1", "-fPIC", "-w", "-DTILEON_WITH_CUDA", "-DTILEON_WITH_SM90"),
        *("-DTILEON_VERSION=simulated", "-DTILEON_NVCC=simulated", "-DTILEON_TARGETS=8.0,9.0a"),
        f"-DTILEON_TORCH={torch.__version__}",
        f"-I{build.HERE / 'machine'}",
        *(f"-isystem{path}" for path in (*cpp_extension.include_paths("cpu"), f"{build.cuda_home()}/include")),
    ]


def compile_all(units: list[build.Unit], jobs: int) -> None:
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for unit, (_, errors) in zip(units, pool.map(build.Unit.compile, units), strict=True):
            if errors:
                sys.exit(f"{unit.source}:\n{errors[:6000]}")


def build_library(csrc: pathlib.Path, out: pathlib.Path, jobs: int, extra: list[str] | None = None) -> pathlib.Path:
    """Brings the library up to date; returns its path. `extra`: as of build.build."""
    extra = extra or []
    counted = build.COUNTED if build.LINES[0] in extra else []
    build.build(csrc, out, jobs, extra=extra)
    tree = out / "library"
    ours = [f"-DTORCH_TARGET_VERSION={target_version()}", f"-I{tree}", *torch_options(), *counted]
    sources = make_tree(tree, out / "csrc")
    units = [build.Unit(path, out, f"library/{path.relative_to(tree)}", ours) for path in sources]
    device = (build.HERE / "torch_device").glob("*.cpp")  # which may use all of torch
    options = [*torch_options(), *extra]
    units += [build.Unit(path, out, f"torch_device/{path.name}", options) for path in sorted(device)]
    compile_all([unit for unit in units if not unit.is_current()], jobs)
    units += [unit for unit in build.units(out / "csrc", out, "", extra) if unit.source.parent != build.HERE]
    library = out / "tileon_ops" / "_C.so"
    objects = [unit.object for unit in units]
    if library.exists() and library.stat().st_mtime >= max(path.stat().st_mtime for path in objects):
        return library
    library.parent.mkdir(exist_ok=True)
    partial = library.with_name(f"{os.getpid()}.so")
    flags = [*(f"-L{path}" for path in cpp_extension.library_paths("cpu")), "-ltorch", "-ltorch_cpu", "-lc10", "-ldl"]
    linking = ["-shared", "-Wl,-Bsymbolic", "-Wl,--as-needed", "-Wl,--no-undefined", *counted]
    subprocess.run([*build.compiler(), *linking, "-o", str(partial), *map(str, objects), *flags], check=True)
    partial.rename(library)
    return library


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--csrc", type=pathlib.Path, default=build.ROOT / "csrc")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    arguments = parser.parse_args()
    print(build_library(arguments.csrc.resolve(), arguments.out.resolve(), arguments.jobs))


if __name__ == "__main__":
    main()
