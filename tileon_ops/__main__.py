"""`python -m tileon_ops`: verify, with exit code 0 where every case passes and 1 where one does not."""

import sys

from tileon_ops._verify.table import verify

if __name__ == "__main__":
    sys.exit(0 if verify() else 1)
