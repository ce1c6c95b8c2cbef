"""The soak test's calls of block_scaled_matmul, and what must come of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from soak.case import Call, Case
from soak.draw import Draw
from soak.epilogue import Epilogue, draw_epilogue
from soak.intervals import product, scaled
from soak.operand import Operand, draw_out
from soak.precision import block_scaled
from soak.scales import (
    draw_codes,
    draw_global_scale,
    draw_scales,
    draw_spreads,
    global_factor,
    scale_bytes,
)
from soak.small_floats import elements, folded, with_scales
from soak.values import Source
from soak.wanted import Numbers, Wanted


@dataclass(frozen=True)
class Format:
    """Elements of both operands and their scales, and how many elements along k share a scale."""

    a: str
    b: str
    scale: str
    vec: int


FORMATS = {
    "mxfp8": Format("e4m3", "e4m3", "e8m0", 32),
    "mxfp4": Format("e2m1", "e2m1", "e8m0", 32),
    "mixed": Format("e4m3", "e2m1", "e8m0", 32),
    "mixed reversed": Format("e2m1", "e4m3", "e8m0", 32),
    "nvfp4": Format("e2m1", "e2m1", "e4m3", 16),
}
_SHARES = {"mxfp8": 28, "mxfp4": 28, "mixed": 10, "mixed reversed": 8, "nvfp4": 26}
_OUT_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn)


@dataclass(frozen=True)
class _Rows:
    """One operand: rows of codes, and their scales."""

    codes: Operand
    scales: Operand
    element: str
    form: Format

    def values(self, *, is_folded: bool = False) -> Tensor:
        """(rows, k) in float64, as float32 holds them or as fast_accum folds them."""
        values = elements(self.codes.bits(), self.element)
        columns = values.shape[1] // self.form.vec
        scale = folded if is_folded else with_scales
        return scale(values, scale_bytes(self.scales, values.shape[0], columns), self.form.scale, self.form.vec)


def draw_block_scaled(draw: Draw, *, with_out: bool) -> Case:
    name = draw.weighted(_SHARES)
    form = FORMATS[name]
    m, n, k = draw.product_sizes(step=form.vec)
    spread_a, spread_b = draw_spreads(draw, form.scale)
    a = _Rows(draw_codes(draw, form.a, m, k), draw_scales(draw, spread_a, m, k // form.vec), form.a, form)
    b = _Rows(draw_codes(draw, form.b, n, k), draw_scales(draw, spread_b, n, k // form.vec), form.b, form)
    global_scale = draw_global_scale(draw, share=0.7 if name == "nvfp4" else 0.3)
    source = Source(draw, integers=draw.chance(0.5), high=20)  # of the bias
    epilogue = draw_epilogue(source, n, draw.pick(_OUT_DTYPES))
    options = epilogue.options(draw, torch.float16)
    if draw.chance(0.25):
        options["fast_accum"] = True
    call = Call(
        "block_scaled_matmul",
        {
            "a": a.codes,
            "b": b.codes,
            "scale_a": a.scales,
            "scale_b": b.scales,
            "bias": epilogue.bias,
            "global_scale": global_scale,
        },
        options,
        out=draw_out(draw, (m, n), epilogue.out_dtype) if with_out else None,
        through=draw.pick(("op", "python")),
        mode=draw.pick(("grad", "no_grad", "inference_mode")),
    )
    return Case(call, name, _Oracle(call, a, b, epilogue, global_factor(global_scale)).wanted)


@dataclass(frozen=True)
class _Oracle:
    call: Call
    a: _Rows
    b: _Rows
    epilogue: Epilogue
    factor: float | None

    def wanted(self, device: torch.device) -> Mapping[str, Wanted]:
        is_mxfp4 = (self.a.element, self.b.element, self.a.form.scale) == ("e2m1", "e2m1", "e8m0")
        is_fast = bool(self.call.options.get("fast_accum"))
        may_fold = is_fast and self.a.form.scale == "e8m0"
        folds_on_the_cpu = not is_mxfp4 and self.a.codes.bits().shape[0] > 64
        is_folded = may_fold and (self._was_folded() if device.type == "cuda" else folds_on_the_cpu)
        a, b = self.a.values(is_folded=is_folded), self.b.values(is_folded=is_folded)
        as_e5m2 = is_mxfp4 and is_fast
        is_nvfp4 = self.a.form.scale == "e4m3"
        precision = block_scaled(a.shape[1], device, as_e5m2=as_e5m2, is_nvfp4=is_nvfp4, as_fp8=is_folded)
        sums = product(a, b.t(), precision)
        if self.factor is not None:
            sums = scaled(sums, self.factor)
        interval = self.epilogue.result(self.epilogue.argument(sums, precision.unit), precision.unit)
        return {"result" if self.call.out is None else "out": Numbers(interval, self.epilogue.out_dtype)}

    @staticmethod
    def _was_folded() -> bool:
        """Where fast_accum allows it, the choice may fold: by what each way is expected to take (csrc/cuda/sm90/
        heuristics/select_scaled.h). `wanted` is asked for by the thread that made the call, right after it."""
        return str(torch.ops.tileon._last_kernel()).startswith(("expanded_folded", "sm90_folded"))
