"""`tileon_ops.QuantizedTensor`: codes, scales, format and global scale of one operand, kept together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tileon_ops._rules.fake.quantize import IMPLEMENTATIONS
from tileon_ops._rules.required import check_tensors
from tileon_ops.ops.quantization import dequantize, nvfp4_global_scale, quantize

_NAME = "QuantizedTensor"

# Formats whose columns, read as rows, are of the same format.
_TRANSPOSABLE = ("fp8_tensor", "fp8_128x128", "int8_tensor")


def _like(tensor: Tensor) -> Tensor:
    """For checks of dtype and shape alone: no memory."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


class QuantizedTensor:
    """An operand of (rows, k) that `tileon_ops.block_scaled_matmul` takes in the place of codes and scales.

    Attributes:
        data: the codes, as `tileon_ops.quantize` makes them.
        scale: their scales, packed or 2-D.
        format: a name that `tileon_ops.quantize` takes.
        global_scale: float32, one element or, one a row, (rows, 1); None for 1. nvfp4 alone has one.

    Raises:
        RuntimeError: "QuantizedTensor: ...", where data, scale, format and global scale do not fit together.
    """

    __slots__ = ("data", "format", "global_scale", "scale")

    def __init__(self, data: Tensor, scale: Tensor, format: str, global_scale: Tensor | None = None) -> None:
        check_tensors(_NAME, {"data": data, "scale": scale}, {"global_scale": global_scale})
        for name, tensor in (("scale", scale), ("global_scale", global_scale)):
            if tensor is not None and tensor.device != data.device:
                raise RuntimeError(
                    f"{_NAME}: `{name}` must be on the device of `data`, {data.device}, got {tensor.device}"
                )
        try:
            IMPLEMENTATIONS["dequantize"](
                _like(data), _like(scale), format, None if global_scale is None else _like(global_scale)
            )
        except RuntimeError as error:
            raise RuntimeError(str(error).replace("dequantize:", f"{_NAME}:", 1)) from None
        self.data, self.scale, self.format, self.global_scale = data, scale, format, global_scale

    @classmethod
    def quantize(
        cls, x: Tensor, format: str, *, scale_rounding: str = "floor", per_row: bool = False
    ) -> QuantizedTensor:
        """`x`, (rows, k) of float32, float16 or bfloat16, in a format of `tileon_ops.quantize`.

        The global scale of nvfp4 is found from `x`: one for the tensor or, with `per_row`, one for each row.
        """
        global_scale = None
        if format == "nvfp4":
            global_scale = nvfp4_global_scale(x, per_row=True) if per_row else nvfp4_global_scale(x)
        return cls(*quantize(x, format, global_scale, scale_rounding=scale_rounding), format, global_scale)

    def dequantize(self, out_dtype: torch.dtype | None = None) -> Tensor:
        """The numbers, (rows, k), float32 unless told; `tileon_ops.dequantize` says how they are rounded."""
        return dequantize(self.data, self.scale, self.format, self.global_scale, out_dtype=out_dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and k of the numbers, not of the bytes that hold them."""
        rows, columns = self.data.shape
        is_fp4 = self.format in ("mxfp4", "nvfp4")
        return rows, columns * 2 if is_fp4 else columns

    @property
    def dtype(self) -> torch.dtype:
        """Of the codes."""
        return self.data.dtype

    @property
    def device(self) -> torch.device:
        return self.data.device

    @property
    def nbytes(self) -> int:
        """Of codes, scales and global scale."""
        return sum(tensor.nbytes for tensor in self.state_dict().values())

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> QuantizedTensor:
        """The same on another device."""
        moved = {name: tensor.to(device, non_blocking=non_blocking) for name, tensor in self.state_dict().items()}
        return self.from_state_dict(moved, self.format)

    def t(self) -> QuantizedTensor:
        """The transposed operand, a view: of formats whose scales know no rows, or square blocks."""
        if self.format not in _TRANSPOSABLE:
            raise RuntimeError(
                f"{_NAME}: `t()` is for {', '.join(_TRANSPOSABLE)}; the scales of {self.format} run along k, got "
                f"{tuple(self.shape)}: dequantize and quantize anew"
            )
        scale = self.scale.t() if self.scale.dim() == 2 else self.scale
        return QuantizedTensor(self.data.t(), scale, self.format)

    def state_dict(self) -> dict[str, Tensor]:
        """Its tensors by name, as safetensors and torch.save take them; the format is not among them."""
        tensors = {"data": self.data, "scale": self.scale, "global_scale": self.global_scale}
        return {name: tensor for name, tensor in tensors.items() if tensor is not None}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Tensor], format: str) -> QuantizedTensor:
        return cls(state["data"], state["scale"], format, state.get("global_scale"))

    # As bytes, with the dtypes beside them: pickle knows no storage of float8_e8m0fnu.
    def __getstate__(self) -> dict[str, Any]:
        tensors = {name: (_bytes(tensor), tensor.dtype) for name, tensor in self.state_dict().items()}
        return {"format": self.format, "tensors": tensors}

    def __setstate__(self, state: dict[str, Any]) -> None:
        tensors = {name: stored.view(dtype) for name, (stored, dtype) in state["tensors"].items()}
        self.__init__(tensors["data"], tensors["scale"], state["format"], tensors.get("global_scale"))  # type: ignore[misc]

    def __repr__(self) -> str:
        global_scale = "" if self.global_scale is None else f", global_scale {tuple(self.global_scale.shape)}"
        return (
            f"QuantizedTensor({self.format}, shape={tuple(self.shape)}, data {_text(self.data)}, "
            f"scale {_text(self.scale)}{global_scale}, device='{self.device}')"
        )


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor


def _text(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{tuple(tensor.shape)}"
