"""The build: what is skipped because it is up to date, what is compiled for which GPU, what fails."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import torch
from source_trees import LIBRARY, ROOT, build_in, built_copy, copy_of_the_tree, same_build_again, tool, why_rebuild
from torch.utils import cpp_extension

from tileon_ops._loading import build_state


def library_record(**changes: object) -> build_state.BuildRecord:
    """A record of the library that is here, less what `changes` says of it."""
    known = {
        "sources": build_state.source_hash(ROOT),
        "library": build_state.file_hash(LIBRARY),
        "version": "0",
        "cuda": "13.0",
        "targets": ["8.0", "9.0a", "8.0+PTX"],
        "torch": "0",
    }
    return build_state.BuildRecord(**{**known, **changes})  # type: ignore[arg-type]


class TestRecord:
    """A library is good for the GPUs asked for if it holds code for each, whatever else it holds."""

    @pytest.mark.parametrize(
        ("built", "asked", "lacking"),
        [
            ("8.0 9.0a 8.0+PTX", "9.0", ""),
            ("8.0 9.0a 8.0+PTX", "9.0a 8.0+PTX", ""),
            ("8.0 9.0a 8.0+PTX", "7.0", "7.0"),
            ("8.0 9.0 8.0+PTX", "9.0", ""),
            ("8.0 9.0 8.0+PTX", "9.0a", "9.0a"),  # Hopper's own kernels are not in it
            ("8.0 10.0", "10.0a", ""),  # no kernel here is of that kind
            ("8.0 9.0+PTX", "9.0", "9.0"),
        ],
    )
    def test_which_targets_are_served(
        self, monkeypatch: pytest.MonkeyPatch, built: str, asked: str, lacking: str
    ) -> None:
        monkeypatch.setattr(build_state, "read_record", lambda _: library_record(targets=built.split()))
        reason = build_state.why_rebuild(ROOT, cuda=True, cpu_only=False, targets=asked.split())
        assert reason is None if not lacking else f"asked for is {lacking} as well" in str(reason)

    def test_a_watchdog_library_is_not_the_packages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(build_state, "read_record", lambda _: library_record(watchdog=True))
        reason = build_state.why_rebuild(ROOT, cuda=True, cpu_only=False, targets=None)
        assert reason == "_C.so is built with the watchdog"

    def test_a_record_from_before_the_watchdog_can_be_read(self, tmp_path: pathlib.Path) -> None:
        path = tmp_path / "_C.json"
        build_state.write_record(library_record(), path)
        words = json.loads(path.read_text())
        del words["watchdog"]
        path.write_text(json.dumps(words))
        assert build_state.read_record(path) == library_record()


@pytest.fixture
def built_tree(tmp_path: pathlib.Path) -> pathlib.Path:
    return built_copy(tmp_path / "tree")


class TestBuild:
    def test_an_up_to_date_library_is_not_rebuilt(self, built_tree: pathlib.Path) -> None:
        library = built_tree / "tileon_ops" / "_C.so"
        before = library.stat()
        result = build_in(built_tree, **same_build_again())
        assert result.returncode == 0, result.stdout + result.stderr
        assert "up to date" in result.stdout
        assert library.stat().st_mtime_ns == before.st_mtime_ns

    def test_a_library_from_elsewhere_is_taken_where_there_is_no_nvcc(
        self, built_tree: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        nowhere = tmp_path / "no_cuda"
        nowhere.mkdir()
        result = build_in(built_tree, CUDA_HOME=str(nowhere))
        assert result.returncode == 0, result.stdout + result.stderr
        assert "up to date" in result.stdout

    @pytest.mark.parametrize("file", ["csrc/core/epilogue.h", "setup.py", ".ci/build_ext.py"])
    def test_a_changed_source_makes_it_stale(self, built_tree: pathlib.Path, file: str) -> None:
        with (built_tree / file).open("a") as changed:
            changed.write("\n")
        assert "changed" in why_rebuild(built_tree)


# Kernels that do nothing, but that only compile for the targets of their folder.
TINY_SOURCES = {
    "csrc/cuda/dispatch/products.cpp": "",
    "csrc/cuda/sm80/portable.cu": """
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#error "for the plain targets"
#endif
__global__ void portable() {}
""",
    "csrc/cuda/sm90/hopper.cu": """
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "for 9.0a alone"
#endif
__global__ void hopper() { asm volatile("wgmma.fence.sync.aligned;"); }
""",
}

# C7510 and the like: an accumulator is touched between two wgmma and their wait.
SERIALIZED = """
__global__ void __launch_bounds__(128, 1) serialized(float* out, unsigned long long a, unsigned long long b) {
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;");
  for (int step = 0; step < 2; ++step) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
    d[0] += 1.0f;
  }
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;");
  for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = d[i];
}
"""

# C7508: without launch bounds the registers at entry are unknown.
SETMAXNREG_IGNORED = """
__global__ void ignored(float* x) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  x[threadIdx.x] += 1;
}
"""


@pytest.fixture
def nvcc() -> str:
    if cpp_extension.CUDA_HOME is None or torch.version.cuda is None:
        pytest.skip("no nvcc here")
    return tool(f"{cpp_extension.CUDA_HOME}/bin/nvcc")


@pytest.fixture
def tiny_tree(tmp_path: pathlib.Path, nvcc: str) -> pathlib.Path:
    """The build with three sources, which compile in seconds, in place of csrc/."""
    tree = copy_of_the_tree(tmp_path / "tiny", with_library=False)
    shutil.rmtree(tree / "csrc")
    for name, text in TINY_SOURCES.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    return tree


@pytest.fixture(params=["ninja", "without_ninja"])
def with_or_without_ninja(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> str:
    if request.param == "ninja":
        tool("ninja")
    else:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "ninja").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "bin" / "ninja").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return str(request.param)


def images_of(build_output: str, source: str) -> set[str]:
    """The images that nvcc was asked for when it compiled this source."""
    (line,) = (line for line in build_output.splitlines() if re.search(rf"nvcc .*-c \S*{source} ", line))
    return set(re.findall(r"-gencode=arch=\w+,code=(\w+)", line))


class TestTinyBuild:
    def test_hoppers_kernels_are_compiled_for_their_target_alone(
        self, tiny_tree: pathlib.Path, with_or_without_ninja: str
    ) -> None:
        result = build_in(tiny_tree, TORCH_CUDA_ARCH_LIST="8.0 9.0+PTX")
        assert result.returncode == 0, result.stdout + result.stderr
        assert images_of(result.stdout, "hopper.cu") == {"sm_90a"}
        assert images_of(result.stdout, "portable.cu") == {"sm_80", "sm_90", "compute_90"}
        assert "-DTILEON_WITH_SM90" in result.stdout
        assert json.loads((tiny_tree / "tileon_ops" / "_C.json").read_text())["targets"] == ["8.0", "9.0a", "9.0+PTX"]
        assert "up to date" in build_in(tiny_tree, TORCH_CUDA_ARCH_LIST="9.0a").stdout

    def test_without_hopper_among_the_targets_its_kernels_are_left_out(self, tiny_tree: pathlib.Path) -> None:
        result = build_in(tiny_tree, TORCH_CUDA_ARCH_LIST="8.0")
        assert result.returncode == 0, result.stdout + result.stderr
        assert "hopper.cu" not in result.stdout
        assert "-DTILEON_WITH_SM90" not in result.stdout
        assert json.loads((tiny_tree / "tileon_ops" / "_C.json").read_text())["targets"] == ["8.0"]

    def test_a_serialized_wgmma_fails_the_build_every_time(
        self, tiny_tree: pathlib.Path, with_or_without_ninja: str
    ) -> None:
        (tiny_tree / "csrc" / "cuda" / "sm90" / "hopper.cu").write_text(SERIALIZED)
        for _ in range(2):  # what the first run left behind must not satisfy the second
            result = build_in(tiny_tree, TORCH_CUDA_ARCH_LIST="9.0")
            assert result.returncode != 0, result.stdout
            assert "wgmma.mma_async instructions are serialized" in result.stdout + result.stderr
        assert not (tiny_tree / "tileon_ops" / "_C.so").exists()

    def test_local_memory_is_an_error_for_the_gpus_whose_instructions_the_tests_read(
        self, tiny_tree: pathlib.Path
    ) -> None:
        kernel = (
            "__global__ void pick(int* out) {\n"
            "  int held[64];\n"
            "  for (int i = 0; i < 64; ++i) held[out[i] & 63] = i;\n"
            "  *out = held[out[64] & 63];\n"
            "}\n"
        )
        (tiny_tree / "csrc" / "cuda" / "sm80" / "portable.cu").write_text(kernel)
        result = build_in(tiny_tree, TORCH_CUDA_ARCH_LIST="8.0 8.9+PTX")
        assert result.returncode != 0, result.stdout
        assert "Local memory used" in result.stdout + result.stderr
        for elsewhere in ({"TORCH_CUDA_ARCH_LIST": "8.0 8.6"}, {"TILEON_WATCHDOG": "1"}):
            result = build_in(tiny_tree, **elsewhere)
            assert result.returncode == 0, result.stdout + result.stderr
            assert "Local memory used" in result.stdout + result.stderr

    def test_keeps_to_the_compiler_that_pytorch_nvcc_names(self, tiny_tree: pathlib.Path, nvcc: str) -> None:
        tool("ninja")  # torch reads the variable only there
        log = tiny_tree / "calls.txt"
        wrapper = tiny_tree / "wrapper"
        wrapper.write_text(f'#!/bin/sh\necho called >> {log}\nexec {nvcc} "$@"\n')
        wrapper.chmod(0o755)
        result = build_in(tiny_tree, TORCH_CUDA_ARCH_LIST="9.0", PYTORCH_NVCC=f"env X=1 {wrapper}")
        assert result.returncode == 0, result.stdout + result.stderr
        assert log.read_text().split() == ["called", "called"]

    def test_the_folder_may_have_a_comma_and_a_space_in_its_name(
        self, tiny_tree: pathlib.Path, with_or_without_ninja: str
    ) -> None:
        """nvcc splits at commas what it is given, and hands it to a shell, unless that stands in quotes."""
        tree = tiny_tree.rename(tiny_tree.with_name("one, two"))
        header = tree / "csrc" / "header.h"
        header.write_text("inline const char* header_path() { return __FILE__; }\n")
        kernel = '#include "header.h"\nconst char* paths() { return header_path(); }\n'
        (tree / "csrc" / "cuda" / "sm80" / "portable.cu").write_text(kernel)
        result = build_in(tree, TORCH_CUDA_ARCH_LIST="8.0")
        assert result.returncode == 0, result.stdout + result.stderr
        library = (tree / "tileon_ops" / "_C.so").read_bytes()
        assert b"csrc/header.h" in library
        assert b"one, two" not in library, "no path of the machine that builds is in the library"

    def test_the_watchdog_build_stays_out_of_the_package(self, tiny_tree: pathlib.Path) -> None:
        result = build_in(tiny_tree, TILEON_WATCHDOG="1")
        assert result.returncode == 0, result.stdout + result.stderr
        assert "-DTILEON_WATCHDOG" in result.stdout
        folder = tiny_tree / "build" / "watchdog" / "tileon_ops"
        record = json.loads((folder / "_C.json").read_text())
        assert (record["watchdog"], record["targets"]) == (True, ["9.0a"])
        assert (folder / "_C.so").exists()
        assert not list((tiny_tree / "tileon_ops").glob("_C.*"))
        assert "up to date" in build_in(tiny_tree, TILEON_WATCHDOG="1").stdout

    @pytest.mark.parametrize(("kernel", "notice"), [(SERIALIZED, r"C751\d"), (SETMAXNREG_IGNORED, "C7508")])
    def test_notices_of_ptxas_are_failures(self, tmp_path: pathlib.Path, nvcc: str, kernel: str, notice: str) -> None:
        (tmp_path / "kernel.cu").write_text(kernel)
        compile_it = [
            nvcc,
            "-gencode=arch=compute_90a,code=sm_90a",
            "-Xptxas=-Werror",
            "-c",
            "kernel.cu",
            "-o",
            "kernel.o",
        ]
        result = subprocess.run(
            [sys.executable, str(ROOT / ".ci" / "nvcc.py"), *compile_it],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert result.returncode == 1
        assert re.search(rf"\({notice}\)", result.stderr), result.stderr
        assert not (tmp_path / "kernel.o").exists()
