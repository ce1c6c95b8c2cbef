"""Holds the results against the targets they are to meet: `python -m benchmarks.report.targets [--results FOLDER]`.

One line for each target: the figure, where it is worst, and whether it holds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.common.result_file import RESULTS, aligned, portable_path
from benchmarks.common.target import Target
from benchmarks.subjects import (
    batch_invariance,
    block_scaled,
    block_scaled_accuracy,
    float32,
    fp8,
    quantize,
    random_shapes,
    squares16,
    training,
    tuning,
)

_MAKERS = (
    *(squares16.targets, float32.targets, fp8.targets, block_scaled.targets, block_scaled.portable_targets),
    *(block_scaled_accuracy.targets, quantize.targets, training.targets, tuning.targets),
    *(random_shapes.targets, random_shapes.other_targets, batch_invariance.targets),
)


def all_targets(results: Path) -> list[Target]:
    """Every target, from the result files of a folder."""
    return [target for make in _MAKERS for target in make(results)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the result files")
    arguments = parser.parse_args()
    targets = all_targets(arguments.results.resolve())
    rows = [[target.what, target.asked, target.verdict, target.figure] for target in targets]
    print(aligned([["what", "asked", "", "figure"], *rows]))
    held, count = sum(target.holds is True for target in targets), sum(not target.no_peer for target in targets)
    print(f"\n{held} of {count} hold ({portable_path(arguments.results)})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
