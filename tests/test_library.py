"""A library that is missing, foreign or broken is one ImportError: what was built, what is here, what to do."""

from __future__ import annotations

import pathlib
import platform
import shutil
import subprocess

import pytest
import torch
from package_copies import IMPORT, PACKAGE, ROOT, package_in, run

from tileon_ops._loading import elf

LIBRARY = PACKAGE / "_C.so"


def message(library: pathlib.Path) -> str:
    """What `import tileon_ops` says of this library, in one line."""
    result = run("-c", IMPORT, TILEON_LIBRARY=str(library))
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("ImportError: "), result.stdout
    assert result.stdout.count("\n") == 1
    return result.stdout


def compiled(folder: pathlib.Path, source: str, *flags: str, name: str = "_C.so") -> pathlib.Path:
    """A tiny shared library."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ here")
    (folder / "tiny.cpp").write_text(source)
    command = [compiler, "-shared", "-fPIC", "tiny.cpp", "-o", name, *flags]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    return folder / name


def patched(folder: pathlib.Path, at: int, replacement: bytes) -> pathlib.Path:
    """The header of the library with other bytes at some place."""
    with LIBRARY.open("rb") as file:
        header = bytearray(file.read(4096))
    header[at : at + len(replacement)] = replacement
    (folder / "_C.so").write_bytes(bytes(header))
    return folder / "_C.so"


class TestHeader:
    """What is wrong with a file is said before the loader sees it."""

    def test_nothing_is_wrong_with_the_library(self) -> None:
        assert elf.complaint(LIBRARY) is None

    @pytest.mark.parametrize(
        ("content", "complaint"),
        [
            (b"", "is empty"),
            (b"not a library", "is no library: it begins with b'not a library'"),
            (b"MZ\x90\0", "is a Windows library"),
            (b"\xcf\xfa\xed\xfe\x0c", "is a macOS library"),
            (b"PK\x03\x04", "is a zip archive or a wheel: `pip install` it"),
            (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer: `git lfs pull` brings the file"),
            (b"\x7fELF\x02\x01\x01", "is cut short: 7 bytes are here"),
            (b"\x7fELF\x01\x01\x01" + bytes(80), "is not a library for a 64-bit little-endian machine"),
        ],
    )
    def test_files_that_are_no_library(self, tmp_path: pathlib.Path, content: bytes, complaint: str) -> None:
        (tmp_path / "_C.so").write_bytes(content)
        assert elf.complaint(tmp_path / "_C.so") == complaint

    def test_a_library_of_another_machine(self, tmp_path: pathlib.Path) -> None:
        other = 183 if platform.machine() == "x86_64" else 62
        library = patched(tmp_path, 18, other.to_bytes(2, "little"))
        assert elf.complaint(library) == f"is for {elf.MACHINES[other]}, and this machine is {platform.machine()}"

    def test_a_program_is_no_library(self, tmp_path: pathlib.Path) -> None:
        assert "not a shared library" in str(elf.complaint(patched(tmp_path, 16, b"\x02\x00")))

    @pytest.mark.parametrize("missing", [1, 100_000])
    def test_a_library_that_was_cut_short(self, tmp_path: pathlib.Path, missing: int) -> None:
        whole = LIBRARY.stat().st_size
        shutil.copy(LIBRARY, tmp_path / "_C.so")
        with (tmp_path / "_C.so").open("r+b") as file:
            file.truncate(whole - missing)
        assert elf.complaint(tmp_path / "_C.so") == f"is cut short: {whole - missing} of {whole} bytes are here"


class TestMessage:
    def test_of_a_missing_library(self, tmp_path: pathlib.Path) -> None:
        result = run("-c", IMPORT, path=package_in(tmp_path))
        assert f"ImportError: tileon_ops is not built: there is no {tmp_path}/tileon_ops/_C.so" in result.stdout
        assert "install a wheel" in result.stdout

    def test_of_one_that_was_cut_short_comes_instead_of_a_bus_error(self, tmp_path: pathlib.Path) -> None:
        shutil.copy(LIBRARY.with_suffix(".json"), tmp_path / "_C.json")
        shutil.copy(LIBRARY, tmp_path / "_C.so")
        with (tmp_path / "_C.so").open("r+b") as file:
            file.truncate(LIBRARY.stat().st_size // 2)
        text = message(tmp_path / "_C.so")
        assert f"tileon_ops could not load {tmp_path / '_C.so'}: it is cut short: " in text
        assert "It was built for " in text
        assert f"Here is torch {torch.__version__} with " in text
        assert f", on Linux {platform.machine()}" in text

    def test_of_one_for_another_machine(self, tmp_path: pathlib.Path) -> None:
        other = 183 if platform.machine() == "x86_64" else 62
        text = message(patched(tmp_path, 18, other.to_bytes(2, "little")))
        assert f"it is for {elf.MACHINES[other]}, and this machine is {platform.machine()}." in text
        assert "It does not say what it was built for (no _C.json)." in text

    def test_of_one_that_needs_another_torch_names_the_symbol(self, tmp_path: pathlib.Path) -> None:
        source = 'extern "C" int aoti_torch_no_such(); struct S { S() { aoti_torch_no_such(); } } s;'
        text = message(compiled(tmp_path, source))
        assert "undefined symbol: aoti_torch_no_such." in text
        assert "No library in this process has `aoti_torch_no_such`" in text

    def test_of_one_with_cuda_in_a_torch_without(self, tmp_path: pathlib.Path) -> None:
        """A torch without CUDA has no libtorch_cuda.so; here a library needs one by a name that there is not."""
        missing = compiled(tmp_path, "int x;", "-Wl,-soname,libtorch_cuda_missing.so", name="libtorch_cuda_missing.so")
        library = compiled(tmp_path, "int y;", "-Wl,--no-as-needed", missing.name)
        missing.unlink()
        text = message(library)
        assert "libtorch_cuda_missing.so: cannot open shared object file" in text
        assert "A library built with CUDA needs a torch built with CUDA" in text
        assert "TILEON_CPU_ONLY=1" in text

    def test_of_the_packages_own_says_how_to_build_it_again(self, tmp_path: pathlib.Path) -> None:
        package = package_in(tmp_path)
        (package / "tileon_ops" / "_C.so").write_text("not a library")
        text = run("-c", IMPORT, path=package).stdout
        assert "it is no library" in text
        assert "python setup.py build_ext --inplace --force" in text
        assert "python -m tileon_ops.info" in text

    def test_of_a_second_copy_comes_instead_of_a_crash(self, tmp_path: pathlib.Path) -> None:
        """Two copies would register the ops twice, which ends the process."""
        shutil.copy(LIBRARY, tmp_path / "_C.so")
        result = run("-c", f"import torch\ntorch.ops.load_library('{tmp_path / '_C.so'}')\n{IMPORT}")
        assert result.returncode == 0, result.stderr
        assert f"another library has registered the ops in this process, {tmp_path / '_C.so'}." in result.stdout

    def test_of_a_second_copy_that_is_loaded_later_is_a_warning(self, tmp_path: pathlib.Path) -> None:
        """It registers nothing, and the first one's kernels go on."""
        copy = tmp_path / "_C.so"
        shutil.copy(LIBRARY, copy)
        program = (
            "import torch, tileon_ops\n"
            "a = torch.arange(6.0).view(2, 3).requires_grad_()\n"
            "before = tileon_ops.matmul(a, a.t())\n"
            f"torch.ops.load_library('{copy}')\n"
            "after = tileon_ops.matmul(a, a.t())\n"
            "after.sum().backward()\n"
            "print(torch.equal(after, before), torch.equal(after, a @ a.t()), a.grad is not None, end=' ')\n"
            "print(tileon_ops.last_kernel() != '')\n"
        )
        result = run("-c", program)
        assert result.returncode == 0, result.stderr
        assert result.stdout == "True True True True\n"
        said = f"another library has registered the ops in this process, so {copy} registers nothing"
        assert result.stderr.count(said) == 1
        assert "Overriding a previously registered kernel" not in result.stderr

    def test_there_is_none_where_the_library_is_loaded_already(self) -> None:
        result = run("-c", f"import torch\ntorch.ops.load_library('{LIBRARY}')\nimport tileon_ops; print('good')")
        assert result.stdout == "good\n", result.stderr


