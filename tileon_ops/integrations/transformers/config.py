"""`TileonConfig`: what a user asks of `from_pretrained`, and what stands in config.json of a saved model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from transformers.quantizers.auto import register_quantization_config
from transformers.utils.quantization_config import QuantizationConfigMixin

from tileon_ops.nn.conversion.choice import Format, checked_choice
from tileon_ops.nn.layer_formats import check_scale_rounding

METHOD = "tileon"


@register_quantization_config(METHOD)
class TileonConfig(QuantizationConfigMixin):
    """What `from_pretrained` makes of a model's linear layers, and what `save_pretrained` writes into config.json.

    Args:
        format: as tileon_ops.convert takes it: a format, formats by globs of names, or None for tileon_ops.Linear. For
            a checkpoint that comes quantized None is what the checkpoint holds: its quantized layers become
            BlockScaledLinear with the same codes and scales, and the others stay as they are. A format given there is
            for the layers in 16 bits, and must be the checkpoint's own for the quantized ones that it names.
        weight_only: activations stay as they are, and gradients flow to the inputs of the layers.
        skip: globs of the names of layers that stay as they are. A last layer tied to the embedding stays in any case.
            A layer that comes quantized is decoded to the model's dtype.
        scale_rounding: of the scales of blocks, as tileon_ops.quantize has it.

    Raises:
        RuntimeError: "TileonConfig: ..." for a format that there is not and arguments of other types. from_pretrained
            raises it for a checkpoint whose quantization is not offered, or is another than `format` asks for.
    """

    def __init__(
        self,
        format: Format | Mapping[str, Format] | Sequence[tuple[str, Format]] = None,
        *,
        weight_only: bool = False,
        skip: Iterable[str] = (),
        scale_rounding: str = "rceil",
    ) -> None:
        # pairs: from a file, where the keys of a dict would be sorted, and the first pattern that matches counts
        formats = format if format is None or isinstance(format, (str, Mapping)) else dict(format)
        choice = checked_choice("TileonConfig", formats, None, skip)
        check_scale_rounding("TileonConfig", scale_rounding)
        self.quant_method = METHOD
        self.format = formats
        self.weight_only = weight_only
        self.skip = list(choice.skip)
        self.scale_rounding = scale_rounding

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], return_unused_kwargs: bool = False, **kwargs: Any) -> Any:
        """As transformers calls it with what stands in config.json."""
        config = cls(**{name: value for name, value in config_dict.items() if name != "quant_method"})
        return (config, kwargs) if return_unused_kwargs else config

    def to_dict(self) -> dict[str, Any]:
        """For config.json. Formats by name are pairs there, in their order."""
        formats = list(map(list, self.format.items())) if isinstance(self.format, Mapping) else self.format
        return {**self.__dict__, "format": formats, "skip": list(self.skip)}

    def keywords(self) -> dict[str, Any]:
        """Those of BlockScaledLinear.from_linear."""
        return {"weight_only": self.weight_only, "scale_rounding": self.scale_rounding}
