"""The formulas of block_scaled_matmul's gradients where `a` has no scale, by whichever interface they are registered.

With z = global_scale * a @ decode(b)^T + bias and y = activation(z): grad_z = grad_y * activation'(z),
grad_a = (grad_z * global_scale) @ decode(b), grad_bias = the sum of grad_z over the rows. `b`, its scale and the global
scale are constants. grad_z is rounded to the dtype of `a`, as matmul's is to its operands'.

What is saved: `b` and its scales, which the weight holds anyway, where `a` wants a gradient; the output where it tells
the derivative. Where the derivative needs z, `a` and `bias` are saved, and the backward pass computes z once more. No
kernel writes z beside the output, so a call that kept it would compute a second product at once, whether or not a
backward pass comes, and hold m * n numbers more until then.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tileon_ops._rules.autograd.gradients import Call
from tileon_ops._rules.autograd.no_grad import asked_gradients

OP = "block_scaled_matmul"
BACKWARD = "_block_scaled_backward"

block_scaled_matmul = torch.ops.tileon.block_scaled_matmul.default
block_scaled_backward = torch.ops.tileon._block_scaled_backward.default


def refuse_of_constants(op: str, b: Any, scale_b: Any, global_scale: Any) -> None:
    """RuntimeError for one of these that asks for a gradient."""
    for name, asks in asked_gradients({"b": b, "scale_b": scale_b, "global_scale": global_scale}):
        raise RuntimeError(f"{op}: `{name}` {asks}, and where `scale_a` is None gradients flow to `a` and `bias` alone")


def wide(tensor: Tensor | None) -> Tensor | None:
    """Of fp8, which torch's arithmetic does not take, float32."""
    return tensor.float() if tensor is not None and tensor.dtype.itemsize == 1 else tensor


def without_activation(options: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """The options by which a product gives z of an output of `dtype`: in that dtype, and in float32 of fp8."""
    kept = {name: value for name, value in options.items() if name not in ("activation", "slope", "out_dtype")}
    return {**kept, "out_dtype": torch.float32 if dtype.itemsize == 1 else dtype}


def product(
    a: Tensor, b: Tensor, scale_b: Tensor, bias: Tensor | None, global_scale: Tensor | None, options: dict[str, Any]
) -> Tensor:
    """z, by the op itself."""
    return block_scaled_matmul(a, b, None, scale_b, bias, global_scale, **options)


def gradients(
    call: Call,
    grad: Tensor,
    kept: Tensor | None,
    constants: tuple[Tensor, Tensor, Tensor | None],
    wanted: tuple[bool, bool],
    is_differentiated: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """Those of `a` and `bias` that are `wanted`; `kept` is y or z, `constants` are b, scale_b and global_scale."""
    wants_a, wants_bias = wanted
    wide_grad = wide(grad)
    assert wide_grad is not None
    grad_z, grad_bias = call.through_epilogue(wide_grad, wide(kept), wants_bias, is_differentiated)
    return block_scaled_backward(grad_z, *constants) if wants_a else None, grad_bias
