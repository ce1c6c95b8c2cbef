"""The library file, the source distribution, the build that skips what is up to date, and the fixed surface."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
import setuptools
import torch
from torch.utils import cpp_extension

import tileon_ops
from tileon_ops import _build_state

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "tileon_ops" / "_C.so"
RECORD = ROOT / "tileon_ops" / "_C.json"
LARGEST_LIBRARY = 30 * 2**20  # bytes

MATMUL_ARGUMENTS = (
    'Tensor a, Tensor b, Tensor? bias=None, *, str activation="none", float slope=0.01, ScalarType? out_dtype=None, '
    "bool allow_tf32=False, bool fast_accum=False"
)


def tool(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} here")
    return path


def output(*command: str, **options: object) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload]
    assert result.returncode == 0, result.stdout + result.stderr
    return str(result.stdout)


class TestLibrary:
    def test_leaves_no_symbol_of_torchs_cpp_undefined(self) -> None:
        """Those change with every release; the stable ABI's C functions do not."""
        symbols = output(tool("nm"), "-D", "--undefined-only", "--demangle", str(LIBRARY))
        assert "aoti_torch_" in symbols
        for line in symbols.splitlines():
            assert not re.search(r"\b(at|c10|torch)::", line), line

    def test_calls_nothing_of_python(self) -> None:
        symbols = output(tool("nm"), "-D", "--undefined-only", str(LIBRARY))
        assert not re.search(r"\s_?Py[A-Z_]", symbols)

    def test_needs_no_library_of_cuda_or_python(self) -> None:
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output(tool("readelf"), "-d", str(LIBRARY)))
        assert needed
        for name in needed:
            assert not re.match(r"libcuda|libcublas|libtorch_python|libpython", name), name

    def test_names_no_folder_of_the_machine_that_built_it(self) -> None:
        assert str(ROOT).encode() not in LIBRARY.read_bytes()

    def test_is_not_too_large(self) -> None:
        assert LIBRARY.stat().st_size <= LARGEST_LIBRARY

    def test_hides_its_own_symbols(self) -> None:
        symbols = output(tool("nm"), "-D", "--defined-only", "--demangle", str(LIBRARY))
        assert not [line for line in symbols.splitlines() if " T tileon::" in line]

    def test_version_stands_in_one_place(self) -> None:
        build_info = dict(line.split(": ", 1) for line in torch.ops.tileon._build_info().strip().splitlines())
        assert build_info["version"] == tileon_ops.__version__


class TestSurface:
    """Tests, models and saved programs lean on these words."""

    def test_schemas(self) -> None:
        ops = torch.ops.tileon
        assert str(ops.matmul.default._schema) == f"tileon::matmul({MATMUL_ARGUMENTS}) -> Tensor"
        assert str(ops.matmul.out._schema) == f"tileon::matmul.out({MATMUL_ARGUMENTS}, Tensor(a!) out) -> ()"

    def test_python_names(self) -> None:
        assert {"matmul", "verify"} <= set(tileon_ops.__all__)
        assert (ROOT / "tileon_ops" / "py.typed").is_file()


def why_rebuild(tree: pathlib.Path) -> str:
    """What the tree's own record says of its library: "None" where it comes from the tree's sources."""
    program = (
        "import importlib.util, pathlib, sys\n"
        "root = pathlib.Path.cwd()\n"
        "spec = importlib.util.spec_from_file_location('state', root / 'tileon_ops' / '_build_state.py')\n"
        "state = importlib.util.module_from_spec(spec)\n"
        "sys.modules['state'] = state\n"
        "spec.loader.exec_module(state)\n"
        "print(state.why_rebuild(root, cuda=False, cpu_only=False, targets=None))\n"
    )
    return output(sys.executable, "-c", program, cwd=tree).strip()


