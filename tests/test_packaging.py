"""The library file, the fixed surface, the wheel and the source distribution."""

from __future__ import annotations

import email
import json
import os
import pathlib
import platform
import re
import site
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

import pytest
import setuptools
import torch
from source_trees import LIBRARY, ROOT, built_copy, copy_of_the_tree, output, quick_compiler, same_build_again, tool

import tileon_ops

LARGEST_LIBRARY = 30 * 2**20  # bytes

MATMUL_ARGUMENTS = (
    'Tensor a, Tensor b, Tensor? bias=None, *, str activation="none", float slope=0.01, ScalarType? out_dtype=None, '
    "bool allow_tf32=False, bool fast_accum=False"
)


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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A wheel of the library as it stands, built in a tree where an earlier build has left a module."""
    if int(setuptools.__version__.split(".")[0]) < 77:
        pytest.skip("setuptools is older than 77")
    tree = built_copy(tmp_path_factory.mktemp("wheel") / "tree")
    earlier = tree / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}" / "tileon_ops"
    earlier.mkdir(parents=True)
    (earlier / "module_that_is_no_more.py").write_text("")
    environment = {**os.environ, **same_build_again()}
    said = output(sys.executable, "setup.py", "bdist_wheel", "-d", str(tree / "dist"), cwd=tree, env=environment)
    assert "_C.so is up to date" in said
    assert (earlier / "ops" / "dense.py").is_file(), "the earlier build was somewhere else"
    (found,) = (tree / "dist").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder that holds the wheel's packages and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(folder)]
    if subprocess.run([sys.executable, "-c", "import pip"], capture_output=True).returncode:
        pytest.skip("no pip here")
    output(*pip, str(wheel))
    return folder


def run_installed(folder: pathlib.Path, *arguments: str) -> str:
    """Python in a folder that is not the tree, with the wheel's packages first."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TILEON_")}
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    return output(sys.executable, *arguments, cwd=folder.parent, env=environment)


