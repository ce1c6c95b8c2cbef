"""The layers of the Python package: which folder may import which, and that no two modules import each other."""

from __future__ import annotations

import ast
import pathlib
from graphlib import CycleError, TopologicalSorter

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "tileon_ops"
MOST_ENTRIES = 13  # at the top of the package, of those that git has

# From the bottom up. A folder may import itself and what stands in a line below its own.
LAYERS = (
    ("_version",),
    ("_loading",),
    ("_rules",),
    ("ops", "fx", "tune"),
    ("nn", "_verify", "info"),
    ("integrations",),
    ("tileon_ops", "__main__"),  # __init__.py: what a user imports
)
RANKS = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def modules() -> dict[str, pathlib.Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def folder(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def _called(node: ast.AST) -> str | None:
    """The module that importlib.import_module is given as a literal."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
        name = node.args[0]
        return str(name.value) if isinstance(name, ast.Constant) else None
    return None


def imports(source: str) -> set[str]:
    """The modules of the package that a source imports, at once or later, for programs or for type checkers."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the package"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found.add(whole if whole in MODULES else str(node.module))
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif (called := _called(node)) is not None:
            found.add(called)
    return found & MODULES.keys()


IMPORTS = {module: imports(path.read_text()) for module, path in MODULES.items()}


def complaints(module: str, imported: set[str]) -> list[str]:
    """Which of these imports the plan does not have."""
    here = folder(module)
    return [
        f"{module} imports {other}: {here} stands no higher than {folder(other)}"
        for other in sorted(imported)
        if folder(other) != here and RANKS[folder(other)] >= RANKS[here]
    ]


def test_every_module_is_in_a_layer() -> None:
    assert {folder(module) for module in MODULES} == RANKS.keys()


def test_imports_go_down_only() -> None:
    """But one: info imports the whole package in a section of its own, as any program would, to see whether it can."""
    found = [text for module, imported in IMPORTS.items() for text in complaints(module, imported)]
    assert found == ["tileon_ops.info.library imports tileon_ops: info stands no higher than tileon_ops"]


def test_names_of_the_package_that_are_imported_at_their_first_use_have_a_module() -> None:
    import tileon_ops

    assert {f"tileon_ops.{module}" for module in tileon_ops._LAZY.values()} <= MODULES.keys()


def test_no_module_imports_one_that_imports_it() -> None:
    graph = {module: imported - {"tileon_ops"} for module, imported in IMPORTS.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("tileon_ops._loading.library", "from tileon_ops._rules import errors"),
        ("tileon_ops._rules.autocast", "from tileon_ops.ops.dense import matmul"),
        ("tileon_ops._rules.out", "def register():\n    from tileon_ops.tune import tuned_configs"),
        ("tileon_ops.ops.dense", "import tileon_ops.nn.linear"),
        ("tileon_ops.ops.dense", "import tileon_ops.tune.cache"),
        ("tileon_ops.tune.tuning", "importlib.import_module('tileon_ops.info.doctor')"),
        ("tileon_ops.nn.linear", "from tileon_ops import matmul"),
        ("tileon_ops.nn.linear", "from tileon_ops.integrations import transformers"),
        ("tileon_ops.nn.conversion", "if TYPE_CHECKING:\n    from tileon_ops._verify.table import Case"),
    ],
)
def test_an_import_that_goes_up_is_noticed(module: str, source: str) -> None:
    assert complaints(module, imports(source))


def test_the_top_of_the_package_is_short() -> None:
    entries = [
        path.name for path in PACKAGE.iterdir() if path.name != "__pycache__" and not path.name.startswith("_C.")
    ]
    assert len(entries) <= MOST_ENTRIES, sorted(entries)
