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
from tileon_ops._rules.fake.scales import BLOCK_COLS, BLOCK_ROWS, E4M3

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


def _cuts_agree(operand: DTensorSpec, scale: DTensorSpec, dim: int) -> bool:
    """Whether operand and scales, each cut along `dim` by its own size, are cut at the same elements.

    Rows of 2-D scales always are: they are as many as the operand's. Otherwise the blocks of the scales must fall to
    the devices in equal numbers, on however many dimensions of the mesh: then every cut is between two blocks.
    """
    is_packed = scale.ndim == 5
    if dim == 0:
        return not is_packed or operand.shape[0] % (BLOCK_ROWS * operand.mesh.size()) == 0
    per_byte = 1 if _dtype(operand) == E4M3 else 2
    vec = 16 if _dtype(scale) == E4M3 else 32
    columns = operand.shape[1] * per_byte // vec
    return columns % ((BLOCK_COLS if is_packed else 1) * operand.mesh.size()) == 0


def _block_scaled_matmul(
    a: DTensorSpec,
    b: DTensorSpec,
    scale_a: DTensorSpec,
    scale_b: DTensorSpec,
    bias: DTensorSpec | None = None,
    global_scale: DTensorSpec | None = None,
    *,
    activation: str = "none",
    out_dtype: torch.dtype | None = None,
    **options: Any,
) -> Rules:
    def inputs(of_a: Placement, of_b: Placement, of_bias: Placement) -> Placements:
        return _inputs(
            (a, of_a), (b, of_b), (scale_a, of_a), (scale_b, of_b), (bias, of_bias), (global_scale, Replicate())
        )

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


_RULES: dict[Any, Callable[..., Rules]] = {
    torch.ops.tileon.matmul.default: _matmul,
    torch.ops.tileon._matmul_with_preactivation.default: _matmul_with_preactivation,
    torch.ops.tileon._epilogue_backward.default: _epilogue_backward,
    torch.ops.tileon.block_scaled_matmul.default: _block_scaled_matmul,
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