class TestNamedLibrary:
    """TILEON_LIBRARY names another `_C.so`: the watchdog build's, for one."""

    def test_is_loaded_in_place_of_the_packages(self, tmp_path: pathlib.Path) -> None:
        for name in ("_C.so", "_C.json"):
            shutil.copy(PACKAGE / name, tmp_path / name)
        program = "import tileon_ops; print(*tileon_ops._loading.library.mapped(), sep='\\n')"
        result = run("-c", program, TILEON_LIBRARY=str(tmp_path / "_C.so"))
        assert result.returncode == 0, result.stderr
        assert str(tmp_path / "_C.so") in result.stdout.splitlines()
        assert str(LIBRARY) not in result.stdout.splitlines()

    def test_that_is_missing_is_said(self, tmp_path: pathlib.Path) -> None:
        text = message(tmp_path / "_C.so")
        assert f"ImportError: TILEON_LIBRARY names {tmp_path / '_C.so'}, and there is no such file" in text

    def test_that_is_broken_is_said(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "_C.so").write_text("not a library")
        text = message(tmp_path / "_C.so")
        assert f"tileon_ops could not load {tmp_path / '_C.so'}: it is no library" in text
        assert "TILEON_LIBRARY names it. Without that variable the package's own library loads." in text

    def test_that_has_none_of_the_ops_is_said(self) -> None:
        other = pathlib.Path(torch.__file__).parent / "lib" / "libc10.so"
        assert "it is another library, which has none of the ops" in message(other)


def test_an_old_torch_is_said(tmp_path: pathlib.Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("__version__ = '2.9.1'\nclass version: cuda = None\n")
    result = run("-c", IMPORT, path=f"{tmp_path}:{ROOT}")
    assert "ImportError: tileon_ops needs torch 2.11 or newer; this is torch 2.9.1 with no CUDA" in result.stdout
