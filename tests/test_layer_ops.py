"""A `BlockScaledLinear` calls its ops past autograd where nothing there has a say in them, and only there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
import torch
from layers import FORMATS, each_format, each_mode
from operands import normal
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tileon_ops import BlockScaledLinear
from tileon_ops.nn import layer_ops

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "grad": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}


def layer_of(fmt: str, weight_only: bool, device: torch.device | str = "cpu") -> BlockScaledLinear:
    linear = nn.Linear(256, 40, device=device, dtype=torch.bfloat16)
    return BlockScaledLinear.from_linear(linear, fmt, weight_only=weight_only)


def numbers(device: torch.device | str = "cpu") -> Tensor:
    return normal(3, 256, dtype=torch.bfloat16, device=device)


def refuse(*arguments: Any, **options: Any) -> Any:
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The calls of ops by way of autograd."""
    seen: list[str] = []

    def noting(op: Any) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            seen.append(op.name().removeprefix("tileon::"))
            return op(*arguments, **options)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(layer_ops, "OPS", layer_ops.LayerOps(*map(noting, layer_ops.OPS)))
        yield seen


@each_format
@each_mode
@pytest.mark.parametrize("mode", MODES)
def test_a_plain_call_passes_by_autograd_and_gives_the_same(
    monkeypatch: pytest.MonkeyPatch, device: torch.device, fmt: str, weight_only: bool, mode: str
) -> None:
    layer, x = layer_of(fmt, weight_only, device), numbers(device)
    with MODES[mode]():
        with counted(monkeypatch) as seen:
            result = layer(x)
            assert seen == []
        with monkeypatch.context() as patch:
            patch.setattr(layer_ops, "is_below", lambda *_: False)
            if device.type == "cpu" or weight_only:
                assert torch.equal(layer(x), result)
            else:  # of one op a GPU may multiply numbers in the place of codes
                torch.testing.assert_close(layer(x), result, rtol=1e-2, atol=1e-2)
    assert not result.requires_grad


@each_mode
def test_a_full_memory_has_its_type(monkeypatch: pytest.MonkeyPatch, weight_only: bool) -> None:
    layer, x = layer_of("mxfp8", weight_only), numbers()
    monkeypatch.setattr(layer_ops, "_below", layer_ops.LayerOps(*[refuse] * len(layer_ops.OPS)))
    for mode in MODES.values():
        with mode(), pytest.raises(torch.OutOfMemoryError):
            layer(x)


class _Subclass(Tensor):
    pass


class _FunctionMode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class _DispatchMode(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("fmt", FORMATS)
class TestWhatHasASay:
    @each_mode
    @pytest.mark.parametrize("what", ["autocast", "subclass", "subclass of a buffer", "function mode", "vmap"])
    def test_is_asked(self, monkeypatch: pytest.MonkeyPatch, fmt: str, weight_only: bool, what: str) -> None:
        layer, x = layer_of(fmt, weight_only), numbers()
        wanted = layer(x)
        with counted(monkeypatch) as seen:
            if what == "autocast":
                with torch.autocast("cpu", dtype=torch.float16):
                    assert layer(x).dtype == torch.float16
            elif what == "subclass":
                assert type(layer(x.as_subclass(_Subclass))) is _Subclass
            elif what == "subclass of a buffer":
                layer.scale = layer.scale.as_subclass(_Subclass)
                assert torch.equal(layer(x), wanted)
            elif what == "function mode":
                with _FunctionMode():
                    assert torch.equal(layer(x), wanted)
            else:
                assert torch.equal(torch.vmap(layer)(x), wanted)
        assert seen[-1] == "block_scaled_matmul"
        assert len(seen) == (1 if weight_only else 2)

    @each_mode
    def test_a_dispatch_mode_sees_every_op(self, fmt: str, weight_only: bool) -> None:
        layer, x = layer_of(fmt, weight_only), numbers()
        quantize = "_quantize_nvfp4_rows" if fmt == "nvfp4" else "quantize"
        with _DispatchMode() as mode:
            layer(x)
        seen = [name.removeprefix("tileon::") for name in mode.names if name.startswith("tileon::")]
        assert seen == ([] if weight_only else [quantize]) + ["block_scaled_matmul"]

    def test_gradients_and_tangents_are_recorded(self, fmt: str) -> None:
        layer, x = layer_of(fmt, True), numbers()
        assert layer(x.clone().requires_grad_()).requires_grad
        with forward_ad.dual_level():
            y = layer(forward_ad.make_dual(x, torch.ones_like(x)))
            assert forward_ad.unpack_dual(y).tangent is not None
        assert layer.bias is not None
        layer.bias.requires_grad_()
        assert layer(x).requires_grad

    def test_gradients_and_tangents_are_refused_of_quantized_activations(self, fmt: str) -> None:
        layer, x = layer_of(fmt, False), numbers()
        with forward_ad.dual_level(), pytest.raises(RuntimeError, match="has a tangent"):
            layer(forward_ad.make_dual(x, torch.ones_like(x)))
        assert layer.bias is not None
        layer.bias.requires_grad_()
        with pytest.raises(RuntimeError, match="`bias` requires grad"):
            layer(x)
        with torch.no_grad():
            assert not layer(x).requires_grad
