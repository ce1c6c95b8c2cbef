"""Products that nobody chose: drawn from a seed, for random_shapes.py.

A size is a whole number from 1 to the largest, log-uniform: each factor of two is as likely as another. Half of the
products are unaligned: some line of a, of b or of the result, as it lies in memory, is no multiple of 8 elements long.
In the others every line is; of sizes that may be either, half are multiples of 8. k of a block-scaled product is a
multiple of its block: n unaligns it. Groups, dtypes, layouts and epilogues come like cards from shuffled decks, so that
none is left out for long. A shape beyond the bounds is drawn again, which leaves fewer of the largest.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.common.cases import ACTIVATIONS, DTYPE_NAMES, FORMATS, LAYOUTS, Case
from benchmarks.subjects.random_shapes import ALIGNMENT, GROUPS, line_sizes

LEAST_LARGEST = 32  # the longest block: no k of mxfp8 is shorter
LARGEST_BATCH = 64
_TRIES = 1000  # shapes for one product, before the bounds are held to admit none
ALL_DTYPES = (*DTYPE_NAMES, *FORMATS)


@dataclass(frozen=True)
class Bounds:
    """What no product exceeds: each of its sizes, the bytes of operands and result, and its operations."""

    largest: int
    bytes: int
    flops: int

    def admit(self, case: Case) -> bool:
        return max(case.shape) <= self.largest and case.bytes <= self.bytes and case.flops <= self.flops


def chosen_groups(groups: Sequence[str], dtypes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Those groups with those of their dtypes alone; a group that has none of them is left out."""
    kept = {group: tuple(dtype for dtype in GROUPS[group] if dtype in dtypes) for group in groups}
    return {group: names for group, names in kept.items() if names}


def draw(seed: int, count: int, bounds: Bounds, groups: Mapping[str, Sequence[str]] = GROUPS) -> list[Case]:
    """`count` products of these groups and dtypes: the same for the same arguments, and the first ones of a longer
    draw.

    Raises:
        ValueError: a largest size below the longest block, or bounds that leave no room.
    """
    if bounds.largest < LEAST_LARGEST:
        raise ValueError(f"the largest size must be at least {LEAST_LARGEST}, got {bounds.largest}")
    products = _Draw(random.Random(seed), bounds, groups).products()
    return [next(products) for _ in range(count)]


class _Draw:
    """The decks of one draw."""

    def __init__(self, chance: random.Random, bounds: Bounds, groups: Mapping[str, Sequence[str]]) -> None:
        self._chance, self._bounds = chance, bounds
        self._groups = self._deck(list(groups))
        self._dtypes = {group: self._deck(dtypes) for group, dtypes in groups.items()}
        self._layouts = self._deck(LAYOUTS)
        self._epilogues = self._deck(("none", "bias", "bias+activation"))
        self._activations = self._deck([name for name in ACTIVATIONS if name != "none"])

    def _deck(self, cards: Sequence[str]) -> Iterator[str]:
        """The cards in a random order, then all of them in another, without end."""
        while True:
            yield from self._chance.sample(cards, len(cards))

    def products(self) -> Iterator[Case]:
        for group in self._groups:
            for aligned in self._chance.sample((True, False), 2):
                yield self._product(group, aligned)

    def _product(self, group: str, aligned: bool) -> Case:
        dtype = next(self._dtypes[group])
        layout = "NT" if dtype in FORMATS else next(self._layouts)
        epilogue = next(self._epilogues)
        if epilogue == "bias+activation":
            epilogue = f"bias+{next(self._activations)}"
        for _ in range(_TRIES):
            shape = self._shape(dtype, layout, aligned)
            batch = 1 + self._size(LARGEST_BATCH - 1) if group == "batch" else 1
            case = Case(dtype, layout, *shape, epilogue, batch)
            if self._bounds.admit(case):
                return case
        room = f"{self._bounds.bytes} bytes and {self._bounds.flops} operations"
        raise ValueError(f"none of {_TRIES} shapes of {dtype} has room in {room}")

    def _shape(self, dtype: str, layout: str, aligned: bool) -> tuple[int, int, int]:
        names = ("m", "n") if dtype in FORMATS else ("m", "n", "k")
        lines = line_sizes(layout)
        while True:
            odd = {name for name in names if self._chance.random() < 0.5}
            if aligned == odd.isdisjoint(lines):
                break
        block = FORMATS[dtype].vec if dtype in FORMATS else ALIGNMENT
        multiples = {"m": ALIGNMENT, "n": ALIGNMENT, "k": block}
        m, n, k = (
            self._odd_size() if name in odd else of * self._size(self._bounds.largest // of)
            for name, of in multiples.items()
        )
        return m, n, k

    def _size(self, largest: int) -> int:
        """From 1 to `largest`, each as likely as the logarithm from it to the next is long."""
        return min(largest, int(math.exp(self._chance.uniform(0, math.log(largest + 1)))))

    def _odd_size(self) -> int:
        """No multiple of ALIGNMENT."""
        while True:
            size = self._size(self._bounds.largest)
            if size % ALIGNMENT != 0:
                return size
