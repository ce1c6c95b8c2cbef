"""block_scaled_matmul of a 16-bit `a` without scales, and of float32 scales: every encoding and granularity, against a
float64 oracle (scaled_operands.py). What two block-scaled operands do stands in the test_block_scaled files."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from block_scaled_reference import assert_product
from reference import Expected
from scaled_operands import Scaled, expected, make, multiply, source_of

F16, BF16, F32, E4M3 = torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn

GRANULARITIES = ("tensor", "row", "1x128", "128x128")
FP8 = [f"{dtype}_{granularity}" for dtype in ("e4m3", "e5m2") for granularity in GRANULARITIES]
INT8 = ["int8_tensor", "int8_row"]
WEIGHTS = ["mxfp8", "mxfp4", "nvfp4", *FP8, *INT8]
WEIGHT_ONLY = list(itertools.product(["float16", "bfloat16"], WEIGHTS))
# Each granularity of a with each of b, the dtypes in turn; both pairings of the dtypes once more.
FP8_PAIRS = [
    (f"{('e4m3', 'e5m2')[i % 2]}_{a}", f"{('e4m3', 'e5m2')[i // 2 % 2]}_{b}")
    for i, (a, b) in enumerate(itertools.product(GRANULARITIES, GRANULARITIES))
]
PAIRS = [*FP8_PAIRS, ("e4m3_row", "e5m2_row"), ("e5m2_1x128", "e4m3_128x128"), *itertools.product(INT8, INT8)]
OPERANDS = [*WEIGHT_ONLY, *PAIRS]

# Of every kind: one row and few, whole tiles and none, k short and beyond some blocks of 128.
SIZES = [(1, 1, 32), (3, 130, 96), (17, 64, 128), (65, 70, 288), (129, 33, 320)]
ODD_K = [(5, 9, 1), (33, 130, 131), (70, 17, 257)]

each_pair = pytest.mark.parametrize(("a_name", "b_name"), OPERANDS, ids=map("*".join, OPERANDS))


def takes_odd_k(name: str) -> bool:
    return name not in ("mxfp8", "mxfp4", "nvfp4")


def operands(a_name: str, b_name: str, m: int, n: int, k: int, device: torch.device, exact: bool = False):  # type: ignore[no-untyped-def]
    return make(a_name, m, k, exact).to(device), make(b_name, n, k, exact).to(device)


def transposed(operand: Scaled) -> Scaled:
    """The same numbers, rows adjacent in memory; of scales too."""
    scale = operand.scale
    if scale is not None and scale.dim() == 2:
        scale = scale.t().contiguous().t()
    return replace(operand, data=operand.data.t().contiguous().t(), scale=scale)


def inside(operand: Scaled) -> Scaled:
    """The same numbers, rows that begin at odd bytes of a larger buffer of ones."""
    rows, columns = operand.data.shape
    buffer = torch.full((rows, columns + 3), 0x3C, dtype=torch.uint8, device=operand.data.device)
    if operand.data.element_size() == 2:
        buffer = torch.ones(rows, columns + 3, dtype=operand.data.dtype, device=operand.data.device)
        buffer[:, 1 : 1 + columns] = operand.data
        return replace(operand, data=buffer[:, 1 : 1 + columns])
    buffer[:, 1 : 1 + columns] = operand.data.view(torch.uint8)
    return replace(operand, data=buffer.view(operand.data.dtype)[:, 1 : 1 + columns])


@each_pair
class TestProducts:
    def test_small_whole_numbers_exactly(self, device: torch.device, a_name: str, b_name: str) -> None:
        odd = ODD_K if takes_odd_k(b_name) else []
        for m, n, k in SIZES + odd:
            a, b = operands(a_name, b_name, m, n, k, device, exact=True)
            wanted = expected(a, b, out_dtype=F32, bound=0.0)
            assert_product(multiply(a, b, out_dtype=F32), wanted, f"{m}x{n}x{k}")

    def test_random_numbers_within_the_bound(self, device: torch.device, a_name: str, b_name: str) -> None:
        for m, n, k in SIZES:
            a, b = operands(a_name, b_name, m, n, k, device)
            assert_product(multiply(a, b, out_dtype=F32), expected(a, b, out_dtype=F32), f"{m}x{n}x{k}")

    def test_layouts(self, device: torch.device, a_name: str, b_name: str) -> None:
        m, n, k = 37, 66, 160
        a, b = operands(a_name, b_name, m, n, k, device, exact=True)
        wanted = expected(a, b, out_dtype=F32, bound=0.0)
        for change_a, change_b in itertools.product((None, transposed, inside), repeat=2):
            laid_a = a if change_a is None else change_a(a)
            laid_b = b if change_b is None else change_b(b)
            assert_product(multiply(laid_a, laid_b, out_dtype=F32), wanted, f"{change_a} {change_b}")

    @pytest.mark.parametrize("out_dtype", [None, F16, BF16, F32, E4M3])
    def test_epilogue(self, device: torch.device, a_name: str, b_name: str, out_dtype: torch.dtype | None) -> None:
        m, n, k = 19, 72, 128
        a, b = operands(a_name, b_name, m, n, k, device)
        source = source_of("epilogue", a_name, b_name)
        default = a.data.dtype if a.data.element_size() == 2 else F16
        wanted_dtype = default if out_dtype is None else out_dtype
        bias = torch.randn(n, generator=source).to(device)
        for rows, activation in ((1, "leaky_relu"), (m, "gelu"), (m, "none")):
            shape = (rows, 1) if rows > 1 else ()
            global_scale = (torch.rand(shape, generator=source) + 0.1).to(device)
            actual = multiply(a, b, bias, global_scale, activation=activation, slope=0.2, out_dtype=out_dtype)
            wanted = expected(a, b, bias, global_scale, activation=activation, slope=0.2, out_dtype=wanted_dtype)
            assert_product(actual, wanted, f"{activation} {out_dtype}")

    def test_writes_out_and_nothing_else(self, device: torch.device, a_name: str, b_name: str) -> None:
        m, n, k = 21, 35, 64
        a, b = operands(a_name, b_name, m, n, k, device, exact=True)
        buffer = torch.full((m + 2, 2 * n + 3), -7.0, device=device)
        out = buffer[1 : 1 + m, 1 : 1 + 2 * n : 2]
        torch.ops.tileon.block_scaled_matmul.out(a.data, b.data, a.scale, b.scale, out_dtype=F32, out=out)
        assert_product(out, expected(a, b, out_dtype=F32, bound=0.0))
        out.fill_(-7.0)
        assert bool((buffer == -7.0).all())

    def test_sizes_of_zero(self, device: torch.device, a_name: str, b_name: str) -> None:
        bias = torch.ones(4, device=device)
        for m, n, k in ((0, 4, 32), (3, 0, 32), (3, 4, 0)):
            a, b = operands(a_name, b_name, m, n, k, device)
            actual = multiply(a, b, bias[:n], out_dtype=F32)
            assert actual.shape == (m, n)
            assert k > 0 or bool((actual == 1).all())

    def test_same_bits_again(self, device: torch.device, a_name: str, b_name: str) -> None:
        a, b = operands(a_name, b_name, 70, 66, 384, device)
        assert torch.equal(multiply(a, b, out_dtype=F32), multiply(a, b, out_dtype=F32))


class TestExtremes:
    @pytest.mark.parametrize("name", INT8)
    def test_sums_of_int8_are_exact(self, device: torch.device, name: str) -> None:
        """Far beyond what float32 sums hold: each sum is rounded once."""
        m, n, k = 3, 5, 70001
        a, b = operands(name, name, m, n, k, device)
        large = (128 - a.data.abs() % 4).neg()  # -128 to -125
        a, b = replace(a, data=large), replace(b, data=torch.where(b.data < 0, 127, b.data).to(torch.int8))
        one = torch.ones((), device=device)
        sums = a.data.double() @ b.data.double().t()
        actual = multiply(replace(a, scale=one), replace(b, scale=one), out_dtype=F32)
        assert torch.equal(actual, sums.float())

    @pytest.mark.parametrize("a_name", ["float16", "bfloat16"])
    @pytest.mark.parametrize("b_name", ["mxfp8", "mxfp4"])
    def test_the_ends_of_e8m0(self, device: torch.device, a_name: str, b_name: str) -> None:
        """An element times its scale counts as float32 holds it; `a` brings the sums back into float32's range."""
        for byte, factor in ((0, 2.0**14), (1, 2.0**14), (2, 2.0**14), (6, 2.0**14), (254, 2.0**-14), (252, 2.0**-14)):
            for m in (1, 40):
                a, b = operands(a_name, b_name, m, 66, 96, device, exact=True)
                a = replace(a, data=a.data * factor, elements=a.elements * factor)
                scale = torch.full_like(b.scale.view(torch.uint8), byte).view(torch.float8_e8m0fnu)
                wide = make(b_name, 66, 96, True).to(device)
                unscaled = wide.elements / _scales_of(wide)
                b = replace(b, scale=scale, elements=(unscaled * 2.0 ** (byte - 127)).float().double())
                if not bool(b.elements.isfinite().all()):
                    continue
                assert_product(multiply(a, b, out_dtype=F32), expected(a, b, out_dtype=F32, bound=0.0), f"{byte} {m}")

    @pytest.mark.parametrize(
        ("a_name", "b_name"), [("bfloat16", "mxfp8"), ("float16", "e5m2_row"), ("e4m3_row", "e4m3_1x128")]
    )
    def test_nan_stays_in_its_row_or_column(self, device: torch.device, a_name: str, b_name: str) -> None:
        m, n, k = 40, 70, 256
        a, b = operands(a_name, b_name, m, n, k, device)
        clean = multiply(a, b, out_dtype=F32)
        codes = b.data.view(torch.uint8).clone()
        codes[7, 130] = 0x7F
        poisoned = multiply(a, replace(b, data=codes.view(b.data.dtype)), out_dtype=F32)
        assert bool(poisoned[:, 7].isnan().all())
        others = torch.arange(n, device=device) != 7
        assert_product(
            poisoned[:, others],
            Expected(clean[:, others].double(), 2.0**-18 * clean[:, others].double().abs() + 2.0**-10, F32),
        )

    @pytest.mark.parametrize(
        ("a_name", "b_name"),
        [("int8_row", "int8_row"), ("int8_tensor", "int8_row"), ("e4m3_row", "e4m3_row"), ("e4m3_tensor", "e5m2_row")],
    )
    def test_float32_scales_of_any_size(self, device: torch.device, a_name: str, b_name: str) -> None:
        """Zero, NaN, and scales far from 1 with 24 bits each, on either side, among usual ones."""
        m, n, k = 40, 70, 160
        for of_a, of_b in ((1.2345e14, 3.21e-14), (7.7e-19, 1.0), (0.0, 1.0), (1.0, 0.0), (3.3e-30, 1.1e30)):
            a, b = operands(a_name, b_name, m, n, k, device, exact=True)
            a, b = _with_last_scale(a, of_a), _with_last_scale(b, of_b)
            assert_product(multiply(a, b, out_dtype=F32), expected(a, b, out_dtype=F32), f"{of_a} {of_b}")
        a, b = operands(a_name, b_name, m, n, k, device, exact=True)
        actual = multiply(a, _with_last_scale(b, math.nan), out_dtype=F32)
        assert bool(actual[:, -1].isnan().all())
        assert bool(actual[:, :-1].isfinite().all())

    @pytest.mark.parametrize("b_name", ["e4m3_1x128", "e4m3_128x128", "int8_row"])
    def test_no_k_has_no_scales(self, device: torch.device, b_name: str) -> None:
        a_name = "int8_row" if b_name == "int8_row" else "e4m3_1x128"
        a, b = operands(a_name, b_name, 11, 33, 0, device)
        bias = torch.arange(33.0, device=device)
        assert torch.equal(multiply(a, b, bias, out_dtype=F32), bias.expand(11, 33))


def _with_last_scale(operand: Scaled, value: float) -> Scaled:
    assert operand.scale is not None
    scale = operand.scale.clone().reshape(-1, 1)
    scale[-1] = value
    return replace(operand, scale=scale.view(operand.scale.shape), scales=scale.double())


def _scales_of(operand: Scaled):  # type: ignore[no-untyped-def]
    bytes_ = operand.scale.view(torch.uint8).double()
    return torch.exp2(bytes_ - 127).repeat_interleave(32, 1)
