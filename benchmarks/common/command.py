"""What the command lines of the measurements share: parsers of their arguments, and how a run ends."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from benchmarks.common.cases import Shape
from benchmarks.common.result_file import aligned, portable_path


def command_line(doc: str | None, *, device: bool = True) -> argparse.ArgumentParser:
    """A parser that shows the module's docstring, with --csv and, where the CPU will do, --device."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if device:
        parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--csv", type=Path, help="write the figures here")
    return parser


def finish(table: Sequence[Sequence[str]], words: str, csv: Path | None) -> None:
    """Prints the table, how it was measured, and the file that holds it."""
    print(f"{aligned(table)}\n\n{words}" if words else aligned(table))
    if csv:
        print(f"figures: {portable_path(csv)}")


def parse_names(text: str) -> list[str]:
    """Names with commas between them."""
    return text.split(",")


def names_among(known: Sequence[str]) -> Callable[[str], list[str]]:
    """What reads, for argparse, names with commas between them, and refuses one that is not known."""

    def parse(text: str) -> list[str]:
        names = parse_names(text)
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown {name!r}; there are {', '.join(known)}")
        return names

    return parse


def parse_shapes(text: str) -> list[Shape]:
    """`MxNxK`, several with commas."""
    shapes = []
    for part in text.split(","):
        numbers = part.split("x")
        if len(numbers) != 3:
            raise argparse.ArgumentTypeError(f"{part!r} is not MxNxK")
        shapes.append((int(numbers[0]), int(numbers[1]), int(numbers[2])))
    return shapes
