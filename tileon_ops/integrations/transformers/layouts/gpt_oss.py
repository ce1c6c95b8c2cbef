"""gpt-oss's mxfp4: the experts of a layer in one tensor, two e2m1 codes a byte, an e8m0 scale for 32 of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tileon_ops.integrations.transformers.layouts.encoding import Encoding, Layout, Stored, Weight, dequantized


@dataclass(frozen=True)
class ExpertBlocks(Encoding):
    """uint8 (experts, rows, K / 32, 16), the element of even index in the low half of a byte, and uint8 exponents
    (experts, rows, K / 32) of OCP MX 1.0: 2^(byte - 127), 255 NaN.

    The parameter is (experts, K, rows), as transformers' model multiplies it from the right.
    """

    @property
    def parameter(self) -> str:
        return ""

    def reason_against(self, stored: Mapping[str, Stored]) -> str:
        data, scale = stored[self.data], stored[self.scale]
        if data.dtype != "U8" or len(data.shape) != 4 or data.shape[3] != 16:
            return f"{self.data} must be U8 (experts, rows, in_features / 32, 16), got {data}"
        if scale != ("U8", data.shape[:3]):
            return f"{self.scale} must be U8 {data.shape[:3]}, got {scale}"
        return ""

    def read(self, tensors: Mapping[str, Tensor]) -> Weight:
        """All experts' rows, one below the other."""
        return Weight(tensors[self.data].flatten(2).flatten(0, 1), tensors[self.scale].flatten(0, 1))

    def decode(self, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> Tensor:
        """Expert by expert, so that no second copy of all of them is made."""
        data, scale = tensors[self.data].flatten(2), tensors[self.scale]
        experts, rows, half = data.shape
        made = torch.empty(experts, 2 * half, rows, dtype=dtype, device=data.device)
        for expert, codes, exponents in zip(made, data, scale, strict=True):
            expert.copy_(dequantized(Weight(codes, exponents), self.format, dtype).t())
        return made


def layout(config: Mapping[str, Any]) -> Layout:
    """Of {"quant_method": "mxfp4"}. Which tensors are quantized is seen by their names."""
    return Layout("mxfp4", (ExpertBlocks("mxfp4", "_blocks", "_scales"),))
