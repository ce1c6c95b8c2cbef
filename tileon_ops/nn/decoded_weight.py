"""What `BlockScaledLinear.weight` gives: a tensor that is decoded when its values are used, and not before.

Models and libraries ask a layer's weight for its dtype, device or shape at every call (transformers' T5 and peft do).
Nothing is decoded for that. Any op on it decodes it anew, and gets a plain tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tileon_ops._rules import torch_private


def weight_of(decode: Callable[[], Tensor], shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of these whose values are those of `decode()`.

    A compiler gets the values: where only the dtype is asked for, it drops them from its graph.
    """
    if torch.compiler.is_compiling() or torch_private.tensor_without_memory is None:
        return decode()
    return DecodedWeight(decode, shape, dtype, device)


class DecodedWeight(Tensor):
    """A weight without memory of its own. Writing to it is an error: what it is decoded of would not change."""

    decoder: Callable[[], Tensor]

    @staticmethod
    def __new__(
        cls, decode: Callable[[], Tensor], shape: tuple[int, int], dtype: torch.dtype, device: torch.device
    ) -> DecodedWeight:
        weight: DecodedWeight = torch_private.tensor_without_memory(cls, shape, dtype=dtype, device=device)
        weight.decoder = decode
        return weight

    def decoded(self) -> Tensor:
        """The values, in memory of their own."""
        return self.decoder()

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # by Tensor itself, not by super(): results are plain tensors
        return Tensor.__torch_function__(func, (), args, kwargs)  # type: ignore[no-untyped-call]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten.detach.default:  # which `.data` is too
            (weight,) = args
            return cls(weight.decoder, tuple(weight.shape), weight.dtype, weight.device)
        if torch_private.is_mutable(func) and _holds_weight((args[:1], tuple(kwargs.values()))):
            raise RuntimeError(
                "BlockScaledLinear: `weight` is decoded from `data` and `scale` and cannot be written; make the layer "
                "anew, by from_linear, or load a state_dict"
            )
        return func(*_decoded(args), **{name: _decoded(value) for name, value in kwargs.items()})

    def numpy(self, *, force: bool = False) -> Any:
        return self.decoded().numpy(force=force)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.decoded()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.decoded().__reduce_ex__(protocol)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"DecodedWeight(shape={tuple(self.shape)}, dtype={self.dtype}, device='{self.device}')"


def _holds_weight(value: Any) -> bool:
    return isinstance(value, DecodedWeight) or (isinstance(value, (list, tuple)) and any(map(_holds_weight, value)))


def _decoded(value: Any) -> Any:
    """An argument of an op with plain tensors in it."""
    if isinstance(value, DecodedWeight):
        return value.decoded()
    return [_decoded(each) for each in value] if isinstance(value, (list, tuple)) else value
