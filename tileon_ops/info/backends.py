"""The section "backends": the kernel that each op takes here, dtype by dtype, and why no faster one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from tileon_ops.info.doctor import Examination, Facts, Section, described
from tileon_ops.info.library import is_loaded

DTYPES = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
FORMATS = ("mxfp8", "mxfp4", "mixed", "nvfp4")
# Scaled operands besides, as the tuner names them: float32 scales, and an `a` without a scale.
SCALED = (
    *("float8_e4m3fn_tensor", "float8_e4m3fn_row", "float8_e4m3fn_1x128*float8_e4m3fn_128x128"),
    *("float8_e5m2_row", "int8_tensor", "int8_row"),
    *("bfloat16*mxfp8", "bfloat16*mxfp4", "bfloat16*nvfp4"),
    *("bfloat16*float8_e4m3fn_row", "bfloat16*float8_e4m3fn_128x128", "bfloat16*int8_row"),
)
QUANTIZED = (
    *("mxfp8", "mxfp4", "nvfp4"),
    *("fp8_tensor", "fp8_row", "fp8_1x128", "fp8_128x128", "int8_row", "int8_tensor"),
)
_ODD = "odd strides"  # which Hopper's loads cannot read

# Sizes of the products, m = n = k: on a GPU such as the fast kernels are for, on a CPU such as end at once.
_SIZES = {"cuda": 1024, "cpu": 128}


def _matmul(device: str, dtype: str, odd: bool) -> None:
    import torch

    size = _SIZES[torch.device(device).type]
    a = torch.ones(size, size + odd, device=device).to(getattr(torch, dtype))[:, :size]
    torch.ops.tileon.matmul(a, a.t() if a.element_size() == 1 else a)  # fp8 kernels read k-major operands


def _block_scaled_matmul(device: str, form: str) -> None:
    import torch

    from tileon_ops.tune.scaled_operands import names_of, random_operand

    size, generator = _SIZES[torch.device(device).type], torch.Generator(device).manual_seed(0)
    (a, scale_a), (b, scale_b) = (random_operand(name, size, size, generator) for name in names_of(form))
    torch.ops.tileon.block_scaled_matmul(a, b, scale_a, scale_b)


def _quantize(device: str, form: str) -> None:
    import torch

    torch.ops.tileon.quantize(torch.ones(128, 128, device=device), form)


def _dequantize(device: str, form: str) -> None:
    import torch

    data, scale = torch.ops.tileon.quantize(torch.ones(128, 128, device=device), form)
    torch.ops.tileon.dequantize(data, scale, form)


def _calls(device: str) -> Iterator[tuple[str, str, str, Callable[[], None]]]:
    """Op, dtype or format, operands, and the call."""
    for dtype in DTYPES:
        yield "matmul", dtype, "aligned", lambda dtype=dtype: _matmul(device, dtype, odd=False)  # type: ignore[misc]
    for dtype in DTYPES[:2] if device != "cpu" else ():
        yield "matmul", dtype, _ODD, lambda dtype=dtype: _matmul(device, dtype, odd=True)  # type: ignore[misc]
    for form in (*FORMATS, *SCALED):
        yield "block_scaled_matmul", form, "aligned", lambda form=form: _block_scaled_matmul(device, form)  # type: ignore[misc]
    for form in QUANTIZED:
        yield "quantize", form, "aligned", lambda form=form: _quantize(device, form)  # type: ignore[misc]
        yield "dequantize", form, "aligned", lambda form=form: _dequantize(device, form)  # type: ignore[misc]


def kernel_of(call: Callable[[], None]) -> str:
    """The kernel that the call takes.

    Raises:
        Exception: whatever the call raises.
    """
    import torch

    with torch.inference_mode():
        call()
    return str(torch.ops.tileon._last_kernel())


def why_not_faster(
    call: Facts, backend: str | None, library: Facts, capability: str | None, hopper: str | None
) -> str | None:
    """Why this call takes the kernel that it takes; None where it is the fastest that there is.

    Args:
        call: with "dtype", "operands" and "kernel".
        backend: of the kernel's config; None where the kernel has no config.
        library: that section's facts.
        capability: the GPU's compute capability; None for the CPU.
        hopper: what TILEON_HOPPER is set to.
    """
    if capability is None:
        return "CPU tensors: tiles in plain C++, and ATen"
    if backend == "sm90" and "copied" in call["kernel"]:
        return "an operand is copied first: its strides are not ones that the kernel reads"
    if backend != "sm80":
        return None
    if capability != "9.0":
        return f"compute capability {capability}: portable kernels (Hopper's own are for 9.0)"
    if call["dtype"] == "float64":
        return "Hopper's own kernels are for float32 and narrower dtypes"
    if not library["rows_of_hopper"]:
        return f"no sm_90a kernels in this library (built for {' '.join(library['targets'])})"
    if hopper == "0":
        return "TILEON_HOPPER=0"
    if call["operands"] == _ODD:
        return "Hopper's loads cannot read these strides"
    return "a portable kernel is faster at this size, by the cost model or by tuning"


@contextlib.contextmanager
def _nothing_is_measured() -> Iterator[None]:
    """TILEON_TUNE=1 would have the calls in here measured, for seconds, and remembered."""
    if os.environ.get("TILEON_TUNE") != "1":
        yield
        return
    from tileon_ops.tune import tuned_configs

    os.environ["TILEON_TUNE"] = ""
    tuned_configs.announce()
    try:
        yield
    finally:
        os.environ["TILEON_TUNE"] = "1"
        tuned_configs.announce()


def _devices(examination: Examination) -> list[tuple[str, str | None]]:
    """The CPU, and the first GPU of each compute capability."""
    devices: dict[str | None, str] = {None: "cpu"}
    if examination.known("cuda", "usable_by_torch"):
        for gpu in examination.known("cuda", "gpus"):
            devices.setdefault(gpu["capability"], f"cuda:{gpu['index']}")
    return [(device, capability) for capability, device in devices.items()]


def _look(examination: Examination) -> None:
    if not is_loaded(examination):
        return
    with _nothing_is_measured():
        _call_all(examination)


def _call_all(examination: Examination) -> None:
    from tileon_ops._rules.configs import config_of

    library = dict(examination.earlier["library"])
    for device, capability in _devices(examination):
        failures = []
        for op, dtype, operands, call in _calls(device):
            found: Facts = {"op": op, "dtype": dtype, "device": device, "operands": operands}
            found.update(kernel=None, why_not_faster=None, failure=None)
            try:
                found["kernel"] = kernel_of(call)
                config = config_of(found["kernel"])
                backend = None if config is None else config.backend
                hopper = os.environ.get("TILEON_HOPPER")
                found["why_not_faster"] = why_not_faster(found, backend, library, capability, hopper)
            except Exception as error:
                found["failure"] = " ".join(described(error).split())
                failures.append(found)
            examination.facts["calls"].append(found)
        if failures and not (device != "cpu" and library["cuda"] == "none"):  # which the library's section says
            first = failures[0]
            examination.error(
                f"{len(failures)} kinds of calls fail on {device}, first {first['op']} of {first['dtype']}: "
                f"{first['failure']}",
                "See the problems above, if any; else run `python -m tileon_ops` and report what it prints.",
            )


BACKENDS = Section("backends", {"calls": []}, _look)
