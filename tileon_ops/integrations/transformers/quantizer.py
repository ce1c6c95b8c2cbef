"""Block-scaled layers in transformers: `from_pretrained(..., quantization_config=TileonConfig("mxfp4"))`.

Importing this module registers the method "tileon" with transformers: a model that was saved with it loads again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tileon_ops.nn.block_scaled_linear import BlockScaledLinear
from tileon_ops.nn.conversion.choice import Format, checked_choice
from tileon_ops.nn.conversion.replacement import convert, new_layer
from tileon_ops.nn.conversion.report import ConversionReport, conversion_report, keep_report
from tileon_ops.nn.decoded_weight import DecodedWeight
from tileon_ops.nn.layer_formats import check_scale_rounding

try:
    from transformers.core_model_loading import ConversionOps
    from transformers.quantizers.auto import register_quantization_config, register_quantizer
    from transformers.quantizers.base import HfQuantizer
    from transformers.utils.quantization_config import QuantizationConfigMixin
except ImportError as error:
    needs = "tileon_ops.integrations.transformers needs transformers >= 5: pip install 'tileon_ops[transformers]'"
    raise ImportError(f"{needs} ({error})") from error

METHOD = "tileon"

# Models give random values to the weights of the layers in them, unless these have the mark of what has been loaded.
DecodedWeight._is_hf_initialized = True  # type: ignore[attr-defined]


@register_quantization_config(METHOD)
class TileonConfig(QuantizationConfigMixin):
    """What `from_pretrained` makes of a model's linear layers, and what `save_pretrained` writes into config.json.

    Args:
        format: as tileon_ops.convert takes it: a format, formats by globs of names, or None for tileon_ops.Linear.
        weight_only: activations stay as they are, and gradients flow to the inputs of the layers.
        skip: globs of the names of layers that stay as they are. A last layer tied to the embedding stays in any case.
        scale_rounding: of the scales of blocks, as tileon_ops.quantize has it.

    Raises:
        RuntimeError: "TileonConfig: ..." for a format that there is not and arguments of other types.
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


