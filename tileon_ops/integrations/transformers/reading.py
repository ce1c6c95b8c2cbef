"""How transformers, while it reads a checkpoint, hands its tensors to layers: converters of names, and operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers.core_model_loading import ConversionOps, WeightConverter

from tileon_ops.integrations.transformers.layouts.encoding import Encoding

# By the name of a tensor in the files: that of the parameter or buffer it is for, and its end.
Targets = Mapping[str, tuple[str, str]]


class ByName(WeightConverter):
    """Collects the tensors of single layers by their whole names: a pattern would match those of other layers too."""

    __slots__ = ("label", "targets")

    def __init__(self, label: str, operation: ConversionOps, targets: Targets) -> None:
        ends = dict.fromkeys(end for _, end in targets.values())
        super().__init__([label + end for end in ends], label, [operation])
        self.label = label
        self.targets = targets

    def rename_source_key(self, source_key: str) -> tuple[str, str | None]:
        """The name of what the tensor is for, and the pattern under which the operation gets it."""
        found = self.targets.get(source_key)
        return (source_key, None) if found is None else (found[0], self.label + found[1])

    def __deepcopy__(self, memo: dict[int, Any]) -> ByName:
        """One for each layer: the names are shared, and so is the operation, which knows the quantizer."""
        return ByName(self.label, self.operations[0], self.targets)


class Reading(ConversionOps):
    """An operation on the tensors of a file as they are there: transformers casts none that this attribute is on."""

    supports_many_to_many = True

    def __init__(self, quantizer: Any) -> None:
        self.hf_quantizer = quantizer


class ReadingOne(Reading):
    """Of the tensors of one weight, which `label` and their ends name."""

    def __init__(self, quantizer: Any, label: str, encoding: Encoding) -> None:
        super().__init__(quantizer)
        self._label = label
        self._encoding = encoding


class Hold(ReadingOne):
    """The buffers of a BlockScaledLinear from the tensors of one encoding."""

    def convert(self, input_dict: dict[str, Any], *, full_layer_name: str, **kwargs: Any) -> dict[str, Tensor]:
        read = self._encoding.read(_by_end(input_dict, self._label))
        layer = full_layer_name.removesuffix("data")
        buffers = {"data": read.data, "scale": read.scale, "global_scale": read.global_scale}
        return {layer + name: tensor for name, tensor in buffers.items() if tensor is not None}


class Decode(ReadingOne):
    """One parameter in its own dtype from the tensors of one encoding."""

    def convert(
        self, input_dict: dict[str, Any], *, full_layer_name: str, model: nn.Module, **kwargs: Any
    ) -> dict[str, Tensor]:
        tensors = _by_end(input_dict, self._label)
        return {full_layer_name: self._encoding.decode(tensors, model.get_parameter(full_layer_name).dtype)}


class DecodeBefore(Reading):
    """The weights that another converter then merges or splits, as it does those of experts: lists of them.

    Its dict is by patterns of names, which end as the names do. Weights that are not quantized pass.
    """

    def __init__(self, quantizer: Any, encodings: tuple[Encoding, ...], unused: tuple[str, ...]) -> None:
        super().__init__(quantizer)
        self._encodings = encodings
        self._unused = unused

    def convert(
        self, input_dict: dict[str, Any], *, full_layer_name: str, model: nn.Module, **kwargs: Any
    ) -> dict[str, Any]:
        dtype = _dtype_of(model, full_layer_name)
        ends = tuple(dict.fromkeys((".weight", *(end for encoding in self._encodings for end in encoding.tensors))))
        found: dict[str, dict[str, Any]] = {}
        for pattern, tensors in input_dict.items():
            if not pattern.endswith(self._unused):
                end = max((end for end in ends if pattern.endswith(end)), key=len)
                found.setdefault(pattern.removesuffix(end), {})[end] = tensors
        input_dict.clear()  # what is decoded goes
        return {base + ".weight": self._decoded(base, tensors, dtype) for base, tensors in found.items()}

    def _decoded(self, base: str, tensors: dict[str, Any], dtype: torch.dtype) -> list[Tensor]:
        if set(tensors) == {".weight"}:
            return [tensor.to(dtype) for tensor in _list(tensors[".weight"])]
        counts = {end: len(_list(given)) for end, given in tensors.items()}
        if len(set(counts.values())) != 1:
            raise RuntimeError(f"TileonConfig: every weight of {base} must be quantized, or none, got {counts} tensors")
        made = []
        for index in range(counts[min(counts)]):
            one = {end: _list(given)[index] for end, given in tensors.items()}
            encoding = next(each for each in self._encodings if each.fits(one))
            made.append(encoding.decode(one, dtype))
        return made


class Quantize(ConversionOps):
    """Hands each weight of numbers to the quantizer, instead of putting it into the model."""

    def __init__(self, take_weight: Callable[[nn.Module, str, Tensor], None]) -> None:
        self._take_weight = take_weight

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
        self._take_weight(model, full_layer_name.removesuffix(".weight"), _list(value)[0])
        if missing_keys is not None:
            missing_keys.discard(full_layer_name)
        return {}


def _by_end(input_dict: dict[str, Any], label: str) -> dict[str, Tensor]:
    return {pattern.removeprefix(label): _list(value)[0] for pattern, value in input_dict.items()}


def _list(value: Any) -> list[Tensor]:
    return value if isinstance(value, list) else [value]


def _dtype_of(model: nn.Module, name: str) -> torch.dtype:
    """Of a parameter, or of the model where the name is a pattern that stands for several."""
    holder, _, own_name = name.rpartition(".")
    try:
        found = getattr(model.get_submodule(holder), own_name, None)
    except AttributeError:
        found = None
    return found.dtype if isinstance(found, Tensor) else model.dtype  # type: ignore[return-value]
