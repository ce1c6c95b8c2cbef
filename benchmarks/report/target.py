"""A mark that results are to meet, and the marks that a set of ratios makes: see bars.py."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.common.times import Ratios


@dataclass(frozen=True)
class Bar:
    """One mark: what is asked, the figure, and whether it holds; None where nothing was measured.

    Where the peer does not compute the thing at all, `no_peer`, there is no mark to hold or to miss.
    """

    what: str
    asked: str
    figure: str
    holds: bool | None
    no_peer: bool = False

    @property
    def verdict(self) -> str:
        words = {True: "holds", False: "DOES NOT HOLD", None: "not measured"}
        return "no peer" if self.no_peer else words[self.holds]


def mean_bar(what: str, found: Ratios | None, least: float) -> Bar:
    asked = f"mean >= {least:.2f}"
    if found is None:
        return Bar(what, asked, "", None)
    key, worst = found.worst
    figure = f"{found.mean:.3f} over {len(found.by_case)}, worst {worst:.3f} at {key.shape}"
    return Bar(what, asked, figure, found.mean >= least)


def worst_bar(what: str, found: Ratios | None, least: float) -> Bar:
    asked = f"each >= {least:.2f}"
    if found is None:
        return Bar(what, asked, "", None)
    below = sorted((item for item in found.by_case.items() if item[1] < least), key=lambda item: item[1])
    shown = ", ".join(f"{key.shape} {ratio:.3f}" for key, ratio in below)
    return Bar(what, asked, shown or f"worst {found.worst[1]:.3f} at {found.worst[0].shape}", not below)
