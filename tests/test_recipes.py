"""CONTRIBUTING's recipe for an activation, walked in a copy of the tree: three files, and everything knows it."""

from __future__ import annotations

import filecmp
import os
import pathlib
import re
import subprocess
import sys

import pytest
from source_trees import ROOT, build_in, copy_of_the_tree, quick_compiler, tool

FORMULAS = "csrc/core/epilogue.h"
TABLE = "tileon_ops/_rules/activations.py"
ORACLE = "tests/reference.py"

# mish: x tanh(log(1 + exp(x))). By file, what stands there and what is added behind it.
EDITS = {
    FORMULAS: (
        (r"enum class Activation : int8_t \{[^}]*?(?= \})", ", kMish"),
        (r'\{Activation::kSilu, "silu"\},', '\n    {Activation::kMish, "mish"},'),
        (
            r"case Activation::kSilu:\n +return x \* sigmoid\(x\);",
            """
    case Activation::kMish:
      return x * std::tanh(std::log1p(exp(x)));""",
        ),
        (
            r"return activate_as<Activation::kSilu>\(values, slope\);",
            """
    case Activation::kMish:
      return activate_as<Activation::kMish>(values, slope);""",
        ),
        (
            r"case Activation::kSilu: \{.*?\n    \}",
            """
    case Activation::kMish: {
      const T t = std::tanh(std::log1p(exp(x)));
      return grad * (t + x * sigmoid(x) * (T(1) - t * t));
    }""",
        ),
    ),
    TABLE: (
        (
            r"def _silu_backward.*?\n\n\n",
            """def _mish_backward(grad: Tensor, z: Tensor, slope: float) -> Tensor:
    tanh = F.softplus(z).tanh()
    return grad * (tanh + z * z.sigmoid() * (1 - tanh * tanh))


""",
        ),
        (
            r'    "silu": Activation\(.*?\n    \),',
            """
    "mish": Activation(
        apply=lambda x, slope: F.mish(x),
        backward=_mish_backward,
        calls=Calls((F.mish, function_behind("mish"), _aten.mish.default, _aten.mish_.default)),
    ),""",
        ),
    ),
    ORACLE: (
        (
            r'    "silu": Activation\([^\n]*',
            '\n    "mish": Activation(lambda x, slope: F.mish(x), 1.09, is_curved=True),',
        ),
    ),
}

# Values, gradients of both orders, compilers, texts.
PROGRAM = r"""
import sys
import torch
import torch.nn.functional as F

sys.path.insert(0, "tests")
import reference
import tileon_ops
from torch._subclasses.fake_tensor import FakeTensorMode

op = torch.ops.tileon.matmul
NAMES = "none, relu, leaky_relu, gelu, gelu_tanh, silu, mish"

def normal(*shape, dtype=torch.float64):
    return (3 * torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)).to(dtype)

for dtype in reference.MATMUL_DTYPES:
    a, b, bias = normal(33, 20, dtype=dtype), normal(20, 47, dtype=dtype), normal(47, dtype=dtype)
    y = op(a, b, bias, activation="mish")
    reference.check_matmul(y, a, b, bias, activation="mish", what=str(dtype))
    assert "cpu" in tileon_ops.last_kernel()
print("values")

a, b, bias = (x.requires_grad_() for x in (normal(3, 4), normal(4, 5), normal(5)))
call = lambda a, b, bias: op(a, b, bias, activation="mish")
by_torch = lambda a, b, bias: F.mish(torch.addmm(bias, a, b))
grad = normal(3, 5)
ours = torch.autograd.grad(call(a, b, bias), (a, b, bias), grad)
theirs = torch.autograd.grad(by_torch(a, b, bias), (a, b, bias), grad)
torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
assert torch.autograd.gradcheck(call, (a, b, bias)) and torch.autograd.gradgradcheck(call, (a, b, bias))
print("gradients")

torch.library.opcheck(op.default, (a, b, bias), {"activation": "mish"})
with FakeTensorMode():
    assert op(torch.empty(3, 4), torch.empty(4, 5), activation="mish").shape == (3, 5)
compiled = torch.compile(call, backend="aot_eager", fullgraph=True)
torch.testing.assert_close(torch.autograd.grad(compiled(a, b, bias), (a, b, bias), grad), ours, rtol=0, atol=0)
print("compiler")

class Layer(torch.nn.Module):
    def forward(self, a, b, bias):
        return by_torch(a, b, bias)

inputs = tuple(x.detach() for x in (a, b, bias))
program = tileon_ops.fuse(torch.export.export(Layer(), inputs))
calls = [node for node in program.graph.nodes if node.op == "call_function"]
assert [(node.target, node.kwargs) for node in calls] == [(op.default, {"activation": "mish"})], calls
print("fuse")

def refused(device):
    try:
        op(torch.empty(3, 4, device=device), torch.empty(4, 5, device=device), activation="swish")
    except RuntimeError as error:
        return str(error)

wanted = f'matmul: `activation` must be one of {NAMES}, got "swish"'
assert refused("cpu") == refused("meta") == wanted, refused("cpu")
assert '"silu" or "mish"' in tileon_ops.matmul.__doc__
assert "activation=mish" in repr(tileon_ops.Linear(2, 3, activation="mish"))
print("texts")
"""
STEPS = ["values", "gradients", "compiler", "fuse", "texts"]

