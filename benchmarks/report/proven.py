"""What the suite and the sanitizers said on the GPU, in a sentence."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.common.markdown import link
from benchmarks.common.result_file import read_csv


def proven_part(results: Path) -> list[str]:
    """The counts and verdicts as they stand in tests.txt and sanitizer.txt; nothing while one of them is missing."""
    tests, sanitizers = results / "tests.txt", results / "sanitizer.txt"
    if not tests.exists() or not sanitizers.exists():
        return []
    head, _ = read_csv(tests)
    counts = re.findall(r"^=* ?(\d+ (?:passed|failed).*?) in [\d.]+s", tests.read_text(), re.MULTILINE)
    verdicts = re.findall(r"^(memcheck|racecheck|synccheck): (.+), \d+ s$", sanitizers.read_text(), re.MULTILINE)
    said = "; ".join(f"{tool} {verdict}" for tool, verdict in verdicts)
    sentence = (
        f"On the {head['gpu']} (driver {head['driver']}, torch {head['torch']}, commit `{head['commit'][:12]}`): "
        f"{counts[-1] if counts else 'no counts'} ([tests.txt]({link(tests)})); over the reduced set for "
        f"compute-sanitizer: {said} ([sanitizer.txt]({link(sanitizers)}))."
    )
    return [sentence]
