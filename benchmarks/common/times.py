"""What result files say: times by case and provider, and their ratios.

Plain data: neither torch nor a GPU is needed. A layout is named as in cases.py: NN is a @ b of row-major operands, NT
x @ weight.t(), a linear layer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any, TypeVar

from benchmarks.common.cases import Case
from benchmarks.common.result_file import read_csv

Which = Callable[[Case], bool]
By = dict[str, float]  # microseconds by provider
K = TypeVar("K")


def square(dtype: str, layout: str, size: int) -> Case:
    """The plain product of m = n = k."""
    return Case(dtype, layout, size, size, size)


def squares(dtypes: Collection[str], *layouts: str, epilogue: str = "none") -> Which:
    """Products of m = n = k."""
    return lambda key: key.dtype in dtypes and key.layout in layouts and key.is_square and key.epilogue == epilogue


def rectangles(dtype: str, layout: str) -> Which:
    """Plain products that are no squares; NT: linear layers."""
    return lambda key: (key.dtype, key.layout, key.epilogue, key.is_square) == (dtype, layout, "none", False)


def quotients(times: Mapping[K, By], over: str = "torch", under: str = "tileon") -> dict[K, float]:
    """A provider's time over another's, where both were measured."""
    return {key: by[over] / by[under] for key, by in times.items() if {over, under} <= by.keys()}


@dataclass(frozen=True)
class Ratios:
    """A provider's time over another's, for several cases; never empty."""

    by_case: dict[Case, float]

    @property
    def mean(self) -> float:
        return geometric_mean(self.by_case.values())

    def lowest(self, count: int | None = None) -> list[tuple[Case, float]]:
        return sorted(self.by_case.items(), key=lambda item: item[1])[:count]


@dataclass(frozen=True)
class Comparison:
    """A kind of product, and a peer's time over ours in each of its cases: a row of the overview and, of that name, of
    README's table, unless it is the overview's `alone`."""

    words: str  # what is multiplied, and in which layout
    peer: str  # as the result files name it: torch or triton
    ratios: tuple[tuple[Any, float], ...]  # by what was measured: a Case, but for what stands `alone`
    alone: bool

    @classmethod
    def of(
        cls, words: str, ratios: Iterable[tuple[Any, float]], peer: str = "torch", *, alone: bool = False
    ) -> list[Comparison]:
        """One comparison; none without a case."""
        found = tuple(ratios)
        return [cls(words, peer, found, alone)] if found else []

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(ratio for _, ratio in self.ratios)

    @property
    def cells(self) -> list[str]:
        """Of a table: how many cases, mean and worst."""
        key, worst = min(self.ratios, key=lambda item: item[1])
        place = f" ({key.dtype} {key.short})" if len(self.ratios) > 1 else ""
        return [str(len(self.ratios)), f"{geometric_mean(self.values):.2f}", f"{worst:.2f}{place}"]


class Times(dict[Case, By]):
    """Microseconds by case and provider."""

    def where(self, which: Which) -> Times:
        return Times((key, by) for key, by in self.items() if which(key))

    def ratios(self, which: Which | Collection[Case], over: str = "torch", under: str = "tileon") -> Ratios | None:
        """`over`'s time, mostly the peer's, divided by `under`'s, in the cases that have both; None where none has.
        Where the cases are given one by one, each of them must have both, or it is None."""
        found = quotients(self.where(which if callable(which) else which.__contains__), over, under)
        return Ratios(found) if found and (callable(which) or len(found) == len(which)) else None

    def lost(self, expected: Mapping[Case, By]) -> dict[Case, float]:
        """Of each case, the time of the provider that is expected to be fastest over the least time."""
        return {key: self[key][min(by, key=by.__getitem__)] / min(self[key].values()) for key, by in expected.items()}

    def compared(
        self, words: str, which: Which, peer: str = "torch", ours: str = "tileon", *, alone: bool = False
    ) -> list[Comparison]:
        """One comparison; none where no case has both."""
        name = peer.removesuffix("_graph").removesuffix("_fast")
        return Comparison.of(words, quotients(self.where(which), peer, ours).items(), name, alone=alone)

    def compared_squares(self, words: str, dtypes: Collection[str]) -> list[Comparison]:
        """With torch: NN and NT apart, for they differ, and every linear layer is NT."""
        kinds = {
            "NN": squares(dtypes, "NN"),
            "NT": squares(dtypes, "NT"),
            "TN and TT": squares(dtypes, "TN", "TT"),
            "NN, bias + leaky_relu": squares(dtypes, "NN", epilogue="bias+leaky_relu"),
        }
        return [one for kind, which in kinds.items() for one in self.compared(f"{words} squares, {kind}", which)]


def read_times(path: Path, data: str | None = None) -> tuple[dict[str, str], Times]:
    """The head of a file of products, and its times: of the kind of data that is wanted, where a file has several
    (cases.py). Files without that column hold the tutorial's."""
    head, rows = read_csv(path)
    return head, times_of(row for row in rows if data is None or row.get("data", "tutorial") == data)


def times_of(rows: Iterable[Mapping[str, str]]) -> Times:
    """The times in rows of such a file."""
    times = Times()
    for row in rows:
        m, n, k, batch = (int(row.get(name, 1)) for name in ("m", "n", "k", "batch"))
        key = Case(row["dtype"], row["layout"], m, n, k, row["epilogue"], batch)
        times.setdefault(key, {})[row["provider"]] = float(row["median_us"])
    return times


def by_provider(rows: Iterable[dict[str, str]], *columns: str) -> dict[tuple[str, ...], By]:
    """Microseconds by provider, by what stands in these columns."""
    times: dict[tuple[str, ...], By] = {}
    for row in rows:
        times.setdefault(tuple(row[column] for column in columns), {})[row["provider"]] = float(row["median_us"])
    return times


def read_row_times(path: Path, rows: Collection[str], unit: float = 1.0) -> Times:
    """Of a sweep's file: times of the plain products by row of the tile table, of these rows alone, in so many units a
    microsecond."""
    times = Times()
    for key, by in read_times(path)[1].items():
        mine = {name.removeprefix("tileon:"): unit * us for name, us in by.items()}
        found = {name: us for name, us in mine.items() if name in rows}
        if found and key.epilogue == "none":
            times[key] = found
    return times
