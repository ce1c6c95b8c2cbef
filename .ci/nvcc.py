"""Runs nvcc, and fails where ptxas notes that it made a tensor-core kernel slow.

    python .ci/nvcc.py nvcc -c kernel.cu -o kernel.o

ptxas says so in notices alone, with exit status 0 and whatever -Werror says: C7510 and its neighbours where it waits
after every single wgmma or adds waits of its own, C7508 where it ignores setmaxnreg. build_ext.py has it
run in place of nvcc.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

# ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...
NOTICE = re.compile(r"\(C75(?:08|1\d|20)\)")


def main(command: list[str]) -> int:
    """The exit status of `command`, or 1 where it succeeded with such a notice."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, errors="replace")
    assert process.stderr is not None
    notices = 0
    for line in process.stderr:
        sys.stderr.write(line)
        notices += bool(NOTICE.search(line))
    status = process.wait()
    if status != 0 or notices == 0:
        return status
    if "-o" in command:  # else ninja would take the file for a good one the next time
        Path(command[command.index("-o") + 1]).unlink(missing_ok=True)
    print(f"error: {notices} notices of serialized wgmma or ignored setmaxnreg (above): they must go", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
