"""The soak test's calls of matmul: shapes, layouts and dtypes drawn, and what must come of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from soak.case import Call, Case
from soak.draw import Draw
from soak.epilogue import Epilogue, draw_epilogue
from soak.gradients import gradients
from soak.intervals import product
from soak.operand import Operand, draw_out
from soak.precision import UNKNOWN, Data, dense
from soak.values import E4M3, E5M2, SPECIAL, Source, exact_high
from soak.wanted import Numbers, Wanted

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
OUT_DTYPES = {
    F16: (F16, F32, BF16),
    BF16: (BF16, F32, F16),
    F32: (F32, F16, BF16),
    F64: (F64,),
    E4M3: (F16, BF16, F32),
    E5M2: (F16, BF16, F32),
}
_DTYPES: dict[tuple[torch.dtype, torch.dtype], float] = {
    (F16, F16): 20,
    (BF16, BF16): 22,
    (F32, F32): 24,
    (F64, F64): 8,
    **{(a, b): 7 for a in (E4M3, E5M2) for b in (E4M3, E5M2)},
}
_BATCHES = {"none": 55, "both": 13, "a": 8, "b": 8, "a of one": 6, "b of one": 6, "both of one": 4}

Shapes = tuple[tuple[int, ...], tuple[int, ...]]


def draw_matmul(draw: Draw, *, with_out: bool, through: str | None = None) -> Case:
    through = through or ("python" if draw.chance(0.35) else "op")
    shapes = _wrapper_shapes(draw) if through == "python" and draw.chance(0.6) else _op_shapes(draw)
    return _Drawn(draw, shapes, through).case(with_out=with_out)


def draw_matmul_backward(draw: Draw) -> Case:
    return _Drawn(draw, _op_shapes(draw), draw.pick(("op", "python")), for_gradients=True).case(with_out=False)


# Shapes.


def _op_shapes(draw: Draw) -> Shapes:
    """Of the op: matrices, batches, and a matrix or a batch of one that the whole batch shares."""
    kind = draw.weighted(_BATCHES)
    batch = 1 if kind == "none" else draw.pick((0, 1, 2, 3, 3, 5, 8))
    m, n, k = draw.product_sizes(batch=max(batch, 1))
    batch_a = {"none": (), "b": (), "a of one": (1,), "both of one": (1,)}.get(kind, (batch,))
    batch_b = {"none": (), "a": (), "b of one": (1,), "both of one": (1,)}.get(kind, (batch,))
    return (*batch_a, m, k), (*batch_b, k, n)


def _wrapper_shapes(draw: Draw) -> Shapes:
    """Of torch.matmul: vectors, and batches of up to two dimensions that broadcast."""
    batch = [draw.pick((1, 2, 3, 4)) for _ in range(draw.between(0, 2))]
    m, n, k = draw.product_sizes(batch=math.prod(batch))

    def one_side() -> tuple[int, ...]:
        return tuple(1 if draw.chance(0.3) else size for size in batch[draw.between(0, len(batch)) :])

    a, b = (*one_side(), m, k), (*one_side(), k, n)
    a = (k,) if len(a) == 2 and draw.chance(0.15) else a
    b = (k,) if len(b) == 2 and draw.chance(0.15) else b
    return a, b


def _result_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """torch.matmul's."""
    sizes = itertools.zip_longest(reversed(a[:-2]), reversed(b[:-2]), fillvalue=1)
    batch = [right if left == 1 else left for left, right in sizes]
    return (*reversed(batch), *a[-2:-1], *(b[-1:] if len(b) > 1 else ()))


# Cases.


