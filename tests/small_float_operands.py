"""Operands of quantize and its companions, in storages whose every other byte is 0xFF.

0xFF is NaN in every float type and in both scale types: an op that reads outside its operand shows it.
"""

from __future__ import annotations

import torch
from operands import Device, normal
from small_float_reference import BYTE, NVFP4, Format
from torch import Tensor

MARGIN = 64  # bytes on either side
X_DTYPES = (torch.float32, torch.float16, torch.bfloat16)

# What `laid_out` takes, by name.
LAYOUTS: dict[str, dict[str, object]] = {
    "contiguous": {},
    "odd offset": {"offset": 1},
    "offset of three, odd lines": {"offset": 3, "pad": 1},
    "lines apart": {"pad": 16},
    "transposed": {"reverse": True},
    "transposed, odd": {"reverse": True, "offset": 1, "pad": 3},
    "step 2": {"step": 2},
    "step 3, transposed": {"step": 3, "reverse": True},
}


def laid_out(values: Tensor, *, reverse: bool = False, step: int = 1, pad: int = 0, offset: int = 0) -> Tensor:
    """A copy of `values` with other strides.

    `reverse`: the first dimension is the fastest; `step`: elements between neighbours along the fastest; `pad`: unused
    elements behind each line of the fastest; `offset`: elements before the first.
    """
    order = range(values.dim()) if reverse else reversed(range(values.dim()))
    strides, stride = [0] * values.dim(), step
    for place, dim in enumerate(order):
        strides[dim] = stride
        stride = stride * max(values.shape[dim], 1) + (pad if place == 0 else 0)
    itemsize = values.element_size()
    storage = torch.full((2 * MARGIN + (offset + stride) * itemsize,), 0xFF, dtype=BYTE, device=values.device)
    kind = values.dtype if itemsize > 1 else BYTE  # bytes are copied as such: float4 has no copy kernel
    view = storage.view(kind).as_strided(values.shape, strides, MARGIN // itemsize + offset)
    view.copy_(values if itemsize > 1 else values.view(BYTE))
    return view if itemsize > 1 else view.view(values.dtype)


def as_data(codes_or_pairs: Tensor, dtype: torch.dtype, device: Device) -> Tensor:
    """Bytes of the oracle as an operand on a device."""
    return codes_or_pairs.to(device).view(dtype)


def random_bytes(*shape: int, seed: int = 0, below: int = 256) -> Tensor:
    generator = torch.Generator()
    generator.manual_seed(seed)
    return torch.randint(below, shape, generator=generator, dtype=torch.int64).to(BYTE)


def random_data(form: Format, rows: int, k: int, *, seed: int = 0) -> Tensor:
    """Every code may occur, NaN too."""
    return random_bytes(rows, k // form.per_byte, seed=seed)


def wide_values(
    rows: int, k: int, dtype: torch.dtype = torch.float32, device: Device = "cpu", *, seed: int = 0
) -> Tensor:
    """Values whose blocks of 16 differ by many binades, some of them subnormal, zero, infinite or NaN."""
    generator = torch.Generator()
    generator.manual_seed(seed)
    reach = {torch.float16: 12, torch.bfloat16: 120, torch.float32: 120}[dtype]
    exponents = torch.randint(-reach, reach, (rows, max(k // 16, 1)), generator=generator)
    kinds = torch.randint(12, exponents.shape, generator=generator)
    exponents = exponents.repeat_interleave(16, 1)[:, :k]
    kinds = kinds.repeat_interleave(16, 1)[:, :k]
    values = normal(rows, k, dtype=torch.float32, device="cpu", seed=seed).double() * torch.exp2(exponents.double())
    values = torch.where(kinds == 0, values * 0.0, values)
    values = torch.where(kinds == 1, values * 2.0**-140, values)
    rare = torch.rand(rows, k, generator=generator) < 0.02
    values = torch.where((kinds == 2) & rare, torch.inf, values)
    values = torch.where((kinds == 3) & rare, torch.nan, values)
    return values.to(dtype).to(device)


def global_scales(form: Format, device: Device) -> tuple[Tensor | None, ...]:
    """None, and where the format takes one: 0-D and (1,), a power of two and not."""
    if form is not NVFP4:
        return (None,)
    values = (0.25, 0.0123, 3.7e-5, -0.5)
    return (None, *(torch.tensor(value, device=device) for value in values), torch.tensor([17.3], device=device))


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
