"""The dtypes, structs and layouts of csrc, for numpy and ctypes."""

import ctypes
import functools

import numpy as np

DTYPES = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn_x2", "int8")
BYTES = 8  # the dtype of what is compared as it is
NUMPY_TYPES = (np.float16, np.uint16, np.float32, np.float64, np.uint8, np.uint8, np.uint8, np.int8, np.uint8)
ACTIVATIONS = ("none", "relu", "leaky_relu", "gelu", "gelu_tanh", "silu")
E2M1_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def structure(name: str, fields: str) -> type[ctypes.Structure]:
    """A struct of csrc: pointers `p`, integers of 64 bits `q`, of 32 `i`, of 8 (enums and bools) `b`, doubles `d`."""
    types = {"p": ctypes.c_void_p, "q": ctypes.c_int64, "i": ctypes.c_int, "b": ctypes.c_int8, "d": ctypes.c_double}
    pairs = [field.split(":") for field in fields.split()]
    return type(name, (ctypes.Structure,), {"_fields_": [(key, types.get(of) or STRUCTURES[of]) for key, of in pairs]})


STRUCTURES: dict[str, type[ctypes.Structure]] = {}
for name_, fields_ in {
    "Strides": "data:p mn:q k:q batch:q",  # Matrix; of an Output: m, n, batch
    "ScaleStrides": "row_block:q col_block:q row:q quarter:q col:q",
    "Epilogue": "bias:p bias_stride:q bias_dtype:b activation:b slope:d",
    "DeviceFlag": "words:p count:i when_set:b",
    "Scaled": "data:p stride_row:q stride_k:q element:b scale:p scale_strides:ScaleStrides",  # ScaledKernelOperand
    "Prepared": "data:p form:b",
    "Gemm": "batch:q m:q n:q k:q dtype:b b_dtype:b out_dtype:b allow_tf32:b fast_accum:b "
    "a:Strides b:Strides out:Strides epilogue:Epilogue pre_activation:p device_flag:DeviceFlag",
    "BlockScaled": "m:q n:q k:q scale_type:b vec:i out_dtype:b fast_accum:b a:Scaled b:Scaled prepared_b:Prepared "
    "out:Strides epilogue:Epilogue global_scale:p device_flag:DeviceFlag",
    "Quantize": "rows:q k:q format:b rounding:b dtype:b x:p stride_row:q stride_k:q global_scale:p "
    "global_scale_stride:q data:p scale:p numbers:p may_overlap:b",
    "Nvfp4Rows": "quantize:Quantize global_scale:p global_scale_stride:q row_scales:p",
    "Dequantize": "rows:q k:q format:b out_dtype:b data:p stride_row:q stride_k:q scale:p scale_strides:ScaleStrides "
    "global_scale:p global_scale_stride:q out:p",
    "ScalePack": "rows:q cols:q source:p source_strides:ScaleStrides to:p to_packed:b",
    "OperandCopy": "batch:q rows:q columns:q element_bytes:i source:p source_batch:q source_row:q source_column:q "
    "to:p to_batch:q to_row:q",
    "EpilogueBackward": "batch:q m:q n:q grad_dtype:b out_dtype:b bias_dtype:b grad:p stride_batch:q stride_m:q "
    "stride_n:q saved:p grad_z:p grad_bias:p activation:b slope:d",
}.items():
    STRUCTURES[name_] = structure(name_, fields_)
PROBLEMS = list(STRUCTURES)[-8:]  # those that entry.cpp takes


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
    if dtype in (4, 5):
        table = float8_values(dtype)
        order = np.argsort(np.where(np.isnan(table), np.inf, table), kind="stable")
        codes = order[np.searchsorted(table[order], values)].astype(np.uint8)
        assert np.array_equal(table[codes], values)
        return codes
    return values.astype(NUMPY_TYPES[dtype])


def decode(elements: np.ndarray, dtype: int) -> np.ndarray:
    if dtype == 1:
        return (elements.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype in (4, 5):
        return float8_values(dtype)[elements]
    return elements.astype(np.float64)


def packed_offsets(rows: int, cols: int) -> np.ndarray:
    """Where the scale of (row, col) lies in the packed layout: core/formats.h."""
    row, col = np.arange(rows)[:, None], np.arange(cols)
    return (row // 128 * -(-cols // 4) + col // 4) * 512 + row % 32 * 16 + row % 128 // 32 * 4 + col % 4


def scale_strides(cols: int, packed: bool) -> ctypes.Structure:
    return STRUCTURES["ScaleStrides"](
        *((-(-cols // 4) * 512, 512, 16, 4, 1) if packed else (128 * cols, 4, cols, 32 * cols, 1))
    )