class _Drawn:
    """What one call of matmul is made of."""

    def __init__(self, draw: Draw, shapes: Shapes, through: str, *, for_gradients: bool = False) -> None:
        self.draw, self.through, self.for_gradients = draw, through, for_gradients
        self.dtypes = draw.weighted(_DTYPES)
        self.outputs = OUT_DTYPES[self.dtypes[0]]
        self.shape = _result_shape(*shapes)
        k, n = shapes[0][-1], shapes[1][-1] if len(shapes[1]) > 1 else 1
        self.source = Source(draw, draw.chance(0.35), exact_high(k, self.dtypes), plain=for_gradients)
        self.a, self.b = (
            self.source.operand(shape, dtype, requires_grad=self._wants_gradient(dtype))
            for shape, dtype in zip(shapes, self.dtypes, strict=True)
        )
        out_dtype = draw.pick((self.outputs[0], draw.pick(self.outputs)))
        # A gradient must be asked for: the bias has one where no operand does.
        needed = for_gradients and not (self.a.requires_grad or self.b.requires_grad)
        self.epilogue = draw_epilogue(
            self.source, n, out_dtype, bias_share=1.0 if needed else 0.5, requires_grad=for_gradients
        )

    def _wants_gradient(self, dtype: torch.dtype) -> bool:
        """Of fp8 operands none flows."""
        return self.for_gradients and dtype.itemsize > 1 and self.draw.chance(0.75)

    def _options(self) -> dict[str, object]:
        options = self.epilogue.options(self.draw, self.outputs[0])
        # TF32 has no room for numbers at the ends of float32.
        may_be_tf32 = SPECIAL not in (self.a.kind, self.b.kind)
        if may_be_tf32 and self.draw.chance(0.15 if self.dtypes[0] == F32 else 0.03):
            options["allow_tf32"] = True
        if self.draw.chance(0.25 if self.dtypes[0].itemsize == 1 else 0.03):
            options["fast_accum"] = True
        return options

    def case(self, *, with_out: bool) -> Case:
        draw, out_dtype = self.draw, self.epilogue.out_dtype
        call = Call(
            "matmul",
            {"a": self.a, "b": self.b, "bias": self.epilogue.bias},
            self._options(),
            out=draw_out(draw, self.shape, out_dtype) if with_out else None,
            through=self.through,
            mode="grad" if self.for_gradients else draw.pick(("grad", "no_grad", "inference_mode")),
            upstream=self.source.operand(self.shape, out_dtype, high=2) if self.for_gradients else None,
        )
        oracle = _Oracle(call, self.a, self.b, self.epilogue, self.shape)
        return Case(call, _format(self.dtypes), oracle.wanted)


def _format(dtypes: tuple[torch.dtype, torch.dtype]) -> str:
    names = [str(dtype).removeprefix("torch.").removeprefix("float8_") for dtype in dtypes]
    return names[0] if dtypes[0].itemsize > 1 else " x ".join(names)


@dataclass(frozen=True)
class _Oracle:
    call: Call
    a: Operand
    b: Operand
    epilogue: Epilogue
    shape: tuple[int, ...]

    def wanted(self, device: torch.device) -> Mapping[str, Wanted]:
        a, b = (operand.view().detach().double() for operand in (self.a, self.b))
        a = a.unsqueeze(0) if a.dim() == 1 else a
        b = b.unsqueeze(1) if b.dim() == 1 else b
        dtypes, options = (self.a.dtype, self.b.dtype), self.call.options
        tf32, fast = bool(options.get("allow_tf32")), bool(options.get("fast_accum"))
        precision = dense(a.shape[-1], dtypes, device, Data.of(self.a, self.b), tf32=tf32, fast_accum=fast)
        argument = self.epilogue.argument(product(a, b, precision), precision.unit)
        interval = self.epilogue.result(argument, precision.unit).reshaped(self.shape)
        result = Numbers(interval, self.epilogue.out_dtype)
        if self.call.upstream is None:
            return {"result" if self.call.out is None else "out": result}
        found = gradients(
            self.call, a, b, argument, self.epilogue, lambda k: dense(k, dtypes, device, UNKNOWN, tf32=tf32)
        )
        return {"result": result, **found}
