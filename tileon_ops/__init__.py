"""Matrix products with a fused epilogue as PyTorch ops: `torch.ops.tileon.*`, and a thin Python face over them."""

import re as _re
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from tileon_ops._version import __version__


def _is_run(module: str) -> bool:
    """Whether this is the import that `python -m` of a module of the package begins with."""
    words = "\0".join(["", *_sys.orig_argv, ""])  # -m may end a word of several flags, and begin the module's
    return _sys.argv[:1] == ["-m"] and _re.search(rf"\0-[A-Za-z]*m\0?{_re.escape(module)}\0", words) is not None


# `python -m tileon_ops.info` is there for whoever cannot import this: it tries that itself, and says what failed.
if not _is_run("tileon_ops.info"):
    from tileon_ops import _library

    _library.load()
    # their ops exist only now
    from tileon_ops import _rules
    from tileon_ops.block_scaled import block_scaled_matmul
    from tileon_ops.kernel_log import last_kernel
    from tileon_ops.linear import Linear
    from tileon_ops.matmul import matmul
    from tileon_ops.quantize import dequantize, nvfp4_global_scale, pack_scales, quantize, unpack_scales
    from tileon_ops.verify import verify

    if not _is_run("tileon_ops.tune"):  # or Python would warn that it is imported before it is run
        from tileon_ops.tune import tune

    _rules.register()

if _TYPE_CHECKING:
    from tileon_ops._convert import Conversion, conversion_report, convert
    from tileon_ops._fuse import fuse
    from tileon_ops.block_scaled_linear import BlockScaledLinear
    from tileon_ops.tune import TunedProblem, TuneReport

_LAZY = {
    "BlockScaledLinear": "block_scaled_linear",
    "TuneReport": "tune",
    "TunedProblem": "tune",
    "Conversion": "_convert",
    "conversion_report": "_convert",
    "convert": "_convert",
    "fuse": "_fuse",
}


def __getattr__(name: str) -> object:
    """What many programs never use is imported at its first use; with `fuse` comes torch's slow compiler."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """With those names, which completion would not show before their first use."""
    return sorted({*globals(), *__all__})


__all__ = [
    "BlockScaledLinear",
    "Conversion",
    "Linear",
    "TuneReport",
    "TunedProblem",
    "__version__",
    "block_scaled_matmul",
    "conversion_report",
    "convert",
    "dequantize",
    "fuse",
    "last_kernel",
    "matmul",
    "nvfp4_global_scale",
    "pack_scales",
    "quantize",
    "tune",
    "unpack_scales",
    "verify",
]
