"""`tileon_ops.convert`: a model's linear layers become this package's, with a report of what became of each."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tileon_ops._rules.fake.checks import check, dtype_name, dtype_names
from tileon_ops.nn.block_scaled_linear import BlockScaledLinear
from tileon_ops.nn.layer_formats import check_layer_format, elements_a_scale
from tileon_ops.nn.linear import Linear

_log = logging.getLogger("tileon_ops")

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)  # float64 for Linear alone
_DEVICES = ("cpu", "cuda", "meta")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@dataclass(frozen=True)
class Conversion:
    """What `convert` made of one linear layer.

    Attributes:
        name: where it stands in the model, "" for the model itself.
        also: its other places, where it is shared.
        became: "Linear", or "BlockScaledLinear" and the format; None where it stays as it was.
        reason: why it stays.
        bytes_before: of its parameters and buffers. Parameters that layers share are counted for each of them.
        bytes_after: the same of what it became.
    """

    name: str
    also: tuple[str, ...]
    became: str | None
    reason: str
    bytes_before: int
    bytes_after: int


# By model; a report goes when its model goes.
_reports: weakref.WeakKeyDictionary[nn.Module, tuple[Conversion, ...]] = weakref.WeakKeyDictionary()


@dataclass
class _Layer:
    """A linear layer of the model, and all the modules that hold it, each with the name that it has there."""

    module: nn.Linear
    names: list[str]
    holders: list[tuple[nn.Module, str]]


def _layers(model: nn.Module) -> list[_Layer]:
    """In the model's order, each once."""
    found: dict[int, _Layer] = {}
    if isinstance(model, nn.Linear):
        found[id(model)] = _Layer(model, [""], [])
    for path, holder in model.named_modules():
        for name, module in holder._modules.items():
            if isinstance(module, nn.Linear):
                layer = found.setdefault(id(module), _Layer(module, [], []))
                layer.names.append(f"{path}.{name}" if path else name)
                layer.holders.append((holder, name))
    return list(found.values())


def _users_of_parameters(model: nn.Module) -> dict[int, list[str]]:
    """The names of each parameter, one for each module that holds it."""
    users: dict[int, list[str]] = {}
    for path, module in model.named_modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                users.setdefault(id(parameter), []).append(f"{path}.{name}" if path else name)
    return users


def _changed_by_others(module: nn.Linear) -> str:
    """Why the layer does more than its class, or another thing; "" where it does not."""
    if nn.parameter.is_lazy(module.weight):
        return "it has no parameters yet: call it once"
    if hasattr(module, "parametrizations"):
        return "it is parametrized: remove_parametrizations first"
    if "forward" in module.__dict__:
        return "its forward has been replaced"
    if any(len(getattr(module, hooks)) > 0 for hooks in _HOOKS):
        return "it has hooks, which would stay behind"
    if type(module).forward not in (nn.Linear.forward, Linear.forward):
        return f"{type(module).__name__} has a forward of its own"
    names = {*module._parameters, *module._buffers, *module._modules}
    if names != {"weight", "bias"} or module.weight is None:
        more = sorted(names ^ {"weight", "bias"})
        return f"its parameters are not those of torch.nn.Linear alone: {', '.join(more)}"
    return ""


def _read_by_holder(layer: _Layer, format: str | None) -> str:
    for holder, _ in layer.holders:
        if isinstance(holder, nn.MultiheadAttention):
            return f"{type(holder).__name__} reads its weight itself"
        if format and isinstance(holder, nn.TransformerEncoderLayer) and torch.backends.mha.get_fastpath_enabled():
            return (
                f"{type(holder).__name__} reads its weight itself, in its fast path: "
                "torch.backends.mha.set_fastpath_enabled(False) turns that off"
            )
    return ""


def _unsupported(module: nn.Linear, format: str | None) -> str:
    weight = module.weight
    is_dtensor = hasattr(weight, "placements")  # Linear multiplies these
    if type(weight) is not nn.Parameter and not (is_dtensor and format is None):
        return f"its weight is a {type(weight).__name__}"
    if weight.device.type not in _DEVICES:
        return f"there are no kernels for {weight.device.type}"
    offered = _DTYPES[:-1] if format else _DTYPES
    if weight.dtype not in offered:
        return f"its weight is {dtype_name(weight.dtype)}, and offered are {dtype_names(offered)}"
    if format and weight.shape[1] % elements_a_scale(format) != 0:
        return f"in_features = {weight.shape[1]} is not a multiple of {elements_a_scale(format)}, as {format} needs"
    return ""


def _reason(layer: _Layer, format: str | None, users: dict[int, list[str]]) -> str:
    """Why a layer stays as it is; "" where it does not."""
    if format is None and isinstance(layer.module, Linear):
        return "it is a tileon_ops.Linear already"
    reason = _changed_by_others(layer.module) or _read_by_holder(layer, format) or _unsupported(layer.module, format)
    if reason or format is None:
        return reason
    own = [f"{name}.weight" if name else "weight" for name in layer.names]
    others = [name for name in users[id(layer.module.weight)] if name not in own]
    return f"its weight is tied to {', '.join(others)}, so that quantizing it would save nothing" if others else ""


