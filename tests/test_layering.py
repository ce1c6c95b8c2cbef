"""The layers of csrc: which folder includes which, where torch may be seen, how long a file may be."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
SOURCES = sorted(path for path in CSRC.rglob("*") if path.suffix in (".h", ".cuh", ".cu", ".cpp"))
LONGEST_FILE = 400  # lines: one subject a file

INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/|^Python\.h$")
STABLE_TORCH = re.compile(r"^torch/(csrc/stable|headeronly|csrc/inductor/aoti_torch/(c|generated))/")
CUDA = re.compile(r"^(cuda|cooperative_groups|mma\.h|cute/|cutlass/|cub/|thrust/)")
MAY_SEE_TORCH = re.compile(r"^(\w*ops\.cpp|(checks|entry|cpu|cuda/dispatch)/.+)$")

# Each folder and the folders it may include. A folder may always include itself.
FOLDERS = {
    "core": (),  # problems, dtypes, formulas, layouts: no torch, no CUDA
    "checks": ("core",),
    "entry": ("core", "checks"),
    "tuning": ("core",),
    "": ("core", "checks", "entry", "tuning"),  # ops.cpp, private_ops.cpp
    "cpu/tiles": ("core", "checks", "cpu"),
    "cpu": ("core", "checks", "entry", "tuning", "cpu/tiles"),
    "cuda/ptx": (),
    "cuda/common": ("core", "cuda/ptx"),
    "cuda/runtime": ("core", "cuda/ptx", "cuda/common"),
    "cuda/elementwise": ("core", "cuda/ptx", "cuda/common", "cuda/runtime"),
    "cuda/dispatch": ("core", "checks", "entry", "tuning", "cuda/runtime", "cuda/elementwise"),  # and FACES, below
}
SHARED = ("core", "cuda/ptx", "cuda/common", "cuda/runtime")  # what an architecture may include

# An architecture's folders: each may include those before it. What lies beside them may include them all, and
# elementwise; of that, dispatch knows the header with the architecture's name.
LAYERS = {
    "cuda/sm80": (*("heuristics", "loaders", "tile", "kernels", "registry", "instances"),),
    "cuda/sm90": (
        *("layout", "heuristics", "mainloop", "epilogue", "kernels", "small_m"),
        *("launch", "operand_prep", "registry", "instances"),
    ),
}
FACES = ("cuda/sm80/sm80.h", "cuda/sm90/sm90.h")


def folder(path: pathlib.Path) -> str:
    """A key of FOLDERS or of LAYERS."""
    parts = path.relative_to(CSRC).parts[:-1]
    return "/".join(parts[:2])


def layer(path: pathlib.Path) -> int:
    """How high a file stands in its architecture."""
    architecture = folder(path)
    parts = path.relative_to(CSRC / architecture).parts
    return LAYERS[architecture].index(parts[0]) if len(parts) > 1 else len(LAYERS[architecture])


def own_includes(path: pathlib.Path) -> list[pathlib.Path]:
    """The files of csrc that `path` includes, each by its path from there."""
    found = []
    for quote, name in INCLUDE.findall(path.read_text()):
        if quote == '"':
            assert (CSRC / name).is_file(), f"{path.relative_to(ROOT)} includes {name!r}, which is no path in csrc"
            found.append(CSRC / name)
    return found


def complaint(path: pathlib.Path, target: pathlib.Path) -> str | None:
    """Why `path` may not include `target`, or None."""
    here, there = folder(path), folder(target)
    what = f"{path.relative_to(CSRC)} includes {target.relative_to(CSRC)}"
    if target.suffix in (".cu", ".cpp"):
        return f"{what}: a source file"
    if here in LAYERS:
        if there == here:
            return f"{what}: a higher layer" if layer(target) > layer(path) else None
        beside = there == "cuda/elementwise" and layer(path) == len(LAYERS[here])
        return None if there in SHARED or beside else f"{what}: {here} may include {SHARED}"
    if here == there:
        return None
    if there in LAYERS:
        allowed = here == "cuda/dispatch" and target.relative_to(CSRC).as_posix() in FACES
        return None if allowed else f"{what}: only dispatch knows an architecture, and only by its {FACES}"
    return None if there in FOLDERS[here] else f"{what}: {here} may include {FOLDERS[here] or 'nothing else'}"


def test_includes_go_down_only() -> None:
    complaints = [text for path in SOURCES for target in own_includes(path) if (text := complaint(path, target))]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("core/epilogue.h", "cuda/ptx/mma.cuh"),
        ("core/problem.h", "checks/operands.h"),
        ("cuda/ptx/mma.cuh", "core/problem.h"),
        ("cuda/common/tile_order.h", "cuda/sm80/heuristics/config.h"),
        ("cuda/common/epilogue_store.cuh", "cuda/sm90/heuristics/config.h"),
        ("cuda/runtime/runtime.h", "cuda/sm90/layout/operand_tile.h"),
        ("cuda/sm80/heuristics/config.h", "cuda/sm80/registry/registry.h"),
        ("cuda/sm80/heuristics/config.h", "cuda/sm90/heuristics/config.h"),
        ("cuda/sm80/heuristics/config.h", "checks/operands.h"),
        ("cuda/sm80/kernels/mma.cuh", "cuda/sm80/registry/registry.h"),
        ("cuda/sm90/heuristics/config.h", "cuda/sm80/heuristics/operand_access.h"),
        ("cuda/sm90/heuristics/config.h", "cuda/sm90/registry/instantiate.cuh"),
        ("cuda/sm90/layout/kernel_params.h", "cuda/sm90/heuristics/config.h"),
        ("cuda/sm90/mainloop/mma.cuh", "cuda/sm90/epilogue/tma_store.cuh"),
        ("cuda/sm90/mainloop/mma.cuh", "cuda/sm90/sm90.h"),
        ("cuda/dispatch/products.cpp", "cuda/sm90/heuristics/config.h"),
        ("cuda/dispatch/products.cpp", "cuda/sm80/run_mma.h"),
        ("cpu/products.cpp", "cuda/runtime/runtime.h"),
        ("cpu/tiles/kernel.h", "entry/products.h"),
        ("ops.cpp", "cuda/sm80/sm80.h"),
    ],
)
def test_an_include_that_goes_up_is_noticed(path: str, target: str) -> None:
    assert complaint(CSRC / path, CSRC / target) is not None


def test_every_folder_is_known() -> None:
    for path in SOURCES:
        name = folder(path)
        assert name in FOLDERS or name in LAYERS, f"{path.relative_to(ROOT)} is in no folder of the plan"
        if name in LAYERS:
            layer(path)  # or a ValueError


def test_an_architecture_has_few_files_beside_its_folders() -> None:
    for name in LAYERS:
        assert sum(path.is_file() for path in (CSRC / name).iterdir()) <= 8, name


def test_torch_headers_stay_at_the_door() -> None:
    for path in SOURCES:
        for _, name in INCLUDE.findall(path.read_text()):
            if TORCH.search(name):
                here = path.relative_to(CSRC).as_posix()
                assert MAY_SEE_TORCH.match(here), f"{here} includes {name}"
                assert STABLE_TORCH.match(name), f"{here} includes {name}, which is not of the stable ABI"


def test_cuda_headers_stay_in_cuda() -> None:
    for path in SOURCES:
        if not path.is_relative_to(CSRC / "cuda"):
            for _, name in INCLUDE.findall(path.read_text()):
                assert not CUDA.search(name), f"{path.relative_to(ROOT)} includes {name}"


def test_instructions_stay_in_ptx() -> None:
    """And those of AMX, for which compilers' intrinsics take literal numbers alone, in a header of theirs."""
    for path in SOURCES:
        if folder(path) != "cuda/ptx" and path.relative_to(CSRC).as_posix() != "cpu/tiles/amx_registers.h":
            assert not re.search(r"\basm\b", path.read_text()), f"{path.relative_to(ROOT)} has inline assembly"


