"""`.ci/compare_sass`: which changes of a kernel it sees, and which it must not."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch
from source_trees import ROOT, tool
from torch.utils import cpp_extension

SCALE = "template <int kBy> __global__ void scale(float* x) { x[threadIdx.x] *= kBy; }\n"
ADD = "namespace { __global__ void add(float* x, float y) { x[threadIdx.x] += y; } }\n"
USES = "void* scale_by_2 = (void*)&scale<2>;\nvoid* add_any = (void*)&add;\n"


@pytest.fixture(scope="module")
def nvcc() -> str:
    if cpp_extension.CUDA_HOME is None or torch.version.cuda is None:
        pytest.skip("no nvcc here")
    if not (
        shutil.which("cuobjdump")
        or os.path.exists(f"{cpp_extension.CUDA_HOME}/bin/cuobjdump")
        or importlib.util.find_spec("triton") is not None
    ):
        pytest.skip("no cuobjdump here")
    return tool(f"{cpp_extension.CUDA_HOME}/bin/nvcc")


def compiled(nvcc: str, folder: pathlib.Path, source: str) -> pathlib.Path:
    """The folder, with an object in it."""
    folder.mkdir()
    (folder / "kernels.cu").write_text(source)
    command = [nvcc, "-arch=sm_80", "-c", "kernels.cu", "-o", "kernels.o"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return folder


def compare(before: pathlib.Path, after: pathlib.Path, *options: str) -> tuple[int, list[str]]:
    command = [sys.executable, str(ROOT / ".ci/compare_sass"), *options, str(before), str(after)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.stderr == ""
    return result.returncode, result.stdout.splitlines()


@pytest.fixture(scope="module")
def before(nvcc: str, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return compiled(nvcc, tmp_path_factory.mktemp("before") / "objects", SCALE + ADD + USES)


def test_neither_folder_nor_order_nor_names_of_the_host_matter(
    nvcc: str, before: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    after = compiled(nvcc, tmp_path / "elsewhere", "// A comment.\n" + ADD + SCALE + USES.replace("add_any", "other"))
    assert compare(before, after) == (0, ["2 kernels, 0 of them different"])
    assert compare(before / "kernels.o", after, "--only", "sm_80")[0] == 0


def test_a_kernel_that_changed_is_named(nvcc: str, before: pathlib.Path, tmp_path: pathlib.Path) -> None:
    status, lines = compare(before, compiled(nvcc, tmp_path / "after", SCALE.replace("*=", "-=") + ADD + USES))
    assert status == 1
    assert lines[-1] == "2 kernels, 1 of them different"
    assert lines[0] == "sm_80 _Z5scaleILi2EEvPf"
    assert [line.split(":")[0].strip() for line in lines[1:-1]] == ["before", "after"]


def test_a_kernel_that_is_gone_is_named(nvcc: str, before: pathlib.Path, tmp_path: pathlib.Path) -> None:
    status, lines = compare(before, compiled(nvcc, tmp_path / "after", SCALE + USES.splitlines()[0]))
    assert status == 1
    assert "add" in lines[0]
    assert lines[-1] == "2 kernels, 1 of them different"


def test_names_may_be_others_where_the_call_says_so(nvcc: str, before: pathlib.Path, tmp_path: pathlib.Path) -> None:
    renamed = (SCALE + ADD + USES).replace("scale", "multiply").replace("add", "sum")
    after = compiled(nvcc, tmp_path / "renamed", renamed)
    assert compare(before, after, "--renamed") == (0, ["2 kernels, 0 of them different"])
    assert compare(before, after)[0] == 1
    changed = compiled(nvcc, tmp_path / "changed", renamed.replace("*=", "-="))
    status, lines = compare(before, changed, "--renamed")
    assert status == 1
    assert lines[-1] == "2 kernels, 2 of them different"  # the one that is gone, and the one that came


def test_nothing_to_compare_is_no_success(before: pathlib.Path) -> None:
    assert compare(before, before, "--only", "sm_70") == (2, ["0 kernels, 0 of them different"])
