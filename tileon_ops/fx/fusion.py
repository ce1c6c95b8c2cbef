"""`tileon_ops.fuse`: torch's products in an FX graph, each with its bias and activation, become one call of matmul."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from tileon_ops._rules import activations, configs, torch_private
from tileon_ops._rules.fake.checks import same
from tileon_ops.fx import patterns
from tileon_ops.fx.patterns import Activation, Product, activation, added_to, may_write, product, value

_aten = torch.ops.aten
_log = logging.getLogger("tileon_ops")

_Program = TypeVar("_Program", Graph, GraphModule, ExportedProgram)

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_AUTOCAST = _DTYPES[:3]  # what autocast makes _AUTOCAST[0] or _AUTOCAST[1] of
_OLDEST_GPU = (8, 0)


def _is_wrapper(tensor: Tensor) -> bool:
    """Whether it is of a class that holds other tensors, as DTensor is."""
    return hasattr(tensor, "__tensor_flatten__")


def _is_offered(tensor: Any) -> bool:
    """Whether it is a plain tensor on a device that the library has kernels for."""
    if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or _is_wrapper(tensor):
        return False
    if tensor.device.type != "cuda":
        return tensor.device.type == "cpu"
    return bool(configs.dense()) and (
        not torch.cuda.is_available() or torch.cuda.get_device_capability(tensor.device) >= _OLDEST_GPU
    )


def _dtypes_agree(operands: list[Tensor], result: torch.dtype, autocasts: bool) -> bool:
    """Whether matmul gives `result` for these operands, a bias among them, as torch does."""
    if result not in _DTYPES:
        return False
    if all(operand.dtype == result for operand in operands):
        return True
    return autocasts and result in _AUTOCAST[:2] and all(operand.dtype in _AUTOCAST for operand in operands)


def _shapes_agree(a: Tensor, b: Tensor) -> bool:
    """Whether matmul takes these operands, the rows of an N-D `a` in one matrix where `b` is one."""
    if b.dim() == 2:
        return a.dim() >= 2
    if b.dim() != 3 or a.dim() not in (2, 3):
        return False
    return a.dim() == 2 or same(a.shape[0], b.shape[0]) or same(a.shape[0], 1) or same(b.shape[0], 1)


def _columns(found: Product) -> Any:
    return value(found.b).shape[0 if found.is_linear else -1]


def _fits_as_bias(bias: Node, found: Product) -> bool:
    tensor = value(bias)
    return _is_offered(tensor) and tensor.dim() == 1 and same(tensor.shape[0], _columns(found))


def _is_supported(node: Node, found: Product) -> bool:
    """Whether matmul's result for this product is torch's, rounding aside."""
    a, b, result = value(found.a), value(found.b), value(node)
    if not all(_is_offered(tensor) for tensor in (a, b, result)) or not a.device == b.device == result.device:
        return False
    if found.is_linear and b.dim() != 2:
        return False
    operands = [a, b]
    if found.bias is not None:
        if not _fits_as_bias(found.bias, found):
            return False
        operands.append(value(found.bias))
    # the graph of torch.compile holds autocast's switches, and the result's dtype tells of them
    autocasts = "example_value" in node.meta
    return _shapes_agree(a, b) and _dtypes_agree(operands, result.dtype, autocasts)


def _only_user(node: Node) -> Node | None:
    """The one node that takes this one's result, where nothing between the two may change what they read."""
    if len(node.users) != 1:
        return None
    user = next(iter(node.users))
    between = node.next
    while between is not user:
        if may_write(between):
            return None
        between = between.next
    return user


def _keeps_dtype(node: Node, like: Node) -> bool:
    tensor = value(node)
    return isinstance(tensor, Tensor) and tensor.dtype == value(like).dtype and tensor.device == value(like).device


def _followed(node: Node, found: Product) -> tuple[list[Node], Product, Activation]:
    """The nodes from the product to the last one that matmul computes with it, and what they compute."""
    chain = [node]
    user = _only_user(node)
    if found.bias is None and user is not None and _keeps_dtype(user, node):
        bias = added_to(user, node)
        if bias is not None and _fits_as_bias(bias, found) and _keeps_dtype(bias, node):
            found = Product(found.a, found.b, bias, found.is_linear)
            chain.append(user)
            user = _only_user(user)
    if user is not None and _keeps_dtype(user, node):
        applied = activation(user)
        if applied is not None:
            return [*chain, user], found, applied
    return chain, found, Activation("none")


class _Writer:
    """Writes nodes before `last`, and makes `last` itself the result, so that its users and its name stay."""

    def __init__(self, last: Node) -> None:
        self.last = last
        self.key = "val" if "val" in last.meta else "example_value"

    def call(self, result: Any, target: Any, *arguments: Any, **options: Any) -> Node:
        graph = self.last.graph
        with graph.inserting_before(self.last):
            node = graph.call_function(target, arguments, options)
        node.meta = {key: self.last.meta[key] for key in ("stack_trace", "nn_module_stack") if key in self.last.meta}
        node.meta[self.key] = result
        return node

    def finish(self, target: Any, *arguments: Any, **options: Any) -> None:
        self.last.op, self.last.target = "call_function", target
        self.last.args, self.last.kwargs = arguments, options

    def size(self, node: Node, dim: int) -> Any:
        size = value(node).shape[dim]
        return size if isinstance(size, int) else self.call(size, _aten.sym_size.int, node, dim)


