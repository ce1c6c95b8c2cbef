"""The pictures that the pages show, of those that are there. See result_tables.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.report.markdown import link

# What stands in a picture's place where it cannot be seen.
_WORDS = {
    "overview": "The peers' time over tileon's, for every kind of product",
    "roofline": "Rate over arithmetic intensity, under the roofs of memory and arithmetic",
    "matmul": "float16 and bfloat16 against torch and Triton, by size",
    "fp8": "fp8 against torch, by size and accumulation",
    "training": "Time of a layer in training, of an MLP on two GPUs, and of the host's part of a call",
    "block_scaled": "The block-scaled formats against their peers",
    "tune_regret": "What the choice of a kernel loses against the best row, and what tuning wins, over the cases",
}


def picture_part(*names: str) -> Callable[[Path], list[str]]:
    """A part that shows the first of these pictures that there is, and nothing where there is none."""

    def part(results: Path) -> list[str]:
        there = [name for name in names if (results / f"{name}.png").exists()]
        return [f"![{_WORDS[name]}]({link(results / f'{name}.png')})" for name in there[:1]]

    return part
