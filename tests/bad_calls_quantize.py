"""The bad calls of quantize, dequantize, pack_scales and unpack_scales, and what each message must say."""

from __future__ import annotations

import torch
from bad_calls import BF16, F16, F32, F64, BadCall, Make, call
from small_float_operands import dtype_name
from torch import Tensor

U8, E4M3, E5M2, E8M0 = torch.uint8, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu
FP4 = torch.float4_e2m1fn_x2

NOT_FORMATS = ("", "MXFP8", "mxfp6", "nvfp4 ", "mixed", "fp8", "mxfp8, mxfp4", "x" * 300)
FLOAT32_FORMATS = ("fp8_tensor", "fp8_row", "fp8_1x128", "fp8_128x128", "int8_row", "int8_tensor")
NOT_GLOBAL_SCALES = (
    ("of two", (2,), F32, r"\(2,\)"),
    ("empty", (0,), F32, r"\(0,\)"),
    ("of one row", (1, 1), F32, r"\(1, 1\)"),
    ("of three rows", (3, 1), F32, r"\(3, 1\)"),
    ("of two columns", (2, 2), F32, r"\(2, 2\)"),
    ("3-D", (2, 1, 1), F32, r"\(2, 1, 1\)"),
    ("of rows in float64", (2, 1), F64, "float64"),
    ("float64", (), F64, "float64"),
    ("float16", (1,), F16, "float16"),
    ("bfloat16", (), BF16, "bfloat16"),
    ("int64", (), torch.int64, "int64"),
)