def test_kernels_are_launched_in_one_place() -> None:
    """By a pointer that knows the parameters' types, so that nothing else need know how a kernel gets them."""
    for path in SOURCES:
        launches = re.findall(r"<<<|\bcuda(?:Launch|Graph)\w*Kernel\w*\(", path.read_text())
        wanted = 1 if path.relative_to(CSRC).as_posix() == "cuda/runtime/runtime.h" else 0
        assert len(launches) == wanted, f"{path.relative_to(ROOT)}: {launches}"


def test_shared_memory_is_declared_in_one_place() -> None:
    for path in SOURCES:
        if path.relative_to(CSRC).as_posix() != "cuda/ptx/shared.cuh":
            assert not re.search(r"\b__shared__\b", path.read_text()), path.relative_to(ROOT)


def test_tensor_maps_are_encoded_in_one_place() -> None:
    """By the driver's entry point at run time: the library must load where there is no driver."""
    for path in SOURCES:
        if path.relative_to(CSRC).as_posix() not in ("cuda/sm90/launch/launch.h", "cuda/sm90/launch/launch.cpp"):
            assert "cuTensorMapEncode" not in path.read_text(), path.relative_to(ROOT)
    assert "-lcuda" not in (ROOT / "setup.py").read_text()


def test_no_file_is_too_long() -> None:
    folders = ("csrc", "tileon_ops", "tests", "benchmarks", "examples", ".ci")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".h", ".cuh", ".cu", ".cpp", ".py")
    ]
    for path in [*files, ROOT / "setup.py"]:
        lines = len(path.read_text().splitlines())
        assert lines <= LONGEST_FILE, f"{path.relative_to(ROOT)} has {lines} lines"


def test_headers_are_included_once() -> None:
    for path in SOURCES:
        if path.suffix in (".h", ".cuh"):
            assert "#pragma once" in path.read_text(), path.relative_to(ROOT)


PURE_IN_AN_ARCHITECTURE = ("heuristics", "operand_tile.h", "encoding.h")
PURE = [
    path
    for path in SOURCES
    if path.suffix == ".h"
    and (
        folder(path) in ("core", "tuning", "cuda/common")
        or (folder(path) in LAYERS and {path.name, path.parent.name} & set(PURE_IN_AN_ARCHITECTURE))
    )
]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here")
@pytest.mark.parametrize("header", PURE, ids=lambda path: path.relative_to(CSRC).as_posix())
def test_formulas_compile_without_cuda(header: pathlib.Path) -> None:
    command = [
        "g++",
        "-std=c++20",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsyntax-only",
        f"-I{CSRC}",
        "-x",
        "c++",
        "-include",
        str(header),
        "/dev/null",
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
