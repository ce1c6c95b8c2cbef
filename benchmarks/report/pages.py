"""Writes the measured parts of README.md and docs/ from the committed results: `python -m benchmarks.report.pages`.

What stands in a page between `<!-- begin: NAME -->` and `<!-- end: NAME -->` is replaced; PAGES says which parts a page
has. Where a result file is missing, its part is left empty.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from pathlib import Path

from benchmarks.common.commit import ROOT
from benchmarks.common.markdown import link
from benchmarks.common.result_file import RESULTS, read_csv
from benchmarks.report.comparisons import headline_part
from benchmarks.subjects import (
    batch_invariance,
    block_scaled_accuracy,
    block_scaled_tables,
    float32,
    fp8,
    layers,
    models,
    portable,
    quantize,
    random_shapes,
    scaled_operands,
    squares16,
    training,
    tuning,
    unaligned,
)

Part = Callable[[Path], list[str]]  # lines of Markdown from the folder of the results; their links are from ROOT


def picture_part(name: str, words: str) -> Part:
    """A part that shows a picture, if it is there; the words stand in its place where it cannot be seen."""

    def part(results: Path) -> list[str]:
        target = results / f"{name}.png"
        return [f"![{words}]({link(target)})"] if target.exists() else []

    return part


def proven_part(results: Path) -> list[str]:
    """The counts and verdicts as they stand in tests.txt and sanitizer.txt; nothing while one of them is missing."""
    tests, sanitizers = results / "tests.txt", results / "sanitizer.txt"
    if not tests.exists() or not sanitizers.exists():
        return []
    head, sanitized = read_csv(tests)[0], read_csv(sanitizers)[0]
    counts = re.findall(r"^=* ?(\d+ (?:passed|failed).*?) in [\d.]+s", tests.read_text(), re.MULTILINE)
    verdicts = re.findall(r"^(memcheck|racecheck|synccheck): (.+), \d+ s$", sanitizers.read_text(), re.MULTILINE)
    said = "; ".join(f"{tool} {verdict}" for tool, verdict in verdicts)
    sentence = (
        f"On the {head['gpu']} (driver {head['driver']}, torch {head['torch']}, commit `{head['commit'][:12]}`): "
        f"{counts[-1] if counts else 'no counts'} ([tests.txt]({link(tests)})); at "
        f"`{sanitized['commit'][:12]}`, over the reduced set for compute-sanitizer: {said} "
        f"([sanitizer.txt]({link(sanitizers)}))."
    )
    return [sentence]


PAGES: dict[str, dict[str, Part]] = {
    "README.md": {
        "plot": picture_part("overview", "The peers' time over tileon's, for every kind of product"),
        "headline": headline_part,
        "block_scaled_headline": block_scaled_tables.headline_part,
    },
    "docs/block_scaled_on_hopper.md": {
        "few_rows": block_scaled_tables.few_rows_part,
        "prepared": block_scaled_tables.prepared_part,
        "mxfp4_forms": block_scaled_tables.forms_part,
    },
    "docs/dense_on_hopper.md": {"tile_loads": tuning.tile_loads_part},
    "docs/gpus.md": {"proven": proven_part},
    "docs/measured.md": {
        "matmul": squares16.part,
        "awkward_outputs": unaligned.part,
        "random_shapes": random_shapes.part,
        "fp8": fp8.part,
        "float32": float32.part,
        "portable": portable.part,
        "accuracy": float32.accuracy_part,
        "layer": training.layer_part,
        "training_models": training.models_part,
        "parallel": training.parallel_part,
        "host": training.host_part,
        "tune_regret": tuning.part,
        "batch_invariant": batch_invariance.part,
        "block_scaled_picture": picture_part("block_scaled", "The block-scaled formats against their peers"),
        "block_scaled": block_scaled_tables.part,
        "block_scaled_accuracy": block_scaled_accuracy.part,
        "block_scaled_portable": block_scaled_tables.portable_part,
        "scaled_operands": scaled_operands.part,
        "quantize": quantize.part,
        "layers": layers.part,
        "models": models.part,
    },
}

_MARK = re.compile(r"^<!-- begin: (\w+) -->\n.*?^<!-- end: \1 -->$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?=benchmarks/)")


def filled(page: str, results: Path, text: str | None = None) -> str:
    """The page's text, as it stands unless given, with every part replaced from this folder of result files.

    Raises:
        ValueError: where the page's marks are not those of its parts, each once.
    """
    text = (ROOT / page).read_text() if text is None else text
    parts = PAGES[page]
    found = _MARK.findall(text)
    if sorted(found) != sorted(parts):
        raise ValueError(
            f"{page} must hold `<!-- begin: NAME -->` and `<!-- end: NAME -->`, each on a line of its own, once for "
            f"each of {', '.join(parts)}; it has {', '.join(found) or 'none'}"
        )
    up = os.path.relpath(ROOT, (ROOT / page).parent)
    to_root = "](" if up == "." else f"]({up}/"

    def part(mark: re.Match[str]) -> str:
        name = mark[1]
        body = [_LINK.sub(to_root, line) for line in parts[name](results)]
        return "\n".join([f"<!-- begin: {name} -->", *body, f"<!-- end: {name} -->"])

    return _MARK.sub(part, text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the pages are up to date")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the result files")
    arguments = parser.parse_args()
    results = arguments.results.resolve()
    stale = {page: text for page in PAGES if (text := filled(page, results)) != (ROOT / page).read_text()}
    if stale and arguments.check:
        pages = " and ".join(stale)
        print(f"not what benchmarks/results says: {pages}. Run `python -m benchmarks.report.pages`")
        return 1
    for page, text in stale.items():
        (ROOT / page).write_text(text)
        print(f"{page}: the measured parts were written anew")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
