"""Who computes it: one function per provider, from a case and its operands to a call without arguments.

`tileon`, `torch` and `triton` are eager calls. `<one of them>_graph` is CUDA-graph replay back to back, with operands
that stay in L2 (warm) or, of a block-scaled product, that have left it when their turn comes again (timing.py).
`tileon_plain` is our product without the case's epilogue. `tileon_fast` and `torch_fast` are the two with fast
accumulation. Of fp8 operands `torch` is `torch._scaled_mm` with scales of 1.

Of block-scaled products, whose scales each provider holds in the layout that it reads: `tileon_prepared` has b prepared
beforehand, by a private op that no layer uses today: as int8 where it fits that, else as bfloat16. `torch_dequantize`
turns each operand into bfloat16, by one compiled kernel each on a GPU, for cuBLAS to multiply; for `torch_bf16` both
were bfloat16 beforehand. The result of these two is bfloat16, where the others' is float16: torch has no product of the
one into the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType

import torch
import torch.nn.functional as F

from benchmarks.common.cases import FORMATS, SLOPE, Case, Operands, dequantized, make_operands
from benchmarks.common.timing import Arm, cold_graph_arm, cold_sets, l2_bytes, warm_graph_arm, warm_sets
from tileon_ops._rules import configs

Call = Callable[[], torch.Tensor]

_HOPPER = (9, 0)
_BLACKWELL = (10, 0)  # the first compute capability with block-scaled instructions
_GRAPH_LAUNCHES = 100  # of some 20 us each: a replay's own start, some microseconds, is then well below a hundredth
_PREPARED_WORD = 256  # bytes from the end of an int8 weight
_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda x: x,
    "relu": F.relu_,
    "leaky_relu": lambda x: F.leaky_relu_(x, SLOPE),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": lambda x: F.silu(x, inplace=True),
}


class NotOffered(RuntimeError):
    """This provider does not compute this case, or not on this machine."""


def _refuse(refused: bool, why: str) -> None:
    if refused:
        raise NotOffered(why)


# Products of dtypes.


def tileon_call(case: Case, operands: Operands, config: int | None = None, *, fast_accum: bool = False) -> Call:
    """`torch.ops.tileon.matmul`, or one row of the tile table by its index; of a block-scaled format
    `torch.ops.tileon.block_scaled_matmul`."""
    a, b, bias, activation = operands.a, operands.b, operands.bias, case.activation
    options: dict[str, object] = {"activation": activation, "slope": SLOPE}
    if case.is_block_scaled:
        op = torch.ops.tileon.block_scaled_matmul
        scale_a, scale_b = map(torch.ops.tileon.pack_scales, operands.scales)
        options |= {"out_dtype": case.out_dtype, "fast_accum": fast_accum}
        return lambda: op(a, b, scale_a, scale_b, bias, **options)
    _refuse(case.dtype == "tf32" and operands.a.device.type != "cuda", "TF32 is the GPU's")
    op = torch.ops.tileon.matmul if config is None else torch.ops.tileon._matmul_with_config
    options |= {"allow_tf32": case.dtype == "tf32"}
    options |= {"fast_accum": fast_accum} if config is None else {"config": config}
    return lambda: op(a, b, bias, **options)


def _fast_call(case: Case, operands: Operands) -> Call:
    _refuse(not (case.is_fp8 or case.is_block_scaled), "fast accumulation is for fp8")
    return tileon_call(case, operands, fast_accum=True)


def _plain_call(case: Case, operands: Operands) -> Call:
    _refuse(case.epilogue == "none", "the case is the plain product itself")
    return tileon_call(replace(case, epilogue="none"), replace(operands, bias=None))


def torch_call(case: Case, operands: Operands) -> Call:
    """torch's fastest eager spelling: addmm takes the bias into the product, but of a batch; the activation follows, in
    place where torch has it so."""
    _refuse(case.dtype == "tf32" and operands.a.device.type != "cuda", "TF32 is the GPU's")
    if case.is_fp8:
        return scaled_mm_call(case, operands)
    a, b, bias, activate = operands.a, operands.b, operands.bias, _ACTIVATIONS[case.activation]
    if bias is None:
        return lambda: activate(torch.matmul(a, b))
    if case.batch > 1:
        return lambda: activate(torch.matmul(a, b).add_(bias))
    return lambda: activate(torch.addmm(bias, a, b))


def scaled_mm_call(case: Case, operands: Operands, *, fast_accum: bool = False) -> Call:
    """`torch._scaled_mm` with scales of 1, for what cuBLAS offers of fp8."""
    a, b, bias, activate = operands.a, operands.b, operands.bias, _ACTIVATIONS[case.activation]
    _refuse(not case.is_fp8, "fast accumulation is for fp8")
    _refuse(case.dtype == "e5m2", "torch does not multiply e5m2 by e5m2 on a GPU")
    _refuse(case.layout != "NT" or case.batch > 1, "both operands must be matrices, contiguous along k")
    _refuse(case.k % 16 != 0 or case.n % 16 != 0, "k and n must be multiples of 16")
    too_old = a.device.type == "cuda" and torch.cuda.get_device_capability(a.device) < (8, 9)
    _refuse(too_old, "torch multiplies fp8 from capability 8.9 on")
    one, out_dtype = torch.ones((), device=a.device), case.out_dtype
    return lambda: activate(torch._scaled_mm(a, b, one, one, bias=bias, out_dtype=out_dtype, use_fast_accum=fast_accum))


def _triton_peers(operands: Operands) -> ModuleType:
    """See triton_peers.py."""
    _refuse(operands.a.device.type != "cuda", "Triton needs a GPU")
    try:
        from benchmarks.measure.peers import triton_peers
    except ImportError as error:
        raise NotOffered(f"Triton cannot be imported: {error}") from error
    return triton_peers


def _triton_call(case: Case, operands: Operands) -> Call:
    peers = _triton_peers(operands)
    _refuse(case.dtype not in ("float16", "bfloat16") or case.layout != "NN", "the peer is float16 and bfloat16, NN")
    _refuse(case.epilogue not in ("none", "leaky_relu"), "the peer's epilogues are none and leaky_relu")
    return peers.matmul_call(operands.a, operands.b, case.activation, SLOPE)


# Block-scaled products.


def _prepared_call(case: Case, operands: Operands) -> Call:
    """All of the product but the preparation of b: as int8 where it can be that and all of it fits, else bfloat16."""
    device = operands.a.device
    is_hopper = device.type == "cuda" and torch.cuda.get_device_capability(device) == _HOPPER
    _refuse(not is_hopper, "weights are prepared for Hopper's kernels alone")
    ops, a, b = torch.ops.tileon, operands.a, operands.b
    scale_a, scale_b = map(ops.pack_scales, operands.scales)
    prepared = ops._prepare_block_scaled(b, scale_b, form="int8") if case.dtype == "mxfp4" else None
    # The word that says what does not fit: csrc/core/problem.h.
    if prepared is None or prepared[-_PREPARED_WORD:][:4].any():
        prepared = ops._prepare_block_scaled(b, scale_b, form="bfloat16")
    op, out_dtype = ops._block_scaled_matmul_prepared, case.out_dtype
    return lambda: op(a, b, scale_a, scale_b, prepared, out_dtype=out_dtype)


def _triton_block_scaled_call(case: Case, operands: Operands) -> Call:
    peers = _triton_peers(operands)
    too_old = torch.cuda.get_device_capability(operands.a.device) < _BLACKWELL
    _refuse(FORMATS[case.dtype].scale == "e4m3" and too_old, "Triton does not compile e4m3 scales for this GPU")
    _refuse(case.k % peers.BLOCK_K != 0, f"the peer wants k a multiple of {peers.BLOCK_K}")
    return peers.block_scaled_call(operands.a, operands.b, *operands.scales)


def dequantize_call(case: Case, operands: Operands) -> Call:
    """Both operands to bfloat16, then torch's product, bias and activation."""
    a, b, (scale_a, scale_b), dtype = operands.a, operands.b, operands.scales, torch.bfloat16
    bias, activate, dequantize = operands.bias, _ACTIVATIONS[case.activation], dequantized
    bias = None if bias is None else bias.to(dtype)
    if a.device.type == "cuda":
        # Each case is compiled for its own sizes. Without the reset the later ones would run into dynamo's limit on
        # recompilations.
        torch.compiler.reset()
        dequantize = torch.compile(dequantized, dynamic=False, fullgraph=True)
    return lambda: activate(F.linear(dequantize(a, scale_a, dtype), dequantize(b, scale_b, dtype), bias))


