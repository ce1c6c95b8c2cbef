"""How the ops shard: for each, the placements of its output and inputs, on one dimension of a device mesh, that agree.

DTensor takes the alternative that moves the least data, redistributes the operands to it, and calls the op on what each
device then holds; of equals it takes the first. On a mesh of several dimensions it combines the alternatives.

A sharded inner dimension gives partial sums: every device has a term of each element. An activation cannot be applied
to a term, so there is no such alternative with one; a bias is made partial as well, its parts adding up to it. (DTensor
gives each of n devices bias / n: exact where n is a power of two.)

Shards may be uneven or empty: the op takes any sizes. But operand and scales must be cut at the same elements, and
DTensor cuts each by its own size; see _cuts_agree.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.tensor import Partial, Placement, Replicate, Shard
from torch.distributed.tensor.experimental import register_sharding

from tileon_ops._rules import torch_private
from tileon_ops._rules.fake import IMPLEMENTATIONS
from tileon_ops._rules.fake.block_scaled import FP4
from tileon_ops._rules.fake.scales import BLOCK_COLS, BLOCK_ROWS, E4M3, FLOAT32_BLOCK, FLOAT32_SCALES, granularity

if TYPE_CHECKING:
    from torch.distributed.tensor._dtensor_spec import DTensorSpec

# What register_sharding asks for: alternatives, each of the outputs' placements and of the inputs'.
Placements = list[Placement | None]
Rules = list[tuple[Placements, Placements]]


def _inputs(*given: tuple[DTensorSpec | None, Placement]) -> Placements:
    """The placements of the inputs that are there."""
    return [placement for spec, placement in given if spec is not None]


def _matmul(
    a: DTensorSpec, b: DTensorSpec, bias: DTensorSpec | None = None, *, activation: str = "none", **options: Any
) -> Rules:
    a_m, a_k = a.ndim - 2, a.ndim - 1
    b_k, b_n = b.ndim - 2, b.ndim - 1
    dims = max(a.ndim, b.ndim)
    rules: Rules = [
        ([Replicate()], _inputs((a, Replicate()), (b, Replicate()), (bias, Replicate()))),
        ([Shard(dims - 2)], _inputs((a, Shard(a_m)), (b, Replicate()), (bias, Replicate()))),
        ([Shard(dims - 1)], _inputs((a, Replicate()), (b, Shard(b_n)), (bias, Shard(0)))),
    ]
    batched = {name: spec.ndim == 3 and spec.shape[0] != 1 for name, spec in (("a", a), ("b", b))}
    if any(batched.values()):  # an operand that the batch shares is replicated
        of_a, of_b = (Shard(0) if batched[name] else Replicate() for name in ("a", "b"))
        rules.append(([Shard(0)], _inputs((a, of_a), (b, of_b), (bias, Replicate()))))
    if activation == "none":
        rules.append(([Partial()], _inputs((a, Shard(a_k)), (b, Shard(b_k)), (bias, Partial()))))
    return rules


def _matmul_with_preactivation(
    a: DTensorSpec, b: DTensorSpec, bias: DTensorSpec | None = None, **options: Any
) -> Rules:
    return [(outputs * 2, inputs) for outputs, inputs in _matmul(a, b, bias, **options)]


def _epilogue_backward(
    grad: DTensorSpec, saved: DTensorSpec | None, *, bias_dtype: torch.dtype | None = None, **options: Any
) -> Rules:
    """Element by element, and a sum over the rows: some rows give a term of the sum, some columns their part of it."""
    columns = grad.ndim - 1
    rules: Rules = [([Replicate(), Replicate()], _inputs((grad, Replicate()), (saved, Replicate())))]
    for dim in range(grad.ndim):
        of_bias: Placement = Shard(0) if dim == columns else Partial()
        if bias_dtype is None:  # no sum is asked for: it has no elements
            of_bias = Replicate()
        rules.append(([Shard(dim), of_bias], _inputs((grad, Shard(dim)), (saved, Shard(dim)))))
    return rules


def _dtype(spec: DTensorSpec) -> torch.dtype:
    assert spec.tensor_meta is not None, "that of an input is always there"
    return spec.tensor_meta.dtype


def _elements_in_a_row(operand: DTensorSpec) -> int:
    return operand.shape[1] * (2 if _dtype(operand) in FP4 else 1)


def _granularity(scale: DTensorSpec, operand: DTensorSpec) -> str:
    return granularity(scale.shape, operand.shape[0], _elements_in_a_row(operand))


def _of_scale(scale: DTensorSpec | None, operand: DTensorSpec, placed: Placement) -> Placement:
    """Where scales lie beside an operand that is placed so: replicated along what they are the same for."""
    if scale is None or _dtype(scale) not in FLOAT32_SCALES or placed.is_replicate():
        return placed
    kind = _granularity(scale, operand)
    return Replicate() if kind == "tensor" or (kind == "row" and placed.is_shard(1)) else placed


def _cuts_agree(operand: DTensorSpec, scale: DTensorSpec | None, dim: int) -> bool:
    """Whether operand and scales, each cut along `dim` by its own size, are cut at the same elements.

    Rows that have scales of their own always are: there are as many. Otherwise the blocks of the scales must fall to
    the devices in equal numbers, on however many dimensions of the mesh: then every cut is between two blocks.
    """
    if scale is None:
        return True
    devices, k = operand.mesh.size(), _elements_in_a_row(operand)
    if _dtype(scale) in FLOAT32_SCALES:
        size, blocks = (operand.shape[0], ("128x128",)) if dim == 0 else (k, ("1x128", "128x128"))
        return _granularity(scale, operand) not in blocks or size % (FLOAT32_BLOCK * devices) == 0
    is_packed = scale.ndim == 5
    if dim == 0:
        return not is_packed or operand.shape[0] % (BLOCK_ROWS * devices) == 0
    vec = 16 if _dtype(scale) == E4M3 else 32
    return k // vec % ((BLOCK_COLS if is_packed else 1) * devices) == 0


def _of_global_scale(global_scale: DTensorSpec | None, of_rows: Placement) -> Placement:
    """One a row is sharded as the rows are."""
    return Shard(0) if global_scale is not None and global_scale.ndim == 2 and of_rows.is_shard(0) else Replicate()


def _block_scaled_matmul(
    a: DTensorSpec,
    b: DTensorSpec,
    scale_a: DTensorSpec | None,
    scale_b: DTensorSpec,
    bias: DTensorSpec | None = None,
    global_scale: DTensorSpec | None = None,
    *,
    activation: str = "none",
    out_dtype: torch.dtype | None = None,
    **options: Any,
) -> Rules:
    def inputs(of_a: Placement, of_b: Placement, of_bias: Placement) -> Placements:
        of_scales = _of_scale(scale_a, a, of_a), _of_scale(scale_b, b, of_b)
        of_global = _of_global_scale(global_scale, of_a)
        scales = (scale_a, of_scales[0]), (scale_b, of_scales[1])
        return _inputs((a, of_a), (b, of_b), *scales, (bias, of_bias), (global_scale, of_global))

    rules: Rules = [([Replicate()], inputs(Replicate(), Replicate(), Replicate()))]
    if _cuts_agree(a, scale_a, 0):
        rules.append(([Shard(0)], inputs(Shard(0), Replicate(), Replicate())))
    if _cuts_agree(b, scale_b, 0):
        rules.append(([Shard(1)], inputs(Replicate(), Shard(0), Shard(0))))
    # Terms are not rounded to fp8, which saturates, before they are added up.
    may_be_partial = activation == "none" and out_dtype != E4M3
    if may_be_partial and _cuts_agree(a, scale_a, 1) and _cuts_agree(b, scale_b, 1):
        rules.append(([Partial()], inputs(Shard(1), Shard(1), Partial())))
    return rules


def _block_scaled_backward(
    grad: DTensorSpec, b: DTensorSpec, scale_b: DTensorSpec, global_scale: DTensorSpec | None = None
) -> Rules:
    """(m, n) of grad and (n, k) of b."""

    def inputs(of_grad: Placement, of_b: Placement) -> Placements:
        of_global = _of_global_scale(global_scale, of_grad)
        return _inputs((grad, of_grad), (b, of_b), (scale_b, _of_scale(scale_b, b, of_b)), (global_scale, of_global))

    rules: Rules = [
        ([Replicate()], inputs(Replicate(), Replicate())),
        ([Shard(0)], inputs(Shard(0), Replicate())),
    ]
    if _cuts_agree(b, scale_b, 0):
        rules.append(([Partial()], inputs(Shard(1), Shard(0))))
    if _cuts_agree(b, scale_b, 1):
        rules.append(([Shard(1)], inputs(Replicate(), Shard(1))))
    return rules


_RULES: dict[Any, Callable[..., Rules]] = {
    torch.ops.tileon.matmul.default: _matmul,
    torch.ops.tileon._matmul_with_preactivation.default: _matmul_with_preactivation,
    torch.ops.tileon._epilogue_backward.default: _epilogue_backward,
    torch.ops.tileon.block_scaled_matmul.default: _block_scaled_matmul,
    torch.ops.tileon._block_scaled_backward.default: _block_scaled_backward,
}


def _options(op: Any) -> list[str]:
    """The arguments that an op takes by keyword."""
    parameters = inspect.signature(IMPLEMENTATIONS[op.name().removeprefix("tileon::")]).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]


def register() -> None:
    """With what a remembered decision depends on besides the tensors: every option.

    register_sharding itself thinks of integers alone; a decision for activation="none" would then be taken again for
    "relu", partial sums and all. So nothing is registered where that cannot be said.
    """
    schema_info, of_ops = torch_private.of_dtensor()
    for op, rule in _RULES.items():
        register_sharding(op)(rule)
        of_ops[op] = schema_info(static_kwargkey=_options(op))
