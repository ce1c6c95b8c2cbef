"""`TileonQuantizer`: replaces a model's layers while transformers loads it."""

from __future__ import annotations

import copy
import json
import logging
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.core_model_loading import WeightConverter
from transformers.quantizers.auto import register_quantizer
from transformers.quantizers.base import HfQuantizer

from tileon_ops.integrations.transformers.checkpoint import Held, check_plain, held_weights, stored_tensors
from tileon_ops.integrations.transformers.config import METHOD, TileonConfig
from tileon_ops.integrations.transformers.layouts.encoding import Layout
from tileon_ops.integrations.transformers.planning import (
    Names,
    Plan,
    formats_to_convert,
    own_config,
    plan,
    with_decoded,
)
from tileon_ops.integrations.transformers.published import layout_of
from tileon_ops.integrations.transformers.reading import ByName, Decode, DecodeBefore, Hold, Quantize, ReadingOne
from tileon_ops.nn.block_scaled_linear import BlockScaledLinear
from tileon_ops.nn.conversion.replacement import convert, new_layer
from tileon_ops.nn.conversion.report import ConversionReport, conversion_report, keep_report
from tileon_ops.nn.decoded_weight import DecodedWeight

_log = logging.getLogger("tileon_ops")

# Models give random values to the weights of the layers in them, unless these have the mark of what has been loaded.
DecodedWeight._is_hf_initialized = True  # type: ignore[attr-defined]


