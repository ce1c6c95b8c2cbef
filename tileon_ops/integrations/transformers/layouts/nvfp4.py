"""nvfp4 weights: two e2m1 codes a byte, an e4m3 scale for 16 of them, and one float32 for the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tileon_ops.integrations.transformers.layouts.encoding import Encoding, Stored, Weight
from tileon_ops.ops.quantization import pack_scales


@dataclass(frozen=True)
class Nvfp4(Encoding):
    """uint8 (N, K / 2), the element of even index in the low half of a byte; e4m3 (N, K / 16); float32, one element.

    Attributes:
        global_scale: the end of the name of the last of these.
        divides: whether that divides the numbers. A layer multiplies, by its reciprocal rounded to float32.
    """

    global_scale: str
    divides: bool

    @property
    def tensors(self) -> tuple[str, ...]:
        return self.data, self.scale, self.global_scale

    def reason_against(self, stored: Mapping[str, Stored]) -> str:
        data, scale, factor = stored[self.data], stored[self.scale], stored[self.global_scale]
        if data.dtype != "U8" or len(data.shape) != 2 or data.shape[1] % 8 != 0:
            return f"{self.data} must be U8 (out_features, in_features / 2), in_features a multiple of 16, got {data}"
        blocks = (data.shape[0], data.shape[1] // 8)
        if scale != ("F8_E4M3", blocks):
            return f"{self.scale} must be F8_E4M3 {blocks}, got {scale}"
        if factor.dtype != "F32" or factor.shape not in ((), (1,), (1, 1)):
            return f"{self.global_scale} must be F32 of one element, got {factor}"
        return ""

    def read(self, tensors: Mapping[str, Tensor]) -> Weight:
        stored = tensors[self.global_scale].to(torch.float32).reshape(())
        factor = stored.reciprocal() if self.divides else stored.clone()
        return Weight(tensors[self.data], pack_scales(tensors[self.scale]), factor)
