"""Makes `import tileon_ops` mean this tree's package, whether or not it is installed, and loads it.

The figures are those of the library's own choice: what was tuned on this machine is left alone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
os.environ["TILEON_TUNE"] = "0"  # read when the package is loaded

import tileon_ops as tileon_ops  # noqa: E402  (after the path is set; loading it registers torch.ops.tileon)
