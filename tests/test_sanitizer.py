"""The small set for compute-sanitizer: every kernel row at an awkward shape, then gather, epilogue, strides, batches.

compute-sanitizer slows a kernel 10 to 100 times, so there are some 60 launches of ours and the oracle runs on the CPU.
Run it with PYTORCH_NO_CUDA_MEMORY_CACHING=1, so that every tensor is an allocation of its own and its end is known to
the tool.
"""

from __future__ import annotations

import pytest
import torch
from operands import LAYOUTS, aligned_pad, config_rows, integers, place
from reference import MATMUL_DTYPES, assert_exact
from test_config_rows import DTYPES, ROWS, run_row, tile_of
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


@pytest.mark.parametrize(("index", "name", "kind"), ROWS)
@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_every_row(index: int, name: str, kind: str, layout: str) -> None:
    dtype = DTYPES[kind]
    tile_m, tile_n, block_k = tile_of(name)
    m, n, k = tile_m + 1, tile_n + 3, 2 * block_k + 5
    a, b = integers(m, k, dtype=dtype, device="cpu"), integers(k, n, dtype=dtype, device="cpu", seed=1)
    on_a = on_gpu(a, transposed=layout[0] == "T", aligned=True)
    on_b = on_gpu(b, transposed=layout[1] == "T", aligned=True)
    actual = run_row(index, name, kind, on_a, on_b)
    assert_exact(actual.cpu(), a.double() @ b.double(), dtype, f"{m}x{n}x{k}")


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


def test_the_set_is_small() -> None:
    rows = sum(len(kinds) for _, _, kinds in config_rows())
    assert 2 * rows + 4 + 4 + 2 * 4 <= 64
