"""Rows that a graph quantizes for products: as the numbers that their codes stand for, where these are the faster way.

A layer in eager mode makes one call of `_quantized_linear`, which decides so itself. A graph has `quantize` and
`block_scaled_matmul`, so that several products share the rows that one call has quantized; here `_round_to_format`
takes the place of the one, and a product of numbers that of the others. The products have the same terms. inductor
drops the codes, which nobody uses then.

Products are asked of as large as they are when the graph is lowered, or of as many rows as inductor expects where that
is a symbol; under batch invariance none is of numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch

from tileon_ops._rules import torch_private
from tileon_ops._rules.fake.block_scaled import E4M3, E8M0, FP4, elements_in_a_row
from tileon_ops._rules.inductor.compiled_ops import CompiledOp

_ROWS_OF_NVFP4 = "_quantize_nvfp4_rows"
_PRODUCT = "block_scaled_matmul"
_OPERANDS = ("a", "b", "scale_a", "scale_b", "bias", "global_scale")  # the product's arguments by position
_EXPECTED_ROWS = 8192  # where a symbol tells nothing


class _Rounded(NamedTuple):
    """What `_round_to_format` gave, as inductor has it."""

    numbers: Any
    row_scales: Any


def _results_of(node: torch.fx.Node) -> dict[int, torch.fx.Node] | None:
    """The nodes of an op's results; None where a user takes them in another way."""
    found: dict[int, torch.fx.Node] = {}
    for user in node.users:
        if user.target is not operator.getitem or user.args[1] in found:
            return None
        found[int(user.args[1])] = user  # type: ignore[arg-type]
    return found


def _format_of(b: torch.Tensor, scale: torch.Tensor) -> str | None:
    if b.dtype in FP4:
        return "nvfp4" if scale.dtype in E4M3 else "mxfp4" if scale.dtype in E8M0 else None
    return "mxfp8" if b.dtype == torch.float8_e4m3fn and scale.dtype in E8M0 else None


def _expected(size: Any) -> int:
    return torch_private.expected_size(size, _EXPECTED_ROWS)


class _Rounding:
    """Of the graph that is being lowered, with the ops' lowerings."""

    def __init__(self, inductor: torch_private.Inductor, ops: Mapping[str, CompiledOp]) -> None:
        self._graph_state, self._ops = inductor.graph_state, ops
        self._round, self._product = ops["_round_to_format"], ops[_PRODUCT]

    def quantize(self, name: str) -> Callable[..., Any]:
        """The lowering of an op that quantizes rows."""

        def lower(*arguments: Any, **options: Any) -> Any:
            node = self._graph_state.current_node
            bound = self._ops[name].arguments_of(node)
            is_nvfp4 = name == _ROWS_OF_NVFP4  # by quantize its rows have no global scale of their own
            format = "nvfp4" if is_nvfp4 else bound["format"]
            if (is_nvfp4 or format != "nvfp4") and self._are_numbers_faster(node, bound["x"], format):
                given = dict(zip(bound, arguments, strict=False)) | options
                rounding = {} if is_nvfp4 else {"scale_rounding": bound["scale_rounding"]}
                rounded = self._round.write(given["x"], format, given.get("global_scale"), **rounding)
                self._rounded()[node] = _Rounded(*rounded)
            return self._ops[name].write(*arguments, **options)

        return lower

    def multiply(self, *arguments: Any, **options: Any) -> Any:
        """The lowering of the product."""
        rows = self._quantized_rows(self._graph_state.current_node)
        rounded = self._rounded().get(rows) if rows is not None else None
        if rounded is None:
            return self._product.write(*arguments, **options)
        given = dict(zip(self._product.names, arguments, strict=False)) | options
        given |= {"a": rounded.numbers, "scale_a": None}
        if rows.target is self._ops[_ROWS_OF_NVFP4].op:
            given["global_scale"] = rounded.row_scales
        operands = [given.pop(name, None) for name in _OPERANDS]
        return self._product.write(*operands, **given)

    def _rounded(self) -> dict[torch.fx.Node, _Rounded]:
        """Of this graph, by the nodes that quantize."""
        found: dict[torch.fx.Node, _Rounded] = self._graph_state.graph.__dict__.setdefault("tileon_rounded_rows", {})
        return found

    def _quantized_rows(self, product: torch.fx.Node) -> Any:
        """The node whose results a product multiplies all, None where that is not so."""
        bound = self._product.arguments_of(product)
        a, scale_a = bound["a"], bound["scale_a"]
        if not all(isinstance(each, torch.fx.Node) and each.target is operator.getitem for each in (a, scale_a)):
            return None
        node = a.args[0]
        results = [(a, 0), (scale_a, 1)]
        if getattr(node, "target", None) is self._ops[_ROWS_OF_NVFP4].op:
            results.append((bound["global_scale"], 2))
        is_all = all(getattr(result, "args", None) == (node, index) for result, index in results)
        return node if is_all else None

    def _are_numbers_faster(self, node: torch.fx.Node, x: torch.fx.Node, format: str) -> bool:
        """Of the products that its results go to, all of them: by what is faster of most of their columns."""
        rows = x.meta["val"]
        products = list(self._products_of(node))
        if rows.device.type != "cuda" or self._graph_state.aot_compilation or not products:
            return False
        if any(product is None for product in products):
            return False
        columns = {True: 0, False: 0}  # by whether numbers pay
        for product in products:
            bound = self._product.arguments_of(product)  # type: ignore[arg-type]
            b, scale_b = bound["b"].meta["val"], bound["scale_b"].meta["val"]
            own, n, k = _format_of(b, scale_b), _expected(b.shape[0]), _expected(elements_in_a_row(b))
            pays = own is not None and torch.ops.tileon._multiplies_numbers(
                rows.device.index or 0, _expected(rows.shape[0]), n, k, format, own, rows.dtype, bound["fast_accum"]
            )
            columns[pays] += n
        return columns[True] > columns[False]

    def _products_of(self, node: torch.fx.Node) -> Iterator[torch.fx.Node | None]:
        """The users of what a node quantizes; None for one that is no product of these rows."""
        results = _results_of(node)
        if results is None:
            yield None
            return
        for user in {user: None for result in results.values() for user in result.users}:
            yield user if user.target is self._product.op and self._quantized_rows(user) is node else None


def lowerings(inductor: torch_private.Inductor, ops: Mapping[str, CompiledOp]) -> dict[str, Callable[..., Any]]:
    """Of the ops whose calls may become others."""
    rounding = _Rounding(inductor, ops)
    return {name: rounding.quantize(name) for name in ("quantize", _ROWS_OF_NVFP4)} | {_PRODUCT: rounding.multiply}
