"""What becomes of a checkpoint's quantized weights in a model: which layers hold them, and what is decoded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn
from transformers.core_model_loading import WeightConverter, WeightRenaming, apply_renamings, rename_source_key

from tileon_ops.integrations.transformers.checkpoint import Held
from tileon_ops.integrations.transformers.config import TileonConfig
from tileon_ops.integrations.transformers.layouts.encoding import Layout, Stored
from tileon_ops.nn.conversion.choice import Format, checked_choice
from tileon_ops.nn.conversion.contents import Layer
from tileon_ops.nn.conversion.report import ConversionReport
from tileon_ops.nn.layer_formats import LAYER_FORMATS


class Names:
    """The model's names of what files hold, by transformers' own renamings."""

    def __init__(self, conversions: Sequence[Any], model: Any) -> None:
        self._renamings = [each for each in conversions if isinstance(each, WeightRenaming)]
        self._converters = [each for each in conversions if isinstance(each, WeightConverter)]
        self._prefix = model.base_model_prefix
        self._state: dict[str, Tensor] = model.state_dict()

    def of(self, key: str) -> tuple[str, bool]:
        """That of the parameter that a tensor is for, "" where the model has none, and whether a converter of the
        model's makes it of this tensor and others."""
        renamed, pattern = rename_source_key(key, self._renamings, self._converters, self._prefix, self._state)
        if renamed not in self._state and key in self._state:
            renamed, pattern = key, None
        return renamed if renamed in self._state else "", pattern is not None

    def before_converters(self, key: str) -> str:
        """The name that converters are asked for."""
        renamed: str = apply_renamings(key, self._renamings)
        return renamed


@dataclass
class Plan:
    """The quantized weights of the files that a model has a place for, and the plain ones of its layers.

    Attributes:
        layers: by the name of the linear layer whose weight it is.
        parameters: by the name of another parameter.
        merged: by the name of a parameter that a converter of the model's makes of them.
        plain: the tensor's name for converters, by the layer's name.
    """

    layers: dict[str, Held] = field(default_factory=dict)
    parameters: dict[str, Held] = field(default_factory=dict)
    merged: dict[str, list[Held]] = field(default_factory=dict)
    plain: dict[str, str] = field(default_factory=dict)


def plan(model: nn.Module, held: Sequence[Held], stored: Mapping[str, Stored], names: Names) -> Plan:
    made = Plan()
    for each in held:
        target, is_converted = names.of(each.parameter)
        layer, _, own_name = target.rpartition(".")
        if target and is_converted:
            made.merged.setdefault(target, []).append(each)
        elif own_name == "weight" and isinstance(model.get_submodule(layer), nn.Linear):
            made.layers[layer] = each
        elif target:
            made.parameters[target] = each
    quantized = {key for each in held for key in each.keys.values()}
    for key in stored.keys() - quantized:
        target, is_converted = names.of(key) if key.endswith(".weight") else ("", False)
        if target and not is_converted:
            made.plain[target.removesuffix(".weight")] = names.before_converters(key)
    return made


def formats_to_convert(
    model: nn.Module, layers: Mapping[str, Held], config: TileonConfig, layout: Layout
) -> dict[str, Format]:
    """By globs of names, for `convert`: those of the quantized layers, then what the user asks of the others.

    Raises:
        RuntimeError: "TileonConfig: ..." where the user asks for another format than a quantized layer has.
    """
    asked = config.format if isinstance(config.format, Mapping) else {"*": config.format}
    choice = checked_choice("TileonConfig", asked if config.format is not None else {}, None, config.skip)
    formats: dict[str, Format] = {}
    for name, held in layers.items():
        layer = Layer(model.get_submodule(name), names=[name])
        own: Format = held.encoding.format
        if not choice.reason_to_leave(layer):
            wanted = choice.format_of(layer)
            if wanted is None or LAYER_FORMATS[wanted].weight != LAYER_FORMATS[held.encoding.format].weight:
                raise RuntimeError(
                    f"TileonConfig: `format` must be None, or {own} for {name}, which the checkpoint ({layout.name}) "
                    f"holds in {own}, got {wanted!r}: its weight would be rounded a second time. `skip` decodes a layer"
                )
            own = wanted
        formats[name] = own
    return {**formats, **choice.format}


def own_config(config: TileonConfig, report: ConversionReport) -> TileonConfig:
    """What loads the model again once it is saved: the formats of its layers by name, without numbers in these where
    that says the same."""
    became = {name: entry.became for entry in report for name in (entry.name, *entry.also)}
    formats: dict[str, Format] = {}
    for name, text in became.items():
        if text is not None:
            glob = re.sub(r"(?<=\.)\d+(?=\.)", "*", name)
            same = all(became[other] == text for other in became if fnmatchcase(other, glob))
            formats[glob if same else name] = None if text == "Linear" else text.split()[-1]
    return TileonConfig(formats, weight_only=config.weight_only, scale_rounding=config.scale_rounding)


def with_decoded(report: ConversionReport, decoded: Mapping[str, Sequence[Held]]) -> ConversionReport:
    """The report with the reason of everything that is decoded, by the name of the parameter."""
    entries = []
    for entry in report:
        held = decoded.get(entry.name) or decoded.get(f"{entry.name}.weight")
        if held:
            nbytes = sum(each.nbytes for each in held)
            reason = f"{entry.reason}: decoded from {held[0].encoding.format}, {nbytes:,} bytes in the files"
            entry = replace(entry, reason=reason)
        entries.append(entry)
    return replace(report, entries=tuple(entries))
