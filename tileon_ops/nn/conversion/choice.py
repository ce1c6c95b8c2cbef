"""What the caller of `convert` wishes for each layer: `format`, `filter` and `skip`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn

from tileon_ops._rules.fake.checks import check
from tileon_ops.nn.conversion.contents import Layer
from tileon_ops.nn.layer_formats import check_layer_format

Format = str | None  # None: tileon_ops.Linear


@dataclass(frozen=True)
class Choice:
    """The arguments of `convert` that choose, checked.

    Attributes:
        format: by pattern of names; one pattern "*" where the caller named one format for all.
        filter: as `convert` has it.
        skip: patterns of names.
    """

    format: Mapping[str, Format]
    filter: Callable[[nn.Module, str], bool] | None
    skip: tuple[str, ...]

    def reason_to_leave(self, layer: Layer) -> str:
        """Why the caller leaves the layer; "" where it does not."""
        for pattern in self.skip:
            if _matches(pattern, layer):
                return f'`skip` leaves it: "{pattern}"'
        if self.filter is not None and not self.filter(layer.module, layer.names[0]):
            return "`filter` leaves it"
        if not any(_matches(pattern, layer) for pattern in self.format):
            return "no pattern of `format` matches its name"
        return ""

    def format_of(self, layer: Layer) -> Format:
        """That of the first pattern that matches; None, too, where none does."""
        return next((format for pattern, format in self.format.items() if _matches(pattern, layer)), None)


def checked_choice(
    caller: str,
    format: Format | Mapping[str, Format],
    filter: Callable[[nn.Module, str], bool] | None,
    skip: Iterable[str],
) -> Choice:
    """RuntimeError that names the caller, for a format that there is not and for arguments of other types."""
    formats = format if isinstance(format, Mapping) else {"*": format}
    for pattern, value in formats.items():
        check(isinstance(pattern, str), f"{caller}: a key of `format` must be a glob of names, got {pattern!r}")
        if value is not None:
            check_layer_format(caller, value)
    check(filter is None or callable(filter), f"{caller}: `filter` must be callable, got {type(filter).__name__}")
    rule = f"{caller}: `skip` must be a sequence of globs"
    check(not isinstance(skip, str), f'{rule}, got the string "{skip}": write ("{skip}",)')
    patterns = tuple(skip)
    for pattern in patterns:
        check(isinstance(pattern, str), f"{rule}, got one of type {type(pattern).__name__}")
    return Choice(formats, filter, patterns)


def _matches(pattern: str, layer: Layer) -> bool:
    return any(fnmatchcase(name, pattern) for name in layer.names)
