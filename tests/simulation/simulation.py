"""The simulated GPU from Python: libsimulation.so through ctypes, and products whose results are known.

Of both operands every second row is small integers, so that a quarter of the result is exact; the rest is random and
lies within the documented bounds. Every tensor lies at the end (or the begin) of memory beside which nothing may be
touched. An output is NaN until it is written.
"""

import ctypes
import functools
import math
import pathlib
import re
import zlib
from dataclasses import dataclass, field

import numpy as np
from types_of_csrc import (
    ACTIVATIONS,
    DTYPES,
    NUMPY_TYPES,
    PROBLEMS,
    STRUCTURES,
    decode,
    encode,
    float8_values,
    packed_offsets,
)

PORTABLE, HOPPER, PORTABLE_BLOCK_SCALED, HOPPER_BLOCK_SCALED, ELEMENTWISE = range(5)
TABLES = ("portable", "hopper", "portable block-scaled", "hopper block-scaled", "elementwise")


class Simulation:
    """The library."""

    def __init__(self, library: pathlib.Path) -> None:
        self.lib = ctypes.CDLL(str(library))
        self.lib.simulation_sites.restype = ctypes.c_char_p
        self.lib.simulation_allocate.restype = ctypes.c_void_p
        self.lib.simulation_allocate.argtypes = [ctypes.c_int64, ctypes.c_int, ctypes.c_int]
        self.lib.simulation_begin.argtypes = [ctypes.c_uint64, ctypes.c_int]
        self.lib.simulation_leave_out.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int]
        if not hasattr(self.lib, "simulation_run"):  # probes alone
            return
        for name in ("row_name", "row_operands", "why_not", "run"):
            getattr(self.lib, f"simulation_{name}").restype = ctypes.c_char_p
        for index, problem in enumerate(PROBLEMS):
            assert self.lib.simulation_struct_bytes(index) == ctypes.sizeof(STRUCTURES[problem]), problem

    def choose_device(self, name: str) -> None:
        assert self.lib.simulation_choose_device(name.encode())

    def rows(self, table: int) -> list[str]:
        return [
            self.lib.simulation_row_name(table, row).decode() for row in range(self.lib.simulation_row_count(table))
        ]

    def operands(self, table: int, row: int) -> str:
        """What a row multiplies, as the library's ops say it."""
        return self.lib.simulation_row_operands(table, row).decode()

    def array(self, count: int, dtype: type, at_end: bool = True, alignment: int = 16) -> np.ndarray:
        """Guarded memory, all NaN."""
        size = np.dtype(dtype).itemsize
        address = self.lib.simulation_allocate(count * size, int(at_end), alignment)
        return np.frombuffer((ctypes.c_char * (count * size)).from_address(address), dtype)

    def array_of(self, values: np.ndarray, at_end: bool = True, alignment: int = 16) -> np.ndarray:
        """The same in guarded memory."""
        data = self.array(values.size, values.dtype.type, at_end, alignment)
        data[:] = values.ravel()
        return data

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
        names = ("switches", "tasks", "wgmma", "mma", "grids", "fmaf")
        counts = (ctypes.c_uint64 * len(names))()
        self.lib.simulation_statistics(counts)
        return dict(zip(names, counts, strict=True))


@dataclass
class Output:
    """What a problem writes: elements of a dtype, from `low` to `high`."""

    data: np.ndarray
    dtype: int
    low: np.ndarray
    high: np.ndarray

    def what_is_wrong(self) -> str | None:
        values = decode(self.data, self.dtype)
        wrong = np.flatnonzero(~((values >= self.low) & (values <= self.high)))
        if not wrong.size:
            return None
        at = wrong[0]
        wanted = f"{self.low[at]}" if self.low[at] == self.high[at] else f"{self.low[at]} to {self.high[at]}"
        return f"element {at} is {values[at]} instead of {wanted} ({wrong.size} of {values.size} wrong)"


