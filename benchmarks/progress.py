"""The progress bar of the package, for the scripts."""

from __future__ import annotations

from tree import tileon_ops  # noqa: F401  (this tree's)

from tileon_ops.tune.progress import Progress

__all__ = ["Progress"]
