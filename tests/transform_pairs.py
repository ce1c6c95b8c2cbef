"""`matmul` and torch's own composition side by side under one of torch.func's transforms, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from operands import normal
from reference import ACTIVATIONS, activate
from torch import Tensor

SLOPES = {"leaky_relu": (0.3, -0.5)}  # of a negative slope the output does not tell the argument's sign
EPILOGUES = [(activation, slope) for activation in ACTIVATIONS for slope in SLOPES.get(activation, (0.01,))]

# Of a, b and bias, for one sample: shared operands, and batches of one and of both.
SHAPES = (
    pytest.param((3, 4), (4, 2), id="2d"),
    pytest.param((3, 3, 4), (4, 2), id="b_shared"),
    pytest.param((3, 4), (3, 4, 2), id="a_shared"),
    pytest.param((3, 3, 4), (1, 4, 2), id="b_batch_1"),
    pytest.param((2, 3, 4), (2, 4, 2), id="batched"),
)

Op = Callable[..., Tensor]
Tensors = tuple[Tensor, ...]


def ours(a: Tensor, b: Tensor, bias: Tensor | None = None, *, activation: str, slope: float = 0.01) -> Tensor:
    return torch.ops.tileon.matmul(a, b, bias, activation=activation, slope=slope)


def theirs(a: Tensor, b: Tensor, bias: Tensor | None = None, *, activation: str, slope: float = 0.01) -> Tensor:
    total = torch.matmul(a, b)
    return activate(total if bias is None else total + bias, activation, slope)


def operands(
    shape_a: tuple[int, ...] = (3, 4), shape_b: tuple[int, ...] = (4, 2), *, bias: bool = True, device: torch.device
) -> Tensors:
    shapes = (shape_a, shape_b, *([shape_b[-1:]] if bias else []))
    return tuple(normal(*shape, dtype=torch.float64, device=device, seed=i) for i, shape in enumerate(shapes))


def stacks(tensors: Tensors, in_dims: tuple[int | None, ...], size: int = 3) -> Tensors:
    """Other values for each sample where a tensor is mapped."""
    return tuple(
        t if d is None else torch.stack([t * (i + 1) - 0.3 * i for i in range(size)], d)
        for t, d in zip(tensors, in_dims, strict=True)
    )


def scalar(op: Op, **epilogue: Any) -> Op:
    """A function of the operands whose every derivative is curved."""
    return lambda *tensors: op(*tensors, **epilogue).sin().sum()


def check(transform: Callable[[Op], Any], *ops: Op) -> None:
    """That `transform` makes the same of both."""
    actual, expected = (transform(op) for op in ops)
    torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-11)


def compare(transform: Callable[[Op], Any], activation: str = "gelu", slope: float = 0.01) -> None:
    """That `transform` makes the same of a scalar function of ours and of theirs."""
    check(transform, *(scalar(op, activation=activation, slope=slope) for op in (ours, theirs)))


def argnums(tensors: Tensors) -> tuple[int, ...]:
    return tuple(range(len(tensors)))
