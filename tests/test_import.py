"""What `import tileon_ops` brings: no part of torch's compiler, which takes a second and most programs never use, and
DTensor's rules, in whichever order torch.distributed.tensor and tileon_ops are imported."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import subprocess
import sys
import threading
from importlib.machinery import ModuleSpec

import pytest
import torch
from torch.distributed.tensor import DTensor
from torch.utils import flop_counter

from tileon_ops._loading.import_hook import after_import
from tileon_ops._rules import flops
from tileon_ops._rules.sharding import placements

COMPILERS = ("torch._dynamo", "torch._inductor", "torch.distributed.tensor", "sympy", "triton")

ROOT = pathlib.Path(__file__).resolve().parent.parent

TILEON_FIRST = """
import sys, torch
import tileon_ops
assert "torch.distributed.tensor" not in sys.modules, "it is slow to import"
finders = len(sys.meta_path)
from torch.distributed.tensor import DTensor
rules = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
assert torch.ops.tileon.matmul.default in rules
assert len(sys.meta_path) == finders - 1
"""

DTENSOR_FIRST = """
from torch.distributed.tensor import DTensor
import tileon_ops, torch
rules = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
assert torch.ops.tileon.matmul.default in rules
"""


def test_importing_brings_no_compiler() -> None:
    source = (
        "import sys, torch\n"
        f"before = [name for name in {COMPILERS!r} if name in sys.modules]\n"
        "import tileon_ops\n"
        f"print(*(name for name in {COMPILERS!r} if name in sys.modules and name not in before))\n"
    )
    result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == []


def test_names_that_are_imported_at_their_first_use_are_shown_before() -> None:
    program = "import tileon_ops; print(set(tileon_ops.__all__) - {*dir(tileon_ops)}, 'fuse' in vars(tileon_ops))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout == "set() False\n", done.stderr


@pytest.mark.parametrize("program", [TILEON_FIRST, DTENSOR_FIRST], ids=["tileon_ops first", "DTensor first"])
def test_either_order(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_here_too_every_rule_is_known() -> None:
    known = DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
    assert set(placements._RULES) <= set(known)


@pytest.fixture
def module(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module that can be imported and has not been."""
    (tmp_path / "tileon_late_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tileon_late_module", raising=False)
    return "tileon_late_module"


def test_an_action_waits_for_the_import_and_finds_the_whole_module(module: str) -> None:
    seen = []
    finders = list(sys.meta_path)
    after_import(module, lambda: seen.append(sys.modules[module].value))
    assert seen == []
    imported = importlib.import_module(module)
    assert seen == [1]
    assert sys.meta_path == finders
    assert type(imported.__loader__).__name__ == type(imported.__spec__.loader).__name__ == "SourceFileLoader"
    importlib.reload(imported)
    assert seen == [1]


def test_an_action_for_an_imported_module_does_not_wait(module: str) -> None:
    importlib.import_module(module)
    seen = []
    after_import(module, lambda: seen.append(1))
    assert seen == [1]


def test_a_module_that_there_is_not_stays_missing() -> None:
    finders = list(sys.meta_path)
    after_import("tileon_no_such_module", lambda: None)
    try:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("tileon_no_such_module")
    finally:
        sys.meta_path[:] = finders


def test_while_one_thread_asks_where_a_module_is_another_ones_import_brings_the_action(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    after_import(module, lambda: seen.append(1))
    watch, find_spec = sys.meta_path[0], importlib.util.find_spec
    asking, let_go = threading.Event(), threading.Event()

    def slow(name: str) -> ModuleSpec | None:
        if threading.current_thread() is asks:
            asking.set()
            assert let_go.wait(60)
        return find_spec(name)

    monkeypatch.setattr(importlib.util, "find_spec", slow)
    asks = threading.Thread(target=watch.find_spec, args=(module, None))
    asks.start()
    try:
        assert asking.wait(60)
        importlib.import_module(module)
        assert seen == [1]
    finally:
        let_go.set()
        asks.join()


def test_formulas_that_torch_refuses_cost_a_warning_not_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a second registration: torch's compiler imports the module, and would fail with it."""
    count = len(flop_counter.flop_registry)
    with pytest.warns(UserWarning, match=r"flop_counter .*RuntimeError: duplicate registrations") as caught:
        flops.register()
    assert len(caught) == 1
    assert len(flop_counter.flop_registry) == count
    monkeypatch.delattr(flop_counter, "register_flop_formula")
    with pytest.warns(UserWarning, match=rf"torch {torch.__version__.split('+')[0]}.*AttributeError: "):
        flops.register()


def test_a_torch_with_another_interface_for_rules_costs_a_warning_not_the_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tileon_ops._rules import sharding

    def fail() -> None:
        raise AttributeError("no such thing")

    monkeypatch.setattr(placements, "register", fail)
    with pytest.warns(UserWarning, match=rf"torch {torch.__version__.split('+')[0]}.*AttributeError: no such thing"):
        sharding.register()
