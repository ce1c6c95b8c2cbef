"""The peer: a matrix product in Triton with grouped tile order and a fused leaky_relu. Needs a GPU to import usefully.

After the idea of Triton's matrix multiplication tutorial, written anew. Bounds are masked, so any size works; both
operands are read through their strides.
"""

# mypy: disable-error-code="import-untyped, untyped-decorator, no-untyped-def"
# (Triton reads the kernel's signature its own way)

from __future__ import annotations

import torch
import triton
import triton.language as tl

# Few on purpose: each row is compiled for each dtype and activation, and tried on each size. From the tiles for the
# largest products to those for the smallest.
_CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8}, num_warps=warps, num_stages=stages)
    for m, n, k, warps, stages in [
        (128, 256, 64, 8, 3),
        (256, 128, 64, 8, 3),
        (128, 128, 64, 4, 4),
        (128, 128, 64, 8, 3),
        (128, 64, 32, 4, 4),
        (64, 64, 64, 4, 4),
        (64, 32, 64, 4, 5),
    ]
]


def _bench(call, quantiles):
    """Milliseconds of one configuration. Triton's own 25 + 100 ms for each would be most of a benchmark's time."""
    return triton.testing.do_bench(call, warmup=10, rep=40, quantiles=quantiles)


@triton.autotune(configs=_CONFIGS, key=["m", "n", "k"], do_bench=_bench)
@triton.jit
def _matmul_kernel(
    a_pointer,
    b_pointer,
    out_pointer,
    m,
    n,
    k,
    a_stride_m,
    a_stride_k,
    b_stride_k,
    b_stride_n,
    out_stride_m,
    slope,
    LEAKY_RELU: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    # Grouped order: GROUP_M rows of tiles are walked column by column, so that what is in flight shares operands in L2.
    program = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BLOCK_M), tl.cdiv(n, BLOCK_N)
    group = program // (GROUP_M * tiles_n)
    rows_in_group = min(tiles_m - group * GROUP_M, GROUP_M)
    tile_m = group * GROUP_M + (program % (GROUP_M * tiles_n)) % rows_in_group
    tile_n = (program % (GROUP_M * tiles_n)) // rows_in_group

    rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    # Rows past the end wrap round to valid ones: what they add lands in rows that the store masks away.
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


def triton_matmul(a: torch.Tensor, b: torch.Tensor, activation: str = "none", slope: float = 0.01) -> torch.Tensor:
    """a: (m, k), b: (k, n), both float16 or bfloat16 on one GPU; returns (m, n), contiguous, in their dtype.

    The float32 sum is activated, then rounded once.

    Raises:
        ValueError: an activation other than none and leaky_relu.
    """
    if activation not in ("none", "leaky_relu"):
        raise ValueError(f"triton_matmul: `activation` must be none or leaky_relu, got {activation!r}")
    m, k = a.shape
    n = b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)

    def grid(config: dict[str, int]) -> tuple[int]:
        return (triton.cdiv(m, config["BLOCK_M"]) * triton.cdiv(n, config["BLOCK_N"]),)

    _matmul_kernel[grid](
        a, b, out, m, n, k, *a.stride(), *b.stride(), out.stride(0), slope, LEAKY_RELU=activation == "leaky_relu"
    )
    return out