# What the kernels take; a compiler that finds a value without its case refuses it.
HOST_PROGRAM = """
#include <cmath>
#include "core/epilogue.h"
using namespace tileon;
int main() {
  float values[4] = {-4, -1, 2, 5};
  Epilogue epilogue;
  epilogue.activation = Activation::kMish;
  activate_all(values, epilogue);
  const float wanted[4] = {-0.0725917f, -0.3034014f, 1.9439590f, 4.9995522f};
  bool same = !is_cheap(epilogue);
  for (int i = 0; i < 4; ++i) same = same && std::fabs(values[i] - wanted[i]) < 1e-6f;
  return same ? 0 : 1;
}
"""


def add_behind(text: str, pattern: str, addition: str) -> str:
    """The text with an addition behind the one place that matches."""
    found = list(re.finditer(pattern, text, re.DOTALL))
    assert len(found) == 1, f"{len(found)} places match {pattern}"
    return text[: found[0].end()] + addition + text[found[0].end() :]


def walk(tree: pathlib.Path) -> None:
    for name, additions in EDITS.items():
        text = (tree / name).read_text()
        for pattern, addition in additions:
            text = add_behind(text, pattern, addition)
        (tree / name).write_text(text)


def differing(tree: pathlib.Path) -> list[str]:
    """The files of the copy that are not as in the checkout."""
    files = (path.relative_to(tree) for path in tree.rglob("*") if path.is_file())
    return sorted(
        str(name) for name in files if not (ROOT / name).exists() or not filecmp.cmp(ROOT / name, tree / name, False)
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A copy in which the recipe was followed."""
    tree = copy_of_the_tree(tmp_path_factory.mktemp("recipe") / "tree", with_library=False)
    walk(tree)
    return tree


@pytest.fixture(scope="module")
def built(tree: pathlib.Path) -> pathlib.Path:
    """With its library, for the CPU."""
    result = build_in(tree, TILEON_CPU_ONLY="1", CXX=quick_compiler(tree.parent))
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return tree


def run_in(tree: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python there, with the library beside the copy's package, and not one that was named for this run."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TILEON_", "PYTEST_"))}
    environment["CUDA_VISIBLE_DEVICES"] = ""  # the copy is built for the CPU alone
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=600)


def test_the_recipe_touches_three_files(tree: pathlib.Path) -> None:
    assert differing(tree) == sorted(EDITS)
    assert len(EDITS) <= 3


def test_the_recipe_as_written_names_these_files() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    recipe = re.search(r"^\*\*An activation\.\*\*.*?\n\n", text, re.MULTILINE | re.DOTALL)
    assert recipe is not None
    assert sorted(re.findall(r"`([\w./]+\.(?:h|cuh|py))`", recipe[0])) == sorted([*EDITS, "tests/test_recipes.py"])


def test_every_step_of_a_kernel_has_its_case(tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    source, program = tmp_path / "program.cpp", tmp_path / "program"
    source.write_text(HOST_PROGRAM)
    flags = ["-std=c++20", "-Wall", "-Werror", f"-I{tree / 'csrc'}"]
    result = subprocess.run([tool("c++"), *flags, str(source), "-o", str(program)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert subprocess.run([str(program)]).returncode == 0


def test_values_gradients_compilers_and_texts_know_it(built: pathlib.Path) -> None:
    result = run_in(built, "-c", PROGRAM)
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    assert result.stdout.split() == STEPS


def test_the_suite_goes_through_it(built: pathlib.Path) -> None:
    files = [f"tests/test_{name}.py" for name in ("epilogue", "epilogue_backward", "autograd")]
    result = run_in(built, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "mish", *files)
    assert result.returncode == 0, result.stdout[-3000:]
    passed = re.search(r"(\d+) passed", result.stdout)
    assert passed is not None
    assert int(passed[1]) >= 20, result.stdout[-1000:]


@pytest.mark.parametrize(
    ("folder", "pattern", "home"),
    [("csrc", r"\bk(Gelu|GeluTanh|Silu)\b", FORMULAS), ("tileon_ops", r"\bsilu\b", TABLE)],
)
def test_no_other_file_names_an_activation(folder: str, pattern: str, home: str) -> None:
    """Names of activations that no code treats in a way of its own."""
    files = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".cuh", ".cu", ".cpp", ".py")]
    naming = [str(path.relative_to(ROOT)) for path in files if re.search(pattern, path.read_text())]
    assert naming == [home]
