"""What the ops return for tensors without data: under torch.compile and torch.export, and on the meta device.

The rules are those of csrc/checks.h, in its order and its words. Overlap and alignment cannot be seen here, and sizes
may be symbols: torch._check compares them, and turns a comparison that cannot be decided into one at run time.
"""

from __future__ import annotations

import torch
from torch import Tensor

ACTIVATIONS = ("none", "relu", "leaky_relu", "gelu", "gelu_tanh", "silu")

# What a product of operands of one dtype may be written as; the first is the default.
OUTPUTS: dict[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.float16: (torch.float16, torch.float32, torch.bfloat16),
    torch.bfloat16: (torch.bfloat16, torch.float32, torch.float16),
    torch.float32: (torch.float32, torch.float16, torch.bfloat16),
    torch.float64: (torch.float64,),
}

Size = int | torch.SymInt


def _check(holds: bool | torch.SymBool, message: str) -> None:
    torch._check(holds, lambda: message)  # RuntimeError


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _names(dtypes: tuple[torch.dtype, ...]) -> str:
    return ", ".join(map(_name, dtypes))


def _same(x: Size, y: Size) -> bool:
    """Whether two sizes are known to be equal; False where symbols leave it open."""
    if isinstance(x, torch.SymInt) or isinstance(y, torch.SymInt):
        from torch.fx.experimental.symbolic_shapes import guard_or_false

        return guard_or_false(x == y)
    return x == y


def _batch(a: Tensor, b: Tensor) -> Size:
    a_batch: Size = a.shape[0] if a.dim() == 3 else 1
    b_batch: Size = b.shape[0] if b.dim() == 3 else 1
    if _same(a_batch, 1):
        return b_batch
    if not _same(b_batch, 1):
        _check(
            a_batch == b_batch,
            f"matmul: the batches of `a` and `b` must be equal, or one of them 1, got {a_batch} and {b_batch}",
        )
    return a_batch


def _check_bias(bias: Tensor, a: Tensor, n: Size, out_dtype: torch.dtype) -> None:
    _check(bias.dim() == 1, f"matmul: `bias` must be 1-D (n,), got {bias.dim()}-D")
    _check(bias.device == a.device, f"matmul: `bias` must be on the device of `a`, {a.device}, got {bias.device}")
    offered = (out_dtype,) if out_dtype == torch.float32 else (out_dtype, torch.float32)
    _check(
        bias.dtype in offered,
        f"matmul: `bias` must be {' or '.join(map(_name, offered))} (the output's dtype or float32), "
        f"got {_name(bias.dtype)}",
    )
    _check(bias.shape[0] == n, f"matmul: `bias` must have n = {n} elements, got {bias.shape[0]}")


def check_matmul(
    a: Tensor, b: Tensor, bias: Tensor | None, activation: str, out_dtype: torch.dtype | None
) -> tuple[tuple[Size, ...], torch.dtype]:
    """The result's shape and dtype; RuntimeError as the op itself raises it."""
    _check(a.dim() in (2, 3), f"matmul: `a` must be 2-D (m, k) or 3-D (batch, m, k), got {a.dim()}-D")
    _check(b.dim() in (2, 3), f"matmul: `b` must be 2-D (k, n) or 3-D (batch, k, n), got {b.dim()}-D")
    _check(a.device == b.device, f"matmul: `b` must be on the device of `a`, {a.device}, got {b.device}")
    _check(
        a.dtype in OUTPUTS and a.dtype == b.dtype,
        f"matmul: operands `a` x `b` of dtypes {_name(a.dtype)} x {_name(b.dtype)} are not offered; offered are "
        + ", ".join(f"{_name(dtype)} x {_name(dtype)}" for dtype in OUTPUTS),
    )
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    _check(b.shape[-2] == k, f"matmul: `b` must have as many rows as `a` has columns, k = {k}, got {b.shape[-2]}")
    shape: tuple[Size, ...] = (m, n) if a.dim() == 2 and b.dim() == 2 else (_batch(a, b), m, n)
    offered = OUTPUTS[a.dtype]
    dtype = offered[0] if out_dtype is None else out_dtype
    _check(
        dtype in offered,
        f"matmul: `out_dtype` {_name(dtype)} is not offered for operands of {_name(a.dtype)}; "
        f"offered are {_names(offered)}",
    )
    _check(
        activation in ACTIVATIONS,
        f'matmul: `activation` must be one of {", ".join(ACTIVATIONS)}, got "{activation}"',
    )
    if bias is not None:
        _check_bias(bias, a, n, dtype)
    return shape, dtype


def _matmul(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    allow_tf32: bool = False,
    fast_accum: bool = False,
) -> Tensor:
    shape, dtype = check_matmul(a, b, bias, activation, out_dtype)
    return a.new_empty(shape, dtype=dtype)


def _matmul_out(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    allow_tf32: bool = False,
    fast_accum: bool = False,
    out: Tensor,
) -> None:
    shape, dtype = check_matmul(a, b, bias, activation, out_dtype)
    _check(out.device == a.device, f"matmul: `out` must be on the device of `a`, {a.device}, got {out.device}")
    _check(out.dtype == dtype, f"matmul: `out` must have the output's dtype {_name(dtype)}, got {_name(out.dtype)}")
    message = f"matmul: `out` must have the shape {shape}, got {tuple(out.shape)}"
    _check(out.dim() == len(shape), message)
    for size, wanted in zip(out.shape, shape, strict=True):
        _check(size == wanted, message)


def _matmul_with_config(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    *,
    config: int,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    allow_tf32: bool = False,
) -> Tensor:
    shape, dtype = check_matmul(a, b, bias, activation, out_dtype)
    _check(config >= 0, f"matmul: `config` must not be negative, got {config}")
    _check(
        a.device.type != "cpu",
        f"matmul: `config` {config} is a row of the GPU's tile table, got operands on the CPU",
    )
    return a.new_empty(shape, dtype=dtype)


def register() -> None:
    torch.library.register_fake("tileon::matmul", _matmul)
    torch.library.register_fake("tileon::matmul.out", _matmul_out)
    torch.library.register_fake("tileon::_matmul_with_config", _matmul_with_config)
