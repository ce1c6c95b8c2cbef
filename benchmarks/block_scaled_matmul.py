"""The command `python benchmarks/block_scaled_matmul.py`: see measure/block_scaled_matmul.py, or --help."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the top of the tree

from benchmarks.measure.block_scaled_matmul import main

if __name__ == "__main__":
    sys.exit(main())
