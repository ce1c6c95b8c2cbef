"""`block_scaled_matmul` with operands and scales of any strides and of every dtype that holds the same bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from block_scaled_operands import (
    FORMATS,
    Format,
    Operand,
    constant,
    each_format,
    in_poison,
    multiply,
    pack_scales,
    small_integers,
)
from block_scaled_reference import assert_exact_product
from torch import Tensor

F32 = torch.float32
block_scaled_matmul = torch.ops.tileon.block_scaled_matmul


def strided(values: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The same bytes under other strides and alignments, between poison."""
    for transposed in (False, True):
        name = "stride over rows 1" if transposed else "stride over k 1"
        for offset in (0, 1, 2, 3, 4, 5, 7, 8, 15):
            yield f"{name}, offset {offset}", in_poison(values, transposed=transposed, offset=offset)
        for pad in (1, 2, 3, 4, 8, 13, 16):
            yield f"{name}, pad {pad}", in_poison(values, transposed=transposed, pad=pad)
        for step in (2, 3):
            yield f"{name}, step {step}", in_poison(values, transposed=transposed, step=step, pad=1)


class TestData:
    @each_format
    @pytest.mark.parametrize("side", ["a", "b"])
    def test_any_strides_of_one(self, device: torch.device, side: str, fmt: Format) -> None:
        for rows, others, k in ((67, 64, 96), (128, 40, 128), (1, 16, 32)):
            operand = small_integers(fmt, side, rows, k).to(device)
            other = small_integers(fmt, "b" if side == "a" else "a", others, k, seed=1).to(device)
            a, b = (operand, other) if side == "a" else (other, operand)
            for name, view in strided(operand.bytes()):
                data = {"a": a.data(), "b": b.data(), side: operand.typed(view)}
                actual = block_scaled_matmul(data["a"], data["b"], a.scale_tensor(), b.scale_tensor(), out_dtype=F32)
                assert_exact_product(actual, a, b, f"{rows} rows, k {k}, {name}")

    @each_format
    def test_any_strides_of_both(self, device: torch.device, fmt: Format) -> None:
        a, b = small_integers(fmt, "a", 65, 96).to(device), small_integers(fmt, "b", 66, 96, seed=1).to(device)
        scales = a.scale_tensor("packed"), b.scale_tensor("packed")
        for (name_a, data_a), (name_b, data_b) in itertools.product(
            list(strided(a.bytes()))[::3], list(strided(b.bytes()))[::3]
        ):
            actual = block_scaled_matmul(a.typed(data_a), b.typed(data_b), *scales, out_dtype=F32)
            assert_exact_product(actual, a, b, f"a {name_a}; b {name_b}")

    @each_format
    def test_one_row_for_all(self, device: torch.device, fmt: Format) -> None:
        """Stride 0 over the rows, under scales of their own."""
        a, b = small_integers(fmt, "a", 70, 96).to(device), small_integers(fmt, "b", 131, 96, seed=1).to(device)
        a, b = (replace(x, codes=x.codes[:1].expand_as(x.codes)) for x in (a, b))
        rows_a, rows_b = (x.typed(x.bytes()[:1]).expand(len(x.codes), -1) for x in (a, b))
        assert rows_a.stride(0) == rows_b.stride(0) == 0
        actual = block_scaled_matmul(rows_a, rows_b, a.scale_tensor(), b.scale_tensor(), out_dtype=F32)
        assert_exact_product(actual, a, b)

    @each_format
    def test_one_byte_for_all(self, device: torch.device, fmt: Format) -> None:
        a, b = constant(fmt, "a", 5, 64).to(device), constant(fmt, "b", 6, 64).to(device)
        datas = [x.typed(x.bytes()[:1, :1]).expand(x.bytes().shape) for x in (a, b)]
        assert bool((block_scaled_matmul(*datas, a.scale_tensor(), b.scale_tensor()) == 64).all())

    @each_format
    def test_the_stride_of_a_dimension_of_size_one_is_never_used(self, device: torch.device, fmt: Format) -> None:
        a, b = small_integers(fmt, "a", 1, 64).to(device), small_integers(fmt, "b", 1, 64, seed=1).to(device)
        for stride in (0, 1, 3, 10**12):
            data = [x.typed(x.bytes().as_strided(x.bytes().shape, (stride, 1))) for x in (a, b)]
            actual = block_scaled_matmul(*data, a.scale_tensor(), b.scale_tensor(), out_dtype=F32)
            assert_exact_product(actual, a, b, f"stride {stride}")

    @each_format
    def test_a_large_product_of_awkward_operands(self, device: torch.device, fmt: Format) -> None:
        m, n, k = (1025, 1027, 2080) if device.type == "cuda" else (193, 195, 416)
        a, b = small_integers(fmt, "a", m, k).to(device), small_integers(fmt, "b", n, k, seed=1).to(device)
        data_a, data_b = in_poison(a.bytes(), offset=1), in_poison(b.bytes(), transposed=True, pad=1)
        scales = a.scale_tensor(), b.scale_tensor("packed")
        actual = block_scaled_matmul(a.typed(data_a), b.typed(data_b), *scales, out_dtype=F32)
        assert_exact_product(actual, a, b)