@register_quantizer(METHOD)
class TileonQuantizer(HfQuantizer):
    """Replaces layers while transformers loads a model, which is on the meta device until its weights come.

    From a checkpoint of plain weights each weight is quantized when it has been read: no more than one of them is in
    memory unquantized. For a checkpoint of quantized ones the layers are replaced before, and their buffers are read.
    """

    requires_calibration = False
    quantization_config: TileonConfig

    def __init__(self, quantization_config: TileonConfig, **kwargs: Any) -> None:
        super().__init__(quantization_config, **kwargs)
        self._report: ConversionReport | None = None
        self._layers: dict[str, _Replaced] = {}  # by each name of a layer that is quantized when its weight has come

    def is_serializable(self) -> bool:
        return True

    @property
    def is_trainable(self) -> bool:
        """Whether adapters may be trained: gradients flow through layers whose activations are not quantized."""
        return self.quantization_config.weight_only

    @property
    def is_compileable(self) -> bool:
        return True

    def get_new_dtype(self, converter: Any, param: Any, dtype: torch.dtype | None) -> torch.dtype | None:
        """None for codes and scales of a byte, which a cast to the model's dtype would take for numbers."""
        if _element_size(param) == 1:
            return None
        return super().get_new_dtype(converter, param, dtype)

    def param_element_size(self, model: nn.Module, param_name: str, param: Tensor) -> float:
        """Bytes of an element of a parameter once it is loaded, by which transformers divides a model among devices."""
        layer = self._layers.get(param_name.removesuffix(".weight"))
        if layer is None or not param_name.endswith(".weight"):
            return param.element_size()
        return layer.bytes_after / max(1, param.numel())

    def param_needs_quantization(self, model: nn.Module, param_name: str, **kwargs: Any) -> bool:
        return param_name.endswith(".weight") and param_name.removesuffix(".weight") in self._layers

    def get_quantize_ops(self) -> Any:
        return _Quantize(self)

    def _process_model_before_weight_loading(self, model: Any, **kwargs: Any) -> None:
        """Converts a copy of the model, which takes no memory on the meta device, and notes what each layer becomes."""
        config, converted = self.quantization_config, copy.deepcopy(model)
        _tie(converted)
        convert(converted, config.format, skip=config.skip, **config.keywords())
        self._report = conversion_report(converted)
        for entry in self._report:
            if entry.became is None:
                continue
            names, new = (entry.name, *entry.also), converted.get_submodule(entry.name)
            if not isinstance(new, BlockScaledLinear):  # Linear, which shares the parameters
                _put(model, names, new_layer(model.get_submodule(entry.name), entry.name, None, {}))
            elif self.pre_quantized:
                _put(model, names, new)
            else:
                self._layers |= dict.fromkeys(names, _Replaced(names, new.format, entry.bytes_after))

    def take_weight(self, model: nn.Module, name: str, weight: Tensor) -> None:
        """Quantizes a layer whose weight has come, unless its bias has not."""
        layer = model.get_submodule(name)
        if isinstance(layer, BlockScaledLinear):  # shared, and replaced under another name
            return
        layer.weight = nn.Parameter(weight, requires_grad=False)
        _mark_initialized(layer.weight)
        if layer.bias is None or not layer.bias.is_meta:
            self._replace(model, name)

    def _process_model_after_weight_loading(self, model: nn.Module, **kwargs: Any) -> None:
        for name in self._layers:
            if not isinstance(model.get_submodule(name), BlockScaledLinear):
                self._replace(model, name)
        if self._report is not None:
            keep_report(model, self._report)

    def _replace(self, model: nn.Module, name: str) -> None:
        layer = self._layers[name]
        old, keywords = model.get_submodule(name), self.quantization_config.keywords()
        new = new_layer(old, layer.names[0], layer.format, keywords)
        _mark_initialized(new)
        for buffer in new.buffers():
            _mark_initialized(buffer)
        _put(model, layer.names, new)


@dataclass(frozen=True)
class _Replaced:
    """A layer that is replaced when its weight has come: every name of it, and what it becomes."""

    names: tuple[str, ...]
    format: str
    bytes_after: int


class _Quantize(ConversionOps):
    """transformers hands each weight to it, instead of putting it into the model."""

    def __init__(self, quantizer: TileonQuantizer) -> None:
        self._quantizer = quantizer

    def convert(
        self,
        input_dict: dict[str, Any],
        *,
        model: nn.Module,
        full_layer_name: str,
        missing_keys: set[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Tensor]:
        (value,) = input_dict.values()
        weight = value[0] if isinstance(value, list) else value
        self._quantizer.take_weight(model, full_layer_name.removesuffix(".weight"), weight)
        if missing_keys is not None:
            missing_keys.discard(full_layer_name)
        return {}


def _tie(model: Any) -> None:
    """Ties what transformers will tie after loading, where its own function does nothing until then."""
    for name, source in model.all_tied_weights_keys.items():
        holder, _, own_name = name.rpartition(".")
        setattr(model.get_submodule(holder), own_name, model.get_parameter_or_buffer(source))


def _put(model: nn.Module, names: Iterable[str], layer: nn.Module) -> None:
    for name in names:
        model.set_submodule(name, layer)


def _mark_initialized(value: Any) -> None:
    """transformers gives random values to the modules and tensors that it does not find this on."""
    value._is_hf_initialized = True


def _element_size(tensor: Any) -> int:
    """Of a tensor, or of a slice of a file, whose dtype is a text such as "F8_E4M3"."""
    if isinstance(tensor, Tensor):
        return tensor.element_size()
    return 1 if tensor.get_dtype().startswith(("F8", "I8", "U8", "BOOL")) else 2
