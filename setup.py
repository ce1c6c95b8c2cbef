"""Builds tileon_ops/_C.so: with CUDA wherever nvcc is found (a GPU is not needed), for the CPU alone otherwise.

    python setup.py build_ext --inplace      # does nothing when the library is up to date (--force builds anyway)

It is built with the torch that the environment has, and no other is installed for that: where pip's build isolation
hides it, it is found all the same.

Environment: TILEON_CPU_ONLY=1 leaves CUDA out; FORCE_CUDA=1 insists on it; TORCH_CUDA_ARCH_LIST="9.0;12.0+PTX" names
the GPUs; MAX_JOBS compilers run at a time (2, since one takes up to 5 GB); CUDA_HOME, CXX, PYTORCH_NVCC as in torch.
TILEON_WATCHDOG=1 builds another library, build/watchdog/tileon_ops/_C.so, for Hopper alone: its kernels fault where
they would wait for ever.
"""

from __future__ import annotations

import importlib.util
import site
import sys
from pathlib import Path

from setuptools import Extension, setup

ROOT = Path(__file__).resolve().parent
TORCH_TARGET_VERSION = "0x020b000000000000"  # 2.11: the stable ABI that the library keeps to


def find_torch() -> None:
    """Lets `import torch` find the environment's own where pip builds in isolation, with site-packages out of sight."""
    if importlib.util.find_spec("torch") is None:
        sys.path += [*site.getsitepackages(), site.getusersitepackages()]
    if importlib.util.find_spec("torch") is None:
        sys.exit(
            "tileon_ops is built with the torch that it will run beside, and there is none here. Install torch >= 2.11 "
            "first; if it is installed, build isolation hides it: pip install --no-build-isolation"
        )


find_torch()
sys.path.append(str(ROOT / ".ci"))

import build_ext  # noqa: E402 (.ci/build_ext.py)
import torch  # noqa: E402
from torch.utils import cpp_extension  # noqa: E402


def whole(value: str | Path) -> str:
    """A flag's value for nvcc, which splits values at commas, and hands them to a shell, but for what is in quotes."""
    return f'"{value}"'


def extension() -> Extension:
    folders = (".", "entry", "tuning", "cpu", "cpu/tiles")
    sources = [path for folder in folders for path in ROOT.glob(f"csrc/{folder}/*.cpp")]
    libraries = ["torch", "torch_cpu", "c10", "dl"]
    macros = [f"-DTORCH_TARGET_VERSION={TORCH_TARGET_VERSION}"]
    build_info = [f"-DTILEON_VERSION={build_ext.VERSION}", f"-DTILEON_TORCH={torch.__version__}"]  # for ops.cpp
    device = "cuda" if build_ext.WITH_CUDA else "cpu"
    includes = [ROOT / "csrc"]
    system_includes = [Path(path) for path in cpp_extension.include_paths(device)]
    if build_ext.WITH_CUDA:
        sources += [*ROOT.glob("csrc/cuda/**/*.cpp"), *ROOT.glob("csrc/cuda/**/*.cu")]
        # the runtime inside: the binary then runs beside any torch's own copy of it, and needs no libcuda to load
        libraries += ["torch_cuda", "cudart_static", "rt", "dl", "pthread"]
        macros += ["-DTILEON_WITH_CUDA", "-DUSE_CUDA"]
        if build_ext.WITH_HOPPER:
            macros.append("-DTILEON_WITH_SM90")
        if build_ext.WATCHDOG:
            macros.append("-DTILEON_WATCHDOG")
        build_info += [f"-DTILEON_NVCC={build_ext.NVCC}", f"-DTILEON_TARGETS={','.join(build_ext.TARGETS)}"]
        system_includes.append(Path(str(cpp_extension.CUDA_HOME)) / "include/cccl")
    system_includes = [path for path in system_includes if path.is_dir()]
    # torch writes __FILE__ into the binary and into messages: nobody else has our paths
    relative_paths = [f"-fmacro-prefix-map={path}/=" for path in (ROOT, *system_includes)]
    # nobody reads the exception flags, and a selection may then compute both sides; each operation rounds by itself on
    # every processor
    vectors = ["-fno-trapping-math", "-ffp-contract=off"]
    common = ["-O3", "-std=c++20", *macros]
    names = {str(path.relative_to(ROOT)) for path in sources}
    return Extension(
        "tileon_ops._C",
        sources=sorted(name for name in names if build_ext.WITH_HOPPER or not name.startswith(build_ext.HOPPER_FOLDER)),
        libraries=libraries,
        library_dirs=cpp_extension.library_paths(device),
        extra_compile_args={
            "cxx": [
                *common,
                *(f"-I{path}" for path in includes),
                *(word for path in system_includes for word in ("-isystem", str(path))),
                *build_info,
                *relative_paths,
                *("-g0", "-Wall", "-Wextra", "-fvisibility=hidden", *vectors),
            ],
            "nvcc": [
                *common,
                *(f"-I{whole(path)}" for path in includes),
                *(word for path in system_includes for word in ("-isystem", whole(path))),
                *build_ext.portable_gencodes(),
                "--expt-relaxed-constexpr",
                "--compress-mode=size",
                *(f"-Xcompiler={whole(flag)}" for flag in (*relative_paths, "-fvisibility=hidden")),
                # registers that spill and arrays in local memory: a kernel that does either is a mistake
                f"-Xptxas=-warn-spills,-warn-lmem-usage{',-Werror' if build_ext.spills_are_errors() else ''}",
            ],
        },
        extra_link_args=["-Wl,-s", "-Wl,--as-needed", "-Wl,--exclude-libs,ALL"],
        py_limited_api=True,  # no Python symbol at all: any Python loads it
        language="c++",
    )


setup(
    license="Apache-2.0",  # here, since setuptools before 77 refuses this form of it in pyproject.toml
    ext_modules=[extension()],
    cmdclass={"build_ext": build_ext.BuildLibrary, **build_ext.wheel_command()},
)
