"""What a result of the soak test must be: intervals of numbers, or bits; and in words where it is not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from soak.intervals import Interval
from soak.small_floats import rounded_to_e4m3


class Wanted(ABC):
    """Shape and dtype of a result, and what its elements may be."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype: ...

    def complaint(self, actual: Tensor) -> str | None:
        """What is wrong with a result on the CPU, or None."""
        if actual.dtype != self.dtype or tuple(actual.shape) != self.shape:
            return f"is {tuple(actual.shape)} {actual.dtype}, expected {self.shape} {self.dtype}"
        good = self.good(actual)
        if bool(good.all()):
            return None
        places = (~good).nonzero()
        first, last = (tuple(places[end].tolist()) for end in (0, -1))
        words = f"{len(places)} of {good.numel()} elements are wrong, first at {first}: {self.at(actual, first)}"
        return words if first == last else f"{words}; last at {last}: {self.at(actual, last)}"

    @abstractmethod
    def good(self, actual: Tensor) -> Tensor:
        """Which elements are as wanted, or not specified."""

    @abstractmethod
    def at(self, actual: Tensor, place: tuple[int, ...]) -> str:
        """What stands there and what should."""

    def unspecified(self) -> Counter[str]:
        """Elements of which nothing is specified, by the name of the rule."""
        return Counter()


def _rounded(values: Tensor, dtype: torch.dtype) -> Tensor:
    """In float64: to the dtype by way of float32, as the ops round; e4m3 saturates."""
    if dtype == torch.float64:
        return values
    return rounded_to_e4m3(values) if dtype == torch.float8_e4m3fn else values.float().to(dtype).double()


@dataclass(frozen=True)
class Numbers(Wanted):
    """Elements between the interval's ends, each rounded; NaN where it is NaN. The sign of zero is free."""

    interval: Interval
    out_dtype: torch.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.interval.value.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.out_dtype

    def _ends(self) -> tuple[Tensor, Tensor]:
        value, error = self.interval.value, self.interval.error
        return _rounded(value - error, self.dtype), _rounded(value + error, self.dtype)

    def good(self, actual: Tensor) -> Tensor:
        got = actual.double()
        low, high = self._ends()
        within = torch.where(self.interval.value.isnan(), got.isnan(), (got >= low) & (got <= high))
        return within | self.interval.is_open()

    def at(self, actual: Tensor, place: tuple[int, ...]) -> str:
        low, high = (end[place].item() for end in self._ends())
        return f"got {actual[place].item()!r}, expected {self.interval.value[place].item()!r} in [{low!r}, {high!r}]"

    def unspecified(self) -> Counter[str]:
        return Counter({rule: int(mask.sum()) for rule, mask in self.interval.open.items()})


_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


@dataclass(frozen=True)
class Bits(Wanted):
    """The same bits as `expected`; where that is a float and NaN, any NaN. `rule`: none is specified, by that name."""

    expected: Tensor
    rule: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.expected.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.expected.dtype

    def good(self, actual: Tensor) -> Tensor:
        if self.rule is not None:
            return torch.ones(self.shape, dtype=torch.bool)
        words = _WORDS[self.dtype.itemsize]
        same = actual.view(words) == self.expected.view(words)
        if self.dtype.itemsize == 1:  # codes and scales, whose NaN has one code each
            return same
        return torch.where(self.expected.isnan(), actual.isnan(), same)

    def at(self, actual: Tensor, place: tuple[int, ...]) -> str:
        if self.dtype.itemsize == 1:
            got, wanted = (tensor.view(torch.uint8)[place].item() for tensor in (actual, self.expected))
            return f"got {got:#04x}, expected {wanted:#04x}"
        return f"got {actual[place].item()!r}, expected {self.expected[place].item()!r}"

    def unspecified(self) -> Counter[str]:
        return Counter({} if self.rule is None else {self.rule: self.expected.numel()})
