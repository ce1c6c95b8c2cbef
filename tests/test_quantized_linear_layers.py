"""Layers whose rows are quantized call `_quantized_linear`, once, where nobody looks at the ops that it stands for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from layers import MX_FORMATS, each_format
from operands import normal
from test_inductor import calls
from test_profiler import flops, ranges
from test_quantized_linear import each_dtype, op, ops, rows, weight
from torch import Tensor, nn

import tileon_ops
from tileon_ops import BlockScaledLinear
from tileon_ops.nn import layer_ops

pytestmark = pytest.mark.usefixtures("no_programs_from_before")


def layer_of(fmt: str, device: torch.device | str = "cpu", **options: Any) -> BlockScaledLinear:
    return BlockScaledLinear.from_linear(tileon_ops.Linear(64, 40, device=device), fmt, **options)


def two_ops(fmt: str) -> list[str]:
    return ["_quantize_nvfp4_rows" if fmt == "nvfp4" else "quantize", "block_scaled_matmul"]


class TestLayer:
    @each_format
    @each_dtype
    def test_makes_one_call(self, device: torch.device, fmt: str, dtype: torch.dtype) -> None:
        layer, x = layer_of(fmt, device), normal(2, 3, 64, dtype=dtype, device=device)
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode():
                assert [name for name, _ in ranges(lambda: layer(x))] == ["_quantized_linear"]

    @each_format
    def test_makes_two_under_autocast(self, device: torch.device, fmt: str) -> None:
        layer, x = layer_of(fmt, device), rows(3, 64, torch.float32, device)
        wanted = layer(x).bfloat16()
        with torch.autocast(device.type, torch.bfloat16):
            assert [name for name, _ in ranges(lambda: layer(x))] == two_ops(fmt)
            assert torch.equal(layer(x), wanted)

    @each_format
    def test_hands_on_what_has_no_default(self, monkeypatch: pytest.MonkeyPatch, fmt: str) -> None:
        handed: list[dict[str, Any]] = []

        def linear(*arguments: Any, **options: Any) -> Tensor:
            handed.append(options)
            result: Tensor = op(*arguments, **options)
            return result

        monkeypatch.setattr(layer_ops, "_below", layer_ops.OPS._replace(linear=linear))
        x, linear_layer = rows(3, 64, torch.bfloat16), tileon_ops.Linear(64, 40, activation="leaky_relu", slope=0.3)
        layer_of(fmt, fast_accum=False, scale_rounding="floor")(x)
        BlockScaledLinear.from_linear(linear_layer, fmt)(x)
        rounding = {"scale_rounding": "rceil"} if fmt in MX_FORMATS else {}
        assert handed == [{}, {"fast_accum": True, "activation": "leaky_relu", "slope": 0.3, **rounding}]

    @each_format
    def test_makes_two_in_a_compiled_program(self, device: torch.device, fmt: str) -> None:
        """Or one on a GPU: test_inductor.py."""
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).to(device, torch.bfloat16)
        tileon_ops.convert(model, fmt, fast_accum=False, scale_rounding="floor")
        compiled, x = torch.compile(model, fullgraph=True), rows(8, 64, torch.bfloat16, device)
        with torch.no_grad():
            called = [name for name, _ in calls(lambda: compiled(x))]
            assert torch.equal(compiled(x), model(x))
        by_codes = called[1::2] == ["_block_scaled_matmul_compiled"] * 2
        assert by_codes if device.type == "cpu" else (by_codes or called == ["_quantized_linear_compiled"] * 2)

    @each_format
    def test_compiles_inside_of_vmap(self, fmt: str) -> None:
        layer, x = layer_of(fmt), normal(3, 2, 64, dtype=torch.bfloat16, device="cpu")
        compiled = torch.compile(torch.vmap(layer), fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(x), layer(x))
        assert [name for name, _ in ranges(lambda: compiled(x))].count("block_scaled_matmul") == 1

    def test_a_compiled_call_refuses_what_requires_grad(self) -> None:
        layer = layer_of("mxfp8")
        assert layer.bias is not None
        layer.bias.requires_grad_()
        with pytest.raises(RuntimeError, match="`bias` requires grad"):
            torch.compile(layer, backend="aot_eager")(rows(3, 64, torch.bfloat16))

    def test_counts_its_operations_once(self) -> None:
        """A dispatch mode turns the two ops' shortcut off, and sees them."""
        layer, x = layer_of("mxfp4"), rows(3, 64, torch.bfloat16)
        assert flops(lambda: layer(x)) == {"block_scaled_matmul": 2 * 3 * 64 * 40}
        of = weight("mxfp4", 40, 64)
        assert flops(lambda: ops._quantized_linear(*of.operands(x))) == {"_quantized_linear": 2 * 3 * 64 * 40}
