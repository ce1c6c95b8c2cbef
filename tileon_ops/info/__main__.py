"""`python -m tileon_ops.info [--json]`: the report, and exit code 0 where `import tileon_ops` works, else 1.

`--explain 4096x14336x4096 bfloat16 NT` instead: why a product takes the config that it takes.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys

from tileon_ops.info.doctor import examine_apart
from tileon_ops.info.explain import explain
from tileon_ops.info.sections import SECTIONS, document
from tileon_ops.info.text import printed


def main(arguments: list[str] | None = None) -> int:
    """Prints what is asked for; 0 where `import tileon_ops` works and the arguments are understood."""
    parser = argparse.ArgumentParser("python -m tileon_ops.info", description="What is here, and what is wrong.")
    parser.add_argument("--json", action="store_true", help="one JSON object; its keys are in the module's docstring")
    parser.add_argument(
        "--explain",
        nargs="+",
        metavar=("MxNxK", "DTYPE"),
        help="the config that a product takes, and for 16-bit products the configs that the choice weighs on Hopper, "
        "with the terms of its cost model: MxNxK [dtype] [layout], on the GPU that is here or an H200",
    )
    given = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):  # paths may hold what the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = explain(*given.explain) if given.explain else _report(given.json)
        sys.stdout.flush()
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for Python's own flush at exit
        return 1
    return status


def _report(as_json: bool) -> int:
    answers = examine_apart(SECTIONS)
    report = document(answers if as_json else printed(answers))
    if as_json:
        print(json.dumps(report, indent=2))
    return 0 if report["usable"] else 1


if __name__ == "__main__":
    sys.exit(main())
