"""What `convert` did: an entry for each layer, the whole as a table, and where reports are kept."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from torch import nn

_TITLES = ("layer", "became", "bytes before", "after", "left because")
_NUMBERS = (2, 3)  # columns, aligned to the right

# By model; a report goes when its model goes.
_reports: weakref.WeakKeyDictionary[nn.Module, ConversionReport] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Conversion:
    """What `convert` made of one linear layer, or of a parameter of two dims or more that no linear layer holds.

    Attributes:
        name: where it stands in the model, "" for the model itself.
        also: its other places, where it is shared.
        became: "Linear", or "BlockScaledLinear" and the format; None where it stays as it was.
        reason: why it stays.
        bytes_before: of its parameters and buffers. What several entries hold is counted in one of them.
        bytes_after: the same of what it became.
    """

    name: str
    also: tuple[str, ...]
    became: str | None
    reason: str
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, repr=False)
class ConversionReport(Sequence[Conversion]):
    """What `convert` did to a model: a sequence of `Conversion`, in the model's order. `print` shows it as a table.

    The entries' bytes and those of everything else, such as norms and buffers, add up to the model's.

    Attributes:
        entries: one for each linear layer and for each other parameter of two dims or more.
        bytes_before: of all parameters and buffers of the model.
        bytes_after: the same afterwards.
    """

    entries: tuple[Conversion, ...]
    bytes_before: int
    bytes_after: int

    @overload
    def __getitem__(self, index: int) -> Conversion: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Conversion, ...]: ...
    def __getitem__(self, index: int | slice) -> Conversion | tuple[Conversion, ...]:
        return self.entries[index]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Conversion]:
        return iter(self.entries)

    def __repr__(self) -> str:
        replaced = sum(entry.became is not None for entry in self)
        of_bytes = f"{self.bytes_before:,} -> {self.bytes_after:,} bytes"
        return f"<ConversionReport: {replaced} of {len(self)} replaced, {of_bytes}>"

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [_TITLES]
        for entry in self:
            rows.append(_row(places(entry), entry.became or "-", entry.bytes_before, entry.bytes_after, entry.reason))
        rest_before = self.bytes_before - sum(entry.bytes_before for entry in self)
        rest_after = self.bytes_after - sum(entry.bytes_after for entry in self)
        rows.append(_row("everything else", "", rest_before, rest_after, ""))
        rows.append(_row("the whole model", "", self.bytes_before, self.bytes_after, ""))
        return _table(rows)


def conversion_report(model: nn.Module) -> ConversionReport:
    """What the last `convert` of this model did, in the model's order.

    Args:
        model: what `convert` returned. The report is kept as long as this module lives, and goes neither into copies
            nor into files of it.

    Returns:
        A sequence of `Conversion`, one for each linear layer and for each other parameter of two dims or more, such as
        embeddings and the stacked experts of a mixture. Its str is a table with the totals of the whole model.

    Raises:
        RuntimeError: "conversion_report: ..." for a module that `convert` has not returned.
    """
    report = _reports.get(model)
    if report is None:
        raise RuntimeError(
            "conversion_report: `model` must be what tileon_ops.convert returned, got another "
            f"{type(model).__name__}; copies have no report"
        )
    return report


def places(entry: Conversion) -> str:
    """The names of an entry, for people."""
    return ", ".join(name or "the model itself" for name in (entry.name, *entry.also))


def keep_report(model: nn.Module, report: ConversionReport) -> None:
    _reports[model] = report


def _row(name: str, became: str, before: int, after: int, reason: str) -> tuple[str, ...]:
    return name, became, f"{before:,}", f"{after:,}", reason


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in _NUMBERS else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
