"""The bad calls of prepared weights: of `_prepare_block_scaled`, and of the product what its `prepared_b` adds."""

from __future__ import annotations

import re

import torch
from bad_calls import BadCall, Call, Make
from bad_calls_block_scaled import E4M3, E5M2, E8M0, FP4, I8, NAMES, U8, K, Maker, N, elsewhere, good, of
from block_scaled_operands import MIXED, MIXED_REVERSED, MXFP4, MXFP8, NVFP4, Format

INT8_BYTES, BFLOAT16_BYTES = 1024, 1536  # of a weight of n 5, k 64: tests/host/test_prepared_weight.cpp


def bad_prepare(
    name: str,
    *words: str,
    fmt: Format = MXFP4,
    form: str = "bfloat16",
    base: dict[str, Maker] | None = None,
    two_devices: bool = False,
    **replaced: Maker,
) -> BadCall:
    makers = {**(base or good(fmt)), **replaced}
    return BadCall(name, lambda t: ((makers["b"](t), makers["scale_b"](t)), {"form": form}), words, two_devices)


BAD_PREPARE = (
    *(
        bad_prepare(f"b {len(shape)}-D", "`b`", "2-D", f"{len(shape)}-D", b=of(*shape, dtype=U8))
        for shape in ((), (32,), (1, 5, 32))
    ),
    *(
        bad_prepare(f"scale_b {len(shape)}-D", "`scale_b`", f"{len(shape)}-D", scale_b=of(*shape, dtype=E8M0))
        for shape in ((), (5,), (1, 5, 2), (1, 32, 4, 4))
    ),
    bad_prepare(
        "scale_b elsewhere",
        "`scale_b`",
        "`b`",
        "cpu",
        "cuda",
        two_devices=True,
        scale_b=elsewhere(of(N, 2, dtype=E8M0)),
    ),
    bad_prepare("float32 b", "`b`", "float32", "float8_e4m3fn", "uint8", b=of(N, K)),
    bad_prepare("int8 b", "`b`", "got int8", b=of(N, 32, dtype=I8)),
    bad_prepare("e5m2 b", "`b`", "float8_e5m2", b=of(N, K, dtype=E5M2)),
    bad_prepare("float32 scale_b", "`scale_b`", "float32", "float8_e8m0fnu", "float8_e4m3fn", scale_b=of(N, 2)),
    bad_prepare("e4m3 with e4m3 scales", "`scale_b`", "float8_e8m0fnu", fmt=MXFP8, scale_b=of(N, 2, dtype=E4M3)),
    bad_prepare("int8 scale_b", "`scale_b`", "got int8", scale_b=of(N, 2, dtype=I8)),
    bad_prepare("k 16 in mxfp4", "16", "32", b=of(N, 8, dtype=U8)),
    bad_prepare("k 48 in mxfp8", "48", "32", fmt=MXFP8, b=of(N, 48, dtype=E4M3)),
    bad_prepare("k 24 in nvfp4", "24", "16", fmt=NVFP4, b=of(N, 12, dtype=U8)),
    bad_prepare("scale_b too few rows", "`scale_b`", r"\b4\b", scale_b=of(4, 2, dtype=E8M0)),
    bad_prepare("scale_b too many columns", "`scale_b`", r"\b3\b", scale_b=of(N, 3, dtype=E8M0)),
    bad_prepare("scale_b of vec 32 in nvfp4", "`scale_b`", r"\b2\b", fmt=NVFP4, scale_b=of(N, 2, dtype=E4M3)),
    bad_prepare("packed scale_b, a block too much", "`scale_b`", r"\b2\b", scale_b=of(2, 1, 32, 4, 4, dtype=E8M0)),
    *(
        bad_prepare(f"form {form!r}", "`form`", "int8", "bfloat16", re.escape(f'got "{form}"'), form=form)
        for form in ("", "INT8", "float8", "float16", "x" * 300)
    ),
    bad_prepare("int8 of mxfp8", "`form` int8", "float8_e4m3fn with float8_e8m0fnu", fmt=MXFP8, form="int8"),
    bad_prepare("int8 of nvfp4", "`form` int8", "uint8 with float8_e4m3fn", fmt=NVFP4, form="int8"),
    bad_prepare("int8 of e4m3 with uint8 scales", "uint8", fmt=MXFP8, form="int8", scale_b=of(N, 2, dtype=U8)),
    # several at once: the first that is checked must be the same everywhere
    bad_prepare("everything", "2-D", b=of(3), scale_b=of(3), form="x"),
    bad_prepare("dtypes and shapes", "float32", b=of(N, K), scale_b=of(9, 9)),
    bad_prepare("scales and form", "`scale_b`", scale_b=of(9, 9, dtype=E8M0), form="x"),
    bad_prepare("k and form", "k = 16", b=of(N, 8, dtype=FP4), form="x"),
)


