"""The plan of the house: who includes whom, where torch may be seen, how long a file may be."""

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
MAY_SEE_TORCH = re.compile(
    r"^((\w+_)?ops\.cpp|(\w+_)?checks\.h|allocation\.h|registration\.(h|cpp)|cpu/[^/]+|cuda/dispatch(_\w+)?\.(cpp|h))$"
)

# Each room and the rooms it may include. A room may always include itself.
ROOMS = {
    "plain": (),  # problem.h, dtypes.h, epilogue.h, scale_layout.h, kernel_log.h: no torch, no CUDA
    "checks": ("plain",),
    "ops": ("plain", "checks"),
    "cpu": ("plain", "checks"),
    "ptx": (),
    "tile": ("ptx",),  # knows ptx, not the problem
    "output": ("plain", "ptx"),  # from accumulators to the output: what the architectures' epilogues share
    "block_scaled": ("plain", "ptx"),  # what the architectures' block-scaled kernels share
    "cuda": ("plain", "ptx"),  # error.h, launch_kernel.h, tensor_map.h, gpu.h: what the architectures share
    "quantize": ("plain", "ptx", "output", "cuda"),  # kernels that no architecture has of its own
    "epilogue_backward": ("plain", "ptx", "output", "cuda"),
    "dispatch": (
        "plain",
        "checks",
        "cuda",
        "quantize",
        "epilogue_backward",
    ),  # and each architecture's own header, below
}
ARCHITECTURE = ("plain", "ptx", "tile", "output", "block_scaled", "cuda")

# Inside an architecture's folder: kernels <- launch <- instances <- the header that others may know.
KERNEL, LAUNCH, INSTANCES, FACE = range(4)


def room(path: pathlib.Path) -> str:
    parts = path.relative_to(CSRC).parts
    if len(parts) == 1:
        if path.stem.endswith("ops"):
            return "ops"
        return "checks" if path.stem.endswith("checks") or path.stem in ("allocation", "registration") else "plain"
    if parts[0] == "cpu":
        return "cpu"
    if len(parts) == 2:
        return "dispatch" if path.stem.startswith("dispatch") else "cuda"
    return parts[1]


def is_architecture(name: str) -> bool:
    return re.fullmatch(r"sm\d+", name) is not None


def rank(path: pathlib.Path) -> int:
    """A file's level within its architecture's folder."""
    if path.stem == room(path):
        return FACE
    if path.suffix == ".cu":
        return INSTANCES
    return LAUNCH if re.search(r"(^|_)(launch|rows)$", path.stem) else KERNEL


def includes(path: pathlib.Path) -> list[tuple[str, str]]:
    return INCLUDE.findall(path.read_text())


def own_includes(path: pathlib.Path) -> list[pathlib.Path]:
    """The files of csrc that `path` includes."""
    found = []
    for quote, name in includes(path):
        if quote == '"':
            for base in (path.parent, CSRC):
                target = (base / name).resolve()
                if target.is_file():
                    assert target.is_relative_to(CSRC), f"{path} includes {target}, outside csrc"
                    found.append(target)
                    break
            else:
                raise AssertionError(f"{path.relative_to(ROOT)} includes {name!r}, which is not in csrc")
    return found


def complaint(path: pathlib.Path, target: pathlib.Path) -> str | None:
    """Why `path` may not include `target`, or None."""
    here, there = room(path), room(target)
    what = f"{path.relative_to(CSRC)} includes {target.relative_to(CSRC)}"
    if target.suffix in (".cu", ".cpp"):
        return f"{what}: a source file"
    if is_architecture(here):
        if there == here:
            return f"{what}: a higher layer" if rank(target) > rank(path) and target.stem != here else None
        return None if there in ARCHITECTURE else f"{what}: {here} may include {ARCHITECTURE}"
    if here == there:
        return None
    if is_architecture(there):
        allowed = here == "dispatch" and rank(target) == FACE
        return None if allowed else f"{what}: only dispatch knows an architecture, and only by its {there}.h"
    return None if there in ROOMS[here] else f"{what}: {here} may include {ROOMS[here] or 'nothing else'}"


