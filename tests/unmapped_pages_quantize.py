"""quantize, dequantize and the packing ops on operands that end where mapped memory ends; see unmapped_pages.py.

test_quantize_gpu.py runs this in a process of its own. Exit status 77: the driver cannot do this here.
"""

from __future__ import annotations

import ctypes
import itertools
import sys

import float32_scale_reference
import torch
from float32_scale_reference import FLOAT32_FORMATS
from small_float_operands import X_DTYPES, random_bytes, random_data, wide_values
from small_float_reference import (
    BYTE,
    FORMATS,
    assert_quantized,
    assert_same_bits,
    expected_dequantize,
    expected_quantize,
    pack,
)
from torch import Tensor
from unmapped_pages import CANNOT, GuardedMemory, at_the_end  # puts the package on the path

OPS = torch.ops.tileon

SHAPES = tuple(itertools.product((1, 2, 31, 33, 128, 130), (1, 2, 3, 4, 5, 9)))  # rows, blocks


def bytes_at_the_end(memory: GuardedMemory, values: Tensor, dtype: torch.dtype, transposed: bool = False) -> Tensor:
    return at_the_end(memory, values.cuda(), transposed).view(dtype)


def packed_at_the_end(memory: GuardedMemory, packed: Tensor, dtype: torch.dtype) -> Tensor:
    view = memory.last(packed.numel(), BYTE).view(packed.shape)
    view.copy_(packed)
    return view.view(dtype)


def quantizations(memory: GuardedMemory) -> int:
    count = 0
    for form, dtype, (rows, blocks), transposed in itertools.product(FORMATS, X_DTYPES, SHAPES, (False, True)):
        values = wide_values(rows, blocks * form.vec, dtype, "cuda")
        actual = OPS.quantize(at_the_end(memory, values, transposed), form.name)
        torch.cuda.synchronize()
        assert_quantized(actual, expected_quantize(values, form), f"{form.name} {dtype} {rows}x{blocks} {transposed}")
        count += 1
    return count


def dequantizations(memory_data: GuardedMemory, memory_scale: GuardedMemory) -> int:
    count = 0
    for form, (rows, blocks), transposed in itertools.product(FORMATS, SHAPES, (False, True)):
        data, scale = random_data(form, rows, blocks * form.vec), random_bytes(rows, blocks, seed=1)
        expected = expected_dequantize(data, scale, form)
        given = bytes_at_the_end(memory_data, data, form.data_dtype, transposed)
        for packed in (False, True):
            if packed:
                scales = packed_at_the_end(memory_scale, pack(scale, fill=0xFF), form.scale_dtype)
            else:
                scales = bytes_at_the_end(memory_scale, scale, form.scale_dtype, transposed)
            actual = OPS.dequantize(given, scales, form.name)
            torch.cuda.synchronize()
            assert_same_bits(actual, expected, f"{form.name} {rows}x{blocks} {transposed} {packed}")
            count += 1
    return count


def float32_formats(memory: GuardedMemory, memory_scale: GuardedMemory) -> int:
    count = 0
    for form, dtype, (rows, k) in itertools.product(
        FLOAT32_FORMATS, X_DTYPES, ((1, 1), (3, 144), (130, 157), (2, 5007))
    ):
        for transposed in (False, True):
            values = wide_values(rows, -(-k // 16) * 16, dtype, "cuda")[:, :k]
            expected = float32_scale_reference.expected_quantize(values, form)
            actual = OPS.quantize(at_the_end(memory, values, transposed), form.name)
            torch.cuda.synchronize()
            float32_scale_reference.assert_quantized(actual, expected, form)
            data = bytes_at_the_end(memory, expected[0], form.dtype, transposed)
            scale = at_the_end(memory_scale, expected[1].cuda(), transposed)
            restored = OPS.dequantize(data, scale, form.name)
            torch.cuda.synchronize()
            assert_same_bits(restored, float32_scale_reference.expected_dequantize(*expected, form), form.name)
            count += 2
    return count


def packings(memory: GuardedMemory) -> int:
    count = 0
    for (rows, cols), transposed in itertools.product(SHAPES, (False, True)):
        scale = random_bytes(rows, cols)
        packed = OPS.pack_scales(bytes_at_the_end(memory, scale, BYTE, transposed))
        torch.cuda.synchronize()
        assert torch.equal(packed.cpu(), pack(scale)), f"pack {rows}x{cols} {transposed}"
        plain = OPS.unpack_scales(packed_at_the_end(memory, pack(scale, fill=0xFF), BYTE), rows, cols)
        torch.cuda.synchronize()
        assert torch.equal(plain.cpu(), scale), f"unpack {rows}x{cols}"
        count += 2
    return count


def main() -> int:
    torch.cuda.init()
    torch.zeros(1, device="cuda")  # makes the context current
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        print("no libcuda.so.1 here")
        return CANNOT
    first, second = GuardedMemory(driver), GuardedMemory(driver)
    count = quantizations(first) + dequantizations(first, second) + packings(first) + float32_formats(first, second)
    print(f"{count} calls at the end of mapped memory")
    return 0


if __name__ == "__main__":
    sys.exit(main())