def buffer(size: int) -> Maker:
    """Bytes at a multiple of 256, as the GPU's allocator has them."""

    def make(t: Make) -> torch.Tensor:
        storage = t(size + 256, dtype=U8)
        begin = -storage.data_ptr() % 256 if type(storage) is torch.Tensor and storage.device.type != "meta" else 0
        return storage[begin : begin + size]

    return make


def with_prepared(arguments: tuple[object, ...], prepared: torch.Tensor) -> tuple[object, ...]:
    """A call of block_scaled_matmul as one of the product by a prepared weight."""
    return *arguments[:4], prepared, *arguments[4:]


def bad_product(
    name: str,
    *words: str,
    prepared: Maker,
    fmt: Format = MXFP4,
    options: dict[str, object] | None = None,
    two_devices: bool = False,
    **replaced: Maker,
) -> BadCall:
    makers = {**good(fmt), **replaced}

    def make(t: Make) -> Call:
        tensors = tuple(makers[name](t) if name in makers else None for name in NAMES)
        return with_prepared(tensors, prepared(t)), dict(options or {})

    return BadCall(name, make, words, two_devices)


WHAT_IT_IS = ("`prepared_b`", "_prepare_block_scaled", "contiguous uint8 in one dimension")
BAD_PRODUCTS = (
    bad_product(
        "prepared_b elsewhere",
        "`prepared_b`",
        "`a`",
        "cpu",
        "cuda",
        prepared=elsewhere(of(INT8_BYTES, dtype=U8)),
        two_devices=True,
    ),
    bad_product("int8 prepared_b", *WHAT_IT_IS, prepared=of(INT8_BYTES, dtype=I8)),
    bad_product("e4m3 prepared_b", *WHAT_IT_IS, prepared=of(INT8_BYTES, dtype=E4M3)),
    bad_product("prepared_b 0-D", *WHAT_IT_IS, prepared=of(dtype=U8)),
    bad_product("prepared_b 2-D", *WHAT_IT_IS, prepared=of(4, 256, dtype=U8)),
    bad_product("prepared_b with gaps", *WHAT_IT_IS, prepared=lambda t: t(2 * INT8_BYTES, dtype=U8)[::2]),
    *(
        bad_product(
            f"{size} bytes of mxfp4", "`prepared_b`", "1024 or 1536 bytes", f"got {size}$", prepared=buffer(size)
        )
        for size in (0, 1, INT8_BYTES - 1, INT8_BYTES + 256, BFLOAT16_BYTES + 1)
    ),
    *(
        bad_product(f"{fmt} by int8", "must be 1536 bytes", "got 1024$", fmt=fmt, prepared=buffer(INT8_BYTES))
        for fmt in (MXFP8, MIXED, MIXED_REVERSED, NVFP4)
    ),
    bad_product("another weight's", "got 256$", prepared=buffer(256)),
    # what block_scaled_matmul says comes first
    bad_product("scale_a too", "`scale_a`", prepared=of(3), scale_a=of(9, 9, dtype=E8M0)),
    bad_product("activation too", "activation", prepared=of(3), options={"activation": "x"}),
    bad_product("dtype and size", *WHAT_IT_IS, prepared=of(3)),
)

# Fake tensors have no addresses, so they cannot see this.
BAD_ADDRESS = bad_product(
    "begins at a byte", "`prepared_b`", "multiple of 256", prepared=lambda t: buffer(INT8_BYTES + 1)(t)[1:]
)