def test_includes_go_down_only() -> None:
    complaints = [text for path in SOURCES for target in own_includes(path) if (text := complaint(path, target))]
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("cuda/ptx/mma.cuh", "problem.h"),
        ("cuda/tile/tile_order.h", "problem.h"),
        ("cuda/tile/tile_order.h", "cuda/sm80/config.h"),
        ("cuda/sm80/config.h", "cuda/sm80/launch.cuh"),
        ("cuda/sm80/mma/kernel.cuh", "cuda/sm80/launch.cuh"),
        ("cuda/sm80/config.h", "cuda/sm90/config.h"),
        ("cuda/sm90/config.h", "cuda/sm80/operand_access.h"),
        ("cuda/sm90/config.h", "cuda/sm90/gemm/rows.cuh"),
        ("cuda/output/store.cuh", "cuda/sm90/config.h"),
        ("cuda/output/store.cuh", "cuda/tile/swizzle.h"),
        ("cuda/tile/pipeline.cuh", "cuda/output/store.cuh"),
        ("cuda/tensor_map.h", "cuda/sm90/tma_access.h"),
        ("cuda/dispatch.cpp", "cuda/sm90/config.h"),
        ("cuda/sm80/config.h", "checks.h"),
        ("cuda/dispatch.cpp", "cuda/sm80/config.h"),
        ("cpu/matmul.cpp", "cuda/error.h"),
        ("ops.cpp", "cuda/sm80/sm80.h"),
        ("problem.h", "checks.h"),
        ("epilogue.h", "cuda/ptx/mma.cuh"),
    ],
)
def test_an_include_that_goes_up_is_noticed(path: str, target: str) -> None:
    assert complaint(CSRC / path, CSRC / target) is not None


def test_every_room_is_known() -> None:
    for path in SOURCES:
        name = room(path)
        assert name in ROOMS or is_architecture(name), f"{path.relative_to(ROOT)} is in no room of the plan"


def test_torch_headers_stay_at_the_door() -> None:
    for path in SOURCES:
        for _, name in includes(path):
            if TORCH.search(name):
                here = path.relative_to(CSRC).as_posix()
                assert MAY_SEE_TORCH.match(here), f"{here} includes {name}"
                assert STABLE_TORCH.match(name), f"{here} includes {name}, which is not of the stable ABI"


def test_cuda_headers_stay_in_cuda() -> None:
    for path in SOURCES:
        if not path.is_relative_to(CSRC / "cuda"):
            for _, name in includes(path):
                assert not CUDA.search(name), f"{path.relative_to(ROOT)} includes {name}"


def test_instructions_stay_in_ptx() -> None:
    for path in SOURCES:
        if room(path) != "ptx":
            assert not re.search(r"\basm\b", path.read_text()), f"{path.relative_to(ROOT)} has inline assembly"


def test_kernels_are_launched_in_one_place() -> None:
    """By a pointer that knows the parameters' types, so that nothing else need know how a kernel gets them."""
    for path in SOURCES:
        launches = re.findall(r"<<<|\bcuda(?:Launch|Graph)\w*Kernel\w*\(", path.read_text())
        wanted = 1 if path.relative_to(CSRC).as_posix() == "cuda/launch_kernel.h" else 0
        assert len(launches) == wanted, f"{path.relative_to(ROOT)}: {launches}"


def test_shared_memory_is_declared_in_one_place() -> None:
    for path in SOURCES:
        if path.relative_to(CSRC).as_posix() != "cuda/ptx/shared.cuh":
            assert not re.search(r"\b__shared__\b", path.read_text()), path.relative_to(ROOT)


def test_tensor_maps_are_encoded_in_one_place() -> None:
    """By the driver's entry point at run time: the library must load where there is no driver."""
    for path in SOURCES:
        if path.relative_to(CSRC).as_posix() not in ("cuda/tensor_map.h", "cuda/tensor_map.cpp"):
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


PURE_IN_AN_ARCHITECTURE = (
    *("config.h", "cost.h", "correction.h", "correction_numbers.h", "choice.h", "recent_choices.h"),
    *("operand_access.h", "operand_tile.h", "tma_access.h"),
)
PURE = [
    path
    for path in SOURCES
    if path.suffix == ".h"
    and (
        room(path) in ("plain", "tile", "output")
        or (path.name in PURE_IN_AN_ARCHITECTURE and is_architecture(room(path)))
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
        "-x",
        "c++",
        "-include",
        str(header),
        "/dev/null",
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
