"""What a model holds, as `convert` sees it: its linear layers, and the matrices that no linear layer holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from tileon_ops.nn.block_scaled_linear import BlockScaledLinear

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


@dataclass
class Layer:
    """A linear layer of the model.

    Attributes:
        module: the layer.
        names: every name that it has in the model, "" for the model itself.
        holders: the modules that hold it, each with the name that it has there.
        nbytes: of its parameters and buffers, but for those of linear layers inside it.
    """

    module: nn.Module
    names: list[str] = field(default_factory=list)
    holders: list[tuple[nn.Module, str]] = field(default_factory=list)
    nbytes: int = 0


@dataclass
class Matrix:
    """A parameter of two dims or more that no linear layer holds, and one of the modules that hold it."""

    parameter: nn.Parameter
    holder: nn.Module
    names: list[str] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return self.parameter.nbytes

    def is_stack_of_weights(self) -> bool:
        """Whether it looks like the weights of several linear layers, as the experts of a mixture have them."""
        return (
            self.parameter.dim() == 3
            and min(self.parameter.shape) > 1  # a table of positions has a batch of 1
            and not isinstance(self.holder, _CONVOLUTIONS)
        )


def is_conv1d(module: nn.Module) -> bool:
    """Whether it is transformers' Conv1D, GPT-2's linear layer, whose weight is (in, out). Recognized by its looks."""
    weight = getattr(module, "weight", None)
    return (
        type(module).__name__ == "Conv1D"
        and isinstance(weight, Tensor)
        and weight.dim() == 2
        and getattr(module, "nf", None) == weight.shape[1]
    )


def contents(model: nn.Module) -> list[Layer | Matrix]:
    """The linear layers and the other matrices, each once, in the model's order: depth first."""
    modules = dict(model.named_modules(remove_duplicate=False))
    layers = _layers(modules)
    held = {id(parameter) for layer in layers.values() for parameter in layer.module.parameters()}
    found: dict[int, Layer | Matrix] = {}
    for path, module in modules.items():
        if id(module) in layers:
            found[id(module)] = layers[id(module)]
        for name, parameter in module._parameters.items():
            if parameter is None or id(parameter) in held or nn.parameter.is_lazy(parameter) or parameter.dim() < 2:
                continue
            matrix = found.setdefault(id(parameter), Matrix(parameter, module))
            matrix.names.append(_joined(path, name))
    return list(found.values())


def users_of_parameters(model: nn.Module) -> dict[int, list[str]]:
    """The names of each parameter, by its id: one for each place in the model that holds it."""
    users: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        users.setdefault(id(parameter), []).append(name)
    return users


def bytes_of(module: nn.Module) -> int:
    """The bytes of all parameters and buffers, each counted once."""
    return _bytes({id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}.values())


def _layers(modules: dict[str, nn.Module]) -> dict[int, Layer]:
    layers: dict[int, Layer] = {}
    for path, module in modules.items():
        if isinstance(module, (nn.Linear, BlockScaledLinear)) or is_conv1d(module):
            layer = layers.setdefault(id(module), Layer(module))
            layer.names.append(path)
            if path:
                holder, _, name = path.rpartition(".")
                layer.holders.append((modules[holder], name))
    counted: set[int] = set()
    for layer in reversed(layers.values()):  # a layer inside another one comes behind it, and counts its own
        tensors = {id(tensor): tensor for tensor in (*layer.module.parameters(), *layer.module.buffers())}
        layer.nbytes = _bytes(tensor for key, tensor in tensors.items() if key not in counted)
        counted |= tensors.keys()
    return layers


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(0 if nn.parameter.is_lazy(tensor) else tensor.nbytes for tensor in tensors)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
