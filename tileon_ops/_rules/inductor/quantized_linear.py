"""Rows that a graph quantizes for a product, and the product of them: one call, as a layer makes in eager mode.

`_quantized_linear` finds out when it runs whether it multiplies codes, or sooner the numbers that they stand for, and
heeds batch invariance. So where numbers are expected to be the faster way of a graph's product, that becomes such a
call, of the rows before they are quantized; codes that nobody uses then inductor drops. Of more rows, whose codes are
multiplied in any case, several products share those that one call has quantized.

The call stands where the graph quantizes, since what holds the rows there may hold something else where the product is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from tileon_ops._rules import torch_private
from tileon_ops._rules.fake.block_scaled import E4M3, E8M0, FP4, elements_in_a_row
from tileon_ops._rules.inductor.compiled_ops import CompiledOp

_ROWS_OF_NVFP4 = "_quantize_nvfp4_rows"
_PRODUCT = "block_scaled_matmul"
_LINEAR = "_quantized_linear"
_MOST_ROWS = 384  # as csrc/cuda/sm90/heuristics/rounded_rows.h has it: more of them share their codes
_OPERANDS = ("b", "scale_b", "format", "bias", "global_scale")  # of the call, behind the rows
_OF_PRODUCT = ("b", "scale_b", "bias", "activation", "slope", "fast_accum")  # what the call takes of it


def _format_of(b: torch.Tensor, scale: torch.Tensor) -> str | None:
    if b.dtype in FP4:
        return "nvfp4" if scale.dtype in E4M3 else "mxfp4" if scale.dtype in E8M0 else None
    return "mxfp8" if b.dtype == torch.float8_e4m3fn and scale.dtype in E8M0 else None


def numbers_pay(x: torch.Tensor, b: torch.Tensor, scale_b: torch.Tensor, format: str, fast_accum: bool) -> bool:
    """Whether the rows that `format` quantizes are expected to be multiplied sooner as numbers, by a weight `b`."""
    own = _format_of(b, scale_b)
    if x.device.type != "cuda" or own is None:
        return False
    sizes = (x.shape[0], b.shape[0], elements_in_a_row(b))
    m, n, k = (torch_private.expected_size(size, 1 << 13) for size in sizes)
    device = torch.cuda.current_device() if x.device.index is None else x.device.index
    pays = torch.ops.tileon._multiplies_numbers(device, m, n, k, format, own, x.dtype, fast_accum)
    return m <= _MOST_ROWS and bool(pays)


def _is_result(value: Any, node: torch.fx.Node, index: int) -> bool:
    return isinstance(value, torch.fx.Node) and value.target is operator.getitem and value.args == (node, index)


class _Lowerings:
    def __init__(self, inductor: torch_private.Inductor, ops: Mapping[str, CompiledOp]) -> None:
        self._graph_state, self._ops = inductor.graph_state, ops
        self._product, self._linear = ops[_PRODUCT], ops[_LINEAR]

    def quantize(self, name: str) -> Callable[..., Any]:
        """Of an op that quantizes rows. The calls that products become are written here, too."""

        def lower(*arguments: Any, **options: Any) -> Any:
            node = self._graph_state.current_node
            bound = self._ops[name].arguments_of(node)
            is_nvfp4 = name == _ROWS_OF_NVFP4  # by quantize its rows have no global scale of their own
            format = "nvfp4" if is_nvfp4 else bound["format"]
            if (is_nvfp4 or format != "nvfp4") and not self._graph_state.aot_compilation:
                x = {**dict(zip(bound, arguments, strict=False)), **options}["x"]
                for product in self._products_of(node, is_nvfp4):
                    call = self._call_of(product, bound, format)
                    if self._pays(product, call, bound["x"], format):
                        given = self._lowered(call)
                        operands = [given.pop(name) for name in _OPERANDS]
                        self._written()[product] = self._linear.write(x, *operands, **given)
            return self._ops[name].write(*arguments, **options)

        return lower

    def multiply(self, *arguments: Any, **options: Any) -> Any:
        """Of the product."""
        written = self._written().get(self._graph_state.current_node)
        return self._product.write(*arguments, **options) if written is None else written

    def _written(self) -> dict[torch.fx.Node, Any]:
        """The products of this graph that have become calls, and their results as inductor has them."""
        found: dict[torch.fx.Node, Any] = self._graph_state.graph.__dict__.setdefault("tileon_quantized_linear", {})
        return found

    def _products_of(self, node: torch.fx.Node, is_nvfp4: bool) -> Iterator[torch.fx.Node]:
        """Those that multiply all that a node has quantized."""
        for user in {user: None for result in node.users for user in result.users}:
            if user.target is self._product.op:
                bound = self._product.arguments_of(user)
                operands = [bound["a"], bound["scale_a"], *((bound["global_scale"],) if is_nvfp4 else ())]
                if all(_is_result(operand, node, index) for index, operand in enumerate(operands)):
                    yield user

    def _call_of(self, product: torch.fx.Node, of_rows: Mapping[str, Any], format: str) -> dict[str, Any]:
        """The arguments of the call that a product may become, but for the rows."""
        of_product = self._product.arguments_of(product)
        call = {"format": format, **{name: of_product[name] for name in _OF_PRODUCT}}
        call["global_scale"] = (of_rows if format == "nvfp4" else of_product)["global_scale"]
        if "scale_rounding" in of_rows:
            call["scale_rounding"] = of_rows["scale_rounding"]
        return call

    def _pays(self, product: torch.fx.Node, call: Mapping[str, Any], x: torch.fx.Node, format: str) -> bool:
        """Where the result has the dtype of the rows, as that of the call, and all else that it takes is there."""
        rows, b, scale_b = x.meta["val"], call["b"].meta["val"], call["scale_b"].meta["val"]
        nodes = [value for value in call.values() if isinstance(value, torch.fx.Node)]
        return (
            product.meta["val"].dtype == rows.dtype
            and all(node in self._graph_state.graph.env for node in nodes)
            and numbers_pay(rows, b, scale_b, format, call["fast_accum"])
        )

    def _lowered(self, call: Mapping[str, Any]) -> dict[str, Any]:
        env = self._graph_state.graph.env
        return {name: env[value] if isinstance(value, torch.fx.Node) else value for name, value in call.items()}


def lowerings(inductor: torch_private.Inductor, ops: Mapping[str, CompiledOp]) -> dict[str, Callable[..., Any]]:
    """Of the ops whose calls may become one."""
    of = _Lowerings(inductor, ops)
    return {name: of.quantize(name) for name in ("quantize", _ROWS_OF_NVFP4)} | {_PRODUCT: of.multiply}
