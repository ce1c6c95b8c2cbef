"""The build of tileon_ops/_C.so for setup.py: what it is built for, how each folder is compiled, when it is skipped.

It takes the torch that setup.py has found. The environment variables are in setup.py's docstring.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from setuptools import Extension
from torch.utils import cpp_extension

ROOT = Path(__file__).resolve().parents[1]
OLDEST_TORCH = (2, 11)

# Hopper's own kernels use instructions that only this target has; no other architecture runs them, not as PTX either.
HOPPER = "9.0a"
HOPPER_FOLDER = "csrc/cuda/sm90/"  # compiled for HOPPER alone, everything else for the plain targets

# Every architecture the kernels were compiled for and, as PTX that the driver compiles, every later one: the portable
# kernel uses nothing newer than 8.0.
DEFAULT_TARGETS = ["8.0", "8.6", "8.9", HOPPER, "10.0", "12.0", "8.0+PTX"]


def load_file(path: str) -> ModuleType:
    """A module of the package by its path: importing the package would look for the library that is yet to be built."""
    spec = importlib.util.spec_from_file_location(f"_tileon_{Path(path).stem}", ROOT / "tileon_ops" / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


VERSION: str = load_file("_version.py").__version__
build_state = load_file("_loading/build_state.py")


def asked(variable: str) -> bool:
    return os.environ.get(variable, "0") == "1"


def run_nvcc(*arguments: str) -> str:
    """nvcc's answer, or "" where there is no nvcc that runs."""
    if cpp_extension.CUDA_HOME is None:
        return ""
    try:
        return subprocess.run(
            [f"{cpp_extension.CUDA_HOME}/bin/nvcc", *arguments], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def nvcc_version() -> str | None:
    match = re.search(r"release (\d+\.\d+)", run_nvcc("--version"))
    return match[1] if match else None


def wanted_targets() -> list[str] | None:
    """The GPUs that TORCH_CUDA_ARCH_LIST names, as "9.0" and "9.0+PTX"; None where it names none."""
    words = re.split(r"[;\s]+", os.environ.get("TORCH_CUDA_ARCH_LIST", "").strip())
    targets: list[str] = []
    for word in filter(None, words):
        match = re.fullmatch(r"(\d+\.\d[af]?)(\+PTX)?", word)
        if match is None:
            sys.exit(f'TORCH_CUDA_ARCH_LIST: "{word}" is not like 9.0 or 9.0+PTX')
        targets += [match[1], match[1] + "+PTX"] if match[2] else [match[1]]
    return targets or None


def default_targets() -> list[str]:
    """DEFAULT_TARGETS, less those that this nvcc does not know; the watchdog is for Hopper's kernels alone."""
    if WATCHDOG:
        return [HOPPER]
    known = re.findall(r"sm_(\d+)", run_nvcc("--list-gpu-code"))
    return [target for target in DEFAULT_TARGETS if re.sub(r"\D", "", target) in known or not known]


def built_targets(asked_for: list[str]) -> list[str]:
    """What a build for these targets has in the end: HOPPER in place of 9.0 where Hopper's kernels come with it."""
    plain = dict.fromkeys(build_state.plain(target) for target in asked_for)
    hopper_is_here = any(ROOT.glob(f"{HOPPER_FOLDER}**/*.cu"))
    return [HOPPER if target == build_state.plain(HOPPER) and hopper_is_here else target for target in plain]


def gencode(target: str) -> str:
    number = target.removesuffix("+PTX").replace(".", "")
    return f"-gencode=arch=compute_{number},code={'compute' if target.endswith('+PTX') else 'sm'}_{number}"


if tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2]) < OLDEST_TORCH:
    sys.exit(f"tileon_ops needs torch {OLDEST_TORCH[0]}.{OLDEST_TORCH[1]} or newer, this is {torch.__version__}")

