"""Random values, shapes and layouts through `quantize` and `dequantize`. The examples follow from the test's name."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_float_operands import LAYOUTS, X_DTYPES, as_data, laid_out, random_bytes, random_data, wide_values
from small_float_reference import (
    BYTE,
    FORMAT_ROUNDINGS,
    FORMATS,
    NVFP4,
    Format,
    assert_quantized,
    assert_same_bits,
    expected_dequantize,
    expected_quantize,
    pack,
)
from torch import Tensor

quantize, dequantize = torch.ops.tileon.quantize, torch.ops.tileon.dequantize

examples = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

row_counts = st.one_of(st.integers(0, 9), st.integers(0, 300))
block_counts = st.integers(0, 13)
seeds = st.integers(0, 2**31)
layouts = st.sampled_from(list(LAYOUTS.values()))
global_values = st.one_of(st.none(), st.floats(2.0**-20, 2.0**10, width=32))


def as_global_scale(value: float | None, form: Format, device: torch.device) -> Tensor | None:
    return torch.tensor(value, device=device) if value is not None and form is NVFP4 else None


@examples
@given(
    rows=row_counts,
    blocks=block_counts,
    rule=st.sampled_from(FORMAT_ROUNDINGS),
    dtype=st.sampled_from(X_DTYPES),
    layout=layouts,
    global_value=global_values,
    seed=seeds,
)
def test_quantize_gives_the_oracles_bytes(
    device: torch.device,
    rows: int,
    blocks: int,
    rule: tuple[Format, str],
    dtype: torch.dtype,
    layout: dict[str, object],
    global_value: float | None,
    seed: int,
) -> None:
    form, rounding = rule
    x = wide_values(rows, blocks * form.vec, dtype, device, seed=seed)
    global_scale = as_global_scale(global_value, form, device)
    actual = quantize(laid_out(x, **layout), form.name, global_scale, scale_rounding=rounding)  # type: ignore[arg-type]
    assert_quantized(actual, expected_quantize(x, form, global_scale, rounding))


@examples
@given(
    rows=row_counts,
    blocks=block_counts,
    form=st.sampled_from(FORMATS),
    packed=st.booleans(),
    layout_of_data=layouts,
    layout_of_scale=layouts,
    out_dtype=st.sampled_from(X_DTYPES),
    global_value=global_values,
    seed=seeds,
)
def test_dequantize_gives_the_oracles_bits(
    device: torch.device,
    rows: int,
    blocks: int,
    form: Format,
    packed: bool,
    layout_of_data: dict[str, object],
    layout_of_scale: dict[str, object],
    out_dtype: torch.dtype,
    global_value: float | None,
    seed: int,
) -> None:
    data, scale = random_data(form, rows, blocks * form.vec, seed=seed), random_bytes(rows, blocks, seed=seed + 1)
    global_scale = as_global_scale(global_value, form, device)
    given_data = laid_out(as_data(data, form.data_dtype, device), **layout_of_data)  # type: ignore[arg-type]
    bytes_ = as_data(pack(scale, fill=0xFF) if packed else scale, form.scale_dtype, device)
    given_scale = laid_out(bytes_, **layout_of_scale)  # type: ignore[arg-type]
    actual = dequantize(given_data, given_scale, form.name, global_scale, out_dtype=out_dtype)
    assert_same_bits(actual, expected_dequantize(data, scale, form, global_scale, out_dtype))


def step_at(value: Tensor, form: Format) -> Tensor:
    """The distance between the codes around a value, in units of the scale."""
    smallest, fraction_bits = (0.5, 1) if form.is_fp4 else (2.0**-9, 3)
    _, exponent = torch.frexp(value)
    return torch.exp2(exponent.double() - 1 - fraction_bits).clamp(min=smallest)


@pytest.mark.parametrize(
    ("form", "rounding"), FORMAT_ROUNDINGS, ids=[f"{form.name}-{rounding}" for form, rounding in FORMAT_ROUNDINGS]
)
@examples
@given(rows=st.integers(1, 40), blocks=st.integers(1, 6), global_value=global_values, seed=seeds)
def test_no_value_errs_by_more_than_half_a_step_of_its_block(
    device: torch.device,
    form: Format,
    rounding: str,
    rows: int,
    blocks: int,
    global_value: float | None,
    seed: int,
) -> None:
    """Said of what both ops give together, with no oracle; a value past the largest code errs by what it is past it."""
    generator = torch.Generator()
    generator.manual_seed(seed)
    x = torch.randn(rows, blocks * form.vec, generator=generator)
    x = (x * torch.exp2(torch.randint(-3, 4, (rows, 1), generator=generator))).to(device)
    global_scale = as_global_scale(global_value, form, device)
    data, packed = quantize(x, form.name, global_scale, scale_rounding=rounding)
    scale = torch.ops.tileon.unpack_scales(packed, rows, blocks).float().double()
    scale = scale.repeat_interleave(form.vec, 1) * (1.0 if global_scale is None else global_scale.double())
    value = x.double() / scale
    restored = dequantize(data, packed, form.name, global_scale).double() / scale
    slack = value.abs() * 2.0**-21  # of float32 in nvfp4's factors and in the product with global_scale
    half_step = step_at(value.abs(), form) / 2 + slack
    past = (value.abs() - form.largest).clamp(min=0) + slack
    error = (restored - value).abs()
    assert bool((error <= torch.where(value.abs() > form.largest, past, half_step)).all())
    if rounding == "rceil":
        assert bool((value.abs() <= form.largest * (1 + 2.0**-23)).all()), (
            "rceil's scales leave nothing past the largest"
        )


@examples
@given(rows=st.integers(1, 150), blocks=st.integers(1, 9), rule=st.sampled_from(FORMAT_ROUNDINGS), seed=seeds)
def test_quantizing_what_was_dequantized_changes_no_value(
    device: torch.device, rows: int, blocks: int, rule: tuple[Format, str], seed: int
) -> None:
    """Of the mx formats: the values of a block are on the grid of any scale that the rule can choose for them."""
    form, rounding = rule
    if form is NVFP4:
        return
    x = wide_values(rows, blocks * form.vec, torch.float32, device, seed=seed)
    once = dequantize(*quantize(x, form.name, scale_rounding=rounding), form.name)
    twice = dequantize(*quantize(once, form.name, scale_rounding=rounding), form.name)
    assert_same_bits(twice, once.cpu())


@examples
@given(rows=st.integers(1, 150), blocks=st.integers(1, 9), rule=st.sampled_from(FORMAT_ROUNDINGS), seed=seeds)
def test_negating_x_flips_signs_and_nothing_else(
    device: torch.device, rows: int, blocks: int, rule: tuple[Format, str], seed: int
) -> None:
    form, rounding = rule
    x = wide_values(rows, blocks * form.vec, torch.float32, device, seed=seed)
    x = x.masked_fill(~x.isfinite(), 1.0)
    data, scale = quantize(x, form.name, scale_rounding=rounding)
    negated, same_scale = quantize(-x, form.name, scale_rounding=rounding)
    assert torch.equal(scale.view(BYTE), same_scale.view(BYTE))
    signs = torch.full_like(data.view(BYTE), 0x88 if form.is_fp4 else 0x80)
    assert torch.equal(negated.view(BYTE), data.view(BYTE) ^ signs)
