"""Graphs for the tests of `tileon_ops.fuse`: captured by torch.compile or by torch.export, rewritten, and run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

import tileon_ops

CAPTURES = ("compile", "export")  # torch's functions and methods; ATen's ops


def matmuls(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.target is torch.ops.tileon.matmul.default]


class AsModule(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Tensor) -> Any:
        return self.function(*arguments)


def fused(
    function: Callable[..., Any], arguments: tuple[Tensor, ...], capture: str, **options: Any
) -> tuple[Any, list[Node]]:
    """The result of the function by its rewritten graph, and the calls of matmul there. `options` are the capture's."""
    if capture == "export":
        program = torch.export.export(AsModule(function), arguments, **options)
        assert tileon_ops.fuse(program) is program
        program.validate()
        return program.module()(*arguments), matmuls(program.graph)
    graphs: list[Graph] = []

    def backend(module: GraphModule, _: Any) -> GraphModule:
        graphs.append(tileon_ops.fuse(module).graph)
        return module

    result = torch.compile(function, backend=backend, fullgraph=True, **options)(*arguments)
    (graph,) = graphs
    return result, matmuls(graph)
