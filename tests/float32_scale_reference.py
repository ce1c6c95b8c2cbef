"""An oracle for the formats with float32 scales, in NumPy: it shares nothing with csrc.

Codes of e4m3 are looked up in the table of tests/small_float_reference.py, in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from small_float_reference import BYTE, E4M3, E4M3_VALUES, assert_same_bits, nearest_code
from torch import Tensor

SMALLEST_SCALE = np.float32(2.0**-126)
LARGEST_SCALE = np.nextafter(np.finfo(np.float32).max / np.float32(127), np.float32(0))  # 127 of it are finite


@dataclass(frozen=True)
class Float32Format:
    name: str
    dtype: torch.dtype
    largest: float
    rows: int | None  # of a block; None: all
    columns: int | None

    def block(self, rows: int, k: int) -> tuple[int, int]:
        return self.rows or max(rows, 1), self.columns or max(k, 1)

    def scale_shape(self, rows: int, k: int) -> tuple[int, int]:
        return (
            1 if self.rows is None else -(-rows // self.rows),
            1 if self.columns is None else -(-k // self.columns),
        )


FLOAT32_FORMATS = (
    Float32Format("fp8_tensor", E4M3, 448.0, None, None),
    Float32Format("fp8_row", E4M3, 448.0, 1, None),
    Float32Format("fp8_1x128", E4M3, 448.0, 1, 128),
    Float32Format("fp8_128x128", E4M3, 448.0, 128, 128),
    Float32Format("int8_row", torch.int8, 127.0, 1, None),
    Float32Format("int8_tensor", torch.int8, 127.0, None, None),
)


def spread(scale: np.ndarray, form: Float32Format, rows: int, k: int) -> np.ndarray:
    """The scale of each element."""
    block_rows, block_columns = form.block(rows, k)
    return scale.repeat(block_rows, 0)[:rows].repeat(block_columns, 1)[:, :k]


def scales_of(x: np.ndarray, form: Float32Format) -> np.ndarray:
    rows, k = x.shape
    block_rows, block_columns = form.block(rows, k)
    scale = np.empty(form.scale_shape(rows, k), np.float32)
    for i, j in np.ndindex(*scale.shape):
        block = np.abs(x[i * block_rows : (i + 1) * block_rows, j * block_columns : (j + 1) * block_columns])
        amax = block.max(initial=np.float32(0))
        if not np.isfinite(block).all():
            scale[i, j] = np.nan
        elif amax == 0:
            scale[i, j] = 1
        else:
            scale[i, j] = np.clip(amax / np.float32(form.largest), SMALLEST_SCALE, LARGEST_SCALE)
    return scale


def expected_quantize(x: Tensor, form: Float32Format) -> tuple[Tensor, Tensor]:
    """Data as bytes, and scales."""
    values = x.detach().cpu().float().numpy()
    scale = scales_of(values, form)
    with np.errstate(invalid="ignore"):
        inverse = spread(np.float32(1) / scale, form, *values.shape)
        usable = ~np.isnan(inverse)
        product = np.where(usable, values, 0) * np.where(usable, inverse, np.float32(1))
    assert product.dtype == np.float32
    if form.dtype == torch.int8:
        codes = torch.from_numpy(np.rint(product.astype(np.float64)).astype(np.int8)).view(BYTE)
    else:
        codes = nearest_code(torch.from_numpy(product.astype(np.float64)), E4M3_VALUES)
    return codes.masked_fill(torch.from_numpy(~usable), 0), torch.from_numpy(scale)


def expected_dequantize(
    data: Tensor, scale: Tensor, form: Float32Format, out_dtype: torch.dtype = torch.float32
) -> Tensor:
    """`data` is bytes, `scale` of the format's own shape."""
    values = data.view(torch.int8).float() if form.dtype == torch.int8 else E4M3_VALUES[data.long()].float()
    factors = spread(scale.numpy(), form, *data.shape)
    with np.errstate(all="ignore"):
        return torch.from_numpy(values.numpy() * factors).to(out_dtype)


def assert_quantized(actual: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor], form: Float32Format) -> None:
    """Shapes, dtypes, strides and bits."""
    data, scale = actual
    assert (data.dtype, scale.dtype) == (form.dtype, torch.float32)
    assert data.is_contiguous()
    assert scale.is_contiguous()
    assert data.shape == expected[0].shape
    assert_same_bits(scale, expected[1], f"{form.name}: scale")
    bad = (data.view(BYTE).cpu() != expected[0]).nonzero()
    assert len(bad) == 0, f"{form.name}: {len(bad)} codes of {tuple(data.shape)} differ, first at {bad[0].tolist()}"
