"""One-line mistakes, each of which the suite must notice: `python tests/mutations.py [--only NAME ...]`.

Run by hand: it takes some minutes. It copies the tree into a temporary folder and runs there, for the CPU alone, the
tests that are named for the mistakes: first without any, when all must pass, then with each mistake in turn, until the
first test fails. C++ is built anew where a mistake is in what the library has on the CPU; the host tests compile what
they test themselves. Prints a line for each mistake; the exit status is 1 where one goes unnoticed.

What only a GPU shows is left out: the kernels and what is handed to them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from mutation import Mutation
from mutation_list import IN_LIBRARY, MUTATIONS

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 900  # for a build or a run of tests


def copy_checkout(target: Path) -> None:
    """What git knows of the tree and what it does not ignore, as it stands on the disk; no library."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target / name)


class Tree:
    """A copy in which mistakes are made."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = {
            name: value for name, value in os.environ.items() if name not in ("TILEON_LIBRARY", "PYTHONPATH")
        } | {
            "TILEON_CPU_ONLY": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "PYTHONDONTWRITEBYTECODE": "1",  # a file of the same size and second would be taken for the one before
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        }

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip

    def build(self) -> None:
        """The library of the sources as they are; ninja compiles what has changed."""
        built = self._run("setup.py", "build_ext", "--inplace")
        if built.returncode != 0:
            raise RuntimeError(f"the library cannot be built:\n{(built.stdout + built.stderr)[-4000:]}")

    def failing_test(self, tests: Iterable[str]) -> str | None:
        """The first that fails; None where all pass."""
        run = self._run("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests)
        if run.returncode == 0:
            return None
        found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", run.stdout, re.MULTILINE)
        if run.returncode not in (1, 2) or found is None:
            raise RuntimeError(f"the tests could not be run:\n{(run.stdout + run.stderr)[-4000:]}")
        return found[1]

    def caught_by(self, mutation: Mutation) -> str | None:
        """The test that notices the mistake, which is undone again."""
        path = self.root / mutation.file
        text = path.read_text()
        path.write_text(mutation.applied(text))
        try:
            if mutation in IN_LIBRARY:
                self.build()
            return self.failing_test(mutation.tests)
        finally:
            path.write_text(text)


def report(tree: Tree, mutations: Sequence[Mutation]) -> int:
    """Prints a line for each mistake; 1 where one goes unnoticed."""
    tests = dict.fromkeys(test for mutation in mutations for test in mutation.tests)
    failing = tree.failing_test(tests)
    if failing is not None:
        print(f"{failing} fails without any mistake")
        return 1
    print("| mistake | file | what becomes what | caught by | seconds |\n| --- | --- | --- | --- | --- |", flush=True)
    survivors = []
    for mutation in mutations:
        start = time.perf_counter()
        caught_by = tree.caught_by(mutation)
        if caught_by is None:
            survivors.append(mutation.name)
        seconds = time.perf_counter() - start
        what = f"`{mutation.old}` -> `{mutation.new}`"
        cells = (mutation.name, mutation.file, what, caught_by or "NOTHING", f"{seconds:.0f}")
        print("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |", flush=True)
    print(f"{len(mutations) - len(survivors)} of {len(mutations)} caught")
    return 1 if survivors else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [mutation.name for mutation in MUTATIONS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="these alone: " + "; ".join(names))
    arguments = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if arguments.only is None or mutation.name in arguments.only]
    with tempfile.TemporaryDirectory(prefix="tileon_mutations_") as folder:
        tree = Tree(Path(folder))
        copy_checkout(tree.root)
        tree.build()
        return report(tree, chosen)


if __name__ == "__main__":
    sys.exit(main())