@register_quantizer(METHOD)
class TileonQuantizer(HfQuantizer):
    """Replaces layers while transformers loads a model, which is on the meta device until its weights come.

    From a checkpoint of plain weights each weight is quantized when it has been read: no more than one of them is in
    memory unquantized. For a checkpoint of quantized ones the layers are replaced before, and their buffers are read.

    Attributes:
        layout: of a checkpoint that another package quantized; None for others.
    """

    requires_calibration = False
    quantization_config: TileonConfig
    pre_quantized: bool

    def __init__(self, quantization_config: TileonConfig, **kwargs: Any) -> None:
        super().__init__(quantization_config, **kwargs)
        self.layout: Layout | None = None
        self._files: Sequence[str] | None = None
        self._report: ConversionReport | None = None
        self._converters: dict[int, Any] = {}  # by the id of a converter that decodes first: the model's own
        self._decode_before: Any = None
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

    def update_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Of the model, which transformers takes from the files where config.json has none: never that of codes."""
        return torch.bfloat16 if dtype.itemsize == 1 else dtype

    def param_element_size(self, model: nn.Module, param_name: str, param: Tensor) -> float:
        """Bytes of an element of a parameter once it is loaded, by which transformers divides a model among devices."""
        layer = self._layers.get(param_name.removesuffix(".weight"))
        if layer is None or not param_name.endswith(".weight"):
            return param.element_size()
        return layer.bytes_after / max(1, param.numel())

    def param_needs_quantization(self, model: nn.Module, param_name: str, **kwargs: Any) -> bool:
        return param_name.endswith(".weight") and param_name.removesuffix(".weight") in self._layers

    def get_quantize_ops(self) -> Any:
        return Quantize(self.take_weight)

    def _process_model_before_weight_loading(
        self, model: Any, checkpoint_files: Sequence[str] | None = None, **kwargs: Any
    ) -> None:
        self._files = checkpoint_files
        if self.layout is None and not self.pre_quantized:
            self.layout = _layout_beside(checkpoint_files)
            self.pre_quantized = self.layout is not None
        if self.layout is None:
            if not self.pre_quantized:
                check_plain(stored_tensors(checkpoint_files))
            self._replace_layers(model, self.quantization_config.format, None)

    def update_weight_conversions(self, weight_conversions: list[Any], model: Any) -> list[Any]:
        """Where a checkpoint comes quantized, its layers are replaced here: the names in its files mean layers of the
        model once the model's renamings are known."""
        layout, self.layout = self.layout, None
        if layout is None:
            return super().update_weight_conversions(weight_conversions, model)
        stored = stored_tensors(self._files)
        held, names = held_weights(stored, layout), Names(weight_conversions, model)
        planned = plan(model, held, stored, names)
        formats = formats_to_convert(model, planned.layers, self.quantization_config, layout)
        self._replace_layers(model, formats, planned)
        assert self._report is not None
        decoded: dict[str, list[Held]] = {name: [each] for name, each in planned.parameters.items()} | planned.merged
        for name, each in planned.layers.items():
            if not isinstance(model.get_submodule(name), BlockScaledLinear):
                decoded[f"{name}.weight"] = [each]
        self._report = with_decoded(self._report, decoded)
        _log_what_is_lost(held, decoded, model)
        self.quantization_config = own_config(self.quantization_config, self._report)
        updated = self._decoding_before(weight_conversions, model, layout, planned, names)
        return [*self._by_name(planned, decoded, names), *updated]

    def _by_name(self, planned: Plan, decoded: Mapping[str, Sequence[Held]], names: Names) -> list[ByName]:
        """Converters for the tensors that belong to one parameter or one layer each."""
        held = {f"{name}.weight": each for name, each in planned.layers.items()} | planned.parameters
        targets: dict[tuple[Any, bool], dict[str, tuple[str, str]]] = {}
        for parameter, each in held.items():
            is_decoded = parameter in decoded
            target = parameter if is_decoded else parameter.removesuffix("weight") + "data"
            own = targets.setdefault((each.encoding, is_decoded), {})
            own |= {names.before_converters(key): (target, end) for end, key in each.keys.items()}
        made = []
        for number, ((encoding, is_decoded), own) in enumerate(targets.items()):
            label = f"tileon{number}"
            operation: ReadingOne = (Decode if is_decoded else Hold)(self, label, encoding)
            made.append(ByName(label, operation, own))
        plain = {key: (f"{name}.weight", ".weight") for name, key in planned.plain.items() if name in self._layers}
        return [*made, ByName("tileon", self.get_quantize_ops(), plain)] if plain else made

    def _decoding_before(
        self, conversions: list[Any], model: Any, layout: Layout, planned: Plan, names: Names
    ) -> list[Any]:
        """The model's converters, which decode first where they get quantized weights."""
        if not planned.merged:
            return super().update_weight_conversions(conversions, model)
        ends = dict.fromkeys(end for encoding in layout.encodings for end in encoding.tensors)
        # transformers' own way: the converters of `weight` collect these as well, and begin with the operation
        self.serialized_names = {
            "weight": ["weight", *(end[1:] for end in (*ends, *layout.unused) if end != ".weight")]
        }
        self._decode_before = lambda _: DecodeBefore(self, layout.encodings, layout.unused)
        updated = super().update_weight_conversions(conversions, model)
        self._converters = {id(new): old for old, new in zip(conversions, updated, strict=True) if new is not old}
        for target, held in planned.merged.items():
            key = names.before_converters(held[0].keys[held[0].encoding.scale])
            if not any(isinstance(each, WeightConverter) and each.rename_source_key(key)[1] for each in updated):
                raise RuntimeError(
                    f"TileonConfig: {target} is made of several tensors of the checkpoint, and these must be plain or "
                    f"named ...weight, got {held[0].parameter} in {layout.name}"
                )
        return updated

    def get_load_operations(self) -> dict[str, Any]:
        return {} if self._decode_before is None else {"dequantize": self._decode_before}

    def _replace_layers(self, model: Any, formats: Any, planned: Plan | None) -> None:
        """Converts a copy of the model, which takes no memory on the meta device, and notes what each layer becomes."""
        config, converted = self.quantization_config, copy.deepcopy(model)
        _tie(converted)
        convert(converted, formats, skip=config.skip, **config.keywords())
        self._report = conversion_report(converted)
        for entry in self._report:
            if entry.became is None:
                continue
            names, new = (entry.name, *entry.also), converted.get_submodule(entry.name)
            if not isinstance(new, BlockScaledLinear):  # Linear, which shares the parameters
                _put(model, names, new_layer(model.get_submodule(entry.name), entry.name, None, {}))
            elif self.pre_quantized and (planned is None or not planned.layers.keys().isdisjoint(names)):
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

    def _process_model_after_weight_loading(self, model: Any, **kwargs: Any) -> None:
        for name in self._layers:
            if not isinstance(model.get_submodule(name), BlockScaledLinear):
                self._replace(model, name)
        # what the files needed beyond the model's own conversions is not undone when the model is saved
        used = getattr(model, "_weight_conversions", None) or []
        model._weight_conversions = [self._converters.get(id(each), each) for each in used if type(each) is not ByName]
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


def _layout_beside(files: Sequence[str] | None) -> Layout | None:
    """Of hf_quant_config.json, where older releases of ModelOpt say what config.json says in newer ones."""
    for file in files or ():
        path = pathlib.Path(file).parent / "hf_quant_config.json"
        return layout_of(json.loads(path.read_text())) if path.is_file() else None
    return None


def _log_what_is_lost(held: Sequence[Held], decoded: Mapping[str, Sequence[Held]], model: nn.Module) -> None:
    unused = [name for each in held for name in each.unused]
    if unused:
        _log.info("from_pretrained: activations are quantized at each call: %s are not used", ", ".join(unused))
    if decoded:
        before = sum(each.nbytes for weights in decoded.values() for each in weights)
        after = sum(model.get_parameter(name).nbytes for name in decoded)
        text = "from_pretrained: quantized weights that no layer holds are decoded: %d -> %d bytes: %s"
        _log.warning(text, before, after, ", ".join(decoded))


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