@dataclass
class Problem:
    """Something whose results are known.

    `struct` is what the library takes. `kept`: what it reads, which a kernel in front of it writes. `bits`: a checksum
    of the outputs, by table and row, from the first run that was right: all others must give the same.
    """

    simulation: Simulation
    struct: ctypes.Structure
    outputs: list[Output]
    text: str
    kept: list = field(default_factory=list)
    sms: int = 4
    only_row: int | None = None
    bits: dict[tuple[int, int], int] = field(default_factory=dict)

    def why_not(self, table: int, row: int) -> str | None:
        if self.only_row not in (None, row):
            return "the problem is another kernel's"
        if "wide scales" in self.text and self.simulation.rows(table)[row].startswith("sm90_folded_"):
            return "a fold rounds numbers of many binades"
        reason = self.simulation.lib.simulation_why_not(table, row, ctypes.byref(self.struct), self.sms)
        return None if reason is None else reason.decode()

    def run(self, table: int, row: int, seed: int, independent_lanes: bool = False) -> str | None:
        """What went wrong; None where nothing did."""
        lib = self.simulation.lib
        lib.simulation_write_nothing_before()
        for array in [*self.kept, *(output.data for output in self.outputs)]:
            lib.simulation_write_before(ctypes.c_void_p(array.ctypes.data), ctypes.c_int64(array.nbytes))
        for output in self.outputs:
            output.data.view(np.uint8)[:] = 0xFF
        self.simulation.begin(seed, independent_lanes)
        error = lib.simulation_run(table, row, ctypes.byref(self.struct), self.sms)
        lib.simulation_write_nothing_before()
        if error is not None:
            return f"{error.decode()}; {self.text}"
        if not lib.simulation_padding_is_intact():
            return f"memory beside a tensor was written; seed {seed}; {self.text}"
        for number, output in enumerate(self.outputs):
            what = output.what_is_wrong()
            if what is not None:
                return f"output {number}: {what}; seed {seed}; {self.text}"
        bits = functools.reduce(lambda sum_, output: zlib.crc32(output.data.tobytes(), sum_), self.outputs, 0)
        if self.bits.setdefault((table, row), bits) != bits:
            return f"other bits than in the first schedule; seed {seed}; {self.text}"
        return None


