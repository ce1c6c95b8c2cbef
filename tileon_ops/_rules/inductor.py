"""What programs of torch's compiler call: ops that have no kernel of Python's on the Autograd key.

A compiled program has a backward pass of its own, and yet each of its calls of `tileon::matmul` passes the kernel on
the op's Autograd key, which is Python and finds nothing to do. So inductor writes a private op in its place,
`tileon::_matmul_compiled`, whose kernels are the same (csrc/entry/registration.h), and leaves out arguments that have
their defaults, which torch would convert at each call; of each of `OPS` alike. Both take more than half of the time that
a call spends before the library's own code. Graphs, passes on them and exported programs show the public op as before,
and packages of AOTInductor call it, since a package may meet another version of this library.

inductor takes seconds to import, so the lowerings wait for it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch

from tileon_ops._loading.import_hook import after_import
from tileon_ops._rules import torch_private
from tileon_ops._rules.required import with_check

OPS = (
    "matmul",
    "_matmul_with_preactivation",
    "_epilogue_backward",
    "block_scaled_matmul",
    "quantize",
    "_quantize_nvfp4_rows",
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


def _lowering(inductor: torch_private.Inductor, name: str, implementation: Callable[..., Any]) -> Callable[..., Any]:
    op, compiled = (getattr(torch.ops.tileon, overloads).default for overloads in (name, compiled_name(name)))
    parameters = list(inspect.signature(implementation).parameters.values())

    def lower(*arguments: Any, **options: Any) -> Any:
        called = op if inductor.graph_state.aot_compilation else compiled
        arguments, options = _without_defaults(parameters, arguments, options)
        return inductor.fallback_handler(called, add_to_fallback_set=False)(*arguments, **options)

    return lower


def _add_lowerings(implementations: Mapping[str, Callable[..., Any]]) -> None:
    inductor = torch_private.of_inductor()
    if inductor is None:
        return
    for name in OPS:
        op = getattr(torch.ops.tileon, name).default
        # as inductor does with an op that it does not know, whose operands keep the strides that they have in eager mode
        tag = inductor.get_layout_constraint_tag(op, with_default=True)
        inductor.make_fallback(op, layout_constraint=inductor.tag_to_layout_constraint(tag), warn=False)
        inductor.register_lowering(op, type_promotion_kind=None)(_lowering(inductor, name, implementations[name]))


def register(implementations: Mapping[str, Callable[..., Any]]) -> None:
    """`implementations` are the fake ones of all ops."""
    for name in OPS:
        torch.library.register_fake(f"tileon::{compiled_name(name)}", with_check(name, implementations[name]))
    after_import("torch._inductor.lowering", functools.partial(_add_lowerings, implementations))
