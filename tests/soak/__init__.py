"""The soak test, `python tests/soak`: what is drawn, what must come of it, and who runs it.

What was tuned on this machine is left alone: the library's own choice is what is called.
"""

import os

os.environ["TILEON_TUNE"] = "0"  # read when tileon_ops is loaded
