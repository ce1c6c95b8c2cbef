"""The simulated GPU from Python: libsimulation.so through ctypes, and problems of small integers with exact results.

Every tensor lies at the end (or the begin) of memory beside which nothing may be touched. An output is NaN until it is
written.
"""

import ctypes
import functools
import pathlib
import re
from dataclasses import dataclass, field

import numpy as np

DTYPES = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
DTYPE_BYTES = (2, 2, 4, 8, 1, 1)
ACTIVATIONS = ("none", "relu", "leaky_relu", "gelu", "gelu_tanh", "silu")
PORTABLE, HOPPER, PORTABLE_BLOCK_SCALED, HOPPER_BLOCK_SCALED = range(4)
TABLES = ("portable", "hopper", "portable block-scaled", "hopper block-scaled")
E4M3, E2M1 = 0, 1  # ElementType
E8M0_SCALE, E4M3_SCALE = 0, 1  # ScaleType
E2M1_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


class Strides(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("mn", ctypes.c_int64), ("k", ctypes.c_int64), ("batch", ctypes.c_int64)]


class Finish(ctypes.Structure):
    _fields_ = [
        ("bias", ctypes.c_void_p), ("bias_stride", ctypes.c_int64), ("bias_dtype", ctypes.c_int32),
        ("activation", ctypes.c_int32), ("slope", ctypes.c_double),
    ]  # fmt: skip


class Dense(ctypes.Structure):
    _fields_ = [
        ("batch", ctypes.c_int64), ("m", ctypes.c_int64), ("n", ctypes.c_int64), ("k", ctypes.c_int64),
        ("dtype", ctypes.c_int32), ("b_dtype", ctypes.c_int32), ("out_dtype", ctypes.c_int32),
        ("allow_tf32", ctypes.c_int32), ("fast_accum", ctypes.c_int32), ("sms", ctypes.c_int32),
        ("a", Strides), ("b", Strides), ("out", Strides), ("finish", Finish), ("pre_activation", ctypes.c_void_p),
    ]  # fmt: skip


class Scaled(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("scale", ctypes.c_void_p), ("stride_row", ctypes.c_int64),
        ("element", ctypes.c_int32), ("packed", ctypes.c_int32),
    ]  # fmt: skip


class BlockScaled(ctypes.Structure):
    _fields_ = [
        ("m", ctypes.c_int64), ("n", ctypes.c_int64), ("k", ctypes.c_int64),
        ("scale_type", ctypes.c_int32), ("out_dtype", ctypes.c_int32),
        ("fast_accum", ctypes.c_int32), ("sms", ctypes.c_int32),
        ("a", Scaled), ("b", Scaled), ("out", Strides), ("finish", Finish), ("global_scale", ctypes.c_void_p),
    ]  # fmt: skip


