"""The activations: a row each, which is all that Python knows of one. The kernels' formulas: csrc/core/epilogue.h.

The rest of the package reads this table: the fake rules and docstrings the names, gradients the derivative, products
outside of our kernels torch's function, `tileon_ops.fuse` the calls by which torch applies an activation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from tileon_ops._rules.torch_private import function_behind

_aten = torch.ops.aten

_Documented = TypeVar("_Documented", bound=Callable[..., Any])


def _silu_backward(grad: Tensor, z: Tensor, slope: float) -> Tensor:
    sigmoid = z.sigmoid()  # torch's silu_backward has no gradient of its own
    return grad * (sigmoid * (1 + z * (1 - sigmoid)))


@dataclass(frozen=True)
class Calls:
    """The calls by which torch applies an activation, as graphs of torch.compile and torch.export have them."""

    targets: tuple[Any, ...]  # functions, methods' names, ATen's ops
    arguments: tuple[str, ...] = ("input", "inplace")  # their names, in order
    only: Mapping[str, object] | None = None  # what these must be; None is torch's default
    slope: str | None = None  # the argument that is the slope, 0.01 by default

    def mean(self, arguments: Mapping[str, object]) -> bool:
        """Whether a call with these arguments applies this activation."""
        return all(arguments.get(name) in wanted for name, wanted in (self.only or {}).items())  # type: ignore[operator]


@dataclass(frozen=True)
class Activation:
    """Torch's counterpart of an activation; `slope` is the argument of the op's call."""

    apply: Callable[[Tensor, float], Tensor]  # (x, slope)
    # (grad, kept, slope): grad times the derivative, torch's at 0 too, by differentiable ops. `kept` is z, or y
    # for the slopes of `output_tells_from`.
    backward: Callable[[Tensor, Tensor, float], Tensor]
    # From this slope on the derivative follows from the output, as in through_activation of csrc/core/epilogue.h, so
    # that nobody keeps z; None: from none.
    output_tells_from: float | None = None
    calls: Calls | None = None
    note: str = ""  # for docstrings

    @property
    def has_slope(self) -> bool:
        return self.calls is not None and self.calls.slope is not None

    def needs_z(self, slope: float) -> bool:
        """Whether the derivative needs z: not where the output tells as much."""
        return self.output_tells_from is None or bool(slope < self.output_tells_from)


# In the order of csrc/core/epilogue.h.
ACTIVATIONS: dict[str, Activation] = {
    "none": Activation(
        apply=lambda x, slope: x,
        backward=lambda grad, kept, slope: grad,
        output_tells_from=-math.inf,
    ),
    "relu": Activation(
        apply=lambda x, slope: F.relu(x),
        backward=lambda grad, y, slope: _aten.threshold_backward(grad, y, 0),
        output_tells_from=-math.inf,
        calls=Calls((F.relu, torch.relu, torch.relu_, "relu", "relu_", _aten.relu.default, _aten.relu_.default)),
    ),
    "leaky_relu": Activation(
        apply=F.leaky_relu,
        backward=lambda grad, kept, slope: _aten.leaky_relu_backward(grad, kept, slope, False),
        output_tells_from=0.0,
        calls=Calls(
            (
                *(F.leaky_relu, F.leaky_relu_, function_behind("leaky_relu")),
                *(_aten.leaky_relu.default, _aten.leaky_relu_.default),
            ),
            arguments=("input", "negative_slope", "inplace"),
            slope="negative_slope",
        ),
    ),
    "gelu": Activation(
        apply=lambda x, slope: F.gelu(x),
        backward=lambda grad, z, slope: _aten.gelu_backward(grad, z, approximate="none"),
        calls=Calls((F.gelu, _aten.gelu.default), ("input", "approximate"), only={"approximate": (None, "none")}),
        note="by erf",
    ),
    "gelu_tanh": Activation(
        apply=lambda x, slope: F.gelu(x, approximate="tanh"),
        backward=lambda grad, z, slope: _aten.gelu_backward(grad, z, approximate="tanh"),
        calls=Calls((F.gelu, _aten.gelu.default), ("input", "approximate"), only={"approximate": ("tanh",)}),
    ),
    "silu": Activation(
        apply=lambda x, slope: F.silu(x),
        backward=_silu_backward,
        calls=Calls((F.silu, function_behind("silu"), _aten.silu.default, _aten.silu_.default)),
    ),
}


def activate(x: Tensor, activation: str, slope: float) -> Tensor:
    """Every element of `x` by torch's own function of `activation`, a name that the ops take."""
    return ACTIVATIONS[activation].apply(x, slope)


def listing_activations(documented: _Documented) -> _Documented:
    """A decorator: a docstring's `{activations}` becomes the names of the activations."""
    if documented.__doc__ is not None:  # python -OO
        *names, last = (f'"{name}"' + f" ({row.note})" * bool(row.note) for name, row in ACTIVATIONS.items())
        documented.__doc__ = documented.__doc__.replace("{activations}", f"{', '.join(names)} or {last}")
    return documented
