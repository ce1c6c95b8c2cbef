"""Matrix products with a fused epilogue as PyTorch ops: `torch.ops.tileon.*`, and a thin Python face over them."""

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from tileon_ops._loading.command import module_to_run as _module_to_run
from tileon_ops._version import __version__

# `python -m tileon_ops.info` is there for whoever cannot import this: it tries that itself, and says what failed.
if _module_to_run() != "tileon_ops.info":
    from tileon_ops._loading import library as _library

    _library.load()
    # their ops exist only now
    from tileon_ops import _rules
    from tileon_ops._verify.table import verify
    from tileon_ops.nn.linear import Linear
    from tileon_ops.ops.batch_invariance import batch_invariant
    from tileon_ops.ops.block_scaled import block_scaled_matmul
    from tileon_ops.ops.dense import matmul
    from tileon_ops.ops.kernel_log import last_kernel
    from tileon_ops.ops.quantization import dequantize, nvfp4_global_scale, pack_scales, quantize, unpack_scales
    from tileon_ops.ops.quantized_tensor import QuantizedTensor
    from tileon_ops.tune import tuned_configs as _tuned_configs

    # The import above has made `tune` the package; from here on it is the function. `python -m tileon_ops.tune` and
    # `from tileon_ops.tune.cache import ...` find the package in sys.modules, whatever the attribute is.
    from tileon_ops.tune.tuning import tune

    _rules.register()
    _tuned_configs.register()

if _TYPE_CHECKING:
    from tileon_ops.fx.fusion import fuse
    from tileon_ops.nn.block_scaled_linear import BlockScaledLinear
    from tileon_ops.nn.conversion.replacement import convert
    from tileon_ops.nn.conversion.report import Conversion, ConversionReport, conversion_report
    from tileon_ops.tune.tuning import TunedProblem, TuneReport

_LAZY = {
    "BlockScaledLinear": "nn.block_scaled_linear",
    "TuneReport": "tune.tuning",
    "TunedProblem": "tune.tuning",
    "Conversion": "nn.conversion.report",
    "ConversionReport": "nn.conversion.report",
    "conversion_report": "nn.conversion.report",
    "convert": "nn.conversion.replacement",
    "fuse": "fx.fusion",
}

# A layer is pickled as `tileon_ops.Linear`, wherever its module stands; older pickles name the modules of their time.
for _module in ("linear", "block_scaled_linear"):
    _sys.modules[f"{__name__}.{_module}"] = _sys.modules[__name__]


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
    "ConversionReport",
    "Linear",
    "QuantizedTensor",
    "TuneReport",
    "TunedProblem",
    "__version__",
    "batch_invariant",
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
