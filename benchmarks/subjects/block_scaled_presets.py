"""Fixed sets of block-scaled products: what results/<gpu>/block_scaled_*.csv hold, and what the demo shows.

demo: our op alone at a few squares, as large as the machine does quickly.
portable: every format against its peers at three squares and two short k.
hopper: for block_scaled_matmul.csv. Three squares in every format, in both kinds of data, exact and fast against every
    peer; k from 512 to 16384 at m = n = 8192, normal data, against cuBLAS on 16 bits alone; a weight of 8192 x 8192
    that was prepared beforehand, under 128 to 1024 rows; and few rows, 1, 16 and 64, against weights of 8192 x 8192 and
    of two linear layers by CUDA-graph replay.

Where hopper's time goes: each of its 66 cases takes the seconds of warming and timing that the command line gives it,
40 in all at the 0.6 of run_all.py. Operands and first calls are some 13 s more, graphs 6, the calls of
torch.compile 12, and Triton's trying of its configurations 9: 80 s of the GPU, by estimate. Before that, once on a
machine, the host compiles the peers: Triton's configurations for three formats, and a kernel for each operand's size.
expected_seconds adds it up.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from benchmarks.common.block_scaled_cases import DATA, FORMATS, BlockScaledCase
from benchmarks.common.cases import Shape

PRESETS = ("demo", "portable", "hopper")
PEERS = ("tileon", "triton", "torch_dequantize")

HOPPER_SQUARES = (8192, 4096, 2048)
SWEEP_SIZE = 8192  # m and n of the sweep over k
SWEEP_K = (512, 1024, 2048, 4096, 16384)  # 8192 is one of the squares
PREPARED_ROWS = (128, 256, 512, 1024)  # of a, against a weight of 8192 x 8192
PREPARED_FORMATS = ("mxfp4", "nvfp4", "mxfp8")
FEW_ROWS: tuple[tuple[str, Shape], ...] = (
    *(("mxfp4", (rows, 8192, 8192)) for rows in (1, 16, 64)),
    *(("nvfp4", (rows, 8192, 8192)) for rows in (1, 16, 64)),
    *((name, (16, 8192, 8192)) for name in ("mixed", "mxfp8")),
    *(("mxfp4", (16, n, k)) for n, k in ((14336, 4096), (4096, 14336))),  # linear layers of a large model
)

_PORTABLE: tuple[Shape, ...] = ((8192,) * 3, (4096,) * 3, (2048,) * 3, (8192, 8192, 512), (8192, 8192, 2048))
_GPU_DEMO: tuple[Shape, ...] = ((1024,) * 3, (2048,) * 3, (4096,) * 3, (8192,) * 3)
_CPU_DEMO: tuple[Shape, ...] = ((32,) * 3, (64,) * 3, (128,) * 3)


@dataclass(frozen=True)
class BlockScaledWork:
    """A case, and who computes it."""

    case: BlockScaledCase
    providers: tuple[str, ...]


def works(
    formats: list[str], shapes: list[Shape], data: str = "tutorial", providers: tuple[str, ...] = PEERS
) -> list[BlockScaledWork]:
    """Every combination, format by format."""
    return [BlockScaledWork(BlockScaledCase(name, *shape, data), providers) for name in formats for shape in shapes]


def _hopper() -> list[BlockScaledWork]:
    squares: list[Shape] = [(size, size, size) for size in HOPPER_SQUARES]
    sweep: list[Shape] = [(SWEEP_SIZE, SWEEP_SIZE, k) for k in SWEEP_K]
    everybody = ("tileon", "tileon_fast", "triton", "torch_dequantize", "torch_bf16")
    work = [item for name in FORMATS for data in DATA for item in works([name], squares, data, everybody)]
    work += works(list(FORMATS), sweep, "normal", ("tileon", "torch_bf16"))
    rows: list[Shape] = [(m, SWEEP_SIZE, SWEEP_SIZE) for m in PREPARED_ROWS]
    work += works(list(PREPARED_FORMATS), rows, "normal", ("tileon", "tileon_prepared", "torch_bf16"))
    for name, shape in FEW_ROWS:
        work += works([name], [shape], "normal", ("tileon_graph", "torch_bf16_graph"))
    return work


def preset_work(name: str, device: torch.device) -> list[BlockScaledWork]:
    """The work of a preset; see the head of this file."""
    if name == "hopper":
        return _hopper()
    if name == "portable":
        return works(list(FORMATS), list(_PORTABLE))
    return works(list(FORMATS), list(_GPU_DEMO if device.type == "cuda" else _CPU_DEMO), providers=("tileon",))


# Seconds of a case besides its timing: operands and first calls, and what a provider takes before it can be timed:
# Triton's trying of its configurations, a call of torch.compile, the capture of a graph over operand sets of its own.
_SETUP = 0.2
_PROVIDER_SETUP = {"triton": 0.5, "torch_dequantize": 0.5, "tileon_graph": 0.3, "torch_bf16_graph": 0.3}
_FORMAT_COMPILATION = {"triton": 10.0, "torch_dequantize": 6.0}  # seconds of the host's, once for each format


def expected_seconds(work: list[BlockScaledWork], seconds: float) -> tuple[float, float]:
    """About what a machine with a GPU takes for it all: with the GPU, warming in full, and compiling the peers.

    Args:
        work: what is measured.
        seconds: of warming and timing one case.
    """
    gpu = 0.0
    compiled = set()
    for item in work:
        offered = [name for name in item.providers if (item.case.format, name) != ("nvfp4", "triton")]
        gpu += seconds + _SETUP + sum(_PROVIDER_SETUP.get(name, 0.0) for name in offered)
        compiled |= {(item.case.format, name) for name in offered if name in _FORMAT_COMPILATION}
    return gpu, sum(_FORMAT_COMPILATION[name] for _, name in compiled)
