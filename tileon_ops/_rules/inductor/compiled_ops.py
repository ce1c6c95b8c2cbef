"""Ops that have no kernel of Python's on the Autograd key, for programs of torch's compiler.

A compiled program has a backward pass of its own, and yet each of its calls of `tileon::matmul` passes the kernel on
the op's Autograd key, which is Python and finds nothing to do. So inductor writes a private op in its place,
`tileon::_matmul_compiled`, whose kernels are the same (csrc/entry/registration.h), and leaves out arguments that have
their defaults, which torch would convert at each call; of each of `OPS` alike. Both take more than half of the time
that a call spends before the library's own code. Graphs, passes on them and exported programs show the public op as
before, and packages of AOTInductor call it, since a package may meet another version of this library.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tileon_ops._rules import torch_private

OPS = (
    "matmul",
    "_matmul_with_preactivation",
    "_epilogue_backward",
    "block_scaled_matmul",
    "quantize",
    "_quantize_nvfp4_rows",
    "_quantized_linear",
)


def compiled_name(op: str) -> str:
    """As csrc/entry/registration.h has it."""
    return f"{'' if op.startswith('_') else '_'}{op}_compiled"


def _without_defaults(
    parameters: list[inspect.Parameter], arguments: tuple[Any, ...], options: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call less those that say what is so without them."""
    default_of = {parameter.name: parameter.default for parameter in parameters}

    def is_default(name: str, value: Any) -> bool:
        default = default_of[name]
        return type(value) is type(default) and bool(value == default)

    names = list(default_of)
    while arguments and is_default(names[len(arguments) - 1], arguments[-1]):
        arguments = arguments[:-1]
    return arguments, {name: value for name, value in options.items() if not is_default(name, value)}


class CompiledOp:
    """How inductor writes calls of an op."""

    def __init__(self, inductor: torch_private.Inductor, name: str, implementation: Callable[..., Any]) -> None:
        """`implementation` is the fake one."""
        self.op = getattr(torch.ops.tileon, name).default
        self._compiled = getattr(torch.ops.tileon, compiled_name(name)).default
        self._inductor = inductor
        self._signature = inspect.signature(implementation)

    def write(self, *arguments: Any, **options: Any) -> Any:
        """What inductor has of the results of a call."""
        called = self.op if self._inductor.graph_state.aot_compilation else self._compiled
        parameters = list(self._signature.parameters.values())
        arguments, options = _without_defaults(parameters, arguments, options)
        return self._inductor.fallback_handler(called, add_to_fallback_set=False)(*arguments, **options)

    def arguments_of(self, node: torch.fx.Node) -> dict[str, Any]:
        """Of a call in a graph, by their names, defaults among them."""
        bound = self._signature.bind(*node.args, **node.kwargs)
        bound.apply_defaults()
        return bound.arguments

    def lower(self, lowering: Callable[..., Any]) -> None:
        """Calls become what `lowering` makes of their arguments."""
        # as inductor does with an op that it does not know, whose operands keep the strides of eager mode
        tag = self._inductor.get_layout_constraint_tag(self.op, with_default=True)
        constraint = self._inductor.tag_to_layout_constraint(tag)
        self._inductor.make_fallback(self.op, layout_constraint=constraint, warn=False)
        self._inductor.register_lowering(self.op, type_promotion_kind=None)(lowering)
