"""The list of mutations is of today's tree, and one that goes unnoticed is said. The run itself is by hand."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from mutation import Mutation
from mutation_list import IN_LIBRARY, IN_PYTHON, MUTATIONS
from mutations import ROOT, Tree, report
from mutations_in_host_code import IN_HOST_CODE

each_mutation = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)


@each_mutation
def test_the_text_of_a_mutation_is_there_once(mutation: Mutation) -> None:
    text = (ROOT / mutation.file).read_text()
    mutated = mutation.applied(text)
    assert mutated != text
    if mutation.file.endswith(".py"):
        ast.parse(mutated)


@each_mutation
def test_the_tests_of_a_mutation_are_there(mutation: Mutation) -> None:
    for test in mutation.tests:
        file, *names = test.split("::")
        text = (ROOT / file).read_text()
        program = names[0].partition("[")[2].rstrip("]") if "[" in test else None
        assert program is None or (ROOT / "tests" / "host" / f"{program}.cpp").is_file()
        assert all(f" {name.partition('[')[0]}" in text for name in names), test


def test_every_part_of_the_tree_has_mutations_and_no_two_have_one_name() -> None:
    assert min(len(IN_PYTHON), len(IN_HOST_CODE), len(IN_LIBRARY)) >= 12
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    assert all(mutation.file.startswith("tileon_ops/") for mutation in IN_PYTHON)
    assert all(mutation.file.startswith("csrc/") for mutation in (*IN_HOST_CODE, *IN_LIBRARY))
    assert not any(mutation.file.startswith("csrc/cuda/") for mutation in IN_LIBRARY), "not in the CPU's library"


@pytest.mark.parametrize("text", ["", "x + y; x + y"])
def test_a_text_that_is_not_there_once_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"sum: 'x \+ y' is \d times in sums.py"):
        Mutation("sum", "sums.py", "x + y", "x - y", ()).applied(text)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A function and its test, which knows one case alone."""
    (tmp_path / "sums.py").write_text("def sum_of(x, y):\n    return x + y\n")
    (tmp_path / "test_sums.py").write_text("import sums\n\ndef test_of_two():\n    assert sums.sum_of(2, 3) == 5\n")
    return Tree(tmp_path)


SIGN = Mutation("sign", "sums.py", "x + y", "x - y", ("test_sums.py",))
HARMLESS = Mutation("order", "sums.py", "x + y", "y + x", ("test_sums.py",))


def test_a_mutation_that_goes_unnoticed_is_said(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(tree, [SIGN, HARMLESS]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("| sign | sums.py | `x + y` -> `x - y` | test_sums.py::test_of_two |")
    assert lines[3].startswith("| order | sums.py | `x + y` -> `y + x` | NOTHING |")
    assert lines[4] == "1 of 2 caught"
    assert "x + y" in (tree.root / "sums.py").read_text(), "undone again"


def test_tests_that_fail_without_a_mutation_prove_nothing(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    (tree.root / "sums.py").write_text("def sum_of(x, y):\n    return x + y + 1\n")
    assert report(tree, [SIGN]) == 1
    assert capsys.readouterr().out == "test_sums.py::test_of_two fails without any mistake\n"


def test_tests_that_are_not_there_are_no_catch(tree: Tree) -> None:
    with pytest.raises(RuntimeError, match="the tests could not be run"):
        tree.failing_test(["test_products.py"])


def test_the_script_refuses_a_name_that_it_does_not_know() -> None:
    command = [sys.executable, str(ROOT / "tests" / "mutations.py"), "--only", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "invalid choice: 'nothing'" in done.stderr
