"""The small set of block-scaled and fp8 products for compute-sanitizer, as test_sanitizer.py has it for the others.

Every tensor is an allocation of its own without room to spare, and the oracle runs on the CPU.
"""

from __future__ import annotations

import pytest
import torch
from block_scaled_operands import (
    MXFP4,
    MXFP8,
    NVFP4,
    SCALE_FORMS,
    Format,
    Operand,
    each_format,
    small_integers,
)
from block_scaled_reference import assert_exact_product, assert_product, documented_bound, expected, product
from block_scaled_table import HAS_HOPPER_GPU, NO_HOPPER_GPU, TABLE, BlockScaledRow, each_block_scaled_row
from operands import integers, place
from reference import assert_exact
from torch import Tensor

pytestmark = [pytest.mark.gpu, pytest.mark.sanitizer]

F32 = torch.float32


def on_gpu(a: Operand, b: Operand, forms: tuple[str, str]) -> tuple[Tensor, ...]:
    pair = (a, b)
    scales = [x.scale_tensor(form) for x, form in zip(pair, forms, strict=True)]
    return tuple(t.cuda() for t in (*(x.data() for x in pair), *scales))


PORTABLE_ROWS = [row for row in TABLE if not row.is_hopper]
HOPPER_ROWS = [row for row in TABLE if row.is_hopper]
OF_64_ROWS = [row for row in HOPPER_ROWS if row.tile[:2] == (64, 64) or (row.takes_few_rows and row.tile[0] == 64)]


def check(row: BlockScaledRow, forms: tuple[str, str]) -> None:
    tile_m, tile_n, block_k = row.tile
    k = 2 * block_k + row.k_step
    a = small_integers(row.fmt, "a", tile_m + 1, k)
    b = small_integers(row.fmt, "b", tile_n + 3, k, seed=1)
    assert_exact_product(row.run_on(*on_gpu(a, b, forms), out_dtype=F32).cpu(), a, b)


@each_block_scaled_row(PORTABLE_ROWS)
@pytest.mark.parametrize("forms", [("2d", "packed"), ("packed", "2d")], ids="-".join)
def test_every_row(row: BlockScaledRow, forms: tuple[str, str]) -> None:
    check(row, forms)


# Of those that decode the weight, one of each format: test_hopper_block_weights.py has the others.
@each_block_scaled_row([row for row in HOPPER_ROWS if not row.decodes_weight or row.tile[0] == 64])
def test_every_hopper_row(row: BlockScaledRow) -> None:
    """The forms of scales in turn."""
    check(row, row.scale_forms[row.index % len(row.scale_forms)])


@each_block_scaled_row([row for row in HOPPER_ROWS if row.takes_few_rows and row.tile[0] in (8, 64)])
def test_few_rows_of_a(row: BlockScaledRow) -> None:
    """k on one CTA or shared, one of them with nothing to do; scales that TMA copies, and scales that threads do."""
    m, n, k = {8: 5, 64: 40}[row.tile[0]], 200, 544
    a, b = small_integers(row.fmt, "a", m, k), small_integers(row.fmt, "b", n, k, seed=1)
    for form in SCALE_FORMS:
        actual = row.run_on(*on_gpu(a, b, (form, form)), out_dtype=F32)
        assert_exact_product(actual.cpu(), a, b, form)


@each_block_scaled_row([row for row in OF_64_ROWS if row.fmt.name in ("mxfp4", "mxfp8")])
def test_what_a_hopper_row_does_not_hold(row: BlockScaledRow) -> None:
    """Scales too far apart for int8; for bfloat16 e4m3 under the smallest, which is computed anew."""
    a, b = small_integers(row.fmt, "a", 70, 96), small_integers(row.fmt, "b", 80, 96, seed=1)
    a.scales[5, :] = torch.tensor([1, 120, 127], dtype=torch.uint8)
    actual = row.run_on(*on_gpu(a, b, ("2d", "2d")), out_dtype=F32).cpu()
    assert_product(actual, expected(product(a, b), out_dtype=F32, bound=documented_bound(96)))


PREPARED = [(MXFP4, "int8"), (MXFP8, "bfloat16"), (NVFP4, "bfloat16")]


@pytest.mark.skipif(not HAS_HOPPER_GPU, reason=NO_HOPPER_GPU)
@pytest.mark.parametrize(("fmt", "form"), PREPARED, ids=[f"{fmt}-{form}" for fmt, form in PREPARED])
def test_a_prepared_weight(fmt: Format, form: str) -> None:
    """Under activations that fit int8, and under others, for which int8 is not enough."""
    a, b = small_integers(fmt, "a", 70, 96), small_integers(fmt, "b", 80, 96, seed=1)
    data_b, scale_b = b.data().cuda(), b.scale_tensor("packed").cuda()
    prepared = torch.ops.tileon._prepare_block_scaled(data_b, scale_b, form=form)

    def multiplied() -> Tensor:
        data_a, scale_a = a.data().cuda(), a.scale_tensor().cuda()
        op = torch.ops.tileon._block_scaled_matmul_prepared
        result: Tensor = op(data_a, data_b, scale_a, scale_b, prepared, out_dtype=F32)
        return result.cpu()

    assert_exact_product(multiplied(), a, b)
    if form == "int8":
        a.scales[5, :] = torch.tensor([1, 120, 127], dtype=torch.uint8)
        assert_product(multiplied(), expected(product(a, b), out_dtype=F32, bound=documented_bound(96)))


@each_format
def test_copied_operands_epilogue_and_a_strided_out(fmt: Format) -> None:
    m, n, k = 65, 67, 96
    a, b = small_integers(fmt, "a", m, k), small_integers(fmt, "b", n, k, seed=1)
    bias, factor = torch.arange(float(n)), torch.tensor(0.5)
    data_a, data_b = (x.typed(x.bytes().t().contiguous().cuda().t()) for x in (a, b))
    scale_a = a.typed_scale(a.scales.t().contiguous().cuda().t())
    scale_b = b.scale_tensor("packed").cuda()
    out = place(torch.full((m, n), float("nan"), device="cuda"), transposed=True, step=2, offset=1)
    torch.ops.tileon.block_scaled_matmul.out(
        data_a, data_b, scale_a, scale_b, bias.cuda(), factor.cuda(), activation="relu", out_dtype=F32, out=out.view
    )
    assert_product(out.view.cpu(), expected(product(a, b), bias, factor, activation="relu", out_dtype=F32))
    assert out.margin_is_intact()


@each_format
def test_no_k(fmt: Format) -> None:
    a, b = small_integers(fmt, "a", 5, 0), small_integers(fmt, "b", 7, 0)
    assert not torch.ops.tileon.block_scaled_matmul(*on_gpu(a, b, ("2d", "2d"))).any()


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_fp8_operands(dtype: torch.dtype) -> None:
    m, n, k = 65, 67, 35
    a, b = integers(m, k, dtype=dtype, device="cpu"), integers(k, n, dtype=dtype, device="cpu", seed=1)
    for on_a, on_b in ((a.cuda(), b.cuda()), (a.t().contiguous().cuda().t(), b.t().contiguous().cuda().t())):
        assert_exact(torch.ops.tileon.matmul(on_a, on_b).cpu(), a.double() @ b.double(), torch.float16)