def _bfloat16_call(case: Case, operands: Operands) -> Call:
    a, b = operands.dequantized(torch.bfloat16)
    return lambda: torch.matmul(a, b.t())


# What a user of torch would write.


def user_call(case: Case, operands: Operands) -> Call:
    """`torch_call`, of fp8 with torch._scaled_mm where that takes the operands, else on operands that were bfloat16
    beforehand: the conversion is not timed. Block-scaled operands are dequantized in the call, for they are in memory
    as the format has them."""
    if case.is_block_scaled:
        return dequantize_call(case, operands)
    if not case.is_fp8:
        return torch_call(case, operands)
    try:
        call = scaled_mm_call(case, operands)
        call()
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:  # NotOffered, or cuBLAS, which says for itself which small shapes it has no kernel for
        bias = None if operands.bias is None else operands.bias.to(torch.bfloat16)
        wide = Operands(operands.a.to(torch.bfloat16), operands.b.to(torch.bfloat16), bias)
        return torch_call(replace(case, dtype="bfloat16"), wide)
    return call


# Arms.

_Calls = dict[str, Callable[[Case, Operands], Call]]
_DENSE: _Calls = {
    "tileon": tileon_call,
    "torch": torch_call,
    "triton": _triton_call,
    "tileon_plain": _plain_call,
    "tileon_fast": _fast_call,
    "torch_fast": partial(scaled_mm_call, fast_accum=True),
}
_BLOCK_SCALED: _Calls = {
    "tileon": tileon_call,
    "triton": _triton_block_scaled_call,
    "torch_dequantize": dequantize_call,
    "tileon_fast": _fast_call,
    "tileon_prepared": _prepared_call,
    "torch_bf16": _bfloat16_call,
}
PROVIDERS = (*_DENSE, *(f"{name}_graph" for name in ("tileon", "torch", "triton")))
BLOCK_SCALED_PROVIDERS = (*_BLOCK_SCALED, "tileon_graph", "torch_bf16_graph")