class TestScales:
    @each_format
    @pytest.mark.parametrize("side", ["a", "b"])
    def test_two_dimensional_ones_of_any_strides(self, device: torch.device, side: str, fmt: Format) -> None:
        a, b = small_integers(fmt, "a", 131, 7 * 32).to(device), small_integers(fmt, "b", 66, 7 * 32).to(device)
        operand = a if side == "a" else b
        for name, view in strided(operand.scales):
            scales = {"a": a.scale_tensor(), "b": b.scale_tensor(), side: operand.typed_scale(view)}
            actual = block_scaled_matmul(a.data(), b.data(), scales["a"], scales["b"], out_dtype=F32)
            assert_exact_product(actual, a, b, name)

    @each_format
    @pytest.mark.parametrize("side", ["a", "b"])
    def test_packed_ones_of_any_strides(self, device: torch.device, side: str, fmt: Format) -> None:
        a, b = small_integers(fmt, "a", 131, 7 * 32).to(device), small_integers(fmt, "b", 300, 7 * 32).to(device)
        operand = a if side == "a" else b
        packed = pack_scales(operand.scales)
        for name, view in strided_packed(packed):
            scales = {"a": a.scale_tensor(), "b": b.scale_tensor(), side: operand.typed_scale(view)}
            actual = block_scaled_matmul(a.data(), b.data(), scales["a"], scales["b"], out_dtype=F32)
            assert_exact_product(actual, a, b, name)

    @each_format
    def test_one_scale_a_row_a_block_or_for_all(self, device: torch.device, fmt: Format) -> None:
        rows, k = 133, 5 * fmt.vec
        a, b = small_integers(fmt, "a", rows, k).to(device), small_integers(fmt, "b", 9, k, seed=1).to(device)
        for some in (a.scales[:, :1], a.scales[:1], a.scales[:1, :1]):
            scales = some.expand_as(a.scales)
            actual = block_scaled_matmul(
                a.data(), b.data(), a.typed_scale(some).expand_as(a.scales), b.scale_tensor("packed"), out_dtype=F32
            )
            assert_exact_product(actual, replace(a, scales=scales), b, f"{tuple(some.shape)}")

    @each_format
    def test_an_expanded_packed_tensor(self, device: torch.device, fmt: Format) -> None:
        """The same 128 rows of scales three times: stride 0 over the blocks of rows; and one scale for everything."""
        k = 5 * fmt.vec
        a, b = small_integers(fmt, "a", 384, k).to(device), small_integers(fmt, "b", 9, k, seed=1).to(device)
        block = pack_scales(a.scales[:128])
        for packed, scales in (
            (block.expand(3, -1, -1, -1, -1), a.scales[:128].repeat(3, 1)),
            (block[:1, :1, :1, :1, :1].expand(3, *block.shape[1:]), a.scales[:1, :1].expand_as(a.scales)),
        ):
            actual = block_scaled_matmul(a.data(), b.data(), a.typed_scale(packed), b.scale_tensor(), out_dtype=F32)
            assert_exact_product(actual, replace(a, scales=scales), b)

    @each_format
    def test_what_stands_in_the_padding_never_matters(self, device: torch.device, fmt: Format) -> None:
        for rows, blocks in ((1, 1), (127, 3), (130, 5), (257, 2)):
            k = blocks * fmt.vec
            a, b = small_integers(fmt, "a", rows, k).to(device), small_integers(fmt, "b", rows, k, seed=1).to(device)
            results = [
                block_scaled_matmul(
                    a.data(),
                    b.data(),
                    a.typed_scale(pack_scales(a.scales, padding)),
                    b.typed_scale(pack_scales(b.scales, padding)),
                    out_dtype=F32,
                )
                for padding in (0xFF, 0x7F, 0)
            ]
            assert_exact_product(results[0], a, b, f"{rows} rows, {blocks} blocks")
            assert torch.equal(results[0], results[1])
            assert torch.equal(results[0], results[2])


