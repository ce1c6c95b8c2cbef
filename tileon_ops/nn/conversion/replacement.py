"""`tileon_ops.convert`: a model's linear layers become this package's, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from torch import Tensor, nn

from tileon_ops._rules.fake.checks import check
from tileon_ops.nn.block_scaled_linear import BlockScaledLinear
from tileon_ops.nn.conversion.choice import Format, checked_choice
from tileon_ops.nn.conversion.contents import Layer, bytes_of
from tileon_ops.nn.conversion.log import log_report, log_step, warning_of
from tileon_ops.nn.conversion.plan import Step, plan
from tileon_ops.nn.conversion.reasons import became
from tileon_ops.nn.conversion.report import Conversion, ConversionReport, keep_report
from tileon_ops.nn.layer_formats import check_scale_rounding
from tileon_ops.nn.linear import Linear

_Model = TypeVar("_Model", bound=nn.Module)


def convert(
    model: _Model,
    format: Format | Mapping[str, Format] = None,
    filter: Callable[[nn.Module, str], bool] | None = None,
    *,
    skip: Iterable[str] = (),
    weight_only: bool = False,
    fast_accum: bool = True,
    scale_rounding: str = "rceil",
) -> _Model:
    """The model with its linear layers replaced, in place: by tileon_ops.Linear or tileon_ops.BlockScaledLinear.

    A layer is a torch.nn.Linear, or transformers' Conv1D, whose weight is (in, out). Each weight is released before the
    next one is quantized: converting takes the memory of the model and that of one layer.

    Args:
        model: any module. Where it is itself a linear layer, the new layer is returned and `model` stays as it is.
        format: None for tileon_ops.Linear, which shares the parameters (optimizers and the state_dict stay valid); a
            format of BlockScaledLinear for that, which holds the weight in that format alone and is for inference. Or
            formats by name, `{"*.down_proj": "mxfp8", "*": "mxfp4"}`: keys are globs of a layer's whole name, the first
            that matches counts, and layers that none matches stay. A tileon_ops.Linear keeps its activation.
        filter: called once for each layer with the module and its name in the model; False leaves that layer as it is.
            A module in several places is asked about by its first name.
        skip: globs of the names of layers that stay as they are, such as `("lm_head", "*.gate")`. `*` matches dots too.
        weight_only: of BlockScaledLinear.from_linear: activations stay as they are, and gradients flow to the input.
        fast_accum: of BlockScaledLinear.from_linear.
        scale_rounding: of BlockScaledLinear.from_linear.

    Returns:
        `model`. A module that occurs in several places is replaced by one module, in all of them; globs may match any
        of its names.

    Left as they are:

    - layers that are more than a torch.nn.Linear: with a forward, parameters or submodules of their own, parametrized,
      or with hooks; and lazy ones that have not been called;
    - those whose weight the module around them reads itself: torch.nn.MultiheadAttention, and for a format
      torch.nn.TransformerEncoderLayer while torch.backends.mha.get_fastpath_enabled();
    - those of an adapter, as peft names them: `lora_A`, `lora_B`. The layer that they adapt is replaced;
    - those whose weight is a subclass of Tensor, of a dtype or on a device that is not offered;
    - for a format, those whose in_features its block does not divide, and those whose weight another module holds too,
      as an embedding does that is tied to the last layer; without one, Conv1D;
    - a BlockScaledLinear, whatever its format.

    The logger "tileon_ops" tells at level INFO what became of each layer, and why it was left. It warns where nothing,
    or less than half of the bytes of the linear weights, became what was asked for. Weights that no torch.nn.Linear
    holds, as the stacked experts of a mixture, count as left. conversion_report(model) gives the same as a table.

    Raises:
        RuntimeError: "convert: ..." for a `model` that is no module, a format that there is not and arguments of other
            types. What `filter` raises passes through; nothing has been replaced then.
    """
    check(isinstance(model, nn.Module), f"convert: `model` must be a torch.nn.Module, got {type(model).__name__}")
    choice = checked_choice("convert", format, filter, skip)
    check_scale_rounding("convert", scale_rounding)
    keywords = {"weight_only": weight_only, "fast_accum": fast_accum, "scale_rounding": scale_rounding}
    steps = plan(model, choice)
    warning = warning_of(steps)
    layers = sum(isinstance(step.item, Layer) for step in steps)
    bytes_before = bytes_of(model)
    result: nn.Module = model
    entries: list[Conversion] = []
    steps.reverse()
    while steps:  # a step is gone, and its layer's memory free, before the next one's is taken
        entry, new = _done(steps.pop(), keywords)
        entries.append(entry)
        if new is not None and entry.name == "":
            result = new
    report = ConversionReport(tuple(entries), bytes_before, bytes_of(result))
    log_report(report, layers, warning)
    keep_report(result, report)
    return cast(_Model, result)


def _done(step: Step, keywords: dict[str, Any]) -> tuple[Conversion, nn.Module | None]:
    """Carries a step out. The new layer, where there is one, stands in all places of the old one."""
    item, bytes_after, new = step.item, step.item.nbytes, None
    if isinstance(item, Layer) and not step.reason:
        new = new_layer(item.module, item.names[0], step.format, keywords)
        for holder, name in item.holders:
            setattr(holder, name, new)
        bytes_after = bytes_of(new)
    name, *also = item.names
    entry = Conversion(name, tuple(also), became(step.format) if new else None, step.reason, item.nbytes, bytes_after)
    log_step(step, entry)
    return entry, new


def new_layer(module: nn.Module, name: str, format: Format, keywords: dict[str, Any]) -> nn.Module:
    """What a torch.nn.Linear or Conv1D of that name becomes. `keywords` are those of BlockScaledLinear.from_linear."""
    linear = _as_linear(module)
    if format is None:
        return Linear.from_linear(linear)
    new = BlockScaledLinear.from_linear(linear, format, **keywords)
    new.name_in_model = name
    return new


def _as_linear(module: nn.Module) -> nn.Linear:
    """The layer itself, or a torch.nn.Linear on the memory of a Conv1D, its weight transposed."""
    if isinstance(module, nn.Linear):
        return module
    weight, bias = module.weight, module.bias
    assert isinstance(weight, Tensor)
    assert isinstance(bias, nn.Parameter)
    in_features, out_features = weight.shape
    linear = nn.Linear(in_features, out_features, device="meta")
    linear.weight = nn.Parameter(weight.detach().t(), requires_grad=False)
    linear.bias = bias
    return linear.train(module.training)
