"""Running a case of the soak test: the call on a device, its results, and every byte around them."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor

import tileon_ops
from soak.case import Call, Case
from soak.operand import Operand

MISMATCH = "mismatches"
OUTSIDE = "writes outside"
ERROR = "unexpected errors"
ACCEPTED = "bad calls accepted"
FINDINGS = (MISMATCH, OUTSIDE, ERROR, ACCEPTED)

_LONGEST_ERROR = 1000  # letters that are told of one: those of torch's dispatcher fill pages

_MODES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "grad": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}


@dataclass(frozen=True)
class Finding:
    kind: str  # one of FINDINGS
    text: str


@dataclass(frozen=True)
class Verdict:
    """`unspecified`: elements that were not checked, by the name of the rule."""

    findings: tuple[Finding, ...] = ()
    unspecified: Counter[str] = field(default_factory=Counter)
    device_is_lost: bool = False


def function_of(call: Call) -> Callable[..., object]:
    """What the call calls."""
    if call.through == "python":
        return getattr(tileon_ops, call.op)
    packet = getattr(torch.ops.tileon, call.op)
    return packet if call.out is None else packet.out


class _Live:
    """A call's operands on a device. Operands of one storage share its copy."""

    def __init__(self, call: Call, device: torch.device) -> None:
        self.call, self.device = call, device
        self._operands = dict(call.operands())
        self._copies: dict[int, Tensor] = {}
        self.tensors = {name: operand.view(self._copy_of(operand)) for name, operand in self._operands.items()}

    def _copy_of(self, operand: Operand) -> Tensor:
        key = id(operand.storage)
        if key not in self._copies:
            self._copies[key] = operand.storage.to(self.device, copy=True)
        return self._copies[key]

    def invoke(self) -> dict[str, Tensor]:
        """The results by name, on the device."""
        with _MODES[self.call.mode]():
            results = self._results(self._called())
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return results

    def _called(self) -> object:
        values = [self.tensors.get(name, value) for name, value in self.call.arguments.items()]
        into = {"out": self.tensors["out"]} if self.call.out is not None else {}
        return function_of(self.call)(*values, **self.call.options, **into)

    def _results(self, returned: object) -> dict[str, Tensor]:
        call = self.call
        if call.out is not None:
            if returned is not (self.tensors["out"] if call.through == "python" else None):
                raise AssertionError(f"a call with `out` returned {returned!r}")
            return {"out": self.tensors["out"]}
        results = returned if isinstance(returned, tuple) else (returned,)
        named = {f"result {at}" if len(results) > 1 else "result": result for at, result in enumerate(results)}
        if call.upstream is not None:
            asked = {name: self.tensors[name] for name, operand in self._operands.items() if operand.requires_grad}
            gradients = torch.autograd.grad(results[0], list(asked.values()), self.tensors["upstream"])
            named |= {f"gradient of {name}": gradient for name, gradient in zip(asked, gradients, strict=True)}
        return named

    def written_outside(self, may_write: bool) -> str | None:
        """Which bytes changed that may not: all but those of `out`, and those too unless the call `may_write`."""
        before: dict[int, Tensor] = {id(operand.storage): operand.storage for operand in self._operands.values()}
        for key, copy in self._copies.items():
            changed = copy.cpu() != before[key]
            names = [name for name, operand in self._operands.items() if id(operand.storage) == key]
            if names == ["out"] and may_write and self.call.out is not None:
                changed &= ~self.call.out.reached_bytes()
            if bool(changed.any()):
                places = changed.nonzero().flatten()
                return f"{len(places)} bytes around {' and '.join(names)} changed, the first at {int(places[0])}"
        return None

    def is_fresh(self, result: Tensor) -> bool:
        """Contiguous, and in memory of its own."""
        place = result.untyped_storage().data_ptr()
        shared = result.numel() > 0 and any(copy.data_ptr() == place for copy in self._copies.values())
        return result.is_contiguous() and not shared


def _is_lost(device: torch.device) -> bool:
    """Whether a kernel's fault has cost this process its GPU: every later call would fail as well."""
    if device.type == "cuda":
        try:
            torch.cuda.synchronize(device)
        except RuntimeError:
            return True
    return False


def run_case(case: Case, device: torch.device) -> Verdict:
    """Calls the op, and checks the results and every byte around them."""
    try:
        live = _Live(case.call, device)
        try:
            results = live.invoke()
        except Exception as error:  # whatever it is, it is the finding
            return _after_error(case, live, error)
        return _after_results(case, live, results)
    except Exception:  # of the test itself, or of a GPU that is lost
        finding = Finding(ERROR, "the check failed:\n" + traceback.format_exc(limit=-6).rstrip())
        return Verdict((finding,), device_is_lost=_is_lost(device))


def _outside(live: _Live, may_write: bool) -> list[Finding]:
    words = live.written_outside(may_write)
    return [Finding(OUTSIDE, words)] if words else []


def _after_error(case: Case, live: _Live, error: Exception) -> Verdict:
    words = f"{type(error).__name__}: {str(error)[:_LONGEST_ERROR]}"
    if _is_lost(live.device):
        return Verdict((Finding(ERROR, f"the GPU is lost: {words}"),), device_is_lost=True)
    findings = _outside(live, may_write=False)
    if case.flaw is None:
        findings.append(Finding(ERROR, words))
    elif type(error) is not RuntimeError or not str(error).startswith(f"{case.call.op}: "):
        findings.append(Finding(ERROR, f"a RuntimeError that begins with {case.call.op!r} was wanted, got {words}"))
    return Verdict(tuple(findings))


def _after_results(case: Case, live: _Live, results: dict[str, Tensor]) -> Verdict:
    findings, unspecified = _outside(live, may_write=case.flaw is None), Counter[str]()
    if case.flaw is not None:
        return Verdict((*findings, Finding(ACCEPTED, f"no error although {case.flaw}")))
    wanted = case.wanted(live.device)
    if set(wanted) != set(results):
        findings.append(Finding(MISMATCH, f"results {', '.join(results)}, expected {', '.join(wanted)}"))
    for name in (name for name in wanted if name in results):
        words = wanted[name].complaint(results[name].detach().cpu())
        if words:
            findings.append(Finding(MISMATCH, f"{name}: {words}"))
        elif name.startswith("result") and not live.is_fresh(results[name]):
            findings.append(Finding(MISMATCH, f"{name} is not contiguous, or shares an argument's memory"))
        unspecified += wanted[name].unspecified()
    return Verdict(tuple(findings), unspecified)