def integers(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.integers(-4, 5, shape).astype(np.float64)


def numbers(random: np.random.Generator, dtype: int, *shape: int) -> np.ndarray:
    """Random ones that a dtype holds."""
    if dtype in (4, 5):
        table = float8_values(dtype)
        return random.choice(table[np.abs(table) <= 8], shape)
    if dtype == 7:
        return random.integers(-16, 17, shape).astype(np.float64)
    return decode(encode(random.standard_normal(shape).astype(np.float32), dtype), dtype)


def sum_errors(a: np.ndarray, b: np.ndarray, units: float) -> np.ndarray:
    """What sums of `a` and `b`, rows of k, may err by: `units` of sum |a||b|, and nothing where both are integers."""
    errors = units * (np.abs(a) @ np.abs(b).swapaxes(-2, -1))
    errors[..., ::2, ::2] = 0
    return errors


def float32_units(k: int) -> float:
    """docs/dtypes.md, "Errors of sums"."""
    return (4 + 2 * math.sqrt(k)) * 2.0**-23


def finish(
    simulation: Simulation,
    problem: ctypes.Structure,
    sums: np.ndarray,
    errors: np.ndarray,
    *,
    activation: str,
    slope: float,
    bias: bool,
    at_end: bool,
    kept: list,
    pre_activation: bool = False,
) -> list[Output]:
    """Fills the problem's epilogue and outputs. Where a sum has no error its result has none."""
    out_dtype, n = problem.out_dtype, sums.shape[-1]
    unit = 2.0**-53 if out_dtype == 3 else 2.0**-24
    problem.epilogue.bias_dtype = bias_dtype = 3 if out_dtype == 3 else 2
    problem.epilogue.slope = slope
    problem.epilogue.activation = ACTIVATIONS.index(activation)
    if bias:
        data = simulation.array_of((np.arange(n) % 17 - 8.0).astype(NUMPY_TYPES[bias_dtype]), at_end)
        kept.append(data)
        problem.epilogue.bias, problem.epilogue.bias_stride = data.ctypes.data, 1
        sums = sums + data
    errors = np.where(errors > 0, errors + 4 * unit * np.abs(sums), 0)
    low, high = (sums - errors).ravel(), (sums + errors).ravel()
    slope = {"none": 1.0, "relu": 0.0, "leaky_relu": slope}[activation]

    def output(*ends: np.ndarray) -> Output:
        data = simulation.array(sums.size, NUMPY_TYPES[out_dtype], at_end)
        return Output(data, out_dtype, *(decode(encode(end, out_dtype), out_dtype) for end in ends))

    outputs = [output(*(np.where(x >= 0, x, slope * x) for x in (low, high)))]
    problem.out = STRUCTURES["Strides"](outputs[0].data.ctypes.data, n, 1, sums.shape[-2] * n)
    if pre_activation:
        outputs.append(output(low, high))
        problem.pre_activation = outputs[1].data.ctypes.data
    return outputs


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
    slope: float = 0.125,
    bias: bool = True,
    pre_activation: bool = False,
    at_end: bool = True,
    sms: int = 4,
    pitch: int = 16,
) -> Problem:
    """out = activation(a b + bias).

    `dtypes`: of a, b and the output. `pitch`: rows begin at multiples of so many elements.
    """
    random = np.random.default_rng(7)
    struct = STRUCTURES["Gemm"](batch, m, n, k, *dtypes, tf32, fast_accum)
    kept: list = []

    def operand(dtype: int, mn: int, k_major: bool) -> tuple[np.ndarray, ctypes.Structure]:
        values = integers(random, batch, mn, k)
        values[:, 1::2] = numbers(random, dtype, batch, mn // 2, k)
        lines = values if k_major else values.swapaxes(1, 2)
        _, outer, inner = lines.shape
        step = -(-inner // pitch) * pitch
        count = batch * step * outer - (step - inner) if outer else 0
        data = simulation.array(max(count, 0), NUMPY_TYPES[dtype], at_end)
        places = np.arange(batch * outer).reshape(batch, outer, 1) * step + np.arange(inner)
        data[places] = encode(lines, dtype)
        kept.append(data)
        strides = (step, 1) if k_major else (1, step)
        return values, STRUCTURES["Strides"](data.ctypes.data, *strides, 0 if batch == 1 else step * outer)

    a, struct.a = operand(dtypes[0], m, a_k_major)
    b, struct.b = operand(dtypes[1], n, b_k_major)
    units = float32_units(k) + (2.0**-15 if dtypes[0] >= 4 else 2.0**-9 if tf32 else 0)  # fp8: docs/dtypes.md
    errors = sum_errors(a, b, units * (2.0**-28 if dtypes[0] == 3 else 1))
    more = {"activation": activation, "slope": slope, "bias": bias, "pre_activation": pre_activation}
    outputs = finish(simulation, struct, a @ b.swapaxes(1, 2), errors, at_end=at_end, kept=kept, **more)
    layout = ("k" if a_k_major else "m") + ("k" if b_k_major else "n")
    names = "*".join(DTYPES[dtype] for dtype in dtypes[:2])
    text = (
        f"{batch} x {m} x {n} x {k} {names} to {DTYPES[dtypes[2]]}{' tf32' if tf32 else ''}, {layout}, "
        f"{activation} {slope}{' with its argument' if pre_activation else ''}"
    )
    return Problem(simulation, struct, outputs, text, kept, sms)


def laid_out_scales(
    simulation: Simulation, scales: np.ndarray, packed: bool, at_end: bool = True, fill: int = 0xFF
) -> np.ndarray:
    """Bytes of (rows, cols) as a kernel takes them."""
    rows, cols = scales.shape
    if not packed:
        return simulation.array_of(scales, at_end)
    data = simulation.array(-(-rows // 128) * -(-cols // 4) * 512, np.uint8, at_end)
    data[:] = fill
    data[packed_offsets(rows, cols)] = scales
    return data
