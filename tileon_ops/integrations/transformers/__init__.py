"""Block-scaled layers in transformers: `from_pretrained(..., quantization_config=TileonConfig("mxfp4"))`.

Importing this module registers the method "tileon" with transformers: a model that was saved with it loads again. It
also lets a TileonConfig meet checkpoints that come quantized in a published layout.
"""

from __future__ import annotations

try:
    import transformers.core_model_loading
    import transformers.quantizers.auto  # noqa: F401
except ImportError as error:
    needs = "tileon_ops.integrations.transformers needs transformers >= 5: pip install 'tileon_ops[transformers]'"
    raise ImportError(f"{needs} ({error})") from error

from tileon_ops.integrations.transformers.config import METHOD, TileonConfig
from tileon_ops.integrations.transformers.hook import install
from tileon_ops.integrations.transformers.quantizer import TileonQuantizer

__all__ = ["METHOD", "TileonConfig", "TileonQuantizer"]

install()
