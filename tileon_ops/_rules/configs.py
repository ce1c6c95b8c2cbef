"""The configs of the GPU's kernels, as the library lists them (csrc/cuda/runtime/backend.h)."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Config:
    """A row of a product's tile table.

    Attributes:
        index: in the table: `config` of the ops that run one config.
        name: as `tileon_ops.last_kernel` says it.
        operands: dtypes, tf32 or block-scaled formats; two with a * between them are those of a and b.
        backend: sm90, Hopper's own kernels; sm80, the portable ones; torch.
        family: of kernels: a Family of the backend's heuristics/config.h.
        route: plain; of fp8 fast, whose sums stay in the tensor core, or promoted; bf16x6, of float32 as three
            bfloat16; of block-scaled products what codes become beforehand (bfloat16, int8, float8), or decoded or
            folded, where the kernel reads codes.
        tile: m and n of an output tile, and the k of a stage; zeros of torch's kernels.
        splits: how many CTAs share a tile's k.
        measured: whether the config has run on hardware.
    """

    index: int
    name: str
    operands: tuple[str, ...]
    backend: str
    family: str
    route: str
    tile: tuple[int, int, int]
    splits: int
    measured: bool


def _read(line: str) -> Config:
    fields = dict(pair.split("=", 1) for pair in line.split())
    m, n, k = map(int, fields["tile"].split("x"))
    return Config(
        index=int(fields["index"]),
        name=fields["name"],
        operands=tuple(fields["operands"].split(",")),
        backend=fields["backend"],
        family=fields["family"],
        route=fields["route"],
        tile=(m, n, k),
        splits=int(fields["splits"]),
        measured=fields["measured"] == "1",
    )


def dense() -> list[Config]:
    """The configs of `matmul`, in the order of the table; none in a library for the CPU alone."""
    return [_read(line) for line in torch.ops.tileon._matmul_configs().splitlines()]


def block_scaled() -> list[Config]:
    """The configs of `block_scaled_matmul`, in the order of the table."""
    return [_read(line) for line in torch.ops.tileon._block_scaled_matmul_configs().splitlines()]


def config_of(kernel: str) -> Config | None:
    """The config that `last_kernel` names, whether operands were copied first or not; None for a kernel of the CPU."""
    name = kernel.partition(" (")[0]
    return next((config for config in (*dense(), *block_scaled()) if config.name == name), None)
