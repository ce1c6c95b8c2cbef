"""Products of operands with scales, whose results are known."""

import ctypes

import numpy as np
from simulation import (
    Problem,
    Simulation,
    finish,
    float32_units,
    integers,
    laid_out_scales,
    numbers,
    sum_errors,
)
from types_of_csrc import DTYPES, E2M1_VALUES, STRUCTURES, encode, float8_values, scale_strides

FLOAT16, BFLOAT16, E4M3, E2M1, INT8 = 0, 1, 4, 6, 7  # DType
# ScaleType, whose last one is here two: float32 scales of rows, and of 128 k of a row of a and of 128 rows of b.
E8M0_SCALE, E4M3_SCALE, ROW_SCALE, BLOCK_SCALE = range(4)
VECS = (32, 16, 128, 128)  # elements along k that share one


# Of an operand: what each element is multiplied by, the scales in memory, and their strides.
Scales = tuple[np.ndarray, np.ndarray, ctypes.Structure]


def byte_scales(
    simulation: Simulation,
    random: np.random.Generator,
    rows: int,
    k: int,
    scale_type: int,
    packed: bool,
    at_end: bool,
    wide: bool,
    last: int,
) -> Scales:
    cols = k // VECS[scale_type]
    bytes_ = random.integers(-1, 2, (rows, cols))
    bytes_[:, -1:] -= last
    bytes_ = (127 + bytes_ if scale_type == E8M0_SCALE else (7 + bytes_) << 3).astype(np.uint8)
    if wide:
        bytes_[1::2] = random.integers(*((112, 130) if scale_type == E8M0_SCALE else (1, 64)), (rows // 2, cols))
    worth = 2.0 ** (bytes_ - 127.0) if scale_type == E8M0_SCALE else float8_values(4)[bytes_]
    scales = laid_out_scales(simulation, bytes_, packed, at_end)
    return np.repeat(worth, VECS[scale_type], axis=1), scales, scale_strides(cols, packed)


def float32_scales(
    simulation: Simulation,
    random: np.random.Generator,
    rows: int,
    k: int,
    scale_type: int,
    share: int,
    at_end: bool,
    wide: bool,
) -> Scales:
    """Powers of two. `share`: so many rows have one; where that is 1, `wide` ones are also so small that kernels take
    the product of two in double."""
    step = int(scale_type == BLOCK_SCALE)
    cols = -(-k // VECS[scale_type]) if step else 1
    powers = random.integers(-1, 2, (-(-rows // share), cols))
    if wide and share == 1:
        powers[1::2] = random.integers(-64, 51, (rows // 2, cols))
    scales = simulation.array_of(np.float32(2) ** powers.astype(np.float32), at_end, 4)
    worth = np.repeat(np.repeat(2.0**powers, share, axis=0)[:rows], VECS[scale_type] if step else k, axis=1)[:, :k]
    strides = (cols, 4, 0, 0, 1) if share > 1 else (128 * cols, 4 * step, cols, 32 * cols, step)
    return worth, scales, STRUCTURES["ScaleStrides"](*strides)


def scaled_operand(
    simulation: Simulation,
    random: np.random.Generator,
    rows: int,
    k: int,
    element: int,
    scale_type: int,
    packed: bool,
    at_end: bool,
    wide: bool,
    last: int,
    share: int,
) -> tuple[np.ndarray, ctypes.Structure, list]:
    """Codes and scales, and the numbers that they stand for. `wide`: scales of any size, in the rows that may have."""
    if element != E2M1:
        values = integers(random, rows, k)
        values[1::2] = numbers(random, element, rows // 2, k)
        codes = encode(values, element)
    else:
        nibbles = random.integers(0, 16, (rows, k)).astype(np.uint8)
        values = E2M1_VALUES[nibbles]
        codes = nibbles[:, 0::2] | nibbles[:, 1::2] << 4
    data = simulation.array_of(codes, at_end)
    if element in (FLOAT16, BFLOAT16):  # without scales
        return values, STRUCTURES["Scaled"](data.ctypes.data, k, 1, element), [data]
    if scale_type in (ROW_SCALE, BLOCK_SCALE):
        worth, scales, strides = float32_scales(simulation, random, rows, k, scale_type, share, at_end, wide)
    else:
        worth, scales, strides = byte_scales(simulation, random, rows, k, scale_type, packed, at_end, wide, last)
    struct = STRUCTURES["Scaled"](data.ctypes.data, codes.shape[1], 1, element, scales.ctypes.data, strides)
    return values * worth, struct, [data, scales]


def prepared_weight(simulation: Simulation, rows: int, k: int, form: int) -> np.ndarray:
    """Room for PreparedLayout's parts, of int8 (form 0) or bfloat16."""
    aligned = [-(-count // 256) * 256 for count in (rows * k * (1 + form), rows)]
    return simulation.array(sum(aligned) + 256 * (2 - form), np.uint8, alignment=256)


def block_scaled_problem(
    simulation: Simulation,
    m: int,
    n: int,
    k: int,
    elements: tuple[int, int],
    scale_type: int,
    *,
    out_dtype: int = 1,
    packed: bool = True,
    activation: str = "leaky_relu",
    slope: float = 0.125,
    bias: bool = True,
    global_scale: float | None = 0.5,
    fast_accum: bool = True,
    at_end: bool = True,
    sms: int = 4,
    wide: bool = False,
    prepared: int | None = None,
    last: int = 0,
) -> Problem:
    """`prepared`: the form of a weight that is prepared before; `last`: the power of two by which each row's last scale
    is smaller than the others."""
    random = np.random.default_rng(11)
    vec = VECS[scale_type]
    struct = STRUCTURES["BlockScaled"](m, n, k, min(scale_type, ROW_SCALE), vec, out_dtype, fast_accum)
    kept: list = []
    scales = (scale_type, packed, at_end, wide, last)
    a, struct.a, memory = scaled_operand(simulation, random, m, k, elements[0], *scales, 1)
    kept += memory
    share = 128 if scale_type == BLOCK_SCALE else 1
    b, struct.b, memory = scaled_operand(simulation, random, n, k, elements[1], *scales, share)
    kept += memory
    sums, errors = a @ b.T, sum_errors(a, b, float32_units(k))
    if global_scale is not None:
        factor = simulation.array_of(np.float32([global_scale]), at_end, 4)
        kept.append(factor)
        struct.global_scale = factor.ctypes.data
        sums, errors = sums * global_scale, errors * global_scale
    if prepared is not None:
        weight = prepared_weight(simulation, n, k, prepared)
        struct.prepared_b = STRUCTURES["Prepared"](weight.ctypes.data, prepared)
    outputs = finish(
        simulation, struct, sums, errors, activation=activation, slope=slope, bias=bias, at_end=at_end, kept=kept
    )
    names = "*".join({**dict(enumerate(DTYPES)), E4M3: "e4m3", E2M1: "e2m1"}[element] for element in elements)
    scale = ("e8m0", "e4m3", "float32 of rows", "float32 of blocks")[scale_type]
    text = (
        f"{m} x {n} x {k} {names} by {scale} to {DTYPES[out_dtype]}, "
        f"{'packed' if packed else 'flat'} {'wide ' if wide else ''}scales, {activation} {slope}"
        f"{'' if prepared is None else ', prepared as ' + ('int8', 'bfloat16')[prepared]}"
    )
    return Problem(simulation, struct, outputs, text, kept, sms)