def _options(found: Product, applied: Activation) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if applied.name != "none":
        options["activation"] = applied.name
    if activations.ACTIVATIONS[applied.name].has_slope:
        options["slope"] = applied.slope
    if value(found.a).dtype == torch.float32 and torch.backends.cuda.matmul.fp32_precision == "tf32":
        options["allow_tf32"] = True
    return options


@torch.no_grad()
def _rewrite(chain: list[Node], found: Product, applied: Activation) -> None:
    writer = _Writer(chain[-1])
    result, options = value(chain[-1]), _options(found, applied)
    a, b = found.a, found.b
    if found.is_linear:
        b = writer.call(value(b).permute(1, 0), _aten.permute.default, b, [1, 0])
    arguments = () if found.bias is None else (found.bias,)
    a_value = value(a)
    if value(b).dim() == 2 and a_value.dim() > 2:  # one product of all the rows
        shape = [writer.size(a, dim) for dim in range(a_value.dim() - 1)] + [writer.size(b, 1)]
        a = writer.call(a_value.flatten(0, -2), _aten.flatten.using_ints, a, 0, -2)
        matrix = writer.call(result.flatten(0, -2), torch.ops.tileon.matmul.default, a, b, *arguments, **options)
        writer.finish(_aten.view.default, matrix, shape)
    else:
        writer.finish(torch.ops.tileon.matmul.default, a, b, *arguments, **options)
    for node in reversed(chain[:-1]):
        node.graph.erase_node(node)


def _describe(chain: list[Node], found: Product, applied: Activation) -> str:
    a, b = (tuple(value(operand).shape) for operand in (found.a, found.b))
    dtype = str(value(chain[-1]).dtype).removeprefix("torch.")
    parts = [f"{dtype} {a} x {b[::-1] if found.is_linear else b}"]
    if found.bias is not None:
        parts.append("bias")
    if applied.name != "none":
        parts.append(applied.name)
    return ", ".join(parts)


def _fuse_graph(graph: Graph) -> int:
    products = [(node, found) for node in graph.nodes if (found := product(node)) is not None]
    silent = [node for node, _ in products if value(node) is None]
    if silent and len(silent) == len(products):
        raise RuntimeError(
            "fuse: the nodes of the graph must say their shapes and dtypes (meta 'val' or 'example_value'), and "
            f"`{silent[0].name}` does not; torch.export and torch.compile record that, FakeTensorProp adds it"
        )
    for node in silent:
        _log.warning("fuse: `%s` does not say its shape and dtype, and stays torch's", node.name)
    count = 0
    for node, found in products:
        if not _is_supported(node, found):
            continue
        chain, whole, applied = _followed(node, found)
        names = " -> ".join(link.name for link in chain)
        _log.info("fuse: %s is one matmul: %s", names, _describe(chain, whole, applied))
        _rewrite(chain, whole, applied)
        count += 1
    _log.info("fuse: matmul is called %d times in this graph", count)
    return count


class Fuse(torch_private.compiler_pass()):  # type: ignore[misc]
    """Rewrites an FX graph in place, so that torch's products are calls of `torch.ops.tileon.matmul`.

    Such a call takes up the product, the bias added to it and the activation of the sum: what `F.linear`, `@`, `mm`,
    `bmm`, `matmul`, `addmm` and `baddbmm` compute, `+ bias`, and the activations that matmul has. A bare product
    is replaced as well. The call rounds once, where torch rounds after each step: results differ in their last bits.

    `tileon_ops.fuse` is the one instance. It is used in two ways::

        compiled = torch.compile(model, options={"pre_grad_custom_pass": tileon_ops.fuse})
        program = tileon_ops.fuse(torch.export.export(model, inputs))

    The first runs before autograd does, so training uses the gradients of the op, and what it makes is cached as all
    that inductor makes. An exported program is fused before its `run_decompositions`, which take activations apart.

    Replaced is what the op computes as torch does: operands and bias of one dtype, float16, bfloat16, float32 or
    float64 (or those that autocast makes one, under torch.compile), on a CPU or a GPU of capability 8.0 or later;
    `a` of two dimensions or more with a 2-D `b`, or 3-D and 2-D operands; a 1-D bias of n elements; alpha and beta 1;
    intermediate results that nothing else uses, with no write in place between the steps. All else stays as it is. For
    float32 the call has `allow_tf32` as torch.backends.cuda.matmul.fp32_precision says at the time of the rewriting.

    The logger `tileon_ops` reports every call that is made, at level INFO.

    Args:
        program: a torch.export.ExportedProgram, a torch.fx.GraphModule (its submodules of that kind too), or a
            torch.fx.Graph, whose nodes say their shapes and dtypes: those of torch.export and of torch.compile do.

    Returns:
        `program` itself.

    Raises:
        RuntimeError: "fuse: ...", for anything else, and for a graph whose products have no such metadata.
    """

    def __call__(self, program: _Program) -> _Program:
        """Rewrites `program` in place and returns it."""
        if isinstance(program, Graph):
            _fuse_graph(program)
            return program
        module = program.graph_module if isinstance(program, ExportedProgram) else program
        if not isinstance(module, GraphModule):
            raise RuntimeError(
                "fuse: `program` must be a torch.export.ExportedProgram, a torch.fx.GraphModule or a torch.fx.Graph, "
                f"got {type(program).__name__}; torch.export.export makes one of a module"
            )
        for part in module.modules():
            if isinstance(part, GraphModule) and _fuse_graph(part.graph):
                part.graph.lint()
                part.recompile()
        return program

    def uuid(self) -> Any:
        """What inductor's caches know this pass by: its sources."""
        sources = (Path(str(module)) for module in (__file__, patterns.__file__, activations.__file__))
        return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).digest()


fuse = Fuse()
