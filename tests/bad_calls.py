"""The table of bad calls that test_errors.py goes through: what each passes, and what its message must say."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


@dataclass(frozen=True)
class Make:
    """Makes tensors of ones on a device."""

    device: torch.device

    def __call__(self, *shape: int, dtype: torch.dtype = F32) -> Tensor:
        if dtype.is_floating_point and dtype.itemsize == 1:
            return torch.ones(shape, device=self.device).to(dtype)
        return torch.ones(shape, dtype=dtype, device=self.device)

    def elsewhere(self, *shape: int) -> Tensor:
        """On another device: the other of CPU and GPU, so it needs a GPU or fake tensors."""
        return torch.ones(shape, device="cuda" if self.device.type == "cpu" else "cpu")


Call = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class BadCall:
    """`words` must all be in the message (regular expressions): the argument, the rule and what came."""

    name: str
    build: Callable[[Make], Call]
    words: tuple[str, ...]
    two_devices: bool = False


def call(*arguments: Any, **options: Any) -> Call:
    return arguments, options


BAD_CALLS = (
    # dimensions
    BadCall("a 0-D", lambda t: call(t(), t(3, 4)), ("`a`", "0-D")),
    BadCall("a 1-D", lambda t: call(t(3), t(3, 4)), ("`a`", "1-D")),
    BadCall("a 4-D", lambda t: call(t(1, 2, 3, 3), t(3, 4)), ("`a`", "4-D")),
    BadCall("b 0-D", lambda t: call(t(2, 3), t()), ("`b`", "0-D")),
    BadCall("b 1-D", lambda t: call(t(2, 3), t(3)), ("`b`", "1-D")),
    BadCall("b 4-D", lambda t: call(t(2, 3), t(1, 1, 3, 4)), ("`b`", "4-D")),
    BadCall("both 1-D", lambda t: call(t(3), t(3)), ("`a`", "1-D")),
    # sizes
    BadCall("k differs", lambda t: call(t(2, 3), t(4, 5)), ("`a`", "`b`", "3", "4")),
    BadCall("k differs, b transposed", lambda t: call(t(2, 3), t(5, 4).t()), ("`a`", "`b`", "3", "4")),
    BadCall("k differs, a 3-D", lambda t: call(t(7, 2, 3), t(4, 5)), ("`a`", "`b`", "3", "4")),
    BadCall("k differs, b 3-D", lambda t: call(t(2, 3), t(7, 4, 5)), ("`a`", "`b`", "3", "4")),
    BadCall("k differs, both 3-D", lambda t: call(t(7, 2, 3), t(7, 4, 5)), ("`a`", "`b`", "3", "4")),
    BadCall("k 0 and 1", lambda t: call(t(2, 0), t(1, 5)), ("`a`", "`b`", "0", "1")),
    BadCall("k 1 and 3 do not broadcast", lambda t: call(t(2, 1), t(3, 5)), ("`a`", "`b`", "1", "3")),
    BadCall("k differs in an empty product", lambda t: call(t(0, 3), t(4, 0)), ("`a`", "`b`", "3", "4")),
    BadCall("batches 2 and 3", lambda t: call(t(2, 4, 5), t(3, 5, 6)), ("`a`", "`b`", "batch", "2", "3")),
    BadCall("batches 0 and 2", lambda t: call(t(0, 4, 5), t(2, 5, 6)), ("`a`", "`b`", "batch", "0", "2")),
    BadCall("batches 3 and 0", lambda t: call(t(3, 4, 5), t(0, 5, 6)), ("`a`", "`b`", "batch", "3", "0")),
    # dtypes of the operands
    BadCall("float16 x bfloat16", lambda t: call(t(2, 3, dtype=F16), t(3, 4, dtype=BF16)), ("float16", "bfloat16")),
    BadCall("float16 x float32", lambda t: call(t(2, 3, dtype=F16), t(3, 4)), ("float16", "float32")),
    BadCall("float32 x float16", lambda t: call(t(2, 3), t(3, 4, dtype=F16)), ("float16", "float32")),
    BadCall("float32 x float64", lambda t: call(t(2, 3), t(3, 4, dtype=F64)), ("float32", "float64")),
    BadCall("bfloat16 x float64", lambda t: call(t(2, 3, dtype=BF16), t(3, 4, dtype=F64)), ("bfloat16", "float64")),
    BadCall("float32 x int64", lambda t: call(t(2, 3), t(3, 4, dtype=torch.int64)), ("float32", "int64")),
    *(
        BadCall(
            f"{dtype} operands".replace("torch.", ""),
            lambda t, dtype=dtype: call(t(2, 3, dtype=dtype), t(3, 4, dtype=dtype)),  # type: ignore[misc]
            (str(dtype).removeprefix("torch."), "float16", "bfloat16", "float32", "float64"),
        )
        for dtype in (
            torch.uint8,
            torch.int8,
            torch.int16,
            torch.int32,
            torch.int64,
            torch.bool,
            torch.complex64,
            torch.complex128,
            torch.float8_e4m3fnuz,
            torch.float8_e5m2fnuz,
        )
    ),
    *(
        BadCall(
            f"{a_dtype} x {b_dtype}".replace("torch.", ""),
            lambda t, a_dtype=a_dtype, b_dtype=b_dtype: call(  # type: ignore[misc]
                t(16, 16, dtype=a_dtype), t(16, 16, dtype=b_dtype), fast_accum=True
            ),
            (str(a_dtype).removeprefix("torch."), str(b_dtype).removeprefix("torch."), "e4m3fn x float8_e5m2"),
        )
        for a_dtype, b_dtype in ((E4M3, F16), (F32, E5M2), (E5M2, BF16), (E4M3, torch.float8_e4m3fnuz))
    ),
    # out_dtype
    *(
        BadCall(
            f"{dtype} to {out_dtype}".replace("torch.", ""),
            lambda t, dtype=dtype, out_dtype=out_dtype: call(  # type: ignore[misc]
                t(2, 3, dtype=dtype), t(3, 4, dtype=dtype), out_dtype=out_dtype
            ),
            ("out_dtype", str(dtype).removeprefix("torch."), str(out_dtype).removeprefix("torch.")),
        )
        for dtype, out_dtype in (
            (F16, F64),
            (BF16, F64),
            (F32, F64),
            (F64, F32),
            (F64, F16),
            (F64, BF16),
            (F16, torch.int32),
            (F32, torch.int8),
            (BF16, torch.bool),
            (F32, torch.complex64),
            (F16, E4M3),
            (E4M3, E4M3),
            (E4M3, E5M2),
            (E5M2, F64),
        )
    ),
    # bias
    BadCall("bias 0-D", lambda t: call(t(2, 3), t(3, 4), t()), ("`bias`", "0-D")),
    BadCall("bias 2-D", lambda t: call(t(2, 3), t(3, 4), t(2, 4)), ("`bias`", "2-D")),
    BadCall("bias a row", lambda t: call(t(2, 3), t(3, 4), t(1, 4)), ("`bias`", "2-D")),
    BadCall("bias too short", lambda t: call(t(2, 3), t(3, 4), t(3)), ("`bias`", "4", "3")),
    BadCall("bias too long", lambda t: call(t(2, 3), t(3, 4), t(5)), ("`bias`", "4", "5")),
    BadCall("bias of one", lambda t: call(t(2, 3), t(3, 4), t(1)), ("`bias`", "4", "1")),
    BadCall("bias of m", lambda t: call(t(2, 3), t(3, 4), t(2)), ("`bias`", "4", "2")),
    BadCall("bias empty", lambda t: call(t(2, 3), t(3, 4), t(0)), ("`bias`", "4", "0")),
    BadCall("bias not empty", lambda t: call(t(2, 3), t(3, 0), t(1)), ("`bias`", "0", "1")),
    BadCall("bias per batch", lambda t: call(t(5, 2, 3), t(3, 4), t(5, 4)), ("`bias`", "2-D")),
    BadCall("bias float64", lambda t: call(t(2, 3), t(3, 4), t(4, dtype=F64)), ("`bias`", "float32", "float64")),
    BadCall("bias float16", lambda t: call(t(2, 3), t(3, 4), t(4, dtype=F16)), ("`bias`", "float32", "float16")),
    BadCall("bias int64", lambda t: call(t(2, 3), t(3, 4), t(4, dtype=torch.int64)), ("`bias`", "float32", "int64")),
    BadCall(
        "bias bfloat16 with float16",
        lambda t: call(t(2, 3, dtype=F16), t(3, 4, dtype=F16), t(4, dtype=BF16)),
        ("`bias`", "float16", "bfloat16"),
    ),
    BadCall(
        "bias of the operands', not of the output's dtype",
        lambda t: call(t(2, 3, dtype=F16), t(3, 4, dtype=F16), t(4, dtype=F16), out_dtype=BF16),
        ("`bias`", "bfloat16", "float16"),
    ),
    BadCall(
        "bias float16 with float64",
        lambda t: call(t(2, 3, dtype=F64), t(3, 4, dtype=F64), t(4, dtype=F16)),
        ("`bias`", "float64", "float16"),
    ),
    BadCall(
        "bias of fp8 operands' dtype",
        lambda t: call(t(2, 3, dtype=E5M2), t(3, 4, dtype=E4M3), t(4, dtype=E5M2)),
        ("`bias`", "float16", "float32", "float8_e5m2"),
    ),
    BadCall(
        "bias bfloat16 with fp8 operands to float16",
        lambda t: call(t(2, 3, dtype=E4M3), t(3, 4, dtype=E4M3), t(4, dtype=BF16)),
        ("`bias`", "float16", "bfloat16"),
    ),
    # activation
    *(
        BadCall(
            f"activation {name!r}",
            lambda t, name=name: call(t(2, 3), t(3, 4), activation=name),  # type: ignore[misc]
            ("activation", re.escape(name), "none", "relu", "leaky_relu", "gelu", "gelu_tanh", "silu"),
        )
        for name in ("", "ReLU", "swish", "relu ", "leaky-relu", "tanh", "none, relu", "gelu_tanh_", "relü", "x" * 300)
    ),
    # devices
    BadCall("b elsewhere", lambda t: call(t(2, 3), t.elsewhere(3, 4)), ("`b`", "cuda", "cpu"), two_devices=True),
    BadCall("a elsewhere", lambda t: call(t.elsewhere(2, 3), t(3, 4)), ("`b`", "cuda", "cpu"), two_devices=True),
    BadCall(
        "bias elsewhere", lambda t: call(t(2, 3), t(3, 4), t.elsewhere(4)), ("`bias`", "cuda", "cpu"), two_devices=True
    ),
    # several at once: the first that is checked must be the same everywhere
    BadCall("dims and dtypes", lambda t: call(t(3), t(3, 4, 5, 6, dtype=torch.int8)), ()),
    BadCall("k and dtypes", lambda t: call(t(2, 3, dtype=F16), t(4, 5)), ()),
    BadCall("k and batch", lambda t: call(t(2, 2, 3), t(3, 4, 5)), ()),
    BadCall("dtype and bias", lambda t: call(t(2, 3, dtype=torch.int32), t(3, 4, dtype=torch.int32), t(9)), ()),
    BadCall("out_dtype and bias", lambda t: call(t(2, 3), t(3, 4), t(9), out_dtype=torch.int32), ()),
    BadCall("bias and activation", lambda t: call(t(2, 3), t(3, 4), t(9), activation="x"), ()),
    BadCall("bias shape and dtype", lambda t: call(t(2, 3), t(3, 4), t(9, dtype=F64)), ()),
    BadCall("out_dtype and activation", lambda t: call(t(2, 3), t(3, 4), activation="x", out_dtype=torch.int32), ()),
    BadCall("everything", lambda t: call(t(3), t(3, dtype=F16), t(3, 3), activation="x", out_dtype=torch.int32), ()),
)


def overlapping(t: Make, *, rows: int, cols: int, strides: tuple[int, int]) -> Tensor:
    return t(rows * cols + 64).as_strided((rows, cols), strides)


def halves(t: Make, between: int = 0) -> tuple[Tensor, Tensor]:
    """Two 4x4 matrices in one storage, the second `between` elements after the start of the first."""
    storage = t(64)
    return storage.as_strided((4, 4), (4, 1), 0), storage.as_strided((4, 4), (4, 1), between)


def out_overlaps(t: Make, position: int, between: int) -> Call:
    first, second = halves(t, between)
    arguments = [t(4, 4), t(4, 4)]
    arguments[position] = first
    return call(*arguments, out=second)


def interleaved(t: Make) -> Call:
    """Even columns are read and odd ones written: no element in common, but one byte range."""
    storage = t(4, 8)
    return call(storage[:, ::2], t(4, 4), out=storage[:, 1::2])


def bias_inside_out(t: Make) -> Call:
    out = t(4, 4)
    return call(t(4, 4), t(4, 4), out[3], out=out)


BAD_OUTS = (
    BadCall("m differs", lambda t: call(t(2, 3), t(3, 4), out=t(3, 4)), ("`out`", "2", "3")),
    BadCall("n differs", lambda t: call(t(2, 3), t(3, 4), out=t(2, 5)), ("`out`", "4", "5")),
    BadCall("transposed shape", lambda t: call(t(2, 3), t(3, 4), out=t(4, 2)), ("`out`",)),
    BadCall("empty, to be resized", lambda t: call(t(2, 3), t(3, 4), out=t(0)), ("`out`",)),
    BadCall("flat", lambda t: call(t(2, 3), t(3, 4), out=t(8)), ("`out`",)),
    BadCall("batch of one too much", lambda t: call(t(2, 3), t(3, 4), out=t(1, 2, 4)), ("`out`",)),
    BadCall("batch missing", lambda t: call(t(1, 2, 3), t(3, 4), out=t(2, 4)), ("`out`",)),
    BadCall("batch differs", lambda t: call(t(5, 2, 3), t(3, 4), out=t(4, 2, 4)), ("`out`", "5", "4")),
    BadCall("shape differs in an empty product", lambda t: call(t(0, 3), t(3, 4), out=t(0, 5)), ("`out`",)),
    BadCall("float64 out", lambda t: call(t(2, 3), t(3, 4), out=t(2, 4, dtype=F64)), ("`out`", "float32", "float64")),
    BadCall("float16 out", lambda t: call(t(2, 3), t(3, 4), out=t(2, 4, dtype=F16)), ("`out`", "float32", "float16")),
    BadCall("int out", lambda t: call(t(2, 3), t(3, 4), out=t(2, 4, dtype=torch.int32)), ("`out`", "float32", "int32")),
    BadCall(
        "out against out_dtype",
        lambda t: call(t(2, 3), t(3, 4), out_dtype=F16, out=t(2, 4)),
        ("`out`", "float16", "float32"),
    ),
    BadCall("bad arguments and a bad out", lambda t: call(t(2, 3), t(4, 4), activation="x", out=t(9)), ("`a`", "`b`")),
    BadCall(
        "out elsewhere",
        lambda t: call(t(2, 3), t(3, 4), out=t.elsewhere(2, 4)),
        ("`out`", "cuda", "cpu"),
        two_devices=True,
    ),
    # out overlaps itself: sizes and strides tell that, without data
    BadCall("rows in one place", lambda t: call(t(2, 3), t(3, 4), out=t(1, 4).expand(2, 4)), ("`out`", "overlap")),
    BadCall("columns in one place", lambda t: call(t(2, 3), t(3, 4), out=t(2, 1).expand(2, 4)), ("`out`", "overlap")),
    BadCall(
        "batches in one place",
        lambda t: call(t(5, 2, 3), t(3, 4), out=t(1, 2, 4).expand(5, 2, 4)),
        ("`out`", "overlap"),
    ),
    BadCall(
        "windows",
        lambda t: call(t(5, 3), t(3, 4), out=overlapping(t, rows=5, cols=4, strides=(1, 1))),
        ("`out`", "overlap", r"strides \(1, 1\) for the shape \(5, 4\)"),
    ),
    BadCall(
        "a line too short",
        lambda t: call(t(5, 3), t(3, 4), out=overlapping(t, rows=5, cols=4, strides=(3, 1))),
        ("`out`", "overlap"),
    ),
    BadCall(
        "crossing strides",
        lambda t: call(t(5, 3), t(3, 4), out=overlapping(t, rows=5, cols=4, strides=(2, 3))),
        ("`out`", "overlap"),
    ),
    BadCall(
        "a batch too short",
        lambda t: call(t(2, 2, 3), t(3, 4), out=t(64).as_strided((2, 2, 4), (7, 4, 1))),
        ("`out`", "overlap"),
    ),
    BadCall(
        "a batch's step is a row's and a column's back",
        lambda t: call(t(3, 3, 3), t(3, 3), out=t(64).as_strided((3, 3, 3), (7, 8, 1))),
        ("`out`", "overlap"),
    ),
    BadCall(
        "overlaps itself and has another shape",
        lambda t: call(t(2, 3), t(3, 4), out=t(1, 5).expand(2, 5)),
        ("`out`", "shape"),
    ),
)
# Fake tensors have no addresses, so they cannot see these.
BAD_OVERLAPS = (
    BadCall("is a", lambda t: out_overlaps(t, 0, 0), ("`out`", "`a`")),
    BadCall("is b", lambda t: out_overlaps(t, 1, 0), ("`out`", "`b`")),
    BadCall("starts in a's last element", lambda t: out_overlaps(t, 0, 15), ("`out`", "`a`")),
    BadCall("starts inside b", lambda t: out_overlaps(t, 1, 6), ("`out`", "`b`")),
    BadCall("interleaved with a", interleaved, ("`out`", "`a`")),
    BadCall("holds bias", bias_inside_out, ("`out`", "`bias`")),
)
