"""What a node of an FX graph computes, where matmul can compute it too: a product, a sum with a bias, an activation.

A graph of torch.compile speaks of torch's functions and methods, a graph of torch.export of ATen's ops.
"""

from __future__ import annotations

import operator
import types
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Node

from tileon_ops._rules import torch_private
from tileon_ops._rules.activations import ACTIVATIONS, Calls

_aten = torch.ops.aten

_MATRICES = ("input", "mat2")
_TENSORS = ("input", "other")
_ADDMM = ("input", "mat1", "mat2", "beta", "alpha")
_BADDBMM = ("input", "batch1", "batch2", "beta", "alpha")
_LINEAR = ("input", "weight", "bias")

# target: the names of its arguments. A method's target is its name.
_PRODUCTS: dict[Any, tuple[str, ...]] = {
    **dict.fromkeys((torch.mm, "mm", _aten.mm.default, torch.bmm, "bmm", _aten.bmm.default), _MATRICES),
    **dict.fromkeys((torch.matmul, operator.matmul, "matmul", "__matmul__", _aten.matmul.default), _TENSORS),
    **dict.fromkeys((torch.addmm, "addmm", _aten.addmm.default), _ADDMM),
    **dict.fromkeys((torch.baddbmm, "baddbmm", _aten.baddbmm.default), _BADDBMM),
    **dict.fromkeys((F.linear, _aten.linear.default), _LINEAR),
}

_SUMS: dict[Any, tuple[str, ...]] = dict.fromkeys(
    (torch.add, operator.add, operator.iadd, "add", "add_", "__add__", _aten.add.Tensor, _aten.add_.Tensor),
    ("input", "other", "alpha"),
)

# target: the activations that it may be, by name
_ACTIVATIONS: dict[Any, dict[str, Calls]] = {}
for _name, _row in ACTIVATIONS.items():
    if _row.calls is not None:
        for _target in _row.calls.targets:
            if _target is not None:  # what this torch has
                _ACTIVATIONS.setdefault(_target, {})[_name] = _row.calls

# Python's own: iadd, imul, setitem, __iadd__ and so on. Those of torch end in "_".
_IN_PLACE = frozenset(name for name in vars(operator) if name.strip("_").startswith(("i", "setitem")))


_OVERLOAD = type(_aten.mm.default)
# What a call may be of besides: names of methods and functions, and not torch's operators that call functions.
_PLAIN = (str, type, types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType)


@dataclass(frozen=True)
class Product:
    """a @ b + bias; a @ b^T + bias where `is_linear`."""

    a: Node
    b: Node
    bias: Node | None
    is_linear: bool


@dataclass(frozen=True)
class Activation:
    """`name` as matmul has it; `slope` may be a node, where torch.compile made a symbol of it."""

    name: str
    slope: float | Node = 0.01


def value(node: Any) -> Any:
    """The fake tensor or number that stands for the node's result; None where nobody recorded one."""
    return node.meta.get("val", node.meta.get("example_value")) if isinstance(node, Node) else None


def _is_call(node: Node) -> bool:
    return node.op in ("call_function", "call_method")


def _arguments(node: Node, names: tuple[str, ...]) -> dict[str, Any] | None:
    """The node's arguments by name; None where it has one that is not among `names`."""
    by_keyword = {"input" if name == "self" else name: argument for name, argument in node.kwargs.items()}
    if len(node.args) > len(names) or not by_keyword.keys() <= set(names):
        return None
    return {**dict(zip(names, node.args, strict=False)), **by_keyword}


def _is_one(factor: object) -> bool:
    return isinstance(factor, (int, float)) and factor == 1


def product(node: Node) -> Product | None:
    """The product that the node computes, with its bias where it is addmm, baddbmm or linear."""
    names = _PRODUCTS.get(node.target) if _is_call(node) else None
    arguments = _arguments(node, names) if names else None
    if names is None or arguments is None or not all(_is_one(arguments.get(x, 1)) for x in ("alpha", "beta")):
        return None
    if names is _LINEAR:
        a, b, bias = (arguments.get(name) for name in _LINEAR)
    elif names in (_ADDMM, _BADDBMM):
        bias, a, b = (arguments.get(name) for name in names[:3])
        if bias is None:
            return None
    else:
        (a, b), bias = (arguments.get(name) for name in names), None
    if not isinstance(a, Node) or not isinstance(b, Node) or not isinstance(bias, (Node, type(None))):
        return None
    return Product(a, b, bias, names is _LINEAR)


def added_to(node: Node, summand: Node) -> Node | None:
    """What the node adds to `summand`, once; None where it is no such sum."""
    names = _SUMS.get(node.target) if _is_call(node) else None
    arguments = _arguments(node, names) if names else None
    if arguments is None or not _is_one(arguments.get("alpha", 1)):
        return None
    left, right = arguments.get("input"), arguments.get("other")
    other = right if left is summand else left
    return other if isinstance(other, Node) and other is not summand else None


def activation(node: Node) -> Activation | None:
    """The activation that the node applies to its one tensor."""
    for name, calls in _ACTIVATIONS.get(node.target, {}).items() if _is_call(node) else ():
        arguments = _arguments(node, calls.arguments)
        if arguments is None or not calls.mean(arguments):
            continue
        slope = 0.01 if calls.slope is None else arguments.get(calls.slope, 0.01)
        if isinstance(slope, Node):
            return Activation(name, slope) if isinstance(value(slope), (float, torch.SymFloat)) else None
        return Activation(name, float(slope))
    return None


def may_write(node: Node) -> bool:
    """Whether the node may change a tensor that it did not make, or torch's state: no product may be moved past it."""
    if node.op in ("placeholder", "get_attr"):
        return False
    if isinstance(node.target, _OVERLOAD):
        return torch_private.is_mutable(node.target)
    if not _is_call(node) or not isinstance(node.target, _PLAIN) or value(node) is None:
        return True  # torch's switches (grad mode, autocast) are calls that return nothing
    if "out" in node.kwargs or any(argument is True for argument in (*node.args, *node.kwargs.values())):
        return True  # True may be `inplace`
    name: str = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "_")
    return name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))
