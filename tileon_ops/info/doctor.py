"""How `tileon_ops.info` looks around: sections one after the other, each of which may fail, or end its process.

What a section looks into may be broken in any way, and some ways end the process, or never end: a torch that crashes
at import, a driver that hangs. So the command line looks in a child process; where that dies, the section at fault says
so and another child does those that are left. This file imports nothing but Python's own modules.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

Facts = dict[str, Any]  # what JSON can hold

LONGEST_SECTION = 300  # seconds; a driver that compiles the kernels for a GPU of its own takes minutes


@dataclass(frozen=True)
class Problem:
    """Something that is not as it should be. `level` is "error" where something cannot work, else "warning"."""

    level: str
    what: str
    do: str


@dataclass
class Examination:
    """What a section writes into, and what it may know."""

    facts: Facts  # the section's own: every key is there from the start
    earlier: Mapping[str, Facts]  # the sections before it, by name
    problems: list[Problem] = field(default_factory=list)

    def problem(self, level: str, what: str, do: str) -> None:
        self.problems.append(Problem(level, what, do))

    def error(self, what: str, do: str) -> None:
        self.problem("error", what, do)

    def warning(self, what: str, do: str) -> None:
        self.problem("warning", what, do)

    def known(self, section: str, key: str) -> Any:
        """What an earlier section found; None where it found nothing."""
        return self.earlier.get(section, {}).get(key)


@dataclass(frozen=True)
class Section:
    name: str
    empty: Facts  # every key, with what it holds where nothing is found
    look: Callable[[Examination], None]
    if_it_fails: str = "Please report it, with all of this output."  # what to do


@dataclass(frozen=True)
class Answer:
    """A section's facts, with "error" among them: None, or what kept it from finding more."""

    name: str
    facts: Facts
    problems: list[Problem]


def described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _failed(section: Section, facts: Facts, problems: list[Problem], error: str) -> Answer:
    problem = Problem("error", f"Looking at {section.name.replace('_', ' ')}: {error}.", section.if_it_fails)
    return Answer(section.name, {**facts, "error": error}, [*problems, problem])


def examine(section: Section, earlier: Mapping[str, Facts]) -> Answer:
    """What the section finds; it may raise what it likes."""
    examination = Examination(json.loads(json.dumps(section.empty)), earlier)
    try:
        section.look(examination)
        json.dumps(examination.facts)
    except Exception as error:
        return _failed(section, section.empty | _plain(examination.facts), examination.problems, described(error))
    return Answer(section.name, {**examination.facts, "error": None}, examination.problems)


def examine_here(sections: list[Section], facts: dict[str, Facts]) -> Iterator[Answer]:
    """The answers of all sections, looked for in this process; each section's facts go into `facts`."""
    for section in sections:
        answer = examine(section, facts)
        facts[section.name] = answer.facts
        yield answer


def _plain(facts: Facts) -> Facts:
    """The facts as JSON holds them, whatever a section put there."""
    plain: Facts = json.loads(json.dumps(facts, default=str))
    return plain


def _child(write: int, sections: list[Section], facts: dict[str, Facts]) -> NoReturn:
    """Examines, and writes one line of JSON a section. What libraries print goes to stderr."""
    try:
        os.dup2(2, 1)
        with os.fdopen(write, "w") as pipe:
            for answer in examine_here(sections, facts):
                pipe.write(json.dumps(asdict(answer)) + "\n")
                pipe.flush()
    finally:
        os._exit(0)  # none of the parent's clean-up, nor of torch's


def _lines(read: int, seconds: float) -> Iterator[str]:
    """The lines that come, until the writer's end or until there is none for so long.

    Raises:
        TimeoutError: none came for so long.
    """
    pending = b""
    deadline = time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([read], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        got = os.read(read, 65536)
        if not got:
            return
        *whole, pending = (pending + got).split(b"\n")
        for line in whole:
            yield line.decode()
            deadline = time.monotonic() + seconds


def _end_of(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"the process died of {signal.Signals(number).name} here"
    return f"the process ended here, with exit status {os.waitstatus_to_exitcode(status)}"


def examine_apart(sections: list[Section], seconds: float = LONGEST_SECTION) -> Iterator[Answer]:
    """The answers of all sections, looked for in child processes.

    For a process without threads, that has not imported torch: it forks. Where it cannot, it looks by itself.

    Args:
        sections: in order.
        seconds: after which a section is given up.
    """
    facts: dict[str, Facts] = {}
    waiting = list(sections)
    while waiting:
        sys.stdout.flush()
        sys.stderr.flush()
        read, write = os.pipe()
        try:
            child = os.fork()
        except (AttributeError, OSError):  # Windows has none; a limit of processes may be reached
            os.close(read)
            os.close(write)
            yield from examine_here(waiting, facts)
            return
        if child == 0:
            os.close(read)
            _child(write, waiting, facts)
        os.close(write)
        hangs = False
        try:
            for line in _lines(read, seconds):
                found = json.loads(line)
                answer = Answer(found["name"], found["facts"], [Problem(**problem) for problem in found["problems"]])
                facts[answer.name] = answer.facts
                waiting.pop(0)
                yield answer
        except TimeoutError:
            hangs = True
        finally:
            os.close(read)
            if hangs or waiting:
                os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        if waiting:
            culprit = waiting.pop(0)
            end = f"it did not end within {seconds:.0f} s" if hangs else _end_of(status)
            answer = _failed(culprit, culprit.empty, [], end)
            facts[answer.name] = answer.facts
            yield answer
