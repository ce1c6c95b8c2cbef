"""Runs the op on operands that end where mapped memory ends; test_gpu.py runs this in a process of its own.

The memory comes from the driver's virtual-memory calls: one granule is mapped and the address range behind it is
reserved but not mapped, so that a read or a write past the end is an error at once (an ordinary allocation rounds its
size up and hides it). Exit status 77: the driver cannot do this here.
"""

from __future__ import annotations

import ctypes
import itertools
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from operands import LAYOUTS, aligned_pad, integers  # noqa: E402
from reference import MATMUL_DTYPES, OUT_DTYPES, assert_exact  # noqa: E402
from tile_table import HAS_HOPPER, HOPPER_ROWS, TABLE  # noqa: E402
from torch import Tensor  # noqa: E402

import tileon_ops  # noqa: E402, F401

CANNOT = 77


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class AllocationProp(ctypes.Structure):
    """CUmemAllocationProp of cuda.h."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("requested_handle_types", ctypes.c_int),
        ("location", Location),
        ("win32_handle_meta_data", ctypes.c_void_p),
        ("alloc_flags", ctypes.c_ubyte * 8),
    ]


class AccessDesc(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


PINNED = 1  # CU_MEM_ALLOCATION_TYPE_PINNED
ON_DEVICE = 1  # CU_MEM_LOCATION_TYPE_DEVICE
READ_WRITE = 3  # CU_MEM_ACCESS_FLAGS_PROT_READWRITE


class GuardedMemory:
    """A mapped granule with nothing mapped behind it."""

    def __init__(self, driver: ctypes.CDLL) -> None:
        location = Location(ON_DEVICE, torch.cuda.current_device())
        prop = AllocationProp(PINNED, 0, location, None)
        granularity = ctypes.c_size_t()
        self._check(driver.cuMemGetAllocationGranularity(ctypes.byref(granularity), ctypes.byref(prop), 0))
        self.size = granularity.value
        address, handle = ctypes.c_uint64(), ctypes.c_uint64()
        size, none = ctypes.c_size_t(self.size), ctypes.c_size_t(0)
        twice = ctypes.c_size_t(2 * self.size)
        self._check(
            driver.cuMemAddressReserve(ctypes.byref(address), twice, none, ctypes.c_uint64(0), ctypes.c_uint64(0))
        )
        self._check(driver.cuMemCreate(ctypes.byref(handle), size, ctypes.byref(prop), ctypes.c_uint64(0)))
        self._check(driver.cuMemMap(address, size, none, handle, ctypes.c_uint64(0)))
        access = AccessDesc(location, READ_WRITE)
        self._check(driver.cuMemSetAccess(address, size, ctypes.byref(access), ctypes.c_size_t(1)))
        self.address = address.value

    @staticmethod
    def _check(status: int) -> None:
        if status != 0:
            print(f"the driver's virtual-memory calls are not available here (status {status})")
            sys.exit(CANNOT)

    def at(self, offset: int, size: int) -> Tensor:
        """The `size` bytes from `offset` on, whether mapped or not."""
        holder = type("Holder", (), {})()
        holder.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (self.address + offset, False),
            "version": 3,
        }
        return torch.as_tensor(holder, device="cuda")

    def last(self, count: int, dtype: torch.dtype) -> Tensor:
        """The last `count` elements as a flat tensor."""
        size = count * dtype.itemsize
        return self.at(self.size - size, size).view(dtype)


def at_the_end(memory: GuardedMemory, values: Tensor, transposed: bool) -> Tensor:
    rows, cols = values.shape[-2:]
    flat = memory.last(values.numel(), values.dtype)
    view = flat.view(*values.shape[:-2], cols, rows).transpose(-1, -2) if transposed else flat.view(values.shape)
    view.copy_(values)
    return view


def aligned_at_the_end(memory: GuardedMemory, values: Tensor, transposed: bool) -> Tensor:
    """The matrix with lines at multiples of 16 bytes, up to the last 16 bytes that the last one reaches into."""
    rows, cols = values.shape
    inner, outer = (rows, cols) if transposed else (cols, rows)
    per_vector = 16 // values.element_size()
    pitch = inner + aligned_pad(inner, values.element_size())
    count = (outer - 1) * pitch + inner
    flat = memory.last(-(-count // per_vector) * per_vector, values.dtype)
    view = flat.as_strided((rows, cols), (1, pitch) if transposed else (pitch, 1))
    view.copy_(values)
    return view


def products_by_the_choice(memories: list[GuardedMemory]) -> int:
    """Every dtype, layout and output, by whichever kernels the op takes."""
    memory_a, memory_b, memory_out, memory_bias = memories
    shapes = (
        (128, 128, 64),
        (127, 129, 63),
        (65, 67, 33),
        (1, 1, 1),
        (3, 5, 129),
        (129, 3, 40),
        (40, 136, 72),
        (16, 16, 8),
        (200, 264, 136),
    )
    count = 0
    for dtype, layout, (m, n, k), batch in itertools.product(MATMUL_DTYPES, LAYOUTS, shapes, ((), (2,))):
        a_values = integers(*batch, m, k, dtype=dtype, device="cuda")
        b_values = integers(*batch, k, n, dtype=dtype, device="cuda", seed=1)
        a = at_the_end(memory_a, a_values, layout[0] == "T")
        b = at_the_end(memory_b, b_values, layout[1] == "T")
        for out_dtype in OUT_DTYPES[dtype]:
            bias = memory_bias.last(n, out_dtype)
            bias.copy_(integers(n, dtype=out_dtype, device="cuda", seed=2))
            nothing = torch.full((*batch, m, n), float("nan"), dtype=out_dtype, device="cuda")
            out = at_the_end(memory_out, nothing, False)
            torch.ops.tileon.matmul.out(a, b, bias, out_dtype=out_dtype, out=out)
            torch.cuda.synchronize()
            expected = a_values.double() @ b_values.double() + bias.double()
            assert_exact(out, expected, out_dtype, f"{dtype} {layout} {m}x{n}x{k} batch {batch} -> {out_dtype}")
            count += 1
    return count


def products_by_every_hopper_row(memory_a: GuardedMemory, memory_b: GuardedMemory) -> int:
    """Small tensors above all: some drivers look at the 128 KiB behind the start of a tensor map's tensor."""
    shapes = ((8, 8, 8), (1, 8, 16), (64, 64, 128), (136, 264, 72), (200, 136, 520), (72, 8, 1032))
    shapes += ((127, 129, 63), (3, 5, 129), (65, 67, 33), (1, 1, 1))
    count = 0
    for row in HOPPER_ROWS if HAS_HOPPER else ():
        for layout, (m, n, k) in itertools.product(LAYOUTS, shapes):
            a_values = integers(m, k, dtype=row.dtype, device="cuda")
            b_values = integers(k, n, dtype=row.dtype, device="cuda", seed=1)
            a = aligned_at_the_end(memory_a, a_values, layout[0] == "T")
            b = aligned_at_the_end(memory_b, b_values, layout[1] == "T")
            actual = row.run(a, b)
            torch.cuda.synchronize()
            assert_exact(actual, a_values.double() @ b_values.double(), row.dtype, f"{row} {layout} {m}x{n}x{k}")
            count += 1
    return count


