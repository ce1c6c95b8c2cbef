"""What comes behind a product in the soak test: bias, activation and output dtype, drawn and computed."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from soak.draw import Draw
from soak.intervals import Interval, activated, biased
from soak.operand import Layout, Operand
from soak.values import Source

_ACTIVATIONS = ("none", "relu", "leaky_relu", "gelu", "gelu_tanh", "silu")
_SLOPES = (0.01, 0.0, 0.25, -0.5, 1.0, 1.5, -3.0, 0.3)
_BIAS_HIGH = 20  # of integers


@dataclass(frozen=True)
class Epilogue:
    bias: Operand | None
    activation: str
    slope: float
    out_dtype: torch.dtype

    def argument(self, sums: Interval, unit: float) -> Interval:
        """Of the activation; `unit` is that of the accumulator's roundings."""
        return sums if self.bias is None else biased(sums, self.bias.view().detach().double(), unit)

    def result(self, argument: Interval, unit: float) -> Interval:
        return activated(argument, self.activation, self.slope, unit)

    def options(self, draw: Draw, default: torch.dtype) -> dict[str, object]:
        """As keywords; what is default is left out half of the time."""
        given: dict[str, object] = {}
        if self.activation != "none" or draw.chance(0.5):
            given["activation"] = self.activation
        if self.activation == "leaky_relu" or draw.chance(0.1):
            given["slope"] = self.slope
        if self.out_dtype != default or draw.chance(0.5):
            given["out_dtype"] = self.out_dtype
        return given


def draw_epilogue(
    source: Source, n: int, out_dtype: torch.dtype, *, bias_share: float = 0.5, requires_grad: bool = False
) -> Epilogue:
    draw = source.draw
    activation = draw.pick(_ACTIVATIONS) if draw.chance(0.6) else "none"
    slope = draw.pick(_SLOPES)
    if source.integers and draw.chance(0.7):  # so that nothing rounds behind an exact sum
        activation, slope = draw.pick(_ACTIVATIONS[:3]), draw.pick((0.5, -2.0, 0.0))
    bias = _draw_bias(source, n, out_dtype, requires_grad) if draw.chance(bias_share) else None
    return Epilogue(bias, activation, slope, out_dtype)


def _draw_bias(source: Source, n: int, out_dtype: torch.dtype, requires_grad: bool) -> Operand:
    """Of the output's dtype or float32; float32 alone where the output has 8 bits."""
    draw = source.draw
    dtype = out_dtype if out_dtype.itemsize > 1 and draw.chance(0.5) else torch.float32
    dtype = out_dtype if out_dtype == torch.float64 and draw.chance(0.9) else dtype
    layout = Layout((n,), (draw.pick((1, 1, 1, 2, 5, 0)),), draw.pick((0, 0, 1, 3, 8)))
    return source.operand((n,), dtype, layout=layout, high=_BIAS_HIGH, requires_grad=requires_grad)
