"""Targets that results are to meet, and how one is made of figures. report/targets.py prints all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.common.cases import Case
from benchmarks.common.times import Ratios, Times, Which


@dataclass(frozen=True)
class Target:
    """One target: what it is of, what is asked, the figure, and whether it holds; None where nothing was measured.

    Where the peer does not compute the thing at all, `no_peer`, there is no target to hold or to miss.
    """

    what: str
    asked: str
    figure: str = ""
    holds: bool | None = None
    no_peer: bool = False

    @property
    def verdict(self) -> str:
        words = {True: "holds", False: "DOES NOT HOLD", None: "not measured"}
        return "no peer" if self.no_peer else words[self.holds]


class Asked(NamedTuple):
    """A row of a subject's targets: one provider's time over another's is at least `mean`, and `each` in every case."""

    what: str
    which: Which | Collection[Case]  # Keys: not measured unless all of them are
    mean: float | None = None
    each: float | None = None
    over: str = "torch"
    under: str = "tileon"
    no_peer: str = ""  # why the one above the line does not compute it, if it does not


def targets_of(times: Times, rows: Iterable[Asked]) -> list[Target]:
    """A target for each mean and for each bound of every case, in the order of the rows."""
    found = []
    for row in rows:
        over = times.ratios(row.which, row.over, row.under)
        found += [mean_target(row.what, over, row.mean)] if row.mean is not None else []
        if row.each is not None:
            figures = [(key.short, ratio) for key, ratio in over.lowest()] if over else []
            one = each_target(row.what, figures, row.each)
            missing = row.no_peer and not figures
            found.append(Target(row.what, one.asked, row.no_peer, no_peer=True) if missing else one)
    return found


def mean_target(what: str, found: Ratios | None, bound: float) -> Target:
    """The geometric mean of the ratios is at least so much."""
    asked = f"mean >= {bound:.2f}"
    if found is None:
        return Target(what, asked)
    key, worst = found.lowest()[0]
    figure = f"{found.mean:.3f} over {len(found.by_case)}, worst {worst:.3f} at {key.short}"
    return Target(what, asked, figure, found.mean >= bound)


def each_target(
    what: str,
    figures: Sequence[tuple[str, float]],
    bound: float,
    asked: str = "{:.2f}",
    *,
    most: bool = False,
    words: str = "{:.3f}",
) -> Target:
    """Each of the named figures is at least the bound, or with `most` at most; not measured without any. Those that do
    not hold are shown in this order; where all do, the one nearest to the bound. `asked` is how the bound is written,
    `words` how a figure is."""
    asked = f"each {'<=' if most else '>='} {asked.format(bound)}"
    if not figures:
        return Target(what, asked)
    good = [figure <= bound if most else figure >= bound for _, figure in figures]
    missed = [item for item, holds in zip(figures, good, strict=True) if not holds]
    if missed:
        return Target(what, asked, ", ".join(f"{name} {words.format(figure)}" for name, figure in missed), False)
    place, extreme = (max if most else min)(figures, key=lambda item: item[1])
    return Target(what, asked, f"worst {words.format(extreme)} at {place}", True)


def limit_target(what: str, ours: float | None, peer: float | None, limit: float) -> Target:
    """Our microseconds over the peer's are at most so much."""
    asked = f"<= {limit:.2f}"
    if ours is None or peer is None:
        return Target(what, asked)
    return Target(what, asked, f"{ours / peer:.3f} ({ours:.1f} / {peer:.1f} us)", ours / peer <= limit)
