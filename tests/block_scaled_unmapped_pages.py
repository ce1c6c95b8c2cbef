"""Runs `block_scaled_matmul` on operands that end where mapped memory ends; test_block_scaled_gpu.py runs this.

As unmapped_pages.py, in a process of its own. Exit status 77: the driver cannot do this here.
"""

from __future__ import annotations

import ctypes
import itertools
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from block_scaled_operands import FORMATS, SCALE_PAIRS, small_integers  # noqa: E402
from block_scaled_reference import assert_product, expected, product  # noqa: E402
from block_scaled_table import HAS_HOPPER_GPU, TABLE  # noqa: E402
from tile_table import last_config  # noqa: E402
from torch import Tensor  # noqa: E402
from unmapped_pages import CANNOT, GuardedMemory  # noqa: E402

import tileon_ops  # noqa: E402, F401

# Of a few rows of a, whose codes TMA reads in every format: k is shared by several CTAs, and its last stage is partial.
FEW_ROWS = (40, 200, 258)
SHAPES = ((1, 1, 1), (128, 128, 4), (127, 129, 3), (3, 5, 5), (130, 7, 1), (16, 200, 9), (65, 67, 2), FEW_ROWS)
HAS_FEW_ROWS = HAS_HOPPER_GPU and any(row.takes_few_rows for row in TABLE)
OUT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn)


def at_the_end(memory: GuardedMemory, values: Tensor, transposed: bool = False) -> Tensor:
    """The same tensor in the last bytes of the memory; `values` has one byte an element, or is 1-D."""
    lines = values.t() if transposed else values
    flat = memory.last(lines.numel(), values.dtype)
    flat.copy_(lines.reshape(-1))
    view = flat.view(lines.shape)
    return view.t() if transposed else view


def main() -> int:
    torch.cuda.init()
    torch.zeros(1, device="cuda")  # makes the context current
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        print("no libcuda.so.1 here")
        return CANNOT
    memory_a, memory_b, memory_scale_a, memory_scale_b, memory_bias, memory_factor, memory_out = (
        GuardedMemory(driver) for _ in range(7)
    )
    count = 0
    for fmt, (m, n, blocks), forms in itertools.product(FORMATS, SHAPES, SCALE_PAIRS):
        k = blocks * fmt.vec
        a, b = small_integers(fmt, "a", m, k).to("cuda"), small_integers(fmt, "b", n, k, seed=1).to("cuda")
        total = product(a, b)
        scales = [
            x.typed_scale(at_the_end(memory, x.scale_tensor(form).view(torch.uint8)))
            for x, form, memory in zip((a, b), forms, (memory_scale_a, memory_scale_b), strict=True)
        ]
        bias = at_the_end(memory_bias, torch.arange(float(n), device="cuda"))
        factor = at_the_end(memory_factor, torch.full((1,), 0.5, device="cuda"))
        for out_dtype, transposed in itertools.product(OUT_DTYPES, (False, True)):
            data = [
                x.typed(at_the_end(memory, x.bytes(), transposed))
                for x, memory in zip((a, b), (memory_a, memory_b), strict=True)
            ]
            out = memory_out.last(m * n, out_dtype).view(m, n)
            torch.ops.tileon.block_scaled_matmul.out(*data, *scales, bias, factor, out_dtype=out_dtype, out=out)
            torch.cuda.synchronize()
            if HAS_FEW_ROWS and (m, n, blocks) == FEW_ROWS and not transposed:
                assert last_config().family == "small_m"
            wanted = expected(total, bias, factor, out_dtype=out_dtype)
            assert_product(out, wanted, f"{fmt} {m}x{n}x{k} {forms} -> {out_dtype}, transposed {transposed}")
            count += 1
    print(f"{count} products at the end of mapped memory")
    return 0


if __name__ == "__main__":
    sys.exit(main())
