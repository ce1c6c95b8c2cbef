"""Why `convert` leaves a layer or a parameter as it is, whatever its caller wishes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tileon_ops._rules.fake.checks import dtype_name, dtype_names
from tileon_ops.nn.block_scaled_linear import BlockScaledLinear
from tileon_ops.nn.conversion.choice import Format
from tileon_ops.nn.conversion.contents import Layer, Matrix, is_conv1d
from tileon_ops.nn.layer_formats import elements_a_scale
from tileon_ops.nn.linear import Linear

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)  # float64 for Linear alone
_DEVICES = ("cpu", "cuda", "meta")
_PLAIN_FORWARDS = (nn.Linear.forward, Linear.forward)
_PLAIN_CLASSES = ("transformers.models.falcon.modeling_falcon.FalconLinear",)  # a forward of its own, of the same sums
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def became(format: Format) -> str:
    """The layer that `format` asks for, as reports name it."""
    return f"BlockScaledLinear {format}" if format else "Linear"


def is_already(module: nn.Module, format: Format) -> bool:
    """Whether the layer is what `format` asks for."""
    if isinstance(module, BlockScaledLinear):
        return module.format == format
    return format is None and isinstance(module, Linear)


def reason_of_layer(layer: Layer, format: Format, users: dict[int, list[str]]) -> str:
    """Why a layer stays as it is; "" where it does not. `users`: the names of each parameter, by its id."""
    module = layer.module
    if format is None and isinstance(module, Linear):
        return "it is a tileon_ops.Linear already"
    return (
        _of_an_adapter(layer)
        or _changed_by_others(module)
        or _read_by_holder(layer, format)
        or _unsupported(module, format)
        or (_tied(layer, users) if format else "")
    )


def reason_of_matrix(matrix: Matrix) -> str:
    if matrix.is_stack_of_weights():
        return "a 3-D parameter that no nn.Linear holds"
    return f"a parameter of {type(matrix.holder).__name__}, which is no linear layer"


def _of_an_adapter(layer: Layer) -> str:
    """peft reads the weights of an adapter's layers, and trains them: lora_A, lora_B and the like."""
    for name in layer.names:
        for part in name.split("."):
            if part.startswith("lora_"):
                return f"it is an adapter's: {part}"
    return ""


def _changed_by_others(module: nn.Module) -> str:
    """Why the layer does more than its class, or another thing; "" where it does not."""
    if any(nn.parameter.is_lazy(parameter) for parameter in module.parameters()):
        return "it has no parameters yet: call it once"
    if hasattr(module, "parametrizations"):
        return "it is parametrized: remove_parametrizations first"
    if "forward" in module.__dict__:
        return "its forward has been replaced"
    if any(len(getattr(module, hooks)) > 0 for hooks in _HOOKS):
        return "it has hooks, which would stay behind"
    if not _computes_a_linear_layer(module):
        return f"{type(module).__name__} has a forward of its own"
    names = {*module._parameters, *module._buffers, *module._modules}
    if names != {"weight", "bias"} or module.weight is None:
        more = sorted(names ^ {"weight", "bias"})
        return f"its parameters are not those of torch.nn.Linear alone: {', '.join(more)}"
    return ""


def _computes_a_linear_layer(module: nn.Module) -> bool:
    kind = type(module)
    name = f"{kind.__module__}.{kind.__qualname__}"
    return kind.forward in _PLAIN_FORWARDS or name in _PLAIN_CLASSES or is_conv1d(module)


def _read_by_holder(layer: Layer, format: Format) -> str:
    for holder, _ in layer.holders:
        if isinstance(holder, nn.MultiheadAttention):
            return f"{type(holder).__name__} reads its weight itself"
        if format and isinstance(holder, nn.TransformerEncoderLayer) and torch.backends.mha.get_fastpath_enabled():
            return (
                f"{type(holder).__name__} reads its weight itself, in its fast path: "
                "torch.backends.mha.set_fastpath_enabled(False) turns that off"
            )
    return ""


def _unsupported(module: nn.Module, format: Format) -> str:
    weight = module.weight
    assert isinstance(weight, Tensor)
    if format is None and is_conv1d(module):
        return "its weight is (in, out), and Linear shares weights as (out, in): it takes a format"
    is_dtensor = hasattr(weight, "placements")  # Linear multiplies these
    if type(weight) is not nn.Parameter and not (is_dtensor and format is None):
        return f"its weight is a {type(weight).__name__}"
    if weight.device.type not in _DEVICES:
        return f"there are no kernels for {weight.device.type}"
    offered = _DTYPES[:-1] if format else _DTYPES
    if weight.dtype not in offered:
        return f"its weight is {dtype_name(weight.dtype)}, and offered are {dtype_names(offered)}"
    in_features = weight.shape[0 if is_conv1d(module) else 1]
    if format and in_features % elements_a_scale(format) != 0:
        return f"in_features = {in_features} is not a multiple of {elements_a_scale(format)}, as {format} needs"
    return ""


def _tied(layer: Layer, users: dict[int, list[str]]) -> str:
    own = {f"{name}.weight" if name else "weight" for name in layer.names}
    others = [name for name in users[id(layer.module.weight)] if name not in own]
    return f"its weight is tied to {', '.join(others)}, so that quantizing it would save nothing" if others else ""
