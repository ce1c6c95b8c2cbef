"""compute-sanitizer makes a test some twenty times as slow: the set that it goes through stays small. Seen without a
GPU, so that a row too many is found before the set is next run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
MOST = 420  # a run of racecheck over so many takes two minutes


def test_the_set_is_small() -> None:
    files = [path for path in sorted(TESTS.glob("test_*.py")) if "mark.sanitizer" in path.read_text()]
    files.remove(Path(__file__))
    assert files
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", "sanitizer"]
    listing = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, cwd=TESTS.parent)
    selected = re.search(r"(\d+)(?:/\d+)? tests? collected", listing.stdout)
    assert selected is not None, listing.stdout[-2000:] + listing.stderr[-2000:]
    assert 0 < int(selected[1]) <= MOST
