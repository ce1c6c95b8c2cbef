"""Writes the measured parts of README.md and of docs/ from the committed results: `python benchmarks/result_tables.py`.

What stands in a page between `<!-- begin: NAME -->` and `<!-- end: NAME -->` is replaced; PAGES says which parts a page
has. Where a result file is missing, its part is left empty. `--check` changes nothing and exits with 1 where a page is
not what the results say.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.common.commit import ROOT
from benchmarks.subjects.tables_awkward import awkward_outputs_part
from benchmarks.subjects.tables_block_scaled import (
    block_scaled_accuracy_part,
    block_scaled_portable_part,
    hopper_part,
    quantize_part,
)
from benchmarks.subjects.tables_block_scaled_rows import few_rows_part, forms_part, prepared_part
from benchmarks.subjects.tables_float32 import float32_part
from benchmarks.subjects.tables_fp8 import fp8_part
from benchmarks.subjects.tables_headline import block_scaled_headline_part, headline_part
from benchmarks.subjects.tables_loads import tile_loads_part
from benchmarks.subjects.tables_matmul import peers_part
from benchmarks.subjects.tables_pictures import picture_part
from benchmarks.subjects.tables_portable import accuracy_part, speed_part
from benchmarks.subjects.tables_proven import proven_part
from benchmarks.subjects.tables_training import host_part, layer_part, parallel_part
from benchmarks.subjects.tables_tune import tune_part

RESULTS = ROOT / "benchmarks" / "results" / "h200"

Part = Callable[[Path], list[str]]  # lines of Markdown from the folder of the results; their links are from ROOT

PAGES: dict[str, dict[str, Part]] = {
    "README.md": {
        "plot": picture_part("overview", "matmul"),
        "headline": headline_part,
        "block_scaled_headline": block_scaled_headline_part,
    },
    "docs/block_scaled_on_hopper.md": {
        "few_rows": few_rows_part,
        "prepared": prepared_part,
        "mxfp4_forms": forms_part,
    },
    "docs/dense_on_hopper.md": {"tile_loads": tile_loads_part},
    "docs/gpus.md": {"proven": proven_part},
    "docs/measured.md": {
        "roofline_picture": picture_part("roofline"),
        "matmul_picture": picture_part("matmul"),
        "matmul": peers_part,
        "awkward_outputs": awkward_outputs_part,
        "fp8_picture": picture_part("fp8"),
        "fp8": fp8_part,
        "float32": float32_part,
        "portable": speed_part,
        "accuracy": accuracy_part,
        "training_picture": picture_part("training"),
        "layer": layer_part,
        "parallel": parallel_part,
        "host": host_part,
        "tune_regret_picture": picture_part("tune_regret"),
        "tune_regret": tune_part,
        "block_scaled_picture": picture_part("block_scaled"),
        "block_scaled": hopper_part,
        "block_scaled_accuracy": block_scaled_accuracy_part,
        "block_scaled_portable": block_scaled_portable_part,
        "quantize": quantize_part,
    },
}

_MARK = re.compile(r"^<!-- begin: (\w+) -->\n.*?^<!-- end: \1 -->$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?=benchmarks/)")


def filled(page: str, results: Path, text: str | None = None) -> str:
    """The page's text with every part replaced.

    Args:
        page: one of PAGES.
        results: the folder of the result files.
        text: what to fill in; the page as it stands unless given.

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
        print(f"not what benchmarks/results says: {pages}. Run `python benchmarks/result_tables.py`")
        return 1
    for page, text in stale.items():
        (ROOT / page).write_text(text)
        print(f"{page}: the measured parts were written anew")
    return 0


if __name__ == "__main__":
    sys.exit(main())
