"""tileon_ops.BlockScaledLinear under torch.compile and torch.export."""

from __future__ import annotations

import io

import pytest
import torch
from layers import each_format, each_mode, fresh_compiler  # noqa: F401
from operands import normal
from torch import nn
from torch._export.serde import serialize

import tileon_ops
from tileon_ops import BlockScaledLinear


class TestCompilers:
    @each_format
    @each_mode
    def test_compiles_as_a_whole(self, device: torch.device, fmt: str, weight_only: bool) -> None:
        options = {"weight_only": weight_only}
        model = nn.Sequential(
            BlockScaledLinear.from_linear(tileon_ops.Linear(64, 96, activation="relu", device=device), fmt, **options),
            BlockScaledLinear.from_linear(nn.Linear(96, 10, device=device), fmt, **options),
        )
        compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
        for shape in ((3, 64), (5, 64), (200, 64)):
            x = normal(*shape, dtype=torch.float32, device=device)
            assert torch.equal(compiled(x), model(x))

    def test_compiles_under_autocast(self, device: torch.device) -> None:
        layer = BlockScaledLinear.from_linear(nn.Linear(64, 10, device=device), "mxfp8")
        x = normal(3, 64, dtype=torch.float32, device=device)
        with torch.autocast(device.type, torch.bfloat16):
            y = torch.compile(layer, fullgraph=True, backend="aot_eager")(x)
            assert y.dtype == torch.bfloat16
            assert torch.equal(y, layer(x))

    @each_format
    @each_mode
    @pytest.mark.parametrize("strict", [False, True], ids=["", "strict"])
    def test_one_exported_program_for_all_numbers_of_rows(
        self, device: torch.device, fmt: str, weight_only: bool, strict: bool
    ) -> None:
        layer = BlockScaledLinear.from_linear(nn.Linear(64, 10, device=device), fmt, weight_only=weight_only)
        x = normal(3, 64, dtype=torch.float32, device=device)
        rows = torch.export.Dim("rows", min=2)
        program = torch.export.export(layer, (x,), dynamic_shapes=({0: rows},), strict=strict)
        modules = [program.module(), program.run_decompositions().module()]
        if layer.scale.dtype in serialize._TORCH_TO_SERIALIZE_DTYPE:  # torch 2.11 has no file format for e8m0
            file = io.BytesIO()
            torch.export.save(program, file)
            file.seek(0)
            modules.append(torch.export.load(file).module())
        for module in modules:
            for count in (2, 3, 128, 129, 300):
                x = normal(count, 64, dtype=torch.float32, device=device)
                assert torch.equal(module(x), layer(x))

    @pytest.mark.parametrize(("fewest", "most"), [(2, 128), (129, 500)])
    def test_a_program_for_a_range_of_rows(self, device: torch.device, fewest: int, most: int) -> None:
        layer = BlockScaledLinear.from_linear(nn.Linear(64, 10, device=device), "mxfp8")
        rows = torch.export.Dim("rows", min=fewest, max=most)
        x = normal(fewest + 5, 64, dtype=torch.float32, device=device)
        program = torch.export.export(layer, (x,), dynamic_shapes=({0: rows},))
        for count in (fewest, most):
            x = normal(count, 64, dtype=torch.float32, device=device)
            assert torch.equal(program.module()(x), layer(x))
