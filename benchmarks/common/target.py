"""Targets that results are to meet, and how one is made of figures. report/targets.py prints all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchmarks.common.times import Key, Ratios, Times, Which, ratios


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
    over: str
    under: str
    which: Which | Collection[Key]  # Keys: not measured unless all of them are
    mean: float | None = None
    each: float | None = None


def targets_of(times: Times, rows: Iterable[Asked]) -> list[Target]:
    """A target for each mean and for each bound of every case, in the order of the rows."""
    found = []
    for row in rows:
        over = ratios(times, row.over, row.under, row.which)
        found += [mean_target(row.what, over, row.mean)] if row.mean is not None else []
        if row.each is not None:
            found.append(each_target(row.what, f">= {row.each:.2f}", by_shape(over), least(row.each)))
    return found


def by_shape(found: Ratios | None) -> list[tuple[str, float]]:
    """The ratios for `each_target`, the lowest first."""
    return [(key.shape, ratio) for key, ratio in found.lowest(len(found.by_case))] if found else []


def least(bound: float) -> Callable[[float], bool]:
    return lambda figure: figure >= bound


def most(bound: float) -> Callable[[float], bool]:
    return lambda figure: figure <= bound


def mean_target(what: str, found: Ratios | None, bound: float) -> Target:
    """The geometric mean of the ratios is at least so much."""
    asked = f"mean >= {bound:.2f}"
    if found is None:
        return Target(what, asked)
    key, worst = found.worst
    figure = f"{found.mean:.3f} over {len(found.by_case)}, worst {worst:.3f} at {key.shape}"
    return Target(what, asked, figure, found.mean >= bound)


def each_target(
    what: str,
    asked: str,
    figures: Sequence[tuple[str, float]],
    holds: Callable[[float], bool],
    *,
    worst: Callable[[Sequence[float]], float] = min,
    words: str = "{:.3f}",
) -> Target:
    """Each figure holds; not measured without any.

    Args:
        what: the target is of.
        asked: of each figure.
        figures: by name. Those that do not hold are shown in this order.
        holds: whether a figure does.
        worst: min or max; shown where all hold.
        words: how a figure is written.
    """
    asked = f"each {asked}"
    if not figures:
        return Target(what, asked)
    missed = ", ".join(f"{name} {words.format(figure)}" for name, figure in figures if not holds(figure))
    extreme = worst([figure for _, figure in figures])
    place = next(name for name, figure in figures if figure == extreme) if not missed else ""
    return Target(what, asked, missed or f"worst {words.format(extreme)} at {place}", not missed)


def limit_target(what: str, ours: float | None, peer: float | None, limit: float) -> Target:
    """Our microseconds over the peer's are at most so much."""
    asked = f"<= {limit:.2f}"
    if ours is None or peer is None:
        return Target(what, asked)
    return Target(what, asked, f"{ours / peer:.3f} ({ours:.1f} / {peer:.1f} us)", ours / peer <= limit)
