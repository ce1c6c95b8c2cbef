"""What is here: torch, CUDA, GPUs, what the library was built for, and which backend each dtype would take.

    python -m tileon_ops.info

never raises: what cannot be found out is said in its place. That is also why `import tileon_ops` does not insist on the
library when it is this module that is wanted.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from tileon_ops import _build_state, _library
from tileon_ops._version import __version__

_DTYPES = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
_TENSOR_CORE_DTYPES = _DTYPES[:2]  # those that Hopper's own kernels take
_FORMATS = ("mxfp8", "mxfp4", "mixed", "nvfp4")

# The variables that change what runs, each read once a process.
_VARIABLES = {
    "TILEON_LIBRARY": "the package's own library",
    "TILEON_HOPPER": "Hopper's own kernels are chosen; 0 leaves the portable ones",
    "TILEON_PDL": "programmatic dependent launch is on; 0 turns it off",
    "TILEON_LOG": "no log; 1 prints the kernel of every call",
}


def _gpus() -> Iterator[tuple[str, str]]:
    if not torch.cuda.is_available():
        yield "GPU", "none that torch can use"
        return
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        yield (
            f"GPU {index}",
            f"{properties.name}, compute capability {properties.major}.{properties.minor}, "
            f"{properties.total_memory / 2**30:.0f} GiB",
        )


def _driver() -> str:
    """The version of NVIDIA's kernel module."""
    try:
        return Path("/proc/driver/nvidia/version").read_text().splitlines()[0].strip()
    except (OSError, IndexError):
        return "none found"


def _build() -> Iterator[tuple[str, str]]:
    """What the library says of itself, once it is loaded."""
    for line in torch.ops.tileon._build_info().splitlines():
        key, _, value = line.partition(": ")
        yield f"built: {key}", value
    rows = [line.split()[1] for line in torch.ops.tileon._matmul_configs().splitlines() if line.strip()]
    yield "tile table", f"{len(rows)} rows" if rows else "empty: a library for the CPU alone"
    hopper = sum(row.startswith("sm90_") for row in rows)
    yield "Hopper's kernels", f"{hopper} rows" if hopper else "not in this library"


def _variables() -> Iterator[tuple[str, str]]:
    for name, otherwise in _VARIABLES.items():
        yield name, os.environ.get(name) or f"not set: {otherwise}"


def _sources() -> str:
    root = _build_state.PACKAGE.parent
    if not (root / "csrc").is_dir():
        return "not here (an installed package)"
    record = _build_state.read_record(_build_state.record_of(_library.path()))
    if record is None:
        return "unknown: there is no _C.json"
    return "the tree's" if record.sources == _build_state.source_hash(root) else "not the tree's: build again"


def _backend(device: str, dtype: str, row_stride: int = 1024) -> str:
    """The kernel that a product of two 1024 x 1024 matrices takes whose rows lie `row_stride` elements apart."""
    a = torch.ones(1024, row_stride, device=device).to(getattr(torch, dtype))[:, :1024]
    b = a.t() if a.element_size() == 1 else a  # fp8 kernels read k-major operands
    with torch.inference_mode():
        torch.ops.tileon.matmul(a, b)
    return str(torch.ops.tileon._last_kernel())


def _block_scaled_backend(device: str, fmt: str) -> str:
    """The kernel that a block-scaled product of two 1024 x 1024 matrices takes."""
    x = torch.ones(1024, 1024, device=device)
    with torch.inference_mode():
        (a, scale_a), (b, scale_b) = (
            torch.ops.tileon.quantize(x, own) for own in (("mxfp8", "mxfp4") if fmt == "mixed" else (fmt, fmt))
        )
        torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b)
    return str(torch.ops.tileon._last_kernel())


def _backends() -> Iterator[tuple[str, str]]:
    has_gpu = torch.cuda.is_available()
    for device in ("cpu", "cuda") if has_gpu else ("cpu",):
        for dtype in _DTYPES:
            yield f"matmul {dtype} on {device}", _said(lambda: _backend(device, dtype))  # noqa: B023 (called at once)
        for fmt in _FORMATS:
            yield f"block_scaled {fmt} on {device}", _said(lambda: _block_scaled_backend(device, fmt))  # noqa: B023
    for dtype in _TENSOR_CORE_DTYPES if has_gpu else ():  # an odd stride is beyond what Hopper's loads can read
        yield f"matmul {dtype} on cuda, odd strides", _said(lambda: _backend("cuda", dtype, 1025))  # noqa: B023


def _said(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"


def _section(ask: Callable[[], Iterator[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    try:
        yield from ask()
    except Exception as error:
        yield "failed", f"{type(error).__name__}: {error}"


def _load() -> str:
    _library.load()
    return str(_library.path())


def lines() -> Iterator[tuple[str, str]]:
    """Pairs of what and what of it."""
    yield "tileon_ops", __version__
    yield "Python", f"{platform.python_version()} on {platform.platform()}"
    yield "torch", torch.__version__
    yield "torch's CUDA", torch.version.cuda or "none: a torch for the CPU alone"
    yield from _section(_gpus)
    yield "GPU driver", _said(_driver)
    library = _said(_load)
    yield "library", library
    yield "library's sources", _said(_sources)
    yield from _section(_variables)
    if not library.startswith("failed"):
        yield from _section(_build)
        yield from _section(_backends)


def main() -> None:
    for key, value in lines():
        print(f"{key + ':':38}{value}", flush=True)


if __name__ == "__main__":
    main()
