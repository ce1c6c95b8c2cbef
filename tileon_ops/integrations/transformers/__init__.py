"""Block-scaled layers in transformers: `from_pretrained(..., quantization_config=TileonConfig("mxfp4"))`.

Importing this module registers the method "tileon" with transformers: a model that was saved with it loads again.
"""

from tileon_ops.integrations.transformers.quantizer import METHOD, TileonConfig, TileonQuantizer

__all__ = ["METHOD", "TileonConfig", "TileonQuantizer"]
