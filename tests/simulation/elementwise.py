"""Problems for the kernels that quantize, dequantize, move scales and take gradients through an epilogue.

The results are those of the torch tests' oracle (tests/small_float_reference.py), bit by bit.
"""

import pathlib
import sys
from collections.abc import Iterator

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import float32_scale_reference
import torch
from float32_scale_reference import FLOAT32_FORMATS, Float32Format
from simulation import Output, Problem, Simulation, laid_out_scales
from small_float_operands import random_bytes, random_data, wide_values
from small_float_reference import FORMATS, NVFP4, Format, expected_dequantize, expected_quantize, pack
from types_of_csrc import ACTIVATIONS, BYTES, DTYPES, NUMPY_TYPES, STRUCTURES, decode, encode, scale_strides

QUANTIZE, DEQUANTIZE, SCALE_PACK, OPERAND_COPY, EPILOGUE_BACKWARD, NVFP4_ROWS = range(6)  # rows
TORCH_TYPES = (torch.float16, torch.bfloat16, torch.float32)
SIZES = [(1, 32), (130, 96), (33, 1312), (17, 64)]  # rows, k
# rows, columns and matrices of a copy; bytes of an element; where the operand begins, in bytes behind a multiple of 16;
# and its strides from row to row and from element to element, in bytes
COPIES = [
    (5, 37, 2, 1, 3, 41, 1),  # bytes that begin anywhere
    (3, 130, 2, 2, 2, 262, 2),  # units of 2 bytes
    (9, 12, 1, 4, 4, 52, 4),
    (3, 20, 3, 2, 8, 48, 2),
    (33, 24, 2, 8, 0, 208, 8),  # units of 16
    (2, 5000, 1, 1, 1, 5001, 1),  # more chunks than a CTA has threads
    (4, 21, 2, 2, 2, 200, 6),  # no dimension is dense
    (70, 9, 1, 4, 0, 4, 300),  # columns of more than a byte
    (3, 40, 2, 1, 0, 0, 1),  # one row for all
    (130, 200, 2, 1, 4, 1, 132),  # words of columns
    (131, 77, 1, 1, 0, 1, 132),
    (260, 130, 1, 1, 1, 1, 261),  # columns that begin anywhere
    (40, 33, 2, 1, 0, 2, 81),
    (1, 300, 1, 1, 5, 1, 3),
]
GRADIENT_SIZES = [(200, 72, 1), (1, 520, 1), (67, 1, 1), (33, 257, 2), (300, 256, 1)]  # m, n, batch


def bytes_of(tensor: torch.Tensor) -> np.ndarray:
    return tensor.contiguous().view(torch.uint8).numpy().ravel()


def exact(simulation: Simulation, expected: np.ndarray, at_end: bool, dtype: int = BYTES) -> Output:
    data = simulation.array(expected.size, NUMPY_TYPES[dtype], at_end)
    return Output(data, dtype, expected.ravel().astype(np.float64), expected.ravel().astype(np.float64))


def problem_of(
    simulation: Simulation, row: int, struct: object, outputs: list[Output], text: str, kept: list
) -> Problem:
    return Problem(simulation, struct, outputs, text, kept, only_row=row)


def global_scale_of(simulation: Simulation, form: Format, kept: list) -> tuple[torch.Tensor | None, int | None]:
    if form is not NVFP4:
        return None, None
    kept.append(simulation.array_of(np.float32([0.0123]), alignment=4))
    return torch.tensor(0.0123), kept[-1].ctypes.data


def quantize_problem(simulation: Simulation, rows: int, k: int, form: Format, dtype: int, rceil: bool) -> Problem:
    at_end = k != 96
    x = wide_values(rows, k, TORCH_TYPES[dtype], seed=rows)
    kept = [simulation.array_of(bytes_of(x), at_end)]
    scale, address = global_scale_of(simulation, form, kept)
    expected = expected_quantize(x, form, scale, "rceil" if rceil else "floor")
    outputs = [exact(simulation, bytes_of(part), at_end) for part in (expected.data, pack(expected.scale))]
    addresses = [output.data.ctypes.data for output in outputs]
    struct = STRUCTURES["Quantize"](
        rows, k, FORMATS.index(form), rceil, dtype, kept[0].ctypes.data, k, 1, address, 0, *addresses, None, True
    )
    text = f"{rows} x {k} {DTYPES[dtype]} to {form.name}, {'rceil' if rceil else 'floor'}"
    return problem_of(simulation, QUANTIZE, struct, outputs, text, kept)


