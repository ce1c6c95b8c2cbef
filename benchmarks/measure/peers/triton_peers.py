"""The peers in Triton: a matrix product with a fused leaky_relu, and a block-scaled one by `tl.dot_scaled`, both with
grouped tile order, after the ideas of Triton's tutorials. Needs a GPU to import usefully.

The first masks its bounds, so any size works, and reads both operands through their strides. The second reads scales as
they are, (rows, k / vec). Each is timed in the quickest of its configurations.
"""

# mypy: disable-error-code="import-untyped, untyped-decorator, no-untyped-def"
# (Triton reads the kernel's signature its own way)

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import triton
import triton.language as tl

BLOCK_K = 128  # k of a block-scaled product must be a multiple: with no mask in the loop the peer is fastest
_GROUP_M = 8
_ELEMENTS = {torch.uint8: ("e2m1", 2), torch.float8_e4m3fn: ("e4m3", 1)}  # Triton's name, and how many in a byte
_BENCH = {"warmup": 10, "rep": 40}  # ms: Triton's own 25 + 100 for each configuration would be most of a benchmark

Call = Callable[[], torch.Tensor]
Config = tuple[int, int, int, int, int]  # block_m, block_n, block_k, warps, stages

# Few on purpose: each is compiled for each dtype and activation or format, and tried on each size. From the tiles for
# the largest products to those for the smallest.
_MATMUL_CONFIGS: tuple[Config, ...] = (
    (128, 256, 64, 8, 3),
    (256, 128, 64, 8, 3),
    (128, 128, 64, 4, 4),
    (128, 128, 64, 8, 3),
    (128, 64, 32, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 32, 64, 4, 5),
)
_BLOCK_SCALED_CONFIGS: tuple[Config, ...] = (
    (128, 256, BLOCK_K, 8, 3),
    (128, 256, BLOCK_K, 8, 2),
    (256, 128, BLOCK_K, 8, 3),
    (128, 128, BLOCK_K, 8, 4),
    (128, 128, BLOCK_K, 8, 3),
    (128, 128, BLOCK_K, 4, 3),
    (128, 64, BLOCK_K, 4, 4),
)


