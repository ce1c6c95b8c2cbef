"""What the measurements share: parsers of their arguments, how cases are gone through, and how a run ends."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import torch

from benchmarks.common.cases import Shape
from benchmarks.common.result_file import CsvWriter, aligned, portable_path
from tileon_ops.tune.progress import Progress

T = TypeVar("T")


def command_line(
    doc: str | None, *, device: bool = True, seconds: float | None = None, warmup: float | None = None
) -> argparse.ArgumentParser:
    """A parser that shows the module's docstring, with --csv; with --device where the CPU will do too; and with
    --seconds, the timed part of a case, and --warmup-seconds where they have a default."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if device:
        parser.add_argument("--device", type=parse_device, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--csv", type=Path, help="write the figures here")
    if seconds is not None:
        words = "timed part of one case, all providers, about (default %(default)s)"
        parser.add_argument("--seconds", type=float, default=seconds, help=words)
    if warmup is not None:
        words = "cap on warming for one case (default %(default)s)"
        parser.add_argument("--warmup-seconds", type=float, default=warmup, help=words)
    return parser


def some_of(
    parser: argparse.ArgumentParser, option: str, known: Iterable[str], words: str = "all", default: str | None = "all"
) -> None:
    """Adds an option that takes some of the known names, with commas between them, or all of them. `words` say what is
    taken by default; None where the command decides."""
    names = tuple(known)

    def parse(text: str) -> list[str]:
        given = [*names] if text == "all" else text.split(",")
        for name in given:
            if name not in names:
                raise argparse.ArgumentTypeError(f"unknown {name!r}; there are {', '.join(names)}")
        return given

    text = f"some of {','.join(names)}, or all (default {words})"
    parser.add_argument(option, type=parse, default=default, help=text)


def for_each(items: Sequence[T], name: Callable[[T], str], work: Callable[[T], list[str]]) -> int:
    """Works on every item, shows how far it is, prints the lines that come of it, and goes on where one fails; returns
    how many failed."""
    progress, failed = Progress(len(items)), 0
    for done, item in enumerate(items):
        progress.show(done, name(item))
        try:
            lines = work(item)
        except RuntimeError as error:  # the others are still worth measuring
            failed += 1
            lines = [f"{name(item)} failed: {error}"]
        progress.clear()
        print(*lines, sep="\n", flush=True)
    progress.show(len(items), "done")
    progress.clear()
    if failed:
        print(f"{failed} of {len(items)} cases failed")
    return failed


def finish(words: str, csv: Path | None) -> None:
    """Prints how it was measured, and the file that holds it."""
    if words:
        print(f"\n{words}")
    if csv:
        print(f"figures: {portable_path(csv)}")


def tabulate(
    csv: Path | None, columns: Sequence[str], rows: Iterable[Iterable[object]], words: str = "", **head: str
) -> int:
    """Writes rows to the file, if there is one, as they come, then prints them as a table, and how they were measured;
    returns the exit status. `head` is of the file."""
    writer = CsvWriter(csv, columns, head)
    for row in rows:
        writer.write(row)
    print(aligned(writer.written))
    finish(words, csv)
    return 0


def gpu_arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The command line's, which is refused where there is no GPU."""
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("this needs a GPU")
    return arguments


def parse_device(name: str) -> torch.device:
    """A CPU or a GPU, as tensors on it have it."""
    try:
        device = torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise argparse.ArgumentTypeError(f"{name}: {str(error).splitlines()[0]}") from error
    if device.type not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"{name}: the ops run on cpu and cuda")
    return device


def parse_sizes(text: str, form: str) -> list[tuple[int, ...]]:
    """Sizes like `MxNxK`, several with commas; `form` says how many numbers there are."""
    sizes = []
    for part in text.split(","):
        numbers = part.split("x")
        if len(numbers) != len(form.split("x")) or not all(number.isdigit() for number in numbers):
            raise argparse.ArgumentTypeError(f"{part!r} is not {form}")
        sizes.append(tuple(map(int, numbers)))
    return sizes


def parse_shapes(text: str) -> list[Shape]:
    """`MxNxK`, several with commas."""
    return [(size[0], size[1], size[2]) for size in parse_sizes(text, "MxNxK")]