def numbers_problem(simulation: Simulation, rows: int, k: int, form: Format, dtype: int, rceil: bool) -> Problem:
    """What the codes stand for, none of which is NaN."""
    at_end = k != 96
    x = finite(wide_values(rows, k, TORCH_TYPES[dtype], seed=rows))
    kept = [simulation.array_of(bytes_of(x), at_end)]
    codes = expected_quantize(x, form, None, "rceil" if rceil else "floor")
    expected = expected_dequantize(codes.data, codes.scale, form, None, TORCH_TYPES[dtype])
    outputs = [numbers_output(simulation, expected, at_end)]
    addresses = [array.ctypes.data for array in (kept[0], outputs[0].data)]
    struct = STRUCTURES["Quantize"](
        rows, k, FORMATS.index(form), rceil, dtype, addresses[0], k, 1, None, 0, None, None, addresses[1], True
    )
    text = f"{rows} x {k} {DTYPES[dtype]} to numbers of {form.name}, {'rceil' if rceil else 'floor'}"
    return problem_of(simulation, QUANTIZE, struct, outputs, text, kept)


def numbers_output(simulation: Simulation, expected: torch.Tensor, at_end: bool) -> Output:
    """Of 16 bits; the largest number stands for what is beyond float16."""
    largest = torch.finfo(expected.dtype).max
    bounded = torch.where(expected.isinf(), expected.sign() * largest, expected)
    values = bounded.double().numpy().ravel()
    dtype = TORCH_TYPES.index(expected.dtype)
    return Output(simulation.array(values.size, NUMPY_TYPES[dtype], at_end), dtype, values, values)