@pytest.fixture
def built_tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the tree with its library; a library that is not of these sources would be rebuilt, for minutes."""
    tree = copy_of_the_tree(tmp_path / "tree", with_library=True)
    reason = why_rebuild(tree)
    if reason != "None":
        pytest.fail(f"the library under test must be built first: {reason}")
    return tree


def copy_of_the_tree(target: pathlib.Path, *, with_library: bool) -> pathlib.Path:
    """What a checkout holds, and the built pair if asked for."""
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        if (ROOT / name).is_file():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    left_out = shutil.ignore_patterns("__pycache__", "results", "*.png", *([] if with_library else ["_C.*"]))
    for name in ("csrc", "tileon_ops", "tests", "benchmarks", "examples", ".ci"):
        shutil.copytree(ROOT / name, target / name, ignore=left_out)
    return target


def build_in(tree: pathlib.Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def same_build_again() -> dict[str, str]:
    """What asks for the library that is there: one for the CPU alone stays so only if that is asked for."""
    return {"TILEON_CPU_ONLY": "1"} if json.loads(RECORD.read_text())["cuda"] == "none" else {}


def library_record(**changes: object) -> _build_state.BuildRecord:
    """A record of the library that is here, less what `changes` says of it."""
    known = {
        "sources": _build_state.source_hash(ROOT),
        "library": _build_state.file_hash(LIBRARY),
        "version": "0",
        "cuda": "13.0",
        "targets": ["8.0", "9.0a", "8.0+PTX"],
        "torch": "0",
    }
    return _build_state.BuildRecord(**{**known, **changes})  # type: ignore[arg-type]


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
        monkeypatch.setattr(_build_state, "read_record", lambda _: library_record(targets=built.split()))
        reason = _build_state.why_rebuild(ROOT, cuda=True, cpu_only=False, targets=asked.split())
        assert reason is None if not lacking else f"asked for is {lacking} as well" in str(reason)

    def test_a_watchdog_library_is_not_the_packages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_build_state, "read_record", lambda _: library_record(watchdog=True))
        reason = _build_state.why_rebuild(ROOT, cuda=True, cpu_only=False, targets=None)
        assert reason == "_C.so is built with the watchdog"

    def test_a_record_from_before_the_watchdog_can_be_read(self, tmp_path: pathlib.Path) -> None:
        path = tmp_path / "_C.json"
        _build_state.write_record(library_record(), path)
        words = json.loads(path.read_text())
        del words["watchdog"]
        path.write_text(json.dumps(words))
        assert _build_state.read_record(path) == library_record()


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

    @pytest.mark.parametrize("file", ["csrc/epilogue.h", "setup.py"])
    def test_a_changed_source_makes_it_stale(self, built_tree: pathlib.Path, file: str) -> None:
        with (built_tree / file).open("a") as changed:
            changed.write("\n")
        assert "changed" in why_rebuild(built_tree)

    def test_the_source_distribution_holds_every_source(self, tmp_path: pathlib.Path) -> None:
        if int(setuptools.__version__.split(".")[0]) < 77:
            pytest.skip("setuptools is older than 77")
        tree = copy_of_the_tree(tmp_path / "tree", with_library=False)
        output(sys.executable, "setup.py", "-q", "sdist", "-d", str(tmp_path / "dist"), cwd=tree)
        (archive,) = (tmp_path / "dist").glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            names = {name.split("/", 1)[1] for name in packed.getnames() if "/" in name}
        wanted = {path.relative_to(tree).as_posix() for path in (tree / "csrc").rglob("*") if path.is_file()}
        wanted |= {path.relative_to(tree).as_posix() for path in (tree / "tileon_ops").glob("*.py")}
        wanted |= {f"examples/aoti/{name}" for name in ("Makefile", "export.py", "main.cpp")}
        wanted |= {"setup.py", "pyproject.toml", "LICENSE", "README.md", "tileon_ops/py.typed", ".ci/nvcc.py"}
        wanted |= {"examples/tensor_parallel.py"}
        assert not wanted - names
        assert not [name for name in names if name.endswith((".so", ".o", ".pyc"))]


# Kernels that do nothing, but that only compile for the targets of their folder.
TINY_SOURCES = {
    "csrc/cuda/dispatch.cpp": "",
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

    def test_keeps_to_the_compiler_that_pytorch_nvcc_names(self, tiny_tree: pathlib.Path, nvcc: str) -> None:
        tool("ninja")  # torch reads the variable only there
        log = tiny_tree / "calls.txt"
        wrapper = tiny_tree / "wrapper"
        wrapper.write_text(f'#!/bin/sh\necho called >> {log}\nexec {nvcc} "$@"\n')
        wrapper.chmod(0o755)
        result = build_in(tiny_tree, TORCH_CUDA_ARCH_LIST="9.0", PYTORCH_NVCC=f"env X=1 {wrapper}")
        assert result.returncode == 0, result.stdout + result.stderr
        assert log.read_text().split() == ["called", "called"]

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
            timeout=120,
        )
        assert result.returncode == 1
        assert re.search(rf"\({notice}\)", result.stderr), result.stderr
        assert not (tmp_path / "kernel.o").exists()
