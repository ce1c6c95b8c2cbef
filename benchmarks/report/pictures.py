"""Draws the pictures of the pages from the committed results: `python -m benchmarks.report.pictures`.

Each picture is made of whatever of its files is in the folder; one that shows what its files say, as its content key
(picture.py) tells, is left alone. --check draws nothing, fails where one is missing or stale, and needs no matplotlib.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.common.picture import Picture, draw
from benchmarks.common.result_file import RESULTS, portable_path
from benchmarks.report import comparisons
from benchmarks.subjects import block_scaled

# By the picture's name, the files that it can show, and the function that draws the files that exist.
MAKERS: dict[str, tuple[tuple[str, ...], Callable[[Path], Picture | None]]] = {
    "overview": (comparisons.SOURCES, comparisons.overview),
    "block_scaled": ((block_scaled.SOURCE,), block_scaled.figure),
}


def _all(results: Path) -> Iterator[tuple[Picture | None, Path, tuple[str, ...]]]:
    """Each picture of the folder's files, its PNG, and the names of the files that it can show."""
    return ((make(results), results / f"{name}.png", sources) for name, (sources, make) in MAKERS.items())


def check(results: Path) -> list[str]:
    """What is wrong with the folder's pictures, a line each."""
    complaints = []
    for picture, target, sources in _all(results):
        if picture is None and target.exists():
            complaints.append(f"{portable_path(target)} is there, but none of {', '.join(sources)}")
        elif picture is not None and not picture.is_shown_by(target):
            what = "does not show what its files say" if target.exists() else "is missing"
            complaints.append(f"{portable_path(target)} {what}")
    return complaints


def draw_all(results: Path, *, anew: bool = False) -> None:
    """Draws what is missing or stale, or with `anew` everything, and says what became of each picture."""
    for picture, target, sources in _all(results):
        missing = [source for source in sources if not (results / source).exists()]
        said = "nothing to draw" if picture is None else "up to date"
        if picture is not None and (anew or not picture.is_shown_by(target)):
            draw(picture, target)
            said = "drawn"
        print(f"{target.name}: {said}" + (f" (without {', '.join(missing)})" if missing else ""))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the result files and the pictures")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="only say whether the pictures are up to date")
    how.add_argument("--anew", action="store_true", help="draw those that are up to date too: the drawing has changed")
    arguments = parser.parse_args()
    results = arguments.results.resolve()
    if not results.is_dir():
        parser.error(f"there is no folder {arguments.results}")
    if arguments.check:
        complaints = check(results)
        print("".join(f"{complaint}: run `make pictures`\n" for complaint in complaints), end="")
        return 1 if complaints else 0
    try:
        draw_all(results, anew=arguments.anew)
    except ImportError:
        print("this Python has no matplotlib: pip install matplotlib")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
