"""Who computes a block-scaled product: one function per provider, from a case and its operands to a call without
arguments. Each holds the scales in the layout that it reads, made beforehand.

`tileon` is torch.ops.tileon.block_scaled_matmul on packed scales, `tileon_fast` the same with fast_accum. For
`tileon_prepared` b was prepared beforehand, by a private op that no layer uses today: as int8 where it fits that, else
as bfloat16.
`triton` is one kernel with tl.dot_scaled. `torch_dequantize` turns each operand into bfloat16, by one compiled kernel
each on a GPU, for cuBLAS to multiply; for `torch_bf16` both were bfloat16 beforehand, and cuBLAS's product is all that
is timed. Their result is bfloat16, where the others' is float16: torch has no product of the one into the other, and a
conversion behind it would only slow it down.

`tileon_graph` and `torch_bf16_graph` are CUDA-graph replay, back to back over operands that have left L2 when their
turn comes again (cold, where matmul.py's `_graph` is warm): so few rows meet the weights of one layer after another.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

import tileon_ops  # noqa: F401  (registers torch.ops.tileon)
from benchmarks.common.block_scaled_cases import (
    FORMATS,
    BlockScaledCase,
    BlockScaledOperands,
    dequantized,
    make_operands,
)
from benchmarks.common.timing import Arm, cold_graph_arm, cold_sets
from benchmarks.measure.peers.dense import Call, NotOffered

_HOPPER = (9, 0)
_PREPARED_WORD = 256  # bytes from the end of an int8 weight
_BLACKWELL = (10, 0)  # the first compute capability with block-scaled instructions
_GRAPH_LAUNCHES = 100  # of some 20 us each: a replay's own start, some microseconds, is then well below a hundredth


def tileon_call(case: BlockScaledCase, operands: BlockScaledOperands, fast_accum: bool = False) -> Call:
    """`torch.ops.tileon.block_scaled_matmul`."""
    op = torch.ops.tileon.block_scaled_matmul
    a, b = operands.a, operands.b
    scale_a, scale_b = (torch.ops.tileon.pack_scales(scale) for scale in (operands.scale_a, operands.scale_b))
    return lambda: op(a, b, scale_a, scale_b, out_dtype=torch.float16, fast_accum=fast_accum)


def _prepared_weight(case: BlockScaledCase, b: torch.Tensor, scale_b: torch.Tensor) -> torch.Tensor:
    """int8 where b can be that and all of it fits, else bfloat16."""
    prepare = torch.ops.tileon._prepare_block_scaled
    if case.format == "mxfp4":
        prepared: torch.Tensor = prepare(b, scale_b, form="int8")
        if not prepared[-_PREPARED_WORD:][
            :4
        ].any():  # the word that says what does not fit: csrc/core/prepared_weight.h
            return prepared
    wide: torch.Tensor = prepare(b, scale_b, form="bfloat16")
    return wide


def tileon_prepared_call(case: BlockScaledCase, operands: BlockScaledOperands) -> Call:
    """`torch.ops.tileon._block_scaled_matmul_prepared`: all of the product but the preparation of b."""
    device = operands.a.device
    if device.type != "cuda" or torch.cuda.get_device_capability(device) != _HOPPER:
        raise NotOffered("weights are prepared for Hopper's kernels alone")
    op = torch.ops.tileon._block_scaled_matmul_prepared
    a, b = operands.a, operands.b
    scale_a, scale_b = (torch.ops.tileon.pack_scales(scale) for scale in (operands.scale_a, operands.scale_b))
    prepared = _prepared_weight(case, b, scale_b)
    return lambda: op(a, b, scale_a, scale_b, prepared, out_dtype=torch.float16)


def triton_call(case: BlockScaledCase, operands: BlockScaledOperands) -> Call:
    """Triton's kernel in the quickest of its configurations: see triton_block_scaled.py."""
    device = operands.a.device
    if device.type != "cuda":
        raise NotOffered("Triton needs a GPU")
    if FORMATS[case.format].scale == "e4m3" and torch.cuda.get_device_capability(device) < _BLACKWELL:
        raise NotOffered("Triton does not compile e4m3 scales for this GPU")
    try:
        from benchmarks.measure.peers.triton_block_scaled import BLOCK_K, quickest_config, triton_block_scaled_matmul
    except ImportError as error:
        raise NotOffered(f"Triton cannot be imported: {error}") from error
    if case.k % BLOCK_K != 0:
        raise NotOffered(f"the peer wants k a multiple of {BLOCK_K}")
    tensors = (operands.a, operands.b, operands.scale_a, operands.scale_b)
    config = quickest_config(*tensors)
    return lambda: triton_block_scaled_matmul(*tensors, config)


def torch_dequantize_call(case: BlockScaledCase, operands: BlockScaledOperands) -> Call:
    """Both operands to bfloat16, then torch.matmul."""
    a, b, scale_a, scale_b = operands.a, operands.b, operands.scale_a, operands.scale_b
    dequantize = dequantized
    if a.device.type == "cuda":
        # Each case is compiled for its own sizes. Without the reset the later ones would run into dynamo's limit on
        # recompilations.
        torch.compiler.reset()
        dequantize = torch.compile(dequantized, dynamic=False, fullgraph=True)
    dtype = torch.bfloat16
    return lambda: torch.matmul(dequantize(a, scale_a, dtype), dequantize(b, scale_b, dtype).t())


def torch_bf16_call(case: BlockScaledCase, operands: BlockScaledOperands) -> Call:
    """torch.matmul alone, on operands that are bfloat16 already."""
    a = dequantized(operands.a, operands.scale_a, torch.bfloat16)
    b = dequantized(operands.b, operands.scale_b, torch.bfloat16)
    return lambda: torch.matmul(a, b.t())


_CALLS: dict[str, Callable[[BlockScaledCase, BlockScaledOperands], Call]] = {
    "tileon": tileon_call,
    "triton": triton_call,
    "torch_dequantize": torch_dequantize_call,
    "tileon_fast": partial(tileon_call, fast_accum=True),
    "tileon_prepared": tileon_prepared_call,
    "torch_bf16": torch_bf16_call,
}
_GRAPHED = ("tileon", "torch_bf16")
PROVIDERS = (*_CALLS, *(f"{name}_graph" for name in _GRAPHED))


def block_scaled_arm(provider: str, case: BlockScaledCase, operands: BlockScaledOperands) -> Arm:
    """The provider's arm on these operands; a graph goes round operand sets of its own.

    Raises:
        NotOffered: with the reason.
    """
    make_call = _CALLS[provider.removesuffix("_graph")]
    if not provider.endswith("_graph"):
        return Arm(make_call(case, operands))
    device = operands.a.device
    if device.type != "cuda":
        raise NotOffered("CUDA graphs need a GPU")
    calls = [make_call(case, make_operands(case, device, seed)) for seed in range(cold_sets(case.bytes, device))]
    return cold_graph_arm(calls, launches=_GRAPH_LAUNCHES)
