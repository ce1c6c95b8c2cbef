"""Weights of one byte an element under float scales: for blocks of 128 x 128, for rows, or for the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tileon_ops.integrations.transformers.layouts.encoding import FLOATS, Encoding, Stored, Weight

_CODES = {"fp8_128x128": "F8_E4M3", "fp8_row": "F8_E4M3", "int8_row": "I8"}


@dataclass(frozen=True)
class BlockScales(Encoding):
    """e4m3 (N, K) and scales (ceil(N / 128), ceil(K / 128)), which multiply."""

    def reason_against(self, stored: Mapping[str, Stored]) -> str:
        data, scale = stored[self.data], stored[self.scale]
        blocks = tuple(-(-size // 128) for size in data.shape)
        return _against_data(self, data) or _against_scale(self, scale, [blocks])

    def read(self, tensors: Mapping[str, Tensor]) -> Weight:
        return Weight(tensors[self.data], tensors[self.scale].to(torch.float32))


@dataclass(frozen=True)
class RowScales(Encoding):
    """e4m3 or int8 (N, K) and scales (N, 1) or (N,), or one for all, which is that of every row."""

    def reason_against(self, stored: Mapping[str, Stored]) -> str:
        data, scale = stored[self.data], stored[self.scale]
        rows = data.shape[:1]
        return _against_data(self, data) or _against_scale(self, scale, [(*rows, 1), rows, (1,), (), (1, 1)])

    def read(self, tensors: Mapping[str, Tensor]) -> Weight:
        data, scale = tensors[self.data], tensors[self.scale]
        rows = scale.to(torch.float32).reshape(-1, 1).expand(data.shape[0], 1)
        return Weight(data, rows.contiguous())


def _against_data(encoding: Encoding, data: Stored) -> str:
    codes = _CODES[encoding.format]
    if data.dtype != codes or len(data.shape) != 2:
        return f"{encoding.data} must be {codes} (out_features, in_features), got {data}"
    return ""


def _against_scale(encoding: Encoding, scale: Stored, shapes: list[tuple[int, ...]]) -> str:
    if scale.dtype not in FLOATS or scale.shape not in shapes:
        offered = " or ".join(map(str, shapes))
        return f"{encoding.scale} must be {' or '.join(FLOATS)} of the shape {offered}, got {scale}"
    return ""