@functools.cache
def float8_values(dtype: int) -> np.ndarray:
    """What the 256 codes of e4m3 (4) or e5m2 (5) are worth."""
    codes = np.arange(256)
    if dtype == 5:
        return (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    values = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    values = np.where(codes & 0x7F == 0x7F, np.nan, values)
    return np.where(codes & 0x80, -values, values)


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """Float32 numbers, rounded to nearest even, as the upper 16 bits."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def encode(values: np.ndarray, dtype: int) -> np.ndarray:
    """Numbers as the elements of a dtype: fp8 only what it holds exactly."""
    if dtype == 1:
        return to_bfloat16(values)
    if dtype >= 4:
        table = float8_values(dtype)
        order = np.argsort(np.where(np.isnan(table), np.inf, table), kind="stable")
        codes = order[np.searchsorted(table[order], values)].astype(np.uint8)
        assert np.array_equal(table[codes], values)
        return codes
    return values.astype((np.float16, None, np.float32, np.float64)[dtype])


def decode(elements: np.ndarray, dtype: int) -> np.ndarray:
    if dtype == 1:
        return (elements.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype >= 4:
        return float8_values(dtype)[elements]
    return elements.astype(np.float64)


NUMPY_TYPES = (np.float16, np.uint16, np.float32, np.float64, np.uint8, np.uint8)


class Simulation:
    """The library."""

    def __init__(self, library: pathlib.Path) -> None:
        self.lib = ctypes.CDLL(str(library))
        for name in (
            "row_name",
            "why_not",
            "run",
            "quantize",
            "dequantize",
            "scale_pack",
            "epilogue_backward",
            "sites",
        ):
            getattr(self.lib, f"simulation_{name}").restype = ctypes.c_char_p
        self.lib.simulation_allocate.restype = ctypes.c_void_p
        self.lib.simulation_allocate.argtypes = [ctypes.c_int64, ctypes.c_int, ctypes.c_int]
        self.lib.simulation_write_before.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        self.lib.simulation_begin.argtypes = [ctypes.c_uint64, ctypes.c_int]
        self.lib.simulation_leave_out.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int]

    def choose_device(self, name: str) -> None:
        assert self.lib.simulation_choose_device(name.encode())

    def rows(self, table: int) -> list[str]:
        return [
            self.lib.simulation_row_name(table, row).decode() for row in range(self.lib.simulation_row_count(table))
        ]

    def array(self, count: int, dtype: type, at_end: bool = True, alignment: int = 16) -> np.ndarray:
        """Guarded memory, all NaN."""
        size = np.dtype(dtype).itemsize
        address = self.lib.simulation_allocate(count * size, int(at_end), alignment)
        return np.frombuffer((ctypes.c_char * (count * size)).from_address(address), dtype)

    def free(self) -> None:
        self.lib.simulation_free()

    def begin(self, seed: int, independent_lanes: bool = False) -> None:
        self.lib.simulation_begin(seed, int(independent_lanes))

    def leave_out(self, file: str | None, line: int = 0, first_warp: int = 0, last_warp: int = 31) -> None:
        """From now on without what stands at `line` of the file whose path ends so; with None, everything again."""
        self.lib.simulation_leave_out(None if file is None else file.encode(), line, first_warp, last_warp)

    def record_sites(self, on: bool) -> None:
        self.lib.simulation_record_sites(int(on))

    def sites(self) -> list[tuple[str, str, int, int, int]]:
        """What ran since: instruction, file, line, how often, a bit for each warp of a CTA that came there."""
        found = []
        for line in self.lib.simulation_sites().decode().splitlines():
            what, file, number, count, warps = re.fullmatch(r"(.*) (\S+):(\d+) (\d+) (\d+)", line).groups()
            found.append((what, file, int(number), int(count), int(warps)))
        return found

    def statistics(self) -> dict[str, int]:
        counts = (ctypes.c_uint64 * 5)()
        self.lib.simulation_statistics(counts)
        return dict(zip(("switches", "tasks", "wgmma", "mma", "grids"), counts, strict=False))


@dataclass
class Problem:
    """A product whose result is known.

    `struct` is what the library takes. `kept`: what it reads, which a kernel in front of it writes.
    """

    simulation: Simulation
    struct: ctypes.Structure
    out: np.ndarray
    out_dtype: int
    expected: np.ndarray
    text: str
    pre_activation: np.ndarray | None = None
    expected_pre_activation: np.ndarray | None = None
    kept: list = field(default_factory=list)

    def why_not(self, table: int, row: int) -> str | None:
        reason = self.simulation.lib.simulation_why_not(table, row, ctypes.byref(self.struct))
        return None if reason is None else reason.decode()

    def run(self, table: int, row: int, seed: int, independent_lanes: bool = False) -> str | None:
        """What went wrong; None where nothing did."""
        lib = self.simulation.lib
        lib.simulation_write_nothing_before()
        for array in [*self.kept, self.out]:
            lib.simulation_write_before(ctypes.c_void_p(array.ctypes.data), array.nbytes)
        self.out.view(np.uint8)[:] = 0xFF
        if self.pre_activation is not None:
            self.pre_activation.view(np.uint8)[:] = 0xFF
        self.simulation.begin(seed, independent_lanes)
        error = lib.simulation_run(table, row, ctypes.byref(self.struct))
        lib.simulation_write_nothing_before()
        if error is not None:
            return f"{error.decode()}; {self.text}"
        if not lib.simulation_padding_is_intact():
            return f"memory beside a tensor was written; seed {seed}; {self.text}"
        for name, got, expected in (
            ("", self.out, self.expected),
            ("pre-activation ", self.pre_activation, self.expected_pre_activation),
        ):
            if got is None:
                continue
            values = decode(got, self.out_dtype)
            wrong = np.flatnonzero(~(values == expected))
            if wrong.size:
                at = wrong[0]
                return (
                    f"{name}element {at} is {values[at]} instead of {expected[at]} "
                    f"({wrong.size} of {values.size} wrong); seed {seed}; {self.text}"
                )
        return None


def integers(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.integers(-4, 5, shape).astype(np.float64)


def finish(
    simulation: Simulation,
    problem: ctypes.Structure,
    sums: np.ndarray,
    out_dtype: int,
    activation: str,
    bias: bool,
    at_end: bool,
    kept: list,
) -> tuple[np.ndarray, np.ndarray]:
    """Fills the problem's epilogue; returns the exact results before and after its activation, rounded."""
    n = sums.shape[-1]
    bias_dtype = 3 if out_dtype == 3 else 2
    problem.finish.slope = 0.125
    problem.finish.activation = ACTIVATIONS.index(activation)
    if bias:
        values = np.arange(n) % 17 - 8.0
        data = simulation.array(n, NUMPY_TYPES[bias_dtype], at_end)
        data[:] = values
        kept.append(data)
        problem.finish.bias, problem.finish.bias_stride, problem.finish.bias_dtype = data.ctypes.data, 1, bias_dtype
        sums = sums + values
    else:
        problem.finish.bias_dtype = bias_dtype
    slope = {"none": 1.0, "relu": 0.0, "leaky_relu": 0.125}[activation]
    after = np.where(sums >= 0, sums, slope * sums)
    rounded = [decode(encode(x.ravel(), out_dtype), out_dtype) for x in (sums, after)]
    return rounded[0], rounded[1]


def dense_problem(
    simulation: Simulation,
    m: int,
    n: int,
    k: int,
    dtypes: tuple[int, int, int],
    *,
    batch: int = 1,
    a_k_major: bool = True,
    b_k_major: bool = True,
    tf32: bool = False,
    fast_accum: bool = True,
    activation: str = "leaky_relu",
    bias: bool = True,
    pre_activation: bool = False,
    at_end: bool = True,
    sms: int = 4,
    pitch: int = 16,
) -> Problem:
    """out = activation(a b + bias) for random integers from -4 to 4.

    `dtypes`: of a, b and the output. `pitch`: rows begin at multiples of so many elements.
    """
    random = np.random.default_rng(7)
    struct = Dense(batch, m, n, k, *dtypes, tf32, fast_accum, sms)
    kept: list = []

    def operand(dtype: int, mn: int, k_major: bool) -> tuple[np.ndarray, Strides]:
        inner, outer = (k, mn) if k_major else (mn, k)
        step = -(-inner // pitch) * pitch
        count = batch * step * outer - (step - inner) if outer else 0
        data = simulation.array(max(count, 0), NUMPY_TYPES[dtype], at_end)
        values = integers(random, batch, outer, inner)
        places = (
            np.arange(batch)[:, None, None] * step * outer + np.arange(outer)[None, :, None] * step + np.arange(inner)
        )
        data[places] = encode(values, dtype)
        kept.append(data)
        strides = Strides(
            data.ctypes.data, step if k_major else 1, 1 if k_major else step, 0 if batch == 1 else step * outer
        )
        return (values if k_major else values.swapaxes(1, 2)), strides

    a, struct.a = operand(dtypes[0], m, a_k_major)
    b, struct.b = operand(dtypes[1], n, b_k_major)
    before, after = finish(simulation, struct, a @ b.swapaxes(1, 2), dtypes[2], activation, bias, at_end, kept)
    out = simulation.array(batch * m * n, NUMPY_TYPES[dtypes[2]], at_end)
    struct.out = Strides(out.ctypes.data, n, 1, m * n)
    kept_sums = simulation.array(batch * m * n, NUMPY_TYPES[dtypes[2]], at_end) if pre_activation else None
    if kept_sums is not None:
        struct.pre_activation = kept_sums.ctypes.data
    layout = ("k" if a_k_major else "m") + ("k" if b_k_major else "n")
    names = "*".join(DTYPES[dtype] for dtype in dtypes[:2])
    text = (
        f"{batch} x {m} x {n} x {k} {names} to {DTYPES[dtypes[2]]}{' tf32' if tf32 else ''}, {layout}, "
        f"{activation}{' with its argument' if pre_activation else ''}"
    )
    return Problem(simulation, struct, out, dtypes[2], after, text, kept_sums, before if pre_activation else None, kept)


def packed_offsets(rows: int, cols: int) -> np.ndarray:
    """Where the scale of (row, col) lies in the packed layout: scale_layout.h."""
    row, col = np.arange(rows)[:, None], np.arange(cols)
    return (row // 128 * -(-cols // 4) + col // 4) * 512 + row % 32 * 16 + row % 128 // 32 * 4 + col % 4


def scaled_operand(
    simulation: Simulation,
    random: np.random.Generator,
    rows: int,
    k: int,
    element: int,
    scale_type: int,
    packed: bool,
    at_end: bool,
    last: int,
) -> tuple[np.ndarray, Scaled, list]:
    """Codes and scales of small integers and powers of two; the numbers that they stand for."""
    if element == E4M3:
        values = integers(random, rows, k)
        codes = encode(values, 4)
    else:
        nibbles = random.integers(0, 16, (rows, k)).astype(np.uint8)
        values = E2M1_VALUES[nibbles]
        codes = nibbles[:, 0::2] | nibbles[:, 1::2] << 4
    data = simulation.array(codes.size, np.uint8, at_end)
    data[:] = codes.ravel()
    cols = k // (32 if scale_type == E8M0_SCALE else 16)
    powers = random.integers(-1, 2, (rows, cols))
    powers[:, -1:] -= last
    bytes_ = (127 + powers if scale_type == E8M0_SCALE else (7 + powers) << 3).astype(np.uint8)
    places = packed_offsets(rows, cols) if packed else np.arange(rows)[:, None] * cols + np.arange(cols)
    count = -(-rows // 128) * -(-cols // 4) * 512 if packed else rows * cols
    scales = simulation.array(count, np.uint8, at_end)
    scales[places] = bytes_
    values = values * np.repeat(2.0**powers, k // max(cols, 1), axis=1)
    return values, Scaled(data.ctypes.data, scales.ctypes.data, codes.shape[1], element, packed), [data, scales]


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
    bias: bool = True,
    global_scale: float | None = 0.5,
    fast_accum: bool = True,
    at_end: bool = True,
    sms: int = 4,
    last: int = 0,
) -> Problem:
    """`last`: by what power of two the last scale of each row is smaller than the others."""
    random = np.random.default_rng(11)
    struct = BlockScaled(m, n, k, scale_type, out_dtype, fast_accum, sms)
    kept: list = []
    a, struct.a, memory = scaled_operand(simulation, random, m, k, elements[0], scale_type, packed, at_end, last)
    kept += memory
    b, struct.b, memory = scaled_operand(simulation, random, n, k, elements[1], scale_type, packed, at_end, last)
    kept += memory
    sums = a @ b.T
    if global_scale is not None:
        factor = simulation.array(1, np.float32, at_end, 4)
        factor[:] = global_scale
        kept.append(factor)
        struct.global_scale = factor.ctypes.data
        sums = sums * global_scale
    _, after = finish(simulation, struct, sums, out_dtype, activation, bias, at_end, kept)
    out = simulation.array(m * n, NUMPY_TYPES[out_dtype], at_end)
    struct.out = Strides(out.ctypes.data, n, 1, 0)
    names = "*".join(("e4m3", "e2m1")[element] for element in elements)
    text = (
        f"{m} x {n} x {k} {names} by {('e8m0', 'e4m3')[scale_type]} to {DTYPES[out_dtype]}, "
        f"{'packed' if packed else 'flat'} scales, {activation}"
    )
    return Problem(simulation, struct, out, out_dtype, after, text, kept=kept)
