"""The small set for compute-sanitizer: every kernel row at an awkward shape, then gather, epilogue, strides, batches.

compute-sanitizer slows a kernel 10 to 100 times, so there are some 120 launches of ours and the oracle runs on the CPU.
Run it with PYTORCH_NO_CUDA_MEMORY_CACHING=1, so that every tensor is an allocation of its own and its end is known to
the tool.
"""

from __future__ import annotations

import pytest
import torch
from operands import LAYOUTS, aligned_pad, integers, place
from reference import MATMUL_DTYPES, assert_exact
from tile_table import (
    HOPPER_FLOAT8_ROWS,
    HOPPER_FLOAT32_ROWS,
    HOPPER_ROWS,
    NO_HOPPER_ROWS,
    TABLE,
    Row,
    each_row,
    on_hopper,
)
from torch import Tensor

pytestmark = [pytest.mark.gpu, pytest.mark.sanitizer]

matmul = torch.ops.tileon.matmul


def on_gpu(values: Tensor, *, transposed: bool = False, aligned: bool = False) -> Tensor:
    """A copy that is an allocation of its own, without room to spare; `aligned` pads its lines to 16 bytes."""
    lines = values.transpose(-1, -2) if transposed else values
    inner = lines.shape[-1]
    if aligned:
        lines = torch.nn.functional.pad(lines, (0, aligned_pad(inner, values.element_size())))
    moved = lines.contiguous().cuda()[..., :inner]
    return moved.transpose(-1, -2) if transposed else moved


PORTABLE_ROWS = [row for row in TABLE if not row.is_hopper]
# One of each Hopper row, the dtypes in turn.
HOPPER_INSTANCES = [
    *(row for row in HOPPER_ROWS if row.kind == ("float16", "bfloat16")[row.index % 2]),
    *(row for row in HOPPER_FLOAT8_ROWS if row.kind == ("float8_e4m3fn", "float8_e5m2")[row.index % 2]),
    *HOPPER_FLOAT32_ROWS,
]


def check(row: Row, layout: str, m: int, n: int, k: int) -> None:
    a, b = integers(m, k, dtype=row.dtype, device="cpu"), integers(k, n, dtype=row.b_dtype, device="cpu", seed=1)
    on_a = on_gpu(a, transposed=layout[0] == "T", aligned=True)
    on_b = on_gpu(b, transposed=layout[1] == "T", aligned=True)
    actual = row.run(on_a, on_b)
    assert_exact(actual.cpu(), a.double() @ b.double(), row.out_dtype, f"{layout} {m}x{n}x{k}")


@each_row(PORTABLE_ROWS)
def test_every_row(row: Row) -> None:
    tile_m, tile_n, block_k = row.tile
    for layout in row.layouts[::3]:
        check(row, layout, tile_m + 1, tile_n + 3, 2 * block_k + 5)


@each_row(HOPPER_INSTANCES, NO_HOPPER_ROWS)
def test_every_hopper_row(row: Row) -> None:
    """The layouts in turn; every CTA of a split has work, and one has a partial block of k. With the long k of streamed
    rows CTAs share tiles."""
    tile_m, tile_n, block_k = row.tile
    layout = row.layouts[row.index // 2 % len(row.layouts)]
    blocks = 64 if row.config.family == "stream_k" else row.splits + 1
    check(row, layout, tile_m + 1, tile_n + 3, blocks * block_k + 5)


@on_hopper
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_persistent_hopper_kernel_over_several_tiles(layout: str) -> None:
    """More tiles than SMs: the ring and the store's buffers go on from one tile to the next."""
    row = next(row for row in HOPPER_INSTANCES if row.config.family == "cooperative" and row.tile[:2] == (64, 64))
    check(row, layout, 64 * 15, 64 * 10 + 8, 136)


@on_hopper
def test_the_consumers_of_ping_pong_take_turns() -> None:
    """More tiles than SMs: else the second one has none."""
    row = next(row for row in HOPPER_INSTANCES if row.config.family == "pingpong" and row.tile[:2] == (128, 192))
    check(row, "NT", 128 * 12, 192 * 12 + 8, 136)


@each_row(HOPPER_FLOAT32_ROWS[-1:], NO_HOPPER_ROWS)
def test_a_number_that_is_not_three_bfloat16(row: Row) -> None:
    """The portable kernels look at the words that say so, and multiply anew."""
    a, b = integers(70, 130, dtype=torch.float32, device="cpu"), integers(130, 90, dtype=torch.float32, device="cpu")
    a[69, 129] = float("inf")
    actual = row.run(on_gpu(a), on_gpu(b, transposed=True))
    assert torch.equal(actual.cpu().nan_to_num(nan=7.0), (a.double() @ b.double()).float().nan_to_num(nan=7.0))


@pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
def test_unaligned_operands_epilogue_and_a_strided_out(dtype: torch.dtype) -> None:
    m, n, k = 65, 67, 35
    a, b = integers(m, k, dtype=dtype, device="cpu"), integers(k, n, dtype=dtype, device="cpu", seed=1)
    bias = integers(n, dtype=dtype, device="cpu", seed=2)
    out = place(torch.full((m, n), float("nan"), dtype=dtype, device="cuda"), transposed=True, step=2, offset=1)
    matmul.out(on_gpu(a), on_gpu(b, transposed=True), on_gpu(bias), activation="relu", out=out.view)
    assert_exact(out.view.cpu(), (a.double() @ b.double() + bias.double()).relu(), dtype)
    assert out.margin_is_intact()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batched_with_a_shared_operand(layout: str) -> None:
    dtype = torch.bfloat16
    a, b = integers(3, 33, 40, dtype=dtype, device="cpu"), integers(40, 72, dtype=dtype, device="cpu", seed=1)
    actual = matmul(
        on_gpu(a, transposed=layout[0] == "T"), on_gpu(b, transposed=layout[1] == "T"), out_dtype=torch.float32
    )
    assert_exact(actual.cpu(), a.double() @ b.double(), torch.float32)


@pytest.mark.parametrize("dtype", MATMUL_DTYPES, ids=str)
def test_expanded_operands_and_k_of_zero(dtype: torch.dtype) -> None:
    row, b = integers(1, 40, dtype=dtype, device="cpu"), integers(40, 1, dtype=dtype, device="cpu", seed=1)
    actual = matmul(on_gpu(row).expand(66, 40), on_gpu(b).expand(40, 70))
    assert_exact(actual.cpu(), row.double().expand(66, 40) @ b.double().expand(40, 70), dtype)
    empty = matmul(torch.empty(5, 0, dtype=dtype, device="cuda"), torch.empty(0, 7, dtype=dtype, device="cuda"))
    assert not empty.any()


@on_hopper
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_hopper_epilogue_bias_and_batch(dtype: torch.dtype) -> None:
    """By the choice, from aligned operands into an output that TMA can write and into one that it cannot."""
    a, b = integers(2, 72, 136, dtype=dtype, device="cpu"), integers(136, 200, dtype=dtype, device="cpu", seed=1)
    bias = integers(200, dtype=torch.float32, device="cpu", seed=2)
    expected = (a.double() @ b.double() + bias.double()).relu()
    for transposed in (False, True):
        out = torch.full((2, 200, 72) if transposed else (2, 72, 200), float("nan"), dtype=dtype, device="cuda")
        view = out.mT if transposed else out
        matmul.out(on_gpu(a), on_gpu(b), on_gpu(bias), activation="relu", out=view)
        assert_exact(view.cpu(), expected, dtype)
