"""Who computes it: one function per provider, from a case and its operands to a call without arguments.

`tileon`, `torch` and `triton` are eager calls. `<one of them>_graph` is CUDA-graph replay back to back with operands
that stay in L2 (warm), `<one of them>_graph_cold` the same with operands that have left it; see timing.py.
`tileon_plain` is our product without the case's epilogue, to have both in one interleaved run. Of fp8 operands `torch`
is `torch._scaled_mm` with scales of 1; `tileon_fast` and `torch_fast` are the two with fast accumulation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

import tileon_ops  # noqa: F401  (registers torch.ops.tileon)
from benchmarks.common.cases import SLOPE, Case, Operands, make_operands
from benchmarks.common.timing import Arm, cold_graph_arm, cold_sets, l2_bytes, warm_graph_arm, warm_sets

if TYPE_CHECKING:
    from collections.abc import Iterable

Call = Callable[[], torch.Tensor]


class NotOffered(Exception):
    """This provider does not compute this case, or not on this machine."""


def tileon_call(case: Case, operands: Operands, config: int | None = None, *, fast_accum: bool = False) -> Call:
    """`torch.ops.tileon.matmul`, or one row of the tile table by its index."""
    if case.allow_tf32 and operands.a.device.type != "cuda":
        raise NotOffered("TF32 is the GPU's")
    op = torch.ops.tileon.matmul if config is None else torch.ops.tileon._matmul_with_config
    options = {"allow_tf32": case.allow_tf32} | ({"fast_accum": fast_accum} if config is None else {"config": config})
    a, b, bias, activation = operands.a, operands.b, operands.bias, case.activation
    return lambda: op(a, b, bias, activation=activation, slope=SLOPE, **options)


def fast_call(case: Case, operands: Operands) -> Call:
    """`torch.ops.tileon.matmul` with `fast_accum`."""
    if not case.is_fp8:
        raise NotOffered("fast accumulation is for fp8")
    return tileon_call(case, operands, fast_accum=True)


_TORCH_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "none": lambda x: x,
    "relu": F.relu_,
    "leaky_relu": lambda x: F.leaky_relu_(x, SLOPE),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": lambda x: F.silu(x, inplace=True),
}


def torch_call(case: Case, operands: Operands) -> Call:
    """torch's fastest eager spelling: addmm takes the bias into the product; the activation follows, in place where
    torch has it so."""
    if case.allow_tf32 and operands.a.device.type != "cuda":
        raise NotOffered("TF32 is the GPU's")
    if case.is_fp8:
        return scaled_mm_call(case, operands, fast_accum=False)
    a, b, bias, activate = operands.a, operands.b, operands.bias, _TORCH_ACTIVATIONS[case.activation]
    if bias is None:
        return lambda: activate(torch.matmul(a, b))
    return lambda: activate(torch.addmm(bias, a, b))


def scaled_mm_call(case: Case, operands: Operands, *, fast_accum: bool) -> Call:
    """`torch._scaled_mm` with scales of 1, for what cuBLAS offers of fp8."""
    a, b, bias, activate = operands.a, operands.b, operands.bias, _TORCH_ACTIVATIONS[case.activation]
    if case.dtype == "e5m2":
        raise NotOffered("torch does not multiply e5m2 by e5m2 on a GPU")
    if case.layout != "NT":
        raise NotOffered("both operands must be contiguous along k")
    if case.k % 16 or case.n % 16:
        raise NotOffered("k and n must be multiples of 16")
    if a.device.type == "cuda" and torch.cuda.get_device_capability(a.device) < (8, 9):
        raise NotOffered("torch multiplies fp8 from capability 8.9 on")
    one, out_dtype = torch.ones((), device=a.device), case.out_dtype
    return lambda: activate(torch._scaled_mm(a, b, one, one, bias=bias, out_dtype=out_dtype, use_fast_accum=fast_accum))


def torch_fast_call(case: Case, operands: Operands) -> Call:
    """`torch._scaled_mm` with `use_fast_accum`."""
    if not case.is_fp8:
        raise NotOffered("fast accumulation is for fp8")
    return scaled_mm_call(case, operands, fast_accum=True)


def triton_call(case: Case, operands: Operands) -> Call:
    """Triton's kernel, for what it offers: see triton_matmul.py."""
    if operands.a.device.type != "cuda":
        raise NotOffered("Triton needs a GPU")
    if case.dtype not in ("float16", "bfloat16") or case.layout != "NN":
        raise NotOffered("the peer is float16 and bfloat16, NN")
    if case.has_bias or case.activation not in ("none", "leaky_relu"):
        raise NotOffered("the peer's epilogues are none and leaky_relu")
    try:
        from benchmarks.measure.peers.triton_matmul import triton_matmul
    except ImportError as error:
        raise NotOffered(f"Triton cannot be imported: {error}") from error
    a, b, activation = operands.a, operands.b, case.activation
    return lambda: triton_matmul(a, b, activation, SLOPE)


def plain_call(case: Case, operands: Operands) -> Call:
    """`torch.ops.tileon.matmul` without bias and activation."""
    if case.epilogue == "none":
        raise NotOffered("the case is the plain product itself")
    return tileon_call(replace(case, epilogue="none"), replace(operands, bias=None))


_CALLS: dict[str, Callable[[Case, Operands], Call]] = {
    "tileon": tileon_call,
    "torch": torch_call,
    "triton": triton_call,
    "tileon_plain": plain_call,
    "tileon_fast": fast_call,
    "torch_fast": torch_fast_call,
}
_GRAPHED = ("tileon", "torch", "triton")
PROVIDERS = (*_CALLS, *(f"{name}{graph}" for graph in ("_graph", "_graph_cold") for name in _GRAPHED))


def arm(provider: str, case: Case, operands: Operands) -> Arm:
    """The provider's arm on these operands; a graph goes round operand sets of its own.

    Raises:
        NotOffered: with the reason.
    """
    name, _, graph = provider.partition("_graph")
    make_call = _CALLS[name]
    if name == provider:
        return Arm(make_call(case, operands))
    device = operands.a.device
    if device.type != "cuda":
        raise NotOffered("CUDA graphs need a GPU")
    cold = graph == "_cold"
    sets = cold_sets(case.bytes, device) if cold else warm_sets(case.bytes, l2_bytes(device))
    calls = [make_call(case, make_operands(case, device, seed)) for seed in range(sets)]
    return cold_graph_arm(calls) if cold else warm_graph_arm(calls)


def _table_dtype(case: Case) -> str:
    """The case's dtype as the tile table names it."""
    if not case.is_fp8:
        return case.dtype
    names = [str(dtype).removeprefix("torch.") for dtype in case.torch_dtypes]
    return "*".join(dict.fromkeys(names))


def config_arms(case: Case, operands: Operands, indices: Iterable[int] | None) -> dict[str, Arm]:
    """An arm for each row of the tile table that takes the case's dtype, as `tileon:<row's name>`.

    Args:
        indices: of the rows wanted; None is all of them.
    """
    arms: dict[str, Arm] = {}
    dtype = _table_dtype(case)
    for line in torch.ops.tileon._matmul_configs().splitlines():
        index, name, dtypes = line.split()
        wanted = indices is None or int(index) in indices
        if wanted and dtype in dtypes.split(","):
            call = tileon_call(case, operands, int(index))
            try:
                call()
            except RuntimeError as error:  # a size that leaves rows unaligned, or too small a GPU
                if "cannot run these operands" not in str(error):
                    raise
                continue
            arms[f"tileon:{name}"] = Arm(call)
    return arms
