"""Matrix products with a fused epilogue as PyTorch ops: `torch.ops.tileon.*`, and a thin Python face over them."""

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from tileon_ops._version import __version__

# `python -m tileon_ops.info` is there for whoever cannot import this: it tries that itself, and says what failed.
_is_info = _sys.argv[:1] == ["-m"] and (
    "-mtileon_ops.info" in _sys.orig_argv
    or any(pair == ("-m", "tileon_ops.info") for pair in zip(_sys.orig_argv, _sys.orig_argv[1:], strict=False))
)

if not _is_info:
    from tileon_ops import _library

    _library.load()
    # their ops exist only now
    from tileon_ops import _autocast, _autograd, _fake, _flops, _no_grad, _out, _sharding, _vmap
    from tileon_ops.block_scaled import block_scaled_matmul
    from tileon_ops.kernel_log import last_kernel
    from tileon_ops.linear import Linear
    from tileon_ops.matmul import matmul
    from tileon_ops.quantize import dequantize, nvfp4_global_scale, pack_scales, quantize, unpack_scales
    from tileon_ops.verify import verify

    for _rules in (_fake, _autograd, _no_grad, _out, _autocast, _sharding, _vmap, _flops):
        _rules.register()

if _TYPE_CHECKING:
    from tileon_ops._fuse import fuse


def __getattr__(name: str) -> object:
    """`fuse` is imported at its first use: with it comes torch's compiler, which takes long."""
    if name != "fuse":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tileon_ops._fuse import fuse

    globals()["fuse"] = fuse
    return fuse


__all__ = [
    "Linear",
    "__version__",
    "block_scaled_matmul",
    "dequantize",
    "fuse",
    "last_kernel",
    "matmul",
    "nvfp4_global_scale",
    "pack_scales",
    "quantize",
    "unpack_scales",
    "verify",
]
