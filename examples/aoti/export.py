"""Writes a package of AOTInductor with two fused layers in it, for main.cpp to load.

python export.py model.pt2 cpu
"""

from __future__ import annotations

import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tileon_ops


class Model(nn.Module):
    """Two layers whose weights are small integers: every sum is exact."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def integers(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randint(-2, 3, shape, generator=generator).float())

        self.up, self.up_bias, self.down = integers(24, 8), integers(24), integers(6, 24)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.leaky_relu(F.linear(x, self.up, self.up_bias), 0.5)
        return F.relu(F.linear(hidden, self.down))


def write_package(path: str, device: str) -> None:
    """A program for any number of rows, its products fused, compiled into `path`."""
    rows = torch.export.Dim("rows", max=4096)
    program = torch.export.export(Model().to(device), (torch.zeros(5, 8, device=device),), dynamic_shapes=({0: rows},))
    torch._inductor.aoti_compile_and_package(tileon_ops.fuse(program), package_path=path)


if __name__ == "__main__":
    write_package(sys.argv[1], sys.argv[2])
