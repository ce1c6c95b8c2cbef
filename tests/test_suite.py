"""Of the tests themselves: that each can fail, for it holds an assertion or calls a helper that does."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator, Mapping

import pytest

TESTS = pathlib.Path(__file__).resolve().parent
HOST_PROGRAMS = sorted((TESTS / "host").glob("*.cpp"))

# Functions of pytest, torch and numpy that fail a test themselves, by the last part of their names.
RAISING = re.compile(r"raises|warns|fail|opcheck|gradcheck|gradgradcheck|assert_(close|array_equal|allclose)")

# Of a host program: what counts a failure, and a status that is not the same whatever was counted.
COUNTS_FAILURES = re.compile(r"\bexpect\(|\bfailures \+= |\+\+failures\b")
STATUS = re.compile(r"\bint main\(\) \{.*\breturn ([^;]+);\s*\}\s*$", re.DOTALL)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Place = tuple[str, str]  # a module, and the name of a function in it: "name" or "Class.name"


class Module:
    """A file of the tests: its functions, those of its classes as "Class.name", and what it imports by which name."""

    def __init__(self, source: str) -> None:
        self.functions: dict[str, Function] = {}
        self.bases: dict[str, list[str]] = {}
        self.imports: dict[str, tuple[str, str]] = {}  # (module, name); the name is empty where it is the module itself
        tree = ast.parse(source)
        self._read(tree.body, "")
        for node in ast.walk(tree):  # inside of functions as well
            if isinstance(node, ast.Import):
                self.imports |= {alias.asname or alias.name: (alias.name, "") for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                self.imports |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}

    def _read(self, body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, Function):
                self.functions[prefix + node.name] = node
            elif isinstance(node, ast.ClassDef):
                self.bases[node.name] = [_dotted(base) for base in node.bases]
                self._read(node.body, f"{node.name}.")

    def tests(self) -> Iterator[str]:
        """The functions that pytest collects."""
        for name in self.functions:
            *classes, function = name.split(".")
            if function.startswith("test") and all(a_class.startswith("Test") for a_class in classes):
                yield name


def _dotted(node: ast.expr) -> str:
    """The names of `a.b.c`; empty where it does not begin with a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return before and f"{before}.{node.attr}"
    return ""


def _called(modules: Mapping[str, Module], place: Place, name: str) -> Place | None:
    """Module and name of the suite's function that `name` is where the function at `place` calls it."""
    module = modules[place[0]]
    first, _, rest = name.partition(".")
    if first == "self":
        return _method(modules, place[0], place[1].partition(".")[0], rest)
    if name in module.functions:
        return place[0], name
    origin, inner = module.imports.get(first, ("", ""))
    target = ".".join(part for part in (inner, rest) if part)
    return (origin, target) if origin in modules and target in modules[origin].functions else None


def _method(modules: Mapping[str, Module], origin: str, a_class: str, name: str) -> Place | None:
    """That of the class or of the first base in the suite that has it."""
    module = modules[origin]
    if f"{a_class}.{name}" in module.functions:
        return origin, f"{a_class}.{name}"
    for base in module.bases.get(a_class, []):
        where, imported = module.imports.get(base, (origin, base))
        found = _method(modules, where, imported, name) if where in modules else None
        if found is not None:
            return found
    return None


def _is_claim(node: ast.Assert, *, of_a_test: bool) -> bool:
    """Whether it says something. In a helper, that something is not None may be said for mypy alone."""
    test = node.test
    if isinstance(test, ast.Constant):
        return False
    return of_a_test or not (isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot))


def can_fail(modules: Mapping[str, Module], test: Place) -> bool:
    """Whether the test or a function of the suite that it calls, however far down, holds an assertion."""
    waiting, seen = [test], {test}
    while waiting:
        place = waiting.pop()
        for node in ast.walk(modules[place[0]].functions[place[1]]):
            if isinstance(node, ast.Assert) and _is_claim(node, of_a_test=place == test):
                return True
            if not isinstance(node, ast.Call):
                continue
            name = _dotted(node.func)
            if RAISING.fullmatch(name.rpartition(".")[2]):
                return True
            called = _called(modules, place, name)
            if called is not None and called not in seen:
                seen.add(called)
                waiting.append(called)
    return False


