"""The table of bad calls of `block_scaled_matmul`: what each passes, and what its message must say.

Each call is a good one of some format (m 3, n 5, k 64) with one or more arguments replaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from bad_calls import BF16, F16, F32, F64, BadCall, Call, Make
from block_scaled_operands import MIXED, MIXED_REVERSED, MXFP4, MXFP8, NVFP4, Format
from torch import Tensor

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
E8M0, FP4 = torch.float8_e8m0fnu, torch.float4_e2m1fn_x2
U8, I8, I32, I64 = torch.uint8, torch.int8, torch.int32, torch.int64
M, N, K = 3, 5, 64

NAMES = ("a", "b", "scale_a", "scale_b", "bias", "global_scale")
Maker = Callable[[Make], Any]


def of(*shape: int, dtype: torch.dtype = F32) -> Maker:
    """Makes a tensor of ones; of bytes of 1 where torch has no ones of that dtype."""
    if dtype in (E8M0, FP4):
        return lambda t: t(*shape, dtype=U8).view(dtype)
    return lambda t: t(*shape, dtype=dtype)


def elsewhere(make: Maker) -> Maker:
    """The same tensor on the other of CPU and GPU."""
    return lambda t: make(Make(torch.device("cuda" if t.device.type == "cpu" else "cpu")))


def good(fmt: Format = MXFP8, m: int = M, n: int = N, k: int = K) -> dict[str, Maker]:
    """The tensors of a call that is right."""

    def data(element: str, rows: int) -> Maker:
        return of(rows, k // 2, dtype=U8) if element == "e2m1" else of(rows, k, dtype=E4M3)

    scale = E4M3 if fmt.scale == "e4m3" else E8M0
    return {
        "a": data(fmt.a, m),
        "b": data(fmt.b, n),
        "scale_a": of(m, k // fmt.vec, dtype=scale),
        "scale_b": of(n, k // fmt.vec, dtype=scale),
    }


def build(makers: dict[str, Maker], options: dict[str, Any]) -> Callable[[Make], Call]:
    def make(t: Make) -> Call:
        tensors = [makers[name](t) if name in makers else None for name in NAMES]
        made = {name: value(t) if callable(value) else value for name, value in options.items()}
        return tuple(tensors), made

    return make


def bad(
    name: str,
    *words: str,
    fmt: Format = MXFP8,
    options: dict[str, Any] | None = None,
    two_devices: bool = False,
    base: dict[str, Maker] | None = None,
    **replaced: Maker,
) -> BadCall:
    return BadCall(name, build({**(base or good(fmt)), **replaced}, options or {}), words, two_devices)


def other_devices() -> list[BadCall]:
    whole = {**good(), "bias": of(N), "global_scale": of()}
    return [
        bad(f"{name} elsewhere", f"`{name}`", "cuda", "cpu", two_devices=True, base=whole, **{name: elsewhere(made)})
        for name, made in whole.items()
        if name != "a"
    ]


BAD_CALLS = (
    # dimensions
    *(
        bad(f"{name} {len(shape)}-D", f"`{name}`", f"{len(shape)}-D", **{name: of(*shape, dtype=E4M3)})
        for name in ("a", "b")
        for shape in ((), (64,), (1, 3, 64), (1, 1, 3, 64))
    ),
    *(
        bad(
            f"{name} {len(shape)}-D",
            f"`{name}`",
            f"{len(shape)}-D|{re.escape(str(shape))}",
            **{name: of(*shape, dtype=E8M0)},
        )
        for name in ("scale_a", "scale_b")
        for shape in ((), (2,), (1, 3, 2), (1, 32, 4, 4), (1, 1, 1, 32, 4, 4))
    ),
    # dtypes
    bad("float16 a", "`a`", "float16", a=of(M, K, dtype=F16)),
    bad("bfloat16 b", "`b`", "bfloat16", b=of(N, K, dtype=BF16)),
    bad("float32 operands", "float32", a=of(M, K), b=of(N, K)),
    bad("int8 operands", "int8", a=of(M, K, dtype=I8), b=of(N, K, dtype=I8)),
    bad("e5m2 a", "float8_e5m2", a=of(M, K, dtype=E5M2)),
    bad("e5m2 b", "float8_e5m2", b=of(N, K, dtype=E5M2)),
    bad("e8m0 as data", "float8_e8m0fnu", a=of(M, K, dtype=E8M0)),
    bad(
        "e4m3 operands with e4m3 scales",
        "float8_e4m3fn",
        "float8_e8m0fnu",
        scale_a=of(M, 4, dtype=E4M3),
        scale_b=of(N, 4, dtype=E4M3),
    ),
    bad(
        "mixed operands with e4m3 scales",
        "float8_e4m3fn",
        "float8_e8m0fnu",
        fmt=MIXED,
        scale_a=of(M, 4, dtype=E4M3),
        scale_b=of(N, 4, dtype=E4M3),
    ),
    bad("scales of two dtypes", "float8_e4m3fn", fmt=MXFP4, scale_b=of(N, 4, dtype=E4M3)),
    bad("nvfp4 with uint8 scale_a", "uint8", fmt=NVFP4, scale_a=of(M, 4, dtype=U8)),
    bad("float32 scales for each 32", "`scale_a`", "128 x 128", scale_a=of(M, 2), scale_b=of(N, 2)),
    bad("float32 scale_b", "`scale_b`", "float32", scale_b=of(N, 2)),
    bad("float16 scale_a", "`scale_a`", "float16", fmt=MXFP4, scale_a=of(M, 2, dtype=F16)),
    bad("int8 scale_a", "`scale_a`", "int8", fmt=MXFP4, scale_a=of(M, 2, dtype=I8)),
    bad("e5m2 scale_b", "`scale_b`", "float8_e5m2", fmt=NVFP4, scale_b=of(N, 4, dtype=E5M2)),
    # k
    bad("k differs", "`a`", "`b`", "64", "96", b=of(N, 96, dtype=E4M3), scale_b=of(N, 3, dtype=E8M0)),
    bad("k differs in mxfp4", "`a`", "`b`", "96", "64", fmt=MXFP4, a=of(M, 48, dtype=U8), scale_a=of(M, 3, dtype=U8)),
    bad("as many bytes are not as many elements", "`a`", "`b`", "32", "64", fmt=MIXED, a=of(M, 32, dtype=E4M3)),
    bad("k differs in mixed reversed", "`a`", "`b`", "64", "32", fmt=MIXED_REVERSED, b=of(N, 32, dtype=E4M3)),
    bad("k 0 and 64", "`a`", "`b`", "0", "64", a=of(M, 0, dtype=E4M3), scale_a=of(M, 0, dtype=E8M0)),
    bad("k 48 in mxfp8", "48", "32", a=of(M, 48, dtype=E4M3), b=of(N, 48, dtype=E4M3)),
    bad("k 1 in mxfp8", "1", "32", a=of(M, 1, dtype=E4M3), b=of(N, 1, dtype=E4M3)),
    bad("k 16 in mxfp4", "16", "32", fmt=MXFP4, a=of(M, 8, dtype=U8), b=of(N, 8, dtype=U8)),
    bad("k 80 in mixed", "80", "32", fmt=MIXED, a=of(M, 80, dtype=E4M3), b=of(N, 40, dtype=U8)),
    bad("k 24 in nvfp4", "24", "16", fmt=NVFP4, a=of(M, 12, dtype=U8), b=of(N, 12, dtype=U8)),
    # the shape of scales
    bad("scale_a too few rows", "`scale_a`", r"\b2\b", scale_a=of(2, 2, dtype=E8M0)),
    bad("scale_a too many rows", "`scale_a`", r"\b4\b", scale_a=of(4, 2, dtype=E8M0)),
    bad("scale_a of one row", "`scale_a`", r"\b1\b", scale_a=of(1, 2, dtype=E8M0)),
    bad("scale_b too few columns", "`scale_b`", r"\b1\b", scale_b=of(N, 1, dtype=E8M0)),
    bad("scale_b too many columns", "`scale_b`", r"\b4\b", scale_b=of(N, 4, dtype=E8M0)),
    bad("scale_b transposed", "`scale_b`", r"\b2\b.*\b5\b", scale_b=of(2, N, dtype=E8M0)),
    bad("scale_a of vec 16", "`scale_a`", r"\b4\b", fmt=MXFP4, scale_a=of(M, 4, dtype=E8M0)),
    bad("scale_b of vec 32 in nvfp4", "`scale_b`", r"\b2\b", fmt=NVFP4, scale_b=of(N, 2, dtype=E4M3)),
    bad("scale_a empty", "`scale_a`", r"\b0\b", scale_a=of(0, 2, dtype=E8M0)),
    bad("the two scales swapped", "`scale_a`", r"\b5\b", scale_a=of(N, 2, dtype=U8), scale_b=of(M, 2, dtype=U8)),
    bad("packed scale_a, a block of rows too much", "`scale_a`", r"\b2\b", scale_a=of(2, 1, 32, 4, 4, dtype=E8M0)),
    bad("packed scale_b, no block of rows", "`scale_b`", r"\b0\b", scale_b=of(0, 1, 32, 4, 4, dtype=E8M0)),
    bad("packed scale_b, a block of columns too much", "`scale_b`", r"\b2\b", scale_b=of(1, 2, 32, 4, 4, dtype=E8M0)),
    bad("packed scale_a, inner sizes swapped", "`scale_a`", "32", scale_a=of(1, 1, 4, 32, 4, dtype=E8M0)),
    bad("packed scale_a, an inner size too large", "`scale_a`", r"\b33\b", scale_a=of(1, 1, 33, 4, 4, dtype=E8M0)),
    bad("packed scale_b, an inner size too small", "`scale_b`", r"\b3\b", scale_b=of(1, 1, 32, 4, 3, dtype=E8M0)),
    bad("packed scale_a flat", "`scale_a`", "512", scale_a=of(1, 512, dtype=E8M0)),
    bad(
        "packed scale_a, a block of rows too few",
        "`scale_a`",
        r"\b1\b",
        base=good(m=129),
        scale_a=of(1, 1, 32, 4, 4, dtype=E8M0),
    ),
    bad(
        "packed scale_b, a block of columns too few",
        "`scale_b`",
        r"\b1\b",
        base=good(k=160),
        scale_b=of(1, 1, 32, 4, 4, dtype=E8M0),
    ),
    # global_scale
    bad("global_scale of two", "`global_scale`", r"\b2\b", global_scale=of(2)),
    bad("global_scale empty", "`global_scale`", r"\b0\b", fmt=NVFP4, global_scale=of(0)),
    bad("global_scale 2-D", "`global_scale`", "2-D|1, 1", fmt=NVFP4, global_scale=of(1, 1)),
    bad("global_scale float16", "`global_scale`", "float16", fmt=NVFP4, global_scale=of(dtype=F16)),
    bad("global_scale float64", "`global_scale`", "float64", global_scale=of(1, dtype=F64)),
    bad("global_scale int32", "`global_scale`", "int32", fmt=MXFP4, global_scale=of(1, dtype=I32)),
    # bias
    bad("bias 0-D", "`bias`", "0-D", bias=of()),
    bad("bias 2-D", "`bias`", "2-D", bias=of(1, N)),
    bad("bias too short", "`bias`", r"\b5\b", r"\b4\b", bias=of(4)),
    bad("bias of m", "`bias`", r"\b5\b", r"\b3\b", fmt=NVFP4, bias=of(M)),
    bad("bias empty", "`bias`", r"\b5\b", r"\b0\b", bias=of(0)),
    bad("bias float64", "`bias`", "float64", bias=of(N, dtype=F64)),
    bad("bias int64", "`bias`", "int64", bias=of(N, dtype=I64)),
    bad("bias bfloat16 with float16", "`bias`", "float16", "bfloat16", bias=of(N, dtype=BF16)),
    bad(
        "bias float16 with bfloat16",
        "`bias`",
        "bfloat16",
        "float16",
        fmt=MIXED,
        bias=of(N, dtype=F16),
        options={"out_dtype": BF16},
    ),
    bad("bias float16 with float32", "`bias`", "float16", bias=of(N, dtype=F16), options={"out_dtype": F32}),
    bad("bias float16 with e4m3", "`bias`", "float16", bias=of(N, dtype=F16), options={"out_dtype": E4M3}),
    bad("bias e4m3 with e4m3", "`bias`", "float32", "e4m3fn", bias=of(N, dtype=E4M3), options={"out_dtype": E4M3}),
    # options
    *(
        bad(f"activation {name!r}", "activation", re.escape(name), "gelu_tanh", "silu", options={"activation": name})
        for name in ("", "ReLU", "swish", "relu ", "x" * 300)
    ),
    *(
        bad(
            f"{fmt} to {dtype}".replace("torch.", ""),
            "out_dtype",
            str(dtype).removeprefix("torch."),
            "float16",
            fmt=fmt,
            options={"out_dtype": dtype},
        )
        for fmt, dtype in ((MXFP8, F64), (MXFP4, I8), (MIXED, E5M2), (NVFP4, U8), (MXFP8, E8M0), (NVFP4, torch.bool))
    ),
    # devices
    *other_devices(),
    # several at once: the first that is checked must be the same everywhere
    bad("dims and dtypes", a=of(64), b=of(1, 2, 3, dtype=I8)),
    bad("dtypes and scale shapes", a=of(M, K), scale_b=of(9, 9, dtype=E8M0)),
    bad("k and scale shapes", b=of(N, 96, dtype=E4M3), scale_a=of(9, 9, dtype=E8M0)),
    bad("both scales", scale_a=of(9, 9, dtype=E8M0), scale_b=of(8, dtype=E8M0)),
    bad("scale dims and dtype", scale_a=of(9, dtype=I8)),
    bad("scale and bias", scale_b=of(9, 9, dtype=E8M0), bias=of(9)),
    bad("bias and global_scale", bias=of(9), global_scale=of(3)),
    bad("global_scale and out_dtype", global_scale=of(3, dtype=F64), options={"out_dtype": F64}),
    bad("bias shape and dtype", bias=of(9, dtype=F64)),
    bad("out_dtype and activation", options={"out_dtype": F64, "activation": "x"}),
    bad("everything", a=of(3), b=of(3), scale_a=of(3), scale_b=of(), bias=of(), options={"activation": "x"}),
)

ALL_WRONG = {"out_dtype": F64, "activation": "x", "out": of(9)}


def self_overlapping(strides: tuple[int, int]) -> Maker:
    return lambda t: t(64, dtype=F16).as_strided((M, N), strides)


BAD_OUTS = (
    bad("m differs", "`out`", r"\b3\b", r"\b4\b", options={"out": of(4, N, dtype=F16)}),
    bad("n differs", "`out`", r"\b5\b", r"\b6\b", options={"out": of(M, 6, dtype=F16)}, fmt=NVFP4),
    bad("transposed shape", "`out`", options={"out": of(N, M, dtype=F16)}, fmt=MXFP4),
    bad("empty, to be resized", "`out`", options={"out": of(0, dtype=F16)}),
    bad("flat", "`out`", options={"out": of(M * N, dtype=F16)}),
    bad("a batch of one too much", "`out`", options={"out": of(1, M, N, dtype=F16)}, fmt=MIXED),
    bad("float32 out", "`out`", "float16", "float32", options={"out": of(M, N)}),
    bad("e4m3 out without out_dtype", "`out`", "float16", "float8_e4m3fn", options={"out": of(M, N, dtype=E4M3)}),
    bad(
        "out against out_dtype",
        "`out`",
        "bfloat16",
        "float16",
        options={"out_dtype": BF16, "out": of(M, N, dtype=F16)},
    ),
    bad(
        "uint8 for e4m3",
        "`out`",
        "float8_e4m3fn",
        "uint8",
        options={"out_dtype": E4M3, "out": of(M, N, dtype=U8)},
    ),
    bad("bad arguments and a bad out", "`scale_a`", scale_a=of(9, 9, dtype=E8M0), options=ALL_WRONG),
    bad(
        "out elsewhere",
        "`out`",
        "cuda",
        "cpu",
        options={"out": elsewhere(of(M, N, dtype=F16))},
        two_devices=True,
    ),
    # out overlaps itself: sizes and strides tell that, without data
    bad("rows in one place", "`out`", "overlap", options={"out": self_overlapping((0, 1))}),
    bad("columns in one place", "`out`", "overlap", options={"out": self_overlapping((1, 0))}, fmt=NVFP4),
    bad("windows", "`out`", "overlap", options={"out": self_overlapping((1, 1))}, fmt=MXFP4),
    bad("a line too short", "`out`", "overlap", options={"out": self_overlapping((4, 1))}, fmt=MIXED),
)


def shares(name: str, out_shape: tuple[int, ...], start: int, fmt: Format = MXFP8, **large: Maker) -> BadCall:
    """`out` (e4m3) begins `start` bytes after the argument, or ends inside it where that is negative."""

    def make(t: Make) -> Call:
        makers = {**good(fmt), "bias": of(N), "global_scale": of(), **large}
        arguments, _ = build(makers, {})(t)
        at = NAMES.index(name)
        wanted = arguments[at]
        span = wanted.numel() * wanted.element_size()
        storage = t(4 * 1024, dtype=U8)
        begin = 1024
        shared = storage[begin : begin + span].view(wanted.dtype).view(wanted.shape)
        count = out_shape[0] * out_shape[1]
        out = storage[begin + start : begin + start + count].view(E4M3).view(out_shape)
        changed: list[Tensor] = list(arguments)
        changed[at] = shared
        return tuple(changed), {"out_dtype": E4M3, "out": out}

    where = f"{start} bytes after" if start >= 0 else f"{-start} bytes before"
    return BadCall(f"out {where} {name}", make, ("`out`", f"`{name}`"))


# Fake tensors have no addresses, so they cannot see these.
BAD_OVERLAPS = (
    shares("a", (M, N), 0),
    shares("a", (M, N), M * K - 1),
    shares("a", (M, N), -14),
    shares("a", (M, N), 40, fmt=NVFP4),
    shares("b", (M, N), 100),
    shares("b", (M, N), N * K - 1),
    shares("scale_a", (M, N), M * 2 - 1),
    shares("scale_b", (M, N), -14),
    shares("scale_b", (M, N), 511, scale_b=of(1, 1, 32, 4, 4, dtype=E8M0)),
    shares("bias", (M, N), 4 * N - 1),
    shares("global_scale", (M, N), 3),
)
