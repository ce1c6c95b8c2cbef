"""How one quantized weight is stored in a file, and what a layer holds of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from tileon_ops.nn.layer_formats import LAYER_FORMATS, NUMBERS
from tileon_ops.ops.quantization import dequantize

FLOATS = ("F32", "BF16", "F16")  # scales of these are float32 without rounding

_DTYPES = {
    torch.float8_e4m3fn: "F8_E4M3",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
}


class Stored(NamedTuple):
    """A tensor in a file of safetensors: its dtype as written there, and its shape."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} {self.shape}"


class Weight(NamedTuple):
    """A weight as BlockScaledLinear's buffers of these names hold it."""

    data: Tensor
    scale: Tensor
    global_scale: Tensor | None = None


@dataclass(frozen=True)
class Encoding(ABC):
    """A weight and its scales as tensors of a file.

    Attributes:
        format: of BlockScaledLinear, which holds the same codes and scales.
        data: what follows the name of a layer, or of a parameter, in the name of the tensor of codes.
        scale: the same of the scales.
    """

    format: str
    data: str
    scale: str

    @property
    def tensors(self) -> tuple[str, ...]:
        """The ends of the names of all tensors."""
        return self.data, self.scale

    @property
    def parameter(self) -> str:
        """What follows the same name in the name of the parameter that is stored."""
        return ".weight"

    @abstractmethod
    def reason_against(self, stored: Mapping[str, Stored]) -> str:
        """Why these tensors, which are all there, are no weight in this encoding; "" where they are."""

    @abstractmethod
    def read(self, tensors: Mapping[str, Tensor]) -> Weight:
        """The weight (out_features, in_features) for a layer. No code and no scale is rounded."""

    def decode(self, tensors: Mapping[str, Tensor], dtype: torch.dtype) -> Tensor:
        """The numbers as the parameter has them, element times scale in float32, rounded once to `dtype`."""
        data, scale, global_scale = self.read(tensors)
        return dequantized(Weight(data, scale, global_scale), self.format, dtype)

    def fits(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether tensors that have been read are in this encoding."""
        stored = {end: Stored(_DTYPES.get(tensor.dtype, ""), tuple(tensor.shape)) for end, tensor in tensors.items()}
        return set(tensors) == set(self.tensors) and not self.reason_against(stored)


@dataclass(frozen=True)
class Layout:
    """What a checkpoint's config says of its weights.

    Attributes:
        name: for messages.
        encodings: those that its weights may have.
        unused: the ends of the names of tensors beside a weight that are not used.
    """

    name: str
    encodings: tuple[Encoding, ...]
    unused: tuple[str, ...] = ()


def dequantized(weight: Weight, format: str, dtype: torch.dtype) -> Tensor:
    made = dequantize(
        weight.data,
        weight.scale,
        LAYER_FORMATS[format].weight,
        weight.global_scale,
        out_dtype=dtype if dtype in NUMBERS else None,
    )
    return made.to(dtype)


def refuse(setting: str, rule: str, got: object) -> RuntimeError:
    return RuntimeError(f"TileonConfig: the checkpoint's `{setting}` must be {rule}, got {got!r}")
