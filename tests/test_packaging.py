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
    for name in ("csrc", "tileon_ops", "tests", "benchmarks"):
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


class TestTargets:
    """A library is good for the GPUs asked for if it holds code for each, whatever else it holds."""

    @pytest.mark.parametrize(("asked", "good"), [(["9.0"], True), (["9.0a", "8.0+PTX"], True), (["7.0"], False)])
    def test_which_targets_are_served(self, monkeypatch: pytest.MonkeyPatch, asked: list[str], good: bool) -> None:
        record = _build_state.BuildRecord(
            sources=_build_state.source_hash(ROOT),
            library=_build_state.file_hash(LIBRARY),
            version="0",
            cuda="13.0",
            targets=["8.0", "9.0", "8.0+PTX"],
            torch="0",
        )
        monkeypatch.setattr(_build_state, "read_record", lambda: record)
        reason = _build_state.why_rebuild(ROOT, cuda=True, cpu_only=False, targets=asked)
        assert reason is None if good else "asked for is 7.0" in str(reason)


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
        wanted |= {"setup.py", "pyproject.toml", "LICENSE", "README.md", "tileon_ops/py.typed"}
        assert not wanted - names
        assert not [name for name in names if name.endswith((".so", ".o", ".pyc"))]
