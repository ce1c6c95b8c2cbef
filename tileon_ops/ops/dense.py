"""`tileon_ops.matmul`: the op `torch.ops.tileon.matmul` for operands of torch.matmul's shapes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tileon_ops._loading.import_hook import after_import
from tileon_ops._rules import torch_private
from tileon_ops._rules.activations import listing_activations
from tileon_ops._rules.errors import raise_typed
from tileon_ops._rules.out import check_countable
from tileon_ops._rules.overlap import check_apart, merged
from tileon_ops._rules.required import check_tensors
from tileon_ops._rules.shapes import as_op_takes

# Registered when tileon_ops is imported. The overloads by name: a packet has to search for the right one at every call.
_op = torch.ops.tileon.matmul.default
_out_op = torch.ops.tileon.matmul.out


def _torch_allows_tf32() -> bool:
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


# A compiled frame is guarded on torch's global settings, this one included. That takes torch's compiler, which takes a
# second to import, so it waits until somebody imports it.
after_import("torch._dynamo", lambda: torch.compiler.assume_constant_result(_torch_allows_tf32))


def _call(a: Tensor, b: Tensor, bias: Tensor | None, options: dict[str, Any]) -> Tensor:
    return _op(a, b, bias, **options)


def _record_linear(x: Tensor, weight: Tensor, bias: Tensor | None, options: dict[str, Any]) -> Tensor | None:
    return None


if torch_private.shortcut.is_whole:
    from tileon_ops._rules.autograd.layer import record as _record_linear
    from tileon_ops._rules.autograd.shortcut import call as _call


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str, slope: float) -> Tensor:
    """`matmul(x, weight.t(), bias)` for a layer, whose weight is (n, k)."""
    recorded = None
    if torch.is_grad_enabled():
        options: dict[str, Any] = {}
        if activation != "none":
            options = {"activation": activation, "slope": slope}
        try:
            if x.dtype is torch.float32 and not x.is_cpu and _torch_allows_tf32():
                options["allow_tf32"] = True
            recorded = _record_linear(x, weight, bias, options)
        except AttributeError:  # one of them is no tensor, which matmul says
            pass
    return matmul(x, weight.t(), bias, activation=activation, slope=slope) if recorded is None else recorded


@listing_activations
def matmul(
    a: Tensor,
    b: Tensor,
    bias: Tensor | None = None,
    *,
    activation: str = "none",
    slope: float = 0.01,
    out_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
    allow_tf32: bool | None = None,
    fast_accum: bool = False,
) -> Tensor:
    """`activation(a @ b + bias)` for operands of any shapes that torch.matmul takes.

    Args:
        a: (..., m, k) or (k,).
        b: (..., k, n) or (k,). Both operands have one dtype, float16, bfloat16, float32 or float64, or each is
            float8_e4m3fn or float8_e5m2, in any pairing. Any strides.
        bias: (n,), of the output's dtype or float32, added before the activation. n is 1 where `b` is 1-D.
        activation: {activations}.
        slope: of leaky_relu for negative arguments.
        out_dtype: the result's dtype, the operands' unless told, of fp8 operands float16. Operands of float16,
            bfloat16, float32 and fp8 offer float16, bfloat16 and float32; float64 only itself.
        out: where to write the result: exactly its shape and dtype, not overlapping itself or an input.
        allow_tf32: products of float32 operands may round them to TF32 on a GPU. None is torch's own setting
            (torch.backends.cuda.matmul). On the CPU they are always IEEE.
        fast_accum: lets sums of fp8 products stay in a GPU's tensor cores, which is faster and errs by more, as below.
            The other dtypes ignore it.

    Returns:
        A fresh contiguous tensor of torch.matmul's shape, or `out`. Sums, bias and activation are computed in float32
        (float64 for float64 operands) and rounded once. Under autocast the operands take autocast's dtype first; with
        `out` they do not, as in torch.

    The error of a sum, before the result is rounded, is below `(4 + 2 sqrt(k)) 2^-23` times `sum |a||b|` for operands
    of float16, bfloat16 and float32. On a GPU's tensor cores (float16, bfloat16), which cut the float32 sum at every
    step of 16 k instead of rounding it, products of one sign all through a long k add up to `k / 8` to that factor, and
    one product far above all others up to `k / 4`; a subnormal number counts as the least normal one in `sum |a||b|`.
    On the CPU products that are nearly the same number add up to `k / 2`.

    float32 on Hopper takes tensor cores too, three numbers of bfloat16 for each, where that is faster: the bound holds,
    and numbers for which it would not are multiplied by other kernels (docs/float32_on_hopper.md). While such a call
    runs it takes 6 bytes for each number of both operands, `k` rounded up to a multiple of 64.

    TF32 keeps 11 bits of each operand. fp8 products are exact to float32 on the CPU. Hopper's tensor cores cut 32 of
    them and the sum so far 13 bits below the largest. Typically, on random normal data, a sum errs by about `2^-15` of
    `sum |a||b|` (up to `2^-12` where k is below 1024), with `fast_accum` mostly by less than `2^-12`. One product far
    above all others costs most: by the model in docs/fp8_error.md at worst 1.6 % of `sum |a||b|`, 4.3 % where elements
    are subnormal, and with `fast_accum` `(k + 223) 2^-13` of it.

    Differentiable as often as wanted, but for fp8 operands.

    Raises:
        RuntimeError: "matmul: ...", for what is no tensor, for shapes, dtypes, devices or names that do not fit, and
            for fp8 operands that require grad while gradients are recorded. Nothing is written then.
    """
    try:
        options: dict[str, Any] = {}  # each that is given costs 0.4 us in a call
        if activation != "none":
            options = {"activation": activation, "slope": slope}
        if out_dtype is not None:
            options["out_dtype"] = out_dtype
        if allow_tf32 or (allow_tf32 is None and a.dtype is torch.float32 and _torch_allows_tf32()):
            options["allow_tf32"] = True
        if fast_accum:
            options["fast_accum"] = True
        if a.dim() == 2 and b.dim() == 2:
            if out is not None:
                _out_op(a, b, bias, out=out, **options)
                return out
            return _call(a, b, bias, options)

        a_matrices, b_matrices, op_shape, shape = as_op_takes(a, b)
        if out is None:
            return _call(a_matrices, b_matrices, bias, options).view(shape)
        if tuple(out.shape) != shape:
            raise RuntimeError(f"matmul: `out` must have the shape {shape}, got {tuple(out.shape)}")
        whole = merged(out, op_shape)
        if whole is not None:
            _out_op(a_matrices, b_matrices, bias, out=whole, **options)
        else:
            check_countable("matmul", out)  # out.copy_ would refuse it too, once it has written it
            check_apart(out, {"a": a, "b": b, "bias": bias})
            result = out.new_empty(op_shape)
            _out_op(a_matrices, b_matrices, bias, out=result, **options)
            out.copy_(result.view(shape))
        return out
    except (AttributeError, RuntimeError, TypeError) as error:
        check_tensors("matmul", {"a": a, "b": b}, {"bias": bias, "out": out})
        raise_typed(error)
        raise
