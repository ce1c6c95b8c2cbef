"""A one-line mistake, and the tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """A mistake: in `file`, `old`, which is there once, becomes `new`. One of `tests`, files of the suite or names of
    tests as pytest takes them, must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """Raises ValueError where the text is not there, or more than once."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.name}: {self.old!r} is {count} times in {self.file}, and must be there once")
        return text.replace(self.old, self.new)


def host(*programs: str) -> tuple[str, ...]:
    return tuple(f"tests/test_host.py::test_host_program[test_{program}]" for program in programs)