def _converted(module: nn.Linear, name: str, format: str | None, options: dict[str, Any]) -> nn.Module:
    if format is None:
        return Linear.from_linear(module)
    new = BlockScaledLinear.from_linear(module, format, **options)
    new.name_in_model = name
    return new


def _bytes(module: nn.Module) -> int:
    tensors = [*module.parameters(), *module.buffers()]
    return sum(0 if nn.parameter.is_lazy(tensor) else tensor.nbytes for tensor in tensors)


def _log_conversion(layer: _Layer, done: Conversion) -> None:
    name = ", ".join(name or "the model itself" for name in layer.names)
    if done.became is None:
        _log.info("convert: %s stays %s: %s", name, type(layer.module).__name__, done.reason)
    else:
        _log.info("convert: %s is %s: %d -> %d bytes", name, done.became, done.bytes_before, done.bytes_after)


def convert(
    model: nn.Module,
    format: str | None = None,
    filter: Callable[[nn.Module, str], bool] | None = None,
    *,
    weight_only: bool = False,
    fast_accum: bool = True,
    scale_rounding: str = "rceil",
) -> nn.Module:
    """The model with its linear layers replaced, in place: by tileon_ops.Linear or tileon_ops.BlockScaledLinear.

    Args:
        model: any module. Where it is itself a torch.nn.Linear, the new layer is returned and `model` stays as it is.
        format: None for tileon_ops.Linear, which shares the parameters (optimizers and the state_dict stay valid);
            a format of BlockScaledLinear, which holds the weight in that alone, for that layer. A tileon_ops.Linear
            keeps its activation there.
        filter: called once for each torch.nn.Linear with the module and its name in the model; False leaves that layer
            as it is. A module in several places is asked about by its first name.
        weight_only, fast_accum, scale_rounding: as of BlockScaledLinear; without a format they do nothing.

    Returns:
        `model`. A module that occurs in several places is replaced by one module, in all of them.

    Left as they are:

    - layers that are more than a torch.nn.Linear: with a forward, parameters or submodules of their own, parametrized,
      or with hooks; and lazy ones that have not been called;
    - those whose weight the module around them reads itself: torch.nn.MultiheadAttention, and for a format
      torch.nn.TransformerEncoderLayer while torch.backends.mha.get_fastpath_enabled(). A module of your own that reads
      `layer.weight` cannot be recognized, so let `filter` leave such layers;
    - those whose weight is a subclass of Tensor, of a dtype or on a device that is not offered;
    - for a format, those whose in_features its block does not divide, and those whose weight another module holds too,
      as an embedding does that is tied to the last layer.

    The logger "tileon_ops" tells at level INFO what became of each layer, and why it was left; conversion_report(model)
    gives the same.

    Raises:
        RuntimeError: "convert: ..." for a `model` that is no module and a format that there is not. What `filter`
            raises passes through; nothing has been replaced then.
    """
    check(isinstance(model, nn.Module), f"convert: `model` must be a torch.nn.Module, got {type(model).__name__}")
    if format is not None:
        check_layer_format("convert", format)
    options = {"weight_only": weight_only, "fast_accum": fast_accum, "scale_rounding": scale_rounding}
    users = _users_of_parameters(model)
    layers = _layers(model)
    reasons = [
        "`filter` leaves it" if filter is not None and not filter(layer.module, layer.names[0]) else ""
        for layer in layers
    ]
    reasons = [reason or _reason(layer, format, users) for reason, layer in zip(reasons, layers, strict=True)]
    result = model
    report: list[Conversion] = []
    pending = list(zip(layers, reasons, strict=True))[::-1]
    del layers
    while pending:  # each old layer's memory is free before the next one's is taken
        layer, reason = pending.pop()
        old: nn.Module = layer.module
        new = old
        if not reason:
            new = _converted(layer.module, layer.names[0], format, options)
            result = new if old is model else result
            for holder, name in layer.holders:
                setattr(holder, name, new)
        became = None if reason else "Linear" if format is None else f"BlockScaledLinear {format}"
        report.append(Conversion(layer.names[0], tuple(layer.names[1:]), became, reason, _bytes(old), _bytes(new)))
        _log_conversion(layer, report[-1])
    converted = [done for done in report if done.became is not None]
    before, after = sum(done.bytes_before for done in converted), sum(done.bytes_after for done in converted)
    _log.info("convert: %d of %d linear layers: %d -> %d bytes", len(converted), len(report), before, after)
    _reports[result] = tuple(report)
    return result


def conversion_report(model: nn.Module) -> tuple[Conversion, ...]:
    """What the last `convert` of this model made of each linear layer, in the model's order.

    Args:
        model: what `convert` returned. The report is kept as long as this module lives, and goes neither into copies
            nor into files of it.

    Raises:
        RuntimeError: "conversion_report: ..." for a module that `convert` has not returned.
    """
    report = _reports.get(model)
    if report is None:
        raise RuntimeError(
            "conversion_report: `model` must be what tileon_ops.convert returned, got another "
            f"{type(model).__name__}; copies have no report"
        )
    return report