def strided_packed(packed: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The same five dimensions, kept in memory in other orders, at odd offsets and with gaps."""
    yield "contiguous", packed
    for order in ((1, 0, 2, 3, 4), (0, 1, 3, 2, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3)):
        inverse = [order.index(dim) for dim in range(5)]
        yield f"order {order}", packed.permute(order).contiguous().permute(inverse)
    for offset in (1, 3, 8):
        storage = packed.new_full((packed.numel() + 32,), 0xFF)
        view = storage[offset:][: packed.numel()].view(packed.shape)
        view.copy_(packed)
        yield f"offset {offset}", view
    wide = packed.new_full((*packed.shape[:2], 33, 4, 5), 0xFF)
    view = wide[:, :, :32, :, :4]
    view.copy_(packed)
    yield "gaps", view
    doubled = packed.new_full((*packed.shape, 2), 0xFF)
    doubled[..., 1] = packed
    yield "every other byte", doubled[..., 1]


def spellings(operand: Operand, scales: Tensor) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Data and scale under every dtype that may hold them."""
    datas = [operand.data()]
    if operand.element == "e2m1":
        datas.append(operand.bytes().view(torch.float4_e2m1fn_x2))
    scale_tensors = [operand.typed_scale(scales)]
    if operand.scale == "e8m0":
        scale_tensors.append(scales)
    for data, scale in itertools.product(datas, scale_tensors):
        yield f"{data.dtype}, {scale.dtype}", data, scale


@each_format
@pytest.mark.parametrize("packed", [False, True], ids=["2d", "packed"])
def test_uint8_means_the_same_as_the_dtypes(device: torch.device, packed: bool, fmt: Format) -> None:
    a, b = small_integers(fmt, "a", 67, 160).to(device), small_integers(fmt, "b", 131, 160, seed=1).to(device)
    scales_a, scales_b = (pack_scales(x.scales) if packed else x.scales for x in (a, b))
    for (name_a, data_a, scale_a), (name_b, data_b, scale_b) in itertools.product(
        spellings(a, scales_a), spellings(b, scales_b)
    ):
        actual = block_scaled_matmul(data_a, data_b, scale_a, scale_b, out_dtype=F32)
        assert_exact_product(actual, a, b, f"a {name_a}; b {name_b}")


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if "e2m1" in (fmt.a, fmt.b)], ids=str)
def test_float4_of_any_strides(device: torch.device, fmt: Format) -> None:
    """float4_e2m1fn_x2 has no copy in torch: strided ones must be copied by other means."""
    a, b = small_integers(fmt, "a", 67, 160).to(device), small_integers(fmt, "b", 131, 160, seed=1).to(device)
    for options in ({"transposed": True}, {"offset": 1}, {"step": 2}, {"pad": 3}):
        datas = [in_poison(x.bytes(), **options) for x in (a, b)]  # type: ignore[arg-type]
        datas = [
            data.view(torch.float4_e2m1fn_x2) if x.element == "e2m1" else x.typed(data)
            for x, data in zip((a, b), datas, strict=True)
        ]
        actual = block_scaled_matmul(*datas, a.scale_tensor(), b.scale_tensor(), out_dtype=F32)
        assert_exact_product(actual, a, b, str(options))
    rows = a.bytes()[:1]
    rows = rows.view(torch.float4_e2m1fn_x2) if a.element == "e2m1" else a.typed(rows)
    same = replace(a, codes=a.codes[:1].expand_as(a.codes))
    actual = block_scaled_matmul(rows.expand(67, -1), b.data(), a.scale_tensor(), b.scale_tensor(), out_dtype=F32)
    assert_exact_product(actual, same, b, "stride 0")
    assert_exact_product(multiply(same, b, out_dtype=F32), same, b)
