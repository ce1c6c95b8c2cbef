"""What is measured of tileon_ops, and against which peers.

The figures are those of the library's own choice: what was tuned on this machine is left alone.
"""

import os

os.environ["TILEON_TUNE"] = "0"  # read when tileon_ops is loaded
