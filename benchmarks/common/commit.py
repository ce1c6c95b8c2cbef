"""Which commit is this? Printed, for the heads of result files: `python -m benchmarks.common.commit`.

The answer is, in this order: the environment variable TILEON_COMMIT; what git says of this tree, with `-dirty` behind
it where the sources differ from the commit; the file COMMIT at the top of the tree (`make COMMIT` writes it before a
tree is copied to a machine without git); else `unknown`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Measured results, and the pages that show them, are no input to a measurement: new ones do not make the tree dirty.
_NOT_AN_INPUT = (":!benchmarks/results", ":!README.md", ":!docs")


def _git(*arguments: str) -> str | None:
    """Output of one git command in this tree, or None where git or the repository is missing."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def commit() -> str:
    """The commit's full name, `<name>-dirty`, or `unknown`. Never raises."""
    told = os.environ.get("TILEON_COMMIT", "").strip()
    if told:
        return told
    # A copy of the tree may lie inside somebody else's repository: only a .git of our own counts.
    name = _git("rev-parse", "HEAD") if (ROOT / ".git").exists() else None
    if name:
        changed = _git("status", "--porcelain", "--", ".", *_NOT_AN_INPUT)
        return f"{name}-dirty" if changed else name
    try:
        return (ROOT / "COMMIT").read_text().strip() or "unknown"
    except OSError:
        return "unknown"


if __name__ == "__main__":
    print(commit())
