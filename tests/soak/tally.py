"""What a soak test counts, and how it is told."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from benchmarks.common.result_file import aligned
from soak.case import Case
from soak.run import FINDINGS, Verdict


@dataclass(frozen=True)
class Name:
    """Of a case: it follows from these three."""

    seed: int
    process: int
    index: int

    def __str__(self) -> str:
        return f"{self.seed}:{self.process}:{self.index}"


@dataclass(frozen=True)
class Report:
    """Something found, with the command that calls it again."""

    name: Name
    device: str
    text: str

    def __str__(self) -> str:
        return f"{self.text}\nagain: python tests/soak --replay {self.name} --device {self.device}\n"


def report_of(name: Name, device: str, case: Case, verdict: Verdict) -> Report:
    found = "\n".join(f"{finding.kind}: {finding.text}" for finding in verdict.findings)
    return Report(name, device, f"case {name}: {case.described()}\n{found}")


@dataclass
class Tally:
    """`calls` by op and format; `findings` by kind; `unspecified`: calls with elements left unchecked, by rule."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    unspecified: Counter[str] = field(default_factory=Counter)

    def add(self, case: Case, verdict: Verdict) -> None:
        self.calls[case.call.name, case.format] += 1
        self.findings.update({finding.kind for finding in verdict.findings})
        self.unspecified.update({rule for rule, elements in verdict.unspecified.items() if elements})

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.calls + other.calls, self.findings + other.findings, self.unspecified + other.unspecified)

    @property
    def total(self) -> int:
        return sum(self.calls.values())

    def line(self, seconds: float) -> str:
        """On one line; kinds of findings are counted in calls."""
        rate = f"{self.total:,} calls in {seconds:.0f} s ({self.total / max(seconds, 1e-3):.0f}/s)"
        return f"{rate}: " + ", ".join(f"{self.findings[kind]:,} {kind}" for kind in FINDINGS)

    def table(self) -> str:
        rows = [["op", "calls", "of them"]]
        for op in sorted({op for op, _ in self.calls}):
            formats = Counter({form: count for (name, form), count in self.calls.items() if name == op})
            words = ", ".join(f"{form} {count:,}" for form, count in sorted(formats.items()))
            rows.append([op, f"{formats.total():,}", words])
        return aligned(rows)

    def rules(self) -> str:
        """What was not checked, for nothing is specified."""
        if not self.unspecified:
            return ""
        rows = [["elements left unchecked, by rule", "in calls"]]
        rows += [[rule, f"{count:,}"] for rule, count in sorted(self.unspecified.items())]
        return f"{aligned(rows)}\n"
