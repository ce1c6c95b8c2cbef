"""What the fake implementations share: the rules of csrc/checks/operands.h, in its words. `op` is the op's name.

Overlap with an input and alignment cannot be seen here, and sizes may be symbols: torch's own check compares them, and
turns a comparison that cannot be decided into one at run time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from tileon_ops._loading.library import torch_version
from tileon_ops._rules.activations import ACTIVATIONS
from tileon_ops._rules.overlap import overlaps_itself
from tileon_ops._rules.torch_private import torch_check

Size = int | torch.SymInt
Implementations = dict[str, Callable[..., Any]]  # by the op's name

# Before, AOTInductor handed a dtype to a custom op as a number of torch.export's, which the op read as one of its own:
# float16 arrived as float32. https://github.com/pytorch/pytorch/pull/173562
_AOT_INDUCTOR_HAS_DTYPES = (2, 12)


def check(holds: bool | torch.SymBool, message: str) -> None:
    """RuntimeError with that message where a rule does not hold."""
    if torch_check is not None:
        torch_check(holds, lambda: message)
    elif not holds:
        raise RuntimeError(message)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def dtype_names(dtypes: Iterable[torch.dtype], separator: str = ", ") -> str:
    return separator.join(map(dtype_name, dtypes))


def same(x: Size, y: Size) -> bool:
    """Whether two sizes are known to be equal; False where symbols leave it open."""
    if isinstance(x, torch.SymInt) or isinstance(y, torch.SymInt):
        from torch.fx.experimental.symbolic_shapes import guard_or_false

        return guard_or_false(x == y)
    return x == y


def check_dtype_argument(op: str, dtype: torch.dtype | None) -> None:
    """Refuses a dtype that would arrive at the op as another one."""
    inductor = sys.modules.get("torch._inductor.virtualized")
    if dtype is None or inductor is None or torch_version() >= _AOT_INDUCTOR_HAS_DTYPES:
        return
    check(
        not getattr(inductor.V.graph, "aot_mode", False),
        f"{op}: `out_dtype` cannot be given under AOTInductor of torch {torch.__version__}, which hands another dtype "
        "to the op; leave it out, and convert the result, or use torch 2.12 or newer",
    )


def check_same_device(op: str, name: str, tensor: Tensor, like: Tensor, like_name: str = "a") -> None:
    check(
        tensor.device == like.device,
        f"{op}: `{name}` must be on the device of `{like_name}`, {like.device}, got {tensor.device}",
    )


def check_activation(op: str, activation: str) -> None:
    check(
        activation in ACTIVATIONS,
        f'{op}: `activation` must be one of {", ".join(ACTIVATIONS)}, got "{activation}"',
    )


def check_bias(op: str, bias: Tensor, a: Tensor, n: Size, out_dtype: torch.dtype) -> None:
    check(bias.dim() == 1, f"{op}: `bias` must be 1-D (n,), got {bias.dim()}-D")
    check_same_device(op, "bias", bias, a)
    got = dtype_name(bias.dtype)
    if out_dtype.itemsize == 1:
        check(
            bias.dtype == torch.float32,
            f"{op}: `bias` must be float32 where the output is {dtype_name(out_dtype)}, got {got}",
        )
    offered = (out_dtype,) if out_dtype == torch.float32 else (out_dtype, torch.float32)
    check(
        bias.dtype in offered,
        f"{op}: `bias` must be {dtype_names(offered, ' or ')} (the output's dtype or float32), got {got}",
    )
    check(bias.shape[0] == n, f"{op}: `bias` must have n = {n} elements, got {bias.shape[0]}")


def check_config(op: str, config: int, a: Tensor) -> None:
    check(config >= 0, f"{op}: `config` must not be negative, got {config}")
    check(
        a.device.type != "cpu",
        f"{op}: `config` {config} is a row of the GPU's tile table, got operands on the CPU",
    )


def check_out(op: str, out: Tensor, a: Tensor, dtype: torch.dtype, shape: tuple[Size, ...]) -> None:
    check_same_device(op, "out", out, a)
    check(
        out.dtype == dtype,
        f"{op}: `out` must have the output's dtype {dtype_name(dtype)}, got {dtype_name(out.dtype)}",
    )
    message = f"{op}: `out` must have the shape {shape}, got {tuple(out.shape)}"
    check(out.dim() == len(shape), message)
    for size, wanted in zip(out.shape, shape, strict=True):
        check(size == wanted, message)
    if overlaps_itself(out.shape, out.stride()):
        raise RuntimeError(
            f"{op}: `out` must not overlap itself, got strides {tuple(out.stride())} for the shape {tuple(out.shape)}"
        )