def without_claim(sources: Mapping[str, str]) -> list[str]:
    """The tests of the modules, given by name and source, that cannot fail."""
    modules = {name: Module(source) for name, source in sources.items()}
    return [
        f"{origin}.py::{name.replace('.', '::')}"
        for origin, module in modules.items()
        for name in module.tests()
        if not can_fail(modules, (origin, name))
    ]


def is_blind(program: str) -> bool:
    """Whether a host program ends with the same status whatever it finds."""
    status = STATUS.search(program)
    return COUNTS_FAILURES.search(program) is None or status is None or status[1].strip().isdigit()


def test_every_test_holds_an_assertion() -> None:
    sources = {path.stem: path.read_text() for path in sorted(TESTS.rglob("*.py"))}
    tests = [name for source in sources.values() for name in Module(source).tests()]
    assert len(tests) > 1000
    assert without_claim(sources) == []


def test_every_host_program_ends_with_what_it_found() -> None:
    assert [path.name for path in HOST_PROGRAMS if is_blind(path.read_text())] == []
    assert HOST_PROGRAMS


HELPERS = """
def checks(x):
    assert x == 1

def narrows(x):
    assert x is not None

class Base:
    def check(self):
        checks(self)
"""

BLIND_TESTS = {
    "does not raise": "def test_it(): run(3)",
    "asserts a constant": "def test_it(): assert True, run(3)",
    "calls a helper that narrows": "import helpers\ndef test_it(): helpers.narrows(run(3))",
    "calls a function of that name elsewhere": "from other import checks\ndef test_it(): checks(3)",
    "calls a method of another class": "class TestIt:\n    def check(self): pass\n    def test_it(self): self.check()",
    "calls itself": "def again(): again()\ndef test_it(): again()",
}

SEEING_TESTS = {
    "asserts": "def test_it():\n    for x in run(3):\n        assert x",
    "asserts that there is one": "def test_it(): assert run(3) is not None",
    "expects an exception": "import pytest\ndef test_it():\n    with pytest.raises(ValueError): run(3)",
    "compares by torch": "import torch\ndef test_it(): torch.testing.assert_close(run(3), 3)",
    "calls a helper": "from helpers import checks as says\ndef test_it(): says(3)",
    "calls a helper of a module": "import helpers\ndef test_it(): helpers.checks(3)",
    "calls a helper of a helper": "from helpers import checks\ndef middle(): checks(3)\ndef test_it(): middle()",
    "calls a method of its class": "class TestIt:\n    def says(self): assert self\n    def test_it(self): self.says()",
    "calls a method of a base": "from helpers import Base\nclass TestIt(Base):\n    def test_it(self): self.check()",
}


@pytest.mark.parametrize("source", BLIND_TESTS.values(), ids=BLIND_TESTS)
def test_a_test_that_cannot_fail_is_noticed(source: str) -> None:
    (found,) = without_claim({"helpers": HELPERS, "test_one": source})
    assert found.startswith("test_one.py::")
    assert found.endswith("test_it")


@pytest.mark.parametrize("source", SEEING_TESTS.values(), ids=SEEING_TESTS)
def test_a_test_that_can_fail_is_not_complained_of(source: str) -> None:
    assert without_claim({"helpers": HELPERS, "test_one": source}) == []


@pytest.mark.parametrize(
    ("program", "blind"),
    [
        ("int main() {\n  run();\n  return report(1);\n}\n", True),
        ("int main() {\n  failures += run();\n  return 0;\n}\n", True),
        ("int main() {\n  expect(run(), 1);\n}\n", True),
        ("int main() {\n  failures += run();\n  return failures != 0;\n}\n", False),
        ("int main() {\n  expect(run(), 1);\n  return report(1);\n}\n", False),
    ],
)
def test_a_host_program_that_cannot_fail_is_noticed(program: str, blind: bool) -> None:
    assert is_blind(program) == blind
