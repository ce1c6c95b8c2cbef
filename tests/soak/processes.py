"""The processes of the soak test: each makes its own cases one after another, and one collects what they find.

The workers are told to stop through their pipes, and hold no lock: one that dies or hangs, as the ops under test may
make it, costs nothing but itself, and the case that it was in is reported.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import signal
import time
from collections.abc import Callable
from ctypes import c_longlong
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import torch

from soak.cases import draw_case
from soak.run import ERROR, run_case
from soak.tally import Name, Report, Tally, report_of

_TELL_SECONDS = 0.5  # between two messages of a worker
_HUNG_SECONDS = 60.0  # without one: no case takes a second
_ENDING_SECONDS = 10.0  # for a worker to finish its case
_REPORTS = 20  # that a worker tells; the rest is counted


@dataclass(frozen=True)
class Plan:
    """`seconds` of calls and `calls` in all, whichever comes first."""

    seed: int
    processes: int
    device: str
    ops: frozenset[str]
    seconds: float | None
    calls: int | None

    def share(self, process: int) -> float:
        """Of the calls, a process's."""
        if self.calls is None:
            return float("inf")
        return self.calls // self.processes + (process < self.calls % self.processes)


@dataclass(frozen=True)
class Message:
    """Everything that a worker has counted, and what it has found since the last one."""

    tally: Tally
    reports: tuple[Report, ...]
    is_last: bool


# One process.


def work(plan: Plan, process: int, pipe: Any, current: Any) -> None:
    """Makes this process's cases. `current` says which, should it be the last."""
    torch.set_num_threads(1)
    tally, unsent, told, reported = Tally(), list[Report](), time.monotonic(), 0
    device, limit = torch.device(plan.device), plan.share(process)
    end = time.monotonic() + plan.seconds if plan.seconds is not None else float("inf")
    pipe.send(Message(tally, (), is_last=False))
    for index in itertools.count():
        now = time.monotonic()
        if now - told > _TELL_SECONDS:
            pipe.send(Message(tally, tuple(unsent), is_last=False))
            unsent, told = [], now
        if now >= end or tally.total >= limit or pipe.poll():
            break
        current.value = index
        case = draw_case(plan.seed, process, index, plan.ops)
        if case is None:
            continue
        verdict = run_case(case, device)
        tally.add(case, verdict)
        if verdict.findings and reported < _REPORTS:
            reported += 1
            unsent.append(report_of(Name(plan.seed, process, index), plan.device, case, verdict))
        if verdict.device_is_lost:
            break
    pipe.send(Message(tally, tuple(unsent), is_last=True))


# All of them.


@dataclass
class _Worker:
    """`current`: the index of the case that the process is in."""

    number: int
    process: Any
    pipe: Connection[Any, Any]
    current: Any
    tally: Tally = field(default_factory=Tally)
    heard: float | None = None  # when; None before the first message, while it imports
    is_done: bool = False

    def is_hung(self) -> bool:
        return self.heard is not None and time.monotonic() - self.heard > _HUNG_SECONDS


@dataclass(frozen=True)
class Outcome:
    tally: Tally
    reports: tuple[Report, ...]
    seconds: float
    interrupted: bool


class Soak:
    """Runs a plan. `tell` gets each report as it comes, `progress` the tally and the seconds, now and then; `work` is
    what a process does."""

    def __init__(
        self,
        plan: Plan,
        tell: Callable[[Report], None],
        progress: Callable[[Tally, float], None],
        work: Callable[[Plan, int, Any, Any], None] = work,
    ) -> None:
        self.plan, self._tell, self._progress, self._work = plan, tell, progress, work
        self._reports: list[Report] = []
        self._workers: list[_Worker] = []
        self._began: float | None = None
        self._interrupts = 0
        self._deadline: float | None = None  # once interrupted

    def run(self) -> Outcome:
        """Ends when its processes have. Ctrl-C ends them early, a second one at once."""
        before = signal.signal(signal.SIGINT, self._interrupt)
        try:
            self._start()
            while not self._is_over():
                self._collect()
                self._progress(self._tally(), self._seconds())
        finally:
            for worker in self._workers:
                worker.process.kill()
                worker.process.join()
            signal.signal(signal.SIGINT, before)
        return Outcome(self._tally(), tuple(self._reports), self._seconds(), self._interrupts > 0)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        # Ctrl-C goes to every process of the terminal. The workers inherit that it is ignored, and are told by pipe.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for number in range(self.plan.processes):
                ours, theirs = context.Pipe()
                current = context.RawValue(c_longlong, -1)
                arguments = (self.plan, number, theirs, current)
                process = context.Process(target=self._work, args=arguments, daemon=True)
                process.start()
                theirs.close()
                self._workers.append(_Worker(number, process, ours, current))
        finally:
            signal.signal(signal.SIGINT, before)

    def _interrupt(self, number: int, frame: object) -> None:
        """Asks the workers to finish their cases, and to tell what they have counted."""
        self._interrupts += 1

    def _is_over(self) -> bool:
        if self._interrupts and self._deadline is None:
            self._deadline = time.monotonic() + _ENDING_SECONDS
            for worker in self._waiting():
                worker.is_done = worker.heard is None  # it has counted nothing yet
                with contextlib.suppress(OSError):  # one that is ending already
                    worker.pipe.send("stop")
        is_late = self._deadline is not None and (self._interrupts > 1 or time.monotonic() > self._deadline)
        return is_late or not self._waiting()

    def _waiting(self) -> list[_Worker]:
        return [worker for worker in self._workers if not worker.is_done]

    def _collect(self) -> None:
        ready = multiprocessing.connection.wait([worker.pipe for worker in self._waiting()], timeout=0.2)
        for worker in self._waiting():
            if worker.pipe in ready:
                self._hear(worker)
            elif worker.is_hung():
                self._lose(worker, f"it has been in this case for {_HUNG_SECONDS:.0f} s")

    def _hear(self, worker: _Worker) -> None:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(_ENDING_SECONDS)
            self._lose(worker, f"it ended with exit status {worker.process.exitcode}")
            return
        worker.heard = time.monotonic()
        self._began = self._began or worker.heard
        worker.tally, worker.is_done = message.tally, message.is_last
        for report in message.reports:
            self._report(report)

    def _lose(self, worker: _Worker, why: str) -> None:
        """A worker that died or hangs is a finding of its case."""
        worker.is_done = True
        worker.tally.findings[ERROR] += 1
        name = Name(self.plan.seed, worker.number, worker.current.value)
        case = draw_case(name.seed, name.process, name.index) if name.index >= 0 else None
        place = f"case {name}: {case.described()}" if case is not None else "before its first case"
        self._report(Report(name, self.plan.device, f"{place}\n{ERROR}: process {worker.number} is lost: {why}"))

    def _report(self, report: Report) -> None:
        self._reports.append(report)
        self._tell(report)

    def _tally(self) -> Tally:
        return sum((worker.tally for worker in self._workers), Tally())

    def _seconds(self) -> float:
        """Of calls: since the first worker was ready."""
        return time.monotonic() - self._began if self._began is not None else 0.0
