"""Where a TileonConfig meets a checkpoint that has a quantization of its own.

transformers lets the checkpoint's config win over the one that is passed, refuses one of another class, and takes a
method that it does not know, as "modelopt", for a plain checkpoint. None of its registries can change that. So one
function is wrapped, the one that picks the quantizer: it does nothing of its own unless a TileonConfig was passed and
the checkpoint names another method.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import transformers
from transformers import modeling_utils

from tileon_ops.integrations.transformers.config import METHOD, TileonConfig
from tileon_ops.integrations.transformers.published import layout_of

_NAME = "get_hf_quantizer"
_FIRST_PARAMETERS = ["config", "quantization_config"]


def install() -> None:
    """Wraps transformers.modeling_utils.get_hf_quantizer.

    Raises:
        ImportError: where transformers has no such function, or one of other parameters.
    """
    original = getattr(modeling_utils, _NAME, None)
    parameters = list(inspect.signature(original).parameters) if callable(original) else []
    if parameters[:2] != _FIRST_PARAMETERS:
        raise ImportError(
            f"tileon_ops.integrations.transformers needs transformers.modeling_utils.{_NAME}"
            f"({', '.join(_FIRST_PARAMETERS)}, ...), and transformers {transformers.__version__} has "
            + (f"{_NAME}({', '.join(parameters)})" if parameters else "no such function")
        )
    setattr(modeling_utils, _NAME, _wrapped(original))


def _wrapped(original: Any) -> Any:
    @functools.wraps(original)
    def get_hf_quantizer(config: Any, quantization_config: Any, *args: Any, **kwargs: Any) -> Any:
        own = _quantization_of(config) if isinstance(quantization_config, TileonConfig) else None
        if own is None or own.get("quant_method") == METHOD:
            return original(config, quantization_config, *args, **kwargs)
        layout = layout_of(own)
        # as of a checkpoint in this package's layout: the layers are replaced before weights are read
        _drop_quantization(config)
        config.quantization_config = quantization_config.to_dict()
        quantizer, *others = original(config, None, *args, **kwargs)
        quantizer.layout = layout
        return quantizer, *others

    return get_hf_quantizer


def _holders(config: Any) -> tuple[Any, Any]:
    """The configs that transformers looks for a quantization in: the model's, and that of its text part."""
    return config, config.get_text_config(decoder=True)


def _quantization_of(config: Any) -> dict[str, Any] | None:
    for holder in _holders(config):
        found = getattr(holder, "quantization_config", None)
        if found:
            return found if isinstance(found, dict) else found.to_dict()
    return None


def _drop_quantization(config: Any) -> None:
    """A model that is saved later would name it beside the one that it then has."""
    for holder in _holders(config):
        if getattr(holder, "quantization_config", None) is not None:
            del holder.quantization_config