class TestWheel:
    def test_is_for_any_python_of_this_platform(self, wheel: pathlib.Path) -> None:
        tag = f"py3-none-linux_{platform.machine()}"
        assert wheel.name == f"tileon_ops-{tileon_ops.__version__}-{tag}.whl"
        with zipfile.ZipFile(wheel) as packed:
            (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/WHEEL"))
            about = email.message_from_bytes(packed.read(name))
        assert (about["Tag"], about["Root-Is-Purelib"]) == (tag, "false")

    def test_holds_what_is_needed_and_nothing_else(self, wheel: pathlib.Path) -> None:
        package = ROOT / "tileon_ops"
        wanted = {path.relative_to(ROOT).as_posix() for path in package.rglob("*.py")}
        wanted |= {f"tileon_ops/{name}" for name in ("py.typed", "_C.so", "_C.json")}
        about = f"tileon_ops-{tileon_ops.__version__}.dist-info"
        wanted |= {f"{about}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "licenses/LICENSE", "top_level.txt")}
        with zipfile.ZipFile(wheel) as packed:
            assert set(packed.namelist()) == wanted
            assert packed.read("tileon_ops/_C.so") == LIBRARY.read_bytes()

    def test_asks_for_torch_alone_and_for_no_one_version_of_it(self, wheel: pathlib.Path) -> None:
        with zipfile.ZipFile(wheel) as packed:
            (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
            about = email.message_from_bytes(packed.read(name))
        assert [line for line in about.get_all("Requires-Dist") if "extra" not in line] == ["torch>=2.11"]
        assert about["License"] == "Apache-2.0"

    def test_passes_every_check_away_from_the_tree(self, wheel: pathlib.Path) -> None:
        """By the command that does the same beside other releases of torch."""
        said = output(tool("bash"), str(ROOT / ".ci" / "compat"), "--wheel", str(wheel), sys.executable)
        assert f"== torch {torch.__version__}" in said
        assert re.search(r"^(\d+) of \1 cases pass", said, re.MULTILINE)
        assert "== problems" in said

    def test_is_what_info_finds(self, installed: pathlib.Path) -> None:
        found = json.loads(run_installed(installed, "-m", "tileon_ops.info", "--json"))
        assert found["usable"] is True
        assert found["package"]["path"] == str(installed / "tileon_ops")
        assert found["library"]["path"] == str(installed / "tileon_ops" / "_C.so")
        assert found["library"]["sources"] == "not here: an installed package"
        assert {call["failure"] for call in found["backends"]["calls"]} == {None}


@pytest.mark.parametrize("failing", ["", "-m tileon_ops", "-m tileon_ops.info"])
def test_a_check_that_fails_for_a_wheel_fails_the_command(tmp_path: pathlib.Path, failing: str) -> None:
    """An interpreter that does nothing, and fails at one step, stands for a wheel that does not work there."""
    python, wheel = tmp_path / "python", tmp_path / "x.whl"
    python.write_text(f'#!/bin/sh\n[ "$*" != "{failing}" ]\n')
    python.chmod(0o755)
    wheel.touch()
    command = [tool("bash"), str(ROOT / ".ci" / "compat"), "--wheel", str(wheel), str(python)]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == (1 if failing else 0)


# Prints what setup.py would compile and which torch it would take, with $HIDDEN where it does not see torch.
SOURCES_OF_THE_BUILD = """
import os, runpy, sys
import setuptools

def show(*, ext_modules, **_):
    import torch
    print(*ext_modules[0].sources, torch.__version__, sep="\\n")

setuptools.setup = show
if os.environ.get("HIDDEN"):
    sys.path[:] = [path for path in sys.path if not os.path.isdir(os.path.join(path, "torch"))]
runpy.run_path("setup.py")
"""


def sources_of_the_build(tree: pathlib.Path, **environment: str) -> list[str]:
    return output(sys.executable, "-c", SOURCES_OF_THE_BUILD, cwd=tree, env={**os.environ, **environment}).splitlines()


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The source distribution, unpacked."""
    if int(setuptools.__version__.split(".")[0]) < 77:
        pytest.skip("setuptools is older than 77")
    folder = tmp_path_factory.mktemp("sdist")
    tree = copy_of_the_tree(folder / "tree", with_library=True)
    output(sys.executable, "setup.py", "-q", "sdist", "-d", str(folder), cwd=tree)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    (found,) = (folder / "unpacked").iterdir()
    return found


class TestSources:
    def test_hold_every_source_and_nothing_that_was_built(self, unpacked: pathlib.Path) -> None:
        names = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
        wanted = {path.relative_to(ROOT).as_posix() for path in (ROOT / "csrc").rglob("*") if path.is_file()}
        wanted |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "tileon_ops").rglob("*.py")}
        wanted |= {f"examples/aoti/{name}" for name in ("Makefile", "export.py", "main.cpp")}
        wanted |= {"setup.py", "pyproject.toml", "LICENSE", "README.md", "tileon_ops/py.typed", ".ci/nvcc.py"}
        wanted |= {"examples/tensor_parallel.py", ".ci/build_ext.py"}
        assert not wanted - names
        assert not [name for name in names if name.endswith((".so", ".o", ".pyc")) or "_C." in name]

    @pytest.mark.parametrize("cpu_only", ["0", "1"])
    def test_build_what_the_tree_builds(self, unpacked: pathlib.Path, cpu_only: str) -> None:
        """With nvcc, where that is here, and without."""
        here = sources_of_the_build(unpacked, TILEON_CPU_ONLY=cpu_only)
        assert here == sources_of_the_build(ROOT, TILEON_CPU_ONLY=cpu_only)
        assert "csrc/ops.cpp" in here
        assert cpu_only == "0" or not [name for name in here if "cuda" in name and "no_cuda" not in name]

    @pytest.mark.slow
    def test_build_without_nvcc(self, unpacked: pathlib.Path, tmp_path: pathlib.Path) -> None:
        (tmp_path / "no_cuda").mkdir()
        environment = {**os.environ, "CUDA_HOME": str(tmp_path / "no_cuda"), "TILEON_CPU_ONLY": "0"}
        environment["CXX"] = quick_compiler(tmp_path)
        said = output(sys.executable, "setup.py", "bdist_wheel", "-d", str(tmp_path), cwd=unpacked, env=environment)
        assert "building for the CPU alone (no nvcc was found)" in said
        (wheel,) = tmp_path.glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(tmp_path / "packages")
        verify = "import tileon_ops\nassert tileon_ops.verify('cpu')"
        assert re.search(r"^(\d+) of \1 cases pass", run_installed(tmp_path / "packages", "-c", verify), re.MULTILINE)


class TestTorchOfTheBuild:
    """pip builds in an environment without site-packages, unless told otherwise; no torch is brought there."""

    def test_is_the_environments_own_under_isolation(self) -> None:
        if str(pathlib.Path(torch.__file__).parents[1]) not in site.getsitepackages():
            pytest.skip("torch is not among this Python's own packages")
        assert sources_of_the_build(ROOT, HIDDEN="1")[-1] == torch.__version__

    def test_is_no_requirement_of_the_build(self) -> None:
        (required,) = re.findall(r"^requires = \[(.*)\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
        assert "setuptools" in required
        assert "torch" not in required

    def test_that_is_missing_is_said(self) -> None:
        program = (
            f"import site\nsite.getsitepackages = lambda: []\nsite.getusersitepackages = str\n{SOURCES_OF_THE_BUILD}"
        )
        result = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "HIDDEN": "1"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert result.returncode == 1
        assert "there is none here. Install torch >= 2.11 first" in result.stderr
        assert "Traceback" not in result.stderr
