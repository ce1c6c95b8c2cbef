"""What result files say: times by case and provider, their ratios, and what a choice of row lost.

Plain data: neither torch nor a GPU is needed. A layout is named as in cases.py: NN is a @ b of row-major operands, NT
x @ weight.t(), a linear layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.common.result_file import read_csv


class Key(NamedTuple):
    """A case as it stands in the file."""

    dtype: str
    layout: str
    m: int
    n: int
    k: int
    epilogue: str

    def __str__(self) -> str:
        return f"{self.dtype} {self.layout} {self.m}x{self.n}x{self.k}"

    @property
    def is_square(self) -> bool:
        return self.m == self.n == self.k

    @property
    def shape(self) -> str:
        return str(self.m) if self.is_square else f"{self.m}x{self.n}x{self.k}"

    def tflops(self, microseconds: float) -> float:
        """Rate of the product alone: 2 m n k operations."""
        return 2e-6 * self.m * self.n * self.k / microseconds


def square(dtype: str, layout: str, size: int) -> Key:
    """The plain product of m = n = k."""
    return Key(dtype, layout, size, size, size, "none")


Times = dict[Key, dict[str, float]]  # microseconds by provider


def key_of(row: dict[str, str]) -> Key:
    return Key(row["dtype"], row["layout"], int(row["m"]), int(row["n"]), int(row["k"]), row["epilogue"])


def read_times(path: Path, data: str | None = None) -> tuple[dict[str, str], Times]:
    """The file's head, and its times.

    Args:
        path: a file of matmul.py, sweep.py or block_scaled_matmul.py.
        data: the kind of data that is wanted, of a file that has several (block_scaled_cases.py). Files without
            that column hold the tutorial's.
    """
    head, rows = read_csv(path)
    times: Times = {}
    for row in rows:
        if data is not None and row.get("data", "tutorial") != data:
            continue
        times.setdefault(key_of(row), {})[row["provider"]] = float(row["median_us"])
    return head, times


def by_provider(rows: Iterable[dict[str, str]], *columns: str) -> dict[tuple[str, ...], dict[str, float]]:
    """Microseconds by provider, by what stands in these columns."""
    times: dict[tuple[str, ...], dict[str, float]] = {}
    for row in rows:
        times.setdefault(tuple(row[column] for column in columns), {})[row["provider"]] = float(row["median_us"])
    return times


def read_row_times(path: Path, rows: Collection[str]) -> Times:
    """Of sweep.py's file: times of the plain products by row of the tile table, of these rows alone."""
    times: Times = {}
    for key, by_provider in read_times(path)[1].items():
        mine = {name.removeprefix("tileon:"): us for name, us in by_provider.items()}
        found = {name: us for name, us in mine.items() if name in rows}
        if found and key.epilogue == "none":
            times[key] = found
    return times


def geometric_mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs))


@dataclass(frozen=True)
class Ratios:
    """A provider's time over another's, for several cases; never empty."""

    by_case: dict[Key, float]

    @property
    def mean(self) -> float:
        return geometric_mean(self.by_case.values())

    def lowest(self, count: int) -> list[tuple[Key, float]]:
        return sorted(self.by_case.items(), key=lambda item: item[1])[:count]

    @property
    def worst(self) -> tuple[Key, float]:
        return self.lowest(1)[0]


def ratios(times: Times, over: str, under: str, among: Callable[[Key], bool]) -> Ratios | None:
    """`over`'s time divided by `under`'s in the cases that have both; None where none has."""
    found = {key: by[over] / by[under] for key, by in times.items() if among(key) and {over, under} <= by.keys()}
    return Ratios(found) if found else None


def ratios_of_all(times: Times, over: str, under: str, keys: Collection[Key]) -> Ratios | None:
    """`over`'s time divided by `under`'s; None unless every one of these cases has both."""
    found = ratios(times, over, under, lambda key: key in keys)
    return found if found is not None and len(found.by_case) == len(keys) else None


def plain(dtype: str, layout: str, *, squares: bool = True) -> Callable[[Key], bool]:
    """Whether a case is a plain product of this dtype and layout, square or not."""
    return lambda key: (key.dtype, key.layout, key.epilogue, key.is_square) == (dtype, layout, "none", squares)


def linear(times: Times, dtype: str = "bfloat16") -> Ratios | None:
    """torch's time over ours for the linear layers: the rectangles NT of the file."""
    return ratios(times, "torch", "tileon", plain(dtype, "NT", squares=False))


@dataclass(frozen=True)
class Comparison:
    """A kind of product, and a peer's time over ours in each of its cases: a row of README's table, and the row of that
    name in the overview."""

    words: str  # what is multiplied, and in which layout
    peer: str  # as the result files name it: torch or triton
    found: Ratios


def compared(times: Times, *rows: tuple[str, str, str, Callable[[Key], bool]]) -> list[Comparison]:
    """A comparison for each row of words, peer, our provider and which cases, but where no case has both."""
    found = [(words, peer, ratios(times, peer, ours, among)) for words, peer, ours, among in rows]
    return [Comparison(words, peer, by_case) for words, peer, by_case in found if by_case is not None]


def among_squares(dtypes: Collection[str], *layouts: str, epilogue: str = "none") -> Callable[[Key], bool]:
    return lambda key: key.dtype in dtypes and key.layout in layouts and key.is_square and key.epilogue == epilogue


def squares_over_torch(words: str, dtypes: Collection[str]) -> list[tuple[str, str, str, Callable[[Key], bool]]]:
    """Rows for `compared`: NN and NT apart, for they differ, and every linear layer is NT."""
    over_torch = {
        "NN": among_squares(dtypes, "NN"),
        "NT": among_squares(dtypes, "NT"),
        "TN and TT": among_squares(dtypes, "TN", "TT"),
        "NN, bias + leaky_relu": among_squares(dtypes, "NN", epilogue="bias+leaky_relu"),
    }
    return [(f"{words} squares, {layout}", "torch", "tileon", among) for layout, among in over_torch.items()]


@dataclass(frozen=True)
class Loss:
    """The chosen row's time over the best row's."""

    key: Key
    chosen: str
    best: str
    ratio: float


def losses(path: Path) -> list[Loss]:
    """What the op's choice of a row lost in each case of sweep.py's file.

    Both times are the rows' own, from the same interleaved run. A case whose operands were copied first is left out: no
    row ran on them as they were. A file that does not say which kernel ran tells nothing.
    """
    _, rows = read_csv(path)
    if not rows or "kernel" not in rows[0]:
        return []
    by_row: Times = {}
    chosen: dict[Key, str] = {}
    for row in rows:
        if row["provider"] == "tileon":
            chosen[key_of(row)] = row["kernel"]
        else:
            by_row.setdefault(key_of(row), {})[row["kernel"]] = float(row["median_us"])
    found = []
    for key, name in chosen.items():
        times = by_row.get(key, {})
        if name in times:
            best = min(times, key=lambda row: times[row])
            found.append(Loss(key, name, best, times[name] / times[best]))
    return found