def products_by_every_narrow_row(memory_a: GuardedMemory, memory_b: GuardedMemory) -> int:
    """Loads of every width, at the last line of each operand."""
    count = 0
    for row in (row for row in TABLE if row.config.family == "narrow"):
        for layout, (m, n, k) in itertools.product(LAYOUTS, ((200, 3, 72), (2, 131, 68), (67, 8, 1026), (1, 1, 1))):
            a_values = integers(m, k, dtype=row.dtype, device="cuda")
            b_values = integers(k, n, dtype=row.b_dtype, device="cuda", seed=1)
            for put in (at_the_end, aligned_at_the_end):
                a, b = put(memory_a, a_values, layout[0] == "T"), put(memory_b, b_values, layout[1] == "T")
                actual = row.run(a, b)
                torch.cuda.synchronize()
                expected = a_values.double() @ b_values.double()
                assert_exact(actual, expected, row.out_dtype, f"{row} {layout} {m}x{n}x{k} {put.__name__}")
                count += 1
    return count


def main() -> int:
    torch.cuda.init()
    torch.zeros(1, device="cuda")  # makes the context current
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        print("no libcuda.so.1 here")
        return CANNOT
    memories = [GuardedMemory(driver) for _ in range(4)]

    if "--prove" in sys.argv:  # shows that a read past the end is an error, as the test relies on
        memories[0].at(memories[0].size - 16, 32).sum().item()
        return 0

    count = products_by_the_choice(memories) + products_by_every_hopper_row(*memories[:2])
    count += products_by_every_narrow_row(*memories[:2])
    print(f"{count} products at the end of mapped memory")
    return 0


if __name__ == "__main__":
    sys.exit(main())
