"""What a case of the soak test is drawn from: it follows from the seed, the process and the index alone."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

Choice = TypeVar("Choice")

# One to either side of the edges of vectors, warps and tiles.
_EDGES = tuple(tile + step for tile in (8, 16, 32, 64, 96, 128, 192, 256) for step in (-1, 0, 1))
_PRIMES = (11, 13, 17, 19, 23, 29, 37, 41, 53, 61, 71, 83, 97, 109, 127, 151, 173, 199, 211, 241)
_KINDS_OF_SIZE = {"none": 1, "one": 7, "few": 16, "prime": 22, "edge": 34, "any": 20}

# Products m n k of a call, and how often: most are small, so that a core makes some hundreds of calls a second.
_WORK = {2**18: 70, 2**21: 27, 2**24: 3}
_LONG_K = 0.06  # share of the products


class Draw:
    """Random choices and tensors. Only `random()` of Python's generator is used, which is the same in every version."""

    def __init__(self, seed: int, process: int, index: int) -> None:
        self._random = random.Random(f"{seed}:{process}:{index}").random
        self._generator = torch.Generator().manual_seed(int(self._random() * 2**53))

    # Choices.

    def chance(self, share: float) -> bool:
        return self._random() < share

    def below(self, count: int) -> int:
        return int(self._random() * count)

    def between(self, first: int, last: int) -> int:
        """Both included."""
        return first + self.below(last - first + 1)

    def pick(self, choices: Sequence[Choice]) -> Choice:
        return choices[self.below(len(choices))]

    def weighted(self, weights: Mapping[Choice, float]) -> Choice:
        rest = self._random() * sum(weights.values())
        for choice, weight in weights.items():
            rest -= weight
            if rest < 0:
                return choice
        return choice

    def shuffled(self, values: Sequence[Choice]) -> list[Choice]:
        left = list(values)
        return [left.pop(self.below(len(left))) for _ in values]

    # Sizes.

    def size(self, most: int = 257) -> int:
        """0, 1, a few, a prime, the edge of a tile or anything up to `most`."""
        kind = self.weighted(_KINDS_OF_SIZE)
        if kind == "none":
            return 0
        if kind == "one":
            return min(1, most)
        if kind == "few":
            return min(self.between(2, 9), most)
        if kind == "prime":
            return min(self.pick(_PRIMES), most)
        return min(self.pick(_EDGES), most) if kind == "edge" else self.between(0, most)

    def _inner(self, step: int) -> int:
        size = self.size()
        if self.chance(_LONG_K):
            size = self.between(300, 1200) if self.chance(0.7) else self.between(1200, 5000)
        return -(-size // step) * step

    def product_sizes(self, *, batch: int = 1, step: int = 1) -> tuple[int, int, int]:
        """m, n and k of a product; k is a multiple of `step`."""
        most = self.weighted(_WORK)
        m, n, k = self.size(), self.size(), self._inner(step)
        while batch * m * n * k > most and max(m, n) > 1:
            if m > n:
                m = self.size(m // 2)
            else:
                n = self.size(n // 2)
        return m, n, k

    # Tensors on the CPU, of one dimension.

    def normal(self, count: int) -> Tensor:
        return torch.randn(count, generator=self._generator, dtype=torch.float64)

    def integers(self, count: int, first: int, last: int) -> Tensor:
        """int64, both ends included."""
        return torch.randint(first, last + 1, (count,), generator=self._generator)

    def bytes(self, count: int, first: int = 0, last: int = 255) -> Tensor:
        return torch.randint(first, last + 1, (count,), generator=self._generator, dtype=torch.uint8)
