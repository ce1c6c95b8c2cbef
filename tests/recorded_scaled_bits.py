"""Problems of recorded_bits.csv whose operands are not two block-scaled ones of a format: codes with float32 scales, a
weight alone with scales, and folds, by each config of Hopper's that takes them. Operands come from numpy's generator.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from block_scaled_operands import MXFP4, MXFP8, NVFP4, Format, elements_of, pack_nibbles, pack_scales
from scaled_operands import float32_scale_shape
from torch import Tensor

from tileon_ops._rules import configs
from tileon_ops._rules.configs import Config

M, N, K = 72, 144, 656  # as in recorded_bits.py; formats with scales of a byte have k of 640
FEW_ROWS = 48
FOLD = "expanded_folded"
BYTE_SCALES = {"mxfp8": MXFP8, "mxfp4": MXFP4, "nvfp4": NVFP4}
FLOAT32_SCALES = {"e4m3": torch.float8_e4m3fn, "int8": torch.int8}
PAIRS = {
    "row_scales": [("e4m3_row", "e4m3_row")],
    "block_scales": [("e4m3_1x128", "e4m3_128x128"), ("e4m3_row", "e4m3_128x128")],
    "int8": [("int8_row", "int8_row")],
    "small_m": [
        *(("bfloat16", "mxfp4"), ("bfloat16", "nvfp4"), ("bfloat16", "mxfp8"), ("float16", "nvfp4")),
        *((a, b) for a in ("bfloat16", "float16") for b in ("e4m3_row", "int8_row", "e4m3_128x128")),
    ],
    "weight": [("bfloat16", "mxfp4"), ("bfloat16", "nvfp4")],
    "weight_mxfp8": [("bfloat16", "mxfp8")],
    "weight_direct": [
        *(("bfloat16", "mxfp4"), ("bfloat16", "nvfp4"), ("float16", "nvfp4"), ("bfloat16", "mxfp8")),
        *((a, b) for a in ("bfloat16", "float16") for b in ("e4m3_row", "int8_row")),
    ],
    "weight_codes": [(a, b) for a in ("bfloat16", "float16") for b in ("e4m3_row", "int8_row")],
    "weight_blocks": [("bfloat16", "e4m3_128x128"), ("bfloat16", "e4m3_1x128"), ("float16", "e4m3_128x128")],
}
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
Problem = Callable[[], tuple[list[Tensor], list[Tensor]]]  # operands and results


class Made(NamedTuple):
    data: Tensor
    scale: Tensor | None


def _source(*key: object) -> np.random.RandomState:
    return np.random.RandomState(zlib.crc32(repr(key).encode()))


def _numbers(name: str, rows: int, k: int, data: str) -> Made:
    values = _source(name, rows, k, data).standard_normal((rows, k))
    if data == "wide":
        values *= np.ldexp(1.0, _source("binades", rows, k).randint(-6, 7, (rows, k)))
    return Made(torch.from_numpy(values).to(DTYPES[name]), None)


def _of_byte_scales(name: str, rows: int, k: int, data: str) -> Made:
    fmt: Format = BYTE_SCALES[name]
    drawn = _source(name, rows, k, data)
    is_fp4 = elements_of(fmt, "b") == "e2m1"
    codes = torch.from_numpy(drawn.randint(0, 16 if is_fp4 else 0x7F, (rows, k)).astype(np.uint8))
    low, high = {"e8m0": (124, 130), "e4m3": (0x28, 0x48)}[fmt.scale]
    if data == "wide":
        low, high = {"e8m0": (110, 136), "e4m3": (1, 0x7F)}[fmt.scale]
    scales = torch.from_numpy(drawn.randint(low, high, (rows, k // fmt.vec)).astype(np.uint8))
    scale_dtype = torch.float8_e8m0fnu if fmt.scale == "e8m0" else torch.float8_e4m3fn
    return Made(
        pack_nibbles(codes) if is_fp4 else codes.view(torch.float8_e4m3fn), pack_scales(scales).view(scale_dtype)
    )


def _of_float32_scales(name: str, rows: int, k: int, data: str) -> Made:
    """Scales near 1 or, "wide", so far from it that products of two leave what the store's quick way multiplies by."""
    dtype_name, granularity = name.split("_")
    drawn = _source(name, rows, k, data)
    codes = torch.from_numpy(drawn.randint(-127, 128, (rows, k)).astype(np.float32))
    shape = float32_scale_shape(granularity, rows, k)
    scales = drawn.uniform(0.5, 1.5, shape)
    if data == "wide":
        scales = np.ldexp(scales, drawn.randint(-45, 46, shape))
    return Made(codes.to(FLOAT32_SCALES[dtype_name]), torch.from_numpy(np.asarray(scales, dtype=np.float32)))


def operand(name: str, rows: int, k: int, data: str) -> Made:
    """Of `bfloat16`, `mxfp4`, `e4m3_row` and so on."""
    of = _numbers if name in DTYPES else _of_byte_scales if name in BYTE_SCALES else _of_float32_scales
    return of(name, rows, k, data)


def pairs_of(config: Config) -> list[tuple[str, str]]:
    """What the config is recorded with; nothing where recorded_bits.py has it, or where no kernel of Hopper's runs."""
    if config.name == FOLD:
        return [("mxfp8", "mxfp8"), ("mxfp8", "mxfp4"), ("mxfp4", "mxfp8"), ("mxfp4", "mxfp4")]
    if config.backend != "sm90":
        return []
    if config.family == "direct_weight":  # tiles of 32 rows have no room for codes of 8 bits
        return [pair for pair in PAIRS["weight_direct"] if config.tile[1] == 16 or pair[1].endswith("fp4")]
    if config.name.startswith("sm90_weight_fp4"):
        return PAIRS["weight"]
    if config.name.startswith("sm90_weight_mxfp8"):
        return PAIRS["weight_mxfp8"]
    if config.name.startswith("sm90_weight_codes"):
        return PAIRS["weight_codes"]
    if config.name.startswith("sm90_weight_blocks"):
        return PAIRS["weight_blocks"]
    if config.route.startswith(("row_", "block_scales")):
        is_int8 = config.operands[0].startswith("int8")
        return PAIRS["int8" if is_int8 else "block_scales" if config.route == "block_scales" else "row_scales"]
    return PAIRS["small_m"] if config.family == "small_m" else []


def _run(config: Config, pair: tuple[str, str], data: str) -> tuple[list[Tensor], list[Tensor]]:
    k = K - 16 if pair[1] in BYTE_SCALES else K
    a = operand(pair[0], FEW_ROWS if config.family == "small_m" else M, k, data)
    b = operand(pair[1], N, k, data)
    given = [tensor for tensor in (a.data, b.data, a.scale, b.scale) if tensor is not None]
    placed = [None if tensor is None else tensor.cuda() for tensor in (a.data, b.data, a.scale, b.scale)]
    by_number = torch.ops.tileon._block_scaled_matmul_with_config
    result = by_number(*placed, config=config.index, out_dtype=torch.float32)
    assert torch.ops.tileon._last_kernel().split(" (")[0] == config.name
    return [tensor.view(torch.uint8) for tensor in given], [result]


def problems(data: str) -> Iterator[tuple[str, Problem]]:
    for config in configs.block_scaled():
        for pair in pairs_of(config):
            name = f"{config.name}-{'*'.join(pair)} {data}"
            yield name, lambda config=config, pair=pair: _run(config, pair, data)
