"""What `tileon_ops.tune` is asked to measure: shapes, dtypes and layouts, checked, and random operands for them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tileon_ops.tune import scaled_operands
from tileon_ops.tune.measurement import Call
from tileon_ops.tune.scaled_operands import FORMATS

LAYOUTS = ("NN", "NT", "TN", "TT")
DTYPES = ("float16", "bfloat16", "float32", "tf32", "float64", "float8_e4m3fn", "float8_e5m2")

_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
_LEAST = 32  # sizes of the product that finds out whether the op takes the rest


def _fail(text: str) -> RuntimeError:
    return RuntimeError(f"tune: {text}")


@dataclass(frozen=True)
class Product:
    """One product to be measured, (batch, m, k) @ (batch, k, n), 2-D without a batch.

    `kind` is a dtype's name, of both operands, or two of fp8 with a * between them, or scaled operands as
    scaled_operands.py names them. Of the layout's letters the first is a's, the second b's. N: contiguous as it stands;
    T: a transposed view. Scaled operands have one layout only, NT.
    """

    kind: str
    layout: str
    shape: tuple[int, ...]  # (m, n, k) or (batch, m, n, k)
    bias: bool
    activation: str
    out_dtype: torch.dtype | None
    fast_accum: bool

    def __str__(self) -> str:
        return f"{self.kind} {self.layout} {'x'.join(map(str, self.shape))}"

    @property
    def is_block_scaled(self) -> bool:
        return scaled_operands.normalized(self.kind) is not None

    def resized(self, size: int) -> Product:
        """The same with m = n = k = size, and without a batch."""
        return Product(self.kind, self.layout, (size,) * 3, self.bias, self.activation, self.out_dtype, self.fast_accum)

    def call(self, device: torch.device) -> Call:
        """On random operands: normal ones, since zeros would run faster than data do."""
        generator = torch.Generator(device=device).manual_seed(0)
        make = self._block_scaled if self.is_block_scaled else self._dense
        tensors, options = make(generator)
        return Call(
            "block_scaled_matmul" if self.is_block_scaled else "matmul",
            tensors,
            {"activation": self.activation, "out_dtype": self.out_dtype, "fast_accum": self.fast_accum, **options},
        )

    def _dense(self, generator: torch.Generator) -> tuple[tuple[Tensor | None, ...], dict[str, Any]]:
        *batch, m, n, k = self.shape
        dtype_a, dtype_b = (_dtype(name) for name in _names_of(self.kind))
        a = _normal((*batch, m, k), dtype_a, self.layout[0], generator)
        b = _normal((*batch, k, n), dtype_b, self.layout[1], generator)
        out_dtype = self.out_dtype or (torch.float16 if dtype_a.itemsize == 1 else dtype_a)
        bias = _normal((n,), out_dtype, "N", generator) if self.bias else None
        return (a, b, bias), {"allow_tf32": self.kind == "tf32"}

    def _block_scaled(self, generator: torch.Generator) -> tuple[tuple[Tensor | None, ...], dict[str, Any]]:
        m, n, k = self.shape
        (a, scale_a), (b, scale_b) = (
            scaled_operands.random_operand(name, rows, k, generator)
            for rows, name in zip((m, n), scaled_operands.names_of(self.kind), strict=True)
        )
        out_dtype = self.out_dtype or (a.dtype if scale_a is None else torch.float16)
        bias_dtype = torch.float32 if out_dtype.itemsize == 1 else out_dtype
        bias = _normal((n,), bias_dtype, "N", generator) if self.bias else None
        return (a, b, scale_a, scale_b, bias, None), {}


def _normal(shape: tuple[int, ...], dtype: torch.dtype, letter: str, generator: torch.Generator) -> Tensor:
    stored = shape if letter == "N" else (*shape[:-2], shape[-1], shape[-2])
    drawn = torch.float64 if dtype == torch.float64 else torch.float32
    values = torch.randn(stored, generator=generator, device=generator.device, dtype=drawn).to(dtype)
    return values if letter == "N" else values.mT


def _names_of(kind: str) -> tuple[str, str]:
    """Of the dtypes of a and b."""
    first, _, second = kind.partition("*")
    return first, second or first


def _dtype(name: str) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, "float32" if name == "tf32" else name)
    return dtype


def _listed(values: Any, single: type | tuple[type, ...]) -> list[Any]:
    """One value for a list of one."""
    return [values] if isinstance(values, single) else list(values)


def _kind(dtype: object) -> str:
    name = str(dtype).removeprefix("torch.")
    both = _names_of(name)
    if name not in DTYPES and not ("*" in name and all(one in _FLOAT8 for one in both)):
        raise _fail(
            f"`dtypes` must be among {', '.join(DTYPES)}, or two of fp8 with a * between them, got {name!r}"
            + (": formats with scales go into `formats`" if scaled_operands.normalized(name) else "")
        )
    return name if both[0] != both[1] else both[0]


def _shape(shape: object, lengths: tuple[int, ...]) -> tuple[int, ...]:
    forms = " or ".join({3: "(m, n, k)", 4: "(batch, m, n, k)"}[length] for length in lengths)
    if (
        not isinstance(shape, Sequence)
        or len(shape) not in lengths
        or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in shape)
    ):
        raise _fail(f"each of `shapes` must be {forms}, of positive integers, got {shape!r}")
    return tuple(shape)


def _out_dtype(dtype: object) -> torch.dtype | None:
    found = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if dtype is not None and not isinstance(found, torch.dtype):
        raise _fail(f"`out_dtype` must be a dtype, got {dtype!r}")
    return found if isinstance(found, torch.dtype) else None


def _among(name: str, values: list[Any], known: Iterable[str]) -> list[str]:
    for value in values:
        if value not in known:
            raise _fail(f"`{name}` must be among {', '.join(known)}, got {value!r}")
    return values


def _format(kind: object) -> str:
    found = scaled_operands.normalized(kind) if isinstance(kind, str) else None
    if found is None:
        raise _fail(f"`formats` must be among {', '.join(FORMATS)}, {scaled_operands.OTHERS}, got {kind!r}")
    return found


def products(
    shapes: Iterable[Sequence[int]],
    dtypes: Any,
    *,
    formats: Any,
    layouts: Any,
    bias: bool,
    activation: str,
    out_dtype: torch.dtype | str | None,
    fast_accum: bool,
) -> list[Product]:
    """Every combination, each once, in the order given: shapes last. Of bias, activation and `out_dtype` it is tried
    whether the op takes them.

    Raises:
        RuntimeError: "tune: ...".
    """
    formats = [_format(kind) for kind in _listed(formats, str)]
    if dtypes is None:
        dtypes = () if formats else ("bfloat16",)
    kinds = [_kind(dtype) for dtype in _listed(dtypes, (str, torch.dtype))]
    layouts = _among("layouts", _listed(layouts, str), LAYOUTS)
    try:
        shapes = list(shapes)
    except TypeError:
        raise _fail(f"`shapes` must be several of (m, n, k) or (batch, m, n, k), got {shapes!r}") from None
    rest = (bias, activation, _out_dtype(out_dtype), fast_accum)

    def all_of() -> Iterator[Product]:
        for kind, layout, shape in itertools.product(kinds, layouts, shapes):
            yield Product(kind, layout, _shape(shape, (3, 4)), *rest)
        for kind, shape in itertools.product(formats, shapes):
            sizes = _shape(shape, (3,))
            multiple = scaled_operands.k_multiple(kind)
            if sizes[2] % multiple:
                raise _fail(f"k must be a multiple of {multiple} for {kind}, got {sizes[2]}")
            yield Product(kind, "NT", sizes, *rest)

    found = list(dict.fromkeys(all_of()))
    if not found:
        raise _fail("there is nothing to measure: `shapes`, or `dtypes` and `formats`, or `layouts`, are empty")
    for small in dict.fromkeys(product.resized(_LEAST) for product in found):
        try:
            small.call(torch.device("cpu")).problem()
        except RuntimeError as error:
            raise _fail(str(error)) from error
    return found
