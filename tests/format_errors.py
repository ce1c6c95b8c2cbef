"""What a product errs by where its weight, its activations or both are quantized, for lost_by_formats.py.

`signal_db` is 10 log10(sum of the squares of x w^T / sum of the squares of what it errs by), all products in float64 of
the decoded operands: what the formats lose, and no sum. x is (256, 1024) and w is (1024, 1024), of the same
distribution: normal; Laplace; Student's t of three degrees of freedom; and outliers, normal with one column of x of 128
times 30. Of a trained model they are the weights of linear layers and what these are called with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import tileon_ops
from tileon_ops.nn.layer_formats import LAYER_FORMATS
from tileon_ops.nn.scale_search import quantize_weight

COLUMNS = ("format", "what", "data", "scale_rounding", "signal_db")
ROWS, N, K = 256, 1024, 1024
WHAT = ("weights", "activations", "both")
Draw = Callable[[int, int, torch.Generator], Tensor]  # so many rows of so many numbers


def normal(rows: int, k: int, source: torch.Generator) -> Tensor:
    return torch.randn(rows, k, generator=source)


def laplace(rows: int, k: int, source: torch.Generator) -> Tensor:
    u = torch.rand(rows, k, generator=source, dtype=torch.float64) - 0.5
    return (-u.sign() * torch.log1p(-2 * u.abs())).float()


def student_t(rows: int, k: int, source: torch.Generator) -> Tensor:
    return normal(rows, k, source) / torch.randn(3, rows, k, generator=source).square().mean(0).sqrt()


DRAWN: dict[str, Draw] = {"normal": normal, "Laplace": laplace, "Student's t": student_t}


def operands() -> dict[str, tuple[Tensor, Tensor]]:
    """x and w, float32, by the name of the data."""
    found = {}
    for name, draw in DRAWN.items():
        source = torch.Generator().manual_seed(0)
        found[name] = draw(ROWS, K, source), draw(N, K, source)
    x, weight = found["normal"]
    x, source = x.clone(), torch.Generator().manual_seed(1)
    x[:, torch.randperm(K, generator=source)[: K // 128]] *= 30
    return {**found, "outliers": (x, weight)}


@torch.inference_mode()
def operands_of(model: nn.Module, layers: Sequence[str], call: Callable[[], Any]) -> dict[str, tuple[Tensor, Tensor]]:
    """What linear layers are called with in `call`, as rows, and their weights, in float32."""
    given: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            given[name] = inputs[0].flatten(0, -2).float()

        return hook

    hooks = [model.get_submodule(name).register_forward_pre_hook(keep(name)) for name in layers]
    call()
    for hook in hooks:
        hook.remove()
    weights = {name: model.get_submodule(name).get_parameter("weight") for name in layers}
    return {name: (given[name], weights[name].detach().float()) for name in layers}


def roundings(format: str) -> tuple[str, ...]:
    """Rules by which a layer's scales can be rounded: those of `quantize` for both operands, and the layer's default,
    which searches the weight's scales. Where there is one rule alone it is the default."""
    form = LAYER_FORMATS[format]
    if not form.of_weight.has_packed_scales:
        return ("default",)
    return ("floor", "rceil", "default") if form.rounds_input_scales else ("floor", "default")


def quantized_weight(weight: Tensor, format: str, rounding: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """Codes, scales and, of nvfp4, the global scale."""
    form = LAYER_FORMATS[format]
    factor = tileon_ops.nvfp4_global_scale(weight) if form.has_global_scale else None
    if rounding == "default":
        return *quantize_weight(weight, form.weight, factor), factor
    return *tileon_ops.quantize(weight, form.weight, factor, scale_rounding=rounding), factor


def quantized_input(x: Tensor, format: str, rounding: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """As a layer quantizes its input."""
    form = LAYER_FORMATS[format]
    factor = tileon_ops.nvfp4_global_scale(x, per_row=True) if form.has_global_scale else None
    rule = {"default": "rceil"}.get(rounding, rounding) if form.rounds_input_scales else "floor"
    return *tileon_ops.quantize(x, form.input, factor, scale_rounding=rule), factor


def error_rows(format: str, data: str, x: Tensor, weight: Tensor) -> Iterator[list[object]]:
    form = LAYER_FORMATS[format]
    exact = x.double() @ weight.double().t()
    for rounding in roundings(format):
        data_w, scale_w, factor_w = quantized_weight(weight, format, rounding)
        data_x, scale_x, factor_x = quantized_input(x, format, rounding)
        wide_w = tileon_ops.dequantize(data_w, scale_w, form.weight, factor_w).double()
        wide_x = tileon_ops.dequantize(data_x, scale_x, form.input, factor_x).double()
        pairs = ((x.double(), wide_w), (wide_x, weight.double()), (wide_x, wide_w))
        for what, (left, right) in zip(WHAT, pairs, strict=True):
            yield [format, what, data, rounding, f"{decibels(left @ right.t(), exact):.2f}"]


def decibels(actual: Tensor, exact: Tensor) -> float:
    noise = float((actual - exact).square().sum())
    return 10 * math.log10(float(exact.square().sum()) / noise) if noise else math.inf
