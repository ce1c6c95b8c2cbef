"""What a GPU can do at most, and where each figure is from: the roofs of the roofline picture."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ComputeRoof:
    """TFLOP/s of one kind of arithmetic.

    `peak` is the dense rate that the hardware is made for. `sustained` is what a loop of the instruction alone reaches
    under the GPU's power limit, or None where nobody has measured it.
    """

    peak: float
    sustained: float | None = None


@dataclass(frozen=True)
class GpuRoofs:
    """`read_tb_s` and `copy_tb_s` are measured (a copy counts what it reads and what it writes), `memory_tb_s` is the
    data sheet's. `compute` goes by what multiplies: `16-bit`, `8-bit` (fp8 and int8), `tf32`, `float32`, `float64`."""

    read_tb_s: float
    copy_tb_s: float
    memory_tb_s: float
    compute: dict[str, ComputeRoof]
    source: str  # for the caption


# Peaks: 132 SMs x operations a clock and SM x clock. Of the tensor core 4096 with 16-bit operands, 8192 with 8-bit,
# 2048 with TF32, all at 1.83 GHz; 256 with float64, and 256 by the float32 units, at 1.98 GHz. NVIDIA's H200 data sheet
# (https://www.nvidia.com/en-us/data-center/h200/) rounds these, gives the first three with sparsity, twice the dense
# rate (1979, 3958 and 989 TFLOP/s), and 4.8 TB/s of memory bandwidth.
# Measured on one H200 (700 W, CUDA 13.0, 2026-11-20): a large read and a large copy; wgmma in a loop on operands in
# shared memory, with no loads: bfloat16 m64n256k16 and e4m3 m64n256k32, two warpgroups, whose best short runs reached
# 935 and 1744 TFLOP/s.
_H200 = GpuRoofs(
    read_tb_s=4.34,
    copy_tb_s=4.29,
    memory_tb_s=4.8,
    compute={
        "16-bit": ComputeRoof(989.4, sustained=872),
        "8-bit": ComputeRoof(1978.9, sustained=1697),
        "tf32": ComputeRoof(494.7),
        "float32": ComputeRoof(66.9),
        "float64": ComputeRoof(66.9),
    },
    source="Roofs: dense peaks of NVIDIA's data sheet; dotted: wgmma alone, measured under the power limit of 700 W; "
    "memory: 4.34 TB/s measured by a large read (4.8 in the data sheet).",
)

GPU_ROOFS = {"NVIDIA H200": _H200}  # by the name that nvidia-smi gives
