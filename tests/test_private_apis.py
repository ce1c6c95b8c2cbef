"""Private names of torch: each is looked up in one module, and public interfaces do the same where a torch lacks one.

The names serve in groups, and a group with a name missing is not used at all. So every name is taken away by itself
from the module that looks it up, which must then be in one of a few states; and in each of these states a process calls
everything that the names serve (private_api_results.py).
"""

from __future__ import annotations

import ast
import importlib.util
import pathlib
import pkgutil
import re
import subprocess
import sys
import warnings
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import tileon_ops
from tileon_ops._rules import torch_private

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tileon_ops"
MODULE = PACKAGE / "_rules" / "torch_private.py"

GROUPS = ("below", "autograd", "shortcut", "out", "autocast")

# Which groups are not used, and the names that are taken away to get there: all that leave no other group unused.
STATES = {
    "nothing": frozenset[str](),
    "shortcut": frozenset({"shortcut"}),
    "autograd": frozenset({"autograd", "shortcut"}),
    "out": frozenset({"out"}),
    "below": frozenset({"below", "autograd", "shortcut", "out"}),
    "autocast": frozenset({"autocast"}),
}


def loaded_without(*names: str) -> ModuleType:
    """The module once more, as it is where torch lacks the names."""
    resolve = pkgutil.resolve_name

    def resolve_others(name: str) -> Any:
        if name in names:
            raise AttributeError(name)
        return resolve(name)

    spec = importlib.util.spec_from_file_location("tileon_private_again", MODULE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pkgutil, "resolve_name", resolve_others)
        spec.loader.exec_module(module)
    return module


def names_looked_up() -> list[str]:
    """At the import of the module."""
    asked: list[str] = []
    resolve = pkgutil.resolve_name

    def note(name: str) -> Any:
        asked.append(name)
        return resolve(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pkgutil, "resolve_name", note)
        loaded_without()
    return asked


NAMES = names_looked_up()


def unused(module: ModuleType) -> frozenset[str]:
    return frozenset(group for group in GROUPS if not getattr(module, group).is_whole)


def names_of(state: str) -> list[str]:
    """All names without which the module is in that state; of the state "everything", all."""
    if state == "everything":
        return NAMES
    return [name for name in NAMES if unused(loaded_without(name)) == STATES[state]]


def warnings_of(module: ModuleType) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module.warn_of_missing()
    return [str(warning.message) for warning in caught]


class TestLookUp:
    def test_this_torch_has_them_all(self) -> None:
        assert len(NAMES) == len(set(NAMES)) > 20
        assert not unused(torch_private)
        assert warnings_of(torch_private) == []

    @pytest.mark.parametrize("name", NAMES)
    def test_a_missing_name_is_told_once_and_its_groups_are_not_used(self, name: str) -> None:
        module = loaded_without(name)
        assert unused(module) in STATES.values()
        (warning,) = warnings_of(module)
        assert f"torch {torch.__version__} has no {name.replace(':', '.')}." in warning

    def test_a_missing_function_of_an_activation_is_told(self) -> None:
        """`fuse` then does not know it in graphs of torch.compile."""

        def no_such_name(name: str) -> Any:
            raise AttributeError(name)

        module = loaded_without()
        assert module.function_behind("silu") is not None
        assert warnings_of(module) == []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pkgutil, "resolve_name", no_such_name)
            assert module.function_behind("silu") is None
        (warning,) = warnings_of(module)
        assert "has no torch._C._nn.silu." in warning

    def test_every_state_is_that_of_some_name(self) -> None:
        assert {unused(loaded_without(name)) for name in NAMES} == set(STATES.values())


def results_of(state: str, folder: pathlib.Path) -> dict[str, Any]:
    """What a process in that state gives; "" is that of this torch."""
    path = folder / f"{state or 'private'}.pt"
    names = names_of(state) if state else []
    command = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "private_api_results.py"), str(path), *names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = torch.load(path)
    return results


@pytest.fixture(scope="module")
def with_all_names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return results_of("", tmp_path_factory.mktemp("private"))


def flat(result: Any) -> list[Any]:
    return [leaf for part in result for leaf in flat(part)] if isinstance(result, (tuple, list)) else [result]


# What torch's own ops compute there, whose sums have another order; all else is the same bits.
BY_TORCH = re.compile(
    r"twice| grad$| jvp$| hessian$|of grad$|of vmap$|dual numbers$|tangent of|^compiled"
    r"| gradient"  # recorded products, those of a recorded backward pass among them (autograd/of_torch.py)
)
ROUNDED = 2.0**-6  # of the same in bfloat16, which rounds those sums, and gradients between ops: two of its steps


def assert_same(key: str, result: Any, expected: Any) -> None:
    for got, wanted in zip(flat(result), flat(expected), strict=True):
        if not isinstance(wanted, Tensor):
            assert got == wanted, key
            continue
        bound = 1e-5 if "allow_tf32" in key else 0.0 if BY_TORCH.search(key) is None else 1e-11  # of float32
        if "rounded" in key:
            assert (got - wanted).abs().max() <= ROUNDED * wanted.abs().max(), key
        else:
            torch.testing.assert_close(got, wanted, rtol=bound, atol=bound, msg=key)
        assert got.stride() == wanted.stride(), key


