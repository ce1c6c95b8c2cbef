"""Matrix products with a fused epilogue as PyTorch ops: `torch.ops.tileon.*`, and a thin Python face over them."""

from tileon_ops import _library
from tileon_ops._version import __version__

_library.load()

from tileon_ops import _autocast, _autograd, _fake, _out  # noqa: E402  (their ops exist only now)

for _rules in (_fake, _autograd, _out, _autocast):
    _rules.register()

__all__ = ["__version__"]