def dequantize_problem(simulation: Simulation, rows: int, k: int, form: Format, dtype: int, packed: bool) -> Problem:
    at_end = k != 96
    codes, scales = random_data(form, rows, k), random_bytes(rows, k // form.vec, seed=1, below=0x7F)
    if not form.is_fp4:
        codes[codes & 0x7F == 0x7F] = 0x7E  # no NaN: its bits are not defined
    kept = [
        simulation.array_of(codes.numpy(), at_end),
        laid_out_scales(simulation, scales.numpy(), packed, at_end),
    ]
    scale, address = global_scale_of(simulation, form, kept)
    expected = expected_dequantize(codes, scales, form, scale, TORCH_TYPES[dtype])
    outputs = [exact(simulation, bytes_of(expected), at_end)]
    strides = scale_strides(scales.shape[1], packed)
    data, scale_data = (array.ctypes.data for array in kept[:2])
    out = outputs[0].data.ctypes.data
    struct = STRUCTURES["Dequantize"](
        rows, k, FORMATS.index(form), dtype, data, codes.shape[1], 1, scale_data, strides, address, 0, out
    )
    text = f"{rows} x {k} {form.name} to {DTYPES[dtype]}, {'packed' if packed else 'flat'} scales"
    return problem_of(simulation, DEQUANTIZE, struct, outputs, text, kept)


def nvfp4_rows(x: torch.Tensor, factor: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """Data, packed scales and each row's global scale times `factor`, by the oracle."""
    amax = x.float().masked_fill(~x.isfinite(), 0.0).abs().amax(1, keepdim=True)
    own = amax / torch.tensor(2688.0)
    own = own.masked_fill(own == 0, 1.0)
    rows = [expected_quantize(x[i : i + 1], NVFP4, own[i]) for i in range(x.shape[0])]
    data, scale = (torch.cat(parts) for parts in zip(*((row.data, row.scale) for row in rows), strict=True))
    return data, pack(scale), own if factor is None else own * factor


def nvfp4_rows_problem(
    simulation: Simulation,
    x: torch.Tensor,
    factor: torch.Tensor | None,
    expected: tuple[torch.Tensor, ...],
    transposed: bool,
) -> Problem:
    """`factor`: one for all, or one a row."""
    rows, k = x.shape
    kept = [simulation.array_of(bytes_of((x.t() if transposed else x).reshape(-1)), at_end=True)]
    if factor is not None:
        kept.append(simulation.array_of(factor.numpy().ravel(), alignment=4))
    outputs = [exact(simulation, bytes_of(part), at_end=True) for part in expected]
    addresses = [output.data.ctypes.data for output in outputs]
    dtype, strides = TORCH_TYPES.index(x.dtype), (1, rows) if transposed else (k, 1)
    quantize = STRUCTURES["Quantize"](
        rows, k, FORMATS.index(NVFP4), 0, dtype, kept[0].ctypes.data, *strides, None, 0, *addresses[:2], None, True
    )
    of_factor = (None, 0) if factor is None else (kept[1].ctypes.data, int(factor.numel() > 1))
    struct = STRUCTURES["Nvfp4Rows"](quantize, *of_factor, addresses[2])
    text = f"{rows} x {k} {DTYPES[dtype]} to nvfp4 by rows{', transposed' if transposed else ''}"
    return problem_of(simulation, NVFP4_ROWS, struct, outputs, text, kept)


def numbers_of_nvfp4_rows_problem(simulation: Simulation, x: torch.Tensor) -> Problem:
    rows, k = x.shape
    kept = [simulation.array_of(bytes_of(x.reshape(-1)), at_end=True)]
    data, _, own = nvfp4_rows(x, None)
    scale = torch.cat([expected_quantize(x[i : i + 1], NVFP4, own[i]).scale for i in range(rows)])
    outputs = [
        numbers_output(simulation, expected_dequantize(data, scale, NVFP4, None, x.dtype), True),
        exact(simulation, bytes_of(own), at_end=True),
    ]
    dtype, addresses = TORCH_TYPES.index(x.dtype), [output.data.ctypes.data for output in outputs]
    quantize = STRUCTURES["Quantize"](
        rows, k, FORMATS.index(NVFP4), 0, dtype, kept[0].ctypes.data, k, 1, None, 0, None, None, addresses[0], True
    )
    struct = STRUCTURES["Nvfp4Rows"](quantize, None, 0, addresses[1])
    text = f"{rows} x {k} {DTYPES[dtype]} to numbers of nvfp4 by rows"
    return problem_of(simulation, NVFP4_ROWS, struct, outputs, text, kept)


def nvfp4_rows_problems(simulation: Simulation, rows: int, k: int) -> Iterator[Problem]:
    for dtype in TORCH_TYPES:
        x = wide_values(rows, k, dtype, seed=rows)
        x[:, 5] = 3.0  # under an own scale that is nearly 0 the oracle has no codes
        if rows > 1:
            x[rows // 2] = 0
        for transposed, factor in ((False, None), (False, torch.tensor([0.37])), (True, torch.rand(rows, 1) + 0.1)):
            yield nvfp4_rows_problem(simulation, x, factor, nvfp4_rows(x, factor), transposed)
        if dtype != torch.float32:
            yield numbers_of_nvfp4_rows_problem(simulation, finite(x))


def finite(values: torch.Tensor) -> torch.Tensor:
    """One number that is not finite would make a whole tensor's scale NaN, and all codes 0."""
    return values.masked_fill(~values.isfinite(), 1.0)


def quantize_float32_problem(
    simulation: Simulation, rows: int, k: int, form: Float32Format, dtype: int, transposed: bool
) -> Problem:
    x = finite(wide_values(rows, -(-k // 16) * 16, TORCH_TYPES[dtype], seed=rows)[:, :k])
    kept = [simulation.array_of(bytes_of((x.t() if transposed else x).reshape(-1)), at_end=True)]
    data, scale = float32_scale_reference.expected_quantize(x, form)
    codes = exact(simulation, bytes_of(data), True)
    scales = Output(simulation.array(scale.numel(), np.float32, True), 2, *2 * (scale.numpy().ravel().astype(float),))
    strides = (1, rows) if transposed else (k, 1)
    row = len(FORMATS) + FLOAT32_FORMATS.index(form)
    addresses = [output.data.ctypes.data for output in (codes, scales)]
    struct = STRUCTURES["Quantize"](
        rows, k, row, 0, dtype, kept[0].ctypes.data, *strides, None, 0, *addresses, None, True
    )
    text = f"{rows} x {k} {DTYPES[dtype]} to {form.name}{', transposed' if transposed else ''}"
    return problem_of(simulation, QUANTIZE, struct, [codes, scales], text, kept)


def dequantize_float32_problem(simulation: Simulation, rows: int, k: int, form: Float32Format, dtype: int) -> Problem:
    codes = random_bytes(rows, k)
    if form.name.startswith("fp8"):
        codes[codes & 0x7F == 0x7F] = 0x7E  # no NaN: its bits are not defined
    shape = form.scale_shape(rows, k)
    scale = torch.rand(shape, generator=torch.Generator().manual_seed(rows)) + 0.1
    kept = [simulation.array_of(codes.numpy(), True), simulation.array_of(scale.numpy(), True, alignment=4)]
    expected = float32_scale_reference.expected_dequantize(codes, scale, form, TORCH_TYPES[dtype])
    outputs = [exact(simulation, bytes_of(expected), True)]
    row, column = (
        0 if size is None else stride for size, stride in zip((form.rows, form.columns), scale.stride(), strict=True)
    )
    strides = STRUCTURES["ScaleStrides"](128 * row, 4 * column, row, 32 * row, column)
    data, scales = (array.ctypes.data for array in kept)
    out = outputs[0].data.ctypes.data
    struct = STRUCTURES["Dequantize"](
        rows, k, len(FORMATS) + FLOAT32_FORMATS.index(form), dtype, data, k, 1, scales, strides, None, 0, out
    )
    return problem_of(simulation, DEQUANTIZE, struct, outputs, f"{rows} x {k} {form.name} to {DTYPES[dtype]}", kept)


def scale_pack_problem(simulation: Simulation, rows: int, cols: int, to_packed: bool) -> Problem:
    scales = random_bytes(rows, cols, seed=3).numpy()
    kept = [laid_out_scales(simulation, scales, not to_packed)]
    outputs = [exact(simulation, bytes_of(pack(torch.from_numpy(scales))) if to_packed else scales, True)]
    struct = STRUCTURES["ScalePack"](
        rows, cols, kept[0].ctypes.data, scale_strides(cols, not to_packed), outputs[0].data.ctypes.data, to_packed
    )
    return problem_of(simulation, SCALE_PACK, struct, outputs, f"{rows} x {cols}, to_packed: {to_packed}", kept)


def operand_copy_problem(
    simulation: Simulation, rows: int, columns: int, batch: int, element: int, begin: int, row: int, column: int
) -> Problem:
    matrix = max(row * rows, column * columns)
    last = (batch - 1) * matrix + (rows - 1) * row + (columns - 1) * column + element  # where the operand ends
    flat = np.random.default_rng(rows).integers(0, 256, begin + last).astype(np.uint8)
    source = simulation.array_of(flat, at_end=False)
    kept = [source, simulation.array_of(flat[begin:], at_end=True, alignment=1)]
    # The end of the memory is the operand's where that may begin anywhere.
    address = source.ctypes.data + begin if begin % 16 == 0 or element > 1 else kept[1].ctypes.data
    elements = np.lib.stride_tricks.as_strided(
        flat[begin:], (batch, rows, columns, element), (matrix, row, column, 1), writeable=False
    )
    row_bytes, pitch = columns * element, -(-columns * element // 16) * 16
    expected = np.zeros((batch, rows, pitch), np.uint8)
    expected[..., :row_bytes] = elements.reshape(batch, rows, row_bytes)
    outputs = [exact(simulation, expected, True)]
    to = outputs[0].data.ctypes.data
    struct = STRUCTURES["OperandCopy"](
        batch, rows, columns, element, address, matrix, row, column, to, rows * pitch, pitch
    )
    text = f"{batch} x {rows} x {columns} elements of {element}, strides {row} and {column}"
    return problem_of(simulation, OPERAND_COPY, struct, outputs, text, kept)


def epilogue_backward_problem(
    simulation: Simulation, m: int, n: int, batch: int, dtype: int, activation: str, transposed: bool
) -> Problem:
    """Of the gradient every second column is integers, whose sum is exact."""
    random = np.random.default_rng(3)
    grad = random.integers(-4, 5, (batch, m, n)).astype(np.float64)
    grad[..., 1::2] = decode(encode(random.standard_normal((batch, m, n // 2)), dtype), dtype)
    saved = random.integers(-4, 5, (batch, m, n)).astype(np.float64)
    lines = grad.swapaxes(1, 2) if transposed else grad
    kept = [simulation.array_of(encode(values, dtype), not transposed) for values in (lines, saved)]
    slope = {"none": 1.0, "relu": 0.0, "leaky_relu": 0.125}[activation]
    derived = np.where(saved > 0, grad, slope * grad) + 0.0
    sums, magnitudes = derived.sum((0, 1)), np.abs(derived).sum((0, 1))
    errors = magnitudes * (m * batch * (2.0**-52 if dtype == 3 else 2.0**-24))
    errors[::2] = 0
    low, high = (decode(encode(end, dtype), dtype) for end in (sums - errors, sums + errors))
    bias = Output(simulation.array(n, NUMPY_TYPES[dtype], not transposed), dtype, low, high)
    outputs = [exact(simulation, decode(encode(derived, dtype), dtype), not transposed, dtype), bias]
    strides = (m * n, 1, m) if transposed else (m * n, n, 1)
    data = [array.ctypes.data for array in (*kept, *(output.data for output in outputs))]
    struct = STRUCTURES["EpilogueBackward"](
        batch, m, n, dtype, dtype, dtype, data[0], *strides, *data[1:], ACTIVATIONS.index(activation), slope
    )
    text = f"{batch} x {m} x {n} {DTYPES[dtype]}, {activation}{', transposed' if transposed else ''}"
    return problem_of(simulation, EPILOGUE_BACKWARD, struct, outputs, text, kept)


def elementwise_problems(simulation: Simulation, sizes: int) -> Iterator[Problem]:
    for rows, k in SIZES[:sizes]:
        for form in FORMATS:
            simulation.free()
            for dtype in range(3):
                yield from (
                    quantize_problem(simulation, rows, k, form, dtype, rounding == "rceil")
                    for rounding in form.roundings
                )
                if form is not NVFP4 and TORCH_TYPES[dtype] != torch.float32:
                    yield from (
                        numbers_problem(simulation, rows, k, form, dtype, rounding == "rceil")
                        for rounding in form.roundings
                    )
                yield from (dequantize_problem(simulation, rows, k, form, dtype, packed) for packed in (True, False))
        for k_ in (k, 20 * k + 16):
            simulation.free()
            yield from nvfp4_rows_problems(simulation, rows if k_ == k else 1, k_)
        for rows_, k_ in ((rows, k), (rows + 100, k + 3)):
            for form in FLOAT32_FORMATS:
                simulation.free()
                for dtype in range(3):
                    yield from (
                        quantize_float32_problem(simulation, rows_, k_, form, dtype, transposed)
                        for transposed in (False, True)
                    )
                    yield dequantize_float32_problem(simulation, rows_, k_, form, dtype)
        yield from (scale_pack_problem(simulation, rows, k // 16 + 1, to_packed) for to_packed in (True, False))
    for copy in COPIES:
        simulation.free()
        yield operand_copy_problem(simulation, *copy)
    for m, n, batch in GRADIENT_SIZES[:sizes]:
        for dtype in range(4):
            simulation.free()
            for activation in ("none", "relu", "leaky_relu"):
                for transposed in (False, True):
                    yield epilogue_backward_problem(simulation, m, n, batch, dtype, activation, transposed)
