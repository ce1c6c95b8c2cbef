"""The command `python benchmarks/matmul.py`: see measure/matmul.py, or --help."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the top of the tree

from benchmarks.measure.matmul import main

if __name__ == "__main__":
    sys.exit(main())
