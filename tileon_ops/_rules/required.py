"""Tensors that a call must have: what is said where None, or a thing that is no tensor, came in place of one.

torch's dispatcher hands None on as a tensor that is not defined. The kernels of csrc/ refuse it, in these words,
before any other rule (check_given of csrc/checks/operands.h), and so do the fake implementations. A call without any
tensor finds no kernel of a device; it finds the ones of this module, and so does one on a device, or of a layout, that
there is no kernel for.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

_library = torch.library.Library("tileon", "IMPL")

# Of private ops that share a public one's rules: how their names begin.
_SPEAKERS = {
    "_matmul_with": "matmul",
    "_block_scaled_matmul_": "block_scaled_matmul",
    "_quantized_linear": "block_scaled_matmul",
}


def _name_of(kind: type) -> str:
    if kind is type(None):
        return "None"
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def check_tensors(op: str, required: Mapping[str, Any], optional: Mapping[str, Any] | None = None) -> None:
    """RuntimeError for the first of the arguments that is no tensor, those that are `required` first."""
    for name, value in required.items():
        if not isinstance(value, Tensor):
            raise RuntimeError(f"{op}: `{name}` must be a tensor, got {_name_of(type(value))}") from None
    if optional is not None:
        check_tensors(op, {name: value for name, value in optional.items() if value is not None})


def _required(implementation: Callable[..., Any]) -> list[inspect.Parameter]:
    """The arguments of an op that are tensors and must be there, by its fake implementation."""
    parameters = inspect.signature(implementation).parameters.values()
    return [parameter for parameter in parameters if parameter.annotation in (Tensor, "Tensor")]


def _speaker(op: str, argument: str) -> str:
    """The op that a message names: the public one, whose rules a private one shares; overloads have one name."""
    if argument == "x":  # rows that are quantized, by whichever op
        return "quantize"
    if argument != "prepared_b":
        for begin, public in _SPEAKERS.items():
            if op.startswith(begin):
                return public
    return op.partition(".")[0]


def _check(op: str, required: list[inspect.Parameter], names: list[str], arguments: Any, options: Any) -> None:
    given = {**dict(zip(names, arguments, strict=False)), **options}
    for parameter in required:
        check_tensors(_speaker(op, parameter.name), {parameter.name: given.get(parameter.name)})


def with_check(op: str, implementation: Callable[..., Any]) -> Callable[..., Any]:
    """A fake implementation that refuses what is no tensor before anything else; `op` may name an overload. `out` it
    leaves to the implementation, as it comes last."""
    names = list(inspect.signature(implementation).parameters)
    required = [parameter for parameter in _required(implementation) if parameter.name != "out"]

    @functools.wraps(implementation)
    def checked(*arguments: Any, **options: Any) -> Any:
        _check(op, required, names, arguments, options)
        return implementation(*arguments, **options)

    return checked


def _without_kernel(op: str, implementation: Callable[..., Any]) -> Callable[..., Any]:
    """What is called where no device's kernel is."""
    names, required = list(inspect.signature(implementation).parameters), _required(implementation)

    def kernel(*arguments: Any, **options: Any) -> Any:
        _check(op, required, names, arguments, options)
        given = {**dict(zip(names, arguments, strict=False)), **options}
        tensors = {parameter.name: given[parameter.name] for parameter in required}
        for name, tensor in tensors.items():
            if tensor.layout != torch.strided:
                raise RuntimeError(
                    f"{_speaker(op, name)}: `{name}` must be strided, got a tensor of layout {tensor.layout}"
                )
        for name, tensor in tensors.items():
            if tensor.device.type not in ("cpu", "cuda"):
                raise RuntimeError(
                    f"{_speaker(op, name)}: `{name}` must be on a CPU or a CUDA GPU, got a tensor on {tensor.device}"
                )
        name, tensor = next(iter(tensors.items()))
        op_name = op.partition(".")[0]  # of another op there may be kernels
        raise RuntimeError(f"{op_name}: there are no kernels for tensors as `{name}` is, {tensor.dtype}")

    return kernel


def register(implementations: Mapping[str, Callable[..., Any]]) -> None:
    """For the ops of these fake implementations."""
    for op, implementation in implementations.items():
        _library.impl(op, _without_kernel(op, implementation), "CompositeExplicitAutograd")