WATCHDOG = asked("TILEON_WATCHDOG")
NVCC = None if asked("TILEON_CPU_ONLY") else nvcc_version()
if asked("FORCE_CUDA") and NVCC is None:
    sys.exit("FORCE_CUDA=1, but there is no nvcc (looked in CUDA_HOME, PATH and /usr/local/cuda)")
WITH_CUDA = NVCC is not None and (torch.version.cuda is not None or asked("FORCE_CUDA"))
if WATCHDOG and not WITH_CUDA:
    sys.exit("TILEON_WATCHDOG=1 is for the GPU's kernels, and this would be a build for the CPU alone")
TARGETS = built_targets(wanted_targets() or default_targets()) if WITH_CUDA else []
WITH_HOPPER = HOPPER in TARGETS


def why_no_cuda() -> str:
    if asked("TILEON_CPU_ONLY"):
        return "TILEON_CPU_ONLY=1"
    return "no nvcc was found" if NVCC is None else "this torch was built without CUDA"


def portable_gencodes() -> list[str]:
    """The flags that name the GPUs, for all but the kernels in HOPPER_FOLDER."""
    return [gencode(build_state.plain(target)) for target in TARGETS]


def spills_are_errors() -> bool:
    """Whether all targets are GPUs whose instructions the tests read: for others ptxas, which takes more registers in
    some kernels there, only notes it, so that the library can be built. So it does for the watchdog, whose checks take
    registers too."""
    plain = {build_state.plain(target).removesuffix("+PTX") for target in TARGETS}
    return not WATCHDOG and plain <= {"8.0", "8.9", "9.0"}


def hopper_flags(flags: dict[str, list[str]]) -> dict[str, list[str]]:
    """The compilers' flags for the kernels in HOPPER_FOLDER."""
    portable = [flag for flag in flags["nvcc"] if not flag.startswith("-gencode")]
    return {**flags, "nvcc": [*portable, gencode(HOPPER)]}


def copy_pair(source: Path, target: Path) -> None:
    """Copies _C.so and _C.json; a process that has the old library loaded keeps it whole."""
    target.mkdir(parents=True, exist_ok=True)
    for name in (build_state.LIBRARY.name, build_state.RECORD.name):
        shutil.copy2(source / name, target / f"{name}.new")
        os.replace(target / f"{name}.new", target / name)