def mxfp8(t: Make, rows: int = 2, k: int = 64) -> tuple[Tensor, Tensor]:
    """Good operands of dequantize, with 2-D scales."""
    return t(rows, k, dtype=E4M3), t(rows, k // 32, dtype=E8M0)


def mxfp4(t: Make, rows: int = 2, k: int = 64) -> tuple[Tensor, Tensor]:
    return t(rows, k // 2, dtype=U8), t(rows, k // 32, dtype=E8M0)


def nvfp4(t: Make, rows: int = 2, k: int = 64) -> tuple[Tensor, Tensor]:
    return t(rows, k // 2, dtype=U8), t(rows, k // 16, dtype=E4M3)


BAD_QUANTIZE = (
    BadCall("x 0-D", lambda t: call(t(), "mxfp8"), ("`x`", "2-D", "0-D")),
    BadCall("x 1-D", lambda t: call(t(32), "mxfp4"), ("`x`", "2-D", "1-D")),
    BadCall("x 3-D", lambda t: call(t(2, 3, 32), "nvfp4"), ("`x`", "2-D", "3-D")),
    *(
        BadCall(
            f"x {dtype_name(dtype)}",
            lambda t, dtype=dtype: call(t(2, 32, dtype=dtype), "mxfp8"),  # type: ignore[misc]
            ("`x`", "float32", "float16", "bfloat16", f"got {dtype_name(dtype)}"),
        )
        for dtype in (F64, torch.int32, U8, E4M3, E5M2, torch.bool, torch.complex64)
    ),
    *(
        BadCall(
            f"format {name!r}",
            lambda t, name=name: call(t(2, 32), name),  # type: ignore[misc]
            ("`format`", "mxfp8", "mxfp4", "nvfp4", f'got "{name}"'),
        )
        for name in NOT_FORMATS
    ),
    BadCall("k 31 in blocks of 32", lambda t: call(t(2, 31), "mxfp8"), ("`x`", "multiple", "32", "31")),
    BadCall("k 16 in blocks of 32", lambda t: call(t(2, 16), "mxfp8"), ("`x`", "multiple", "32", "16")),
    BadCall("k 33 in blocks of 32", lambda t: call(t(2, 33), "mxfp4"), ("`x`", "multiple", "32", "33")),
    BadCall("k 8 in blocks of 16", lambda t: call(t(2, 8), "nvfp4"), ("`x`", "multiple", "16", "8")),
    BadCall("k 40 without rows", lambda t: call(t(0, 40), "nvfp4"), ("`x`", "multiple", "16", "40")),
    *(
        BadCall(
            f"scale_rounding {name!r}",
            lambda t, name=name: call(t(2, 32), "mxfp4", scale_rounding=name),  # type: ignore[misc]
            ("`scale_rounding`", "floor", "rceil", f'got "{name}"'),
        )
        for name in ("", "ceil", "FLOOR", "even")
    ),
    BadCall(
        "rceil with nvfp4",
        lambda t: call(t(2, 32), "nvfp4", scale_rounding="rceil"),
        ("`scale_rounding`", "nvfp4", "floor", "rceil"),
    ),
    *(
        BadCall(
            f"rceil with {name}",
            lambda t, name=name: call(t(2, 33), name, scale_rounding="rceil"),  # type: ignore[misc]
            ("`scale_rounding`", name, "floor", "rceil"),
        )
        for name in FLOAT32_FORMATS
    ),
    BadCall(
        "ceil with fp8_row", lambda t: call(t(2, 3), "fp8_row", scale_rounding="ceil"), ("`scale_rounding`", "ceil")
    ),
    BadCall("ceil with nvfp4", lambda t: call(t(2, 32), "nvfp4", scale_rounding="ceil"), ("`scale_rounding`", "ceil")),
    *(
        BadCall(
            f"global_scale with {name}",
            lambda t, name=name: call(t(2, 32), name, t()),  # type: ignore[misc]
            ("`global_scale`", "nvfp4", name),
        )
        for name in ("mxfp8", "mxfp4", *FLOAT32_FORMATS)
    ),
    *(
        BadCall(
            f"global_scale {name}",
            lambda t, shape=shape, dtype=dtype: call(t(2, 32), "nvfp4", t(*shape, dtype=dtype)),  # type: ignore[misc]
            ("`global_scale`", f"got .*({came})"),
        )
        for name, shape, dtype, came in NOT_GLOBAL_SCALES
    ),
    BadCall(
        "global_scale elsewhere",
        lambda t: call(t(2, 32), "nvfp4", t.elsewhere()),
        ("`global_scale`", "`x`", "cuda", "cpu"),
        two_devices=True,
    ),
    # several at once: the first that is checked must be the same everywhere
    BadCall("dims and dtype", lambda t: call(t(32, dtype=F64), "mxfp8"), ()),
    BadCall("format and k", lambda t: call(t(2, 31), "mxfp6"), ()),
    BadCall("dtype and format", lambda t: call(t(2, 32, dtype=F64), "mxfp6"), ()),
    BadCall("k and rounding", lambda t: call(t(2, 31), "mxfp8", scale_rounding="up"), ()),
    BadCall("k and global_scale", lambda t: call(t(2, 31), "nvfp4", t(2)), ()),
    BadCall("rounding and global_scale", lambda t: call(t(2, 32), "nvfp4", t(2), scale_rounding="rceil"), ()),
    BadCall("a global_scale bad twice", lambda t: call(t(2, 32), "nvfp4", t(2, dtype=F64)), ()),
    BadCall("everything", lambda t: call(t(31, dtype=F64), "x", t(2, 2, dtype=F64), scale_rounding="y"), ()),
)


def float32_scaled(t: Make, name: str, rows: int = 2, k: int = 130) -> tuple[Tensor, Tensor]:
    """Good operands of dequantize in a format with float32 scales."""
    shape = {"fp8_1x128": (rows, 2), "fp8_128x128": (1, 2)}.get(name, (1 if "tensor" in name else rows, 1))
    return t(rows, k, dtype=torch.int8 if "int8" in name else E4M3), t(*shape)


BAD_FLOAT32_SCALES = (
    *(
        BadCall(
            f"data {dtype_name(dtype)} as {name}",
            lambda t, name=name, dtype=dtype: call(t(2, 130, dtype=dtype), float32_scaled(t, name)[1], name),  # type: ignore[misc]
            ("`data`", name, "int8" if "int8" in name else "float8_e4m3fn", f"got {dtype_name(dtype)}"),
        )
        for name in FLOAT32_FORMATS
        for dtype in (E5M2, U8, F32, E4M3 if "int8" in name else torch.int8)
    ),
    *(
        BadCall(
            f"scale {dtype_name(dtype)} of {name}",
            lambda t, name=name, dtype=dtype: call(  # type: ignore[misc]
                float32_scaled(t, name)[0], float32_scaled(t, name)[1].to(dtype), name
            ),
            ("`scale`", name, "float32", f"got {dtype_name(dtype)}"),
        )
        for name in FLOAT32_FORMATS
        for dtype in (F64, BF16, U8)
    ),
    *(
        BadCall(
            f"scale {shape} of {name}",
            lambda t, name=name, shape=shape: call(float32_scaled(t, name)[0], t(*shape), name),  # type: ignore[misc]
            ("`scale`", name, f"got .*{shape}".replace("(", r"\(").replace(")", r"\)")),
        )
        for name, shapes in (
            ("fp8_tensor", ((2,), (0,), (2, 1), (1, 2), (1, 1, 1))),
            ("int8_tensor", ((2,), (2, 1), (1, 1, 32, 4, 4))),
            ("fp8_row", ((), (1,), (2,), (1, 1), (2, 2), (1, 2), (2, 1, 1), (1, 1, 32, 4, 4))),
            ("int8_row", ((2,), (1, 1), (3, 1))),
            ("fp8_1x128", ((), (2, 1), (2, 3), (1, 2), (2, 2, 1))),
            ("fp8_128x128", ((1,), (1, 1), (2, 2), (2, 1))),
        )
        for shape in shapes
    ),
    *(
        BadCall(
            f"global_scale with {name}",
            lambda t, name=name: call(*float32_scaled(t, name), name, t()),  # type: ignore[misc]
            ("`global_scale`", "nvfp4", name),
        )
        for name in FLOAT32_FORMATS
    ),
    BadCall(
        "out_dtype float64 of fp8_row",
        lambda t: call(*float32_scaled(t, "fp8_row"), "fp8_row", out_dtype=F64),
        ("`out_dtype`", "float64"),
    ),
    BadCall(
        "scale of fp8_row elsewhere",
        lambda t: call(float32_scaled(t, "fp8_row")[0], t.elsewhere(2, 1), "fp8_row"),
        ("`scale`", "`data`", "cuda", "cpu"),
        two_devices=True,
    ),
    BadCall("fp8_row: dtypes and shape", lambda t: call(t(2, 3), t(9, dtype=F64), "fp8_row"), ()),
    BadCall("fp8_row: scale and out_dtype", lambda t: call(t(2, 3, dtype=E4M3), t(9), "fp8_row", out_dtype=F64), ()),
)

BAD_DEQUANTIZE = (
    *BAD_FLOAT32_SCALES,
    BadCall("data 1-D", lambda t: call(t(64, dtype=E4M3), t(1, 2, dtype=E8M0), "mxfp8"), ("`data`", "2-D", "1-D")),
    BadCall("data 3-D", lambda t: call(t(1, 2, 32, dtype=U8), mxfp4(t)[1], "mxfp4"), ("`data`", "2-D", "3-D")),
    *(
        BadCall(
            f"data {dtype_name(dtype)} as mxfp8",
            lambda t, dtype=dtype: call(t(2, 64, dtype=dtype), mxfp8(t)[1], "mxfp8"),  # type: ignore[misc]
            ("`data`", "mxfp8", "float8_e4m3fn", f"got {dtype_name(dtype)}"),
        )
        for dtype in (F32, U8, E5M2, torch.int8, E8M0)
    ),
    *(
        BadCall(
            f"data {dtype_name(dtype)} as {name}",
            lambda t, dtype=dtype, name=name: call(  # type: ignore[misc]
                t(2, 32, dtype=dtype), {"mxfp4": mxfp4, "nvfp4": nvfp4}[name](t)[1], name
            ),
            ("`data`", name, "float4_e2m1fn_x2", "uint8", f"got {dtype_name(dtype)}"),
        )
        for name in ("mxfp4", "nvfp4")
        for dtype in (E4M3, F16, torch.int8)
    ),
    BadCall("data float4 as mxfp8", lambda t: call(t(2, 32, dtype=U8).view(FP4), mxfp8(t)[1], "mxfp8"), ("`data`",)),
    *(
        BadCall(
            f"format {name!r}",
            lambda t, name=name: call(*mxfp8(t), name),  # type: ignore[misc]
            ("`format`", "mxfp8", "mxfp4", "nvfp4", f'got "{name}"'),
        )
        for name in NOT_FORMATS
    ),
    BadCall("k 40 in blocks of 32", lambda t: call(t(2, 40, dtype=E4M3), mxfp8(t)[1], "mxfp8"), ("`data`", "32", "40")),
    BadCall("k 48 of fp4", lambda t: call(t(2, 24, dtype=U8), mxfp4(t)[1], "mxfp4"), ("`data`", "32", "48|24")),
    BadCall("k 40 of nvfp4", lambda t: call(t(2, 20, dtype=U8), nvfp4(t)[1], "nvfp4"), ("`data`", "16", "40|20")),
    *(
        BadCall(
            f"scale {len(shape)}-D",
            lambda t, shape=shape: call(mxfp8(t)[0], t(*shape, dtype=E8M0), "mxfp8"),  # type: ignore[misc]
            ("`scale`", f"{len(shape)}-D"),
        )
        for shape in ((), (4,), (1, 2, 2), (1, 32, 4, 4), (1, 1, 1, 32, 4, 4))
    ),
    *(
        BadCall(
            f"scale {dtype_name(dtype)} of mxfp8",
            lambda t, dtype=dtype: call(mxfp8(t)[0], t(2, 2, dtype=dtype), "mxfp8"),  # type: ignore[misc]
            ("`scale`", "float8_e8m0fnu", "uint8", f"got {dtype_name(dtype)}"),
        )
        for dtype in (E4M3, F32, E5M2, torch.int8)
    ),
    *(
        BadCall(
            f"scale {dtype_name(dtype)} of nvfp4",
            lambda t, dtype=dtype: call(nvfp4(t)[0], t(2, 4, dtype=dtype), "nvfp4"),  # type: ignore[misc]
            ("`scale`", "float8_e4m3fn", f"got {dtype_name(dtype)}"),
        )
        for dtype in (E8M0, U8, F32)
    ),
    *(
        BadCall(
            f"scale {shape} of (2, 64)",
            lambda t, shape=shape: call(mxfp8(t)[0], t(*shape, dtype=E8M0), "mxfp8"),  # type: ignore[misc]
            ("`scale`", r"\(2, 2\)", f"got .*{shape}".replace("(", r"\(").replace(")", r"\)")),
        )
        for shape in ((3, 2), (1, 2), (2, 1), (2, 3), (2, 4), (0, 2), (2, 0))
    ),
    *(
        BadCall(
            f"packed scale {shape} of (2, 64)",
            lambda t, shape=shape: call(mxfp8(t)[0], t(*shape, dtype=E8M0), "mxfp8"),  # type: ignore[misc]
            ("`scale`", r"\(1, 1, 32, 4, 4\)", f"got .*{shape}".replace("(", r"\(").replace(")", r"\)")),
        )
        for shape in ((2, 1, 32, 4, 4), (1, 2, 32, 4, 4), (1, 1, 4, 32, 4), (1, 1, 32, 4, 2), (0, 1, 32, 4, 4))
    ),
    BadCall(
        "mxfp4's scales for nvfp4", lambda t: call(nvfp4(t)[0], t(2, 2, dtype=E4M3), "nvfp4"), ("`scale`", r"\(2, 4\)")
    ),
    *(
        BadCall(
            f"out_dtype {dtype_name(dtype)}",
            lambda t, dtype=dtype: call(*nvfp4(t), "nvfp4", out_dtype=dtype),  # type: ignore[misc]
            ("`out_dtype`", "float32", "float16", "bfloat16", dtype_name(dtype)),
        )
        for dtype in (F64, torch.int32, E4M3, U8)
    ),
    *(
        BadCall(
            f"global_scale with {name}",
            lambda t, make=make, name=name: call(*make(t), name, t()),  # type: ignore[misc]
            ("`global_scale`", "nvfp4", name),
        )
        for name, make in (("mxfp8", mxfp8), ("mxfp4", mxfp4))
    ),
    *(
        BadCall(
            f"global_scale {name}",
            lambda t, shape=shape, dtype=dtype: call(*nvfp4(t), "nvfp4", t(*shape, dtype=dtype)),  # type: ignore[misc]
            ("`global_scale`", f"got .*({came})"),
        )
        for name, shape, dtype, came in NOT_GLOBAL_SCALES
    ),
    BadCall(
        "scale elsewhere",
        lambda t: call(mxfp4(t)[0], t.elsewhere(2, 2).to(U8), "mxfp4"),
        ("`scale`", "`data`", "cuda", "cpu"),
        two_devices=True,
    ),
    BadCall(
        "global_scale elsewhere",
        lambda t: call(*nvfp4(t), "nvfp4", t.elsewhere(1)),
        ("`global_scale`", "`data`", "cuda", "cpu"),
        two_devices=True,
    ),
    BadCall("dims and dtypes", lambda t: call(t(64), t(3), "mxfp8"), ()),
    BadCall("format and shape", lambda t: call(mxfp8(t)[0], t(9, 9, dtype=E8M0), "mxfp6"), ()),
    BadCall("both dtypes", lambda t: call(t(2, 64), t(2, 2), "mxfp8"), ()),
    BadCall("k and scale", lambda t: call(t(2, 40, dtype=E4M3), t(9, 9, dtype=E8M0), "mxfp8"), ()),
    BadCall("scale's dtype and shape", lambda t: call(mxfp8(t)[0], t(9, 9), "mxfp8"), ()),
    BadCall("scale and out_dtype", lambda t: call(nvfp4(t)[0], t(9, 9, dtype=E4M3), "nvfp4", out_dtype=F64), ()),
    BadCall("global_scale and out_dtype", lambda t: call(*nvfp4(t), "nvfp4", t(2), out_dtype=F64), ()),
    BadCall("everything", lambda t: call(t(64), t(3), "x", t(2, dtype=F64), out_dtype=F64), ()),
)

BAD_PACK_SCALES = (
    *(
        BadCall(
            f"scale {len(shape)}-D",
            lambda t, shape=shape: call(t(*shape, dtype=E8M0)),  # type: ignore[misc]
            ("`scale`", "2-D", f"got {len(shape)}-D"),
        )
        for shape in ((), (4,), (2, 3, 4), (1, 1, 32, 4, 4))
    ),
    *(
        BadCall(
            f"scale {dtype_name(dtype)}",
            lambda t, dtype=dtype: call(t(2, 3, dtype=dtype)),  # type: ignore[misc]
            ("`scale`", "float8_e8m0fnu", "float8_e4m3fn", "uint8", f"got {dtype_name(dtype)}"),
        )
        for dtype in (F32, F16, torch.int8, E5M2, torch.int32, torch.bool)
    ),
    BadCall("dims and dtype", lambda t: call(t(4)), ()),
)


def packed_scales(t: Make) -> Tensor:
    """Of up to 256 rows and 12 columns."""
    return t(2, 3, 32, 4, 4, dtype=E8M0)


BAD_UNPACK_SCALES = (
    *(
        BadCall(
            f"packed {len(shape)}-D",
            lambda t, shape=shape: call(t(*shape, dtype=E8M0), 1, 1),  # type: ignore[misc]
            ("`packed`", "5-D", f"got {len(shape)}-D"),
        )
        for shape in ((), (512,), (128, 4), (1, 32, 4, 4), (1, 1, 1, 32, 4, 4))
    ),
    *(
        BadCall(
            f"packed {shape}",
            lambda t, shape=shape: call(t(*shape, dtype=E8M0), 1, 1),  # type: ignore[misc]
            ("`packed`", "32, 4, 4", f"got .*{shape}".replace("(", r"\(").replace(")", r"\)")),
        )
        for shape in ((1, 1, 4, 32, 4), (1, 1, 32, 4, 3), (1, 1, 32, 3, 4), (1, 1, 31, 4, 4), (1, 1, 0, 4, 4))
    ),
    *(
        BadCall(
            f"packed {dtype_name(dtype)}",
            lambda t, dtype=dtype: call(t(1, 1, 32, 4, 4, dtype=dtype), 1, 1),  # type: ignore[misc]
            ("`packed`", "float8_e8m0fnu", "float8_e4m3fn", "uint8", f"got {dtype_name(dtype)}"),
        )
        for dtype in (F32, torch.int8, E5M2)
    ),
    *(
        BadCall(
            f"{rows} rows and {cols} cols of (256, 12)",
            lambda t, rows=rows, cols=cols: call(packed_scales(t), rows, cols),  # type: ignore[misc]
            words,
        )
        for rows, cols, words in (
            (257, 12, ("`rows`", "256", "257")),
            (2**40, 12, ("`rows`", "256", str(2**40))),
            (-1, 12, ("`rows`", "-1")),
            (256, 13, ("`cols`", "12", "13")),
            (256, -5, ("`cols`", "-5")),
            (257, 13, ()),
            (-1, 13, ()),
        )
    ),
    BadCall("rows of no blocks", lambda t: call(t(0, 3, 32, 4, 4, dtype=U8), 1, 12), ("`rows`", "0", "1")),
    BadCall("cols of no blocks", lambda t: call(t(2, 0, 32, 4, 4, dtype=U8), 256, 1), ("`cols`", "0", "1")),
    BadCall("dims, dtype and rows", lambda t: call(t(4), -1, 1), ()),
    BadCall("dtype and cols", lambda t: call(t(1, 1, 32, 4, 4), 1, 9), ()),
)

BAD_CALLS_BY_OP = {
    "quantize": BAD_QUANTIZE,
    "dequantize": BAD_DEQUANTIZE,
    "pack_scales": BAD_PACK_SCALES,
    "unpack_scales": BAD_UNPACK_SCALES,
}