def arm(provider: str, case: Case, operands: Operands) -> Arm:
    """The provider's arm on these operands, or NotOffered; a graph goes round operand sets of its own."""
    name = provider.removesuffix("_graph")
    make_call = (_BLOCK_SCALED if case.is_block_scaled else _DENSE)[name]
    if name == provider:
        return Arm(make_call(case, operands))
    device = operands.a.device
    _refuse(device.type != "cuda", "CUDA graphs need a GPU")
    cold = case.is_block_scaled
    sets = cold_sets(case.bytes, device) if cold else warm_sets(case.bytes, l2_bytes(device))
    calls = [make_call(case, make_operands(case, device, seed)) for seed in range(sets)]
    return cold_graph_arm(calls, _GRAPH_LAUNCHES) if cold else warm_graph_arm(calls)


def table_dtype(case: Case) -> str:
    """The case's dtype as the tile table names it."""
    names = dict.fromkeys(str(dtype).removeprefix("torch.") for dtype in case.torch_dtypes)
    return "*".join(names) if case.is_fp8 else case.dtype


def config_arms(case: Case, operands: Operands) -> dict[str, Arm]:
    """An arm for each row of the tile table that takes these operands, as `tileon:<row's name>`."""
    arms: dict[str, Arm] = {}
    for config in configs.dense():
        if table_dtype(case) in config.operands:
            call = tileon_call(case, operands, config.index)
            try:
                call()
            except RuntimeError as error:  # a size that leaves rows unaligned, or too small a GPU
                if "cannot run these operands" not in str(error):
                    raise
                continue
            arms[f"tileon:{config.name}"] = Arm(call)
    return arms