class BuildLibrary(cpp_extension.BuildExtension):
    """build_ext that skips a library that is up to date and records what it built."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        os.environ.setdefault("MAX_JOBS", "2")
        options["no_python_abi_suffix"] = True  # _C.so
        options["use_ninja"] = cpp_extension.is_ninja_available()
        super().__init__(*arguments, **options)

    def finalize_options(self) -> None:
        self.told_to_build = bool(self.force)  # torch sets `force` for every build with ninja
        if WATCHDOG:  # never into the package
            self.inplace = False
            self.build_lib = str(build_state.WATCHDOG_LIBRARY.parents[1])
            self.build_temp = f"{self.build_lib}/temp"
        super().finalize_options()

    def run(self) -> None:
        if WATCHDOG and self.distribution.commands != ["build_ext"]:
            sys.exit("TILEON_WATCHDOG=1 is for `python setup.py build_ext`: no package is made of that library")
        reason = "--force" if self.told_to_build else None
        reason = reason or build_state.why_rebuild(
            ROOT, cuda=WITH_CUDA, cpu_only=asked("TILEON_CPU_ONLY"), targets=wanted_targets(), watchdog=WATCHDOG
        )
        if reason is None:
            print("tileon_ops: _C.so is up to date")
            if not self.inplace and not WATCHDOG:
                copy_pair(build_state.PACKAGE, Path(self.build_lib) / "tileon_ops")
            return
        kind = "the watchdog, " if WATCHDOG else ""
        kind += f"CUDA {NVCC} for {' '.join(TARGETS)}" if WITH_CUDA else f"the CPU alone ({why_no_cuda()})"
        print(f"tileon_ops: building for {kind}: {reason}", flush=True)
        self.force = True  # distutils looks at .cpp files alone; ninja knows the headers, and compiles what changed
        super().run()

    def copy_extensions_to_source(self) -> None:
        copy_pair(Path(self.build_lib) / "tileon_ops", build_state.PACKAGE)

    def build_extensions(self) -> None:
        for linker in ("linker_so", "linker_so_cxx"):  # some Pythons have the folder of their own libraries there
            flags = getattr(self.compiler, linker, None)
            if flags:
                setattr(self.compiler, linker, [flag for flag in flags if not flag.startswith("-Wl,-rpath")])
        if WITH_CUDA:
            self.check_nvcc()
        super().build_extensions()

    def compile_by_folder(self) -> None:
        """Makes the compiler take Hopper's kernels apart: torch knows one list of flags for all .cu files.

        Their objects go to a folder of their own, since torch writes one build.ninja into each.
        """
        compile_alike = self.compiler.compile

        def compile_all(sources: list[str], *, output_dir: str, extra_postargs: Any, **options: Any) -> list[str]:
            hopper = [name for name in sources if name.startswith(HOPPER_FOLDER) and name.endswith(".cu")]
            rest = [name for name in sources if name not in hopper]
            objects: list[str] = []
            for names, folder, flags in (
                (hopper, str(Path(output_dir) / "sm_90a"), hopper_flags(extra_postargs)),
                (rest, output_dir, extra_postargs),
            ):
                if names:
                    objects += compile_alike(names, output_dir=folder, extra_postargs=flags, **options)
            return objects

        self.compiler.compile = compile_all

    def check_nvcc(self) -> None:
        """Puts .ci/nvcc.py, which fails on what ptxas only notes, before nvcc: torch's own or PYTORCH_NVCC."""
        checked = [sys.executable, str(ROOT / ".ci/nvcc.py")]
        nvcc = os.environ.get("PYTORCH_NVCC") or shlex.quote(f"{cpp_extension.CUDA_HOME}/bin/nvcc")
        os.environ["PYTORCH_NVCC"] = f"{shlex.join(checked)} {nvcc}"  # which torch reads for ninja alone
        compile_one = self.compiler._compile

        def checked_compile(target: str, source: str, *arguments: Any) -> None:
            if source.endswith(".cu"):  # torch has nvcc there for as long as this takes
                self.compiler.compiler_so = [*checked, *self.compiler.compiler_so]
            compile_one(target, source, *arguments)

        self.compiler._compile = checked_compile

    def build_extension(self, ext: Extension) -> None:
        if WITH_CUDA:
            self.compile_by_folder()
        sources = build_state.source_hash(ROOT)  # before the build: an edit during it makes the library stale
        super().build_extension(ext)
        library = Path(self.get_ext_fullpath(ext.name))
        record = build_state.BuildRecord(
            sources=sources,
            library=build_state.file_hash(library),
            version=VERSION,
            cuda=NVCC if WITH_CUDA else "none",
            targets=TARGETS,
            torch=torch.__version__,
            watchdog=WATCHDOG,
        )
        build_state.write_record(record, build_state.record_of(library))


def wheel_command() -> dict[str, type]:
    """The command that builds wheels; an interpreter whose setuptools has none can still build the library."""
    try:
        from setuptools.command.bdist_wheel import bdist_wheel
    except ImportError:
        try:
            from wheel.bdist_wheel import bdist_wheel
        except ImportError:
            return {}

    class AnyPythonWheel(bdist_wheel):  # type: ignore[misc]
        """The library calls nothing of Python's, so one wheel serves every Python 3 of a platform."""

        def run(self) -> None:
            # setuptools only adds to that folder: modules that are no more would stay in every later wheel
            shutil.rmtree(Path(self.get_finalized_command("build").build_lib) / "tileon_ops", ignore_errors=True)
            super().run()

        def get_tag(self) -> tuple[str, str, str]:
            return "py3", "none", super().get_tag()[2]

    return {"bdist_wheel": AnyPythonWheel}