@pytest.mark.parametrize("state", [*(state for state in STATES if state != "nothing"), "everything"])
def test_the_public_interfaces_give_the_same(
    state: str, with_all_names: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    """Products, gradients of both orders, torch.func, `out`, block-scaled products, autocast, compiled functions; and
    one warning."""
    results = results_of(state, tmp_path)
    (warning,) = results.pop("warnings")
    assert all(name.replace(":", ".") in warning for name in names_of(state))
    assert with_all_names["warnings"] == []
    assert results.keys() == with_all_names.keys() - {"warnings"}
    for key, result in results.items():
        assert_same(key, result, with_all_names[key])


class TestWhatStandsAlone:
    def test_rules_of_sizes_hold_without_torchs_check(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tileon_ops._rules.fake.checks, "torch_check", None)
        with pytest.raises(RuntimeError, match=r"^matmul: `b` must have as many rows"):
            torch.ops.tileon.matmul(torch.empty(2, 3, device="meta"), torch.empty(4, 5, device="meta"))
        assert torch.ops.tileon.matmul(*(torch.empty(3, 3, device="meta") for _ in "ab")).shape == (3, 3)

    def test_an_op_without_a_schema_may_write(self) -> None:
        assert not torch_private.is_mutable(torch.ops.aten.add.Tensor)
        assert torch_private.is_mutable(torch.ops.aten.add_.Tensor)
        assert torch_private.is_mutable(object())

    def test_dtensor_is_told_no_rule_whose_decisions_it_would_remember_wrongly(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import torch.distributed.tensor  # noqa: F401 - which asks for the rules

        from tileon_ops._rules import sharding
        from tileon_ops._rules.sharding import placements

        def no_such_name(name: str) -> Any:
            raise AttributeError(name)

        told: list[Any] = []
        monkeypatch.setattr(placements, "register_sharding", told.append)
        monkeypatch.setattr(pkgutil, "resolve_name", no_such_name)
        with pytest.warns(UserWarning, match="could not tell DTensor how its ops shard"):
            sharding._register_rules()
        assert told == []


def run_without(name: str, script: str) -> None:
    """In a process whose torch has nothing under names that begin so."""
    before = f"""
import pkgutil
resolve = pkgutil.resolve_name
def resolve_others(name):
    if name.startswith({name!r}):
        raise AttributeError(name)
    return resolve(name)
pkgutil.resolve_name = resolve_others
"""
    command = [sys.executable, "-W", "ignore", "-c", before + script]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


FUSE = """
import torch, tileon_ops
program = torch.export.export(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), (torch.ones(2, 4),))
calls = [node.target for node in tileon_ops.fuse(program).graph.nodes if node.op == "call_function"]
assert torch.ops.tileon.matmul.default in calls, calls
assert isinstance(tileon_ops.fuse.uuid(), bytes)
"""

COMPILE = """
import torch, tileon_ops
from torch._inductor.utils import run_and_get_code
a = torch.ones(4, 4)
product = torch.compile(torch.ops.tileon.matmul.default)
with torch._inductor.config.patch(force_disable_caches=True):
    result, programs = run_and_get_code(product, a, a)
assert "torch.ops.tileon.matmul.default(" in programs[0], programs[0]
assert torch.equal(result, a @ a)
"""


def test_fuse_works_without_inductors_class_of_passes() -> None:
    run_without("torch._inductor", FUSE)


def test_compiled_programs_call_the_public_op_without_inductors_names() -> None:
    run_without("torch._inductor.lowering:make_fallback", COMPILE)


# A private name elsewhere, and why it is there.
ALLOWED = {
    "forward_ad._current_level": "a variable, read anew in each call: a function around it would cost as much again",
    "ctx._autograd_function_id": "what torch.autograd.Function's own method returns, under its name",
    "torch.cuda._sleep": "the head start of the clock that measures kernels: no product takes it",
    "torch.distributed.tensor._dtensor_spec": "for annotations alone",
    "holder._modules": "torch.nn.Module's registries: what a layer has beyond its public attributes",
    "module._modules": "the same",
    "module._parameters": "the same",
    "module._buffers": "the same",
    "nn.Module._apply": "a method that modules override by this name",
    "super()._load_from_state_dict": "the same",
    "DecodedWeight._is_hf_initialized": "transformers' mark, which its models look for",
    "value._is_hf_initialized": "transformers' mark, which its own quantizers set",
    "model._weight_conversions": "the conversions that transformers undoes when it saves a model",
    "super()._save_to_state_dict": "a method that modules override by this name",
}
OURS = re.compile(r"(torch\.ops\.tileon|_ops)\._\w+$")


def private_names(path: pathlib.Path) -> set[str]:
    """The names of torch's that begin with an underscore, as a file writes them."""
    found = set()
    owners = {source.stem for source in PACKAGE.rglob("*.py")} | {"os", "sys", "self", "cls"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and re.match(r"_[a-zA-Z]", node.attr):
            text = ast.unparse(node)
            if ast.unparse(node.value) not in owners and not OURS.match(text):
                found.add(text)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            for name in (node.module or "", *(alias.name for alias in node.names)):
                if re.search(r"(^|\.)_[a-zA-Z]", name):
                    found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if re.match(r"torch.*\._[a-zA-Z]", alias.name)}
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_other_module_names_what_is_private(path: pathlib.Path) -> None:
    if path != MODULE:
        assert private_names(path) <= ALLOWED.keys()


def test_a_private_name_is_noticed(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "source.py"
    source.write_text(
        "import torch\nimport torch._dynamo\nfrom torch._C import is_grad_enabled\nfrom torch.library import _x\n"
        "torch._C._any_requires_grad\nop._handle.redispatch_boxed\ntorch.ops.tileon._last_kernel()\n"
    )
    assert private_names(source) == {
        *("torch._dynamo", "torch._C", "torch.library", "torch._C._any_requires_grad", "op._handle"),
    }
