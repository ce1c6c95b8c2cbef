"""A call of the soak test: what is passed, how, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch

from soak.operand import Operand
from soak.wanted import Wanted

Argument = Operand | int | str | None


@dataclass(frozen=True)
class Call:
    """One call: `arguments` by the schema's names, in its order; `options` are its keywords."""

    op: str
    arguments: Mapping[str, Argument]
    options: Mapping[str, object] = field(default_factory=dict)
    out: Operand | None = None
    through: str = "op"  # or "python": the function of the package
    mode: str = "grad"  # or "no_grad", "inference_mode"
    upstream: Operand | None = None  # the gradient of the result: gradients of what requires them are results too

    @property
    def name(self) -> str:
        """As it is counted."""
        return f"{self.op}{'.out' * (self.out is not None)}{'.backward' * (self.upstream is not None)}"

    def operands(self) -> Iterator[tuple[str, Operand]]:
        for name, argument in {**self.arguments, "out": self.out, "upstream": self.upstream}.items():
            if isinstance(argument, Operand):
                yield name, argument


@dataclass(frozen=True)
class Case:
    """A call, the format that it is counted under, and the results that are wanted of it on the CPU or on a GPU.

    `flaw`: what is wrong with the call, which must then be refused.
    """

    call: Call
    format: str
    wanted: Callable[[torch.device], Mapping[str, Wanted]]
    flaw: str | None = None

    def described(self) -> str:
        call = self.call
        function = f"tileon_ops.{call.op}" if call.through == "python" else f"torch.ops.tileon.{call.op}"
        function += ".out" if call.through == "op" and call.out is not None else ""
        lines = [f"{function}, {self.format}, under {call.mode}"]
        lines += [f"bad: {self.flaw}"] if self.flaw else []
        for name, argument in call.arguments.items():
            words = argument.described() if isinstance(argument, Operand) else repr(argument)
            lines.append(f"  {name}: {words}")
        for name, operand in (("out", call.out), ("gradient of the result", call.upstream)):
            lines += [f"  {name}: {operand.described()}"] if operand is not None else []
        lines += [f"  {name}={value!r}" for name, value in call.options.items()]
        return "\n".join(lines)