@triton.jit
def _tile(m, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    # Grouped order: GROUP_M rows of tiles are walked column by column, so that what is in flight shares operands in L2.
    program = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    group = program // (GROUP_M * tiles_n)
    rows_in_group = min(tiles_m - group * GROUP_M, GROUP_M)
    tile_m = group * GROUP_M + (program % (GROUP_M * tiles_n)) % rows_in_group
    tile_n = (program % (GROUP_M * tiles_n)) // rows_in_group
    return tile_m * BLOCK_M + tl.arange(0, BLOCK_M), tile_n * BLOCK_N + tl.arange(0, BLOCK_N)


# Rows past the end of an operand wrap round to valid ones: what they add lands in rows that the store masks away.
@triton.jit
def _matmul_kernel(
    a_pointer, b_pointer, out_pointer, m, n, k, a_stride_m, a_stride_k, b_stride_k, b_stride_n, out_stride_m, slope,
    LEAKY_RELU: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    rows, columns = _tile(m, n, BLOCK_M, BLOCK_N, GROUP_M)
    depth = tl.arange(0, BLOCK_K)
    a = a_pointer + (rows % m)[:, None] * a_stride_m + depth[None, :] * a_stride_k  # [block_m][block_k]
    b = b_pointer + depth[:, None] * b_stride_k + (columns % n)[None, :] * b_stride_n  # [block_k][block_n]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        a_tile = tl.load(a, mask=depth[None, :] < k - start, other=0.0)
        b_tile = tl.load(b, mask=depth[:, None] < k - start, other=0.0)
        total = tl.dot(a_tile, b_tile, total)
        a += BLOCK_K * a_stride_k
        b += BLOCK_K * b_stride_k
    if LEAKY_RELU:
        total = tl.where(total >= 0, total, slope * total)
    out = out_pointer + rows[:, None] * out_stride_m + columns[None, :]
    tl.store(out, total.to(out_pointer.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def _block_scaled_kernel(
    a_pointer, b_pointer, scale_a_pointer, scale_b_pointer, out_pointer, m, n, k, a_row, b_row, scale_row,
    A_FORMAT: tl.constexpr, B_FORMAT: tl.constexpr, A_PER_BYTE: tl.constexpr, B_PER_BYTE: tl.constexpr,
    VEC: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    rows, columns = _tile(m, n, BLOCK_M, BLOCK_N, GROUP_M)
    a_depth = tl.arange(0, BLOCK_K // A_PER_BYTE)
    b_depth = tl.arange(0, BLOCK_K // B_PER_BYTE)
    scale_depth = tl.arange(0, BLOCK_K // VEC)
    a_rows, b_rows = rows % m, columns % n
    a = a_pointer + a_rows[:, None] * a_row + a_depth[None, :]  # [block_m][block_k / a_per_byte]
    b = b_pointer + b_depth[:, None] + b_rows[None, :] * b_row  # [block_k / b_per_byte][block_n]
    scale_a = scale_a_pointer + a_rows[:, None] * scale_row + scale_depth[None, :]  # [block_m][block_k / vec]
    scale_b = scale_b_pointer + b_rows[:, None] * scale_row + scale_depth[None, :]  # [block_n][block_k / vec]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, k, BLOCK_K):
        total = tl.dot_scaled(tl.load(a), tl.load(scale_a), A_FORMAT, tl.load(b), tl.load(scale_b), B_FORMAT, total)
        a += BLOCK_K // A_PER_BYTE
        b += BLOCK_K // B_PER_BYTE
        scale_a += BLOCK_K // VEC
        scale_b += BLOCK_K // VEC
    out = out_pointer + rows[:, None].to(tl.int64) * n + columns[None, :]
    tl.store(out, total.to(out_pointer.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))


def matmul_call(a: torch.Tensor, b: torch.Tensor, activation: str, slope: float) -> Call:
    """a: (m, k), b: (k, n), both float16 or bfloat16 on one GPU; the call returns (m, n), contiguous, in their dtype.

    The float32 sum is activated, by leaky_relu or none, then rounded once.
    """
    (m, k), n = a.shape, b.shape[1]

    def call(config: Config) -> torch.Tensor:
        out = torch.empty((m, n), dtype=a.dtype, device=a.device)
        strides = (*a.stride(), *b.stride(), out.stride(0))
        _launch(_matmul_kernel, config, (a, b, out), (m, n, k), *strides, slope, LEAKY_RELU=activation == "leaky_relu")
        return out

    return _quickest(call, _MATMUL_CONFIGS)


def block_scaled_call(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> Call:
    """(a * scale_a) @ (b * scale_b)^T of contiguous operands (cases.py), k a multiple of BLOCK_K, with float32 sums:
    the call returns (m, n), contiguous, float16. Scales in e4m3 only where the GPU has the instruction."""
    (a_format, a_per_byte), (b_format, b_per_byte) = _ELEMENTS[a.dtype], _ELEMENTS[b.dtype]
    m, n, k = a.shape[0], b.shape[0], a.shape[1] * a_per_byte
    formats = {"A_FORMAT": a_format, "B_FORMAT": b_format, "A_PER_BYTE": a_per_byte, "B_PER_BYTE": b_per_byte}

    def call(config: Config) -> torch.Tensor:
        out = torch.empty((m, n), dtype=torch.float16, device=a.device)
        tensors, strides = (a, b, scale_a, scale_b, out), (a.stride(0), b.stride(0), scale_a.stride(0))
        _launch(_block_scaled_kernel, config, tensors, (m, n, k), *strides, VEC=k // scale_a.shape[1], **formats)
        return out

    return _quickest(call, _BLOCK_SCALED_CONFIGS)


def _launch(kernel, config: Config, tensors, shape: tuple[int, int, int], *arguments, **constants) -> None:
    block_m, block_n, block_k, warps, stages = config
    tiles = (triton.cdiv(shape[0], block_m) * triton.cdiv(shape[1], block_n),)
    constants |= {"BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": _GROUP_M}
    kernel[tiles](*tensors, *shape, *arguments, **constants, num_warps=warps, num_stages=stages)


def _quickest(call: Callable[[Config], torch.Tensor], configs: tuple[Config, ...]) -> Call:
    """The call in the configuration of the least median time. Not `triton.autotune`: that ends at the first
    configuration which a compiler pass refuses."""
    milliseconds: dict[Config, float] = {}
    said = ""
    for config in configs:
        try:
            milliseconds[config] = triton.testing.do_bench(partial(call, config), return_mode="median", **_BENCH)
        except Exception as error:  # out of shared memory, a pass that fails, ptxas: each has a class of its own
            said = str(error)
    if not milliseconds:
        raise RuntimeError(f"Triton: no configuration compiles and runs, the last one: {said}")
    return partial(call, min(milliseconds, key=milliseconds.__getitem__))
