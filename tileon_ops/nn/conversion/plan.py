"""What `convert` will do: a step for each linear layer and each other matrix, decided before anything is replaced."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from tileon_ops.nn.block_scaled_linear import BlockScaledLinear
from tileon_ops.nn.conversion.choice import Choice, Format
from tileon_ops.nn.conversion.contents import Layer, Matrix, bytes_of, contents, users_of_parameters
from tileon_ops.nn.conversion.reasons import became, is_already, reason_of_layer, reason_of_matrix

_SMALLEST_MATRIX = 1 / 1000  # of the model's bytes: tables of positions and the like would fill a report


@dataclass
class Step:
    """What becomes of a layer or matrix.

    Attributes:
        item: what it is about.
        format: what a layer becomes, where `reason` is "".
        reason: why it stays as it is.
        is_done: whether it stays because it is already what was asked for.
    """

    item: Layer | Matrix
    format: Format
    reason: str
    is_done: bool = False

    def is_linear_weight(self) -> bool:
        """Whether the caller may expect it to be converted: a linear layer, or the stacked weights of several."""
        return isinstance(self.item, Layer) or self.item.is_stack_of_weights()


def plan(model: nn.Module, choice: Choice) -> list[Step]:
    """In the model's order, without matrices that are small. What `filter` raises passes through."""
    users = users_of_parameters(model)
    smallest = bytes_of(model) * _SMALLEST_MATRIX
    return [
        _step_of_layer(item, choice, users) if isinstance(item, Layer) else Step(item, None, reason_of_matrix(item))
        for item in contents(model)
        if isinstance(item, Layer) or item.nbytes >= smallest
    ]


def _step_of_layer(layer: Layer, choice: Choice, users: dict[int, list[str]]) -> Step:
    if isinstance(layer.module, BlockScaledLinear):
        is_done = is_already(layer.module, choice.format_of(layer))
        return Step(layer, None, f"already {became(layer.module.format)}", is_done)
    reason = choice.reason_to_leave(layer)
    if reason:
        return Step(layer, None, reason)
    format = choice.format_of(layer)
    reason = reason_of_layer(layer, format, users)
    return Step(layer, format, reason, is_already(layer.module, format))
